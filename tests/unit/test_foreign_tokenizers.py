"""Tokenisers of other systems as ours, and state dicts in parts: which token, table and layer is which, by hand."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transduce.errors import BundleError, ConfigError, ExportError
from transduce.export.huggingface_tokenizer import (
    _added_token,
    _require_described,
    _special_tokens,
    read_tokenizer,
    save_tokenizer,
)
from transduce.export.torch_description import TorchDescription
from transduce.export.torch_reading import _count_layers, read_state, to_model
from transduce.text import SubwordTokenizer

ROLES = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
PATH = Path("tokenizer.json")


@pytest.mark.parametrize(
    ("start_id", "roles", "expected"),
    [
        (None, {}, ["<pad>", "<s>", "</s>", "<unk>"]),
        (1, {}, ["<pad>", "<s>", "</s>", "<unk>"]),
        (0, {}, ["<s>", "<pad>", "</s>", "<unk>"]),  # from padding: that is our BOS, and their BOS our PAD
        (4, {}, ["<pad>", "<go>", "</s>", "<unk>"]),
        (4, {"bos_token": None}, ["<pad>", "<go>", "</s>", "<unk>"]),  # theirs need not have one
        (None, {"unk_token": None}, "it has no unk_token, and a model"),
        (0, {"bos_token": None}, "it has no pad_token, and a model"),
        (None, {"eos_token": "<eos>"}, "it has no eos_token, and a model"),  # not a token of the model
        (None, {"unk_token": "</s>"}, "one token has two roles"),
    ],
)
def test_the_special_tokens_of_another_system(
    start_id: int | None, roles: dict[str, str | None], expected: list[str] | str
) -> None:
    vocabulary = {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "<go>": 4, "a": 5}
    given = {role: token for role, token in (ROLES | roles).items() if token is not None}
    if isinstance(expected, str):
        with pytest.raises(BundleError, match=expected):
            _special_tokens(PATH, vocabulary, given, start_id)
    else:
        assert _special_tokens(PATH, vocabulary, given, start_id) == expected


@pytest.mark.parametrize(
    ("start", "roles", "message"),
    [
        ("", {}, None),
        ("<go>", {}, None),
        ("<go>", {"bos_token": "[B]"}, None),  # it is not needed
        ("<go", {}, "decoder_start = '<go'"),
        ("", {"bos_token": "[B]"}, r"bos_token = '\[B\]'"),
        ("<pad>", {"bos_token": "[B]"}, r"bos_token = '\[B\]'"),  # it becomes our PAD
    ],
)
def test_a_described_start_is_a_token(start: str, roles: dict[str, str], message: str | None) -> None:
    vocabulary = {"<pad>": 0, "<s>": 1, "<go>": 4}
    if message is None:
        _require_described(PATH, vocabulary, ROLES | roles, start)
    else:
        with pytest.raises(ConfigError, match=message):
            _require_described(PATH, vocabulary, ROLES | roles, start)


@pytest.fixture
def own() -> SubwordTokenizer:
    return SubwordTokenizer.train(["a dog runs", "two dogs"], algorithm="bpe", vocab_size=270)


def moved(own: SubwordTokenizer, path: Path, order: list[int], **changes: Any) -> None:
    """Writes a tokeniser with our pieces in another order: `order` has our id of each of theirs."""
    definition = json.loads(own.to_json())
    place = {ours: theirs for theirs, ours in enumerate(order)}
    definition["model"]["vocab"] = {token: place[index] for token, index in definition["model"]["vocab"].items()}
    path.write_text(json.dumps(definition | changes), encoding="utf-8")


def test_pieces_keep_their_order_behind_the_special_tokens(own: SubwordTokenizer, tmp_path: Path) -> None:
    size = own.vocab_size
    order = [*range(4, size), 3, 2, 1, 0]  # special tokens last, in another order
    moved(own, tmp_path / "t.json", order)
    found = read_tokenizer(tmp_path / "t.json", ROLES, None, size)
    assert found.order.tolist() == [size - 1, size - 2, size - 3, size - 4, *range(size - 4)]
    assert found.tokenizer.encode("two dogs") == own.encode("two dogs")
    assert found.tokenizer.tokens() == own.tokens()
    from_padding = read_tokenizer(tmp_path / "t.json", ROLES, size - 1, size)
    assert from_padding.order[:2].tolist() == [size - 2, size - 1]


def test_tokens_behind_the_rows_of_the_model_are_left_out(own: SubwordTokenizer, tmp_path: Path) -> None:
    size = own.vocab_size
    added = [_added_token(size, "<mask>"), _added_token(0, "<pad>")]
    moved(own, tmp_path / "t.json", list(range(size)), added_tokens=added)
    assert read_tokenizer(tmp_path / "t.json", ROLES, None, size).order.tolist() == list(range(size))
    with pytest.raises(BundleError, match=f"the model {size + 2} rows: one row for each piece is needed"):
        read_tokenizer(tmp_path / "t.json", ROLES, None, size + 2)
    with pytest.raises(BundleError, match="cannot be imported: damaged"):  # a piece of the merges is left out
        read_tokenizer(tmp_path / "t.json", ROLES, None, size - 1)


def test_a_source_begins_with_its_tags_and_ends_in_eos(own: SubwordTokenizer, tmp_path: Path) -> None:
    tagged = own.with_tags(["<2de>", "<2fr>", "<domain:law>"])
    save_tokenizer(tagged, tmp_path, ["<2fr>", "<domain:law>"], max_tokens=9, extra_start=False)
    definition = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    template = definition["post_processor"]
    shown = [[next(iter(each.values()))["id"] for each in template[kind]] for kind in ("single", "pair")]
    assert shown == [["<2fr>", "<domain:law>", "A", "</s>"], ["<2fr>", "<domain:law>", "A", "</s>", "B", "</s>"]]
    ids = {token: each["ids"] for token, each in template["special_tokens"].items()}
    assert ids == {"<2fr>": [tagged.tags["<2fr>"]], "<domain:law>": [tagged.tags["<domain:law>"]], "</s>": [2]}
    assert [(each["id"], each["content"]) for each in definition["added_tokens"][4:]] == [
        (tagged.tags[tag], tag) for tag in ("<2de>", "<2fr>", "<domain:law>")
    ]


# --- state dicts ------------------------------------------------------------------------------------------------


def state_of(*, layers: tuple[int, int] = (1, 1), bias: bool = True, norms: bool = True) -> dict[str, np.ndarray]:
    """Returns a state dict of `torch.nn.Transformer` of width 4, where each array has numbers of its own."""
    shapes: dict[str, tuple[int, ...]] = {}
    for side, count in zip(("encoder", "decoder"), layers, strict=True):
        attentions = ("self_attn",) if side == "encoder" else ("self_attn", "multihead_attn")
        for layer in range(count):
            start = f"{side}.layers.{layer}."
            for attention in attentions:
                shapes |= {f"{start}{attention}.in_proj_weight": (12, 4), f"{start}{attention}.out_proj.weight": (4, 4)}
                shapes |= {f"{start}{attention}.in_proj_bias": (12,), f"{start}{attention}.out_proj.bias": (4,)}
            shapes |= {f"{start}linear1.weight": (6, 4), f"{start}linear2.weight": (4, 6)}
            shapes |= {f"{start}linear1.bias": (6,), f"{start}linear2.bias": (4,)}
            for number in range(1, 2 + len(attentions)):
                shapes |= {f"{start}norm{number}.{kind}": (4,) for kind in ("weight", "bias")}
        shapes |= {f"{side}.norm.{kind}": (4,) for kind in ("weight", "bias") if norms}
    random = np.random.default_rng(0)
    found = {
        name: random.random(shape).astype(np.float32)
        for name, shape in shapes.items()
        if bias or not name.endswith("bias")
    }
    return found | {name: random.random((9, 4)).astype(np.float32) for name in ("s", "t", "o")}


def described(**changes: Any) -> TorchDescription:
    given: dict[str, Any] = {"num_heads": 2, "source_embedding": "s", "target_embedding": "t", "output": "o"}
    return TorchDescription(**given | changes)


def test_each_weight_becomes_ours() -> None:
    """Queries, keys and values of the attention to the source are three parts of one matrix."""
    state, rows = state_of(layers=(1, 2)), np.array([3, 1, 2, 0, 4, 5, 6, 7, 8])
    config, weights = to_model(read_state(state, described(norm_first=True)), rows)
    assert (config.num_encoder_layers, config.num_decoder_layers, config.d_model, config.d_ff) == (1, 2, 4, 6)
    assert (config.num_heads, config.d_k, config.d_v, config.norm, config.vocab_size) == (2, 2, 2, "pre", 9)
    assert (config.attention_bias, config.tie_embeddings, config.max_positions) == (True, "none", 1024)
    expected = {"source_embedding": "s", "target_embedding": "t", "output_embedding": "o"}
    for ours, theirs in expected.items():
        np.testing.assert_array_equal(weights[ours], state[theirs][rows])
    third = (
        state["decoder.layers.1.multihead_attn.in_proj_weight"],
        state["decoder.layers.1.multihead_attn.in_proj_bias"],
    )
    for kind, array in zip(("weight", "bias"), third, strict=True):
        np.testing.assert_array_equal(weights[f"decoder.1.cross_attention.query.{kind}"], array[:4])
        np.testing.assert_array_equal(weights[f"decoder.1.cross_attention.key_value.{kind}"], array[4:])
    for ours, theirs in {
        "encoder.0.self_attention.query_key_value.bias": "encoder.layers.0.self_attn.in_proj_bias",
        "encoder.0.feed_forward_residual.norm.weight": "encoder.layers.0.norm2.weight",
        "decoder.1.cross_attention_residual.norm.weight": "decoder.layers.1.norm2.weight",
        "decoder.1.feed_forward_residual.norm.bias": "decoder.layers.1.norm3.bias",
        "decoder.0.cross_attention.output.weight": "decoder.layers.0.multihead_attn.out_proj.weight",
        "decoder.0.feed_forward.outer.bias": "decoder.layers.0.linear2.bias",
        "encoder_norm.weight": "encoder.norm.weight",
        "decoder_norm.bias": "decoder.norm.bias",
    }.items():
        np.testing.assert_array_equal(weights[ours], state[theirs], err_msg=ours)


def test_a_final_norm_of_post_norm_is_that_of_one_more_layer() -> None:
    state = state_of()
    config, weights = to_model(read_state(state, described()), np.arange(9))
    assert (config.norm, config.num_encoder_layers, config.num_decoder_layers) == ("post", 2, 2)
    for side in ("encoder", "decoder"):
        for kind in ("weight", "bias"):
            found = weights[f"{side}.1.feed_forward_residual.norm.{kind}"]
            np.testing.assert_array_equal(found, state[f"{side}.norm.{kind}"])
        added = {name: array for name, array in weights.items() if name.startswith(f"{side}.1.")}
        assert (added.pop(f"{side}.1.self_attention_residual.norm.weight") == 1).all()
        assert not added[f"{side}.1.self_attention_residual.norm.bias"].any()
        assert not added[f"{side}.1.feed_forward.inner.weight"].any()
        assert not added[f"{side}.1.self_attention.output.weight"].any()
    plain, _ = to_model(read_state(state_of(norms=False), described()), np.arange(9))
    assert (plain.num_encoder_layers, plain.num_decoder_layers) == (1, 1)


@pytest.mark.parametrize(
    ("tables", "tied"),
    [("sss", "all"), ("stt", "target"), ("sto", "none"), ("sso", "none"), ("sts", "none")],
)
def test_which_tables_are_one(tables: str, tied: str) -> None:
    names = dict(zip(("source_embedding", "target_embedding", "output"), tables, strict=True))
    state = {name: array for name, array in state_of().items() if name not in "sto" or name in tables}
    config, weights = to_model(read_state(state, described(**names, norm_first=True)), np.arange(9))
    assert config.tie_embeddings == tied
    assert ("target_embedding" in weights, "output_embedding" in weights) == {
        "all": (False, False),
        "target": (True, False),
        "none": (True, True),
    }[tied]


def test_tables_that_are_not_multiplied_are_divided() -> None:
    """By √4, but for the output's, which nothing multiplies: so it is another table."""
    state = state_of()
    names = {"source_embedding": "s", "target_embedding": "s", "output": "s", "embedding_scale": "none"}
    of_one = {name: array for name, array in state.items() if name not in "to"}
    config, weights = to_model(read_state(of_one, described(**names, norm_first=True)), np.arange(9))
    np.testing.assert_array_equal(weights["source_embedding"], state["s"] / 2)
    np.testing.assert_array_equal(weights["target_embedding"], state["s"] / 2)
    np.testing.assert_array_equal(weights["output_embedding"], state["s"])
    assert config.tie_embeddings == "none"


def test_a_model_without_biases_has_zeros_where_ours_must_have_some() -> None:
    config, weights = to_model(read_state(state_of(bias=False), described(norm_first=True)), np.arange(9))
    assert not config.attention_bias
    assert "encoder.0.self_attention.query_key_value.bias" not in weights
    assert weights["encoder.0.feed_forward.inner.bias"].tolist() == [0] * 6
    assert weights["decoder_norm.bias"].tolist() == [0] * 4


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"o": None}, BundleError, "the state dict has no o. It has"),
        ({"more": np.zeros(1)}, BundleError, "neither in the description nor in torch.nn.Transformer: more"),
        ({"t": np.zeros((8, 4), np.float32)}, ExportError, r"tables of shape \[\(8, 4\)\]: all three must be \(9, 4\)"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], error: type[Exception], message: str) -> None:
    state = {name: array for name, array in (state_of() | change).items() if array is not None}
    with pytest.raises(error, match=message):
        to_model(read_state(state, described(norm_first=True)), np.arange(9))


def test_pre_norm_needs_both_final_norms() -> None:
    state = state_of()
    for side in ("encoder", "decoder"):
        without = {name: array for name, array in state.items() if not name.startswith(f"{side}.norm.")}
        with pytest.raises(ExportError, match="norm_first without final norms"):
            read_state(without, described(norm_first=True))


@pytest.mark.parametrize(
    ("numbers", "expected"), [("0", 1), ("0 1 2", 3), ("1", None), ("0 2", None), ("", None), ("0 x", 1)]
)
def test_layers_are_counted_without_a_gap(numbers: str, expected: int | None) -> None:
    arrays = {f"encoder.layers.{number}.w": np.zeros(1) for number in numbers.split()} | {
        "decoder.layers.0.w": np.zeros(1)
    }
    if expected is None:
        with pytest.raises(BundleError, match=r"has no encoder\.layers\.0, encoder\.layers\.1, … .* Is 'prefix' right"):
            _count_layers(arrays, "encoder")
    else:
        assert _count_layers(arrays, "encoder") == expected
