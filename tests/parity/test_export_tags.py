"""An exported model of several target languages writes each of them, in each format, as the original does."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from made_marian import SOURCE_TEXT, TARGET_TEXT, learned, pieces_of
from made_models import TEXT, made_bundle
from transduce.bundle import Bundle, save_bundle
from transduce.config import Config, DataConfig, DecodeConfig
from transduce.config.corpora import CorpusConfig
from transduce.config.special_ids import EOS
from transduce.export.card import export_card
from transduce.export.certificate import EXACT, Certificate, Measured
from transduce.export.exports import export_model
from transduce.export.sentencepiece_files import save_marian_tokenizer
from transduce.text import SPECIAL_TOKENS, SentencePieceTokenizer
from transduce.translation.translator import Translator

pytestmark = pytest.mark.computes


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("tags")
    tokenizer = made_bundle(folder / "plain").tokenizer.with_tags(["<2de>", "<2fr>", "<domain:law>"])
    made = made_bundle(folder / "wide", ending=0.4, vocab_size=tokenizer.vocab_size)
    corpora = tuple(
        CorpusConfig(files=("x",), source_language="en", target_language=language) for language in ("de", "fr")
    )
    data = DataConfig(corpora=corpora, target_language="de")
    decode = DecodeConfig(beam_size=1, max_extra_tokens=6, length_penalty=0.0)
    config = Config(name="many", model=made.config.model, data=data, decode=decode)
    return save_bundle(folder / "many", config, made.weights(), tokenizer, {})


@pytest.fixture(scope="module")
def expected(bundle: Bundle) -> dict[str, list[str]]:
    translator = Translator.load(bundle.path, engine="torch")
    return {language: translator.translate(TEXT, target=language) for language in ("de", "fr")}


def exported(bundle: Bundle, output: Path, format: str) -> Path:
    """Exports; the certificate compares the default direction."""
    sentences = output.with_suffix(".en")
    sentences.write_text("".join(f"{line}\n" for line in TEXT))
    certificate = export_model(bundle.path, output, format=format, sentences=sentences)
    assert certificate.measured.lines_cut_alike == 1
    assert certificate.measured.token_agreement == 1
    if format != "huggingface":  # `generate` has one limit for all lengths
        assert certificate.measured.identical_translations == 1
    card = (output / "README.md").read_text(encoding="utf-8")
    assert "`<2de>`, `<2fr>`, `<domain:law>`" in card
    assert "→ de, fr" in card
    return output


def test_huggingface(bundle: Bundle, expected: dict[str, list[str]], tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    folder = exported(bundle, tmp_path / "hf", "huggingface")
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(str(folder)).eval()
    ids = tokenizer("a <2fr> b")["input_ids"]
    assert ids[0] == bundle.tokenizer.tags["<2de>"]
    assert ids.count(bundle.tokenizer.tags["<2fr>"]) == 0  # text is never a tag
    for line, wanted in zip(TEXT, expected["fr"], strict=True):
        batch = tokenizer([line], return_tensors="pt")
        batch["input_ids"][:, 0] = tokenizer.convert_tokens_to_ids("<2fr>")  # as the card says
        longest = len(bundle.tokenizer.encode(line)) + 1 + 6
        written = model.generate(**batch, max_new_tokens=longest, max_length=None)
        assert tokenizer.decode(written[0], skip_special_tokens=True).replace("\n", " ") == wanted


def test_onnx(bundle: Bundle, expected: dict[str, list[str]], tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    from transduce.export.translate_onnx import OnnxTranslator

    translator = OnnxTranslator(exported(bundle, tmp_path / "onnx", "onnx"))
    for language, wanted in expected.items():
        tags = translator.tags_of(language)
        assert [translator.translate(line, tags=tags) for line in TEXT] == wanted
    assert [translator.translate(line) for line in TEXT] == expected["de"]
    assert translator.tags_of("fr", "law") == [bundle.tokenizer.tags["<2fr>"], bundle.tokenizer.tags["<domain:law>"]]
    with pytest.raises(SystemExit, match="<2it>: the model does not know it"):
        translator.tags_of("it")


def test_tags_of_sources_are_no_pieces_of_targets(tmp_path: Path) -> None:
    """Where each side has a vocabulary: the target has pieces of its own at the ids of the source's tags."""
    pytest.importorskip("onnxruntime")
    models = [learned(text) for text in (SOURCE_TEXT, TARGET_TEXT)]
    source, target = ([*SPECIAL_TOKENS, *pieces_of(model)] for model in models)
    tokenizer = SentencePieceTokenizer.of(source[:25], *models, target).with_tags(["<2de>", "<2fr>"])
    num_targets, tag = tokenizer.target_vocab_size, tokenizer.tags["<2fr>"]
    assert tag < num_targets
    sizes = {"vocab_size": tokenizer.vocab_size, "target_vocab_size": 60}
    made = made_bundle(tmp_path / "wide", tie_embeddings="target", output_bias=True, **sizes)
    weights = {name: weight.copy() for name, weight in made.weights().items()}
    weights |= {name: weights[name][:num_targets] for name in ("target_embedding", "output_bias")}
    weights["output_bias"][tag] = 50.0  # this piece is all that the model writes
    shape = replace(made.config.model, target_vocab_size=num_targets)
    decode = DecodeConfig(beam_size=1, max_extra_tokens=6)
    config = Config(name="two", model=shape, data=DataConfig(target_language="de"), decode=decode)
    bundle = save_bundle(tmp_path / "two", config, weights, tokenizer, {})
    sentences = tmp_path / "s.en"
    sentences.write_text("".join(f"{line}\n" for line in SOURCE_TEXT))
    assert (
        export_model(bundle.path, tmp_path / "onnx", "onnx", sentences=sentences).measured.identical_translations == 1
    )


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_a_card_asks_by_the_tags_of_the_folder(tmp_path: Path) -> None:
    """With SentencePiece, the tokenizer of transformers has tags as OPUS-MT writes them, and no default one."""
    transformers = pytest.importorskip("transformers")
    models = [learned(text) for text in (SOURCE_TEXT, TARGET_TEXT)]
    pieces = dict.fromkeys((*SPECIAL_TOKENS, *(piece for model in models for piece in pieces_of(model))))
    tokenizer = SentencePieceTokenizer.of([*pieces], *models).with_tags(["<2de>", "<2fr>"])
    data = DataConfig(source_language="en", target_language="de")
    bundle = SimpleNamespace(tokenizer=tokenizer, config=Config(name="many", data=data))
    measured = Measured(
        lines=1, target_tokens=1, lines_cut_alike=1, token_agreement=1, mean_difference=0, max_difference=0
    )
    certificate = Certificate(original="a", export="b", sentences="c", measured=measured, thresholds=EXACT)
    cards = {format: export_card(bundle, format, certificate) for format in ("huggingface", "ctranslate2")}  # type: ignore[arg-type]

    save_marian_tokenizer(tokenizer, tmp_path, data, max_tokens=40, extra_start=False)
    theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path))
    [line] = [line for line in cards["huggingface"].splitlines() if line.startswith("batch =") and "fr" in line]
    names: dict[str, Any] = {"tokenizer": theirs}
    exec(line.replace("…", SOURCE_TEXT[1]), names)
    assert names["batch"]["input_ids"].tolist() == [[tokenizer.tags["<2fr>"], *tokenizer.encode(SOURCE_TEXT[1]), EOS]]
    assert "wanted: `>>de<<`, `>>fr<<`. Each source must begin with one." in cards["huggingface"]

    assert 'tokens = source.encode("…", out_type=str)' in cards["ctranslate2"]
    assert 'translate_batch([["<2fr>", *tokens]])' in cards["ctranslate2"]


def test_ctranslate2(bundle: Bundle, expected: dict[str, list[str]], tmp_path: Path) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    folder = exported(bundle, tmp_path / "ct2", "ctranslate2")
    model, tokens = ctranslate2.Translator(str(folder)), bundle.tokenizer.tokens()
    ids = {token: index for index, token in enumerate(tokens)}
    for language, wanted in expected.items():
        for line, translation in zip(TEXT, wanted, strict=True):
            source = [f"<2{language}>", *(tokens[index] for index in bundle.tokenizer.encode(line))]
            found = model.translate_batch([source], beam_size=1, max_decoding_length=len(source) + 6)[0].hypotheses[0]
            written = [ids[token] for token in found if ids[token] != EOS]
            assert bundle.tokenizer.decode(written).replace("\n", " ") == translation
