"""What an export says about a model in the files of `transformers`: each setting, key by key."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from transduce.config import Config, DecodeConfig, ModelConfig
from transduce.errors import BundleError, ExportError
from transduce.export.huggingface_settings import _require_numbers, activation_of, read_settings
from transduce.export.huggingface_shape import generation_settings, model_settings, shape_of
from transduce.export.huggingface_tokenizer import save_tokenizer
from transduce.text import SubwordTokenizer

_MODEL = ModelConfig(
    vocab_size=300,
    d_model=16,
    num_heads=2,
    d_k=8,
    d_v=8,
    d_ff=24,
    num_encoder_layers=1,
    num_decoder_layers=3,
    dropout=0.1,
    attention_dropout=0.2,
    ffn_dropout=0.3,
    layer_norm_epsilon=1e-5,
)
_PEGASUS = {"model_type": "pegasus", "architectures": ["PegasusForConditionalGeneration"]}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"model_type": "marian", "decoder_vocab_size": 300, "share_encoder_decoder_embeddings": True}),
        ({"tie_embeddings": "target"}, {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": True}),
        ({"tie_embeddings": "none"}, {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}),
        ({"norm": "pre"}, _PEGASUS),
        ({"norm": "pre", "tie_embeddings": "target"}, _PEGASUS | {"tie_word_embeddings": False}),
        ({"norm": "pre", "positions": "learned", "max_positions": 40}, _PEGASUS | {"max_position_embeddings": 40}),
        ({"decoder_start": "zero"}, {"vocab_size": 301, "decoder_start_token_id": 300, "decoder_vocab_size": 301}),
        ({"target_space_embedding": True}, {"share_encoder_decoder_embeddings": False}),
        ({"d_v": 4, "d_k": 4, "num_heads": 3}, {"encoder_attention_heads": 4, "decoder_attention_heads": 4}),
    ],
)
def test_the_settings_of_a_model(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    always = {
        "architectures": ["MarianMTModel"],
        "dtype": "float32",
        "is_encoder_decoder": True,
        "vocab_size": 300,
        "d_model": 16,
        "max_position_embeddings": 77,
        "activation_function": "relu",
        "scale_embedding": True,
        "dropout": 0.1,
        "attention_dropout": 0.2,
        "activation_dropout": 0.3,
        "init_std": 0.25,  # 1 / √16
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "forced_eos_token_id": None,
        "decoder_start_token_id": 1,
        "tie_word_embeddings": True,
        "encoder_layers": 1,
        "decoder_layers": 3,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24,
    }
    config = replace(_MODEL, **changes)
    found = model_settings(config, shape_of(config, num_positions=77))
    wanted = always | expected
    assert {key: found[key] for key in wanted} == wanted


@pytest.mark.parametrize(("num_positions", "longest"), [(500, 128 + 9), (100, 100)])
def test_the_settings_of_a_search(num_positions: int, longest: int) -> None:
    decode = DecodeConfig(beam_size=5, length_penalty=0.7, max_extra_tokens=9)
    config = Config(name="x", model=_MODEL, decode=decode)
    config = replace(config, data=replace(config.data, max_tokens=128))
    assert generation_settings(config, shape_of(_MODEL, num_positions=num_positions), tags=[8, 9]) == {
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "decoder_start_token_id": 1,
        "bad_words_ids": [[0], [1], [3], [8], [9]],
        "num_beams": 5,
        "length_penalty": 0.7,
        "early_stopping": False,
        "max_length": longest,
    }
    zero = replace(_MODEL, decoder_start="zero")
    found = generation_settings(replace(config, model=zero), shape_of(zero, num_positions=500))
    assert found["decoder_start_token_id"] == 300


def test_the_settings_of_a_tokenizer(tmp_path: Path) -> None:
    tokenizer = SubwordTokenizer.train(["a dog runs", "a cat sleeps"], vocab_size=270, algorithm="bpe")
    save_tokenizer(tokenizer, tmp_path, max_tokens=64, extra_start=True)
    assert json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8")) == {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "<pad>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 64,
        "model_input_names": ["input_ids", "attention_mask"],
        "padding_side": "right",
        "truncation_side": "right",
    }
    definition = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    named = [(each["id"], each["content"]) for each in definition["added_tokens"]]
    start = tokenizer.vocab_size
    assert named == [(0, "<pad>"), (1, "<s>"), (2, "</s>"), (3, "<unk>"), (start, "<start>")]
    for each in definition["added_tokens"]:
        plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        assert plain.items() <= each.items()
    pair = [next(iter(each.values()))["id"] for each in definition["post_processor"]["pair"]]
    assert pair == ["A", "</s>", "B", "</s>"]


@pytest.mark.parametrize(
    ("epsilon", "is_supported"), [(1e-5, True), (1e-6, True), (2e-5, True), (2.1e-5, False), (1e-4, False)]
)
def test_an_epsilon_up_to_twice_theirs_is_near_enough(epsilon: float, is_supported: bool) -> None:
    config = replace(_MODEL, layer_norm_epsilon=epsilon)
    if is_supported:
        assert shape_of(config, num_positions=50).model_type == "marian"
    else:
        with pytest.raises(ExportError, match=r"model\.layer_norm_epsilon = .*: its norms have 1e-05"):
            shape_of(config, num_positions=50)


_SIZES = {
    "vocab_size": 7,
    "decoder_vocab_size": 9,
    "d_model": 4,
    "max_position_embeddings": 5,
    "decoder_start_token_id": 0,
}
_SIZES |= {f"{side}_{key}": 1 for side in ("encoder", "decoder") for key in ("layers", "attention_heads", "ffn_dim")}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, None),
        ({"dropout": 0, "attention_dropout": 0.999, "decoder_start_token_id": 8}, None),
        ({"dropout": 1.0}, "dropout = 1.0: must be a number from 0 to 1, 1 excluded"),
        ({"activation_dropout": -0.1}, "activation_dropout = -0.1: must be a number"),
        ({"attention_dropout": True}, "attention_dropout = True: must be a number"),
        ({"decoder_start_token_id": 9}, "decoder_start_token_id = 9: must be less than 9, the vocabulary"),
        ({"decoder_start_token_id": -1}, "decoder_start_token_id = -1: must be a whole number, 0 or greater"),
        ({"decoder_layers": 0}, "decoder_layers = 0: must be a whole number, 1 or greater"),
        ({"encoder_ffn_dim": 2.0}, "encoder_ffn_dim = 2.0: must be a whole number"),
        ({"encoder_layers": True}, "encoder_layers = True: must be a whole number"),
        ({"decoder_attention_heads": 3}, "decoder_attention_heads = 3: does not divide d_model = 4"),
    ],
)
def test_the_numbers_of_a_checkpoint_are_in_their_ranges(changes: dict[str, Any], message: str | None) -> None:
    if message is None:
        _require_numbers(Path("config.json"), _SIZES | changes)
    else:
        with pytest.raises(BundleError, match=message):
            _require_numbers(Path("config.json"), _SIZES | changes)


@pytest.mark.parametrize(("kind", "expected"), [("marian", ("gelu", None)), ("m2m_100", ("relu", True))])
def test_what_a_configuration_leaves_out_is_the_default_of_its_class(
    kind: str, expected: tuple[str, bool | None], tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(_SIZES | {"model_type": kind}), encoding="utf-8")
    found = read_settings(tmp_path)
    assert (activation_of(found), found.get("scale_embedding")) == expected


@pytest.mark.parametrize("name", [["relu"], {"relu": 1}, 3])
def test_an_activation_that_is_no_name_is_refused(name: Any, tmp_path: Path) -> None:
    settings = _SIZES | {"model_type": "marian", "activation_function": name}
    (tmp_path / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    with pytest.raises(ExportError, match=r"activation_function .*: Transduce has relu"):
        read_settings(tmp_path)
