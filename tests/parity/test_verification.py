"""Each check of `transduce verify` passes on a sound model, and fails on one that is broken in just its way."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from planted_faults import FAULTS, Fault, change_each_batch, prepacked_without_bias, shortened, window_is_too_wide
from transduce import files
from transduce.bundle import Bundle, save_bundle
from transduce.config import DataConfig, DecodeConfig
from transduce.data.progress import progress_bar
from transduce.decoding.scores import Hypothesis
from transduce.engines import torch_search
from transduce.engines.torch import TorchEngine
from transduce.errors import BundleError, ConfigError, MissingDependencyError
from transduce.translation.directions import Directions
from transduce.verification import Finding, Report, Settings, checks, engines, verify
from transduce.verification.checks import CHECKS, FOLDER_CHECKS
from transduce.verification.differences import Differences
from transduce.verification.model_under_test import ModelUnderTest
from transduce.verification.sample import choose
from transduce.verification.search import Search
from verified_model import LINES, save_model

pytestmark = pytest.mark.computes

SENTENCES = [line for line in LINES if len(line) < 40]  # a search in the long ones takes as many steps again
SETTINGS = Settings(
    num_sentences=len(SENTENCES), batch_sizes=(1, 4, 64), num_pairs=4, num_changes=3, max_target_tokens=16
)
MODELS: dict[str, dict[str, Any]] = {
    "pre-norm, learned positions": {
        "norm": "pre",
        "tie_embeddings": "all",
        "positions": "learned",
        "max_positions": 48,
    },
    "released code": {
        "decoder_start": "zero",
        "attention_bias": True,
        "target_space_embedding": True,
        "sinusoid_layout": "concatenated",
    },
    "sources without an end, d_k is not d_v": {
        "source_end": "none",
        "d_k": 5,
        "d_v": 12,
        "num_heads": 3,
        "dropout": 0.0,
    },
    "window": {"attention_window": 6},
    "greedy parser": {"data": DataConfig(format="trees"), "decode": DecodeConfig(beam_size=1, max_extra_tokens=6)},
}
Load = Callable[..., Any]  # an engine from the model folder
Others = Callable[[Load], dict[str, Finding]]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return save_model(tmp_path_factory.mktemp("sound") / "model")


def check(bundle: Bundle, name: str) -> Finding:
    """Runs one check on the built-in lines."""
    direction = Directions.of(bundle.tokenizer, bundle).choose()
    engine = TorchEngine.load(bundle, device="cpu")
    tested = ModelUnderTest(bundle, choose(bundle, SENTENCES, len(SENTENCES)), engine, SETTINGS, direction)
    [found] = [check for check in CHECKS if check.name == name]
    with torch.inference_mode():
        return found.run(tested)


def make_only(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Lets `verify` make only these checks of the model, besides those of the folder and of other engines."""
    monkeypatch.setattr("transduce.verification.run.CHECKS", [check for check in CHECKS if check.name in names])


# --- what is sound passes -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def report_of_sound(bundle: Bundle) -> Report:
    return report_of(bundle.path)


def report_of(path: Path) -> Report:
    return verify(path, sentences=SENTENCES, settings=SETTINGS, device="cpu", other_engines=False)


@pytest.mark.parametrize("kind", ["post-norm", *MODELS])
def test_a_sound_model_passes_every_check(kind: str, report_of_sound: Report, tmp_path: Path) -> None:
    report = report_of(save_model(tmp_path / "model", **MODELS[kind]).path) if kind in MODELS else report_of_sound
    assert report.passed, report.to_text()
    assert [result.name for result in report.checks] == [c.name for c in (*FOLDER_CHECKS, *CHECKS)]
    made = [result for result in report.checks if (kind, result.name) != ("window", "drafts = greedy")]
    assert all(result.outcome == "passed" for result in made)
    assert [result.outcome for result in report.checks if result not in made] == ["skipped"] * (kind == "window")
    assert all(result.promise and result.advice for result in report.checks)
    assert all(result.finding.compared for result in made)
    assert all(result.finding.worst < 1e-4 for result in report.checks if result.finding.worst is not None)


def test_the_progress_bar_counts_the_checks_of_the_report(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of checks that ends with its first counts once in both."""
    bars: list[Any] = []

    def recorded(*args: Any, **options: Any) -> Any:
        bars.append(progress_bar(*args, **options | {"shown": False}))
        return bars[-1]

    monkeypatch.setattr("transduce.verification.run.progress_bar", recorded)

    def not_installed(*args: Any, **options: Any) -> Any:
        raise MissingDependencyError("no engine")

    monkeypatch.setattr(engines, "load_engine", not_installed)
    make_only(monkeypatch, "causality", "padding")
    report = verify(bundle.path, sentences=SENTENCES, settings=SETTINGS, device="cpu", progress=True)
    assert (bars[0].n, bars[0].total) == (len(report.checks), len(report.checks))


# --- what is broken fails -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sound(report_of_sound: Report) -> set[str]:
    """The checks that the model passes before something in it is broken."""
    return {result.name for result in report_of_sound.checks if result.outcome == "passed"}


@pytest.mark.parametrize(("name", "plant"), FAULTS, ids=lambda v: v if isinstance(v, str) else v.__name__)
def test_a_broken_model_fails(
    name: str, plant: Fault, bundle: Bundle, sound: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert name in sound
    plant(monkeypatch)
    found = check(bundle, name)
    assert found.outcome == "failed", found
    assert found.where or found.faults


def test_every_check_is_shown_to_fail() -> None:
    elsewhere = {"prepacked = plain"}  # below: it needs another model
    assert {name for name, _ in FAULTS} | elsewhere == {check.name for check in CHECKS}


def test_nan_is_an_infinite_difference() -> None:
    one, all_of_it = Differences(), Differences()
    one.add(float("nan"), "here")
    all_of_it.compare(torch.tensor([1.0, float("nan")]), torch.tensor([1.0, 2.0]), "place {}")
    for seen, where in ((one, "here"), (all_of_it, "place 2")):
        found = seen.finding("numbers", 1e9)
        assert (found.outcome, found.where) == ("failed", where)


def test_a_prepacked_weight_without_its_bias_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = save_model(tmp_path / "model", attention_bias=True)
    assert check(made, "prepacked = plain").outcome == "passed"
    prepacked_without_bias(monkeypatch)
    assert check(made, "prepacked = plain").outcome == "failed"


def test_a_window_that_is_too_wide_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = save_model(tmp_path / "model", attention_window=4)
    assert check(made, "attention = eq. 1").outcome == "passed"
    window_is_too_wide(monkeypatch)
    assert check(made, "attention = eq. 1").outcome == "failed"


# --- the folder -----------------------------------------------------------------------------------------------


def outcomes(path: Path) -> dict[str, str]:
    report = report_of(path)
    assert not report.passed
    return {result.name: result.outcome for result in report.checks}


def test_a_tampered_weight_file_is_found(tmp_path: Path) -> None:
    path = save_model(tmp_path / "model").path
    file = path / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-10] ^= 1  # one bit of one number
    file.write_bytes(bytes(content))
    found = outcomes(path)
    assert {name for name, outcome in found.items() if outcome == "failed"} == {"checksums", "loads"}


def test_a_folder_without_checksums_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_only(monkeypatch)
    made = save_model(tmp_path / "model")
    text = (made.path / "config.json").read_text()
    (made.path / "config.json").write_text(text.replace('"model.safetensors":', '"another.safetensors":'))
    assert outcomes(made.path)["checksums"] == "failed"


def test_a_model_that_does_not_load_is_reported_and_not_checked(tmp_path: Path) -> None:
    path = save_model(tmp_path / "model").path
    file = path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    found = outcomes(path)
    assert found["checksums"] == found["loads"] == "failed"
    assert {outcome for name, outcome in found.items() if name not in ("checksums", "loads")} == {"skipped"}


def test_weights_of_nan_are_found(tmp_path: Path) -> None:
    made = save_model(tmp_path / "model")
    weights = made.weights()
    weights["decoder.0.feed_forward.inner.weight"][3, 4] = np.nan
    save_file(weights, made.path / "model.safetensors")
    values = json.loads((made.path / "config.json").read_text())
    values["sha256"]["model.safetensors"] = files.sha256(made.path / "model.safetensors")
    (made.path / "config.json").write_text(json.dumps(values))
    found = outcomes(made.path)
    assert found["checksums"] == "passed"
    assert found["loads"] == "failed"


def test_a_check_that_stops_with_an_error_has_failed(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise RuntimeError("no kernel image is available")

    monkeypatch.setattr(torch_search, "BeamSearch", stop)
    make_only(monkeypatch, "causality", "n-best")
    report = report_of(bundle.path)
    found = report.named("n-best")
    assert found.outcome == "failed"
    assert "RuntimeError: no kernel image is available" in found.finding.faults[0]
    assert report.named("causality").outcome == "passed"


# --- ties -----------------------------------------------------------------------------------------------------


def test_a_tie_is_listed_and_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tokens are the same to the model: each sentence ends in one of them alone, in the other in company.

    Which of them the search would take is up to the processor, so they are put in by hand.
    """
    first, second = 40, 41

    def same_weights(weights: dict[str, np.ndarray]) -> None:
        for name in ("output_embedding", "target_embedding"):
            weights[name][second] = weights[name][first]

    def end_in_one(found: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
        last = first if len(found) > 1 else second
        return [[dataclasses.replace(h, ids=[*h.ids[:-1], last]) for h in hs] for hs in found]

    tied = changed(save_model(tmp_path / "model"), tmp_path / "tied", same_weights)
    change_each_batch(monkeypatch, end_in_one)
    found = check(tied, "batch size and order")
    assert found.outcome == "passed", found.faults
    assert len({tie.sentence.partition(",")[0] for tie in found.ties}) == len(SENTENCES)
    assert all(tie.first != tie.second and tie.difference < 1e-4 for tie in found.ties)


@pytest.mark.parametrize(("difference", "is_tie"), [(0.5, True), (2.0, False)])
def test_a_tie_is_a_difference_below_that_of_the_settings(bundle: Bundle, difference: float, is_tie: bool) -> None:
    """The difference is a multiple of `Settings.tie`."""
    engine: Any = SimpleNamespace(score=lambda *_: [[-1.0], [-0.5, -0.5 - difference * SETTINGS.tie]])
    search = Search(engine, ("line 1",), [[5]], DecodeConfig(length_penalty=0.0), bundle.tokenizer, SETTINGS, 1e-4)
    seen = Differences()
    search.same(0, Hypothesis([], -1.0, -1.0, True), Hypothesis([7], -1.0, -1.0, True), "shuffled", seen)
    assert (len(seen.ties), len(seen.faults)) == ((1, 0) if is_tie else (0, 1))


# --- other engines --------------------------------------------------------------------------------------------


@pytest.fixture
def others(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> Others:
    """Returns what the checks of other engines find where the given one is the only one, in int8 alone."""

    def run(load: Load) -> dict[str, Finding]:
        make_only(monkeypatch)
        monkeypatch.setattr(checks, "OTHERS", (("other", "int8"),))
        monkeypatch.setattr(engines, "load_engine", lambda bundle, choice, **options: load(bundle))
        report = verify(bundle.path, sentences=SENTENCES, settings=SETTINGS, device="cpu")
        found = {result.name: result.finding for result in report.checks}
        return {name.partition(": ")[2]: found[name] for name in found if name.startswith("other int8")}

    return run


def changed(bundle: Bundle, path: Path, change: Callable[[dict[str, np.ndarray]], None]) -> Bundle:
    """Saves the model again with other weights."""
    weights = {name: value.copy() for name, value in bundle.weights().items()}
    change(weights)
    return save_bundle(path, bundle.config, weights, bundle.tokenizer, {})


def test_another_engine_of_the_same_model_passes(others: Others) -> None:
    found = others(lambda bundle, *_: TorchEngine.load(bundle, device="cpu"))
    assert list(found) == ["loads", "forced scores", "outputs", "batches", "n-best", "scores"]
    assert all(finding.outcome == "passed" for finding in found.values())


def test_a_quantised_engine_with_a_bug_fails(bundle: Bundle, tmp_path: Path, others: Others) -> None:
    """Its integers saturate at half of their range: the result still looks like a model."""

    def saturate(weights: dict[str, np.ndarray]) -> None:
        for name, value in weights.items():
            if value.ndim == 2:
                greatest = np.abs(value).max(axis=1, keepdims=True) / 2
                weights[name] = np.clip(value, -greatest, greatest)

    broken = changed(bundle, tmp_path / "broken", saturate)
    found = others(lambda *_: TorchEngine.load(broken, device="cpu"))
    assert found["forced scores"].outcome == "failed"
    assert found["outputs"].outcome == "failed"


def test_another_engine_that_depends_on_the_batch_fails(others: Others) -> None:
    class Dependent(TorchEngine):
        def translate(self, sources: Any, options: Any, *rest: Any) -> Any:
            found = super().translate(sources, options, *rest)
            return [[shortened(h) for h in hs] for hs in found] if min(len(sources), options.batch_size) > 3 else found

    found = others(lambda bundle, *_: Dependent.load(bundle, device="cpu"))
    assert found["batches"].outcome == "failed"
    assert found["scores"].outcome == "failed"


@pytest.mark.parametrize(
    "error", [MissingDependencyError("pip install other"), ConfigError("other has no attention windows")]
)
def test_an_engine_that_cannot_be_used_is_skipped_with_its_reason(error: Exception, others: Others) -> None:
    def load(*_: object) -> Any:
        raise error

    [(name, found)] = others(load).items()
    assert name == "loads"
    assert found.outcome == "skipped"
    assert found.skipped == str(error)


def test_an_engine_that_finds_the_folder_damaged_has_failed(others: Others) -> None:
    def load(*_: object) -> Any:
        raise BundleError("model.bin: damaged")

    [(name, found)] = others(load).items()
    assert (name, found.outcome, found.faults) == ("loads", "failed", ("model.bin: damaged",))
