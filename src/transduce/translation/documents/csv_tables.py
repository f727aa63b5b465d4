"""CSV: cells are translated, those of all columns or of some; numbers, codes, dates and formulas are copied."""

import re
from collections.abc import Iterator, Sequence
from functools import partial

from transduce.errors import ConfigError
from transduce.translation.documents.languages import Languages
from transduce.translation.documents.messages import message_pieces
from transduce.translation.documents.parts import Content
from transduce.translation.documents.segments import Piece, SegmentError
from transduce.translation.documents.text_encoding import decode

_DELIMITERS = ",;\t|"
_HEAD_CHARACTERS, _HEAD_LINES = 1 << 14, 10  # by which the delimiter is known
# A date with a time, a number of an article, a colour: a single word of ASCII with a digit. Or a formula.
_CODE = re.compile(r"\s*(?:[!-~]*\d[!-~]*\s*\Z|=)")


def columns_of(names: str) -> tuple[str, ...]:
    """Returns the columns that an option names, with commas between them."""
    return tuple(each.strip() for each in names.split(",") if each.strip())


def is_code(cell: str) -> bool:
    """Returns whether a cell of a table has no prose."""
    return _CODE.match(cell) is not None


def read_csv(data: bytes, name: str, _: Languages, columns: Sequence[str] = ()) -> Content:
    """Reads a CSV file.

    Args:
        data: the file; its cells are separated by ",", ";", tabs or "|".
        name: of the file, for errors.
        columns: what the first line calls those that are translated, or their numbers from 1; the first line is then
            copied. All, with the first line, if there are none.

    Raises:
        ConfigError: there is no such column.
        DataError: it is not text.
    """
    decoded = decode(data, name)
    delimiter = _delimiter(decoded.text)
    cells = _cells(decoded.text, delimiter)
    if not columns:
        return Content(decoded.encode, _pieces(cells, delimiter, None))
    heading: list[str] = []
    original = ""
    for cell, end in cells:
        heading.append(_characters(cell).strip())
        original += cell + end
        if end != delimiter:
            break
    return Content(decoded.encode, _with_heading(original, _pieces(cells, delimiter, _chosen(name, heading, columns))))


def _delimiter(text: str) -> str:
    """Returns the sign that the first lines have equally often, or else the first line most often."""
    lines = re.sub(r'"(?:[^"]|"")*+"', "", text[:_HEAD_CHARACTERS]).strip().splitlines()[:_HEAD_LINES] or [""]

    def key(sign: str) -> tuple[bool, int]:
        counts = [line.count(sign) for line in lines if line]
        return bool(counts) and min(counts) == max(counts) > 0, lines[0].count(sign)

    return max(_DELIMITERS, key=key)


def _chosen(name: str, heading: Sequence[str], columns: Sequence[str]) -> frozenset[int]:
    """Returns the indices of columns."""
    numbers = {str(i + 1): i for i in range(len(heading))} | {each: i for i, each in enumerate(heading)}
    if missing := [each for each in columns if each not in numbers]:
        raise ConfigError(f"{name}: has no column {missing[0]!r} (--columns). Its columns are: {', '.join(heading)}.")
    return frozenset(numbers[each] for each in columns)


def _with_heading(heading: str, pieces: Iterator[Piece]) -> Iterator[Piece]:
    yield heading
    yield from pieces


def _cells(text: str, delimiter: str) -> Iterator[tuple[str, str]]:
    """Yields cells as they are written, each with what ends it: the delimiter, or the end of a line."""
    sign = re.escape(delimiter)
    pattern = re.compile(rf'(?P<cell>"(?:[^"]|"")*+"(?={sign}|[\r\n]|\Z)|[^{sign}\r\n]*+)(?P<end>{sign}|\r?\n|\r|\Z)')
    position = 0
    while position < len(text) and (match := pattern.match(text, position)) is not None:
        if match["cell"].startswith('"') and match["cell"].count('"') % 2:
            line = text.count("\n", 0, position) + 1
            raise SegmentError(f"line {line}: a cell begins with a quotation mark, which nothing ends. Correct it.")
        yield match["cell"], match["end"]
        position = match.end()


def _pieces(cells: Iterator[tuple[str, str]], delimiter: str, chosen: frozenset[int] | None) -> Iterator[Piece]:
    column = 0
    for cell, end in cells:
        text = _characters(cell)
        if (chosen is None or column in chosen) and not is_code(text):
            yield from message_pieces(text, cell, partial(_written, delimiter, cell))
        else:
            yield cell
        yield end
        column = column + 1 if end == delimiter else 0


def _characters(cell: str) -> str:
    return cell[1:-1].replace('""', '"') if cell.startswith('"') and cell.endswith('"') and len(cell) > 1 else cell


def _written(delimiter: str, cell: str, text: str) -> str:
    """Returns a translation as the cell was, or between quotation marks if it needs them."""
    needs = text.startswith('"') or any(each in text and each not in cell for each in (delimiter, '"', "\n", "\r"))
    if cell.startswith('"') or needs:
        return '"' + text.replace('"', '""') + '"'
    return text
