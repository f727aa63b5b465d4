"""Some of the texts of benchmarks/hostile_texts.py: lines in are lines out, and what cannot be read is named."""

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest

from made_models import made_bundle
from text_engine import text_translator
from transduce.translator import Translator


@pytest.fixture(scope="module")
def hostile() -> ModuleType:
    script = Path(__file__).resolve().parents[2] / "benchmarks/hostile_texts.py"
    specification = importlib.util.spec_from_file_location("hostile_texts", script)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["hostile_texts"] = module
    specification.loader.exec_module(module)
    return module


def test_both_engines_take_anything(hostile: ModuleType, tmp_path: Path) -> None:
    made_bundle(tmp_path / "model", ending=8.0)
    translators = {name: Translator.load(tmp_path / "model", engine=name) for name in hostile.ENGINES}
    outcomes = hostile.run(translators, 2, 5, tmp_path)
    assert [outcome for outcome in outcomes if "wrong" in outcome] == []


def test_whatever_a_model_says_lines_stay_lines(hostile: ModuleType, tmp_path: Path) -> None:
    """With an engine that says what it read."""
    outcomes = hostile.run({"same": text_translator(str)}, 3, 60, tmp_path)
    assert [outcome for outcome in outcomes if "wrong" in outcome] == []


def test_every_kind_alone(hostile: ModuleType, tmp_path: Path) -> None:
    translator = text_translator(str)
    for kind, make in hostile.LINES.items():
        data = "\n".join(make(random.Random(i)) for i in range(3)).encode() + b"\n"
        assert hostile.judge(translator, data, tmp_path) == "", kind
        assert hostile.expected(data + b"\xff") == (4, 4)
        assert hostile.judge(translator, data + b"\xff", tmp_path) == "", kind
