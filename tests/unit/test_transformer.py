"""What the model is made of: initial weights, shared matrices, the released code's extras."""

from dataclasses import replace

import pytest
import torch

from transduce.config import ModelConfig
from transduce.model import Transformer

pytestmark = pytest.mark.computes

SHAPE = ModelConfig(
    vocab_size=400,
    num_encoder_layers=1,
    num_decoder_layers=1,
    d_model=64,
    d_ff=96,
    num_heads=4,
    d_k=8,
    d_v=24,
    dropout=0.0,
)


def xavier_bound(fan_in: int, fan_out: int) -> float:
    return float((6 / (fan_in + fan_out)) ** 0.5)


def test_each_matrix_is_xavier_uniform_by_its_own_fans() -> None:
    """W_Q, W_K and W_V are drawn as the one matrix that they lie in, 64 → 160, as in the released code of June 2017."""
    torch.manual_seed(1)
    weights = Transformer(replace(SHAPE, attention_bias=True)).weights()
    inner, outer = (weights[f"decoder.0.feed_forward.{name}.weight"] for name in ("inner", "outer"))
    for block, fan_in, fan_out in (
        (weights["encoder.0.self_attention.query_key_value.weight"], 64, 160),
        (weights["decoder.0.cross_attention.key_value.weight"], 64, 128),
        (weights["decoder.0.cross_attention.query.weight"], 64, 32),
        (weights["encoder.0.self_attention.output.weight"], 96, 64),
        (inner, 64, 96),
        (outer, 96, 64),
    ):
        assert block.shape == (fan_out, fan_in)
        bound = xavier_bound(fan_in, fan_out)
        assert 0.98 * bound < float(block.abs().max()) <= bound
        assert float(block.std()) == pytest.approx(bound / 3**0.5, rel=0.05)
    for name, weight in weights.items():
        if name.endswith("bias"):
            assert not bool(weight.any()), name
        elif "norm" in name:
            assert bool((weight == 1).all()), name


@pytest.mark.parametrize("tie", ["all", "target", "none"])
def test_embeddings_are_shared_as_configured_and_normal(tie: str) -> None:
    torch.manual_seed(1)
    model = Transformer(replace(SHAPE, tie_embeddings=tie, positions="learned"))  # type: ignore[arg-type]
    assert (model.source_embedding is model.target_embedding) == (tie == "all")
    assert (model.target_embedding is model.output_embedding) == (tie != "none")
    tables = (model.source_embedding, model.target_embedding, model.output_embedding, model.source_positions.table)
    for table in tables:
        assert float(table.detach().std()) == pytest.approx(64**-0.5, rel=0.03)


def test_learned_positions_start_at_the_scale_that_the_configuration_says() -> None:
    torch.manual_seed(1)
    model = Transformer(replace(SHAPE, positions="learned", position_deviation=0.7))
    assert float(model.source_positions.table.detach().std()) == pytest.approx(0.7, rel=0.03)
    assert float(model.source_embedding.detach().std()) == pytest.approx(64**-0.5, rel=0.03)


def test_the_target_space_is_one_learned_vector_on_the_encoders_input() -> None:
    torch.manual_seed(1)
    model = Transformer(replace(SHAPE, target_space_embedding=True))
    assert model.target_space is not None
    assert model.target_space.shape == (32, 64)
    source, lengths = torch.randint(4, 400, (2, 5)), torch.tensor([5, 5])
    before = model.encode(source, lengths).states_BSD
    (before * torch.randn_like(before)).sum().backward()
    assert model.target_space.grad is not None
    assert model.target_space.grad.any(dim=1).tolist() == [True] + [False] * 31

    # The same as adding it, unscaled, to each embedding that is scaled by √64.
    plain = Transformer(SHAPE)
    weights = {name: weight.clone() for name, weight in model.weights().items() if name != "target_space"}
    weights["source_embedding"] += model.target_space[0].detach() / 8
    plain.load_weights(weights)
    torch.testing.assert_close(plain.encode(source, lengths).states_BSD, before, rtol=1e-4, atol=1e-5)


def test_logits_are_float32_under_autocast() -> None:
    model = Transformer(SHAPE)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        states = model(torch.full((1, 2), 5), torch.tensor([2]), torch.full((1, 3), 5), torch.tensor([3]))
        assert model.logits(states).dtype == torch.float32
