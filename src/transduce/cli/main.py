"""`transduce`: finds the command, runs it, and turns our own errors into one line and an exit code."""

import argparse
import atexit
import gc
import logging
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from transduce.__about__ import __version__
from transduce.cli.failures import REPORTED, lack_of_memory, replace_closed_streams, report
from transduce.cli.help import HelpFormatter, add_commands, show_help
from transduce.cli.output import require_no_input
from transduce.engines.allocator import enter_command
from transduce.errors import MissingDependencyError, suggestion

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

# Python's last collections would go through all that PyTorch has imported, which takes longer than many a command.
atexit.register(gc.freeze)

# Each command is a module of this package: see `add_commands`.
COMMANDS = (
    "demo",
    "init",
    "prepare",
    "filter",
    "train",
    "average",
    "augment",
    "student",
    "translate",
    "serve",
    "score",
    "calibrate",
    "shortlist",
    "evaluate",
    "verify",
    "ablate",
    "sweep",
    "inspect",
    "parse",
    "export",
    "import",
    "paper",
    "info",
)

_EPILOG = """examples:
  transduce demo                                        train an English-German translator in minutes
  transduce init --train train.en train.de --output mine.toml
  transduce train recipes/multi30k-en-de.toml --output runs/m30k
  transduce average runs/m30k --last 20 --output models/m30k
  echo "A dog runs." | transduce translate models/m30k
  transduce serve models/m30k                           answer requests over HTTP
  transduce evaluate --hypothesis test.out --reference test.de
  transduce verify models/m30k                          check causality, caching, batching, engines
  transduce inspect models/m30k --sentence "A dog runs."
  transduce paper table1                                measure Table 1 of the paper

'transduce COMMAND --help' explains each command, with examples."""


class CommandParser(argparse.ArgumentParser):
    """Suggests the nearest command or choice for one that does not exist."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = list(map(str, action.choices))
            nearest = suggestion(str(value), choices)
            raise argparse.ArgumentError(action, f"'{value}' is not one of {', '.join(choices)}.{nearest}")

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        values = super()._get_values(action, arg_strings)
        if values == [] and action.nargs in (None, "+"):  # `--source=--`: argparse removes the dashes
            raise argparse.ArgumentError(action, "expected at least one argument")
        return values

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        """Unlike argparse, reports errors: a full disk loses the help text."""
        if message:
            (file or sys.stderr).write(message)


def build_parser(commands: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """Returns the parser of the command line with these commands; importing them imports no torch."""
    parser = CommandParser(
        prog="transduce",
        description="Train, evaluate and use sequence transducers: the Transformer of 'Attention Is All You Need'.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"transduce {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the Python traceback of an error")
    parser.set_defaults(run=show_help, parser=parser)
    add_commands(parser, "commands", commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    replace_closed_streams()
    args = argparse.Namespace(debug=False)
    try:
        _require_posix()
        args = _parse(arguments)
        logging.getLogger("transduce").setLevel(logging.ERROR if getattr(args, "quiet", False) else logging.NOTSET)
        # Read when torch is first imported. Its OpenMP threads wait in a busy loop: where another process needs the
        # same cores, the default of 300 000 turns can cost nine tenths of the speed (docs/lab-log.md).
        os.environ.setdefault("GOMP_SPINCOUNT", "5000")
        enter_command()
        require_no_input(args)
        code = int(args.run(args))
        sys.stdout.flush()  # here, where a closed pipe is caught; not when Python ends
        return code
    except REPORTED as error:
        if args.debug and not isinstance(error, KeyboardInterrupt | BrokenPipeError):
            raise
        return report(error, vars(args))
    except Exception as error:
        if args.debug or (lack := lack_of_memory(error)) is None:
            raise
        return report(lack, vars(args))


def _require_posix() -> None:
    """Refuses Windows before any command is imported: several need modules of POSIX systems, such as fcntl."""
    if os.name != "posix":
        raise MissingDependencyError("Windows is not supported: use Linux, macOS, or Linux inside Windows (WSL).")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Returns the arguments. The program ends here where they are wrong or ask for help."""
    words = sys.argv[1:] if arguments is None else arguments
    # To import and declare the other commands takes longer than many a command.
    parser = build_parser(words[:1] if words and words[0] in COMMANDS else COMMANDS)
    try:
        args, unknown = parser.parse_known_args(words)
        if unknown:
            _refuse(args.parser, unknown)
    except SystemExit:
        sys.stdout.flush()  # of --help and --version
        raise
    return args


def _refuse(parser: argparse.ArgumentParser, unknown: Sequence[str]) -> NoReturn:
    """Ends with the usage of the command that does not know the arguments."""
    nearest = suggestion(unknown[0].partition("=")[0], re.findall(r"--[a-z-]+", parser.format_usage()))
    parser.error(f"unrecognized arguments: {' '.join(unknown)}.{nearest} '{parser.prog} --help' lists all.")


if __name__ == "__main__":
    sys.exit(main())
