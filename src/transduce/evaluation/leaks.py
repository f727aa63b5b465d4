"""Test lines that a model may have learned by heart: those that stand in its training data."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transduce.evaluation.report import Text

TELLING_BYTES = 16  # shorter lines ("Thank you.") are common property; the data doctor draws the same line


def doubts_about_leaks(texts: Sequence["Text"], training: Mapping[str, Iterable[str]]) -> list[str]:
    """Returns a warning for each text with lines that stand in the training data, white space at the ends aside.

    The training data is read once, line by line; memory holds the texts alone.

    Args:
        texts: a test set's source and references.
        training: lines by the name of their file, of either language. Each tab-separated column of a line is looked at.
    """
    places: dict[str, str] = {line: "" for text in texts for line in _telling(text.lines)}
    for name, lines in training.items():
        for number, line in enumerate(lines, start=1):
            for column in line.split("\t"):
                if places.get(column.strip()) == "":
                    places[column.strip()] = f"line {number} of {name}"
    doubts = []
    for text in texts:
        stripped = [line.strip() for line in text.lines]
        leaked = [number for number, line in enumerate(stripped, start=1) if places.get(line)]
        if leaked:
            which = "1 line stands" if len(leaked) == 1 else f"{len(leaked)} lines stand"
            doubts.append(
                f"{text.name}: {which} in the training data ({len(leaked) / len(stripped):.1%}; line {leaked[0]} is "
                f"{places[stripped[leaked[0] - 1]]}). A score on what a model has learned says little of what it will "
                "do with new text: leave such lines out of the test, or out of the training (data.drop_leaked)."
            )
    return doubts


def _telling(lines: Iterable[str]) -> list[str]:
    return [line.strip() for line in lines if len(line.strip().encode()) >= TELLING_BYTES]
