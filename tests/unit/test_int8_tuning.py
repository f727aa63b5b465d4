"""The weights of a tuned step are those that the int8 engines compute with, and come back as they were."""

from pathlib import Path

import numpy as np
import pytest
import torch

from ctranslate2_folders import read_file
from made_models import KINDS, made_bundle
from transduce.bundle import save_bundle
from transduce.config import Config, ModelConfig, TrainConfig, apply_settings
from transduce.engines.ctranslate2_model import convert
from transduce.model import Transformer
from transduce.model.inference_weights import QuantizedLinear
from transduce.training.int8_tuning import copied_bytes, rounded, rounded_weights
from transduce.training.schedule import describe_tuning, untuned_steps

pytestmark = pytest.mark.computes

SMALL = ModelConfig(vocab_size=75, num_encoder_layers=1, num_decoder_layers=2, d_model=24, d_ff=40, num_heads=2)


def made(config: ModelConfig = SMALL) -> Transformer:
    torch.manual_seed(1)
    return Transformer(config)


def arrays_of(path: Path) -> dict[str, np.ndarray]:
    """Returns the arrays of a `model.bin` by name."""
    kinds = ("<f4", "<i1", "<i2", "<i4")
    return {
        name: np.frombuffer(data, kinds[kind]).reshape(shape)
        for name, (shape, kind, data) in read_file(path)[0].items()
    }


def test_each_row_is_rounded_by_its_own_scale() -> None:
    """Steps of 1, of 2 / 127 and of a tenth; a half is rounded to the even neighbour, as everywhere."""
    weights = torch.tensor([[127.0, 63.4, -0.6, 2.5], [-2.0, 1.0, 0.9, 0.007], [0.0, 0.0, 0.0, 0.0], [0, 0, 0, -12.7]])
    expected = torch.tensor([[127.0, 63, -1, 2], [-2, 64 * 2 / 127, 57 * 2 / 127, 0], [0, 0, 0, 0], [0, 0, 0, -12.7]])
    torch.testing.assert_close(rounded(weights), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_inside_are_what_a_model_in_int8_has_for_ctranslate2(tmp_path: Path, kind: str) -> None:
    """All that is stored in int8 is rounded, and nothing else."""
    bundle = made_bundle(tmp_path / "model", **KINDS[kind])
    model = Transformer.from_weights(bundle.config.model, bundle.weights())
    with rounded_weights(model):
        inside = {name: weight.numpy().copy() for name, weight in model.weights().items()}
    convert(bundle, tmp_path / "int8", "int8")
    convert(save_bundle(tmp_path / "other", bundle.config, inside, bundle.tokenizer, {}), tmp_path / "rounded")
    stored, found = (arrays_of(tmp_path / name / "model.bin") for name in ("int8", "rounded"))
    scales = {name for name, scale in stored.items() if name.endswith("_scale") and scale.ndim == 1}
    assert len(scales) > 10
    for name, array in found.items():
        expected = stored[name]
        if f"{name}_scale" in scales:
            expected = expected / stored[f"{name}_scale"][:, None]
        np.testing.assert_allclose(array, expected, rtol=1e-6, atol=1e-9, err_msg=name)


def test_the_torch_engine_rounds_what_was_rounded_to_the_same_integers() -> None:
    weight = torch.randn(30, 24)
    first, second = (QuantizedLinear(each, None) for each in (weight, rounded(weight)))
    ours, theirs = (torch.ops.quantized.linear_unpack(each._weight)[0] for each in (first, second))
    assert torch.equal(ours.int_repr(), theirs.int_repr())
    torch.testing.assert_close(ours.dequantize(), rounded(weight), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("tie", ["all", "target", "none"])
def test_weights_come_back_bit_for_bit_also_after_an_error(tie: str) -> None:
    model = made(apply_settings(Config(model=SMALL), [f"model.tie_embeddings={tie}"]).model)
    model.source_embedding.requires_grad_(False)  # as `init.freeze` does: inference rounds it all the same
    before = {name: weight.clone() for name, weight in model.weights().items()}
    matrices = {name for name, weight in before.items() if weight.dim() == 2}
    inside: dict[str, torch.Tensor] = {}

    def fail_inside() -> None:
        with rounded_weights(model):
            inside.update({name: weight.clone() for name, weight in model.weights().items()})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()
    assert {name for name, weight in inside.items() if not torch.equal(weight, before[name])} == matrices
    assert all(torch.equal(weight, before[name]) for name, weight in model.weights().items())


def test_gradients_are_those_of_the_rounded_weights() -> None:
    """Straight through: a model that has the rounded weights has the same gradients."""
    tuned, other = made(), made()
    ids, lengths = torch.randint(4, 75, (3, 6)), torch.tensor([6, 4, 2])
    other.load_weights({n: rounded(w) if w.dim() == 2 else w for n, w in other.weights().items()})
    with rounded_weights(tuned):
        tuned.eval()(ids, lengths, ids, lengths).square().sum().backward()
    other.eval()(ids, lengths, ids, lengths).square().sum().backward()
    for ours, theirs in zip(tuned.parameters(), other.parameters(), strict=True):
        assert (ours.grad is None) == (theirs.grad is None)
        assert ours.grad is None or torch.equal(ours.grad, theirs.grad)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("default")  # what PyTorch's compiler says of itself
def test_a_compiled_layer_has_the_rounded_weights() -> None:
    plain, compiled = made().eval(), made().eval()
    torch._dynamo.reset()
    compiled.compile(backend="eager", dynamic=True)
    ids, lengths = torch.randint(4, 75, (3, 6)), torch.tensor([6, 4, 2])
    with torch.no_grad():
        before = compiled(ids, lengths, ids, lengths)
        with rounded_weights(plain), rounded_weights(compiled):
            found = compiled(ids, lengths, ids, lengths)
            torch.testing.assert_close(found, plain(ids, lengths, ids, lengths), rtol=1e-5, atol=1e-5)
    assert (found - before).abs().max() > 1e-3
    torch._dynamo.reset()


def test_which_steps_are_tuned_and_what_they_keep() -> None:
    train = TrainConfig(max_steps=2400, int8_tuning_steps=240)
    assert untuned_steps(train) == 2160
    assert untuned_steps(TrainConfig()) > 10**9
    assert describe_tuning(train).startswith("int8 tuning: steps 2,161 to 2,400 compute with weights rounded as int8")
    model = made()
    matrices = sum(weight.numel() for weight in model.weights().values() if weight.dim() == 2)
    assert (copied_bytes(model, train), copied_bytes(model, TrainConfig())) == (4 * matrices, 0)
