"""CSV: cells are translated, those of all columns or of some; numbers, codes, dates and formulas are copied."""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

from transduce.errors import ConfigError, naming
from transduce.translation.documents.languages import Languages
from transduce.translation.documents.messages import message_pieces
from transduce.translation.documents.parts import Content
from transduce.translation.documents.segments import Piece, SegmentError, has_words
from transduce.translation.documents.text_encoding import decode

ALL = "*"  # among the columns: the first line is translated like the others
NAMES_COPIED = (
    "its first line was taken for the names of its columns, and copied. To translate it too, choose the columns '*'."
)
NAMES_UNKNOWN = (
    "its first line was translated like the others. If it has the names of the columns, choose columns: it stays then."
)
_ROWS_READ = 20  # below the first line, by which it is known whether that has the names of the columns
_DELIMITERS = ",;\t|"
_HEAD_CHARACTERS, _HEAD_LINES = 1 << 14, 10  # by which the delimiter is known
_DIRECTIVE = re.compile(r"sep=(?P<sign>[^\w\"\r\n])(?:\r?\n|\r|\Z)", re.IGNORECASE)  # a first line for Excel
# A date with a time, a number of an article, a colour: a single word of ASCII with a digit. Or a formula.
_CODE = re.compile(r"\s*+(?:(?=[!-/:-~]*+\d)[!-~]++\s*+\Z|=)")


def columns_of(names: str) -> tuple[str, ...]:
    """Returns the columns that an option names, with commas between them."""
    return tuple(each.strip() for each in names.split(",") if each.strip())


def is_code(cell: str) -> bool:
    """Returns whether a cell of a table has no prose."""
    return _CODE.match(cell) is not None


def read_csv(data: bytes, name: str, _: Languages, columns: Sequence[str] = ()) -> Content:
    """Reads a CSV file.

    Args:
        data: the file; its cells are separated by ",", ";", tabs or "|", or by what a line "sep=;" before them names.
        name: of the file, for errors; of one that ends in ".tsv", tabs separate the cells.
        columns: what the first line calls those that are translated, or their numbers from 1; the first line is then
            copied, unless `ALL` is among them. All if there are none, or only `ALL`. If there are none, the first line
            is copied where it seems to have the names of the columns, with a remark.

    Raises:
        ConfigError: there is no such column.
        DataError: it is not text.
    """
    decoded = decode(data, name)
    directive = _DIRECTIVE.match(decoded.text)
    delimiter, start = (directive["sign"], directive.end()) if directive else (_delimiter(decoded.text, name), 0)
    cells = _cells(decoded.text, delimiter, start)
    names = [each for each in columns if each != ALL]
    has_names, remark = ALL not in columns, ""
    with naming(name):
        first = _first_rows(_cells(decoded.text, delimiter, start), delimiter)
        if not columns:
            has_names, remark = _has_names(first)
        indices = _indices(name, first[0] if first else [], names) if names else None
    copied = "".join(_first_line(cells, delimiter)) if has_names else ""
    return Content(decoded.encode, chain([decoded.text[:start], copied], _pieces(cells, delimiter, indices)), remark)


def _first_line(cells: Iterator[tuple[str, str]], delimiter: str) -> Iterator[str]:
    """Yields the cells of the first line as they are written, with what is between them."""
    for cell, end in cells:
        yield cell
        yield end
        if not end.endswith(delimiter):
            return


def _first_rows(cells: Iterator[tuple[str, str]], delimiter: str) -> list[list[str]]:
    """Returns the texts of the first lines; later ones that are empty are left out."""
    rows: list[list[str]] = []
    while len(rows) <= _ROWS_READ and (written := list(_first_line(cells, delimiter))):
        row = [_characters(cell).strip() for cell in written[::2]]
        if any(row) or not rows:
            rows.append(row)
    return rows


def _has_names(rows: Sequence[Sequence[str]]) -> tuple[bool, str]:
    """Returns whether the first line has the names of the columns, and what is to be said of that.

    It may have if its cells differ and have no numbers. It has if there are only numbers and codes below a name, or if
    the names are single words and all cells below one have several: "sku,text", "A-17,a black dog".
    """
    names, *others = rows or [[]]
    prose = [name for name in names if name]
    differ = len(set(names)) == len(names)
    if not others or not differ or any(is_code(name) or not has_words(name) for name in prose):
        return False, ""
    below = [[row[i] for row in others if i < len(row) and row[i]] for i in range(len(names))]
    are_codes = any(cells and all(is_code(cell) or not has_words(cell) for cell in cells) for cells in below)
    are_longer = any(cells and all(len(cell.split()) > 1 for cell in cells) for cells in below)
    if are_codes or (are_longer and all(len(name.split()) == 1 for name in prose)):
        return True, NAMES_COPIED
    return False, NAMES_UNKNOWN


def _delimiter(text: str, name: str) -> str:
    """Returns the sign that the first lines have equally often, or else the first most often; in TSV a tab."""
    if name.lower().endswith(".tsv") and "\t" in text:
        return "\t"
    lines = re.sub(r'"(?:[^"]|"")*+"', "", text[:_HEAD_CHARACTERS]).strip().splitlines()[:_HEAD_LINES] or [""]

    def key(sign: str) -> tuple[bool, int]:
        counts = [line.count(sign) for line in lines if line]
        return bool(counts) and min(counts) == max(counts) > 0, lines[0].count(sign)

    return max(_DELIMITERS, key=key)


def _indices(name: str, heading: Sequence[str], columns: Sequence[str]) -> frozenset[int]:
    """Returns the indices of columns: of a name that several have, all of them."""
    numbers = [str(i + 1) for i in range(len(heading))]
    names = {each: heading if each in heading else numbers for each in columns}
    found = {each: [i for i, own in enumerate(known) if own == each] for each, known in names.items()}
    if missing := [each for each, indices in found.items() if not indices]:
        raise ConfigError(f"{name}: has no column {missing[0]!r}. Its columns are: {', '.join(heading)}.")
    return frozenset(chain.from_iterable(found.values()))


def _cells(text: str, delimiter: str, position: int) -> Iterator[tuple[str, str]]:
    """Yields the cells from a position on as they are written, and what ends each: the delimiter, or the line's end."""
    sign, spaces = re.escape(delimiter), "" if delimiter == " " else " *"  # after a cell in quotation marks
    end = rf"{spaces}(?:{sign}|\r?\n|\r|\Z)"
    pattern = re.compile(rf'(?P<cell>"(?:[^"]|"")*+"(?={end})|[^{sign}\r\n]*+)(?P<end>{end})')
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
        column = column + 1 if end.endswith(delimiter) else 0


def _characters(cell: str) -> str:
    return cell[1:-1].replace('""', '"') if cell.startswith('"') and cell.endswith('"') and len(cell) > 1 else cell


def _written(delimiter: str, cell: str, text: str) -> str:
    """Returns a translation as the cell was, or between quotation marks if it needs them."""
    needs = text.startswith('"') or any(each in text and each not in cell for each in (delimiter, '"', "\n", "\r"))
    if cell.startswith('"') or needs:
        return '"' + text.replace('"', '""') + '"'
    return text
