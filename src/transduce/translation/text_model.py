"""What the stages of a translation need of a model."""

from collections.abc import Sequence
from typing import Protocol

from transduce.bundle import Bundle
from transduce.engines.interface import Engine
from transduce.text import SubwordTokenizer


class TextModel(Protocol):
    """An engine with its tokenizer, such as a `Translator`."""

    engine: Engine
    tokenizer: SubwordTokenizer
    bundle: Bundle | None  # the model folder, if it came from one


def languages_of(model: TextModel) -> tuple[str, str]:
    """Returns the codes of the source and the target language; "" where they are not known."""
    if model.bundle is None:
        return "", ""
    data = model.bundle.config.data
    return data.source_language, data.target_language


def encode_lines(tokenizer: SubwordTokenizer, lines: Sequence[str]) -> list[list[int]]:
    """Returns the token ids of each line; a line of white space has none."""
    encoded = tokenizer.encode_batch([line if line.strip() else "" for line in lines])
    return [ids if line.strip() else [] for line, ids in zip(lines, encoded, strict=True)]
