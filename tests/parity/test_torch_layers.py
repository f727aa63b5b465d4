"""Our layers against PyTorch's own, given the same weights."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from transduce.config import ModelConfig
from transduce.model.attention import CrossAttention, SelfAttention
from transduce.model.layers import DecoderLayer, Encoded, EncoderLayer, FeedForward, Residual
from transduce.model.packing import Packing
from transduce.model.transformer import Transformer, padding_mask

pytestmark = pytest.mark.computes

D_MODEL, HEADS, D_FF = 12, 3, 20
CPU = torch.device("cpu")


def config(norm: str) -> ModelConfig:
    return ModelConfig(
        vocab_size=30,
        num_encoder_layers=2,
        num_decoder_layers=2,
        d_model=D_MODEL,
        d_ff=D_FF,
        num_heads=HEADS,
        d_k=D_MODEL // HEADS,
        d_v=D_MODEL // HEADS,
        dropout=0.0,
        attention_bias=True,
        norm=norm,  # type: ignore[arg-type]
        layer_norm_epsilon=1e-6,
    )


def scramble(module: nn.Module) -> None:
    """Gives biases and norms values of their own too: fresh ones would hide a mix-up."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, 0.0, 0.5)


def as_ours_self(theirs: nn.MultiheadAttention, ours: SelfAttention) -> None:
    copy(ours.query_key_value.weight, theirs.in_proj_weight)
    copy(ours.query_key_value.bias, theirs.in_proj_bias)
    copy_linear(ours.output, theirs.out_proj)


def as_ours_cross(theirs: nn.MultiheadAttention, ours: CrossAttention) -> None:
    width = theirs.embed_dim
    copy(ours.query.weight, theirs.in_proj_weight[:width])
    copy(ours.query.bias, theirs.in_proj_bias[:width])
    copy(ours.key_value.weight, theirs.in_proj_weight[width:])
    copy(ours.key_value.bias, theirs.in_proj_bias[width:])
    copy_linear(ours.output, theirs.out_proj)


def copy(ours: Tensor, theirs: Tensor) -> None:
    assert ours.shape == theirs.shape
    with torch.no_grad():
        ours.copy_(theirs)


def copy_linear(ours: nn.Linear, theirs: nn.Linear) -> None:
    copy(ours.weight, theirs.weight)
    copy(ours.bias, theirs.bias)


def copy_norm(ours: Residual | nn.LayerNorm, theirs: nn.LayerNorm) -> None:
    norm = ours.norm if isinstance(ours, Residual) else ours
    copy(norm.weight, theirs.weight)
    copy(norm.bias, theirs.bias)
    assert norm.eps == theirs.eps


def as_ours_encoder(theirs: nn.TransformerEncoderLayer, ours: EncoderLayer) -> None:
    as_ours_self(theirs.self_attn, ours.self_attention)
    copy_linear(ours.feed_forward.inner, theirs.linear1)
    copy_linear(ours.feed_forward.outer, theirs.linear2)
    copy_norm(ours.self_attention_residual, theirs.norm1)
    copy_norm(ours.feed_forward_residual, theirs.norm2)


def as_ours_decoder(theirs: nn.TransformerDecoderLayer, ours: DecoderLayer) -> None:
    as_ours_self(theirs.self_attn, ours.self_attention)
    as_ours_cross(theirs.multihead_attn, ours.cross_attention)
    copy_linear(ours.feed_forward.inner, theirs.linear1)
    copy_linear(ours.feed_forward.outer, theirs.linear2)
    copy_norm(ours.self_attention_residual, theirs.norm1)
    copy_norm(ours.cross_attention_residual, theirs.norm2)
    copy_norm(ours.feed_forward_residual, theirs.norm3)


LENGTHS = torch.tensor([6, 3, 1])
MEMORY_LENGTHS = torch.tensor([2, 5, 4])


def real(lengths: Tensor) -> Tensor:
    return torch.arange(int(lengths.max())) < lengths[:, None]


def future(length: int) -> Tensor:
    """PyTorch's mask is True where attention is forbidden."""
    return torch.ones(length, length, dtype=torch.bool).triu(1)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(1)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_self_attention(causal: bool, packed: bool) -> None:
    theirs = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True)
    scramble(theirs)
    ours = SelfAttention(config("post"))
    as_ours_self(theirs, ours)
    x = torch.randn(3, 6, D_MODEL)
    expected, _ = theirs(
        x, x, x, key_padding_mask=~real(LENGTHS), attn_mask=future(6) if causal else None, need_weights=False
    )
    mask = padding_mask(LENGTHS, 6, CPU)
    if packed:
        packing = Packing.of(LENGTHS, 6, CPU)
        assert packing is not None
        torch.testing.assert_close(ours(packing.pack(x), mask, causal=causal, packing=packing), packing.pack(expected))
    else:
        got = ours(x, mask, causal=causal)
        torch.testing.assert_close(got[real(LENGTHS)], expected[real(LENGTHS)])


def test_cross_attention() -> None:
    theirs = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True)
    scramble(theirs)
    ours = CrossAttention(config("post"))
    as_ours_cross(theirs, ours)
    x, memory = torch.randn(3, 6, D_MODEL), torch.randn(3, 5, D_MODEL)
    expected, _ = theirs(x, memory, memory, key_padding_mask=~real(MEMORY_LENGTHS), need_weights=False)
    got = ours(x, ours.project_memory(memory), padding_mask(MEMORY_LENGTHS, 5, CPU))
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_encoder_layer(norm: str) -> None:
    theirs = nn.TransformerEncoderLayer(
        D_MODEL, HEADS, D_FF, 0.0, "relu", layer_norm_eps=1e-6, batch_first=True, norm_first=norm == "pre"
    )
    scramble(theirs)
    ours = EncoderLayer(config(norm))
    as_ours_encoder(theirs, ours)
    x = torch.randn(3, 6, D_MODEL)
    expected = theirs(x, src_key_padding_mask=~real(LENGTHS))
    got = ours(x, padding_mask(LENGTHS, 6, CPU), None)
    torch.testing.assert_close(got[real(LENGTHS)], expected[real(LENGTHS)])


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_decoder_layer(norm: str) -> None:
    theirs = nn.TransformerDecoderLayer(
        D_MODEL, HEADS, D_FF, 0.0, "relu", layer_norm_eps=1e-6, batch_first=True, norm_first=norm == "pre"
    )
    scramble(theirs)
    ours = DecoderLayer(config(norm))
    as_ours_decoder(theirs, ours)
    x, memory = torch.randn(3, 6, D_MODEL), torch.randn(3, 5, D_MODEL)
    expected = theirs(x, memory, tgt_mask=future(6), tgt_is_causal=True, memory_key_padding_mask=~real(MEMORY_LENGTHS))
    got = ours(x, Encoded(memory, padding_mask(MEMORY_LENGTHS, 5, CPU), None), None)
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_whole_transformer(norm: str) -> None:
    """Two layers each, embeddings, positions, final norms and the projection: logits and all gradients."""
    ours = Transformer(config(norm))
    settings = {"layer_norm_eps": 1e-6, "batch_first": True, "norm_first": norm == "pre"}
    encoder_norm, decoder_norm = (nn.LayerNorm(D_MODEL, eps=1e-6) if norm == "pre" else None for _ in range(2))
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(D_MODEL, HEADS, D_FF, 0.0, "relu", **settings),  # type: ignore[arg-type]
        2,
        encoder_norm,
        enable_nested_tensor=False,
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(D_MODEL, HEADS, D_FF, 0.0, "relu", **settings),  # type: ignore[arg-type]
        2,
        decoder_norm,
    )
    scramble(encoder)
    scramble(decoder)
    for our_layer, their_layer in zip(ours.encoder, encoder.layers, strict=True):
        as_ours_encoder(their_layer, our_layer)  # type: ignore[arg-type]
    for our_layer, their_layer in zip(ours.decoder, decoder.layers, strict=True):
        as_ours_decoder(their_layer, our_layer)  # type: ignore[arg-type]
    for our_norm, their_norm in ((ours.encoder_norm, encoder_norm), (ours.decoder_norm, decoder_norm)):
        assert isinstance(our_norm, nn.LayerNorm if norm == "pre" else nn.Identity)
        if isinstance(our_norm, nn.LayerNorm) and their_norm is not None:
            copy_norm(our_norm, their_norm)
    source, target = torch.randint(4, 30, (3, 6)), torch.randint(4, 30, (3, 5))
    target_lengths = MEMORY_LENGTHS

    table = ours.source_embedding.detach().clone().requires_grad_()
    shifted = torch.cat([torch.ones(3, 1, dtype=torch.int64), target[:, :-1]], dim=1)
    positions = torch.arange(6.0)[:, None] / 10000 ** (torch.arange(0, D_MODEL, 2) / D_MODEL)
    encoding = torch.stack([positions.sin(), positions.cos()], dim=-1).flatten(1)
    memory = encoder(table[source] * D_MODEL**0.5 + encoding, src_key_padding_mask=~real(LENGTHS))
    states = decoder(
        table[shifted] * D_MODEL**0.5 + encoding[:5],
        memory,
        tgt_mask=future(5),
        tgt_is_causal=True,
        memory_key_padding_mask=~real(LENGTHS),
    )
    expected = (states @ table.t())[real(target_lengths)]
    got = ours.logits(ours(source, LENGTHS, target, target_lengths))
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
    weights = torch.randn_like(got)
    (our_gradient,) = torch.autograd.grad((got * weights).sum(), ours.source_embedding)
    (their_gradient,) = torch.autograd.grad((expected * weights).sum(), table)
    torch.testing.assert_close(our_gradient, their_gradient, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("activation", "formula"),
    [
        ("relu", lambda x: max(0.0, x)),
        ("swish", lambda x: x / (1 + math.exp(-x))),
        ("gelu", lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
        ("gelu_tanh", lambda x: x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2),
        ("gelu_sigmoid", lambda x: x / (1 + math.exp(-1.702 * x))),
    ],
)
def test_activations_by_their_formulas(activation: str, formula: Callable[[float], float]) -> None:
    network = FeedForward(replace(config("post"), activation=activation))  # type: ignore[arg-type]
    values = [-30.0, -2.5, -1.0, -0.1, 0.0, 0.3, 1.0, 4.0, 30.0]
    with torch.no_grad():
        for linear in (network.inner, network.outer):
            linear.weight.zero_()
            linear.bias.zero_()
        network.inner.bias[: len(values)] = torch.tensor(values)
        network.outer.weight[: len(values), : len(values)] = torch.eye(len(values))
    found = network(torch.zeros(1, D_MODEL))[0, : len(values)].tolist()
    assert found == pytest.approx([formula(x) for x in values], abs=2e-6)


def test_the_feed_forward_network_is_two_convolutions_of_kernel_size_1() -> None:
    """§3.3: "Another way of describing this is as two convolutions with kernel size 1"."""
    torch.manual_seed(0)
    ours = FeedForward(config("post"))
    scramble(ours)
    inner, outer = nn.Conv1d(D_MODEL, D_FF, kernel_size=1), nn.Conv1d(D_FF, D_MODEL, kernel_size=1)
    for convolution, linear in ((inner, ours.inner), (outer, ours.outer)):
        copy(convolution.weight, linear.weight[:, :, None])
        copy(convolution.bias, linear.bias)  # type: ignore[arg-type]
    x_BSD = torch.randn(2, 5, D_MODEL)
    x_BDS = x_BSD.transpose(1, 2)  # a convolution has the channels before the positions
    convolved_BSD = outer(torch.relu(inner(x_BDS))).transpose(1, 2)
    torch.testing.assert_close(ours(x_BSD), convolved_BSD)
