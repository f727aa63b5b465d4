"""Texts that are compared: their lines, and the names that messages give them."""

from collections.abc import Sequence
from dataclasses import dataclass

from transduce.errors import EvaluationError
from transduce.reporting.tables import counted


@dataclass(frozen=True)
class Text:
    """Lines, and the name that messages use for them, such as the file's name."""

    name: str
    lines: Sequence[str]


def require_aligned(hypothesis: Text, others: Sequence[Text]) -> None:
    """Raises EvaluationError if the texts differ in their number of lines, or have none."""
    for other in others:
        if len(other.lines) != len(hypothesis.lines):
            raise EvaluationError(
                f"{hypothesis.name} has {counted(len(hypothesis.lines), 'line')} and {other.name} has "
                f"{len(other.lines):,}: line n of one must be the same sentence as line n of the other."
            )
    if not hypothesis.lines:
        raise EvaluationError(f"{hypothesis.name} has no lines: there is nothing to score.")
