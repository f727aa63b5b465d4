"""`transduce`: finds the command, runs it, and turns our own errors into one line and an exit code."""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from transduce import __version__
from transduce.errors import TransduceError, suggestion

# Each command is a module of this package with `SUMMARY`, `configure(parser)` and `run(args) -> int`.
COMMANDS = (
    "demo",
    "prepare",
    "train",
    "average",
    "translate",
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
  transduce demo                                        a working English-German translator in minutes
  transduce train recipes/multi30k-en-de.toml --output runs/m30k
  transduce average runs/m30k --last 20 --output models/m30k
  echo "A dog runs." | transduce translate models/m30k
  transduce evaluate --hypothesis test.out --reference test.de
  transduce verify models/m30k                          does it keep what is promised?
  transduce inspect models/m30k --source "A dog runs."
  transduce paper table1                                Table 1 of the paper, measured

'transduce COMMAND --help' explains each command, with examples."""


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser of the whole command line; importing the commands imports no torch."""
    parser = argparse.ArgumentParser(
        prog="transduce",
        description="Train, evaluate and use sequence transducers: the Transformer of 'Attention Is All You Need'.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"transduce {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the Python traceback of an error")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in COMMANDS:
        module = import_module(f"transduce.cli.{name}")
        command = commands.add_parser(
            name,
            help=module.SUMMARY,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.configure(command)
        command.set_defaults(run=module.run, parser=command)
    return parser


def _refuse(parser: argparse.ArgumentParser, unknown: Sequence[str]) -> NoReturn:
    """Ends with the usage of the command that was given what it does not know."""
    nearest = suggestion(unknown[0].partition("=")[0], re.findall(r"--[a-z-]+", parser.format_usage()))
    parser.error(f"unrecognized arguments: {' '.join(unknown)}.{nearest} '{parser.prog} --help' explains all.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    args, unknown = build_parser().parse_known_args(arguments)
    if unknown:
        _refuse(args.parser, unknown)
    # Read when torch is first imported. Its OpenMP threads wait for each other by spinning: where another process wants
    # the same cores, the default of 300 000 turns can cost nine tenths of the speed (docs/lab-log.md).
    os.environ.setdefault("GOMP_SPINCOUNT", "5000")
    try:
        code = int(args.run(args))
        sys.stdout.flush()  # here, where a reader that went away is caught; not when Python ends
        return code
    except TransduceError as error:
        if args.debug:
            raise
        print(f"transduce: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("transduce: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output went away (`| head`): leave quietly, and keep Python from flushing into the void.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:  # a full disk, a folder that may not be written to
        if args.debug:
            raise
        what = error.strerror
        if isinstance(error, FileExistsError):
            what = "a file stands where a folder is needed; name another path"
        elif isinstance(error, IsADirectoryError):
            what = "a folder stands where a file is needed; name a file"
        reason = f"{error.filename}: {what}" if error.filename else str(error)
        print(f"transduce: error: {reason}. (--debug before the command shows where.)", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
