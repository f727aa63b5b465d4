"""`transduce shortlist`: what it prints, what it writes, what it refuses; and translating with what it wrote."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from made_models import made_bundle, made_tokenizer
from transduce import Translator
from transduce.bundle import save_bundle
from transduce.cli.main import main
from transduce.config import DataConfig
from transduce.data.prepared import is_prepared
from transduce.data.store import ParallelStore
from transduce.errors import BundleError, ConfigError, DataError

pytestmark = pytest.mark.computes

_LINES = ["a dog runs", "two dogs run", "the green grass", "a man with a ball", "the dog", "grass and a ball"] * 10


@pytest.fixture
def corpus(tmp_path: Path) -> tuple[str, str]:
    """Returns two aligned files."""
    (tmp_path / "source").write_text("".join(f"{line}\n" for line in _LINES))
    (tmp_path / "target").write_text("".join(f"{line.upper()}\n" for line in _LINES))
    return str(tmp_path / "source"), str(tmp_path / "target")


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(made_bundle(tmp_path / "model", ending=1.5).path)


def learn(model: str, corpus: tuple[str, str], *more: str) -> int:
    return main(["shortlist", model, "--source", corpus[0], "--target", corpus[1], *more])


def test_a_pipe_cannot_be_read_twice(
    model: str, corpus: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for source in (str(tmp_path / "pipe"), "-"):
        assert learn(model, (source, corpus[1])) == DataError.exit_code
        assert f"{source}: is read twice" in capsys.readouterr().err


def test_it_learns_prints_the_coverage_and_is_shown_by_info(
    model: str, corpus: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert learn(model, corpus, "--candidates", "7", "--frequent", "2") == 0
    shown = capsys.readouterr().out
    assert "learned from 54 pairs; 7 candidates of each piece, 2 frequent pieces" in shown
    assert "Of the references of 6 other pairs" in shown
    assert [line.split()[1] for line in shown.splitlines() if line.startswith("*")] == ["7"]
    assert main(["info", model]) == 0
    assert (
        "shortlist: 7 candidates of each piece and 2 frequent pieces, learned from 54 pairs" in capsys.readouterr().out
    )
    assert main(["info", model, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["shortlist"]["candidates"] == 7


def test_json_and_a_text_of_its_own_to_measure_on(
    model: str, corpus: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert learn(model, corpus, "--test-source", corpus[0], "--test-reference", corpus[1], "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["pairs"], found["coverage"]["pairs"]) == (60, 60)
    assert found["coverage"]["share_of_tokens"] == 1.0  # it has learned from them
    assert [row["num_candidates"] for row in found["coverages"]] == [10, 20, 50, 100, 200]
    Path(corpus[0]).with_name("blank").write_text("\n\n")
    blank = str(Path(corpus[0]).with_name("blank"))
    assert learn(model, corpus, "--test-source", blank, "--test-reference", blank, "--overwrite") == 3
    assert f"{blank} and {blank} have no pair of lines with text." in capsys.readouterr().err


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_translations_are_written_with_the_shortlist(
    engine: str, model: str, corpus: tuple[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    few = _LINES[:6]
    (tmp_path / "few").write_text("".join(f"{line}\n" for line in few))
    arguments = ["translate", model, "--source", str(tmp_path / "few"), "--engine", engine, "--batch-size", "1"]
    arguments += ["--shortlist", "on"]
    assert main(arguments) == BundleError.exit_code
    assert "has no shortlist" in capfd.readouterr().err
    assert learn(model, corpus, "--candidates", "3", "--frequent", "2") == 0
    capfd.readouterr()
    assert main(arguments) == 0
    lines = capfd.readouterr().out.split("\n")[:-1]
    assert lines == Translator.load(model, engine=engine, shortlist="on").translate(few, batch_size=1)
    assert lines != Translator.load(model, engine=engine).translate(few, batch_size=1)


def test_a_prepared_folder_is_a_corpus_too_unless_of_another_tokenizer(
    model: str, corpus: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = tmp_path / "model" / "tokenizer.json"
    held_out = [str(tmp_path / name) for name in ("validation.source", "validation.target")]
    for path in held_out:
        Path(path).write_text("a green dog\nthe ball runs\n")
    prepared = tmp_path / "run" / "data"
    arguments = ["prepare", "--train", *corpus, "--validation", *held_out, "--preset", "tiny", "--quiet"]
    arguments += ["--output", str(prepared)]
    assert main([*arguments, "--tokenizer", str(tokenizer)]) == 0
    assert is_prepared(prepared)
    capsys.readouterr()
    assert main(["shortlist", model, "--data", str(tmp_path / "run"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["pairs"] == len(ParallelStore.open(prepared / "train.arrow"))
    assert made_tokenizer().vocab_size > found["coverage"]["mean_ids"] > 0
    assert main([*arguments, "--overwrite", "--set", "text.vocab_size=290"]) == 0
    assert main(["shortlist", model, "--data", str(prepared)]) == DataError.exit_code
    assert "shortlist.safetensors: exists already. Add --overwrite to replace it." in capsys.readouterr().err
    assert main(["shortlist", model, "--data", str(prepared), "--overwrite"]) == DataError.exit_code
    assert "another tokenizer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "either --source and --target, or --data"),
        (["--source", "a"], "--source and --target belong together"),
        (["--data", "a", "--test-source", "b"], "--test-source and --test-reference belong together"),
        (["--data", "a", "--candidates", "0"], "--candidates 0: must be a whole number from 1"),
    ],
)
def test_what_does_not_go_together_is_refused(
    arguments: list[str], message: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["shortlist", model, *arguments]) == ConfigError.exit_code
    assert message in capsys.readouterr().err


def test_a_corpus_of_the_other_direction_is_refused(
    corpus: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = made_bundle(tmp_path / "made", ending=1.5)
    data = DataConfig(source_language="en", target_language="de")
    model = save_bundle(tmp_path / "en-de", replace(made.config, data=data), made.weights(), made.tokenizer, {}).path
    english, german = (
        str(Path(path).rename(tmp_path / f"train.{c}")) for path, c in zip(corpus, ("en", "de"), strict=True)
    )
    assert learn(str(model), (german, english)) == ConfigError.exit_code
    assert "train.de: by its name its language is de, but the model translates en → de" in capsys.readouterr().err
    assert not (model / "shortlist.safetensors").exists()
    assert learn(str(model), (english, german)) == 0
