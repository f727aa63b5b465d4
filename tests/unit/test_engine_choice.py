"""Which engine "auto" is, and what is said of engines that are not there."""

import builtins
import importlib.machinery
import sys
from pathlib import Path
from typing import Any

import pytest

from made_models import made_bundle
from transduce import Translator
from transduce.engines import loading
from transduce.engines.loading import choose_engine
from transduce.errors import ConfigError, MissingDependencyError


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


def test_auto_is_torch_where_that_is_installed_and_no_quantization_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert choose_engine() == "torch"
    assert choose_engine("auto", "int8") == "ctranslate2"
    assert choose_engine("auto", "float32") == "ctranslate2"
    hide(monkeypatch, "torch")
    assert choose_engine() == "ctranslate2"
    assert choose_engine("torch") == "torch"  # what is named is never exchanged


def test_a_named_engine_is_taken_or_refused() -> None:
    assert choose_engine("ctranslate2") == "ctranslate2"
    with pytest.raises(ConfigError, match="Did you mean 'ctranslate2'"):
        choose_engine("ctranslate")
    with pytest.raises(ConfigError, match="the torch engine has none"):
        choose_engine("torch", "int8")


def test_the_translator_says_what_it_runs_in(tmp_path: Path) -> None:
    made_bundle(tmp_path / "model")
    assert Translator.load(tmp_path / "model", device="cpu").engine.name == "torch on cpu"
    translator = Translator.load(tmp_path / "model", device="cpu", quantization="int8")
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
