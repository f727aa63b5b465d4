"""Prepacked weights say the same as the weights they were made of."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from transduce.config import ModelConfig
from transduce.errors import ConfigError
from transduce.model import Transformer, prepack
from transduce.model.inference_weights import PrepackedLinear, QuantizedLinear

pytestmark = pytest.mark.computes

CONFIG = ModelConfig(
    vocab_size=75, num_encoder_layers=1, num_decoder_layers=2, d_model=24, d_ff=40, num_heads=2, d_k=8, d_v=8
)
prepacks_here = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this PyTorch has no oneDNN")


@pytest.fixture(autouse=True)
def _small_weights_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.model.inference_weights._LEAST_WEIGHT", 0)


@prepacks_here
def test_small_weights_stay_with_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    wide = replace(CONFIG, d_ff=-(-(1 << 17) // CONFIG.d_model))
    packed = prepack(make(wide))
    linears = [module for module in packed.modules() if isinstance(module, nn.Linear)]
    assert all(module.weight.numel() < 1 << 17 for module in linears)
    inner = 2 * (CONFIG.num_encoder_layers + CONFIG.num_decoder_layers)
    assert len(prepacked_linears(packed)) == inner + 1  # and the projection to the vocabulary
    assert prepacked_linears(prepack(make(wide), "int8")) == []


def make(config: ModelConfig = CONFIG) -> Transformer:
    torch.manual_seed(1)
    return Transformer(config)


def prepacked_linears(model: Transformer) -> list[PrepackedLinear]:
    return [module for module in model.modules() if isinstance(module, PrepackedLinear)]


@prepacks_here
@pytest.mark.parametrize("single_rows", [True, False])
@pytest.mark.parametrize("outputs", [20, 70])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 4, 33, 128, 500])
def test_the_product_is_that_of_the_weights(rows: int, bias: bool, outputs: int, single_rows: bool) -> None:
    torch.manual_seed(rows)
    linear = nn.Linear(48, outputs, bias=bias)
    x = torch.randn(rows, 48)
    with torch.inference_mode():
        packed = PrepackedLinear(linear.weight, linear.bias, single_rows=single_rows)
        torch.testing.assert_close(packed(x), linear(x), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(packed(x[None, :, :]), linear(x[None, :, :]), rtol=1e-5, atol=1e-5)


@prepacks_here
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("inputs", "outputs"), [(48, 512), (512, 48), (48, 513), (600, 600), (129, 300)])
def test_a_single_row_on_any_number_of_threads(inputs: int, outputs: int, threads: int) -> None:
    torch.manual_seed(1)
    linear = nn.Linear(inputs, outputs)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.inference_mode():
            packed = PrepackedLinear(linear.weight, linear.bias, single_rows=True)
            for x in (torch.randn(1, inputs), torch.randn(1, 1, inputs)):
                torch.testing.assert_close(packed(x), linear(x), rtol=1e-5, atol=1e-5)
    finally:
        torch.set_num_threads(before)


@prepacks_here
@pytest.mark.parametrize("config", [CONFIG, replace(CONFIG, norm="pre", tie_embeddings="none", attention_bias=True)])
def test_a_prepacked_model_gives_the_same_logits(config: ModelConfig) -> None:
    model = make(config).eval()
    source, lengths = torch.randint(4, 75, (3, 6)), torch.tensor([6, 6, 6])
    target = torch.randint(4, 75, (3, 5))
    packed = prepack(model)
    assert len(prepacked_linears(packed)) == sum(isinstance(m, nn.Linear) for m in model.modules()) + 1
    with torch.inference_mode():
        expected = model.decode(model.encode(source, lengths), target)
        torch.testing.assert_close(
            packed.decode(packed.encode(source, lengths), target), expected, rtol=1e-4, atol=1e-5
        )
        state = packed.start(packed.encode(source, lengths), max_steps=5)
        logits, _ = packed.step(torch.full((3,), 1), state)
        torch.testing.assert_close(logits, expected[:, 0], rtol=1e-4, atol=1e-5)


def test_the_model_stays_as_it_is() -> None:
    model = make()
    before = {name: weight.clone() for name, weight in model.weights().items()}
    packed = prepack(model)
    assert model.training
    assert not packed.training
    assert not prepacked_linears(model)
    assert model.output_projection is None
    assert packed.source_embedding is model.source_embedding
    assert all(torch.equal(weight, before[name]) for name, weight in model.weights().items())


@prepacks_here
def test_a_prepacked_model_is_a_snapshot() -> None:
    model = make()
    packed, x = prepack(model), torch.randn(4, 24)
    with torch.inference_mode():
        before = packed.logits(x)
        model.output_embedding.zero_()
        assert torch.equal(packed.logits(x), before)


def test_other_types_are_left_to_pytorch() -> None:
    packed = prepack(make().to(torch.bfloat16))
    assert not prepacked_linears(packed)
    assert not packed.training


@prepacks_here
def test_prepacking_twice_is_prepacking_once() -> None:
    packed = prepack(make())
    assert prepack(packed) is packed


@pytest.mark.skipif(
    not (torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()),
    reason="this processor has no bfloat16",
)
@pytest.mark.parametrize("bias", [True, False])
def test_the_product_in_bfloat16_is_that_of_rounded_weights(bias: bool) -> None:
    torch.manual_seed(0)
    linear, x = nn.Linear(48, 70, bias=bias), torch.randn(4, 48)
    with torch.inference_mode():
        product = PrepackedLinear(linear.weight, linear.bias, torch.bfloat16)(x)
        assert product.dtype == torch.float32
        torch.testing.assert_close(product, linear(x), rtol=0.02, atol=0.02)
        assert not torch.equal(product, linear(x))


quantizes_here = pytest.mark.skipif(
    "fbgemm" not in torch.backends.quantized.supported_engines, reason="this PyTorch has no FBGEMM"
)


def int8_reference(linear: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    """The arithmetic spelt out: integers in float64, which holds their sums exactly."""
    weight_scale = linear.weight.abs().amax(dim=1, keepdim=True).double() / 127
    weight = (linear.weight.double() / weight_scale).round()
    scale = x.abs().amax(dim=-1, keepdim=True)
    rounded = ((x / scale) * 63).round().double()
    product = (rounded @ weight.T) * weight_scale.T * scale.double() / 63
    return (product if linear.bias is None else product + linear.bias.double()).float()


@quantizes_here
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 4, 33, 128])
def test_the_product_in_int8_is_that_of_integers(rows: int, bias: bool) -> None:
    torch.manual_seed(rows)
    linear, x = nn.Linear(48, 70, bias=bias), torch.randn(rows, 48) * torch.logspace(-6, 6, rows)[:, None]
    with torch.inference_mode():
        product = QuantizedLinear(linear.weight, linear.bias)(x)
        # A quotient that lies between two integers may be rounded to either.
        wrong = (product - int8_reference(linear, x)).abs() > 1e-4 * x.abs().amax(dim=1, keepdim=True)
        assert wrong.float().mean() < 0.01
        error = (product - linear(x)).norm(dim=1) / linear(x).norm(dim=1)
        assert float(error.max()) < 0.05


@quantizes_here
def test_extreme_rows_neither_overflow_nor_become_nan_in_int8() -> None:
    linear = nn.Linear(512, 8, bias=False)
    nn.init.ones_(linear.weight)
    x = torch.stack([torch.ones(512), -torch.ones(512), torch.zeros(512), torch.full((512,), 1e-38)])
    with torch.inference_mode():
        product = QuantizedLinear(linear.weight, None)(x)
    torch.testing.assert_close(product[:, 0], torch.tensor([512.0, -512.0, 0.0, 0.0]), rtol=1e-5, atol=1e-5)


@quantizes_here
def test_a_row_in_int8_depends_on_no_other() -> None:
    torch.manual_seed(2)
    linear, x = nn.Linear(64, 96), torch.randn(40, 64) * torch.rand(40, 1) * 30
    with torch.inference_mode():
        packed = QuantizedLinear(linear.weight, linear.bias)
        together = packed(x)
        for row in range(40):
            assert torch.equal(packed(x[row : row + 1])[0], together[row])


@quantizes_here
def test_a_model_in_int8_gives_nearly_the_same_logits() -> None:
    model = make().eval()
    source, lengths, target = torch.randint(4, 75, (3, 6)), torch.tensor([6, 6, 6]), torch.randint(4, 75, (3, 5))
    packed = prepack(model, "int8")
    assert not [module for module in packed.modules() if isinstance(module, nn.Linear)]
    with torch.inference_mode():
        expected = model.decode(model.encode(source, lengths), target)
        found = packed.decode(packed.encode(source, lengths), target)
    assert 0 < float((found - expected).norm() / expected.norm()) < 0.05


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_part_of_a_projection_is_in_the_numbers_of_the_whole(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where this processor has no bfloat16: what is asked for is noted, and not computed."""
    asked: list[tuple[torch.dtype, int]] = []
    monkeypatch.setattr(
        torch.ops.mkldnn, "_reorder_linear_weight", lambda weight, rows: asked.append((weight.dtype, rows))
    )
    whole = PrepackedLinear(torch.zeros(6, 4), torch.zeros(6), dtype)
    part = whole.with_weight(torch.ones(2, 4), None)
    assert asked == [(dtype, 128)] * 2
    assert (part._dtype, part._bias, part._single) == (dtype, None, None)
    assert whole._bias is not None
    assert whole._bias.dtype == dtype


@quantizes_here
def test_a_part_of_a_projection_in_int8_is_in_int8() -> None:
    weight, x = torch.randn(6, 8, generator=torch.Generator().manual_seed(1)), torch.ones(1, 8)
    with torch.inference_mode():
        whole = QuantizedLinear(weight, None)
        part = whole.with_weight(weight[[1, 4]], None)
        assert torch.equal(part(x), whole(x)[:, [1, 4]])


@pytest.mark.parametrize(
    ("precision", "has", "message"),
    [
        ("int8", {}, "int8: it needs FBGEMM"),
        ("bfloat16", {"onednn": False}, "bfloat16: it needs oneDNN"),
        ("bfloat16", {"onednn": True, "bf16": False}, "bfloat16: this processor has no instructions for it"),
    ],
)
def test_numbers_that_this_machine_has_not_are_refused(
    monkeypatch: pytest.MonkeyPatch, precision: str, has: dict[str, bool], message: str
) -> None:
    monkeypatch.setattr("transduce.model.inference_weights.has_int8", lambda: False)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: has.get("onednn", True))
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: has.get("bf16", True))
    with pytest.raises(ConfigError, match=message):
        prepack(make(), precision)  # type: ignore[arg-type]


def test_without_onednn_a_model_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    packed = prepack(make())
    assert (prepacked_linears(packed), packed.output_projection, packed.training) == ([], None, False)


@prepacks_here
@pytest.mark.parametrize(("precision", "least"), [("float32", 1 << 17), ("bfloat16", 0), ("int8", 0)])
def test_which_weights_are_prepacked(monkeypatch: pytest.MonkeyPatch, precision: str, least: int) -> None:
    """Of both stacks; those of the encoder, which sees many rows, are not stored for single rows as well."""
    monkeypatch.undo()
    made: list[tuple[str, Any, int, Any]] = []
    place = "transduce.model.inference_weights"
    stand_in = nn.Identity()

    def prepacked(weight: Any, bias: Any, dtype: Any = torch.float32, *, single_rows: bool = False) -> nn.Module:
        made.append(("prepacked", dtype, weight.numel(), single_rows))
        return stand_in

    def quantized(weight: Any, bias: Any) -> nn.Module:
        made.append(("quantized", None, weight.numel(), None))
        return stand_in

    monkeypatch.setattr(f"{place}.PrepackedLinear", prepacked)
    monkeypatch.setattr(f"{place}.QuantizedLinear", quantized)
    monkeypatch.setattr(f"{place}.has_int8", lambda: True)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)
    wide = replace(CONFIG, d_ff=-(-(1 << 17) // CONFIG.d_model))
    prepack(make(wide), precision)  # type: ignore[arg-type]
    sizes = [each.weight.numel() for each in make(wide).modules() if isinstance(each, nn.Linear)]
    assert len(made) == sum(size >= least for size in sizes) + 1  # and the output projection
    assert made[-1][2] == 75 * 24
    if precision != "int8":
        assert {dtype for _, dtype, _, _ in made} == {getattr(torch, precision)}
        encoder = sum(
            each.weight.numel() >= least for each in make(wide).encoder.modules() if isinstance(each, nn.Linear)
        )
        assert [single for *_, single in made] == [False] * encoder + [True] * (len(made) - encoder)
    else:
        assert {kind for kind, *_ in made} == {"quantized"}
