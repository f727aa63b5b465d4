"""How `--help` is laid out."""

import argparse


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps descriptions as they are written, and makes the column of command names wide enough."""

    def add_argument(self, action: argparse.Action) -> None:
        """Counts the indentation of subcommands; argparse does not, and puts "translate" on a line of its own."""
        super().add_argument(action)
        for each in self._iter_indented_subactions(action):
            length = self._current_indent + len(self._format_action_invocation(each))
            self._action_max_length = max(self._action_max_length, length)
