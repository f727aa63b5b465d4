"""How `--help` is laid out."""

import argparse


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps descriptions as they are written, and sets the names of commands in a column that holds the longest."""

    def add_argument(self, action: argparse.Action) -> None:
        """Counts the indentation of subcommands, which argparse leaves out: "translate" then got a line of its own."""
        super().add_argument(action)
        for each in self._iter_indented_subactions(action):
            length = self._current_indent + len(self._format_action_invocation(each))
            self._action_max_length = max(self._action_max_length, length)
