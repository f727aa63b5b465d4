"""How commands are declared, and how `--help` is laid out."""

import argparse
from collections.abc import Sequence
from importlib import import_module


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps descriptions as they are written, and makes the column of command names wide enough."""

    def add_argument(self, action: argparse.Action) -> None:
        """Counts the indentation of subcommands; argparse does not, and puts "translate" on a line of its own."""
        super().add_argument(action)
        for each in self._iter_indented_subactions(action):
            length = self._current_indent + len(self._format_action_invocation(each))
            self._action_max_length = max(self._action_max_length, length)


def add_commands(parser: argparse.ArgumentParser, title: str, names: Sequence[str], prefix: str = "") -> None:
    """Declares commands, each a module `transduce.cli.NAME` with `SUMMARY`, `configure(parser)` and `run(args) -> int`.

    Args:
        parser: of the program, or of a command that has subcommands.
        title: what they are called: "commands" or "subcommands".
        names: of the commands.
        prefix: what the names of their modules begin with.
    """
    commands = parser.add_subparsers(title=title, metavar=title.removesuffix("s").upper())
    for name in names:
        module = import_module(f"transduce.cli.{prefix}{name.replace('-', '_')}")
        command = commands.add_parser(
            name, help=module.SUMMARY, description=module.__doc__, formatter_class=HelpFormatter
        )
        module.configure(command)
        command.set_defaults(run=module.run, parser=command)


def show_help(args: argparse.Namespace) -> int:
    """Prints the help of a command without a subcommand, as `git` and `pip` do; returns the exit code."""
    args.parser.print_help()
    return 0
