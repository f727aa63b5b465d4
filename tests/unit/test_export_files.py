"""What an export or an import writes beside the weights, and the sentences that it is compared on: key by key."""

import importlib.metadata
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from transduce import files
from transduce.bundle import Bundle
from transduce.config import Config, DataConfig, DecodeConfig, ModelConfig, TextConfig
from transduce.config.corpora import CorpusConfig, HeldOutSetConfig
from transduce.errors import BundleError, ConfigError, DataError, ExportError, MissingDependencyError
from transduce.export import exports, imports
from transduce.export.card import export_card
from transduce.export.certificate import EXACT, ROUNDED, Certificate, Measured, Thresholds, versions
from transduce.export.foreign_model import ForeignModel
from transduce.export.foreign_vocabulary import ForeignTokenizer
from transduce.export.hub import Origin
from transduce.export.options import Comparison
from transduce.export.sentences import Sentences, choose_sentences, spread, validation_part
from transduce.export.torch_description import TorchDescription
from transduce.text import SubwordTokenizer

MANY = DataConfig(
    corpora=tuple(CorpusConfig(files=("x",), source_language="en", target_language=each) for each in ("de", "fr")),
    target_language="fr",
)


def tokenizer(*tags: str) -> SubwordTokenizer:
    return SubwordTokenizer.train(["a dog runs"], algorithm="bpe", vocab_size=270).with_tags([*tags])


def made(*tags: str, **parts: Any) -> Any:
    """Returns a model folder that is no more than its configuration and its tokeniser."""
    return SimpleNamespace(
        path=Path("m"),
        config=Config(name="mine", **parts),
        tokenizer=tokenizer(*tags),
        weights=dict,
        checksums={},
        aligning_heads=None,
    )


# --- onnx and ctranslate2 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "extra", "num_positions", "longest"),
    [
        ({}, 30, 1024 + 30 + 1, (1024, 1024 + 30)),
        ({"positions": "learned", "max_positions": 40}, 30, 40, (39, 39)),  # one is for EOS, or for BOS
        ({"positions": "learned", "max_positions": 3000}, 30, 3000, (1024, 2999)),
    ],
)
def test_the_settings_of_onnx_graphs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    extra: int,
    num_positions: int,
    longest: tuple[int, int],
) -> None:
    written: list[Any] = []
    monkeypatch.setattr("transduce.export.onnx_model.write_graphs", lambda *args, **options: written.append(options))
    model = ModelConfig(num_decoder_layers=3, num_heads=2, d_k=5, d_v=7, **changes)
    decode = DecodeConfig(beam_size=5, length_penalty=0.7, max_extra_tokens=extra)
    bundle = made("<2de>", "<2fr>", model=model, decode=decode, data=MANY)
    assert exports._write_onnx(bundle, tmp_path) == ()
    assert written == [{"num_positions": num_positions}]
    tags = bundle.tokenizer.tags
    assert json.loads((tmp_path / "settings.json").read_text(encoding="utf-8")) == {
        "pad": 0,
        "bos": 1,
        "eos": 2,
        "unk": 3,
        "num_decoder_layers": 3,
        "num_heads": 2,
        "d_k": 5,
        "d_v": 7,
        "max_source_tokens": longest[0],
        "max_target_tokens": longest[1],
        "beam_size": 5,
        "length_penalty": 0.7,
        "max_extra_tokens": extra,
        "tags": tags,
        "target_tags": [*tags.values()],
        "default_tags": [tags["<2fr>"]],
    }
    assert (tmp_path / "tokenizer.json").is_file()
    script = Path(exports.__file__).with_name("translate_onnx.py")
    assert (tmp_path / "translate_onnx.py").read_bytes() == script.read_bytes()


@pytest.mark.parametrize("shortlist", [None, "a shortlist"])
def test_a_shortlist_goes_into_the_conversion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shortlist: Any) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(exports, "convert", lambda *args: calls.append(args))
    bundle = made()
    notes = exports._write_ctranslate2("int8", shortlist, bundle, tmp_path)
    assert calls == [(bundle, tmp_path, "int8", shortlist)]
    assert ("vmap.txt" in " ".join(notes), len(notes)) == ((True, 3) if shortlist else (False, 2))
    assert (tmp_path / "tokenizer.json").is_file()


@pytest.mark.parametrize(("epsilon", "is_noted"), [(1e-5, False), (1e-6, True)])
def test_the_files_of_transformers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epsilon: float, is_noted: bool
) -> None:
    saved: list[Any] = []
    monkeypatch.setattr(exports, "to_huggingface", lambda *args: {"w": np.zeros(2, np.float32)})
    monkeypatch.setattr(exports.files, "_UMASK", 0o027)
    monkeypatch.setattr(exports, "save_tokenizer", lambda *args, **options: saved.append((args[1:], options)))
    model = ModelConfig(vocab_size=300, layer_norm_epsilon=epsilon, decoder_start="zero")
    bundle = made("<2de>", "<2fr>", model=model, decode=DecodeConfig(max_extra_tokens=30), data=MANY)
    notes = exports._write_huggingface(bundle, tmp_path)
    assert any("layer norms add 1e-05 to a variance, the original's 1e-06" in note for note in notes) is is_noted
    assert "length^α" in notes[0]
    # Its longest source has 1024 tokens and EOS; the default direction is French.
    assert saved == [((tmp_path, ["<2fr>"]), {"max_tokens": 1025, "extra_start": True})]
    assert (tmp_path / "model.safetensors").stat().st_mode & 0o777 == 0o640
    config, search = (json.loads((tmp_path / name).read_text()) for name in ("config.json", "generation_config.json"))
    assert (config["vocab_size"], config["max_position_embeddings"]) == (301, 1055)
    assert search["bad_words_ids"][3:] == [[bundle.tokenizer.tags["<2de>"]], [bundle.tokenizer.tags["<2fr>"]]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("onnx", "float32", 0.0), None),
        (("ctranslate2", "int8", 1.0), None),
        (("onx", "float32", None), "There is no format 'onx'. Did you mean 'onnx'?"),
        (("onnx", "int8", None), "--quantization int8: the format 'onnx' is float32; ctranslate2 has others."),
        (("onnx", "float32", -0.01), "--threshold -0.01: must be a share from 0 to 1."),
        (("onnx", "float32", 1.01), "--threshold 1.01: must be a share from 0 to 1."),
    ],
)
def test_what_can_be_exported(arguments: tuple[str, str, float | None], message: str | None) -> None:
    if message is None:
        exports._check(*arguments)
        return
    with pytest.raises(ConfigError) as error:
        exports._check(*arguments)
    assert str(error.value).startswith(message)


def test_a_shortlist_is_ctranslate2s(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--shortlist: the format 'onnx' has none"):
        exports.export_model("m", tmp_path / "o", "onnx", shortlist=True)


def test_what_runs_an_export_is_enough_to_compare_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "find_spec", lambda package: None if package == "onnx" else package)
    exports.require_installed("onnx")  # which onnxruntime runs
    with pytest.raises(
        MissingDependencyError, match=r"^onnx not installed\. The format 'onnx' needs: pip install .*onnx"
    ):
        exports.require_installed("onnx", ("onnxruntime", "onnx"))
    monkeypatch.setattr(exports, "find_spec", lambda package: None)
    with pytest.raises(MissingDependencyError, match=r"^ctranslate2 not .*needs: pip install ctranslate2"):
        exports.require_installed("ctranslate2")


@pytest.mark.parametrize(
    ("options", "default", "expected"),
    [
        ({}, EXACT, (0.999, 1e-3)),
        ({}, ROUNDED, (0.97, 0.1)),
        ({"threshold": 0.0}, EXACT, (0.0, 1e-3)),
        ({"max_difference": 0.0}, ROUNDED, (0.97, 0.0)),
    ],
)
def test_the_thresholds_of_a_comparison(
    options: dict[str, Any], default: Thresholds, expected: tuple[float, float]
) -> None:
    found = Comparison(**options).thresholds(default)
    assert (found.token_agreement, found.mean_difference) == expected


# --- the card and the certificate -------------------------------------------------------------------------------

CERTIFICATE = Certificate(
    original="ours",
    export="theirs",
    sentences="a file",
    measured=Measured(
        lines=1200,
        target_tokens=34567,
        lines_cut_alike=0.9975,
        token_agreement=0.98765,
        mean_difference=0.00123,
        max_difference=0.5,
        identical_translations=0.875,
        bleu_between=91.234,
        bleu_original=30.5,
        bleu_export=30.25,
        bleu_signature="tok:13a",
    ),
    thresholds=ROUNDED,
    format="onnx",
    notes=("one thing", "another"),
)


def test_a_certificate_as_markdown() -> None:
    text = CERTIFICATE.to_markdown()
    assert text.startswith("**failed**: theirs, against ours, on a file.\n\n")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:2] == "| "]
    assert rows == [
        ["", "measured", "required"],
        ["---", "---:", "---:"],
        ["lines, target tokens", "1,200, 34,567", ""],
        ["lines that give the same tokens", "99.75%", "100 %"],
        ["token agreement (most probable token, given those before)", "98.765%", "≥ 97.000%"],
        ["log-probability difference, mean", "1.23e-03", "≤ 0.1"],
        ["log-probability difference, greatest", "5.00e-01", ""],
        ["identical translations, each by its own search", "87.5%", ""],
        ["BLEU of one against the other", "91.23", ""],
        ["BLEU against references, original → export", "30.50 → 30.25 (-0.25)", ""],
    ]
    assert text.endswith("\nSignature: `tok:13a`\n\nKnown differences:\n\n- one thing\n- another\n")
    assert "original → import" in replace(CERTIFICATE, format="").to_markdown()
    silent = replace(
        CERTIFICATE.measured, **dict.fromkeys(("identical_translations", "bleu_original", "bleu_signature"), None)
    )
    plain = replace(CERTIFICATE, measured=silent, notes=()).to_markdown()
    assert not [word for word in ("identical", "references", "Signature", "Known") if word in plain]


def test_versions_are_of_what_is_installed() -> None:
    found = versions(["numpy", "no-such-package"])
    assert list(found) == ["transduce", "python", "numpy"]
    assert found["numpy"] == importlib.metadata.version("numpy")
    assert {"torch", "tokenizers", "ctranslate2", "numpy"} <= set(versions())


@pytest.mark.parametrize(
    ("format", "use"),
    [
        ("huggingface", 'batch["input_ids"][:, 0] = tokenizer.convert_tokens_to_ids("<2de>")'),
        ("onnx", 'echo "…" | python PATH_OF_THIS_FOLDER/translate_onnx.py --target de\n'),
        ("ctranslate2", 'translator.translate_batch([["<2de>", *tokens]])'),
    ],
)
def test_a_card_says_how_another_language_is_asked_for(format: str, use: str) -> None:
    """French is the default of the two."""
    card = export_card(made("<2de>", "<2fr>", "<domain:law>", data=MANY), format, CERTIFICATE)
    assert card.startswith("# mine: en → de, fr\n")
    assert f"format `{format}`" in card
    assert use in card
    assert "say what is wanted: `<2de>`, `<2fr>`, `<domain:law>`." in card
    assert "To ask for `de`:" in card
    assert ("The default is `fr`." in card, "Each source must begin with one." in card) == (
        (False, True) if format == "ctranslate2" else (True, False)
    )
    assert CERTIFICATE.to_markdown() in card
    one = export_card(made(data=DataConfig(source_language="en", target_language="de")), format, CERTIFICATE)
    assert "wanted" not in one


# --- sentences --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "limit", "expected"),
    [(10, 5, (0, 2, 4, 6, 8)), (10, 3, (0, 3, 6)), (3, 5, (0, 1, 2)), (7, 7, tuple(range(7))), (5, 1, (0,))],
)
def test_a_sample_is_spread_from_the_first(count: int, limit: int, expected: tuple[int, ...]) -> None:
    assert spread(range(count), limit) == expected


def test_the_validation_set_is_that_of_the_language(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.tsv").write_text(f"{name} source\t{name} target\n", encoding="utf-8")
    sets = tuple(
        HeldOutSetConfig(files=(f"{name}.tsv",), name=name, target_language=language)
        for name, language in (("a", "de"), ("b", "fr"))
    )
    data = replace(MANY, folder=str(tmp_path), validation_sets=sets)
    names = {target: part.paths[0].name for target in ("", "de", "fr", "it") if (part := validation_part(data, target))}
    assert names == {"": "b.tsv", "de": "a.tsv", "fr": "b.tsv", "it": "a.tsv"}  # else the first of all
    found = choose_sentences(Config(data=data))
    assert found == Sentences("validation data (b.tsv)", ("b source",), ("b target",))
    (tmp_path / "b.tsv").unlink()
    assert validation_part(data) is None
    assert choose_sentences(Config(data=data), limit=2).origin.startswith("built-in sentences (en)")
    assert len(choose_sentences(Config(data=data), limit=2).sources) == 2


def test_lines_of_white_space_are_no_sentences_and_their_translations_go_with_them(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("one\n \ntwo\nthree\n", encoding="utf-8")
    (tmp_path / "t").write_text("eins\nnichts\nzwei\ndrei\n", encoding="utf-8")
    found = choose_sentences(Config(), tmp_path / "s", tmp_path / "t")
    assert (found.sources, found.references) == (("one", "two", "three"), ("eins", "zwei", "drei"))
    (tmp_path / "t").write_text("eins\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"s has 4 lines, .*t has 1: one for each"):
        choose_sentences(Config(), tmp_path / "s", tmp_path / "t")


# --- imports ----------------------------------------------------------------------------------------------------


def test_all_files_that_an_import_read_are_under_a_checksum(tmp_path: Path) -> None:
    for name in ("b.safetensors", "a.safetensors", "tokenizer.json", "notes.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "model.onnx").write_text("in a folder")
    read = ("a.safetensors", "b.safetensors", "notes.txt", "onnx/model.onnx", "tokenizer.json")
    found = imports._checksums(Origin(tmp_path))
    assert found == {name: files.sha256(tmp_path / name) for name in read}
    assert [*found] == [*read]
    alone = tmp_path / "a.safetensors"
    assert imports._checksums(Origin(alone)) == {"a.safetensors": files.sha256(alone)}


def test_where_nothing_runs_the_original_the_folder_has_no_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tokenizer()
    model = ModelConfig(
        vocab_size=own.vocab_size,
        num_encoder_layers=1,
        num_decoder_layers=1,
        d_model=4,
        d_ff=4,
        num_heads=1,
        d_k=4,
        d_v=4,
    )
    config = Config(name="in", model=model, text=TextConfig(vocab_size=270))
    read = ForeignModel(config, {"w": np.zeros(2, np.float32)}, ForeignTokenizer(own, np.arange(own.vocab_size)))
    monkeypatch.setattr(imports, "find_spec", lambda name: None)  # without PyTorch
    assert imports._write(tmp_path / "m", Origin(tmp_path / "state"), read, Comparison()) is None
    made = Bundle.load(tmp_path / "m")
    assert made.metrics == {"imported_from": str(tmp_path / "state")}
    assert made.aligning_heads is None
    assert not (tmp_path / "m" / "certificate.json").exists()


def test_a_tokenizer_of_ours_needs_no_description(tmp_path: Path) -> None:
    own = tokenizer()
    own.save(tmp_path / "tokenizer.json")
    given: dict[str, Any] = {"num_heads": 1, "source_embedding": "s", "target_embedding": "t", "output": "o"}
    for start in ("", "<s>"):
        found = imports._read_tokenizer(tmp_path, TorchDescription(**given, decoder_start=start), own.vocab_size)
        assert found.order.tolist() == list(range(own.vocab_size))
    with pytest.raises(ConfigError, match=r"decoder_start = '<pad>': with a tokenizer of Transduce it is <s>"):
        imports._read_tokenizer(tmp_path, TorchDescription(**given, decoder_start="<pad>"), own.vocab_size)
    with pytest.raises(BundleError, match=rf"has {own.vocab_size} pieces, but the tables have 9 rows"):
        imports._read_tokenizer(tmp_path / "tokenizer.json", TorchDescription(**given), 9)


# --- an export from beginning to end ----------------------------------------------------------------------------


@pytest.mark.parametrize(("quantization", "thresholds"), [("float32", EXACT), ("int8", ROUNDED)])
def test_an_export_is_written_compared_and_then_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quantization: str, thresholds: Thresholds
) -> None:
    """With `force`, what fails the comparison is kept, and says so."""
    calls: list[Any] = []
    bundle = made(data=DataConfig(source_language="en", target_language="de"))
    bundle.verify = lambda: calls.append("verified")
    shortlist = SimpleNamespace()
    monkeypatch.setattr(exports.Bundle, "load", lambda model: bundle)
    monkeypatch.setattr(exports, "load_shortlist", lambda given: shortlist)
    monkeypatch.setattr(exports, "load_system", lambda *given: ("system", *given))

    def convert(given: Any, folder: Path, numbers: str, map_of: Any) -> None:
        calls.append((given, numbers, map_of))
        (folder / "model.bin").write_bytes(b"numbers")

    def certify(*given: Any, **options: Any) -> Certificate:
        calls.append((given, options))
        return replace(CERTIFICATE, thresholds=given[3], notes=options["notes"], format="")

    monkeypatch.setattr(exports, "convert", convert)
    monkeypatch.setattr(exports, "certify", certify)
    (tmp_path / "lines").write_text("one\ntwo\nthree\nfour\n", encoding="utf-8")
    output = tmp_path / "o"
    options: dict[str, Any] = {"quantization": quantization, "shortlist": True, "sentences": tmp_path / "lines"}
    failed = replace(CERTIFICATE, thresholds=thresholds).verdict == "failed"
    assert failed  # a token agreement of 0.98765, and lines that are cut in another way
    with pytest.raises(ExportError, match="not written, because its results differ"):
        exports.export_model("m", output, "ctranslate2", **options)
    assert not output.exists()
    calls.clear()
    found = exports.export_model("m", output, "ctranslate2", **options, sample=2, force=True)
    assert (found.verdict, found.format, found.quantization) == ("forced", "ctranslate2", quantization)
    verified, conversion, (given, further) = calls
    assert (verified, conversion) == ("verified", (bundle, quantization, shortlist))
    (of_bundle, load, sentences, required) = given
    system = load()
    assert (of_bundle, required) == (bundle, thresholds)
    assert (system[0], system[1], system[3:]) == ("system", "ctranslate2", (bundle, quantization))
    assert sentences == Sentences(str(tmp_path / "lines"), ("one", "three"), None)
    assert len(further["notes"]) == (2 if quantization == "float32" else 3)
    assert sorted(path.name for path in output.iterdir()) == [
        *("README.md", "certificate.json", "model.bin", "tokenizer.json", "transduce.json")
    ]
    stored = json.loads((output / "transduce.json").read_text(encoding="utf-8"))
    assert (stored["format"], stored["config"]["name"]) == (1, "mine")
    assert json.loads((output / "certificate.json").read_text(encoding="utf-8"))["verdict"] == "forced"
    assert "**forced**" in (output / "README.md").read_text(encoding="utf-8")
    with pytest.raises(ExportError, match="--overwrite"):
        exports.export_model("m", output, "ctranslate2", **options, force=True)
    exports.export_model("m", output, "ctranslate2", **options, force=True, overwrite=True)
