"""What differs between two configurations, key by key."""

from dataclasses import replace

from transduce.config import Config, apply_settings, to_dict
from transduce.config.differences import describe, differences, flat

BEFORE = {"name": "a", "model": {"d_ff": 512, "dropout": 0.1}, "data": {"test": {"dev": ["x"]}}}


def test_nested_settings_on_one_level() -> None:
    assert flat(BEFORE) == {"name": "a", "model.d_ff": 512, "model.dropout": 0.1, "data.test.dev": ["x"]}


def test_each_key_that_differs_with_both_values() -> None:
    now = {"name": "a", "model": {"d_ff": 1024, "norm": "pre"}, "data": {"test": {"dev": ["x"]}}}
    expected = {"model.d_ff": (512, 1024), "model.dropout": (0.1, None), "model.norm": (None, "pre")}
    assert differences(BEFORE, now) == expected
    assert describe(expected) == (
        "model.d_ff was 512, now 1024; model.dropout was 0.1, now not set; model.norm was not set, now 'pre'"
    )
    assert describe(expected, limit=1) == "model.d_ff was 512, now 1024"
    assert differences(BEFORE, BEFORE) == {}


def test_a_key_that_is_ignored_stands_for_all_below_it() -> None:
    now = {"name": "a", "model": {"d_ff": 1}, "data": {"test": {"other": ["y"]}, "tests": 1}}
    assert list(differences(BEFORE, now, ignore=("data.test", "model.d_ff"))) == ["model.dropout", "data.tests"]


def test_configurations() -> None:
    base = Config()
    changed = replace(apply_settings(base, ["train.seed=7", "data.test.dev=['a', 'b']"]), name="b")
    found = differences(to_dict(base), to_dict(changed), ignore=("name",))
    assert found == {"data.test.dev": (None, ["a", "b"]), "train.seed": (base.train.seed, 7)}
