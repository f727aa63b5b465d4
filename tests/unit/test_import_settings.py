"""What an import takes from the settings of another system, and what holds where these are silent."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from transduce.config import Config, DecodeConfig, ModelConfig, to_dict
from transduce.errors import BundleError, ConfigError
from transduce.export import huggingface_reading as reading
from transduce.export.checkpoint_files import read_arrays, weight_files
from transduce.export.foreign_vocabulary import ForeignTokenizer
from transduce.export.huggingface_shape import model_settings, shape_of
from transduce.export.huggingface_vocabulary import _special_tokens, languages_of
from transduce.export.torch_description import TorchDescription, read_description


@pytest.mark.parametrize(
    ("said", "beam_size", "penalty"),
    [
        (None, 4, 0.6),
        ({}, 4, 0.6),
        ({"num_beams": None, "length_penalty": None}, 4, 0.6),
        ({"num_beams": 1, "length_penalty": 0}, 1, 0.0),
        ({"num_beams": 6, "length_penalty": 1.5}, 6, 1.5),
        ({"length_penalty": -0.5}, 4, 0.0),
    ],
)
def test_the_search_of_a_checkpoint(tmp_path: Path, said: Any, beam_size: int, penalty: float) -> None:
    if said is not None:
        (tmp_path / "generation_config.json").write_text(json.dumps(said), encoding="utf-8")
    found = reading._decode_config(tmp_path, {})
    assert found == DecodeConfig(beam_size=beam_size, length_penalty=penalty)


def test_a_search_that_is_no_number_is_refused(tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text('{"num_beams": "many"}', encoding="utf-8")
    with pytest.raises(BundleError, match=r"generation_config\.json: num_beams = 'many'"):
        reading._decode_config(tmp_path, {})


def test_older_folders_have_the_search_in_their_configuration(tmp_path: Path) -> None:
    """As transformers reads it: only where there is no generation_config.json."""
    older = {"num_beams": 6, "length_penalty": 1.3}
    assert reading._decode_config(tmp_path, older) == DecodeConfig(beam_size=6, length_penalty=1.3)
    with pytest.raises(BundleError, match=r"/config\.json: num_beams = 'many'"):
        reading._decode_config(tmp_path, {"num_beams": "many"})
    (tmp_path / "generation_config.json").write_text('{"num_beams": 2}', encoding="utf-8")
    assert reading._decode_config(tmp_path, older) == DecodeConfig(beam_size=2, length_penalty=0.6)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((name, name) for name in ("de", "deu", "pt_BR", "pt-br", "deu_Latn", "zh_Hans")),
        *((name, "") for name in ("", "ROMANCE", "mul", "de+nl", "fi_nb_no_nn_ru_sv_en", "x y")),
    ],
)
def test_a_group_of_languages_is_no_language(name: str, expected: str, tmp_path: Path) -> None:
    settings = {"source_lang": name, "target_lang": f">>{name}<<"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    assert languages_of(tmp_path) == (expected, expected)


def test_special_tokens_are_those_of_the_tokenizer_s_own_settings(tmp_path: Path) -> None:
    assert _special_tokens(tmp_path) == {}
    old = {"bos_token": "<a>", "eos_token": {"content": "<b>"}, "mask_token": "<m>", "unk_token": 5}
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(old), encoding="utf-8")
    assert _special_tokens(tmp_path) == {"bos_token": "<a>", "eos_token": "<b>"}
    new = {"eos_token": "<c>", "pad_token": "<p>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(new), encoding="utf-8")
    assert _special_tokens(tmp_path) == {"bos_token": "<a>", "eos_token": "<c>", "pad_token": "<p>"}


_SETTINGS = {
    "model_type": "marian",
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "max_position_embeddings": 50,
}


def vocabulary(order: list[int], target_order: list[int] | None = None) -> ForeignTokenizer:
    """Returns what an import knows of a tokenizer whose ids, in the checkpoint, are these."""
    target_size = len(target_order or ())
    own: Any = SimpleNamespace(vocab_size=len(order), target_vocab_size=target_size)
    return ForeignTokenizer(own, np.array(order), np.array(target_order) if target_order else None)


@pytest.mark.parametrize(
    ("settings", "dropouts"),
    [
        ({}, (0.1, 0.0, 0.0)),
        ({"dropout": 0.2, "attention_dropout": 0.3, "activation_dropout": 0.4}, (0.2, 0.3, 0.4)),
    ],
)
def test_the_model_of_a_checkpoint(settings: dict[str, Any], dropouts: tuple[float, ...]) -> None:
    table, own = np.arange(6 * 16, dtype=np.float32).reshape(6, 16), vocabulary([0, 1, 2, 3, 4, 5])
    arrays = {"source": table, "target": table, "output": table, "x.q_proj.bias": np.zeros(4, np.float32)}
    found = reading._model_config(_SETTINGS | settings, arrays, own, extra_start=False)
    assert (found.vocab_size, found.target_vocab_size, found.d_model, found.d_ff) == (6, 0, 16, 24)
    assert (found.num_encoder_layers, found.num_decoder_layers) == (2, 3)
    assert (found.num_heads, found.d_k, found.d_v, found.max_positions, found.max_length) == (4, 4, 4, 50, 50)
    assert (found.dropout, found.attention_dropout, found.ffn_dropout) == dropouts
    assert (found.norm, found.positions, found.decoder_start) == ("post", "sinusoidal", "bos")
    assert (found.sinusoid_layout, found.first_position) == ("interleaved", 0)
    assert (found.tie_embeddings, found.attention_bias, found.layer_norm_epsilon) == ("all", False, 1e-5)
    assert (found.activation, found.output_bias) == ("gelu", False)  # that of a Marian model that names none
    arrays |= {"x.q_proj.bias": np.ones(4, np.float32), "source": table + 1}
    arrays["model.decoder.embed_positions.weight"] = np.ones((50, 16), np.float32)
    found = reading._model_config(_SETTINGS | {"model_type": "pegasus"}, arrays, own, extra_start=True)
    assert (found.norm, found.positions, found.decoder_start) == ("pre", "learned", "zero")
    assert (found.tie_embeddings, found.attention_bias, found.max_length) == ("target", True, 0)
    arrays |= {"output": table + 2}
    assert reading._model_config(_SETTINGS, arrays, own, extra_start=False).tie_embeddings == "none"


def test_the_model_of_fairseq_and_of_two_vocabularies() -> None:
    table = np.arange(6 * 16, dtype=np.float32).reshape(6, 16)
    arrays = {"source": table, "target": table[:5], "output": table[:5]}
    settings = _SETTINGS | {"model_type": "m2m_100", "activation_function": "relu"}
    found = reading._model_config(settings, arrays, vocabulary([1, 2, 0, 3, 4, 5], [1, 2, 0, 3, 4]), extra_start=False)
    assert (found.vocab_size, found.target_vocab_size, found.tie_embeddings) == (6, 5, "target")
    assert (found.norm, found.positions, found.activation) == ("pre", "sinusoidal", "relu")
    assert (found.sinusoid_layout, found.first_position, found.output_bias) == ("concatenated", 2, False)


@pytest.mark.parametrize(
    ("order", "written", "expected"),
    [
        ([0, 1, 2, 3, 4], 4, True),
        ([0, 1, 2, 3, 4], 5, False),  # a row that no token of ours has
        ([5, 5, 0, 1, 2, 3, 4], None, True),  # the decoder starts from padding, which is never written
        ([1, 0, 0, 2, 3, 4], None, True),  # … or from the end
    ],
)
def test_a_bias_on_the_logits(order: list[int], written: int | None, expected: bool) -> None:
    table, bias = np.ones((6, 16), np.float32), np.zeros((1, 6), np.float32)
    if written is not None:
        bias[0, written] = 0.5
    arrays = {"source": table, "target": table, "output": table, "final_logits_bias": bias}
    assert reading._model_config(_SETTINGS, arrays, vocabulary(order), extra_start=False).output_bias is expected


@pytest.mark.parametrize(
    ("settings", "scales", "of_output"),
    [
        ({"scale_embedding": True}, (1.0, 1.0, 1.0), "target"),
        ({}, (0.25, 0.25, 1.0), "target"),  # ours are multiplied by √16 when they are read
        ({"scale_embedding": True, "tie_word_embeddings": False}, (1.0, 1.0, 1.0), "output"),
    ],
)
def test_the_tables_of_a_checkpoint(settings: dict[str, Any], scales: tuple[float, ...], of_output: str) -> None:
    tables = {
        name: np.full((3, 16), number, np.float32) for number, name in enumerate(("source", "target", "output"), 1)
    }
    arrays = {
        "model.encoder.embed_tokens.weight": tables["source"],
        "model.decoder.embed_tokens.weight": tables["target"],
        "lm_head.weight": tables["output"],
    }
    found = reading._tables(arrays, {"d_model": 16} | settings)
    expected = (tables["source"], tables["target"], tables[of_output])
    for name, table, scale in zip(("source", "target", "output"), expected, scales, strict=True):
        np.testing.assert_array_equal(found[name], table * scale)


def test_the_weights_of_several_files_are_one_checkpoint(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    for name in ("a", "b"):
        save_file({name: np.full(2, ord(name), np.float32)}, tmp_path / f"{name}.safetensors")
    index = {"weight_map": {"a": "a.safetensors", "b": "b.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    assert {name: array.tolist() for name, array in read_arrays(weight_files(tmp_path)).items()} == {
        "a": [97.0, 97.0],
        "b": [98.0, 98.0],
    }
    whole = tmp_path / "model.safetensors"  # written later, in place of the parts: transformers reads it, too
    save_file({"a": np.zeros(2, np.float32)}, whole)
    assert weight_files(tmp_path) == [whole]


def test_a_description_says_what_is_usual(tmp_path: Path) -> None:
    path = tmp_path / "d.toml"
    path.write_text('num_heads = 8\nsource_embedding = "s"\ntarget_embedding = "t"\noutput = "o"', encoding="utf-8")
    found = read_description(path)
    assert found == TorchDescription(
        num_heads=8,
        source_embedding="s",
        target_embedding="t",
        output="o",
        norm_first=False,
        activation="relu",
        layer_norm_eps=1e-5,
        prefix="",
        output_bias="",
        embedding_scale="sqrt",
        positions="interleaved",
        source_positions="",
        target_positions="",
        decoder_start="",
    )
    assert found.roles == {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    names = {"source": "s", "target": "t", "output": "o"}
    unnamed = dict.fromkeys(("output_bias", "source_positions", "target_positions"), "")
    assert (found.tables, found.layout) == (names | unnamed, "interleaved")
    path.write_text(path.read_text(encoding="utf-8") + '\npositions = "concatenated"', encoding="utf-8")
    assert read_description(path).layout == "concatenated"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("num_heads = 0", "num_heads = 0: must be greater than 0"),
        ('positions = "learned"', "name the tables"),
        ('positions = "learned"\nsource_positions = "p"', "name the tables"),
        ('activation = "swish"', "activation = 'swish': must be one of 'relu', 'gelu'"),
        ('output = ""', "output = '': name each table"),
    ],
)
def test_a_description_that_cannot_be_is_refused(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "d.toml"
    heads = "" if line.startswith("num_heads") else "num_heads = 8\n"
    tables = 'source_embedding = "s"\ntarget_embedding = "t"\n' + 'output = "o"' * (not line.startswith("output"))
    text = f"{heads}{line}\n{tables}"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        read_description(path)


@pytest.mark.parametrize(
    ("start", "last_bias", "last_row", "expected"),
    [
        (5, -1e9, 0.0, True),
        (5, -1e8, 0.0, True),
        (5, -9e7, 0.0, False),
        (5, 0.0, 0.0, False),  # padding that a decoder starts from, as in Marian's own
        (5, -1e9, 0.5, False),  # a token with a meaning
        (4, -1e9, 0.0, False),
        (5, 0.5, 0.0, False),
        (0, 0.0, 0.5, False),
    ],
)
def test_a_start_that_is_no_token(start: int, last_bias: float, last_row: float, expected: bool) -> None:
    """It is the last of six of the target's, with an embedding of zero, and is never written."""
    table, bias = np.ones((6, 2), np.float32), np.zeros((1, 6), np.float32)
    table[5], bias[0, 5] = last_row, last_bias
    settings = {"vocab_size": 9, "decoder_vocab_size": 6, "decoder_start_token_id": start}
    assert reading._has_extra_start({"target": table, "final_logits_bias": bias}, settings) is expected
    bias[0, 2] = 0.25  # that of another token does not matter
    assert reading._has_extra_start({"target": table, "final_logits_bias": bias}, settings) is expected
    assert not reading._has_extra_start({"target": table}, settings)


_OWN = Config(
    name="own",
    model=ModelConfig(
        vocab_size=300, d_model=16, num_heads=2, d_k=8, d_v=8, d_ff=24, num_encoder_layers=1, num_decoder_layers=3
    ),
)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"model_type": "pegasus"},
        {"vocab_size": 301},
        {"d_model": 32},
        {"max_position_embeddings": 78},
        {"scale_embedding": False},
        {"encoder_layers": 2},
        {"decoder_layers": 2},
        {"encoder_attention_heads": 4},
        {"decoder_ffn_dim": 25},
        {"activation_function": "gelu"},
    ],
    ids=str,
)
def test_a_stored_configuration_counts_where_the_checkpoint_still_has_its_shape(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    path, table = tmp_path / "transduce.json", np.ones((300, 16), np.float32)
    path.write_text(json.dumps({"config": to_dict(_OWN)}), encoding="utf-8")
    settings = model_settings(_OWN.model, shape_of(_OWN.model, num_positions=77)) | changes
    arrays = {"source": table, "target": table, "output": table}
    found = reading._original_config(path, settings, arrays)
    assert (found == _OWN) if changes in ({}, {"max_position_embeddings": 78}) else (found is None)


@pytest.mark.parametrize(
    ("tied", "tables", "fits"),
    [
        ("all", (0, 0, 0), True),
        ("all", (1, 0, 0), False),
        ("target", (1, 0, 0), True),
        ("target", (0, 0, 0), True),  # they happen to be the same
        ("target", (1, 0, 2), False),
        ("none", (0, 0, 0), True),
        ("none", (1, 0, 2), True),
    ],
)
def test_tables_that_were_tied_may_be_trained_apart(
    tmp_path: Path, tied: Any, tables: tuple[int, ...], fits: bool
) -> None:
    own = replace(_OWN, model=replace(_OWN.model, tie_embeddings=tied))
    (tmp_path / "t.json").write_text(json.dumps({"config": to_dict(own)}), encoding="utf-8")
    settings = model_settings(own.model, shape_of(own.model, num_positions=77))
    names = ("source", "target", "output")
    arrays = {name: np.full((300, 16), number, np.float32) for name, number in zip(names, tables, strict=True)}
    assert (reading._original_config(tmp_path / "t.json", settings, arrays) is not None) is fits
    for name, bias in (
        ("model.encoder.layers.0.self_attn.q_proj.bias", np.ones(16, np.float32)),
        ("final_logits_bias", np.ones((1, 300), np.float32)),
    ):  # the configuration says that there are none
        assert reading._original_config(tmp_path / "t.json", settings, arrays | {name: bias}) is None
