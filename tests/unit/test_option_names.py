"""One name of an option is one thing in all commands, and names of version 0.1 are unknown."""

import argparse
import contextlib
from pathlib import Path

import pytest

from transduce.cli import main as main_module
from transduce.cli.main import build_parser, main

REPOSITORY = Path(__file__).resolve().parents[2]
NAMES = """--arrays --corpus --hypothesis --intervals --reference --report --sample --source --source-language --target
    --target-language --test-reference --threads --train"""


def parsers(parser: argparse.ArgumentParser, name: str = "") -> dict[str, argparse.ArgumentParser]:
    """Returns the parser of each command that does something, by its name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found = {}
            for word, each in action.choices.items():
                found |= parsers(each, f"{name} {word}".strip())
            return found
    return {name: parser}


COMMANDS = parsers(build_parser())


@pytest.mark.parametrize(
    ("arguments", "suggested"),
    [
        ("translate model --input a", ""),
        ("evaluate --hypothesis a --reference b --training c", " Did you mean '--train'?"),
        ("sweep model --source a --reference b --output c --language de", " Did you mean '--target-language'?"),
        ("verify model --sentences a", ""),
    ],
)
def test_a_name_of_0_1_is_unknown(arguments: str, suggested: str, capsys: pytest.CaptureFixture[str]) -> None:
    *_, old, value = arguments.split()
    with pytest.raises(SystemExit, match="2"):
        main(arguments.split())
    assert f"unrecognized arguments: {old} {value}.{suggested}" in capsys.readouterr().err


@pytest.mark.parametrize("name", main_module.COMMANDS)
def test_a_command_that_is_declared_alone_is_the_same(name: str) -> None:
    alone, among_others = (
        parsers(build_parser([name])),
        {words: parser for words, parser in COMMANDS.items() if words.split()[0] == name},
    )
    assert {words: parser.format_help() for words, parser in alone.items()} == {
        words: parser.format_help() for words, parser in among_others.items()
    }


def test_others_are_declared_only_if_needed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    declared = []
    monkeypatch.setattr(
        main_module, "build_parser", lambda commands: declared.append(list(commands)) or build_parser(commands)
    )
    assert main(["info", "nowhere"]) == 2
    monkeypatch.setattr("sys.argv", ["transduce", "info", "nowhere"])
    assert main() == 2
    for words in ([], ["--debug", "info", "--help"], ["inform"], ["--help"]):
        with contextlib.suppress(SystemExit):
            main(words)
    assert declared == [["info"], ["info"], *[list(main_module.COMMANDS)] * 4]
    assert "Did you mean 'info'?" in capsys.readouterr().err


def test_what_follows_two_dashes_is_no_option(capsys: pytest.CaptureFixture[str]) -> None:
    args = COMMANDS["translate"].parse_args(["--source", "a", "--", "--source"])
    assert args.model == Path("--source")
    assert capsys.readouterr().err == ""


def test_the_vocabulary_lists_what_the_commands_have() -> None:
    """Options that name files, folders or sides mean the same in every command."""
    page = (REPOSITORY / "docs" / "decisions" / "0018-names-of-options.md").read_text(encoding="utf-8")
    for name in NAMES.split():
        assert f"`{name}" in page, name
    for command, parser in COMMANDS.items():
        names = {name for action in parser._actions for name in action.option_strings}
        assert not names & {"--input", "--sentences", "--references", "--language", "--target-file"}, command
