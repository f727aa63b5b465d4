"""Which engine "auto" is, and what is said of engines that are not there."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest

from made_models import made_bundle
from transduce import Translator
from transduce.config import DecodeConfig, ModelConfig
from transduce.config.choices import Precision
from transduce.engines import loading
from transduce.engines.automatic import AutomaticEngine
from transduce.engines.capabilities import CTRANSLATE2, QUANTIZATIONS, TORCH, WELL_FORMED, Lack
from transduce.engines.interface import TokenConstraints
from transduce.engines.loading import EngineChoice, choose_engine
from transduce.engines.torch import TorchEngine
from transduce.errors import ConfigError, MissingDependencyError

_TREES = Lack("ctranslate2", WELL_FORMED, "brackets", "trees", optional=True)


def hide(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Makes `package` look as if it were not installed."""
    find_spec = loading.find_spec
    monkeypatch.setattr(loading, "find_spec", lambda name: None if name == package else find_spec(name))


def chosen(*arguments: Any, **named: Any) -> str:
    return choose_engine(*arguments, **{"device": "cpu", **named}).name


def test_auto_on_a_cpu_is_the_faster_engine_that_can_do_it() -> None:
    assert [chosen("auto", name) for name in (None, "float32", "int8", "float16", "int8_bfloat16")] == [
        "ctranslate2"
    ] * 5
    assert chosen("auto", "bfloat16") == "torch"  # not every processor can elsewhere
    assert choose_engine("auto", device="cpu").reason == "the faster one on a CPU"
    sampling = CTRANSLATE2.lack(DecodeConfig(temperature=1.0))
    assert choose_engine("auto", device="cpu", lack=sampling) == EngineChoice(
        "torch", "ctranslate2 has no sampling: decode.temperature = 1.0"
    )
    assert chosen("auto", num_models=2) == chosen("auto", model=ModelConfig(attention_window=4)) == "torch"
    for score in ("dot", "additive"):
        assert chosen("auto", model=ModelConfig(attention_score=score)) == "torch"  # type: ignore[arg-type]
    assert chosen("auto", shortlist="on") == "torch"
    assert chosen("auto", shortlist="auto") == "ctranslate2"


def test_numbers_that_only_the_other_engine_has_are_refused_where_it_cannot_run_the_model() -> None:
    windowed = ModelConfig(attention_window=4)
    with pytest.raises(
        ConfigError, match=r"'int16': ctranslate2 has no restricted .*, and torch has float32, bfloat16"
    ):
        choose_engine("auto", "int16", device="cpu", model=windowed)


def test_what_an_engine_can_do_without_decides_for_auto_only() -> None:
    assert chosen(lack=_TREES) == chosen("auto", "int8", lack=_TREES) == "torch"
    assert chosen("auto", "int16", lack=_TREES) == "ctranslate2"  # torch has no int16
    assert chosen("ctranslate2", lack=_TREES) == "ctranslate2"
    with pytest.raises(ConfigError, match="no search among well-formed trees"):
        chosen("ctranslate2", lack=replace(_TREES, optional=False))


def test_drafts_count_where_something_else_could_be_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    far = CTRANSLATE2.lack(DecodeConfig(max_extra_tokens=5000), (), ModelConfig())
    assert far is not None
    assert far.optional
    for lack in (None, far, _TREES):
        with pytest.raises(ConfigError, match=r"^--draft self: the ctranslate2 engine has no drafts\. Use the torch"):
            choose_engine("ctranslate2", draft="self", lack=lack)
    hide(monkeypatch, "torch")
    with pytest.raises(MissingDependencyError, match=r"^--draft self: "):
        choose_engine("auto", device="cpu", draft="self", lack=far)


def test_auto_on_a_gpu_is_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(device="cuda") == chosen(device="cuda:1") == chosen(device="mps") == "torch"
    for num_gpus, expected in ((0, "ctranslate2"), (1, "torch")):
        monkeypatch.setattr("ctranslate2.get_cuda_device_count", lambda count=num_gpus: count)
        assert chosen(device="auto") == expected


def test_auto_takes_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        hide(patch, "ctranslate2")
        assert chosen() == chosen("auto", "int8") == "torch"
    hide(monkeypatch, "torch")
    assert chosen() == chosen(device="cuda") == chosen("auto", "bfloat16") == chosen(shortlist="on") == "ctranslate2"
    assert chosen("torch") == "torch"  # what is named is never exchanged
    with pytest.raises(MissingDependencyError, match=r"temperature = 1.0: .*pip install .*\[train\]"):
        chosen(lack=CTRANSLATE2.lack(DecodeConfig(temperature=1.0)))
    far = CTRANSLATE2.lack(DecodeConfig(max_extra_tokens=5000), (), ModelConfig())
    assert chosen(lack=far) == "ctranslate2"  # which shorter lines do not need
    assert chosen(lack=_TREES) == "ctranslate2"


def test_a_named_engine_is_taken_or_refused() -> None:
    assert chosen("ctranslate2") == chosen("ctranslate2", "int8") == "ctranslate2"
    with pytest.raises(ConfigError, match="Did you mean 'ctranslate2'"):
        choose_engine("ctranslate")
    with pytest.raises(ConfigError, match="the torch engine has float32, bfloat16, int8"):
        choose_engine("torch", "float16")
    with pytest.raises(ConfigError, match="Did you mean 'int8'"):
        choose_engine("auto", "int9")


def test_outputs_beyond_the_positions_of_a_conversion_are_torchs() -> None:
    options = [DecodeConfig(max_extra_tokens=3071), DecodeConfig(max_extra_tokens=3072)]
    assert [CTRANSLATE2.lack(each, (), ModelConfig()) is None for each in options] == [True, False]
    bounded = DecodeConfig(max_extra_tokens=9999, max_tokens=4095)
    assert CTRANSLATE2.lack(bounded, (), ModelConfig()) is None
    assert CTRANSLATE2.lack(options[1], (), ModelConfig(positions="learned")) is None


def test_what_only_the_second_line_needs_is_lacking_too() -> None:
    without = replace(CTRANSLATE2, answers={**CTRANSLATE2.answers, "forbidden phrases": "no"})
    lines = [TokenConstraints(), TokenConstraints(forbidden=((5,),))]
    lack = without.lack(DecodeConfig(), lines)
    assert lack is not None
    assert lack.reason == "ctranslate2 has no forbidden phrases: the constraint 'forbidden'"
    assert without.lack(DecodeConfig(), lines[:1]) is CTRANSLATE2.lack(DecodeConfig(), lines) is None


def test_numbers_that_torch_has_are_those_of_its_engine() -> None:
    assert set(TORCH.quantizations) == set(get_args(Precision))
    assert set(TORCH.quantizations) <= set(QUANTIZATIONS)


def test_the_translator_says_what_it_runs_in(tmp_path: Path) -> None:
    made_bundle(tmp_path / "model")
    assert Translator.load(tmp_path / "model", device="cpu").engine.name == "ctranslate2 on cpu, float32"
    load = partial(Translator.load, tmp_path / "model", engine="torch", device="cpu")
    assert load().engine.name == "torch on cpu"
    assert load(quantization="int8").engine.name == "torch on cpu in int8"
    translator = Translator.load(tmp_path / "model", engine="ctranslate2", device="cpu", quantization="int8")
    assert translator.engine.name == "ctranslate2 on cpu, int8"
    with pytest.raises(ConfigError, match=r"engine='torch', which needs PyTorch: pip install .*\[train\]"):
        translator.attend("A dog runs.")


_LINES = ["A dog runs.", "Two dogs", "", "dog"]


def test_auto_does_everything_and_loads_the_reference_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_bundle(tmp_path / "model", ending=2.0)
    loads: list[str] = []
    load = TorchEngine.load

    def counted(*arguments: Any) -> TorchEngine:
        loads.append("torch")
        return load(*arguments)

    monkeypatch.setattr(TorchEngine, "load", counted)
    auto, torch, fast = (
        Translator.load(tmp_path / "model", engine=name, device="cpu") for name in ("auto", "torch", "ctranslate2")
    )
    loads.clear()
    assert auto.translate_n_best(_LINES, 3) == fast.translate_n_best(_LINES, 3)
    assert auto.score(["A dog"], ["Two"]) == fast.score(["A dog"], ["Two"])
    assert loads == []
    sampled = {"temperature": 1.0, "seed": 3}
    assert auto.translate(_LINES, **sampled) == torch.translate(_LINES, **sampled)
    assert auto.translate(_LINES, coverage_penalty=0.2) == torch.translate(_LINES, coverage_penalty=0.2)
    np.testing.assert_array_equal(auto.attend("A dog", "Two").cross, torch.attend("A dog", "Two").cross)
    assert loads == ["torch"]
    assert auto.engine.name == fast.engine.name  # whatever was called before


def test_auto_scores_what_is_longer_than_the_positions_of_a_conversion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_bundle(tmp_path / "model")
    for module in ("automatic", "ctranslate2"):
        monkeypatch.setattr(f"transduce.engines.{module}.max_positions", lambda config: 20)
    auto, torch = (Translator.load(tmp_path / "model", engine=name, device="cpu") for name in ("auto", "torch"))
    long = ["two dogs " * 30]
    assert auto.score(["A"], long) == torch.score(["A"], long)


@pytest.mark.parametrize(("num_tokens", "expected"), [(0, "fast"), (19, "fast"), (20, "reference")])
def test_the_end_of_what_is_scored_needs_a_position_too(
    monkeypatch: pytest.MonkeyPatch, num_tokens: int, expected: str
) -> None:
    monkeypatch.setattr("transduce.engines.automatic.max_positions", lambda _: 20)
    fast, reference = (
        SimpleNamespace(
            **dict.fromkeys(("name", "independent_lines", "max_source_tokens", "num_workers", "batch_tokens"), name),
            **dict.fromkeys(("score", "align", "next_scores"), lambda *_, name=name: name),
        )
        for name in ("fast", "reference")
    )
    engine: Any = AutomaticEngine(fast, lambda: reference, ModelConfig())
    target = [7] * num_tokens
    assert engine.score([[5], [5]], [[7], target]) == engine.align([[5], [5]], [[7], target]) == expected
    assert engine.next_scores([5], target) == expected


def test_terms_change_only_the_lines_that_need_them_and_need_no_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_bundle(tmp_path / "model", ending=2.0)
    monkeypatch.setattr(TorchEngine, "load", None)
    auto = Translator.load(tmp_path / "model", device="cpu")
    plain = auto.translate(_LINES)
    required = [["dog"], [], [], []]
    found = auto.translate(_LINES, required=required)
    assert found[1:] == plain[1:]
    assert "dog" in found[0].lower()


@pytest.mark.parametrize(
    ("engine", "package", "message"),
    [
        ("torch", "torch", r"pip install .*\[train\]"),
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


def test_a_named_engine_lacks_what_every_line_needs() -> None:
    far = CTRANSLATE2.lack(DecodeConfig(max_extra_tokens=5000), (), ModelConfig())
    assert chosen("ctranslate2", lack=far) == "ctranslate2"  # shorter lines do not need it
    assert far is not None
    assert far.reason == "ctranslate2 has no outputs of 4096 tokens or more: decode.max_extra_tokens = 5000"
    with pytest.raises(ConfigError, match=r"decode\.temperature = 1\.0: the ctranslate2 engine has no sampling"):
        chosen("ctranslate2", lack=CTRANSLATE2.lack(DecodeConfig(temperature=1.0)))
    with pytest.raises(ConfigError, match="--ensemble: the ctranslate2 engine runs one model at a time"):
        chosen("ctranslate2", num_models=2)
    assert chosen("torch", num_models=2) == "torch"


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({}, None),
        ({"seed": 7}, None),  # which changes nothing without a temperature
        ({"diversity_penalty": 0.9}, None),
        ({"top_k": 5, "temperature": 1.0}, "temperature"),
        ({"coverage_penalty": 0.1}, "coverage_penalty"),
        ({"beam_size": 9, "length_penalty": 2.0, "min_tokens": 3, "no_repeat_ngram": 2, "max_tokens": 50}, None),
        ({"max_tokens": 4096, "max_extra_tokens": 5000}, "max_tokens"),
        ({"max_tokens": 9999, "max_extra_tokens": 3072}, "max_extra_tokens"),
    ],
)
def test_which_options_the_fast_engine_lacks(options: dict[str, Any], option: str | None) -> None:
    lack = CTRANSLATE2.lack(DecodeConfig(**options), [TokenConstraints(joining=(5,))], ModelConfig())
    assert (lack.option if lack is not None else None) == option
    assert TORCH.lack(DecodeConfig(**options), (), ModelConfig()) is None


@pytest.mark.parametrize(
    ("engine", "quantization", "other"), [("torch", "float16", "ctranslate2"), ("torch", "int16", "ctranslate2")]
)
def test_numbers_of_another_engine_are_refused_with_its_name(engine: str, quantization: str, other: str) -> None:
    with pytest.raises(ConfigError, match=f"quantization '{quantization}': the {engine} .* Use the {other} engine"):
        choose_engine(engine, quantization)
