"""The results of `verify`: what each check found, and the report as text or JSON; needs no torch."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from transduce.reporting.tables import counted

Outcome = Literal["passed", "failed", "skipped"]

_MARKS: dict[Outcome, str] = {"passed": "✓", "failed": "✗", "skipped": "–"}
_MAX_PRINTED = 10  # faults or ties of one check; JSON has all


@dataclass(frozen=True, slots=True)
class Tie:
    """Two outputs for one sentence whose scores differ by no more than rounding: either is right."""

    sentence: str
    first: str
    second: str
    difference: float  # of their scores, both given to the model in one batch


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found.

    Attributes:
        compared: what was compared, and how much of it.
        worst: the greatest difference; None where the check gives no number.
        tolerance: the greatest difference that passes.
        where: where the greatest difference was.
        faults: what is wrong, and where. A check fails for these, or for a `worst` above the tolerance.
        ties: differences that are no fault.
        skipped: why nothing was checked; "" where something was.
        note: further figures.
    """

    compared: str
    worst: float | None = None
    tolerance: float | None = None
    where: str = ""
    faults: tuple[str, ...] = ()
    ties: tuple[Tie, ...] = ()
    skipped: str = ""
    note: str = ""

    @property
    def outcome(self) -> Outcome:
        """Whether it passes; a difference of NaN never does."""
        if self.skipped:
            return "skipped"
        within = self.worst is None or (self.tolerance is not None and self.worst <= self.tolerance)
        return "passed" if within and not self.faults else "failed"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check."""

    name: str
    promise: str  # what holds if the check passes
    advice: str  # what to do if it fails
    finding: Finding
    seconds: float

    @property
    def outcome(self) -> Outcome:
        """Passed, failed or skipped."""
        return self.finding.outcome


@dataclass(frozen=True, slots=True)
class Report:
    """All checks of one model."""

    model: str
    engine: str
    sentences: str  # how many there were, and where they came from
    search: str
    versions: dict[str, str]
    checks: tuple[CheckResult, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether no check failed, and at least one passed."""
        return self.count("failed") == 0 and self.count("passed") > 0

    def count(self, outcome: Outcome) -> int:
        """Returns the number of checks with this outcome."""
        return sum(check.outcome == outcome for check in self.checks)

    def named(self, name: str) -> CheckResult:
        """Returns the check of this name; raises KeyError where there is none."""
        return {check.name: check for check in self.checks}[name]

    def to_dict(self) -> dict[str, Any]:
        """Returns what `--report` writes; numbers that JSON does not have, such as infinity, become strings."""
        values = asdict(self)
        for check, result in zip(values["checks"], self.checks, strict=True):
            check["outcome"] = result.outcome
        values["passed"] = self.passed
        converted: dict[str, Any] = _as_json(values)
        return converted

    def to_text(self) -> str:
        """Returns the report as text: a table, what failed and what to do, ties, and a summary in the last line."""
        head = [("model", self.model), ("engine", self.engine), ("sentences", self.sentences), ("search", self.search)]
        head.append(("versions", ", ".join(f"{name} {version}" for name, version in self.versions.items())))
        parts = ["\n".join(f"{label:<11}{value}" for label, value in head if value), _table(self.checks)]
        parts += [_failure(check) for check in self.checks if check.outcome == "failed"]
        parts += [_ties(check) for check in self.checks if check.finding.ties]
        return "\n\n".join([*parts, self.summary()])

    def summary(self) -> str:
        """Returns the last line of the report."""
        failed, skipped = self.count("failed"), self.count("skipped")
        ties = sum(len(check.finding.ties) for check in self.checks)
        rest = f"; {skipped} skipped" if skipped else ""
        rest += f"; {counted(ties, 'tie')} in score, listed above" if ties else ""
        if failed:
            names = ", ".join(check.name for check in self.checks if check.outcome == "failed")
            return f"FAILED: {failed} of {counted(len(self.checks), 'check')} ({names}){rest}; {self.seconds:.1f} s"
        return f"PASSED: {self.count('passed')} checks, all hold{rest}; {self.seconds:.1f} s"


def number(value: float | None) -> str:
    """Returns a difference as text."""
    if value is None:
        return ""
    return "0" if value == 0 else f"{value:.1e}" if value < 0.1 else f"{value:.3g}"


def _table(checks: Sequence[CheckResult]) -> str:
    header = ("", "check", "worst", "allowed", "seconds", "compared, and where the worst was")
    rows = [header]
    for check in checks:
        found = check.finding
        tail = found.compared
        if found.skipped:
            tail = f"skipped: {found.skipped}"
        elif found.worst:
            tail += f"; at {found.where}" if found.where else ""
        tail += f"; {found.note}" if found.note and not found.skipped else ""
        cells = (number(found.worst), number(found.tolerance), f"{check.seconds:.2f}")
        rows.append((_MARKS[check.outcome], check.name, *cells, tail))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = []
    for mark, name, *figures, tail in rows:
        numbers = "  ".join(f"{cell:>{width}}" for cell, width in zip(figures, widths[2:], strict=True))
        lines.append(f"{mark:<{widths[0]}} {name:<{widths[1]}}  {numbers}  {tail}".rstrip())
    return "\n".join(lines)


def _failure(check: CheckResult) -> str:
    found = check.finding
    lines = [f"✗ {check.name}: failed. Expected: {check.promise}"]
    if found.worst is not None and not found.worst <= (found.tolerance or 0.0):
        where = f" at {found.where}" if found.where else ""
        lines.append(f"  difference {number(found.worst)}{where}; at most {number(found.tolerance)} is allowed")
    return "\n".join([*lines, *_first(found.faults), f"  to do: {check.advice}"])


def _ties(check: CheckResult) -> str:
    ties = check.finding.ties
    lines = [f"{tie.sentence}, scores {tie.difference:.1e} apart: {tie.first!r} | {tie.second!r}" for tie in ties]
    return "\n".join([f"{check.name}: {counted(len(ties), 'tie')}, either output is right", *_first(lines)])


def _first(lines: Sequence[str]) -> list[str]:
    more = [f"… and {len(lines) - _MAX_PRINTED} more (--report FILE has all)"] if len(lines) > _MAX_PRINTED else []
    return [f"  {line}" for line in (*lines[:_MAX_PRINTED], *more)]


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
