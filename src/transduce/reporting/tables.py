"""Tables and numbers for reports and messages."""

import math
import re
from collections.abc import Sequence

_CELL_BORDER = re.compile(r"(?<!\\)\|")


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, text_columns: int = 1) -> str:
    """Returns a Markdown table: the first `text_columns` columns left-aligned, the others (numbers) right-aligned."""
    lines = [[cell.replace("|", "\\|") for cell in line] for line in (header, *rows)]
    lines.insert(1, ["---" if column < text_columns else "---:" for column in range(len(header))])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def aligned(text: str) -> str:
    """Returns a Markdown text with the columns of its tables padded to equal width, for a terminal."""
    lines = text.split("\n")
    begin = 0
    while begin < len(lines):
        end = begin
        while end < len(lines) and lines[end].startswith("| "):
            end += 1
        lines[begin:end] = _padded(lines[begin:end])
        begin = end + 1
    return "\n".join(lines)


def _padded(lines: list[str]) -> list[str]:
    rows = [[cell.strip() for cell in _CELL_BORDER.split(line.strip())[1:-1]] for line in lines]
    if len(rows) < 2 or len({len(row) for row in rows}) != 1 or not all(set(cell) <= set("-:") for cell in rows[1]):
        return lines  # no table
    columns = []
    for name, rule, *cells in zip(*rows, strict=True):
        width, right = max(map(len, (name, rule, *cells))), rule.endswith(":")
        line = ":".rjust(width, "-") if right else "-" * width
        columns.append([cell.rjust(width) if right else cell.ljust(width) for cell in (name, line, *cells)])
    return [f"| {' | '.join(row)} |" for row in zip(*columns, strict=True)]


def counted(number: int, noun: str, plural: str = "") -> str:
    """Returns `1 line`, `2 lines` or `12,000 lines`; pass the plural if it is irregular."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def short(value: float) -> str:
    """Returns a number with three significant digits: 1.23, 0.0451, 1.2e-07, 12,300."""
    if value == 0:
        return "0"
    if not 1e-3 <= abs(value) < 1e6:
        return f"{value:.1e}"
    rounded = float(f"{value:.3g}")  # 99.96 is 100, which has no decimals
    digits = 2 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(0, digits)}f}"


def seconds(value: float) -> str:
    """Returns a time in a suitable unit: 12.3 µs, 4.56 ms, 1.23 s."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{short(value / size)} {unit}"
    return f"{short(value / 1e-6)} µs"


def clock(seconds: float) -> str:
    """Returns a long time as hours, minutes and seconds: 1:05:09."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


def mebibytes(value: float) -> str:
    """Returns a number of bytes in MiB."""
    return f"{short(value / 2**20)} MiB"
