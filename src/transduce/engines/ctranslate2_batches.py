"""The lines of a call of CTranslate2, which of them are searched together, and their results."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from transduce.engines.batching import length_batches
from transduce.engines.interface import TokenConstraints


@dataclass(frozen=True, slots=True)
class Line:
    """One source to search, and how."""

    index: int  # among the sources
    source: tuple[int, ...]
    limit: int  # tokens of its longest output, EOS not counted
    constraints: TokenConstraints
    exact_limit: bool = False  # whether all lines of its call have the same limit
    suppress: bool = False  # exclude pad, BOS and unknown

    @property
    def batch_key(self) -> tuple[Any, ...]:
        """What lines must have in common to be searched in one call."""
        limit, given = self.limit if self.exact_limit else 0, self.constraints
        return (limit, self.suppress, len(given.start), bool(given.prefix), given.forbidden)


@dataclass(frozen=True, slots=True)
class Output:
    """What a search found for a line."""

    ids: tuple[int, ...]  # without EOS
    finished: bool  # False: it was open at the limit of its call
    log_probability: float  # of the ids, and of EOS where finished


def line_batches(lines: Sequence[Line], batch_size: int) -> Iterator[list[Line]]:
    """Yields lines of similar length that go into one call, longest first.

    A call has one limit, the greatest of its lines; those that have it need no search of their own at their limit.
    """
    groups: dict[tuple[Any, ...], list[Line]] = {}
    for line in sorted(lines, key=lambda line: -len(line.source)):
        groups.setdefault(line.batch_key, []).append(line)
    for group in groups.values():
        for batch in length_batches([len(line.source) + 1 for line in group], batch_size):
            lines = [group[index] for index in batch]
            greatest = max(line.limit for line in lines)
            yield [replace(line, exact_limit=line.limit == greatest) for line in lines]
