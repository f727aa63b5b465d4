"""A model whose vocabulary has new words is verified, converted, exported and constrained as any other."""

from pathlib import Path

import pytest

from made_models import TEXT, made_bundle, made_tokenizer
from transduce import Translator
from transduce.bundle import Bundle
from transduce.cli.main import main
from transduce.export import export_model, import_huggingface
from transduce.text.new_words import with_new_words

pytestmark = pytest.mark.computes

WORDS = ("Kubernetes", "Überprüfung", "harbour")
LINES = [*TEXT, "The Kubernetes harbour", "Kubernetess (harbour), Überprüfung."]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return made_bundle(tmp_path_factory.mktemp("models") / "extended", words=WORDS, ending=0.5, tie_embeddings="none")


@pytest.fixture(scope="module")
def source(bundle: Bundle) -> Path:
    path = bundle.path.parent / "lines.en"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path


def test_it_is_verified(bundle: Bundle, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bundle.tokenizer.vocab_size == made_tokenizer().vocab_size + len(WORDS)
    arguments = [
        "--quick",
        "--no-engines",
        "--device",
        "cpu",
        "--threads",
        "1",
        "--source",
        str(source),
        "--sample",
        "5",
    ]
    assert main(["verify", str(bundle.path), *arguments]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("format", ["ctranslate2", "huggingface", "onnx"])
def test_it_is_exported_with_a_certificate(bundle: Bundle, source: Path, tmp_path: Path, format: str) -> None:
    certificate = export_model(bundle.path, tmp_path / "out", format, sentences=source)
    assert certificate.measured.token_agreement == 1.0


def test_hugging_faces_tokenizer_gives_the_same_ids_and_leads_back(
    bundle: Bundle, source: Path, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    export_model(bundle.path, tmp_path / "hf", "huggingface", sentences=source)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    for line in LINES:
        assert theirs(line)["input_ids"][:-1] == bundle.tokenizer.encode(line)
    import_huggingface(tmp_path / "hf", tmp_path / "back", sentences=source)
    back = Bundle.load(tmp_path / "back").tokenizer
    assert back.encode_batch(LINES) == bundle.tokenizer.encode_batch(LINES)
    assert with_new_words(back, ["lighthouse"]).encode("a lighthouse")[1:] == [back.vocab_size]


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_new_word_can_be_required_forbidden_and_begin_an_output(bundle: Bundle, engine: str) -> None:
    translator = Translator.load(bundle.path, engine=engine, device="cpu", threads=1)
    [plain] = translator.translate(["A dog runs."], beam_size=2)
    [required] = translator.translate(["A dog runs."], beam_size=2, required=[["harbour"]])
    assert "harbour" in required
    assert "harbour" not in plain
    [begun] = translator.translate(["A dog runs."], prefixes=["Kubernetes"])
    assert begun.startswith("Kubernetes")
    [without] = translator.translate(["A dog runs."], prefixes=["Kubernetes"], forbidden=["harbour"])
    assert "harbour" not in without


def test_a_shortlist_has_the_new_words(bundle: Bundle, source: Path, tmp_path: Path) -> None:
    copy = made_bundle(tmp_path / "model", words=WORDS, tie_embeddings="none").path
    assert main(["shortlist", str(copy), "--source", str(source), "--target", str(source)]) == 0
    translator = Translator.load(copy, engine="torch", device="cpu", threads=1, shortlist="on")
    assert len(translator.translate(LINES)) == len(LINES)
