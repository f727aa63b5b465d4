"""The reference of the configuration, as the site makes it, has each key with default, range and meaning."""

from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from configuration_reference import KINDS, meanings_of, reference
from transduce.config.ranges import ranges_of, word_or_value


@pytest.mark.parametrize("section", KINDS)
def test_each_key_is_explained(section: str) -> None:
    meanings = meanings_of(section)
    assert all(meanings.values()), meanings
    assert meanings.keys() == {field.name for field in fields(KINDS[section])}


@pytest.mark.parametrize("section", KINDS)
def test_each_number_has_a_range(section: str) -> None:
    kind: Any = KINDS[section]
    numbers = {name for name, hint in get_type_hints(kind).items() if word_or_value(hint)[1] in (int, float)}
    assert numbers == ranges_of(kind).keys()


@pytest.mark.parametrize(
    "row",
    [
        "| `model.d_v` | `64` | whole number, from 1 to 1,000,000 | width of a head's values |",
        '| `model.positions` | `"sinusoidal"` | `"sinusoidal"` or `"learned"` | §3.5, Table 3 (E) |',
        "| `train.phases.from_step` | `0` | whole number, from 0 to 1,000,000,000 "
        "| the number of updates after which it begins |",
        '| `train.micro_batch_tokens` | `"auto"` | `"auto"` or whole number, from 0 to 1,000,000,000 '
        '| Target tokens of one pass on a device. "auto": as many as fit into its memory; '
        "0: its whole share of the batch. |",
        "| `data.test` | `{}` | table | named test sets, never trained on |",
        "| `decode.top_k` | `0` | whole number, from 0 to 10,000,000 "
        "| sample from the K most probable tokens; 0: from all (`--top-k K`) |",
    ],
)
def test_rows_say_what_the_schema_says(row: str) -> None:
    assert row in reference().splitlines()


def test_a_comment_above_a_key_is_its_meaning() -> None:
    assert meanings_of("data")["rare_words"].startswith("Treebanks only: ")


def test_a_comment_of_two_lines_is_read_whole() -> None:
    assert meanings_of("data")["language_tags"].startswith('Where tags name languages. "source": the target\'s tag ')
