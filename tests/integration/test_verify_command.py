"""`transduce verify` from the command line, and the sentences that it verifies on."""

import gzip
import json
from pathlib import Path

import pytest

from transduce.bundle import Bundle
from transduce.cli.main import main
from transduce.config import DataConfig
from transduce.data import demo_corpus
from transduce.errors import ConfigError, DataError, MissingDependencyError
from transduce.verification import Report, Settings, verify
from transduce.verification.findings import CheckResult, Finding, Tie
from transduce.verification.sample import choose
from verified_model import LINES, save_model

pytestmark = pytest.mark.computes

QUICK = ["--quick", "--no-engines", "--device", "cpu", "--threads", "1"]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return save_model(tmp_path_factory.mktemp("models") / "made")


def test_a_sound_model_passes_with_a_readable_report(
    bundle: Bundle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with gzip.open(tmp_path / "test.en.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(["", *LINES]) + "\n")
    report = tmp_path / "report.json"
    arguments = ["verify", str(bundle.path), "--source", str(tmp_path / "test.en.gz"), "--report", str(report)]
    assert main([*arguments, *QUICK, "--sample", "5"]) == 0
    out = capsys.readouterr().out
    assert "✓ causality" in out
    assert "✗" not in out
    assert f"5, from {tmp_path / 'test.en.gz'}" in out
    assert out.splitlines()[-1].startswith("PASSED: 18 checks, all hold")
    values = json.loads(report.read_text())
    assert values["passed"] is True
    assert values["versions"].keys() >= {"transduce", "torch", "python"}
    padding = next(check for check in values["checks"] if check["name"] == "padding")
    assert padding["outcome"] == "passed"
    assert 0 < padding["finding"]["worst"] < padding["finding"]["tolerance"] == 1e-3
    assert padding["finding"]["where"].startswith("line ")


def test_a_broken_model_fails_and_the_report_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save_model(tmp_path / "model").path
    with (path / "tokenizer.json").open("a") as file:
        file.write("\n")
    assert main(["verify", str(path), *QUICK]) == 1
    out = capsys.readouterr().out
    assert "✗ checksums" in out
    assert "tokenizer.json: changed or damaged" in out
    assert "to do: get the folder again" in out
    assert out.splitlines()[-1].startswith("FAILED: 2 of 18 checks (checksums, loads)")


def test_a_tolerance_below_rounding_fails(bundle: Bundle, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tolerance is what decides, and the report names the place of the worst difference."""
    (tmp_path / "test.en").write_text("\n".join(LINES) + "\n")
    arguments = ["verify", str(bundle.path), "--source", str(tmp_path / "test.en"), *QUICK, "--sample", "5"]
    assert main([*arguments, "--tolerance", "1e-12"]) == 1
    out = capsys.readouterr().out
    assert "at most 1.0e-12 is allowed" in out
    assert "position" in out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere"], 4, "no such model folder"),
        (["MODEL", "--source", "nowhere.en"], 3, "nowhere.en"),
        (["MODEL", "--device", "warp"], 2, "device 'warp'"),
        (["MODEL", "--sample", "0"], 2, "--sample 0: must be a whole number from 1"),
        (["MODEL", "--tie", "0"], 2, "--tie 0: must be a number greater"),
    ],
)
def test_wrong_arguments_are_errors(
    arguments: list[str], code: int, message: str, bundle: Bundle, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(bundle.path) if argument == "MODEL" else argument for argument in arguments]
    assert main(["verify", *given]) == code
    assert message in capsys.readouterr().err


# --- the report -----------------------------------------------------------------------------------------------


def result(name: str, finding: Finding) -> CheckResult:
    return CheckResult(name, "it holds", "mend it", finding, 0.5)


def report(*results: CheckResult) -> Report:
    return Report("m", "torch", "1", "beam 4", {"torch": "2"}, results, 1.0)


def test_a_difference_of_nan_fails() -> None:
    assert Finding("", worst=float("nan"), tolerance=1.0).outcome == "failed"
    assert Finding("", worst=float("inf"), tolerance=1.0).outcome == "failed"
    assert Finding("", worst=0.5, tolerance=None).outcome == "failed"
    assert Finding("", worst=0.5, tolerance=0.5).outcome == "passed"
    assert Finding("", worst=0.0, tolerance=0.5, faults=("x",)).outcome == "failed"
    assert json.loads(json.dumps(report(result("a", Finding("", worst=float("inf")))).to_dict(), allow_nan=False))


def test_a_report_of_skipped_checks_has_not_passed() -> None:
    assert not report(result("a", Finding("", skipped="not here"))).passed
    assert report(result("a", Finding("", skipped="not here")), result("b", Finding("x"))).passed


def test_ties_and_skips_are_shown_and_counted() -> None:
    tie = Tie("line 3, shuffled", "a dog", "the dog", 2e-6)
    text = report(
        result("order", Finding("x", ties=(tie,))), result("other", Finding("", skipped="not installed"))
    ).to_text()
    assert "line 3, shuffled, scores 2.0e-06 apart: 'a dog' | 'the dog'" in text
    assert "skipped: not installed" in text
    assert text.splitlines()[-1].startswith("PASSED: 1 checks, all hold; 1 skipped; 1 tie in score")


# --- the sentences --------------------------------------------------------------------------------------------


def test_sentences_come_from_the_validation_set_where_it_is_here(tmp_path: Path) -> None:
    (tmp_path / "dev.en").write_text("".join(f"line {number}\n" for number in range(1, 11)))
    (tmp_path / "dev.de").write_text("x\n" * 10)
    data = DataConfig(folder=str(tmp_path), validation=("dev.en", "dev.de"))
    sample = choose(save_model(tmp_path / "model", data=data), None, 5)
    assert sample.lines == ("line 1", "line 3", "line 5", "line 7", "line 9")
    assert sample.names == ("line 1", "line 3", "line 5", "line 7", "line 9")
    assert sample.origin == f"the validation set, {tmp_path / 'dev.en'}"


def test_a_parser_reads_words(tmp_path: Path) -> None:
    (tmp_path / "dev.mrg").write_text("(S (NP (DT The) (NN dog)) (VP (VBZ barks)))\n")
    data = DataConfig(format="trees", folder=str(tmp_path), validation=("dev.mrg",))
    bundle = save_model(tmp_path / "model", data=data)
    assert choose(bundle, None, 5).lines == ("The dog barks",)
    assert choose(bundle, ["A  (dog)"], 5).lines == ("A -LRB-dog-RRB-",)


def test_sentences_are_generated_where_there_are_none(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = choose(bundle, None, 6)
    assert sample.origin == "generated: the demo corpus, en"
    assert len(sample.lines) == 6
    away = DataConfig(folder=str(tmp_path / "elsewhere"), validation=("dev.en", "dev.de"))
    assert choose(save_model(tmp_path / "model", data=away), None, 6) == sample

    def no_babel(*_: object) -> None:
        raise MissingDependencyError("babel")

    monkeypatch.setattr(demo_corpus, "generate", no_babel)
    noise = choose(bundle, None, 6)
    assert noise.origin == "generated: random pieces of the model's vocabulary"
    assert len(set(noise.lines)) == 6
    assert noise == choose(bundle, None, 6)


def test_no_sentences_is_an_error(bundle: Bundle, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n \n")
    with pytest.raises(DataError, match="every line is empty"):
        choose(bundle, tmp_path / "empty", 5)


def test_few_and_short_sentences_are_enough(bundle: Bundle) -> None:
    settings = Settings(num_sentences=4, num_pairs=4, num_changes=2, max_target_tokens=8)
    assert verify(bundle.path, sentences=["a"], settings=settings, device="cpu", other_engines=False).passed


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="log_probability"):
        Settings(log_probability=0.0)
