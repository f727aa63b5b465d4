"""`transduce evaluate`: files or standard input in, a report or JSON out, clear errors for the rest."""

import argparse
import gzip
import io
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import sacrebleu

from made_models import made_bundle
from transduce.cli import evaluate
from transduce.errors import ConfigError, DataError, EvaluationError
from transduce.text.languages import language_of
from transduce.translation.translator import Translator

pytestmark = pytest.mark.computes

_HYPOTHESIS = ["Er geht nach Hause, sagt sie.", "Das ist ein Satz.", "Noch ein wohl-bekannter Satz."]
_REFERENCE = ["Er ging nach Hause, sagte sie.", "Dies ist ein Satz.", "Noch ein wohl-bekannter „Satz“."]
_SOURCE = ["He goes home, she says.", "This is a sentence.", "Another well-known sentence."]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, lines in {"test.out": _HYPOTHESIS, "test.de": _REFERENCE, "test.en": _SOURCE}.items():
        Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return tmp_path


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    evaluate.configure(parser)
    parser.set_defaults(parser=parser)
    return evaluate.run(parser.parse_args(arguments))


def test_report(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--hypothesis", "test.out", "--reference", "test.de", "--source", "test.en", "--paper") == 0
    output, errors = capsys.readouterr()
    expected = sacrebleu.corpus_bleu(_HYPOTHESIS, [_REFERENCE]).score
    assert f"BLEU, 13a              {expected:6.2f}" in output
    assert "tok:13a" in output
    assert "chrF2" in output
    assert "tok:moses-like-de+quotes+atat" in output
    assert "3 lines, 1 reference" in output
    assert errors == ""


def test_json(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(
        "--hypothesis",
        "test.out",
        "--reference",
        "test.de",
        "test.de",
        "--metrics",
        "chrf++",
        "bleu",
        "--json",
    )
    result = json.loads(capsys.readouterr().out)
    assert list(result["scores"]) == ["chrf++", "bleu"]
    assert result["scores"]["bleu"]["value"] == sacrebleu.corpus_bleu(_HYPOTHESIS, [_REFERENCE] * 2).score
    assert result["num_lines"] == 3
    assert result["num_references"] == 2
    assert result["warnings"] == []


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_scores_and_perplexity_are_one_result(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """The source comes from standard input, which can be read once only."""
    made_bundle(files / "m")
    arguments = ["--model", "m", "--engine", engine, "--source", "-", "--reference", "test.de"]
    outputs = []
    for extra in (["--hypothesis", "test.out"], ["--hypothesis", "test.out", "--json"], ["--json"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(_SOURCE).encode())))
        assert run(*arguments, *extra) == 0
        outputs.append(capsys.readouterr().out)
    scores = Translator.load("m", engine="torch").score(_SOURCE, _REFERENCE)
    count = sum(len(each.pieces) for each in scores)
    expected = math.exp(-sum(each.log_probability for each in scores) / count)
    assert outputs[0].startswith(f"perplexity {expected:.3f} per subword of m ({count:,} subwords")
    assert "BLEU, 13a" in outputs[0]
    result, alone = (json.loads(output) for output in outputs[1:])
    assert result["perplexity"] == alone["perplexity"] == pytest.approx(expected, rel=1e-4)
    assert (result["subwords"], result["copied_share"]) == (count, 0.0)
    assert result["scores"].keys() == {"bleu", "chrf"}
    assert alone == {"warnings": [], "perplexity": result["perplexity"], "subwords": count}


def test_perplexity_of_a_parser_is_that_of_the_words_that_it_reads(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Treebanks write round brackets as -LRB- and -RRB-, and one space between words."""
    parser = str(Path(__file__).resolve().parents[1] / "fixtures" / "0.1.0" / "parser")
    Path("brackets").write_text("(S (NP NN NN )NP )S\n")
    found = []
    for name, text in (("typed", "f(x)  falls\n"), ("read", "f-LRB-x-RRB- falls\n")):
        Path(name).write_text(text)
        assert run("--model", parser, "--engine", "torch", "--source", name, "--reference", "brackets", "--json") == 0
        found.append(json.loads(capsys.readouterr().out)["perplexity"])
    assert found[0] == found[1]


def test_perplexity_of_files_that_are_not_aligned(files: Path) -> None:
    made_bundle(files / "m")
    Path("short.en").write_text("He goes home.\n")
    with pytest.raises(EvaluationError, match=r"short\.en has 1 line and test\.de has 3"):
        run("--model", "m", "--source", "short.en", "--reference", "test.de")


def test_test_lines_that_the_model_was_trained_with(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with gzip.open("train.en.gz", "wt", encoding="utf-8") as file:
        file.write("Something else entirely.\n  He goes home, she says.  \nHe goes home, she says.\n")
    Path("train.tsv").write_text(
        "A sentence.\tNoch ein wohl-bekannter „Satz“.\nx\tDies ist ein Satz.\n", encoding="utf-8"
    )
    given = ["--hypothesis", "test.out", "--reference", "test.de", "--source", "test.en"]
    run(*given, "--json", "--train", "train.en.gz", "train.tsv")
    english, german = json.loads(capsys.readouterr().out)["warnings"]
    assert english.startswith("test.en: the training data has 1 line of it (33.3%); line 1 is line 2 of train.en.gz.")
    assert german.startswith("test.de: the training data has 2 lines of it (66.7%); line 2 is line 2 of train.tsv.")
    made_bundle(files / "m")
    run("--model", "m", "--source", "test.en", "--reference", "test.de", "--train", "train.en.gz")  # nothing decoded
    output, errors = capsys.readouterr()
    assert output.startswith("perplexity")
    assert errors.count("warning") == 1
    assert f"transduce: warning: {english}" in errors
    with pytest.raises(DataError, match=r"train\.fr: no such file"):
        run(*given, "--train", "train.fr")


def test_leaks_in_another_form_and_near_copies(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Near-copies are counted apart; a line that is there in both forms counts as a leak only."""
    test = [
        "He goes home, she says.",
        "We all saw the man leave his old house.",
        "The long road to the north was closed.",
    ]
    train = ["we all saw the man leave his new house", "x\tTHE LONG ROAD to the north was closed!", "Z", "Z"]
    train += ["The very long road to the north was closed.", "He goes home, she said."]  # the latter is too short
    for name in ("test.out", "test.de"):
        Path(name).write_text("\n".join(test), encoding="utf-8")
    Path("train.tsv").write_text("\n".join(train), encoding="utf-8")
    run("--hypothesis", "test.out", "--reference", "test.de", "--train", "train.tsv", "--json")
    found = [each for each in json.loads(capsys.readouterr().out)["warnings"] if "training data" in each]
    assert found[0].startswith("test.de: the training data has 1 line of it (33.3%); line 3 is line 2 of train.tsv.")
    near = "test.de: the training data has near-copies of 1 line of it (33.3%), in which one word differs"
    assert found[1].startswith(f"{near}; line 2 resembles line 1 of train.tsv.")
    assert len(found) == 2


def test_leaks_of_a_second_reference(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = "We all watched him walk out of the house."
    Path("test.out").write_text("We all saw the man leave his old house.", encoding="utf-8")
    Path("first.de").write_text("We all saw the man leave his old house.", encoding="utf-8")
    Path("second.de").write_text(other, encoding="utf-8")
    Path("train.de").write_text(other, encoding="utf-8")
    run("--hypothesis", "test.out", "--reference", "first.de", "second.de", "--train", "train.de", "--json")
    assert any(
        each.startswith("second.de: the training data has 1 line of it")
        for each in json.loads(capsys.readouterr().out)["warnings"]
    )


def test_short_lines_are_common_property(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("test.out", "test.de", "train.de"):
        Path(name).write_text("Danke sehr.\n", encoding="utf-8")
    run("--hypothesis", "test.out", "--reference", "test.de", "--train", "train.de", "--json")
    assert not any("training data" in warning for warning in json.loads(capsys.readouterr().out)["warnings"])


def test_tokenized_lowercase(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("--hypothesis", "test.out", "--reference", "test.de", "--tokenized", "--lowercase", "--json")
    result = json.loads(capsys.readouterr().out)
    signature = result["scores"]["bleu"]["signature"]
    assert "tok:none" in signature
    assert "case:lc" in signature
    assert "test.out does not look tokenised" in result["warnings"][0]


def test_warnings_go_to_standard_error(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("test.tok").write_text("Er geht .\nDas ist ein Satz .\n\n", encoding="utf-8")
    run("--hypothesis", "test.tok", "--reference", "test.de")
    output, errors = capsys.readouterr()
    assert "transduce: warning: test.tok looks tokenised: it has 2 lines" in errors
    assert "transduce: warning: test.tok has 1 empty line; the first is line 3." in errors
    assert "warning" not in output


def test_standard_input_and_gzip(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with gzip.open("test.de.gz", "wt", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in _REFERENCE))
    standard_input = io.TextIOWrapper(io.BytesIO("".join(f"{line}\n" for line in _HYPOTHESIS).encode()))
    monkeypatch.setattr(sys, "stdin", standard_input)
    run("--hypothesis", "-", "--reference", "test.de.gz", "--paper", "--json")
    result = json.loads(capsys.readouterr().out)
    assert result["scores"]["bleu"]["value"] == sacrebleu.corpus_bleu(_HYPOTHESIS, [_REFERENCE]).score
    assert "moses-like-de" in result["scores"]["bleu-paper"]["signature"]


def test_only_line_feeds_end_a_line(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("test.out").write_text("a\u2028b\nc\u0085d\ne\x0cf\n", encoding="utf-8")
    run("--hypothesis", "test.out", "--reference", "test.de", "--json")
    assert json.loads(capsys.readouterr().out)["num_lines"] == 3


def test_line_counts_that_differ(files: Path) -> None:
    Path("short.de").write_text("eins\n", encoding="utf-8")
    with pytest.raises(EvaluationError, match=r"test.out has 3 lines and short.de has 1"):
        run("--hypothesis", "test.out", "--reference", "test.de", "short.de")


def test_bad_input(files: Path) -> None:
    with pytest.raises(DataError, match=r"missing\.de"):
        run("--hypothesis", "test.out", "--reference", "missing.de")
    Path("latin1.de").write_bytes("gut\nschön\nja\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"latin1\.de"):
        run("--hypothesis", "test.out", "--reference", "latin1.de")
    Path("empty").write_bytes(b"")
    with pytest.raises(EvaluationError, match="empty has no lines"):
        run("--hypothesis", "empty", "--reference", "empty")
    with pytest.raises(ConfigError, match="standard input"):
        run("--hypothesis", "-", "--reference", "-")
    with pytest.raises(ConfigError, match="standard input"):
        run("--model", "anything", "--source", "-", "--reference", "-")
    with pytest.raises(ConfigError, match="add --source"):
        run("--model", "anything", "--reference", "test.de")
    with pytest.raises(ConfigError, match="Nothing to score"):
        run("--reference", "test.de")
    with pytest.raises(EvaluationError, match=r"unknown metric 'bluu'.*Did you mean 'bleu'"):
        run("--hypothesis", "test.out", "--reference", "test.de", "--metrics", "bluu")


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("test.de", "de"),
        ("test.fr.gz", "fr"),
        ("a.b/test.en.zst", "en"),
        ("test.txt", ""),
        ("-", ""),
        ("ref", ""),
    ],
)
def test_language_comes_from_the_name(name: str, language: str) -> None:
    assert language_of(Path(name)) == language


def test_the_commands_module_imports_nothing_heavy() -> None:
    code = "import sys, transduce.cli.evaluate; print({'torch', 'sacrebleu', 'numpy'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"
