"""The reference of the command line: what `--help` of each command says, as Markdown."""

import argparse
import re
import textwrap
from collections.abc import Iterator

from transduce.cli.main import build_parser

_WIDTH = 100


def reference() -> str:
    """Returns a section for each command, in the order of `transduce --help`."""
    return "\n\n".join(part for name, parser in _subcommands(build_parser()) for part in _section(name, parser, 2))


def _subcommands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _section(name: str, parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    yield f"{'#' * level} {name}"
    yield _description(parser.description or "")
    subcommands = dict(_subcommands(parser))
    if not subcommands:
        yield f"```text\n{_usage(parser)}\n```"
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if action.help != argparse.SUPPRESS]
        actions = [a for a in actions if not isinstance(a, argparse._SubParsersAction | argparse._HelpAction)]
        if actions:
            title = _plain(str(group.title))
            yield f"**{title[0].upper()}{title[1:]}**"
            yield "\n".join(["{.entries}", "| option | meaning |", "|---|---|", *map(_row, actions)])
    for sub, subparser in subcommands.items():
        yield from _section(f"{name} {sub}", subparser, level + 1)


def _usage(parser: argparse.ArgumentParser) -> str:
    """Returns the usage, wrapped; every option is in the tables, so only what is required stands here."""
    words = [parser.prog]
    for action in parser._actions:
        if action.required or not action.option_strings:
            shown = parser._get_formatter()._format_args(action, action.metavar or action.dest.upper())
            words.append(" ".join([*action.option_strings[-1:], shown]).strip())
    return textwrap.fill(" ".join([*words, "[OPTIONS]"]), _WIDTH, subsequent_indent="    ")


def _description(text: str) -> str:
    """Returns a module's docstring, with its examples and other indented lines as blocks of code."""
    parts = []
    for block in re.split(r"\n{2,}", text.strip("\n")):
        head, _, rest = block.partition("\n")
        if head == "examples:":
            parts.append("```sh\n" + textwrap.dedent(rest) + "\n```")
        elif re.search(r"^ {2,}\S", block, re.MULTILINE):
            lines = block.split("\n")
            first = next(number for number, line in enumerate(lines) if line.startswith("  "))
            parts += [
                _plain(" ".join(lines[:first])),
                "```text\n" + textwrap.dedent("\n".join(lines[first:])) + "\n```",
            ]
        else:
            parts.append(_plain(block))
    return "\n\n".join(parts)


def _row(action: argparse.Action) -> str:
    formatter = argparse.HelpFormatter("")
    shown = ", ".join(f"`{form.strip()}`" for form in formatter._format_action_invocation(action).split(", "))
    expanded = formatter._expand_help(action) if action.help else ""
    return f"| {shown} | {_cell(expanded)} |"


def _cell(text: str) -> str:
    return _plain(text).replace("|", r"\|")


def _plain(text: str) -> str:
    """Returns text of a terminal as Markdown: options and file names keep their signs."""
    text = re.sub(r"(?<!\w)'(transduce [^']+)'", r"`\1`", text)
    text = re.sub(r"(?<![\w`-])(--[a-z][\w-]*(?:=\S+)?)(?![^`]*`(?:[^`]*`[^`]*`)*[^`]*$)", r"`\1`", text)
    return re.sub(r"([*_<\[\]$\\])(?![^`]*`(?:[^`]*`[^`]*`)*[^`]*$)", r"\\\1", text)
