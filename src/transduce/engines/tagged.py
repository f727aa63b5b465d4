"""An engine whose sources begin with tags: callers see sources and alignments without them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from transduce.config import DecodeConfig
from transduce.decoding.scores import Hypothesis
from transduce.engines.interface import AttendingEngine, AttentionWeights, Engine, TokenConstraints

if TYPE_CHECKING:
    import numpy as np

Ids = Sequence[int]


class TaggedEngine:
    """Puts tags in front of each source that has tokens; of an alignment, the tags' share is left out."""

    def __init__(self, engine: Engine, tags: Ids) -> None:
        """Takes the engine, and the ids of the tags."""
        self.untagged, self.tags = engine, tuple(tags)
        self.name, self.independent_lines = engine.name, engine.independent_lines
        self.max_source_tokens = engine.max_source_tokens - len(self.tags)
        self.num_workers, self.batch_tokens = engine.num_workers, engine.batch_tokens

    def undivided(self) -> "TaggedEngine":
        """Returns an engine of the same model that does not divide calls."""
        return type(self)(self.untagged.undivided(), self.tags)

    def translate(
        self,
        sources: Sequence[Ids],
        options: DecodeConfig,
        n_best: int = 1,
        constraints: Sequence[TokenConstraints] | None = None,
    ) -> list[list[Hypothesis]]:
        """Returns each source's hypotheses, best first; see `Engine.translate`."""
        return self.untagged.translate(self._tagged(sources), options, n_best, constraints)

    def score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        """Returns the log-probability of each target token; see `Engine.score`."""
        return self.untagged.score(self._tagged(sources), targets)

    def align(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> "list[np.ndarray]":
        """Returns how much each target token comes from each source token; see `Engine.align`."""
        aligned = self.untagged.align(self._tagged(sources), targets)
        return [
            weights[:, len(self.tags) :] if source else weights
            for source, weights in zip(sources, aligned, strict=True)
        ]

    def next_scores(self, source: Ids, prefix: Ids) -> "np.ndarray":
        """Returns the log-probability of each token after each beginning of a prefix; see `Engine.next_scores`."""
        [tagged] = self._tagged([source])
        return self.untagged.next_scores(tagged, prefix)

    def _tagged(self, sources: Sequence[Ids]) -> list[list[int]]:
        limit = self.max_source_tokens
        return [[*self.tags, *source[:limit]] if source else [] for source in sources]


class TaggedAttendingEngine(TaggedEngine):
    """The same for an engine that returns attention weights: here, tags are positions of the source."""

    untagged: AttendingEngine

    def attend(self, source: Ids, target: Ids) -> AttentionWeights:
        """Returns the attention weights for one pair; see `AttendingEngine.attend`."""
        [tagged] = self._tagged([source])
        return self.untagged.attend(tagged, target)


def with_tags(engine: Engine, tags: Ids) -> Engine:
    """Returns an engine that puts `tags` in front of each source; the engine itself where there are none."""
    if not tags:
        return engine
    return (TaggedAttendingEngine if isinstance(engine, AttendingEngine) else TaggedEngine)(engine, tags)


def tags_of(engine: Engine) -> tuple[int, ...]:
    """Returns the tags that an engine puts in front of each source."""
    return engine.tags if isinstance(engine, TaggedEngine) else ()
