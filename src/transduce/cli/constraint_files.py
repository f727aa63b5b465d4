"""The files of prefixes, phrases and terms that `transduce translate` reads alongside its input."""

import argparse
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from transduce.errors import ConfigError, DataError

if TYPE_CHECKING:
    from transduce.translation.constraints.line_constraints import Constraints


class ConstraintFiles:
    """The files of prefixes, phrases and terms, which are read alongside the input."""

    def __init__(self, args: argparse.Namespace) -> None:
        """Opens the files that the options name."""
        from transduce.data.readers import STDIN, read_lines, shown_name
        from transduce.files import sha256
        from transduce.translation.constraints.glossary import read_glossary

        names = ("prefix", "forbid", "forbid_by_line", "glossary", "require_by_line")
        named = {name: path for name in names if (path := getattr(args, name)) is not None}
        if [args.source, *named.values()].count(STDIN) > 1:
            raise ConfigError(
                "standard input ('-') can be only one of --source, --prefix, --forbid, --forbid-by-line, --glossary "
                "and --require-by-line."
            )
        self.glossary = read_glossary(args.glossary) if args.glossary is not None else None
        self._always = tuple(line for line in read_lines(args.forbid) if line.strip()) if args.forbid else ()
        by_line = ("prefix", "forbid_by_line", "require_by_line")
        self._by_line = {name: (shown_name(named[name]), read_lines(named[name])) for name in by_line if name in named}
        # Constraints by line count as part of the lines. A pipe is known by its name only: it cannot be read twice.
        for_all = {name: named[name] for name in ("forbid", "glossary") if name in named}
        checksums = {name: sha256(path) if path.is_file() else str(path) for name, path in for_all.items()}
        self.name = ", ".join(f"{name} {checksum}" for name, checksum in checksums.items())

    def constraints(self) -> "Iterator[Constraints] | None":
        """Returns the constraints of each line, or None if no file is given."""
        return self._each() if self._by_line or self._always else None

    def _each(self) -> "Iterator[Constraints]":
        from transduce.translation.constraints.line_constraints import Constraints
        from transduce.translation.constraints.required_terms import choices_of

        names = " and ".join(file for file, _ in self._by_line.values())
        for number in itertools.count(1):
            line = {name: next(lines, None) for name, (_, lines) in self._by_line.items()}
            for name, text in line.items():
                if text is None:
                    file, _ = self._by_line[name]
                    raise DataError(f"{file}: has fewer lines than the input: give one for each, empty for none.")
            phrases, terms = ((line.get(name) or "").split("\t") for name in ("forbid_by_line", "require_by_line"))
            forbidden = (*self._always, *(phrase for phrase in phrases if phrase.strip()))
            required = choices_of(term.split("|") for term in terms if term.strip())
            constraints = Constraints(line.get("prefix") or "", forbidden, required)
            if self._by_line:
                constraints.require_valid(f"{names}, line {number:,}")
            yield constraints

    def check_end(self) -> None:
        """Raises DataError if a file has lines left when the input has ended."""
        for file, lines in self._by_line.values():
            if next(lines, None) is not None:
                raise DataError(f"{file}: has more lines than the input: give one for each, empty for none.")
