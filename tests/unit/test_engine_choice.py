"""Which engine "auto" is, and what is said of engines that are not there."""

import builtins
import importlib.machinery
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from made_models import made_bundle
from transduce import Translator
from transduce.engines import loading
from transduce.engines.interface import QUANTIZATIONS, TORCH_QUANTIZATIONS
from transduce.engines.loading import choose_engine
from transduce.errors import ConfigError, MissingDependencyError
from transduce.model.prepacked import Precision


def hide(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Makes `package` look as if it were not installed."""
    real_import, real_find = builtins.__import__, loading.find_spec

    def no_import(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == package:
            raise ModuleNotFoundError(f"No module named '{package}'", name=package)
        return real_import(name, *args, **kwargs)

    def no_spec(name: str) -> importlib.machinery.ModuleSpec | None:
        return None if name == package else real_find(name)

    monkeypatch.setattr(builtins, "__import__", no_import)
    monkeypatch.setattr(loading, "find_spec", no_spec)
    monkeypatch.delitem(sys.modules, f"transduce.engines.{package}", raising=False)


def test_auto_is_torch_where_that_is_installed_and_has_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_engine() == "torch"
    assert [choose_engine("auto", name) for name in ("float32", "int8", "bfloat16")] == ["torch"] * 3
    assert [choose_engine("auto", name) for name in ("float16", "int8_bfloat16")] == ["ctranslate2"] * 2
    hide(monkeypatch, "torch")
    assert choose_engine() == choose_engine("auto", "int8") == "ctranslate2"
    assert choose_engine("torch") == "torch"  # what is named is never exchanged


def test_a_named_engine_is_taken_or_refused() -> None:
    assert choose_engine("ctranslate2") == choose_engine("ctranslate2", "int8") == "ctranslate2"
    with pytest.raises(ConfigError, match="Did you mean 'ctranslate2'"):
        choose_engine("ctranslate")
    with pytest.raises(ConfigError, match="the torch engine has float32, bfloat16, int8"):
        choose_engine("torch", "float16")
    with pytest.raises(ConfigError, match="Did you mean 'int8'"):
        choose_engine("auto", "int9")


def test_numbers_that_torch_has_are_those_of_its_engine() -> None:
    assert set(TORCH_QUANTIZATIONS) == set(get_args(Precision))
    assert set(TORCH_QUANTIZATIONS) <= set(QUANTIZATIONS)


def test_the_translator_says_what_it_runs_in(tmp_path: Path) -> None:
    made_bundle(tmp_path / "model")
    assert Translator.load(tmp_path / "model", device="cpu").engine.name == "torch on cpu"
    assert Translator.load(tmp_path / "model", device="cpu", quantization="int8").engine.name == "torch on cpu in int8"
    translator = Translator.load(tmp_path / "model", engine="ctranslate2", device="cpu", quantization="int8")
    assert translator.engine.name == "ctranslate2 on cpu, int8"
    with pytest.raises(ConfigError, match="engine='torch'"):
        translator.attend("A dog runs.")


@pytest.mark.parametrize(
    ("engine", "package", "message"),
    [
        ("torch", "torch", r"pip install 'transduce\[train\]'"),
        ("ctranslate2", "ctranslate2", "pip install ctranslate2"),
    ],
)
def test_an_engine_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, package: str, message: str
) -> None:
    made_bundle(tmp_path / "model")
    hide(monkeypatch, package)
    with pytest.raises(MissingDependencyError, match=message):
        Translator.load(tmp_path / "model", engine=engine)
