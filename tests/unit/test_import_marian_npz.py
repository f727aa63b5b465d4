"""What is read of a folder of Marian: its options, its vocabulary and its languages; what is damaged or hostile."""

import io
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_marian_npz import OPTIONS, make_marian, write_npz
from transduce.errors import BundleError, ConfigError, ExportError, TransduceError
from transduce.export.imports import find_format, import_model
from transduce.export.marian_options import read_decoder
from transduce.export.marian_reading import read_marian
from transduce.export.marian_vocabulary import read_vocabulary
from transduce.export.npz import read_npz


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("marian") / "opus"
    make_marian(folder)
    return folder


@pytest.fixture
def opus(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    folder = tmp_path / "opus"
    folder.mkdir()
    for path in made.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def weights_of(folder: Path) -> dict[str, np.ndarray]:
    with np.load(folder / "opus.npz") as stored:
        return {name: stored[name] for name in stored if name != "special:model.yml"}


def with_options(folder: Path, **changes: Any) -> None:
    options = OPTIONS | {name.replace("_", "-"): value for name, value in changes.items()}
    write_npz(folder / "opus.npz", weights_of(folder), options)


# --- options --------------------------------------------------------------------------------------------------


def test_all_options_that_are_not_supported_are_named_at_once(opus: Path) -> None:
    with_options(
        opus,
        transformer_decoder_autoreg="rnn",
        transformer_ffn_activation="prelu",
        transformer_no_projection=True,
        transformer_postprocess_emb="nd",
        transformer_preprocess="d",
        transformer_tied_layers=[1, 1, 2],
        transformer_train_position_embeddings=True,
        transformer_ffn_depth=3,
        lemma_dim_emb=512,
        right_left=True,
        ulr=True,
        input_types=["sequence", "alignment"],
        transformer_of_tomorrow="yes",
        transformer_off_by_default=False,
    )
    with pytest.raises(ExportError) as caught:
        read_marian(opus)
    said = str(caught.value)
    assert said.startswith(f"{opus / 'opus.npz'}: cannot be imported:")
    for part in (
        "transformer-decoder-autoreg = 'rnn': supported is 'self-attention'",
        "transformer-ffn-activation = 'prelu': supported is 'relu', 'swish', 'gelu'",
        "transformer-no-projection = True",
        "transformer-postprocess-emb = 'nd'",
        "transformer-preprocess = 'd', transformer-postprocess = 'dan'",
        "transformer-tied-layers = [1, 1, 2]",
        "transformer-train-position-embeddings = True",
        "transformer-ffn-depth = 3",
        "lemma-dim-emb = 512",
        "right-left = True",
        "ulr = True",
        "input-types = ['sequence', 'alignment']",
        "transformer-of-tomorrow = 'yes': not an option that Transduce knows",
    ):
        assert part in said
    assert "off-by-default" not in said


def test_another_kind_of_model_is_named(opus: Path) -> None:
    with_options(opus, type="s2s")
    with pytest.raises(ExportError, match="type = 's2s': supported is 'transformer'"):
        read_marian(opus)


def test_options_that_only_training_uses_change_nothing(opus: Path) -> None:
    with_options(opus, transformer_depth_scaling=True, transformer_guided_alignment_layer="5", output_omit_bias=True)
    read = read_marian(opus)
    assert read.config.model.activation == "swish"
    assert (read.config.model.num_encoder_layers, read.config.model.num_decoder_layers) == (2, 3)


def test_the_search_is_that_of_decoder_yml(opus: Path) -> None:
    names = "models: [opus.npz]\nvocabs:\n  - /srv/x/opus.vocab.yml\n  - opus.vocab.yml\n"
    for text, beam_size, penalty in (("", 4, 0.6), ("beam-size: 12\nnormalize: 1", 12, 0.6), ("normalize: 0", 4, 0.0)):
        (opus / "decoder.yml").write_text(names + text)
        decode = read_marian(opus).config.decode
        assert (decode.beam_size, decode.length_penalty) == (beam_size, penalty)


@pytest.mark.parametrize(
    ("card", "languages"),
    [
        ("", ("", "")),
        ("# opus-2020-06-28.zip\n\n* source language(s): eng\n* target language(s): deu\n", ("eng", "deu")),
        ("* source language(s): eng\n* target language(s): deu fra\n", ("eng", "")),
        ("* download: [opus.zip](https://example.org/OPUS-MT-models/en-de/opus-2020-02-26.zip)\n", ("en", "de")),
        ("* download: [opus.zip](https://example.org/models/de+nl-en/opus-2020-02-26.zip)\n", ("", "en")),
    ],
)
def test_the_languages_are_those_of_the_card(opus: Path, card: str, languages: tuple[str, str]) -> None:
    (opus / "README.md").write_text(card)
    data = read_marian(opus).config.data
    assert (data.source_language, data.target_language) == languages


def test_a_model_with_tags_has_no_target_language_of_its_own(tmp_path: Path) -> None:
    make_marian(tmp_path / "opus", tags=("deu", "fra"))
    (tmp_path / "opus" / "README.md").write_text("* source language(s): eng\n* target language(s): deu\n")
    read = read_marian(tmp_path / "opus")
    assert (read.config.data.source_language, read.config.data.target_language) == ("eng", "")
    assert [*read.tokenizer.tokenizer.tags] == ["<2deu>", "<2fra>"]


# --- the vocabulary -------------------------------------------------------------------------------------------


def test_every_form_of_a_key_is_read(tmp_path: Path) -> None:
    lines = [
        "</s>: 0", '"<unk>": 1', "▁the: 2", r'"\"": 3', "'''': 4", "null: 5", "a:b: 6", '"\\\\": 7', r'"\x85": 8',
        "? long", ": 9", r'"\u2028x": 10', "'yes': 11", '":": 12', "~: 13", "", r'"a\tb": 14',
        r'"\_\N\L\P": 15',
    ]  # fmt: skip
    (tmp_path / "vocab.yml").write_text("\r\n".join(lines), encoding="utf-8", newline="")
    pieces = [
        "</s>",
        "<unk>",
        "▁the",
        '"',
        "'",
        "null",
        "a:b",
        "\\",
        "\x85",
        "long",
        "\u2028x",
        "yes",
        ":",
        "~",
        "a\tb",
        "\u00a0\u0085\u2028\u2029",  # YAML's names for them, which PyYAML writes
    ]
    assert read_vocabulary(tmp_path / "vocab.yml") == {piece: index for index, piece in enumerate(pieces)}


# --- damaged and hostile files --------------------------------------------------------------------------------


def _npz(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return made.getvalue()


def _npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def _pickled() -> bytes:
    made = io.BytesIO()
    np.save(made, np.array([{"a": 1}], object), allow_pickle=True)
    return made.getvalue()


def _change(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes())) and None


def _replace(name: str, data: bytes) -> Callable[[Path], None]:
    return _change(name, lambda _: data)


def _remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def _weights(change: Callable[[dict[str, np.ndarray]], object]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        weights = weights_of(folder)
        change(weights)
        write_npz(folder / "opus.npz", weights, OPTIONS)

    return damage


def _options(**changes: Any) -> Callable[[Path], None]:
    return lambda folder: with_options(folder, **changes)


_HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s,), }"
_NAMES = b"models: [opus.npz]\nvocabs: [opus.vocab.yml, opus.vocab.yml]\n"
_BOMB = b"a: &a [x,x]\n" + b"".join(b"%c: &%c [*%c,*%c]\n" % (k, k, k - 1, k - 1) for k in range(98, 123))
# Each: how the folder is damaged, and what the one line says: the file, and part of the reason.
DAMAGES: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "npz cut short": (_change("opus.npz", lambda data: data[: len(data) // 2]), "opus.npz", "not a zip file"),
    "npz empty": (_replace("opus.npz", b""), "opus.npz", "not a zip file"),
    "npz of text": (_replace("opus.npz", b"<html>404</html>"), "opus.npz", "not a zip file"),
    "npz with a changed byte": (
        _change("opus.npz", lambda data: data[:5000] + bytes([data[5000] ^ 1]) + data[5001:]),
        "opus.npz",
        "CRC",
    ),
    "npz of no arrays": (_replace("opus.npz", _npz({})), "opus.npz", "special:model.yml: missing"),
    "npz with a pickle": (_replace("opus.npz", _npz({"Wemb.npy": _pickled()})), "opus.npz", "no array of numbers"),
    "npz that is a pickle": (_replace("opus.npz", pickle.dumps({"a": 1})), "opus.npz", "not a zip file"),
    "npz with a text": (_replace("opus.npz", _npz({"run.py": b"x"})), "opus.npz", "is no array"),
    "npz with a path": (_replace("opus.npz", _npz({"../../x": b"x"})), "opus.npz", "is no array"),
    "npz of a gigabyte of zeros": (
        _replace("opus.npz", _npz({"Wemb.npy": _npy(_HEADER % 10**7, bytes(4 * 10**7))}, zipfile.ZIP_DEFLATED)),
        "opus.npz",
        "weights never shrink so much",
    ),
    "npz of a terabyte by its header": (
        _replace("opus.npz", _npz({"Wemb.npy": _npy(_HEADER % 10**12)})),
        "opus.npz",
        "its shape says 4,000,000,000,000",
    ),
    "npz of a negative shape": (_replace("opus.npz", _npz({"Wemb.npy": _npy(_HEADER % -1)})), "opus.npz", "no array"),
    "npz with code in a header": (
        _replace("opus.npz", _npz({"Wemb.npy": _npy("__import__('os').system('true')")})),
        "opus.npz",
        "no array of numbers",
    ),
    "npz with a deep header": (_replace("opus.npz", _npz({"Wemb.npy": _npy("(" * 9000)})), "opus.npz", "no array"),
    "npz in a rare compression": (
        _replace("opus.npz", _npz({"Wemb.npy": _npy(_HEADER % 0)}, zipfile.ZIP_LZMA)),
        "opus.npz",
        "compressed in a rare way",
    ),
    "a weight is missing": (
        _weights(lambda all: all.pop("encoder_l2_ffn_W1")),
        "opus.npz",
        "encoder_l2_ffn_W1: missing",
    ),
    "no embeddings": (_weights(lambda all: all.pop("Wemb")), "opus.npz", "Wemb missing"),
    "embeddings of one dimension": (
        _weights(lambda all: all.update(Wemb=all["Wemb"].reshape(-1))),
        "opus.npz",
        "Wemb: (",
    ),
    "a weight of another shape": (
        _weights(lambda all: all.update(encoder_l1_self_Wq=np.zeros((2, 2), np.float32))),
        "opus.npz",
        "encoder_l1_self_Wq: (2, 2), the options say (32, 32)",
    ),
    "a weight is not finite": (
        _weights(lambda all: all["decoder_l1_self_Wq"].fill(np.nan)),
        "opus.npz",
        "infinite or NaN",
    ),
    "a weight of another model": (
        _weights(lambda all: all.update(Wpos=np.zeros((9, 32), np.float32))),
        "opus.npz",
        "does not have: Wpos",
    ),
    "heads that do not divide": (_options(transformer_heads=5), "opus.npz", "a multiple of transformer-heads = 5"),
    "a billion layers": (_options(enc_depth=10**9), "opus.npz", "enc-depth = 1000000000"),
    "a million layers": (_options(enc_depth=10**6), "opus.npz", "too few for the layers"),
    "layers that are no number": (_options(dec_depth="6"), "opus.npz", "dec-depth = '6'"),
    "no decoder.yml": (_remove("decoder.yml"), "decoder.yml", "cannot be read"),
    "decoder.yml of no table": (_replace("decoder.yml", b"- 1\n- 2\n"), "decoder.yml", "no table of options"),
    "decoder.yml with a bomb": (_replace("decoder.yml", _NAMES + _BOMB), "decoder.yml", "anchor"),
    "decoder.yml with an object": (
        _replace("decoder.yml", b"models: !!python/object/apply:os.system ['true']\n"),
        "decoder.yml",
        "could not determine a constructor",
    ),
    "decoder.yml that is deep": (_replace("decoder.yml", b"[" * 20000), "decoder.yml", "damaged"),
    "decoder.yml that is large": (_replace("decoder.yml", b"#" * (2 << 20)), "decoder.yml", "at most 65,536"),
    "decoder.yml without models": (_replace("decoder.yml", b"vocabs: [a]\n"), "decoder.yml", "'models' is no list"),
    "decoder.yml of an ensemble": (
        _replace("decoder.yml", b"models: [a.npz, b.npz]\nvocabs: [a.yml]\n"),
        "decoder.yml",
        "an ensemble",
    ),
    "decoder.yml with a path": (
        _replace("decoder.yml", b"models: [../../../etc/passwd.npz]\nvocabs: [a.yml]\n"),
        "passwd.npz",
        "no such file",
    ),
    "decoder.yml of a binary": (
        _replace("decoder.yml", b"models: [model.intgemm.alphas.bin]\nvocabs: [a.yml]\n"),
        "model.intgemm.alphas.bin",
        "Get the .npz",
    ),
    "decoder.yml with a wide beam": (
        _change("decoder.yml", lambda data: data.replace(b"beam-size: 2", b"beam-size: wide")),
        "decoder.yml",
        "beam-size = 'wide'",
    ),
    "vocabulary cut short": (
        _change("opus.vocab.yml", lambda data: data[: data.rindex(b"\n", 0, 900) + 1]),
        "opus.vocab.yml",
        "pieces, and the model",
    ),
    "vocabulary that is not UTF-8": (
        _change("opus.vocab.yml", lambda data: data + b"\xff: 7\n"),
        "opus.vocab.yml",
        "UTF-8",
    ),
    "vocabulary without ids": (_replace("opus.vocab.yml", b"</s>\n<unk>\n"), "opus.vocab.yml", "line 1"),
    "vocabulary with a piece twice": (
        _change("opus.vocab.yml", lambda data: data + b"</s>: 9\n"),
        "opus.vocab.yml",
        "'</s>' is there twice",
    ),
    "vocabulary with an id twice": (
        _change("opus.vocab.yml", lambda data: data.replace(b": 7\n", b": 8\n")),
        "opus.vocab.yml",
        "without gaps",
    ),
    "vocabulary with a huge id": (
        _change("opus.vocab.yml", lambda data: data.replace(b": 7\n", b": " + b"9" * 5000 + b"\n")),
        "opus.vocab.yml",
        "does not give the id",
    ),
    "vocabulary without an end": (
        _change("opus.vocab.yml", lambda data: data.replace(b"</s>: 0", b"<end>: 0")),
        "opus.vocab.yml",
        "has no </s>",
    ),
    "vocabulary of factors": (
        lambda folder: (
            (
                (folder / "opus.vocab.yml").rename(folder / "opus.fsv"),
                (folder / "decoder.yml").write_text("models: [opus.npz]\nvocabs: [opus.fsv, opus.fsv]\n"),
            )[0]
            and None
        ),
        "opus.fsv",
        "neither .yml nor .spm",
    ),
    "source.spm damaged": (_change("source.spm", lambda data: data[10:500]), "opus", "SentencePiece model is damaged"),
    "target.spm empty": (_replace("target.spm", b""), "opus", "SentencePiece model is damaged"),
    "source.spm missing": (
        lambda folder: ((folder / "source.spm").rename(folder / "a.spm"), None)[1],
        "opus",
        "source.spm and target.spm missing",
    ),
    "a card too large": (
        lambda folder: (folder / "README.md").write_bytes(b"x" * (5 << 20)) and None,
        "README.md",
        "bytes",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_folder_is_refused_and_leaves_nothing(name: str, opus: Path, tmp_path: Path) -> None:
    damage, file, reason = DAMAGES[name]
    damage(opus)
    before = sorted(opus.iterdir())
    with pytest.raises(TransduceError) as caught:
        import_model(opus, tmp_path / "model", "marian")
    said = str(caught.value)
    first = said.partition("\n")[0]
    assert not isinstance(caught.value, ConfigError)
    assert str(opus) in first
    assert file in first
    assert reason in said
    assert sorted(tmp_path.iterdir()) == [opus]
    assert sorted(opus.iterdir()) == before


def test_a_binary_of_marian_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "model.intgemm.alphas.bin").write_bytes(b"x")
    with pytest.raises(BundleError, match=r"an optimised binary of Marian is not supported: .*\.npz"):
        find_format(tmp_path)


def test_subwords_of_another_kind_are_refused_by_name(opus: Path) -> None:
    (opus / "source.spm").rename(opus / "source.bpe")
    (opus / "target.spm").rename(opus / "target.bpe")
    with pytest.raises(ExportError, match=r"source\.bpe: subwords of subword-nmt"):
        read_marian(opus)


def test_names_of_the_machine_that_trained_are_left_out(opus: Path) -> None:
    (opus / "decoder.yml").write_text("models: [/scratch/train/opus.npz]\nvocabs: ['C:\\train\\opus.vocab.yml']\n")
    decoder = read_decoder(opus)
    assert decoder.model == opus / "opus.npz"
    assert decoder.vocabularies == (opus / "opus.vocab.yml", opus / "opus.vocab.yml")


def test_an_archive_is_read_as_it_was_written(tmp_path: Path) -> None:
    arrays = {
        "rows": np.arange(6, dtype=np.float32).reshape(2, 3),
        "columns": np.asfortranarray(np.arange(6, dtype=np.float16).reshape(2, 3)),
        "bytes": np.array([1, -1], np.int8),
        "number": np.array(7.0, np.float64),
    }
    for write in (np.savez, np.savez_compressed):
        write(tmp_path / "a.npz", **arrays)
        found = read_npz(tmp_path / "a.npz", lambda name: name != "bytes")
        assert found.keys() == arrays.keys() - {"bytes"}
        for name, array in found.items():
            assert array.dtype == arrays[name].dtype
            np.testing.assert_array_equal(array, arrays[name])


@pytest.mark.parametrize("text", ["a: !!int ''", "a: !!float ''", "a: !!bool x", "a: !!timestamp x"])
def test_values_of_yaml_that_are_none_of_their_type_are_damage(opus: Path, text: str) -> None:
    (opus / "decoder.yml").write_text(text)
    with pytest.raises(BundleError, match=r"decoder\.yml: damaged"):
        read_decoder(opus)


def test_long_texts_are_read_in_linear_time(opus: Path) -> None:
    """Each takes minutes, or ages, where a pattern can match in many ways."""
    (opus / "README.md").write_text("\n" * 1_000_000)
    assert read_marian(opus).config.data.source_language == ""
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"1" * 5000 + b"x"
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    with zipfile.ZipFile(opus / "opus.npz", "w") as archive:
        archive.writestr("Wemb.npy", content)
    with pytest.raises(BundleError, match="'Wemb' is no array of numbers"):
        read_npz(opus / "opus.npz", lambda name: True)
