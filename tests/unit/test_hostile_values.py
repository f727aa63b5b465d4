"""Values that nobody means: each is one error that names its key."""

import gc
import math
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from transduce.config import Config, apply_settings, from_dict, load_recipe, to_dict
from transduce.config.ranges import Range, ranges_of, shown
from transduce.config.schema import SECTIONS
from transduce.errors import ConfigError

NUMBERS = [(name, key, *rest) for name, kind in SECTIONS.items() for key, rest in ranges_of(kind).items()]  # type: ignore[arg-type]
HOSTILE = ["-1", "nan", "inf", "-inf", "1e308", "1" + "0" * 30, "9" * 5000, "true", "'4'", "[4]", "{a=4}", "[" * 5000]


@pytest.fixture(scope="module", autouse=True)
def nothing_left() -> None:
    """Collects what earlier tests left: a finalizer that runs deep in nested brackets would fail there."""
    gc.collect()


@pytest.mark.parametrize(("section", "key"), [row[:2] for row in NUMBERS])
def test_no_number_takes_them(section: str, key: str, tmp_path: Path) -> None:
    for value in HOSTILE:
        recipe = tmp_path / "recipe.toml"
        recipe.write_text(f"[{section}]\n{key} = {value}\n", encoding="utf-8")
        with pytest.raises(ConfigError) as of_recipe:
            load_recipe(recipe)
        with pytest.raises(ConfigError) as of_setting:
            apply_settings(Config(), [f"{section}.{key}={value}"])
        for message in (str(of_recipe.value), str(of_setting.value)):
            assert f"{section}.{key}" in message or "not a TOML file" in message or "nested too deeply" in message
            assert len(message) < 1000
            assert "\n" not in message.strip()


@pytest.mark.parametrize(("section", "key", "kind", "bounds"), NUMBERS)
def test_each_range_is_finite_and_kept(section: str, key: str, kind: type, bounds: Range) -> None:
    assert math.isfinite(bounds.least)
    assert math.isfinite(bounds.most)
    beyond = bounds.most + 1 if kind is int else math.nextafter(bounds.most, math.inf)
    for value in (beyond, math.nan, math.inf, bounds.least - 1):
        with pytest.raises(ConfigError, match=rf"^here: {section}\.{key} = .*: must be "):
            from_dict({section: {key: value}}, "here")


def texts() -> list[tuple[str, str, Any]]:
    found = []
    for name, kind in SECTIONS.items():
        for key, hint in get_type_hints(kind).items():
            if hint is str:
                found.append((name, key, lambda text: text))
            elif get_origin(hint) is tuple and get_args(hint)[0] is str:
                found.append((name, key, lambda text: [text, "b"]))
    return found


@pytest.mark.parametrize(("section", "key", "of"), texts())
@pytest.mark.parametrize("text", ["a\0b", "\udcff"])
def test_no_text_holds_what_no_file_can(section: str, key: str, of: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=rf"here: {section}\.{key}.* = .*: must (not hold a NUL|be UTF-8)"):
        from_dict({section: {key: of(text)}}, "here")


def test_what_a_configuration_takes_it_can_write(tmp_path: Path) -> None:
    config = apply_settings(Config(), ["name=ö 😀", "train.max_minutes=5", "data.folder=ü"])
    assert from_dict(to_dict(config), "here") == config


def test_errors_are_short_whatever_the_value() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for value in (deep, "x" * 10**6, 10**5000, {"a": deep}, [["x" * 10**5] * 1000] * 1000):
        assert len(shown(value)) < 310
    with pytest.raises(ConfigError, match=r"model\.d_ff = "):
        from_dict({"model": {"d_ff": deep}}, "here")


def test_a_recipe_that_is_nested_without_end_or_no_text(tmp_path: Path) -> None:
    for content in (b"a = " + b"[" * 100_000, b"\xff\xfe\x00", b"\x00", b"a = " + b"9" * 10_000):
        (tmp_path / "recipe.toml").write_bytes(content)
        with pytest.raises(ConfigError, match=r"recipe\.toml: not a "):
            load_recipe(tmp_path / "recipe.toml")
