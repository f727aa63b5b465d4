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


def encode_lines(tokenizer: SubwordTokenizer, lines: Sequence[str]) -> list[list[int]]:
    """Returns the token ids of each line; a line of white space has none."""
    encoded = tokenizer.encode_batch([line if line.strip() else "" for line in lines])
    return [ids if line.strip() else [] for line, ids in zip(lines, encoded, strict=True)]
