"""Old names of options are taken for now, with a warning; no help shows them, and one name is one thing."""

import argparse
import re
from pathlib import Path

import pytest

from transduce.cli import inspect
from transduce.cli.main import build_parser
from transduce.cli.renamed import RENAMED

REPOSITORY = Path(__file__).resolve().parents[2]


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


@pytest.mark.parametrize("command", RENAMED)
def test_an_old_name_is_taken_with_a_warning(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = COMMANDS[command]
    shown = re.findall(r"--[a-z-]+", parser.format_help().partition("options:")[2])
    for old, new in RENAMED[command].items():
        assert new in shown
        assert f"{old} " not in parser.format_usage()
        [action] = [each for each in parser._actions if new in each.option_strings]
        values = [] if action.nargs == 0 else ["7"]
        required = [each for each in parser._actions if each.required]
        given = [word for each in required if not each.option_strings for word in ["x"]]
        given += [
            word
            for each in required
            if each.option_strings and each is not action
            for word in [each.option_strings[0], "7"]
        ]
        if command in ("export",):
            given[given.index("--format") + 1] = "onnx"
        for spelt in ([old, *values], [f"{old}={values[0]}"] if values else [old]):
            capsys.readouterr()
            before, _ = parser.parse_known_args([*given, new, *values])
            assert capsys.readouterr().err == ""
            after, unknown = parser.parse_known_args([*given, *spelt])
            assert (after, unknown) == (before, [])
            assert capsys.readouterr().err == (
                f"transduce: warning: {old} is now {new}; the old name will be removed in 0.3.\n"
            )


def test_what_follows_two_dashes_is_no_option(capsys: pytest.CaptureFixture[str]) -> None:
    args = COMMANDS["translate"].parse_args(["--source", "a", "--", "--input"])
    assert args.model == Path("--input")
    assert capsys.readouterr().err == ""


def test_a_sentence_as_source_is_taken_for_now(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = COMMANDS["inspect"].parse_args(["model", "--source", "A dog runs.", "--target", "Ein Hund rennt."])
    inspect._take_old_meaning(args)
    assert (args.sentence, args.translation, args.source, args.target) == ("A dog runs.", "Ein Hund rennt.", None, None)
    assert "--source with a sentence is now --sentence" in capsys.readouterr().err
    (tmp_path / "a text").touch()
    for name in (str(tmp_path / "a text"), "test.en"):
        args = COMMANDS["inspect"].parse_args(["model", "--source", name])
        inspect._take_old_meaning(args)
        assert (args.sentence, args.source) == (None, Path(name))
    assert capsys.readouterr().err == ""


def test_the_vocabulary_lists_what_the_commands_have() -> None:
    """Options that name files, folders or sides mean the same in every command."""
    page = (REPOSITORY / "docs" / "decisions" / "0018-names-of-options.md").read_text(encoding="utf-8")
    for name in {new for names in RENAMED.values() for new in names.values()}:
        assert f"`{name}" in page, name
    for command, parser in COMMANDS.items():
        names = {name for action in parser._actions for name in action.option_strings}
        assert not names & {"--input", "--sentences", "--references", "--language", "--target-file"}, command
