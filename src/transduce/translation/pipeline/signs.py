"""Signs: quotes, dashes and spaces that the vocabulary lacks are written as those that it has.

Word processors and web pages write curly quotes, narrow spaces and long dashes. Where the training text had none, the
model reads each as single bytes, or as an unknown piece, and the sentence around it often goes wrong.

Nothing changes the length of a text here: spans of characters stay right.
"""

from collections.abc import Sequence

from transduce.text import Tokenizer
from transduce.text.signs import ANY_SIGN, SIGNS
from transduce.translation.pipeline.markup import Notation, scan


def with_known_signs(lines: Sequence[str], tokenizer: Tokenizer, notation: Notation) -> Sequence[str]:
    """Returns the lines with signs that the vocabulary has; markup and items such as addresses stay as they are.

    Args:
        lines: sources.
        tokenizer: of the model's sources.
        notation: that of the markup of the lines.
    """
    if not any(map(ANY_SIGN.search, lines)):
        return lines
    table = _instead(tokenizer)
    return [_written(line, table, notation) for line in lines]


def _instead(tokenizer: Tokenizer) -> dict[int, str]:
    """Returns what is written for each sign that the vocabulary lacks."""
    known, table = tokenizer.characters, dict[int, str]()
    for signs, usual in SIGNS:
        best = next((sign for sign in usual if sign in known), next(filter(str.isascii, usual)))
        table |= {ord(sign): best for sign in signs if sign not in known}
    return table


def _written(line: str, table: dict[int, str], notation: Notation) -> str:
    written = line.translate(table)
    if written == line:
        return line
    parts, at = [], 0
    for kept in scan(line, notation):
        parts += [written[at : kept.start], line[kept.start : kept.end]]
        at = kept.end
    return "".join([*parts, written[at:]])
