"""docs/paper-map.md and the source agree: every name exists, every deviation has a row, every row a deviation."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).resolve().parents[2]
_SOURCE = _REPOSITORY / "src" / "transduce"
_PAGES = [_REPOSITORY / "README.md", *sorted((_REPOSITORY / "docs").rglob("*.md"))]
_MAP = (_REPOSITORY / "docs" / "paper-map.md").read_text(encoding="utf-8")

_REFERENCE = re.compile(r"`([\w/]+\.py):([\w.]+)`")
_ROW = re.compile(r"^\| \d+ \| `([\w/]+\.py)` \| \"(.+?)\" \|", re.MULTILINE)


@cache
def names_in(path: Path) -> set[str]:
    """Returns what a module defines: `function`, `Class`, `Class.method`, `CONSTANT`."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{child.name}" for child in node.body if isinstance(child, ast.FunctionDef)}
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


@cache
def markers() -> list[tuple[str, str]]:
    """Returns (file, the words after it) for each `DEVIATION:` in the source, white space squeezed."""
    found = []
    for path in sorted(_SOURCE.rglob("*.py")):
        text = " ".join(path.read_text(encoding="utf-8").split())
        found += [
            (str(path.relative_to(_SOURCE)), text[match.end() : match.end() + 200].strip())
            for match in re.finditer(r"DEVIATION:", text)
        ]
    return found


REFERENCES = sorted({(page, *match) for page in _PAGES for match in _REFERENCE.findall(page.read_text("utf-8"))})


@pytest.mark.parametrize(("page", "file", "symbol"), REFERENCES, ids=lambda value: getattr(value, "stem", value))
def test_symbol_exists(page: Path, file: str, symbol: str) -> None:
    assert (_SOURCE / file).is_file(), f"{page.name}: there is no {file}"
    assert symbol in names_in(_SOURCE / file), f"{page.name}: {file} has no {symbol}"


def test_the_map_names_symbols() -> None:
    assert sum(page.name == "paper-map.md" for page, _, _ in REFERENCES) > 30


def test_each_deviation_has_its_row_and_each_row_its_deviation() -> None:
    rows = _ROW.findall(_MAP)
    assert len(rows) == len(re.findall(r"^\| \d+ \|", _MAP, re.MULTILINE)), "a row is not written as the others"
    assert all(len(excerpt.split()) >= 4 for _, excerpt in rows)
    unlisted = [
        f"{file}: DEVIATION: {words[:60]}…"
        for file, words in markers()
        if [row for row in rows if row[0] == file and words.startswith(row[1])] == []
    ]
    assert not unlisted, "add a row to docs/paper-map.md for each"
    stale = [row for row in rows if sum(file == row[0] and words.startswith(row[1]) for file, words in markers()) != 1]
    assert not stale, "these rows of docs/paper-map.md have no DEVIATION in the source, or more than one"


def test_configuration_keys_exist() -> None:
    from transduce.config import Config, to_dict

    values = to_dict(Config())
    for section, key in re.findall(r"`(model|text|data|train|decode)\.(\w+)(?:=[^`]*)?`", _MAP):
        assert key in values[section], f"docs/paper-map.md: there is no {section}.{key}"
