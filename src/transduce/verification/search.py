"""Checks of any engine's search: results do not depend on the batch, n-best lists are sorted, scores are right."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random

from transduce.config import DecodeConfig
from transduce.config.special_ids import EOS
from transduce.decoding.scores import NEVER_GENERATED, Hypothesis, gnmt_penalty
from transduce.engines.interface import Engine
from transduce.reporting.tables import counted
from transduce.text import Tokenizer
from transduce.verification.differences import Differences
from transduce.verification.findings import Finding, Tie
from transduce.verification.settings import Settings

_NEVER = {*NEVER_GENERATED, EOS}
# A score is a float32 sum divided by a float64 penalty; this is the relative rounding error.
_SCORE_ROUNDING = 1e-6


@dataclass(frozen=True)
class Search:
    """An engine's search on the sentences, and how much its results may differ."""

    engine: Engine
    names: tuple[str, ...]
    sources: Sequence[Sequence[int]]
    options: DecodeConfig
    tokenizer: Tokenizer
    settings: Settings
    tolerance: float  # of a line's log-probability

    @cached_property
    def found(self) -> list[list[Hypothesis]]:
        """The n-best list of each sentence, as long as the beam is wide."""
        return self.run(self.options.beam_size)

    def run(self, n_best: int = 1, **changes: int) -> list[list[Hypothesis]]:
        """Translates the sentences, with changes to the options."""
        return self.engine.translate(self.sources, replace(self.options, **changes), n_best)

    def text(self, hypothesis: Hypothesis) -> str:
        """Returns a hypothesis as text."""
        return self.tokenizer.decode(hypothesis.ids)

    def forced_score(self, sources: Sequence[Sequence[int]], found: Sequence[Hypothesis]) -> list[tuple[float, float]]:
        """Returns log-probability and score of each hypothesis as a given translation of its source."""
        tokens = self.engine.score(sources, [hypothesis.ids for hypothesis in found])
        sums = [sum(each if h.finished else each[:-1]) for each, h in zip(tokens, found, strict=True)]
        return [
            (total, total / gnmt_penalty(len(h.ids) + h.finished, self.options.length_penalty))
            for total, h in zip(sums, found, strict=True)
        ]

    def same(self, index: int, first: Hypothesis, second: Hypothesis, how: str, seen: Differences) -> None:
        """Compares two outputs for one sentence. If they differ, it is a tie in score or else a fault."""
        name = f"{self.names[index]}, {how}"
        if first.ids == second.ids and first.finished == second.finished:
            seen.add(first.log_probability - second.log_probability, name)
            return
        seen.count += 1
        (_, one), (_, two) = self.forced_score([self.sources[index]] * 2, [first, second])
        difference, texts = abs(one - two), (self.text(first), self.text(second))
        if difference < self.settings.tie:
            seen.ties.append(Tie(name, *texts, difference))
        else:
            seen.faults.append(f"{name}: {texts[0]!r} becomes {texts[1]!r}; their scores differ by {difference:.3g}")


def batches(search: Search) -> Finding:
    """Translates the sentences at several batch sizes, and in another order."""
    seen, number, sizes = Differences(), len(search.sources), search.settings.batch_sizes
    expected = search.run(batch_size=sizes[-1])
    for size in sizes[:-1]:
        for index, ([one], [two]) in enumerate(zip(expected, search.run(batch_size=size), strict=True)):
            search.same(index, one, two, f"at batch size {sizes[-1]} and {size}", seen)
    order = list(range(number))
    Random(search.settings.seed).shuffle(order)
    for size in sizes[1:]:
        shuffled = replace(search, sources=[search.sources[index] for index in order]).run(batch_size=size)
        for index, [found] in zip(order, shuffled, strict=True):
            search.same(index, expected[index][0], found, f"in order and shuffled at batch size {size}", seen)
    compared = f"{counted(number, 'sentence')} at batch size {', '.join(map(str, sizes))}, and shuffled"
    different = {name.partition(", ")[0] for name in (*(tie.sentence for tie in seen.ties), *seen.faults)}
    return seen.finding(compared, search.tolerance, f"{number - len(different)} identical in every way")


def n_best(search: Search) -> Finding:
    """Checks n-best lists as long as the beam is wide, and compares them with shorter ones."""
    seen, beam_size = Differences(), search.options.beam_size
    for index, (name, hypotheses) in enumerate(zip(search.names, search.found, strict=True)):
        seen.count += len(hypotheses)
        seen.faults += [f"{name}: {fault}" for fault in _disorder(search, index, hypotheses)]
    shorter = sorted({1, max(1, beam_size // 2)} - {beam_size})
    for size in shorter:
        for index, (hypotheses, begin) in enumerate(zip(search.found, search.run(n_best=size), strict=True)):
            if len(begin) != min(size, len(hypotheses)):
                lengths = f"{len(begin)} of {size} are found, and {len(hypotheses)} of {beam_size}"
                seen.faults.append(f"{search.names[index]}: {lengths}")
            for rank, (one, two) in enumerate(zip(hypotheses, begin, strict=False), start=1):
                search.same(index, one, two, f"rank {rank} of {beam_size} and of {size}", seen)
    compared = f"{len(search.found)} lists of {beam_size}: sorted, distinct, within limits, beginning as those of " + (
        " and ".join(map(str, shorter)) or "1"
    )
    return seen.finding(compared, search.tolerance)


def _disorder(search: Search, index: int, found: list[Hypothesis]) -> list[str]:
    """Returns what is wrong with one n-best list."""
    faults = []
    if not 1 <= len(found) <= search.options.beam_size:
        faults.append(
            f"{counted(len(found), 'hypothesis', 'hypotheses')}, where 1 to {search.options.beam_size} are expected"
        )
    for rank, (better, worse) in enumerate(itertools.pairwise(found), start=1):
        if not better.score >= worse.score:
            faults.append(f"rank {rank} scores {better.score:.6f}, rank {rank + 1} {worse.score:.6f}: not sorted")
    if len({(tuple(h.ids), h.finished) for h in found}) < len(found):
        faults.append("the list holds the same hypothesis twice")
    limit = len(search.sources[index]) + search.options.max_extra_tokens
    for hypothesis in found:
        if len(hypothesis.ids) > limit:
            faults.append(f"{counted(len(hypothesis.ids), 'token')}, where {limit} are allowed")
        if (_NEVER | {*search.tokenizer.tags.values()}) & set(hypothesis.ids):
            faults.append("an output holds a special token")
    return faults


def scores(search: Search) -> Finding:
    """Gives each hypothesis back to the model as a translation, and compares the search's score with its own."""
    seen = Differences()
    flat = [(index, rank, h) for index, hs in enumerate(search.found) for rank, h in enumerate(hs, start=1)]
    checked = search.forced_score([search.sources[index] for index, _, _ in flat], [h for _, _, h in flat])
    for (index, rank, hypothesis), (log_probability, score) in zip(flat, checked, strict=True):
        name = f"{search.names[index]}, rank {rank}"
        seen.add(hypothesis.log_probability - log_probability, name)
        penalty = gnmt_penalty(len(hypothesis.ids) + hypothesis.finished, search.options.length_penalty)
        expected = hypothesis.log_probability / penalty
        if not abs(hypothesis.score - expected) <= _SCORE_ROUNDING * max(1.0, abs(expected)):
            seen.faults.append(
                f"{name}: its score is {hypothesis.score:.6f}, but log-probability over length penalty {expected:.6f} "
                f"(forced: {score:.6f})"
            )
    return seen.finding(
        f"{counted(len(flat), 'hypothesis', 'hypotheses')}, log-probability of the line", search.tolerance
    )
