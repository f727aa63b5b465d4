"""The ONNX graphs compute what the original computes, on every axis of the model, cached and not."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exported_models import LINES, assert_same_logits, make_model
from transduce.config import DecodeConfig
from transduce.export import export_model
from transduce.export.native_system import NativeSystem

pytestmark = pytest.mark.computes

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

AXES: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"norm": "pre"},
    "learned positions": {"positions": "learned", "max_positions": 40},
    "sines before cosines": {"sinusoid_layout": "concatenated"},
    "d_k and d_v differ": {"d_k": 5, "d_v": 11},
    "biases": {"attention_bias": True},
    "another epsilon": {"layer_norm_epsilon": 0.1},
    "zero start, learned positions": {"decoder_start": "zero", "positions": "learned", "max_positions": 40},
    "two tables": {"tie_embeddings": "target"},
    "three tables, pre-norm": {"tie_embeddings": "none", "norm": "pre"},
    "zero start": {"decoder_start": "zero"},
    "target space": {"target_space_embedding": True},
    "window": {"attention_window": 4},
    "window, pre-norm": {"attention_window": 7, "norm": "pre"},
    "unequal stacks": {"num_encoder_layers": 1, "num_decoder_layers": 3},
    "swish, a bias on the logits": {"activation": "swish", "output_bias": True},
    "gelu, later positions": {"activation": "gelu", "first_position": 2},
    "gelu by tanh": {"activation": "gelu_tanh"},
    "gelu by a sigmoid": {"activation": "gelu_sigmoid"},
    "odd width": {"positions": "learned", "max_positions": 40, "d_model": 21},
}


@pytest.mark.parametrize("changes", AXES.values(), ids=AXES)
def test_logits_are_the_same(tmp_path: Path, changes: dict[str, Any]) -> None:
    from transduce.export.onnx_system import OnnxSystem

    bundle, output = make_model(tmp_path / "model", **changes), tmp_path / "export"
    certificate = export_model(bundle.path, output, "onnx", sample=6)
    assert certificate.verdict == "passed"
    assert_same_logits(bundle, OnnxSystem(output))


@pytest.mark.parametrize(("beam_size", "alpha"), [(1, 0.6), (4, 0.6), (3, 1.4)])
def test_the_script_searches_as_we_do(tmp_path: Path, beam_size: int, alpha: float) -> None:
    decode = DecodeConfig(beam_size=beam_size, length_penalty=alpha, max_extra_tokens=12)
    bundle = make_model(tmp_path / "model", seed=beam_size, decode=decode)
    measured = export_model(bundle.path, tmp_path / "export", "onnx", sample=12).measured
    assert measured.identical_translations == 1


def test_a_batch_with_padding_gives_what_each_source_gives_alone(tmp_path: Path) -> None:
    from transduce.export.translate_onnx import OnnxTranslator

    bundle, output = make_model(tmp_path / "model", norm="pre"), tmp_path / "export"
    export_model(bundle.path, output, "onnx", sample=2)
    translator = OnnxTranslator(output)
    sources = np.array([[7, 8, 9, 10, 2], [11, 12, 2, 0, 0]])
    targets = np.array([[1, 20, 21], [1, 30, 31]])
    names = [value.name for value in translator.encoder.get_outputs()]
    memory = dict(zip(names, translator.encoder.run(names, {"source_ids": sources}), strict=True))
    logits, _ = translator.step(targets, memory, translator.no_past(2))
    for row, source in enumerate(([7, 8, 9, 10], [11, 12])):
        alone, _ = translator.step(targets[row : row + 1], translator.encode(list(source)), translator.no_past(1))
        assert logits[row] == pytest.approx(alone[0], abs=1e-5)


def test_the_script_needs_nothing_of_ours(tmp_path: Path) -> None:
    bundle, output = make_model(tmp_path / "model", seed=1), tmp_path / "export"
    export_model(bundle.path, output, "onnx", sample=2)
    lines = [*LINES[:3], "", "A carriage\rreturn ends no line.", LINES[3]]
    code = (
        "import runpy, sys; sys.modules.update(dict.fromkeys(['torch', 'transduce', 'onnx', 'transformers']))\n"
        f"sys.argv = ['translate_onnx.py']; runpy.run_path({str(output / 'translate_onnx.py')!r}, run_name='__main__')"
    )
    expected = [*NativeSystem(bundle).translate(lines), ""]
    for ending in ("\n", "\r\n"):
        text = "".join(line + ending for line in lines).encode()
        done = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        assert done.stdout.decode().split("\n") == expected


def test_weights_are_stored_once(tmp_path: Path) -> None:
    bundle, output = make_model(tmp_path / "model"), tmp_path / "export"
    export_model(bundle.path, output, "onnx", sample=2)
    numbers = sum(array.size for array in bundle.weights().values())
    positions = 1024 + bundle.config.decode.max_extra_tokens + 1
    expected = 4 * (numbers + positions * bundle.config.model.d_model)
    assert expected <= (output / "weights.bin").stat().st_size <= expected + 64 * len(bundle.weights()) * 3
