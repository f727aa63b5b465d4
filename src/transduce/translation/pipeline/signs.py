"""Signs that the vocabulary lacks are written as those that it has: quotes, dashes, spaces, accents in two parts.

Word processors, PDF files and web pages write curly quotes, narrow spaces, long dashes, soft hyphens, and "é" as an "e"
with an accent after it. Where the training text had none, the model reads each as single bytes, or as an unknown piece,
and the sentence around it often goes wrong.
"""

import html
import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass, replace

from transduce.text import Tokenizer
from transduce.text.signs import ACCENTS, SIGNS, SPACES
from transduce.translation.pipeline.markup import Notation, scan
from transduce.translation.result import Results, SpanPair
from transduce.translation.windows import Window

# White space stays at both ends of a line, where there are several, and a tab at the end of a clause: it is layout.
_SIGN = "|".join(
    (
        rf"(?<=\S)[{SPACES}](?=\S)",
        r"(?<=[^\s.,:;!?])\t(?=\S)",
        f"[{re.escape(''.join(signs for signs, _ in SIGNS if SPACES not in signs))}]",
        rf"[^\s{ACCENTS}][{ACCENTS}]+",
    )
)
_INSTEAD = {sign: usual for signs, usual in SIGNS for sign in signs}
_PLAIN = re.compile(_SIGN)
_HTML = re.compile(rf"{_SIGN}|&(?:#\d{{2,6}}|#[xX][0-9a-fA-F]{{2,5}}|[A-Za-z]{{3,7}});")


def with_known_signs(line: str, tokenizer: Tokenizer) -> str:
    """Returns a line of plain text as `TextOptions.signs` has it read."""
    return Signs(Window(1, [line]), tokenizer, "placeholders").removed().lines[0]


@dataclass(frozen=True, slots=True)
class _Read:
    """A line as the model reads it."""

    text: str
    starts: list[int]  # where in the line each character of the text begins, and the end of the line


class Signs:
    """The rare signs of some lines. Markup, and items such as addresses, stay as they are."""

    def __init__(self, window: Window, tokenizer: Tokenizer, notation: Notation) -> None:
        """Finds the lines with signs that the vocabulary lacks.

        Args:
            window: the lines.
            tokenizer: of the model's sources.
            notation: that of the markup of the lines.
        """
        self._window = window
        pattern = _HTML if notation == "html" else _PLAIN
        rare = [index for index, line in enumerate(window.lines) if pattern.search(line)]
        known = tokenizer.characters if rare else frozenset()
        read = {index: _read(window.lines[index], known, pattern, notation) for index in rare}
        self._read = {index: each for index, each in read.items() if each.text != window.lines[index]}

    @property
    def lines(self) -> list[int]:
        """The indices of these lines."""
        return list(self._read)

    def removed(self) -> Window:
        """Returns the lines with signs that the vocabulary has."""
        if not self._read:
            return self._window
        lines = list(self._window.lines)
        for index, each in self._read.items():
            lines[index] = each.text
        return replace(self._window, lines=lines)

    def restored(self, results: Results) -> Results:
        """Returns the translations with spans of their sources as those were given."""
        moved = list(results)
        for index, read in self._read.items():
            moved[index] = [
                replace(
                    best, sentences=_moved(best.sentences, read.starts), alignment=_moved(best.alignment, read.starts)
                )
                for best in results[index]
            ]
        return moved


def _read(line: str, known: frozenset[str], pattern: re.Pattern[str], notation: Notation) -> _Read:
    kept = [(found.end, found.start) for found in scan(line, notation)]
    parts, starts, at = list[str](), list[int](), 0
    for match in pattern.finditer(line):
        start, end = match.span()
        last, begin = kept[index] if (index := bisect_right(kept, (start, end))) < len(kept) else (end, end)
        if begin < end and (begin, last) != (start, end):
            continue
        written = _written(match[0], known)
        parts += [line[at:start], written]
        starts += [*range(at, start), *([start] * len(written))]
        at = end
    return _Read("".join([*parts, line[at:]]), [*starts, *range(at, len(line) + 1)])


def _written(rare: str, known: frozenset[str]) -> str:
    """Returns what is written for a sign, for the entity of one, or for a letter with its accents."""
    if rare.startswith("&"):
        character = html.unescape(rare)
        is_sign = character in _INSTEAD and character not in SPACES
        return rare if not is_sign or character in known else _written(character, known)
    if known.issuperset(rare):
        return rare
    if len(rare) > 1:
        return unicodedata.normalize("NFC", rare)
    usual = _INSTEAD[rare]
    return next((each for each in usual if each and known.issuperset(each)), next(filter(str.isascii, usual)))


def _moved(pairs: tuple[SpanPair, ...], starts: list[int]) -> tuple[SpanPair, ...]:
    """Returns the spans in the line as it was given: where a sign became several characters, each is all of it."""
    return tuple(((starts[start], _end(starts, start, end)), target) for (start, end), target in pairs)


def _end(starts: list[int], start: int, end: int) -> int:
    return starts[bisect_right(starts, starts[end - 1])] if end > start else starts[end]
