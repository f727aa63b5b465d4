"""What the stages of a translation need of a model."""

from collections.abc import Sequence
from typing import Protocol

from transduce.bundle import Bundle
from transduce.decoding.scores import Hypothesis
from transduce.engines.interface import Engine
from transduce.text import Tokenizer
from transduce.translation.result import Translation


class TextModel(Protocol):
    """An engine with its tokenizer, such as a `Translator`."""

    engine: Engine
    tokenizer: Tokenizer
    bundle: Bundle | None  # the model folder, if it came from one


def translation_of(
    model: TextModel, source: str, source_ids: Sequence[int], found: Hypothesis, text: str
) -> Translation:
    """Returns what a search found as a translation.

    Args:
        model: which searched.
        source: what it read.
        source_ids: its tokens; a source of white space has none.
        found: the tokens that were found.
        text: these, decoded.
    """
    text = text.replace("\n", " ")
    return Translation(
        text=text,
        score=found.score,
        log_probability=found.log_probability,
        tokens=tuple(model.tokenizer.target.pieces(found.ids)),
        finished=found.finished,
        source_truncated=len(source_ids) > model.engine.max_source_tokens,
        ids=tuple(found.ids),
        sentences=(((0, len(source)), (0, len(text))),) if source_ids else (),
    )


def encode_lines(tokenizer: Tokenizer, lines: Sequence[str]) -> list[list[int]]:
    """Returns the token ids of each line; a line of white space has none."""
    encoded = tokenizer.encode_batch([line if line.strip() else "" for line in lines])
    return [ids if line.strip() else [] for line, ids in zip(lines, encoded, strict=True)]
