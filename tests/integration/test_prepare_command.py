"""`prepare` with bad input and named corpora, and as a command."""

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from small_corpus import corpus_file, made_corpus, sentences, with_data, write
from transduce.cli.main import main
from transduce.config import Config
from transduce.data import prepare as prepare_module
from transduce.data.prepare import prepare
from transduce.data.prepared import load_prepared
from transduce.errors import DataError


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return made_corpus(tmp_path / "corpus")


# Bad input.


def test_unequal_line_counts(config: Config, tmp_path: Path) -> None:
    write(Path(config.data.folder), "dev", sentences(50, 3))
    target = corpus_file(config, "dev.de")
    target.write_text("".join(target.read_text().splitlines(keepends=True)[:30]))
    with pytest.raises(DataError, match=r"dev\.en has 50 lines, .*dev\.de has 30") as error:
        prepare(config, tmp_path / "out", progress=False)
    assert "They seem to be aligned up to line 30" in str(error.value)


def test_invalid_utf8(config: Config, tmp_path: Path) -> None:
    path = corpus_file(config, "two.de")
    path.write_bytes(path.read_bytes().replace("groß".encode(), "groß".encode("latin-1"), 1))
    with pytest.raises(DataError, match=r"two\.de, line \d+: not UTF-8 \(byte 0xdf"):
        prepare(config, tmp_path / "out", progress=False)


def test_missing_file(config: Config, tmp_path: Path) -> None:
    wrong = with_data(config, train=(("on.en", "one.de"),))
    with pytest.raises(DataError, match=r"on\.en: no such file\. Did you mean 'one\.en'\?"):
        prepare(wrong, tmp_path / "out", progress=False)


def test_nothing_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.train names no files"):
        prepare(Config(), tmp_path / "out", progress=False)


def test_nothing_left(config: Config, tmp_path: Path) -> None:
    folder = Path(config.data.folder)
    only = with_data(config, train=(("one.en", "one.de"),))
    write(folder, "one", [("", "x"), *sentences(50, 3)])
    with pytest.raises(DataError, match="no training pairs are left of 51: 1 have an empty side, 50 are also in"):
        prepare(only, tmp_path / "out", progress=False)
    write(folder, "one", [])
    with pytest.raises(DataError, match="the training files are empty"):
        prepare(only, tmp_path / "out", progress=False)
    write(folder, "one", sentences(5, 9))
    with pytest.raises(DataError, match=r"left of 5: 5 are longer than data\.max_tokens = 1 subwords"):
        prepare(with_data(only, max_tokens=1), tmp_path / "out", progress=False)
    write(folder, "dev", [("", "")])
    with pytest.raises(DataError, match="no validation pairs with text on both sides"):
        prepare(only, tmp_path / "out", progress=False)


def test_output_is_a_file(config: Config, tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(DataError, match="is a file; name a folder"):
        prepare(config, tmp_path / "out", progress=False)


@pytest.mark.parametrize("overwrite", [False, True])
def test_the_output_is_the_folder_of_a_model(config: Config, tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tokenizer.json").write_text("the model's")
    with pytest.raises(DataError, match="is the folder of a model or a run"):
        prepare(config, tmp_path, progress=False, overwrite=overwrite)
    assert (tmp_path / "tokenizer.json").read_text() == "the model's"


@pytest.mark.parametrize("same_size", [False, True])
def test_a_file_that_changes_during_preparation(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same_size: bool
) -> None:
    real = prepare_module._epoch_report

    def touch(*args: Any) -> Any:
        file = corpus_file(config, "one.en")
        file.write_text(file.read_text().replace("dog", "cow", 1) if same_size else "changed\n")
        os.utime(file, (1, 1))  # a clock may be too coarse to show the change
        return real(*args)

    monkeypatch.setattr(prepare_module, "_epoch_report", touch)
    with pytest.raises(DataError, match=r"one\.en: changed during preparation"):
        prepare(config, tmp_path / "out", progress=False)
    with pytest.raises(DataError, match="not a prepared folder"):
        load_prepared(tmp_path / "out")


# Named sources.


def test_absent_files_are_fetched(config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    missing = corpus_file(config, "one.en")
    text = missing.read_bytes()

    def fetch(name: str, folder: Path, *, mirror: Path | None, progress: bool) -> None:
        calls.append((name, folder, mirror, progress))
        missing.write_bytes(text)

    monkeypatch.setattr("transduce.data.named_corpora.fetch", fetch)
    named = with_data(config, download="news")
    prepare(named, tmp_path / "a", progress=False, mirror=tmp_path)
    assert calls == []
    missing.unlink()
    prepare(named, tmp_path / "b", progress=False, mirror=tmp_path)
    assert calls == [("news", Path(config.data.folder), tmp_path, False)]


# The command.


def test_command_with_files(config: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(config.data.folder)
    arguments = ["prepare", "--preset", "tiny", "--set", "text.vocab_size=300", "--quiet"]
    for name in ("one", "two"):
        arguments += ["--train", f"{folder}/{name}.en", f"{folder}/{name}.de"]
    arguments += ["--validation", f"{folder}/dev.en", f"{folder}/dev.de"]
    assert main([*arguments, "--check-only"]) == 0
    assert "700 kept of 700" in capsys.readouterr().out
    assert main([*arguments, "--output", str(tmp_path / "out"), "--threads", "2"]) == 0
    assert "300 pieces" in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "report.json").read_text())["epoch"]["source_budget"] == 4096
    assert main([*arguments, "--output", str(tmp_path / "out")]) == 0
    assert "already prepared" in capsys.readouterr().out
    assert main([*arguments, "--output", str(tmp_path / "out"), "--set", "data.max_ratio=3"]) == 3
    assert "data.max_ratio was 4.0, now 3.0" in capsys.readouterr().err


def test_command_with_a_recipe(config: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        'preset = "tiny"\n[text]\nvocab_size = 300\n[data]\nfolder = "corpus"\ntrain = [["one.en", "one.de"]]\n'
    )
    assert main(["prepare", str(recipe), "--output", str(tmp_path / "out"), "--quiet"]) == 0
    assert "400 kept of 400" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prepare", "--output", "x"], "give a recipe, or --train"),
        (["prepare", "--train", "a", "b"], "Say where to write: --output DIR"),
        (["prepare", "r.toml", "--train", "a", "b", "--output", "x"], "not both"),
        (
            ["prepare", "--train", "a", "b", "--output", "x", "--threads", "0"],
            "--threads 0: must be a whole number from 1",
        ),
        (["prepare", "--train", "a", "b", "c", "--output", "x"], "must be a pair of files, or one TSV or TMX file"),
        (["prepare", "--train", "a", "b\udcff", "--output", "x"], "data.train = 'b\\udcff': must be UTF-8; rename"),
        (["filter", "--train", "a", "b\udcff", "--output", "x"], "data.train = 'b\\udcff': must be UTF-8; rename"),
    ],
)
def test_command_mistakes(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_lines_are_shown_as_modifiers_change_them(
    config: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "recipe.toml"
    entries = [("upper_case", 0.2), ("merge", 0.1), ("noise", 0.00001)]
    tables = "".join(f'[[train.modifiers]]\nname = "{name}"\nprobability = {number}\n' for name, number in entries)
    corpus = '[text]\nvocab_size = 300\n[data]\nfolder = "corpus"\ntrain = [["one.en", "one.de"]]\n'
    recipe.write_text(corpus + tables)
    arguments = ["prepare", str(recipe), "--output", str(tmp_path / "out"), "--quiet", "--show-modified"]
    assert main([*arguments, "6"]) == 0
    merge, noise = capsys.readouterr().out.partition("merge: 2 to 4 pairs become one line")[2].split("noise: ")
    assert merge.count("  line ") == 2
    noise, upper = noise.split("upper_case: both sides in capitals")
    assert noise.rstrip().endswith("; no line of this epoch")
    blocks = upper.split("\n  line ")
    assert "lines of the first epoch" in blocks[0]
    assert len(blocks) == 3
    for block in blocks[1:]:
        lines = [line.strip() for line in block.splitlines()[1:]]
        (before, after), target = (line.split("  ", 1)[1] for line in lines[:2]), lines[2:]
        assert after == before.upper() != before
        assert target[1].endswith(target[0].removeprefix("target  ").upper())
    assert main([*arguments, "0"]) != 0
    assert main([*arguments, "3", "--check-only"]) != 0
    assert "--show-modified shows prepared pairs: leave out --check-only" in capsys.readouterr().err
    recipe.write_text(corpus)
    assert main([*arguments, "3"]) != 0
    assert "train.modifiers: the recipe has none to show. Add [[train.modifiers]] tables." in capsys.readouterr().err


def test_progress_is_shown_with_an_estimate(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("transduce.data.progress._DELAY_SECONDS", 0.0)
    prepare(config, tmp_path / "out")
    shown = capsys.readouterr().err
    for label in ("checking the corpus", "reading for the tokenizer", "encoding"):
        assert f"{label}: 100%" in shown


def test_nothing_is_written_for_a_misaligned_corpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chance = random.Random(1)
    numbers = [[str(chance.randrange(10_000)) for _ in range(6)] for _ in range(800)]
    lines = {"a.en": [" ".join(row) for row in numbers], "a.de": [" ".join(row[::-1]) for row in numbers]}
    del lines["a.en"][300], lines["a.de"][-1]
    for name, side in lines.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    output = tmp_path / "prepared"
    names = [str(tmp_path / name) for name in lines]
    arguments = ["prepare", "--train", *names, "--set", "text.vocab_size=300", "--quiet"]
    assert main([*arguments, "--check-only"]) == 3
    said = capsys.readouterr()
    assert "499 pairs misaligned: from about line 301 to the end" in said.out
    assert f"each line of {names[0]} belongs with the line after it in {names[1]}" in said.err
    assert main([*arguments, "--output", str(output)]) == 3
    error = capsys.readouterr().err
    assert "set data.allow_misaligned=true" in error
    assert "If 'transduce init' took the validation set from them, delete it" in error
    assert not (output / "manifest.json").exists()
    assert main([*arguments, "--output", str(output), "--set", "data.allow_misaligned=true"]) == 0
    assert "499 pairs misaligned" in capsys.readouterr().out
    assert main([*arguments, "--output", str(output)]) == 0  # the folder is prepared: the setting changes nothing in it
    assert "499 pairs misaligned" in capsys.readouterr().out
