"""A folder of CTranslate2 that is imported writes what CTranslate2 itself writes from it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest
import sentencepiece
import tokenizers

pytest.importorskip("transformers")

from ctranslate2_folders import (
    LINES,
    m2m100_folder,
    marian_folder,
    opennmt_folder,
    read_file,
    rewrite,
    sentencepiece_model,
)
from exported_models import make_model
from made_models import KINDS, made_bundle
from transduce.bundle import Bundle
from transduce.config import DecodeConfig
from transduce.config.aligning_heads import AligningHeads
from transduce.engines.interface import TokenConstraints
from transduce.engines.shortlist.table import load_shortlist
from transduce.engines.torch import TorchEngine
from transduce.errors import BundleError, ExportError
from transduce.export import export_model
from transduce.export.imports import find_format, import_model

pytestmark = pytest.mark.computes

EXTRA_TOKENS = 10
GREEDY = DecodeConfig(beam_size=1, length_penalty=0, max_extra_tokens=EXTRA_TOKENS)
QUANTIZATIONS = ("float32", "float16", "bfloat16", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16")


def imported(folder: Path, output: Path) -> Bundle:
    certificate = import_model(folder, output, sample=4)
    assert certificate is not None
    assert certificate.verdict == "passed"
    assert certificate.measured.token_agreement == 1
    assert certificate.measured.lines_cut_alike == 1
    return Bundle.load(output)


def written_there(folder: Path, end: list[str], first: list[str], last: list[str] | None = None) -> list[list[str]]:
    """Returns the pieces that CTranslate2 writes greedily, without the unknown token, and few more than it reads."""
    never = [[name] for name in ("<unk>", *(("__de__", "__en__") if last else ()))]
    model = ctranslate2.Translator(str(folder), device="cpu", compute_type="float32", intra_threads=1)
    [name] = [
        path
        for path in folder.iterdir()
        if path.name in ("source.spm", "sentencepiece.model", "sentencepiece.bpe.model")
    ]
    processor = sentencepiece.SentencePieceProcessor(model_file=str(name))
    read = [processor.encode(line, out_type=str) for line in LINES]
    results: list[list[str]] = []
    for pieces in read:
        [found] = model.translate_batch(
            [[*first, *pieces, *end]],
            [last] if last else None,
            beam_size=1,
            suppress_sequences=never,
            min_decoding_length=0,
            max_decoding_length=len(first) + len(pieces) + EXTRA_TOKENS,
            max_input_length=0,
        )
        results.append(found.hypotheses[0])
    return results


def written_here(bundle: Bundle) -> list[list[str]]:
    engine, names = TorchEngine.load(bundle, device="cpu"), bundle.tokenizer.target.tokens()
    found = engine.translate(bundle.tokenizer.encode_batch(LINES), GREEDY)
    return [[names[index] for index in best[0].ids] for best in found]


@pytest.mark.parametrize(("quantization", "tie"), [*((each, False) for each in QUANTIZATIONS), ("int8", True)])
def test_marians_folder_writes_the_same_tokens(tmp_path: Path, quantization: str, tie: bool) -> None:
    folder = marian_folder(tmp_path / "folder", quantization, tie_word_embeddings=tie)
    bundle = imported(folder, tmp_path / "model")
    expected = written_there(folder, ["</s>"], [])
    assert written_here(bundle) == expected
    assert tie or len({piece for line in expected for piece in line}) > 8  # not one line for all
    model = bundle.config.model
    assert (model.sinusoid_layout, model.decoder_start, model.source_end) == ("interleaved", "zero", "eos")
    assert (model.activation, model.norm) == ("swish", "post")
    kept = ("learned", 128, 0) if quantization.endswith("float16") else ("sinusoidal", 128, 128)  # "bfloat16" too
    assert (model.positions, model.max_positions, model.max_length) == kept
    assert (model.tie_embeddings == "all") is tie


@pytest.mark.parametrize("quantization", ["float32", "int8"])
def test_a_folder_of_opennmt_reads_sources_without_an_end(tmp_path: Path, quantization: str) -> None:
    folder = opennmt_folder(tmp_path / "folder", quantization)
    bundle = imported(folder, tmp_path / "model")
    expected = written_there(folder, [], [])
    assert written_here(bundle) == expected
    assert written_there(folder, ["</s>"], []) != expected
    model = bundle.config.model
    assert (model.source_end, model.norm, model.tie_embeddings) == ("none", "pre", "none")


def test_m2m100s_folder_writes_the_same_tokens_after_a_language(tmp_path: Path) -> None:
    folder = m2m100_folder(tmp_path / "folder", "int8")
    bundle = imported(folder, tmp_path / "model")
    tags = bundle.tokenizer.tags
    assert tags.keys() == {"<2de>", "<2en>"}
    expected = written_there(folder, ["</s>"], ["__en__"], ["__de__"])
    assert bundle.config.data.language_tags == "both"
    engine, names = TorchEngine.load(bundle, device="cpu"), bundle.tokenizer.tokens()
    sources = [[tags["<2en>"], *ids] for ids in bundle.tokenizer.encode_batch(LINES)]
    found = engine.translate(sources, GREEDY, 1, [TokenConstraints(start=(tags["<2de>"],))] * len(sources))
    for [best], pieces in zip(found, expected, strict=True):
        written = [names[index] for index in best.ids]
        assert written[: len(pieces) - 1] == pieces[1:]
        assert len(written) == len(pieces) - 1 or not best.finished  # their limit counts the language
    model = bundle.config.model
    assert (model.sinusoid_layout, model.first_position, model.norm) == ("concatenated", 2, "pre")


@pytest.mark.parametrize("version", [4, 5])
def test_older_files_have_their_settings_among_the_variables(tmp_path: Path, version: int) -> None:
    folder = opennmt_folder(tmp_path / "folder", "int8")
    stored, _ = read_file(folder / "model.bin")
    settings = {"with_source_eos": np.array(1, np.int8), "unk_token": np.frombuffer(b"<unk>", np.int8)}
    shared = ("num_heads", "pre_norm", "activation")  # not yet one for each stack
    names = {f"encoder/{name}": name for name in shared} | {
        f"decoder/{name}": f"decoder/unused/{name}" for name in shared
    }
    names |= {f"encoder/embeddings_0/{name}": f"encoder/embeddings/{name}" for name in ("weight", "weight_scale")}
    rewrite(folder / "model.bin", version, arrays=settings, names=names)
    rewrite(folder / "model.bin", version, without="/unused/")
    (folder / "config.json").unlink()
    (folder / "shared_vocabulary.txt").write_text(
        "\n".join(json.loads((folder / "shared_vocabulary.json").read_text())) + "\n"
    )
    (folder / "shared_vocabulary.json").unlink()
    bundle = imported(folder, tmp_path / "model")
    assert bundle.config.model.source_end == "eos"  # as the variable says
    assert written_here(bundle) == written_there(folder, [], [])
    assert "decoder/projection/weight_scale" in stored


def test_sinusoids_without_a_table_are_ctranslate2s_own(tmp_path: Path) -> None:
    folder = opennmt_folder(tmp_path / "folder")
    stored, aliases = read_file(folder / "model.bin")
    rewrite(folder / "model.bin", 6, revision=7, without="position_encodings")
    bundle = imported(folder, tmp_path / "model")
    model = bundle.config.model
    assert (model.sinusoid_layout, model.first_position, model.max_length) == ("concatenated", 1, 0)
    assert written_here(bundle) == written_there(folder, [], [])
    assert any("position_encodings" in name for name in stored.keys() | aliases.keys())


def test_learned_positions_stay_a_table(tmp_path: Path) -> None:
    folder = opennmt_folder(tmp_path / "folder")
    table = np.random.default_rng(1).normal(size=(60, 32)).astype(np.float32)
    rewrite(folder / "model.bin", 6, revision=7, without="position_encodings")
    names = [f"{stack}/position_encodings/encodings" for stack in ("encoder", "decoder")]
    rewrite(folder / "model.bin", 6, revision=7, arrays={names[0]: table, names[1]: table[::-1].copy()})
    bundle = imported(folder, tmp_path / "model")
    assert (bundle.config.model.positions, bundle.config.model.max_positions) == ("learned", 60)
    weights = bundle.weights()
    assert np.array_equal(weights["source_positions.table"], table)
    assert np.array_equal(weights["target_positions.table"], table[::-1])


@pytest.mark.parametrize("kind", [name for name in KINDS if "target space" not in name and name != "the released code"])
def test_an_export_comes_back_bit_for_bit(tmp_path: Path, kind: str) -> None:
    layer, heads = KINDS[kind].get("num_decoder_layers", 2) - 1, KINDS[kind].get("num_heads", 2)
    bundle = made_bundle(tmp_path / "model", heads=AligningHeads(layer, (heads - 1,)), **KINDS[kind])
    export_model(bundle.path, tmp_path / "export", "ctranslate2", sample=3)
    back = imported(tmp_path / "export", tmp_path / "back")
    assert back.config == replace(bundle.config, model=replace(bundle.config.model, block_size=1))
    assert back.aligning_heads == bundle.aligning_heads
    assert back.tokenizer.fingerprint == bundle.tokenizer.fingerprint
    ours, theirs = bundle.weights(), back.weights()
    ours = {name: weight for name, weight in ours.items() if not name.startswith("block_heads.")}
    assert theirs.keys() == ours.keys()
    assert [name for name in ours if not np.array_equal(theirs[name], ours[name])] == []


@pytest.mark.parametrize("kind", ["narrow keys", "target space", "the released code"])
def test_an_export_without_its_configuration_computes_the_same(tmp_path: Path, kind: str) -> None:
    bundle = made_bundle(tmp_path / "model", **KINDS[kind])
    export_model(bundle.path, tmp_path / "export", "ctranslate2", sample=3)
    (tmp_path / "export" / "transduce.json").unlink()
    back = imported(tmp_path / "export", tmp_path / "back")
    assert not back.config.model.target_space_embedding
    pairs = [[7, 8, 9, 200], [10, 11, 10, 8]], [[5, 6, 7], [8]]
    scores = [TorchEngine.load(each, device="cpu").score(*pairs) for each in (bundle, back)]
    for ours, theirs in zip(*scores, strict=True):
        assert theirs == pytest.approx(ours, abs=1e-4)


def test_int8_weights_are_read_back_within_half_a_step(tmp_path: Path) -> None:
    bundle = make_model(tmp_path / "model", tie_embeddings="none")
    lenient: dict[str, Any] = {"threshold": 0, "max_difference": 100}
    export_model(bundle.path, tmp_path / "export", "ctranslate2", quantization="int8", sample=3, **lenient)
    back = imported(tmp_path / "export", tmp_path / "back")
    ours, theirs = (each.weights()["decoder.0.feed_forward.inner.weight"] for each in (bundle, back))
    steps = np.abs(ours).max(axis=1, keepdims=True) / 127
    assert 0.4 < (np.abs(ours - theirs) / steps).max() < 0.501


def test_two_vocabularies_stay_two(tmp_path: Path) -> None:
    folder = opennmt_folder(tmp_path / "folder")
    names = json.loads((folder / "shared_vocabulary.json").read_text())
    (folder / "shared_vocabulary.json").unlink()
    (folder / "source_vocabulary.json").write_text(json.dumps(names))
    (folder / "target_vocabulary.json").write_text(json.dumps([*names[:4], *reversed(names[4:])]))
    bundle = imported(folder, tmp_path / "model")
    assert bundle.config.model.target_vocab_size == len(names)
    assert written_here(bundle) == written_there(folder, [], [])


def test_the_vocabulary_map_becomes_a_shortlist(tmp_path: Path) -> None:
    folder = opennmt_folder(tmp_path / "folder")
    a, b, c, d, e = sentencepiece_model()[1][4:9]
    lines = [f"\t{a} {b} {c}", f"{d}\t{c} \u2028 {a} {e}", f"{d} {e}\t{b}"]  # a piece may be a separator of lines
    (folder / "vmap.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
    bundle = imported(folder, tmp_path / "model")
    shortlist = load_shortlist(bundle)
    ids = {name: index for index, name in enumerate(bundle.tokenizer.tokens())}
    assert set(shortlist.frequent_F.tolist()) == {ids[a], ids[b], ids[c]}
    assert set(shortlist.candidates_VK[ids[d]].tolist()) - {2} == {ids[d], ids[c], ids[a], ids[e]}
    assert shortlist.facts["rules_left_out"] == 1  # of two source pieces


def test_a_tokenizer_json_that_marks_words_as_sentencepiece_does(tmp_path: Path) -> None:
    """Its pieces are those of the SentencePiece model, and so are its ids."""
    folder = opennmt_folder(tmp_path / "folder")
    expected = imported(folder, tmp_path / "expected").tokenizer.encode_batch(LINES)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.model"))
    pieces = [(processor.id_to_piece(index), processor.get_score(index)) for index in range(processor.get_piece_size())]
    made = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, 1))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    made.decoder = tokenizers.decoders.Metaspace()
    made.save(str(folder / "tokenizer.json"))
    (folder / "sentencepiece.model").unlink()
    bundle = imported(folder, tmp_path / "model")
    assert bundle.tokenizer.algorithm == "sentencepiece"
    assert bundle.tokenizer.encode_batch(LINES) == expected


def test_a_tokenizer_json_of_bytes_becomes_ours(tmp_path: Path) -> None:
    bundle = make_model(tmp_path / "model")
    export_model(bundle.path, tmp_path / "export", "ctranslate2", sample=3)
    path = tmp_path / "export" / "tokenizer.json"
    definition = json.loads(path.read_text())
    definition["added_tokens"] = [
        {"id": index, "content": name, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False}
        for index, name in enumerate(("<pad>", "<s>", "</s>", "<unk>"))
    ]  # fmt: skip
    path.write_text(json.dumps(definition))
    (tmp_path / "export" / "transduce.json").unlink()
    back = imported(tmp_path / "export", tmp_path / "back")
    assert back.tokenizer.algorithm == "bpe"
    assert back.tokenizer.tokens() == bundle.tokenizer.tokens()
    definition["model"]["vocab"] = dict(reversed(definition["model"]["vocab"].items())) | {"dogs": 299}
    path.write_text(json.dumps(definition))
    with pytest.raises(BundleError, match="other pieces than the vocabulary"):
        import_model(tmp_path / "export", tmp_path / "third")


def test_the_format_is_recognised(tmp_path: Path) -> None:
    assert find_format(opennmt_folder(tmp_path / "folder")) == "ctranslate2"


REFUSED = {
    "gated": ("encoder/layer_0/ffn/linear_0_noact/weight", "gated feed-forward networks"),
    "relative": ("encoder/layer_0/self_attention/relative_position_keys", "relative positions"),
    "normed embeddings": ("encoder/layernorm_embedding/gamma", "a norm of the embeddings"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_not_supported_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    name, named = REFUSED[kind]
    folder = opennmt_folder(tmp_path / "folder")
    more = {name: np.ones((3, 3), np.float32), "decoder/alibi": np.array(1, np.int8)}
    rewrite(folder / "model.bin", 6, revision=7, arrays=more)
    with pytest.raises(ExportError) as caught:
        import_model(folder, tmp_path / "model")
    assert named in str(caught.value)
    assert "decoder/alibi" in str(caught.value)  # all reasons are named
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"add_source_bos": True}, "add_source_bos"),
        ({"decoder_start_token": None}, "decoder_start_token = null"),
        ({"quantization_type": 1}, "AWQ"),
    ],
)
def test_settings_that_are_not_supported_are_refused(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    folder = opennmt_folder(tmp_path / "folder")
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ExportError, match=named):
        import_model(folder, tmp_path / "model")


def test_another_systems_tokenizer_is_asked_for(tmp_path: Path) -> None:
    folder = opennmt_folder(tmp_path / "folder")
    (folder / "sentencepiece.model").rename(folder / "bpe.model")
    with pytest.raises(BundleError, match=r"bpe\.model: subword-nmt.*Moses"):
        import_model(folder, tmp_path / "model")
    (folder / "bpe.model").unlink()
    with pytest.raises(BundleError, match=r"Put sentencepiece\.model"):
        import_model(folder, tmp_path / "model")
    (folder / "source_1_vocabulary.txt").write_text("x\n")
    (folder / "shared_vocabulary.json").unlink()
    with pytest.raises(ExportError, match="several features"):
        import_model(folder, tmp_path / "model")
