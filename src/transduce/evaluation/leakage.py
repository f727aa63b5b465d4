"""Leakage: lines of a test set that are also in the training data, so that a model may have memorised them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from transduce.evaluation.texts import Text
from transduce.reporting.tables import counted
from transduce.text.known_lines import KnownLines, is_long

_BLOCK_LINES = 4096


def leakage_warnings(texts: Sequence[Text], training: Mapping[str, Iterable[str]]) -> list[str]:
    """Returns warnings for each text with lines that are in the training data, and with near-copies there.

    Case, punctuation, spaces and the Unicode form do not count (`text/known_lines.py`). The training data is read once,
    line by line. Only `texts` are held in memory.

    Args:
        texts: the source and the references of a test set.
        training: lines by file name, of either language. Each tab-separated column of a line is compared.
    """
    tested = [line for line in dict.fromkeys(line for text in texts for line in text.lines) if is_long(line)]
    known = KnownLines()
    known.add(tested)
    same_at: dict[int, str] = {}  # the first place in the training data, by the number of the known line
    near_at: dict[int, str] = {}
    for name, lines in training.items():
        for numbers, columns in _blocks(lines):
            matches = known.find(columns)
            for index in np.flatnonzero(matches.known >= 0).tolist():
                found_at = same_at if matches.same[index] else near_at
                found_at.setdefault(int(matches.known[index]), f"line {numbers[index]} of {name}")
    first_same: list[int] = known.find(tested).known.tolist()  # of lines that are the same, the first is found
    number_of = dict(zip(tested, first_same, strict=True))
    warnings = []
    for text in texts:
        known_lines = [(i, number_of[line]) for i, line in enumerate(text.lines, start=1) if line in number_of]
        leaked = [(i, same_at[number]) for i, number in known_lines if number in same_at]
        near = [(i, near_at[number]) for i, number in known_lines if number in near_at and number not in same_at]
        if leaked:
            warnings.append(
                f"{text.name}: the training data has {counted(len(leaked), 'line')} of it "
                f"({len(leaked) / len(text.lines):.1%}); line {leaked[0][0]} is {leaked[0][1]}. The "
                "model may have memorised them, so the score says little about new text. Remove such lines from the "
                "test set, or from the training data (data.drop_leaked)."
            )
        if near:
            warnings.append(
                f"{text.name}: the training data has near-copies of {counted(len(near), 'line')} of it "
                f"({len(near) / len(text.lines):.1%}), in which one word differs; line {near[0][0]} resembles "
                f"{near[0][1]}. Some may be sentences of their own. data.drop_near_copies drops them from the training "
                "data."
            )
    return warnings


def _blocks(lines: Iterable[str]) -> Iterator[tuple[list[int], list[str]]]:
    """Yields the columns of some lines at a time, and the line number of each."""
    numbered = enumerate(lines, start=1)
    while block := list(islice(numbered, _BLOCK_LINES)):
        columns = [(number, column) for number, line in block for column in line.split("\t")]
        yield [number for number, _ in columns], [column for _, column in columns]
