"""The guide to the engines shows the table that the engines go by."""

from dataclasses import fields
from pathlib import Path

from transduce.config import DecodeConfig
from transduce.engines.capabilities import CAPABILITIES, ENGINES, QUANTIZATIONS, capability_table
from transduce.engines.interface import TokenConstraints

_GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "engines.md"


def test_the_table_is_that_of_the_code() -> None:
    assert capability_table() in _GUIDE.read_text(encoding="utf-8"), "paste what capability_table() returns"


def test_every_option_and_condition_stands_in_the_table() -> None:
    listed = [option for options in CAPABILITIES.values() for option in options]
    assert len(set(listed)) == len(listed)
    known = {field.name for kind in (DecodeConfig, TokenConstraints) for field in fields(kind)}
    # How many lines go together changes no output, and completions are a help that an engine may do without.
    assert set(listed) == known - {"batch_size", "completions"}


def test_engines_declare_rows_of_the_table_only() -> None:
    assert all(set(engine.answers) <= CAPABILITIES.keys() for engine in ENGINES.values())


def test_every_quantization_is_explained() -> None:
    text = _GUIDE.read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in QUANTIZATIONS)
