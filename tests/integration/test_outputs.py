"""No command writes over what it reads, whichever option names its output."""

import argparse
import os
from dataclasses import replace
from pathlib import Path

import pytest

from made_models import made_bundle
from transduce.bundle import OWN_FILES, save_bundle
from transduce.cli.main import build_parser, main
from transduce.cli.output import OUTPUTS, require_no_input
from transduce.errors import DataError

# How the help calls an option or argument that names a file or folder.
METAVARS = {"DIR", "DOCUMENT", "FILE", "FOLDER", "JSON", "MODEL", "PATH", "RECIPE", "RUN", "RUN|MODEL", "TEACHER"}
METAVARS |= {"TREES", "TSV"}
# What is read; a new option belongs here or in `OUTPUTS`.
INPUTS = """ancestor baseline blockwise compare data description document ensemble export forbid forbid_by_line
    forward backward glossary list mirror model path prefix raw recipe recipes reference require_by_line run_folder
    silver source subject target text tokenizer train trees validation"""


def commands(parser: argparse.ArgumentParser, *name: str) -> dict[tuple[str, ...], argparse.ArgumentParser]:
    """Returns the parser of each command that does something, by its words."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return {
                key: each for word, sub in action.choices.items() for key, each in commands(sub, *name, word).items()
            }
    return {name: parser}


def paths(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Returns the options and arguments that name files or folders."""
    return [action for action in parser._actions if action.type is Path or action.metavar in METAVARS]


PARSER = build_parser()
COMMANDS = commands(PARSER)
WRITING = {
    (*name, option.dest): (parser, option)
    for name, parser in COMMANDS.items()
    for option in paths(parser)
    if option.dest in OUTPUTS
}


def words(action: argparse.Action, value: object) -> list[str]:
    """Returns the words of the command line that give an option this value, as often as it needs one."""
    count = action.nargs if isinstance(action.nargs, int) else 1
    return [*action.option_strings[-1:], *[str(value)] * count]


def command_line(
    parser: argparse.ArgumentParser, output: argparse.Action, at: Path, read: dict[str, Path]
) -> list[str]:
    """Returns arguments that write to `at` and read the named inputs; the rest that is required is some file."""
    line = words(output, at)
    for action in parser._actions:
        if action.dest in read:
            line += words(action, read[action.dest])
        elif action is not output and (action.required or not action.option_strings) and action.nargs not in ("?", 0):
            line += words(action, next(iter(action.choices)) if action.choices else read[""])
    return line


def test_every_path_of_a_command_line_is_known_as_an_input_or_an_output() -> None:
    found = {action.dest for parser, _ in WRITING.values() for action in paths(parser)}
    assert found == {*INPUTS.split(), *OUTPUTS}
    # Commands without an output that is in `OUTPUTS`.
    assert {name[0] for name in COMMANDS} - {name[0] for name in WRITING} == {
        "calibrate", "evaluate", "info", "serve", "shortlist"
    }  # fmt: skip


@pytest.mark.parametrize("key", WRITING, ids="-".join)
def test_no_command_writes_over_its_input(
    key: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each input of each command in turn is its output, too: by its name, and by a link."""
    parser, output = WRITING[key]
    monkeypatch.setattr("transduce.cli.main.build_parser", lambda _: PARSER)
    monkeypatch.setitem(parser._defaults, "run", lambda args: pytest.fail("it was run"))
    file, other, link = (tmp_path / name for name in ("file", "other", "link"))
    file.write_text("a man\n", encoding="utf-8")
    other.write_text("a dog\n", encoding="utf-8")
    link.symlink_to(file)
    inputs = [action for action in paths(parser) if action.dest not in OUTPUTS]
    assert inputs or key[0] in ("demo", "paper")
    for action in inputs:
        for at in (file, link):
            line = command_line(parser, output, at, {action.dest: file, "": other})
            assert main([*key[:-1], *line]) == DataError.exit_code, line
            assert f"{at}: is an input of this command, and would be overwritten" in capsys.readouterr().err
    assert file.read_text(encoding="utf-8") == "a man\n"


def test_no_command_writes_over_a_file_of_its_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.cli.main.build_parser", lambda _: PARSER)
    model = made_bundle(tmp_path / "model").path
    (model / "sub").mkdir()
    before = {path.name: path.read_bytes() for path in model.iterdir() if path.is_file()}
    for command, option in (("translate", "--output"), ("verify", "--report"), ("inspect", "--figure")):
        for name in (*OWN_FILES, "ctranslate2/int8/model.bin"):
            at = model / "sub" / ".." / name
            assert main([command, str(model), option, str(at), "--overwrite"]) == DataError.exit_code
            assert "is an input of this command, and would be overwritten" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in model.iterdir() if path.is_file()} == before


def test_the_corpus_of_the_model_and_standard_input_are_inputs_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = made_bundle(tmp_path / "model")
    corpus = tmp_path / "val.en"
    corpus.write_text("a man\n", encoding="utf-8")
    data = replace(bundle.config.data, folder=str(tmp_path), validation=("val.en", "val.de"))
    save_bundle(bundle.path, replace(bundle.config, data=data), bundle.weights(), bundle.tokenizer, {})
    assert main(["verify", str(bundle.path), "--report", str(corpus), "--overwrite"]) == DataError.exit_code
    piped = tmp_path / "piped"
    piped.write_text("a dog\n", encoding="utf-8")
    monkeypatch.setattr(os, "fstat", lambda descriptor: piped.stat())
    assert main(["translate", str(bundle.path), "--output", str(piped), "--overwrite"]) == DataError.exit_code
    assert capsys.readouterr().err.count("is an input of this command, and would be overwritten") == 2
    assert corpus.read_text(encoding="utf-8") == "a man\n"


def test_a_new_file_and_an_earlier_output_in_a_model_folder_may_be_written(tmp_path: Path) -> None:
    model = made_bundle(tmp_path / "model").path
    report = model / "report.json"
    for _ in range(2):
        require_no_input(argparse.Namespace(model=model, report=report, source=None))
        report.write_text("{}", encoding="utf-8")


def test_two_outputs_are_two_files(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    at = tmp_path / "pair.json"
    given = argparse.Namespace(model=tmp_path / "model", arrays=at, pharaoh=tmp_path / "link" / at.name)
    with pytest.raises(DataError, match=r"pair\.json: is named as two outputs\. Name another for one of them\."):
        require_no_input(given)
    given.pharaoh = tmp_path / "pair.align"
    require_no_input(given)
    require_no_input(argparse.Namespace(output=Path("-"), report=Path("-"), figure=Path("/dev/null"), arrays=None))
