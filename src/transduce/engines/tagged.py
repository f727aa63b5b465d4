"""An engine whose sources, and perhaps targets, begin with tags: callers see sources, outputs and weights without them.

The tags of targets are what the decoder reads first (`TokenConstraints.start`): no output holds them, and no score
counts them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from transduce.config import DecodeConfig
from transduce.decoding.scores import Hypothesis
from transduce.engines.interface import AttendingEngine, AttentionWeights, Engine, TokenConstraints

if TYPE_CHECKING:
    import numpy as np

Ids = Sequence[int]


class TaggedEngine:
    """Puts tags in front of sources that have tokens, and of targets; of an alignment, their share is left out."""

    def __init__(self, engine: Engine, tags: Ids, target_tags: Ids = ()) -> None:
        """Takes the engine, and the ids of the tags of sources and of targets."""
        self.untagged, self.tags, self.target_tags = engine, tuple(tags), tuple(target_tags)
        self.name, self.independent_lines = engine.name, engine.independent_lines
        self.max_source_tokens = engine.max_source_tokens - len(self.tags)
        self.num_workers, self.batch_tokens = engine.num_workers, engine.batch_tokens

    def undivided(self) -> "TaggedEngine":
        """Returns an engine of the same model that does not divide calls."""
        return type(self)(self.untagged.undivided(), self.tags, self.target_tags)

    def translate(
        self,
        sources: Sequence[Ids],
        options: DecodeConfig,
        n_best: int = 1,
        constraints: Sequence[TokenConstraints] | None = None,
    ) -> list[list[Hypothesis]]:
        """Returns each source's hypotheses, best first; see `Engine.translate`."""
        if self.target_tags:
            given = constraints or [TokenConstraints()] * len(sources)
            constraints = [replace(each, start=self.target_tags) for each in given]
        return self.untagged.translate(self._tagged(sources), options, n_best, constraints)

    def score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        """Returns the log-probability of each target token; see `Engine.score`."""
        found = self.untagged.score(self._tagged(sources), self._begun(targets))
        return [scores[len(self.target_tags) :] for scores in found]

    def align(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> "list[np.ndarray]":
        """Returns how much each target token comes from each source token; see `Engine.align`."""
        aligned = self.untagged.align(self._tagged(sources), self._begun(targets))
        first = len(self.target_tags)
        return [
            weights[first:, len(self.tags) :] if source else weights[first:]
            for source, weights in zip(sources, aligned, strict=True)
        ]

    def next_scores(self, source: Ids, prefix: Ids) -> "np.ndarray":
        """Returns the log-probability of each token after each beginning of a prefix; see `Engine.next_scores`."""
        [tagged], [begun] = self._tagged([source]), self._begun([prefix])
        return self.untagged.next_scores(tagged, begun)[len(self.target_tags) :]

    def _tagged(self, sources: Sequence[Ids]) -> list[list[int]]:
        limit = self.max_source_tokens
        return [[*self.tags, *source[:limit]] if source else [] for source in sources]

    def _begun(self, targets: Sequence[Ids]) -> Sequence[Ids]:
        return [[*self.target_tags, *target] for target in targets] if self.target_tags else targets


class TaggedAttendingEngine(TaggedEngine):
    """The same for an engine that returns attention weights: here, tags are positions of source and target."""

    untagged: AttendingEngine

    def attend(self, source: Ids, target: Ids) -> AttentionWeights:
        """Returns the attention weights for one pair; see `AttendingEngine.attend`."""
        [tagged], [begun] = self._tagged([source]), self._begun([target])
        return self.untagged.attend(tagged, begun)


def with_tags(engine: Engine, tags: Ids, target_tags: Ids = ()) -> Engine:
    """Returns an engine that puts tags in front of sources and targets; the engine itself where there are none."""
    if not tags and not target_tags:
        return engine
    kind = TaggedAttendingEngine if isinstance(engine, AttendingEngine) else TaggedEngine
    return kind(engine, tags, target_tags)


def tags_of(engine: Engine) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the tags that an engine puts in front of each source, and of each target."""
    return (engine.tags, engine.target_tags) if isinstance(engine, TaggedEngine) else ((), ())
