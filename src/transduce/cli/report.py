"""How commands print what they found: tables with columns of one width on a terminal, plain Markdown elsewhere."""

import sys

from transduce.reporting.tables import aligned


def print_report(text: str) -> None:
    """Prints a report with tables in Markdown; what reads it from a pipe or file gets it as it is."""
    print(aligned(text) if sys.stdout.isatty() else text)
