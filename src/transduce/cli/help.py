"""How commands are declared, and how `--help` is laid out."""

import argparse
from collections.abc import Mapping
from importlib import import_module


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps descriptions as they are written, and makes the column of command names wide enough."""

    def add_argument(self, action: argparse.Action) -> None:
        """Counts the indentation of subcommands; argparse does not, and puts "translate" on a line of its own."""
        super().add_argument(action)
        for each in self._iter_indented_subactions(action):
            length = self._current_indent + len(self._format_action_invocation(each))
            self._action_max_length = max(self._action_max_length, length)


def add_commands(parser: argparse.ArgumentParser, title: str, modules: Mapping[str, str]) -> None:
    """Declares commands, each a module `transduce.cli.NAME` with `SUMMARY`, `configure(parser)` and `run(args) -> int`.

    Args:
        parser: of the program, or of a command that has subcommands.
        title: what they are called: "commands" or "subcommands".
        modules: the name of each command's module, by the name of the command.
    """
    commands = parser.add_subparsers(title=title, metavar=title.removesuffix("s").upper())
    for name, module_name in modules.items():
        module = import_module(f"transduce.cli.{module_name}")
        command = commands.add_parser(
            name, help=module.SUMMARY, description=module.__doc__, formatter_class=HelpFormatter
        )
        module.configure(command)
        command.set_defaults(run=module.run, parser=command)
