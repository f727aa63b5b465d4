"""The reference of the command line, as the site makes it, has each command and each of its options."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_reference import reference
from transduce import errors
from transduce.cli.main import build_parser

REFERENCE = reference()
_PAGE = Path(__file__).resolve().parents[2] / "docs/reference/command-line.md"


def commands(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yields each command and subcommand with its parser."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub, subparser in action.choices.items():
                yield f"{name} {sub}".strip(), subparser
                yield from commands(subparser, f"{name} {sub}".strip())


def section(command: str) -> str:
    """Returns the part of the reference that is about one command, with its subcommands."""
    [heading] = [line for line in REFERENCE.splitlines() if line.lstrip("#") == f" {command}"]
    level = heading.index(" ")
    after = REFERENCE.partition(f"{heading}\n")[2].splitlines()
    higher = tuple(f"{'#' * number} " for number in range(2, level + 1))
    end = next((number for number, line in enumerate(after) if line.startswith(higher)), len(after))
    return "\n".join(after[:end])


@pytest.mark.parametrize(("command", "parser"), list(commands(build_parser())), ids=str)
def test_each_option_is_in_the_section_of_its_command(command: str, parser: argparse.ArgumentParser) -> None:
    shown = [action for action in parser._actions if action.help != argparse.SUPPRESS and action.dest != "help"]
    text = section(command)
    assert not [option for action in shown for option in action.option_strings if f"`{option}" not in text]


def test_hidden_options_are_left_out() -> None:
    assert "==SUPPRESS==" not in REFERENCE
    assert "| `-h`" not in REFERENCE


def test_the_page_lists_the_exit_codes_of_all_errors() -> None:
    codes = {each.exit_code for each in vars(errors).values() if hasattr(each, "exit_code")}
    listed = {int(code) for code in re.findall(r"^\| (\d) \|", _PAGE.read_text(encoding="utf-8"), re.MULTILINE)}
    assert listed == codes | {0}
