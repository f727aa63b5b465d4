"""All lists of document formats have all formats: the guide's table and the description of the HTTP interface."""

import json
import re
from importlib.resources import files
from pathlib import Path

from transduce.translation.documents.formats import FORMATS

_GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "documents-and-files.md"
_OPENAPI = files("transduce.serve.web") / "openapi.json"


def test_the_guide_has_a_row_for_each_format_with_its_extensions() -> None:
    _, _, table = _GUIDE.read_text(encoding="utf-8").partition("| `--format` | extensions |")
    found = {}
    for row in table.partition("\n\n")[0].splitlines()[2:]:
        names, extensions = (re.findall(r"`([^`]+)`", cell) for cell in row.split("|")[1:3])
        found |= dict.fromkeys(names, extensions)
    assert sorted(found) == sorted(FORMATS)
    for name, extensions in found.items():
        assert set(FORMATS[name].extensions) <= set(extensions), name


def test_the_description_of_the_interface_lists_each_format() -> None:
    described = json.loads(_OPENAPI.read_text(encoding="utf-8"))
    lists = [each["enum"] for each in described["components"]["schemas"].values() if "docx" in each.get("enum", ())]
    assert lists == [list(FORMATS)]
