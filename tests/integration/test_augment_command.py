"""`transduce augment`: what each subcommand writes and prints, and what it refuses."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from made_models import made_bundle, made_tagged_bundle
from text_engine import text_translator
from transduce import augmentation
from transduce.augmentation import CorpusJob, MadeCorpus
from transduce.cli import augment_job
from transduce.cli.main import main
from transduce.config import DataConfig, load_recipe
from transduce.config.corpora import CorpusConfig
from transduce.errors import ConfigError, DataError
from transduce.translation.directions import Direction

pytestmark = pytest.mark.computes

_LINES = ["A dog runs.", "", "A man with a ball."]


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(made_bundle(tmp_path / "model", ending=3.0).path)


@pytest.fixture
def upper_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the command translate to capital letters: a model with random weights hardly ever ends a translation."""
    translator = text_translator(str.upper)
    monkeypatch.setattr(augment_job, "loaded_workers", lambda *_: contextlib.nullcontext(translator))


@pytest.fixture
def text(tmp_path: Path) -> str:
    (tmp_path / "mono").write_text("".join(line + "\n" for line in _LINES))
    return str(tmp_path / "mono")


def lines(path: Path) -> list[str]:
    return path.read_text().split("\n")[:-1]


@pytest.mark.usefixtures("upper_case")
@pytest.mark.parametrize(("command", "text_side"), [("back-translate", 1), ("forward-translate", 0), ("distill", 0)])
def test_it_makes_pairs_and_prints_the_lines_of_a_recipe(
    model: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, text_side: int
) -> None:
    output = tmp_path / "new data"
    assert main(["augment", command, model, text, "--output", str(output)]) == 0
    shown = capsys.readouterr()
    (tmp_path / "recipe.toml").write_text(shown.out)
    [corpus] = load_recipe(tmp_path / "recipe.toml").data.corpora
    assert corpus.files == (str(output / "source.txt"), str(output / "target.txt"))
    assert corpus.name == "new-data"
    assert corpus.tag == ("" if command == "distill" else f"{command}d")
    assert "2 pairs of 3 lines" in shown.err
    assert "left out: 1: empty line" in shown.err
    sides = [lines(Path(name)) for name in corpus.files]
    assert sides[text_side] == [line for line in _LINES if line]
    assert sides[1 - text_side] == [line.upper() for line in _LINES if line]
    assert json.loads((output / "manifest.json").read_text())["counts"]["pairs"] == 2


@pytest.mark.usefixtures("upper_case")
def test_a_second_start_does_nothing_and_other_options_are_refused(
    model: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["augment", "back-translate", model, text, "--output", str(tmp_path / "bt"), "--beam-size", "2"]
    assert main(command) == 0
    first = capsys.readouterr().out
    assert main(command) == 0
    again = capsys.readouterr()
    assert again.out == first
    assert "finished already" in again.err
    assert main([*command[:-1], "3"]) == ConfigError.exit_code
    assert "was made with beam_size = 2, and now beam_size = 3" in capsys.readouterr().err
    assert main([*command[:-1], "3", "--overwrite", "--quiet"]) == 0
    assert capsys.readouterr().err.count("transduce:") == 0


def test_a_text_that_gives_no_pairs_is_an_error_and_not_an_empty_corpus(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, content, message in (("no-lines", "", "it has no lines"), ("blank", "\n\n", "left-out.tsv says why")):
        (tmp_path / name).write_text(content)
        command = ["augment", "back-translate", model, str(tmp_path / name), "--output", str(tmp_path / "out" / name)]
        assert main(command) == DataError.exit_code
        shown = capsys.readouterr()
        assert shown.out == ""
        assert f"{name}: gave no pairs: " in shown.err
        assert message in shown.err


def test_a_text_in_the_language_of_the_translations_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"mono.de.gz: by its name its language is de, but the model translates en → de"
    ):
        Direction("en", "de-AT", "", False, ()).require_source(Path("mono.de.gz"))
    for name, source, target in (
        ("mono.en", "en", "de"),
        ("mono.de", "", ""),
        ("mono.txt", "en", "de"),
        ("a.de", "de-CH", "de"),
    ):
        Direction(source, target, "", False, ()).require_source(Path(name))


def test_a_recipe_names_the_language_and_the_domain_that_were_asked_for(tmp_path: Path) -> None:
    lines = [
        MadeCorpus(tmp_path / "x", 0, 0, {}, {"command": command, "job": {"target": "fr", "domain": "law"}})
        .recipe_lines()
        .split("\n")[-2:]
        for command in ("back-translate", "forward-translate")
    ]
    assert lines == [['source_language = "fr"', 'domain = "law"'], ['target_language = "fr"', 'domain = "law"']]


def test_a_recipe_spells_them_as_the_model_does(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def made(_: Any, text: Path, output: Path, job: CorpusJob) -> MadeCorpus:
        options = {"target": job.text_options.target, "domain": job.text_options.domain}
        return MadeCorpus(output, 1, 1, {}, {"command": "forward-translate", "job": options})

    monkeypatch.setattr(augmentation, "forward_translate", made)
    monkeypatch.setattr(augment_job, "loaded_workers", lambda *_: contextlib.nullcontext())
    corpora = tuple(CorpusConfig(files=("x",), target_language=code, domain="law") for code in ("de", "fr"))
    model = made_tagged_bundle(tmp_path / "many", DataConfig(corpora=corpora))
    command = ["augment", "forward-translate", str(model.path), text, "--output", str(tmp_path / "made")]
    assert main([*command, "--target", "FR", "--domain", "Law"]) == 0
    shown = capsys.readouterr().out
    assert 'target_language = "fr"' in shown
    assert 'domain = "law"' in shown


@pytest.mark.usefixtures("upper_case")
def test_the_translation_nearest_to_the_reference(model: str, text: str, tmp_path: Path) -> None:
    references = ["A DOG RUNS.!!", "", "A MAN WITH A BALL.!"]  # the third and the second of a beam
    (tmp_path / "reference").write_text("".join(f"{line}\n" for line in references))
    rows = zip(_LINES, references, strict=True)
    (tmp_path / "tsv").write_text("".join(f"{line}\t{reference}\n" for line, reference in rows))
    options = ["--nearest-reference", "chrf", "--quiet"]
    two, one = tmp_path / "two", tmp_path / "one"
    reference = ["--reference", str(tmp_path / "reference")]
    assert main(["augment", "distill", model, text, *reference, *options, "--output", str(two)]) == 0
    tsv = str(tmp_path / "tsv")
    assert main(["augment", "distill", model, tsv, "--columns", *options, "--output", str(one)]) == 0
    assert lines(two / "target.txt") == lines(one / "target.txt") == [each for each in references if each]
    manifest = json.loads((two / "manifest.json").read_text())
    assert manifest["input"]["files"] == [text, str(tmp_path / "reference")]
    assert manifest["job"]["n_best"] == 4


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--nearest-reference", "bleu"], "needs references"),
        (["--columns"], "--columns is for --nearest-reference"),
        (["--n-best", "3"], "--n-best is for --nearest-reference"),
        (["--columns", "--reference", "x", "--nearest-reference", "bleu"], "give one of them"),
        (["--top-p", "0.5"], "--top-p 0.5: must be 1"),
        (["--workers", "2"], "give --ray"),
        (["--diversity-penalty", "2"], "add --diversity-groups"),
    ],
)
def test_options_that_do_not_go_together(
    model: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], given: list[str], message: str
) -> None:
    output = tmp_path / "out"
    assert main(["augment", "distill", model, text, "--output", str(output), *given]) == ConfigError.exit_code
    assert message in capsys.readouterr().err
    assert not output.exists()


def test_wrong_files(model: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = ["--output", str(tmp_path / "out")]
    assert main(["augment", "forward-translate", model, f"{text}x", *output]) == DataError.exit_code
    assert "no such file. Did you mean 'mono'?" in capsys.readouterr().err
    nearest = ["--nearest-reference", "bleu", "--reference", str(tmp_path / "missing")]
    assert main(["augment", "distill", model, text, *nearest, *output]) == DataError.exit_code
    assert "missing: no such file" in capsys.readouterr().err
    assert main(["augment", "distill", model, "-", *nearest, *output]) == ConfigError.exit_code
    assert "none can be standard input" in capsys.readouterr().err
    (tmp_path / "short").write_text("Ein Hund\n")
    nearest[-1] = str(tmp_path / "short")
    assert main(["augment", "distill", model, text, *nearest, *output]) == DataError.exit_code
    assert "3 lines, " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    made_bundle(tmp_path / "parser")
    config = tmp_path / "parser" / "config.json"
    values = json.loads(config.read_text())
    values["config"]["data"]["format"] = "trees"
    del values["config_sha256"]
    config.write_text(json.dumps(values))
    parser = str(tmp_path / "parser")
    assert main(["augment", "forward-translate", parser, text, *output]) == ConfigError.exit_code
    assert "this model is a parser" in capsys.readouterr().err


def test_without_a_subcommand_it_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["augment"]) == 0
    assert "back-translate" in capsys.readouterr().out
