"""The engine "auto" on a CPU: the fast engine for all that it supports, and the reference for the rest.

Which of the two runs a call depends only on the options and constraints of that call (`engines.capabilities`), not on
the machine or the amount of work.
"""

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from transduce.config import DecodeConfig, ModelConfig
from transduce.decoding.scores import Hypothesis
from transduce.engines.capabilities import FAST
from transduce.engines.ctranslate2_limits import max_positions
from transduce.engines.interface import AttendingEngine, AttentionWeights, Engine, TokenConstraints

if TYPE_CHECKING:
    import numpy as np


class AutomaticEngine:
    """Two engines of one model; the second is loaded by the first call that needs it."""

    def __init__(self, fast: Engine, load_reference: Callable[[], AttendingEngine], config: ModelConfig) -> None:
        """Takes the fast engine, the function that loads the reference, and the configuration of the model."""
        self.fast, self._load_reference, self.config = fast, load_reference, config
        self.name, self.independent_lines = fast.name, fast.independent_lines  # whichever engine is used
        self.max_source_tokens, self.num_workers = fast.max_source_tokens, fast.num_workers
        self.batch_tokens = fast.batch_tokens
        self._reference: AttendingEngine | None = None
        self._loading = threading.Lock()

    @property
    def reference(self) -> AttendingEngine:
        """The engine that supports everything; loaded once, here."""
        with self._loading:
            if self._reference is None:
                self._reference = self._load_reference()
            return self._reference

    def undivided(self) -> "AutomaticEngine":
        """Returns an engine of the same model that does not divide calls; both load the reference once."""
        return AutomaticEngine(self.fast.undivided(), lambda: self.reference, self.config)

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        options: DecodeConfig,
        n_best: int = 1,
        constraints: Sequence[TokenConstraints] | None = None,
    ) -> list[list[Hypothesis]]:
        """Returns each source's hypotheses, best first; see `Engine.translate`."""
        engine = self.reference if self.needs_reference(options, constraints or ()) else self.fast
        return engine.translate(sources, options, n_best, constraints)

    def needs_reference(self, options: DecodeConfig, constraints: Sequence[TokenConstraints] = ()) -> bool:
        """Returns whether the fast engine does not support a search."""
        return FAST.lack(options, constraints, self.config) is not None

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Returns the log-probability of each target token; see `Engine.score`."""
        return self._reaching(targets).score(sources, targets)

    def align(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> "list[np.ndarray]":
        """Returns how much each target token comes from each source token; see `Engine.align`."""
        return self._reaching(targets).align(sources, targets)

    def next_scores(self, source: Sequence[int], prefix: Sequence[int]) -> "np.ndarray":
        """Returns the log-probability of each token after each beginning of a prefix; see `Engine.next_scores`."""
        return self._reaching([prefix]).next_scores(source, prefix)

    def attend(self, source: Sequence[int], target: Sequence[int]) -> AttentionWeights:
        """Returns the attention weights for one pair; see `AttendingEngine.attend`."""
        return self.reference.attend(source, target)

    def _reaching(self, targets: Sequence[Sequence[int]]) -> Engine:
        """Returns the fast engine, unless its positions end before a target does."""
        longest = max((len(target) + 1 for target in targets), default=0)
        return self.fast if longest <= max_positions(self.config) else self.reference
