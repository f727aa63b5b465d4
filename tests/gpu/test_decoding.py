"""Decoding on a GPU: in float32 the CPU's tokens, recorded steps as unrecorded ones, and what `verify` promises."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from transduce import Translator
from transduce.bundle import Bundle
from transduce.config import DecodeConfig
from transduce.engines.interface import TokenConstraints
from transduce.engines.torch import TorchEngine
from transduce.model import Transformer
from transduce.verification.run import verify
from verified_model import LINES, save_model

DEVICE = os.environ.get("TRANSDUCE_TEST_DEVICE", "cuda")  # "cpu" tries the tests themselves
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        DEVICE == "cuda" and not torch.cuda.is_available(), reason="no GPU: make gpu, on a machine with one"
    ),
]
_SHAPES: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "released code": {"decoder_start": "zero", "attention_bias": True, "target_space_embedding": True},
    "learned positions": {"positions": "learned", "max_positions": 120, "norm": "pre"},
    "window": {"attention_window": 8},
}
_SEARCHES: dict[str, tuple[dict[str, Any], int, bool]] = {
    "beam": ({"beam_size": 4}, 4, False),
    "greedy": ({"beam_size": 1}, 1, False),
    "groups": ({"beam_size": 4, "diversity_groups": 2}, 4, False),
    "coverage": ({"beam_size": 3, "coverage_penalty": 0.2}, 3, False),
    "no repeats": ({"beam_size": 2, "no_repeat_ngram": 2, "min_tokens": 3}, 1, False),
    "conditions": ({"beam_size": 4}, 2, True),
    "drawn": ({"temperature": 1.0, "top_k": 20, "top_p": 0.9}, 3, False),
}
_CONDITIONS = TokenConstraints(prefix=(50,), required=(((60, 61),),), forbidden=((70,),))


def _engines(bundle: Bundle) -> list[TorchEngine]:
    """Returns the engines of the CPU and of the device, in double precision there: a difference is one, no rounding."""
    engines = []
    for device in ("cpu", DEVICE):
        model = Transformer(bundle.config.model)
        model.load_weights(bundle.weights())
        engines.append(TorchEngine(model.double().to(device)))
    return engines


@pytest.mark.parametrize("shape", _SHAPES)
def test_the_tokens_are_those_of_the_cpu(shape: str, tmp_path: Path) -> None:
    """Three times on a GPU: in new shapes, in shapes that come again, and in recorded ones."""
    bundle = save_model(tmp_path / "model", **_SHAPES[shape])
    sources = [list(bundle.tokenizer.encode(line)) for line in LINES]
    here, away = _engines(bundle)
    for name, (changes, n_best, conditional) in _SEARCHES.items():
        options = DecodeConfig(**{"max_extra_tokens": 12, "batch_size": 4, **changes})
        conditions = [_CONDITIONS] * len(sources) if conditional else None
        expected = here.translate(sources, options, n_best, conditions)
        for _ in range(3 if DEVICE == "cuda" else 1):
            found = away.translate(sources, options, n_best, conditions)
            assert [[each.ids for each in of] for of in found] == [[each.ids for each in of] for of in expected], name
    targets = [ids[::-1] for ids in sources]
    for mine, theirs in zip(away.score(sources, targets), here.score(sources, targets), strict=True):
        assert mine == pytest.approx(theirs, abs=1e-6)
    if DEVICE == "cuda" and not _SHAPES[shape].get("attention_window"):
        assert away.graph_decoders is not None
        assert any(each.is_recorded for each in away.graph_decoders[0].buffers.values())


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_text_comes_out_in_each_precision(precision: Any, tmp_path: Path) -> None:
    bundle = save_model(tmp_path / "model")
    model = Transformer(bundle.config.model)
    model.load_weights(bundle.weights())
    try:
        engine = TorchEngine(model.to(DEVICE), precision)
    except Exception as error:  # a CPU without bf16
        if DEVICE == "cuda":
            raise
        pytest.skip(str(error))
    sources = [list(bundle.tokenizer.encode(line)) for line in LINES]
    for _ in range(3):
        found = engine.translate(sources, DecodeConfig(beam_size=4, max_extra_tokens=12))
        assert all(each[0].ids and each[0].score > -float("inf") for each in found)


def test_float32_gives_the_text_of_the_cpu(tmp_path: Path) -> None:
    """Through the whole pipeline; rounding may decide a near tie, so that one line of eight may differ."""
    save_model(tmp_path / "model")
    texts = [
        Translator.load(tmp_path / "model", engine="torch", device=each).translate(LINES) for each in ("cpu", DEVICE)
    ]
    assert sum(mine != theirs for mine, theirs in zip(*texts, strict=True)) <= 1


def test_verify_passes(tmp_path: Path) -> None:
    save_model(tmp_path / "model")
    report = verify(tmp_path / "model", sentences=LINES, quick=True, device=DEVICE, other_engines=False)
    assert report.passed, report.to_text()


@pytest.mark.skipif(DEVICE != "cuda", reason="what is allocated is known of a GPU only")
def test_memory_does_not_grow(tmp_path: Path) -> None:
    bundle = save_model(tmp_path / "model")
    translator = Translator.load(bundle.path, engine="torch", device=DEVICE)
    held = []
    for _ in range(12):
        translator.translate(LINES * 4)
        torch.cuda.synchronize()
        held.append(torch.cuda.memory_allocated())
    assert max(held[6:]) <= max(held[:6])
