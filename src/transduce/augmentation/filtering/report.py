"""What the filter found in a corpus: as JSON for programs, as text for people."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transduce.augmentation.filtering.judgement import RULE_NUMBERS, Judgement
from transduce.augmentation.filtering.profile import CorpusProfile
from transduce.augmentation.filtering.writing import Examples
from transduce.config.filter_options import RULES
from transduce.data.dropped import Dropped
from transduce.reporting.tables import counted, table


@dataclass(frozen=True)
class Distribution:
    """How a measure is distributed over the pairs, before and after filtering.

    Attributes:
        name: of the measure.
        edges: of the bins; one more than there are bins.
        before: number of pairs in each bin, over all pairs.
        after: over the pairs that are kept.
    """

    name: str
    edges: list[float]
    before: list[int]
    after: list[int]


@dataclass(frozen=True)
class FilterReport:
    """The outcome of `filter_corpus`.

    Attributes:
        files: the names of the files of each part.
        num_pairs: pairs read.
        num_kept: pairs kept.
        dropped: number of pairs that each rule dropped; only the rules that were applied.
        settings: the values of the options.
        notes: what could not be checked, in words.
        part_sizes: pairs read of each part.
        part_kept: pairs kept of each part.
        distributions: of the length ratio, and of scores where there are some.
        examples: a few dropped pairs of each rule.
    """

    files: list[list[str]]
    num_pairs: int
    num_kept: int
    dropped: dict[str, int]
    settings: dict[str, Any]
    notes: list[str]
    part_sizes: list[int]
    part_kept: list[int]
    distributions: list[Distribution]
    examples: dict[str, list[Dropped]]

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as plain dicts, lists and scalars."""
        return asdict(self)

    def __str__(self) -> str:
        share = self.num_kept / max(1, self.num_pairs)
        lines = [f"{counted(self.num_kept, 'pair')} kept of {self.num_pairs:,} ({share:.2%})", ""]
        rows = [
            (rule, RULES[rule], f"{count:,}", f"{count / max(1, self.num_pairs):.3%}")
            for rule, count in self.dropped.items()
        ]
        lines.append(table(("rule", "drops", "dropped", "share"), rows, text_columns=2))
        lines += [f"\nnote: {note}" for note in self.notes]
        return "\n".join(lines)


def make_report(
    names: list[list[str]], profile: CorpusProfile, judgement: Judgement, examples: Examples, settings: dict[str, Any]
) -> FilterReport:
    """Returns the report, once all pairs are judged."""
    kept = judgement.kept
    off = set(settings["off"])
    counts = np.bincount(judgement.rules, minlength=len(RULES) + 1)
    dropped = {rule: int(counts[number]) for rule, number in RULE_NUMBERS.items() if rule not in off}
    if not len(judgement.cross_entropy):
        dropped.pop("cross-entropy", None)
    return FilterReport(
        files=names,
        num_pairs=len(kept),
        num_kept=int(kept.sum()),
        dropped=dropped,
        settings=settings,
        notes=[*profile.notes, *_skipped(judgement)],
        part_sizes=list(judgement.part_sizes),
        part_kept=[int(kept[low:high].sum()) for low, high in pairwise(judgement.starts)],
        distributions=_distributions(judgement, profile),
        examples={rule: found for rule in dropped if (found := examples.of(rule))},
    )


def _skipped(judgement: Judgement) -> Iterator[str]:
    """Yields a note for each translation memory with units that were skipped."""
    for reader in judgement.readers.values():
        count, locations = reader.skipped
        if count:
            yield f"{counted(count, 'unit')} without a text in both languages skipped, the first is {locations[0]}"


def _distributions(judgement: Judgement, profile: CorpusProfile) -> list[Distribution]:
    ratios = judgement.ratios.astype(np.float32) + np.log(profile.usual_ratio)
    found = [_distribution("length ratio, target to source", ratios, judgement.kept, (-1.6, 1.6), exponential=True)]
    if judgement.log_odds.shape[1]:
        odds = judgement.log_odds[1].astype(np.float32)
        found.append(_distribution("alignment, log-odds of a translation", odds, judgement.kept, (-8, 8)))
    known = np.isfinite(judgement.cross_entropy)
    if known.any():
        scores = judgement.cross_entropy[known]
        limits = (0.0, float(np.quantile(scores, 0.999)) * 1.05 + 1e-6)
        found.append(_distribution("dual conditional cross-entropy", scores, judgement.kept[known], limits))
    return found


def _distribution(
    name: str,
    values: NDArray[np.float32],
    kept: NDArray[np.bool_],
    limits: tuple[float, float],
    *,
    exponential: bool = False,
) -> Distribution:
    """Returns the histogram of values in 48 bins; those beyond the limits are counted in the first or the last."""
    edges = np.linspace(*limits, 49)
    inside = np.clip(values.astype(np.float64), *limits)  # as float32 the limits may lie outside of the bins
    before, after = (np.histogram(each, edges)[0] for each in (inside, inside[kept]))
    shown = np.exp(edges) if exponential else edges
    return Distribution(name, [round(float(edge), 4) for edge in shown], before.tolist(), after.tolist())
