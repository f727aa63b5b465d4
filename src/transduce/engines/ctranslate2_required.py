"""Required phrases in CTranslate2, which can force only the beginning of an output.

An output that lacks a phrase is cut before one of its words. The part before the cut is forced, followed by the
phrase, and the search continues from there. The best output is cut again for the next phrase, until all are there.
Each search may find an output with more phrases anywhere in its beam, so all of its outputs count.

The search continues those few cuts where the model finds the phrase's first token the most probable.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Protocol

from transduce.config import DecodeConfig
from transduce.config.special_ids import EOS
from transduce.decoding.scores import Hypothesis
from transduce.engines.interface import Engine, TokenConstraints

if TYPE_CHECKING:
    import numpy as np

_BEST_CUTS = 3  # of a line and round, that the search continues

Ids = tuple[int, ...]


@dataclass(eq=False)
class _Line:
    """A source, and the outputs that were found for it."""

    source: Sequence[int]
    constraints: TokenConstraints
    limit: int
    ngram: int  # sequences of so many tokens may not be repeated; 0: they may
    found: dict[Ids, Hypothesis] = field(default_factory=dict)
    best: Hypothesis | None = None

    def __post_init__(self) -> None:
        self._joining, self._forbidden = {*self.constraints.joining}, {*self.constraints.forbidden}
        self._lengths = {len(phrase) for phrase in self._forbidden}

    def add(self, hypotheses: Sequence[Hypothesis]) -> bool:
        """Adds outputs; returns whether one of them holds more phrases than the best so far."""
        before = self.num_met
        self.found |= {tuple(each.ids): each for each in hypotheses}
        self.best = max(self.found.values(), key=self.rank)
        return self.num_met > before

    def rank(self, each: Hypothesis) -> tuple[int, bool, float]:
        """What outputs are ranked by."""
        return len(self.constraints.required) - len(self.constraints.unmet(each.ids)), each.finished, each.score

    @property
    def num_met(self) -> int:
        """The phrases that the best output holds."""
        return -1 if self.best is None else self.rank(self.best)[0]

    def outputs(self) -> list[Hypothesis]:
        """Returns the outputs that hold as many phrases as the best one, best first."""
        met = self.num_met
        return sorted((each for each in self.found.values() if self.rank(each)[0] == met), key=self.rank, reverse=True)

    @property
    def base(self) -> Ids:
        """What is cut: the best output, or the prefix where none was found."""
        ids, prefix = tuple(self.best.ids if self.best is not None else ()), self.constraints.prefix
        return ids if len(ids) >= len(prefix) else prefix

    def missing(self) -> list[Ids]:
        """Returns the phrases of the entries that the best output does not meet."""
        return [phrase for entry in self.constraints.unmet(self.base) for phrase in entry]

    def cuts(self, phrases: Sequence[Ids], scores_TP: "np.ndarray") -> list["_Cut"]:
        """Returns the best cuts: a phrase put before any word, or at the end.

        `scores_TP` has the log-probability of the first token of each phrase, at each index where a cut is possible.
        """
        numbers = range(len(phrases))
        order = sorted((-scores_TP[index, i], index, i) for index in self._cut_indices() for i in numbers)
        cuts = (self._cut(index, phrases[i]) for _, index, i in order)
        return list(islice((cut for cut in cuts if cut is not None), _BEST_CUTS))

    def cuts_for_all(self) -> list["_Cut"]:
        """Returns the latest cuts after which all missing phrases fit, one after the other."""
        unmet = ((index, self.constraints.unmet(self.base[:index])) for index in reversed(self._cut_indices()))
        cuts = (self._cut(index, tuple(chain(*(min(entry, key=len) for entry in entries)))) for index, entries in unmet)
        return list(islice((cut for cut in cuts if cut is not None), _BEST_CUTS))

    def _cut(self, index: int, phrase: Ids) -> "_Cut | None":
        """Returns the cut at an index, followed by a phrase, if that is allowed."""
        beginning = (*self.base[:index], *phrase)
        return _Cut(self, beginning) if len(beginning) <= self.limit and self.allows(beginning, index) else None

    def allows(self, ids: Ids, start: int) -> bool:
        """Returns whether the tokens from `start` on complete neither a forbidden phrase nor a repeated n-gram."""
        for end in range(start + 1, len(ids) + 1):
            if any(end >= length and ids[end - length : end] in self._forbidden for length in self._lengths):
                return False
            first = end - self.ngram
            if self.ngram and any(ids[i : i + self.ngram] == ids[first:end] for i in range(first)):
                return False
        return True

    def _cut_indices(self) -> list[int]:
        """Returns where the best output may be cut: after the prefix, before any word, and at the end."""
        base, first = self.base, len(self.constraints.prefix)
        words = (index for index in range(first, len(base)) if base[index] not in self._joining)
        return list(dict.fromkeys([first, *words, len(base)]))

    def free(self, prefix: Ids | None = None) -> TokenConstraints:
        """Returns the constraints without required phrases, and with another prefix."""
        prefix = self.constraints.prefix if prefix is None else prefix
        return TokenConstraints(start=self.constraints.start, prefix=prefix, forbidden=self.constraints.forbidden)

    def forced(self, ids: Ids) -> Ids:
        """Returns what the decoder reads before it continues from `ids`: these, after the start."""
        return (*self.constraints.start, *ids)


@dataclass(frozen=True)
class _Cut:
    """The beginning of an output up to a required phrase."""

    line: _Line
    beginning: Ids  # with the phrase


class ScoringEngine(Engine, Protocol):
    """What the search needs of `CTranslate2Engine`."""

    never: Sequence[int]  # the ids that no output holds

    def scores_of(
        self, sources: Sequence[Sequence[int]], prefixes: Sequence[Ids], tokens: Sequence[Sequence[int]]
    ) -> "list[np.ndarray]":
        """Returns the log-probabilities of some tokens of each pair, after each beginning of its prefix."""


def search_required(
    engine: ScoringEngine,
    sources: Sequence[Sequence[int]],
    options: DecodeConfig,
    n_best: int,
    constraints: Sequence[TokenConstraints],
    limits: Sequence[int],
) -> list[list[Hypothesis]]:
    """Returns for each source at most `n_best` outputs with its required phrases, best first.

    If no output with all of them was found, those that hold most of them are returned.

    Args:
        engine: searches and scores.
        sources: token ids, no more than the model reads.
        options: of the search.
        n_best: outputs of each source.
        constraints: of each source.
        limits: the greatest number of tokens of each source's outputs: a phrase may not exceed it.
    """
    given = zip(sources, constraints, limits, strict=True)
    lines = [_Line(*each, ngram=options.no_repeat_ngram) for each in given]
    first = engine.translate(sources, options, options.beam_size, [line.free() for line in lines])
    for line, hypotheses in zip(lines, first, strict=True):
        line.add(hypotheses)
    waiting = [line for line in lines if line.source]
    while waiting := [line for line in waiting if line.num_met < len(line.constraints.required)]:
        better = _continued(engine, _best_cuts(engine, waiting), options)
        stuck = [line for line in waiting if line not in better]
        closed = [cut for line in stuck for cut in _closed(engine, line.cuts_for_all())]
        waiting = better + _continued(engine, closed, options)
    return [line.outputs()[:n_best] for line in lines]


def _best_cuts(engine: ScoringEngine, lines: Sequence[_Line]) -> list[_Cut]:
    """Returns the best cuts of each line."""
    phrases = [line.missing() for line in lines]
    tokens = [[phrase[0] for phrase in of_line] for of_line in phrases]
    scores = engine.scores_of([line.source for line in lines], [line.forced(line.base) for line in lines], tokens)
    cuts = (
        line.cuts(given, found[len(line.constraints.start) :])
        for line, given, found in zip(lines, phrases, scores, strict=True)
    )
    return list(chain(*cuts))


def _continued(engine: ScoringEngine, cuts: Sequence[_Cut], options: DecodeConfig) -> list[_Line]:
    """Searches on from cuts; returns the lines that now have an output with more phrases."""
    given = [cut.line.free(cut.beginning) for cut in cuts]
    found = engine.translate([cut.line.source for cut in cuts], options, options.beam_size, given)
    outputs: dict[_Line, list[Hypothesis]] = {}
    for cut, hypotheses in zip(cuts, found, strict=True):
        outputs.setdefault(cut.line, []).extend(each for each in hypotheses if each.score > -math.inf)
    return [line for line, hypotheses in outputs.items() if line.add(hypotheses)]


def _closed(engine: ScoringEngine, cuts: Sequence[_Cut]) -> Iterator[_Cut]:
    """Yields cuts, each followed by the best token that does not join the phrase, if one fits."""
    for cut in cuts:
        line, length = cut.line, len(cut.beginning)
        if length == line.limit:
            yield cut
            continue
        scores_V = engine.next_scores(line.source, line.forced(cut.beginning))[-1].copy()
        scores_V[[*line.constraints.joining, *engine.never, EOS]] = -math.inf
        for token in (-scores_V).argsort(kind="stable").tolist():
            longer = (*cut.beginning, token)
            if scores_V[token] > -math.inf and line.allows(longer, length):
                yield replace(cut, beginning=longer)
                break
