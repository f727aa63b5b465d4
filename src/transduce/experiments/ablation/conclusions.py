"""Which of the paper's conclusions the results support (§6.2, rows (A) to (E) of Table 3; §5.4).

A conclusion is a set of comparisons between rows. A comparison holds, by a measure, if the difference has the paper's
direction and exceeds two standard errors: σ √(1/n + 1/m) for means over n and m seeds, σ from `Results.pooled_spread`.
It does not hold if the difference is that large in the other direction; otherwise it is undecided, and the number of
seeds is given with which such a difference would decide. With one seed there is no spread, and any difference counts.

Some conclusions take long training: a model that has seen a corpus twice does not over-fit, and has not learned to use
more layers. After fewer than `LONG_TRAINING` epochs, what was measured says nothing about them: "not testable".

"The best of several rows" is chosen by the same results, so chance favours it a little.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from transduce.experiments.ablation.results import Results

Measure = Literal["perplexity", "bleu"]
Verdict = Literal["holds", "holds in part", "undecided", "does not hold", "not testable", "not measured"]

LONG_TRAINING = 10.0  # epochs; the paper's base model saw its English-German data about twenty times

_STANDARD_ERRORS = 2.0
# "Nearly identical results": within half a BLEU point, or two per cent of the perplexity.
_ALIKE_BLEU, _ALIKE_PERPLEXITY_SHARE = 0.5, 0.02


@dataclass(frozen=True)
class Comparison:
    """A row and those that it is compared with."""

    row: str
    than: tuple[str, ...]
    takes_long: bool = False  # whether it shows after long training only


class Worse(Comparison):
    """`row` is worse than the best of `than`."""


class Alike(Comparison):
    """`row` and the best of `than` are nearly equal."""


@dataclass(frozen=True)
class Claim:
    """One conclusion of the paper, as comparisons by each measure."""

    text: str
    comparisons: Mapping[Measure, Sequence[Comparison]]


def _by_both(text: str, *comparisons: Comparison) -> Claim:
    return Claim(text, {"perplexity": comparisons, "bleu": comparisons})


def _smoothing_claim(without: str, with_it: str) -> Claim:
    return Claim(
        "(§5.4) label smoothing hurts perplexity, but improves BLEU",
        {"perplexity": (Worse(with_it, (without,)),), "bleu": (Worse(without, (with_it,)),)},
    )


# Row (C). By BLEU, the paper's own eight layers (C3, 25.5) are below its base (25.8): they are compared by perplexity.
_BIGGER = (
    *(Worse("C4", ("base",)), Worse("base", ("C5",))),
    *(Worse("C1", ("C2",), takes_long=True), Worse("C2", ("base",), takes_long=True)),
    *(Worse("C6", ("base",), takes_long=True), Worse("base", ("C7",), takes_long=True)),
)
_EIGHT_LAYERS = Worse("base", ("C3",), takes_long=True)

# By the name of the grid whose rows they compare.
CLAIMS: dict[str, tuple[Claim, ...]] = {
    "table3": (
        _by_both("(A) a single head is worse than the best number of heads", Worse("A1", ("base", "A2", "A3", "A4"))),
        _by_both("(A) quality drops off with too many heads", Worse("A4", ("base", "A2", "A3"))),
        _by_both("(B) smaller attention keys hurt", Worse("B1", ("base",)), Worse("B2", ("base",))),
        Claim("(C) bigger models are better", {"perplexity": (*_BIGGER, _EIGHT_LAYERS), "bleu": _BIGGER}),
        _by_both("(D) dropout helps to avoid over-fitting", Worse("D1", ("base",), takes_long=True)),
        _smoothing_claim("D3", "base"),
        _by_both("(E) learned positions give nearly identical results", Alike("E", ("base",))),
        _by_both("(E2) so do learned positions that start at the scale of sinusoids", Alike("E2", ("base",))),
    ),
    "label-smoothing": (_smoothing_claim("smoothing-0.0", "smoothing-0.1"),),
}


@dataclass(frozen=True)
class Finding:
    """The verdict of one measure on one claim."""

    claim: Claim
    measure: Measure
    verdict: Verdict
    details: tuple[str, ...]  # a sentence for each comparison


def judge(results: Results) -> list[Finding]:
    """Returns the verdicts on the paper's claims about this grid; none for a grid that is not the paper's."""
    findings = []
    for claim in CLAIMS.get(results.grid, ()):
        for measure, comparisons in claim.comparisons.items():
            outcomes = [_compare(comparison, measure, results) for comparison in comparisons]
            verdict = _together({verdict for verdict, _ in outcomes})
            findings.append(Finding(claim, measure, verdict, tuple(detail for _, detail in outcomes)))
    return findings


def _together(verdicts: set[Verdict]) -> Verdict:
    if len(verdicts) == 1:
        return next(iter(verdicts))
    if "holds" in verdicts:
        return "holds in part"
    ranked: tuple[Verdict, ...] = ("does not hold", "undecided", "not testable")
    return next(verdict for verdict in ranked if verdict in verdicts)


def _compare(comparison: Comparison, measure: Measure, results: Results) -> tuple[Verdict, str]:
    ours = results.statistic(comparison.row, measure)
    others = {name: found for name in comparison.than if (found := results.statistic(name, measure)) is not None}
    if ours is None or not others:
        absent = comparison.row if ours is None else ", ".join(comparison.than)
        return "not measured", f"{absent} not measured"
    sign = 1.0 if measure == "bleu" else -1.0  # low perplexity is good
    best = max(others, key=lambda name: sign * others[name].mean)
    other, spread = others[best], results.pooled_spread(measure)
    margin = 0.0 if spread is None else _STANDARD_ERRORS * (spread * math.sqrt(1 / ours.count + 1 / other.count))
    if isinstance(comparison, Worse):
        lost = sign * other.mean - sign * ours.mean
        holds, fails = lost > margin, lost < -margin
        found = lost
    else:
        difference = abs(ours.mean - other.mean)
        allowed = _ALIKE_BLEU if measure == "bleu" else _ALIKE_PERPLEXITY_SHARE * other.mean
        holds, fails = difference + margin <= allowed, difference - margin > allowed
        found = allowed - difference
    verdict: Verdict = "holds" if holds else "does not hold" if fails else "undecided"
    seen = results.statistic(comparison.row, "epochs")
    if comparison.takes_long and seen is not None and seen.mean < LONG_TRAINING:
        verdict = "not testable"
    bounds = f" ± {margin:.2f}" if margin else ""
    if verdict == "undecided" and spread and found:
        seeds = math.floor(2 * (_STANDARD_ERRORS * spread / found) ** 2) + 1
        bounds += f" (with {seeds} seeds of each, such a difference would decide)"
    return verdict, (
        f"{comparison.row} {ours.mean:.2f}, {best} {other.mean:.2f}: "
        f"a difference of {ours.mean - other.mean:+.2f}{bounds}, {verdict}"
    )
