"""Each check of `transduce verify` passes on a sound model, and fails on one that is broken in just its way."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch import Tensor

from transduce import files
from transduce.bundle import Bundle, save_bundle
from transduce.config import DataConfig, DecodeConfig
from transduce.decoding import beam, finished, greedy
from transduce.decoding.scores import Hypothesis
from transduce.engines import torch as torch_engine
from transduce.engines import torch_search
from transduce.engines.torch import TorchEngine
from transduce.errors import BundleError, ConfigError, MissingDependencyError
from transduce.model import attention, layers, prepacked, transformer, windowed
from transduce.model.cache import DecoderState, LayerCache
from transduce.model.positions import Positions
from transduce.text import SubwordTokenizer
from transduce.verification import Finding, Settings, checks, engines, folder, verify
from transduce.verification.checks import CHECKS, FOLDER_CHECKS
from transduce.verification.differences import Differences
from transduce.verification.model_under_test import ModelUnderTest
from transduce.verification.sample import choose
from verified_model import LINES, save_model

pytestmark = pytest.mark.computes

SETTINGS = Settings(num_sentences=8, num_pairs=4, num_changes=3, max_target_tokens=16)
MODELS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"norm": "pre", "tie_embeddings": "all"},
    "released code": {
        "decoder_start": "zero",
        "attention_bias": True,
        "target_space_embedding": True,
        "sinusoid_layout": "concatenated",
    },
    "learned positions": {"positions": "learned", "max_positions": 48},
    "d_k is not d_v": {"d_k": 5, "d_v": 12, "num_heads": 3, "dropout": 0.0},
    "window": {"attention_window": 6},
    "parser": {"data": DataConfig(format="trees")},
    "greedy model": {"decode": DecodeConfig(beam_size=1, max_extra_tokens=6)},
}
Sabotage = Callable[[pytest.MonkeyPatch], None]
Others = Callable[[engines.Load], dict[str, Finding]]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return save_model(tmp_path_factory.mktemp("sound") / "model")


def check(bundle: Bundle, name: str) -> Finding:
    """Runs one check on the built-in lines."""
    tested = ModelUnderTest(bundle, choose(bundle, LINES, 8), TorchEngine.load(bundle, device="cpu"), SETTINGS)
    [found] = [check for check in CHECKS if check.name == name]
    with torch.inference_mode():
        return found.run(tested)


# --- what is sound passes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MODELS)
def test_a_sound_model_passes_every_check(kind: str, tmp_path: Path) -> None:
    path = save_model(tmp_path / "model", **MODELS[kind]).path
    report = verify(path, sentences=LINES, settings=SETTINGS, device="cpu", other_engines=False)
    assert report.passed, report.to_text()
    assert [result.name for result in report.checks] == [c.name for c in (*FOLDER_CHECKS, *CHECKS)]
    assert all(result.outcome == "passed" for result in report.checks)
    assert all(result.finding.compared and result.promise and result.advice for result in report.checks)
    assert all(result.finding.worst < 1e-4 for result in report.checks if result.finding.worst is not None)


# --- what is broken fails -------------------------------------------------------------------------------------


def sees_the_next_token(patch: pytest.MonkeyPatch) -> None:
    def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, **options: Any) -> Tensor:
        if options.pop("causal", False):
            sees = torch.ones(query.size(-2), key.size(-2), dtype=torch.bool).tril(1)
            mask = sees if mask is None else mask & sees
        return attention.attend_reference(query, key, value, mask, **options)

    patch.setattr(attention, "attend", attend)


def no_causal_mask(patch: pytest.MonkeyPatch) -> None:
    original = attention.SelfAttention.forward

    def forward(self: Any, x: Tensor, attend_mask: Tensor | None, *, causal: bool, packing: Any = None) -> Tensor:
        return original(self, x, attend_mask, causal=False, packing=packing)

    patch.setattr(attention.SelfAttention, "forward", forward)


def deaf_decoder(patch: pytest.MonkeyPatch) -> None:
    original = transformer.Transformer._embed_target
    patch.setattr(
        transformer.Transformer, "_embed_target", lambda self, target: original(self, torch.full_like(target, 9))
    )


def reads_the_token_that_it_predicts(patch: pytest.MonkeyPatch) -> None:
    original = transformer.Transformer._embed_target

    def embed(self: Any, target: Tensor) -> Tensor:
        own: Tensor = original(self, target)
        return own + 0.1 * torch.nn.functional.embedding(target, self.target_embedding)

    patch.setattr(transformer.Transformer, "_embed_target", embed)


def cache_off_by_one(patch: pytest.MonkeyPatch) -> None:
    original = Positions.forward

    def forward(self: Positions, start: int, end: int) -> Tensor:
        late = int(end - start == 1 and start > 0)
        return original(self, start - late, end - late)

    patch.setattr(Positions, "forward", forward)


def cache_forgets_when_it_grows(patch: pytest.MonkeyPatch) -> None:
    original = LayerCache.resize

    def resize(self: LayerCache, filled: int, **options: Any) -> LayerCache:
        return original(self, filled - 1 if options.get("capacity") else filled, **options)

    patch.setattr(LayerCache, "resize", resize)


def beams_do_not_move(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DecoderState, "reorder", lambda self, rows: self)


def wrong_sentences_are_kept(patch: pytest.MonkeyPatch) -> None:
    original = DecoderState.keep
    patch.setattr(DecoderState, "keep", lambda self, kept: original(self, kept.sort().values))


def padding_is_seen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transformer, "padding_mask", lambda *_: None)


def padding_is_seen_by_steps_only(patch: pytest.MonkeyPatch) -> None:
    original = transformer.Transformer.start

    def start(self: Any, memory: Any, **options: Any) -> DecoderState:
        return dataclasses.replace(original(self, memory, **options), memory_mask=None)

    patch.setattr(transformer.Transformer, "start", start)


def norm_over_the_batch(patch: pytest.MonkeyPatch) -> None:
    original = layers.Residual.leave

    def leave(self: Any, x: Tensor, output: Tensor) -> Tensor:
        left: Tensor = original(self, x, output)
        return left - 0.01 * left.flatten(0, -2).mean(dim=0)

    patch.setattr(layers.Residual, "leave", leave)


def dropout_left_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(layers, "dropout", lambda x, rate, training: torch.nn.functional.dropout(x, 0.1))


def training_scales(patch: pytest.MonkeyPatch) -> None:
    original = layers.Residual.leave
    patch.setattr(layers.Residual, "leave", lambda self, x, y: original(self, x, y) * (1.01 if self.training else 1.0))


def dropout_never_acts(patch: pytest.MonkeyPatch) -> None:
    for module in (layers, transformer):
        patch.setattr(module, "dropout", lambda x, rate, training: x)


def attention_without_scale(patch: pytest.MonkeyPatch) -> None:
    original = attention.attend
    patch.setattr(
        attention, "attend", lambda q, k, v, mask=None, **rest: original(q * q.size(-1) ** 0.5, k, v, mask, **rest)
    )


def long_attention_is_blind(patch: pytest.MonkeyPatch) -> None:
    original = attention.F.scaled_dot_product_attention
    patch.setattr(
        attention.F, "scaled_dot_product_attention", lambda q, k, v, **rest: original(q, k.roll(1, -2), v, **rest)
    )


def window_is_too_wide(patch: pytest.MonkeyPatch) -> None:
    def wider(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, window: int, **rest: Any) -> Tensor:
        return windowed.windowed_attend_reference(query, key, value, mask, window=window + 2, **rest)

    patch.setattr(windowed, "windowed_attend", wider)


def prepacked_without_bias(patch: pytest.MonkeyPatch) -> None:
    original = prepacked.PrepackedLinear.__init__
    patch.setattr(prepacked, "_LEAST_WEIGHT", 0)  # as in a model of a size to be used
    patch.setattr(
        prepacked.PrepackedLinear,
        "__init__",
        lambda self, weight, bias, *rest, **more: original(self, weight, None, *rest, **more),
    )


def engine_in_half_precision(patch: pytest.MonkeyPatch) -> None:
    original = TorchEngine.__init__
    patch.setattr(TorchEngine, "__init__", lambda self, model, *rest: original(self, model.bfloat16(), *rest))


def _of_each_batch(
    patch: pytest.MonkeyPatch, change: Callable[[list[list[Hypothesis]]], list[list[Hypothesis]]]
) -> None:
    def changing(begin: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*given: Any) -> Any:
            search = begin(*given)
            run = search.run
            search.run = lambda: change(run())
            return search

        return changed

    for mode in ("greedy", "beam"):
        patch.setattr(torch_engine, mode, changing(getattr(torch_engine, mode)))


def shortened(hypothesis: Hypothesis) -> Hypothesis:
    return dataclasses.replace(hypothesis, ids=hypothesis.ids[:-1])


def neighbours_shorten(patch: pytest.MonkeyPatch) -> None:
    _of_each_batch(patch, lambda found: [[shortened(h) for h in hs] for hs in found] if len(found) > 3 else found)


def results_are_not_put_back_in_order(patch: pytest.MonkeyPatch) -> None:
    original = TorchEngine.translate

    def translate(self: TorchEngine, sources: Any, *given: Any, **named: Any) -> Any:
        return original(self, sorted(sources, key=len), *given, **named)

    patch.setattr(TorchEngine, "translate", translate)


def greedy_takes_the_second(patch: pytest.MonkeyPatch) -> None:
    def second(_: object, gains: Tensor) -> tuple[Tensor, Tensor]:
        best = gains.topk(2, dim=-1)
        return best.indices[:, 1], best.values[:, 1]

    patch.setattr(greedy.GreedySearch, "pick", second)


def one_beam_takes_the_second(patch: pytest.MonkeyPatch) -> None:
    original = beam.best_candidates

    def second(gains: Tensor, scores: Tensor, count: int) -> tuple[Tensor, ...]:
        found = original(gains, scores, max(count, 2))
        return tuple(x[:, 1:2] for x in found) if count == 1 else found

    patch.setattr(beam, "best_candidates", second)


def n_best_is_reversed(patch: pytest.MonkeyPatch) -> None:
    _of_each_batch(patch, lambda found: [hs[::-1] for hs in found])


def n_best_repeats_itself(patch: pytest.MonkeyPatch) -> None:
    _of_each_batch(patch, lambda found: [hs[:1] * len(hs) for hs in found])


def n_best_lacks_the_best(patch: pytest.MonkeyPatch) -> None:
    _of_each_batch(patch, lambda found: [hs[1:] if len(hs) > 2 else hs for hs in found])


def output_has_a_special_token(patch: pytest.MonkeyPatch) -> None:
    _of_each_batch(patch, lambda found: [[dataclasses.replace(h, ids=[*h.ids, 1]) for h in hs] for hs in found])


def wrong_length_penalty(patch: pytest.MonkeyPatch) -> None:
    original = finished.hypothesis
    patch.setattr(finished, "hypothesis", lambda ids, *rest: original([*ids, 0], *rest))
    # The ids must stay what they are, so that only the score is wrong.
    _of_each_batch(patch, lambda found: [[shortened(h) for h in hs] for hs in found])


def search_forgets_a_token(patch: pytest.MonkeyPatch) -> None:
    _of_each_batch(patch, lambda found: [[shortened(h) for h in hs] for hs in found])


def forced_scores_are_shifted(patch: pytest.MonkeyPatch) -> None:
    original = TorchEngine._score
    patch.setattr(TorchEngine, "_score", lambda self, *given: [x + 0.01 for x in original(self, *given)])


def saving_rounds(patch: pytest.MonkeyPatch) -> None:
    def save(path: Path, config: Any, weights: dict[str, np.ndarray], *rest: Any) -> Bundle:
        return save_bundle(path, config, {n: w.astype(np.float16) for n, w in weights.items()}, *rest)

    patch.setattr(folder, "save_bundle", save)


def tokenizer_lowercases(patch: pytest.MonkeyPatch) -> None:
    original = SubwordTokenizer.encode_batch
    patch.setattr(SubwordTokenizer, "encode_batch", lambda self, texts: original(self, [t.lower() for t in texts]))


def tokenizer_drops_controls(patch: pytest.MonkeyPatch) -> None:
    original = SubwordTokenizer.decode_batch
    patch.setattr(
        SubwordTokenizer,
        "decode_batch",
        lambda self, batch: ["".join(c for c in text if c == " " or c.isprintable()) for text in original(self, batch)],
    )


def tokenizer_reads_special_tokens(patch: pytest.MonkeyPatch) -> None:
    original = SubwordTokenizer.encode_batch

    def encode(self: SubwordTokenizer, texts: Any) -> list[list[int]]:
        return [[1, *ids] if "<s>" in text else ids for text, ids in zip(texts, original(self, texts), strict=True)]

    patch.setattr(SubwordTokenizer, "encode_batch", encode)


SABOTAGE: list[tuple[str, Sabotage]] = [
    ("causality", no_causal_mask),
    ("causality", sees_the_next_token),
    ("causality", reads_the_token_that_it_predicts),
    ("causality", deaf_decoder),
    ("cache = no cache", cache_off_by_one),
    ("cache = no cache", cache_forgets_when_it_grows),
    ("cache, beams moved", beams_do_not_move),
    ("cache, beams moved", wrong_sentences_are_kept),
    ("padding", padding_is_seen),
    ("padding", padding_is_seen_by_steps_only),
    ("padding", norm_over_the_batch),
    ("evaluation repeats", dropout_left_on),
    ("train = evaluate", training_scales),
    ("train = evaluate", dropout_never_acts),
    ("attention = eq. 1", attention_without_scale),
    ("attention = eq. 1", long_attention_is_blind),
    ("precision", engine_in_half_precision),
    ("batch size and order", neighbours_shorten),
    ("batch size and order", results_are_not_put_back_in_order),
    ("batch size and order", padding_is_seen),
    ("beam 1 = greedy", greedy_takes_the_second),
    ("beam 1 = greedy", one_beam_takes_the_second),
    ("n-best", n_best_is_reversed),
    ("n-best", n_best_repeats_itself),
    ("n-best", n_best_lacks_the_best),
    ("n-best", output_has_a_special_token),
    ("scores = forced", wrong_length_penalty),
    ("scores = forced", search_forgets_a_token),
    ("scores = forced", forced_scores_are_shifted),
    ("scores = forced", beams_do_not_move),
    ("saved = loaded", saving_rounds),
    ("tokenizer", tokenizer_lowercases),
    ("tokenizer", tokenizer_drops_controls),
    ("tokenizer", tokenizer_reads_special_tokens),
]


@pytest.mark.parametrize(("name", "sabotage"), SABOTAGE, ids=lambda v: v if isinstance(v, str) else v.__name__)
def test_a_broken_model_fails(name: str, sabotage: Sabotage, bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(bundle, name).outcome == "passed"
    sabotage(monkeypatch)
    found = check(bundle, name)
    assert found.outcome == "failed", found
    assert found.where or found.faults


def test_every_check_is_shown_to_fail() -> None:
    elsewhere = {"prepacked = plain"}  # below: it needs another model
    assert {name for name, _ in SABOTAGE} | elsewhere == {check.name for check in CHECKS}


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
    report = verify(path, sentences=LINES, settings=SETTINGS, device="cpu", other_engines=False)
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


def test_a_folder_without_checksums_is_found(tmp_path: Path) -> None:
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
    report = verify(bundle.path, sentences=LINES, settings=SETTINGS, device="cpu", other_engines=False)
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
    _of_each_batch(monkeypatch, end_in_one)
    found = check(tied, "batch size and order")
    assert found.outcome == "passed", found.faults
    assert len({tie.sentence.partition(",")[0] for tie in found.ties}) == len(LINES)
    assert all(tie.first != tie.second and tie.difference < 1e-4 for tie in found.ties)


# --- other engines --------------------------------------------------------------------------------------------


@pytest.fixture
def others(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> Callable[[engines.Load], dict[str, Finding]]:
    """Returns what the checks of other engines find where the given one is the only one, in int8 alone."""

    def run(load: engines.Load) -> dict[str, Finding]:
        monkeypatch.setattr(checks, "OTHERS", (("other", "int8"),))
        monkeypatch.setattr(checks, "LOADERS", {"other": load})
        report = verify(bundle.path, sentences=LINES, settings=SETTINGS, device="cpu")
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
