"""Fills the tables of README.md and benchmarks/README.md from result files.

    python benchmarks/measured.py            writes the tables of `measured.toml` into their pages
    python benchmarks/measured.py --check    exits with 1 where a page is not what the result files say

A table stands between two comments, `<!-- measured: NAME -->` and `<!-- end -->`. In a cell,
`{FILE:KEY>KEY:FORMAT}` is a figure of a JSON file, such as `{benchmarks/results/x.json:rows>0>seconds:.2f}`.
`{FILE:KEY ÷ KEY:FORMAT}` is the quotient of two figures, and `{FILE:KEY ÷ 1e6:FORMAT}` divides by a number. The key of
a list is an index, or `field=value` for all such rows; `,` joins several such conditions. A key with `*` matches
several, too. The figure is the mean of all that match; `{FILE:median KEY:FORMAT}` is their median. `text` is the number
of columns, from the left, that hold words. In a row of the README that prints two figures and their ratio, the ratio is
the quotient of these figures (`tests/docs/test_measured_tables.py`).
"""

import argparse
import fnmatch
import functools
import json
import re
import statistics
import sys
import tomllib
from pathlib import Path
from typing import Any

from transduce.reporting.tables import table

REPOSITORY = Path(__file__).resolve().parents[1]
_FIGURE = re.compile(r"\{([^{}:]+):([^{}]+):([^{}:]*)\}")


@functools.cache
def _result(file: str) -> Any:
    return json.loads((REPOSITORY / file).read_text(encoding="utf-8"))


def value(file: str, path: str) -> float:
    """Returns the number at `path` of a result file: where `path` matches several, their mean, or after "median" that.

    Raises:
        KeyError: there is no such key or row.
    """
    found = [_result(file)]
    summary = statistics.median if path.startswith("median ") else statistics.fmean
    for key in path.removeprefix("median ").split(">"):
        found = [each for parent in found for each in _children(parent, key)]
        if not found:
            raise KeyError(f"{file}: {path}: no {key}")
    return float(summary([float(number) for number in found]))


def _children(parent: Any, key: str) -> list[Any]:
    if isinstance(parent, dict):
        return [parent[name] for name in parent if fnmatch.fnmatchcase(name, key)]
    if key == "*":
        return list(parent)
    if key.isdigit():
        return [parent[int(key)]]
    wanted = dict(part.split("=") for part in key.split(","))
    return [row for row in parent if all(str(row[name]) == text for name, text in wanted.items())]


def _divisor(file: str, text: str) -> float:
    return float(text) if re.fullmatch(r"[\d.e]+", text) else value(file, text)


def filled(cell: str) -> str:
    """Returns a cell with its figures."""

    def figure(match: re.Match[str]) -> str:
        file, path, form = match.groups()
        first, _, second = path.partition(" ÷ ")
        number = value(file, first) / (_divisor(file, second) if second else 1.0)
        return format(round(number) if form == "," else number, form)

    return _FIGURE.sub(figure, cell)


def page(text: str, tables: dict[str, str]) -> str:
    """Returns the page with its tables replaced.

    Raises:
        KeyError: the page names a table that `tables` lacks.
    """

    def replaced(match: re.Match[str]) -> str:
        return f"<!-- measured: {match[1]} -->\n\n{tables[match[1]]}\n\n<!-- end -->"

    return re.sub(r"<!-- measured: ([\w-]+) -->\n.*?<!-- end -->", replaced, text, flags=re.DOTALL)


def main(arguments: list[str] | None = None) -> int:
    """Writes or checks the pages, and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args(arguments).check
    declared = tomllib.loads((REPOSITORY / "benchmarks/measured.toml").read_text(encoding="utf-8"))
    tables = {
        name: table(
            each["columns"], [[filled(cell) for cell in row] for row in each["rows"]], text_columns=each["text"]
        )
        for name, each in declared.items()
    }
    stale = []
    for name in ("README.md", "benchmarks/README.md"):
        path = REPOSITORY / name
        text = path.read_text(encoding="utf-8")
        if (new := page(text, tables)) != text:
            stale.append(name)
            if not check:
                path.write_text(new, encoding="utf-8")
    if stale:
        print(f"{'not what the result files say' if check else 'written'}: {', '.join(stale)}", file=sys.stderr)
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
