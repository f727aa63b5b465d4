"""Required phrases in CTranslate2, which can force nothing but the beginning of an output.

An output that lacks a phrase is cut before one of its words. What stands before the cut is forced with the phrase
behind it, and the search goes on from there. The best output is cut again for the next phrase, until all are there.

The cuts are ranked by the scores of the output with the phrase put in there, once as a new word, once in place of the
next word. The search continues the best few.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from transduce.config import DecodeConfig
from transduce.config.special_ids import EOS
from transduce.decoding.scores import NEVER_GENERATED, Hypothesis, gnmt_penalty
from transduce.engines.interface import TokenConstraints

if TYPE_CHECKING:
    import numpy as np

_BEST_CUTS = 4  # of a line and round, that the search continues

Ids = tuple[int, ...]


@dataclass(eq=False)
class _Line:
    """A source, and the outputs that were found for it."""

    source: Sequence[int]
    constraints: TokenConstraints
    limit: int
    found: dict[Ids, Hypothesis] = field(default_factory=dict)
    best: Hypothesis | None = None

    def add(self, hypotheses: Sequence[Hypothesis]) -> bool:
        """Adds outputs; returns whether one of them holds more phrases than the best so far."""
        before = self.num_met
        self.found |= {tuple(each.ids): each for each in hypotheses}
        self.best = max(self.found.values(), key=self.rank)
        return self.num_met > before

    def rank(self, each: Hypothesis) -> tuple[int, bool, float]:
        """What outputs are ranked by."""
        return len(self.constraints.required) - len(self._unmet(each.ids)), each.finished, each.score

    @property
    def num_met(self) -> int:
        """The phrases that the best output holds."""
        return -1 if self.best is None else self.rank(self.best)[0]

    def outputs(self) -> list[Hypothesis]:
        """Returns the outputs that hold as many phrases as the best one, best first."""
        return sorted((each for each in self.found.values() if self.rank(each)[0] == self.num_met), key=self.rank)[::-1]

    def cuts(self) -> list["_Cut"]:
        """Returns where a missing phrase may be put into the best output: before any word, and at the end."""
        ids, places = self._places()
        missing = [phrase for entry in self._unmet(ids) for phrase in entry]
        return [
            _Cut(self, (*ids[:place], *phrase), (ids[place:], ids[after:]))
            for place, after in zip(places, [*places[1:], len(ids)], strict=True)
            for phrase in missing
            if place + len(phrase) <= self.limit
        ]

    def cuts_for_all(self) -> list["_Cut"]:
        """Returns the latest cuts behind which all missing phrases have room, one behind the other."""
        ids, places = self._places()
        found = []
        for place in reversed(places):
            missing = (min(entry, key=len) for entry in self._unmet(ids[:place]))
            beginning = (*ids[:place], *chain.from_iterable(missing))
            if len(beginning) <= self.limit:
                found.append(_Cut(self, beginning, ()))
        return found[:_BEST_CUTS]

    def _places(self) -> tuple[Ids, list[int]]:
        """Returns the best output, and where it may be cut: behind the prefix, before any word, and at the end."""
        ids, joining = tuple(self.best.ids if self.best is not None else ()), {*self.constraints.joining}
        first = min(len(self.constraints.prefix), len(ids))
        words = (place for place in range(first, len(ids)) if ids[place] not in joining)
        return ids, list(dict.fromkeys([first, *words, len(ids)]))

    def free(self, prefix: Ids | None = None) -> TokenConstraints:
        """Returns the constraints without required phrases, and with another prefix."""
        prefix = self.constraints.prefix if prefix is None else prefix
        return TokenConstraints(prefix=prefix, forbidden=self.constraints.forbidden)

    def _unmet(self, ids: Sequence[int]) -> list[tuple[Ids, ...]]:
        """Returns the entries of which an output holds no phrase."""
        given = tuple(ids)
        entries = self.constraints.required
        return [entry for entry in entries if not any(self._holds(given, phrase) for phrase in entry)]

    def _holds(self, ids: Ids, phrase: Ids) -> bool:
        ends = (i + len(phrase) for i in range(len(ids) - len(phrase) + 1) if ids[i : i + len(phrase)] == phrase)
        return any(end == len(ids) or ids[end] not in self.constraints.joining for end in ends)


@dataclass(frozen=True)
class _Cut:
    """The beginning of an output up to a required phrase."""

    line: _Line
    beginning: Ids  # with the phrase
    rests: tuple[Ids, ...]  # how the output that was cut goes on: with the next word, and without it


class Engine(Protocol):
    """What the search needs of `CTranslate2Engine`."""

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        options: DecodeConfig,
        n_best: int,
        constraints: Sequence[TokenConstraints],
    ) -> list[list[Hypothesis]]:
        """Returns each source's hypotheses; these constraints have no required phrases."""
        ...

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Returns the log-probabilities of given targets."""
        ...

    def next_scores(self, source: Sequence[int], prefix: Sequence[int]) -> "np.ndarray":
        """Returns the log-probabilities of the next tokens."""
        ...


def search_required(
    engine: Engine,
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
        sources: token ids.
        options: of the search.
        n_best: outputs of each source.
        constraints: of each source.
        limits: the greatest number of tokens of each source's outputs: a phrase may not exceed it.
    """
    lines = [_Line(*given) for given in zip(sources, constraints, limits, strict=True)]
    first = engine.translate(sources, options, n_best, [line.free() for line in lines])
    for line, hypotheses in zip(lines, first, strict=True):
        line.add(hypotheses)
    waiting = [line for line in lines if line.source]
    while waiting := [line for line in waiting if line.num_met < len(line.constraints.required)]:
        cuts = _best_cuts(engine, waiting, options)
        better = _continued(engine, cuts, options, n_best)
        stuck = [line for line in waiting if line not in better]
        closed = [_closed(engine, cut) for line in stuck for cut in line.cuts_for_all()]
        waiting = better + _continued(engine, closed, options, n_best)
    return [line.outputs()[:n_best] for line in lines]


def _best_cuts(engine: Engine, lines: Sequence[_Line], options: DecodeConfig) -> list[_Cut]:
    """Returns the best cuts of each line, by the scores of the outputs with the phrase put in."""
    cuts = [cut for line in lines for cut in line.cuts()]
    spliced = [(cut, (*cut.beginning, *rest)) for cut in cuts for rest in cut.rests]
    scores = engine.score([cut.line.source for cut, _ in spliced], [ids for _, ids in spliced])
    best: dict[int, float] = {}
    for (cut, _), values in zip(spliced, scores, strict=True):
        value = sum(values) / gnmt_penalty(len(values), options.length_penalty)
        best[id(cut)] = max(value, best.get(id(cut), -math.inf))
    kept = []
    for line in lines:
        kept += sorted((cut for cut in cuts if cut.line is line), key=lambda cut: -best[id(cut)])[:_BEST_CUTS]
    return kept


def _continued(engine: Engine, cuts: Sequence[_Cut], options: DecodeConfig, n_best: int) -> list[_Line]:
    """Searches on from cuts; returns the lines that now have an output with more phrases."""
    given = [cut.line.free(cut.beginning) for cut in cuts]
    found = engine.translate([cut.line.source for cut in cuts], options, n_best, given)
    outputs: dict[int, tuple[_Line, list[Hypothesis]]] = {}
    for cut, hypotheses in zip(cuts, found, strict=True):
        outputs.setdefault(id(cut.line), (cut.line, []))[1].extend(hypotheses)
    return [line for line, hypotheses in outputs.values() if line.add(hypotheses)]


def _closed(engine: Engine, cut: _Cut) -> _Cut:
    """Returns a cut with the best token behind it that does not join the phrase, if there is room."""
    if len(cut.beginning) == cut.line.limit:
        return cut
    scores_V = engine.next_scores(cut.line.source, cut.beginning)[-1].copy()
    scores_V[[*cut.line.constraints.joining, *NEVER_GENERATED, EOS]] = -math.inf
    return replace(cut, beginning=(*cut.beginning, int(scores_V.argmax())))
