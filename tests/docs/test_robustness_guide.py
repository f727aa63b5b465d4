"""The guide of robustness has all modifiers and all versions, as the code has them."""

import re
from pathlib import Path

from transduce.config.modifiers import MODIFIERS
from transduce.data.modifiers.perturbations import versions

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "robustness.md").read_text(encoding="utf-8")


def test_the_table_of_modifiers_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \| ", GUIDE, re.MULTILINE)
    assert rows == [(name, f"{kind.usual:g}") for name, kind in MODIFIERS.items()]


def test_the_table_of_versions_is_that_of_the_code() -> None:
    table = GUIDE.partition("| version | source | reference |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`.*?`) \| ", table, re.MULTILINE)
    assert [name for row in rows for name in re.findall(r"`(.*?)`", row)] == [
        each.name for each in versions(["A dog."], [["Ein Hund."]])
    ]
