"""What every engine can do; needs no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from transduce.config import DecodeConfig
from transduce.config.ranges import Range, require_within
from transduce.decoding.constraints import TokenConstraints as TokenConstraints  # callers of engines import it here
from transduce.decoding.scores import Hypothesis
from transduce.errors import ConfigError, suggestion

if TYPE_CHECKING:
    import numpy as np  # at run time it would slow down `transduce --help`

# Longest source that is read, in tokens. Longer ones are far outside of any model's training data.
MAX_SOURCE_TOKENS = 1024
# More CPU threads are never of use, and some systems do not survive the attempt.
THREADS = Range(1, 1024)
SHORTLIST_CHOICES = ("on", "off", "auto")  # see `engines.loading.uses_shortlist`


def require_threads(threads: int | None) -> None:
    """Raises ConfigError where there cannot be as many CPU threads; None is an engine's default."""
    if threads is not None:
        require_within(threads, "threads", int, THREADS)


def require_known(kind: str, name: str, known: Sequence[str]) -> None:
    """Raises ConfigError, which suggests the nearest name, where there is no engine or the like of this name."""
    if name not in known:
        raise ConfigError(f"There is no {kind} '{name}'.{suggestion(name, known)} Use one of: {', '.join(known)}.")


class Engine(Protocol):
    """Turns source token ids into hypotheses."""

    name: str  # the engine and the device that it works on, for messages
    independent_lines: bool  # whether a translation depends on its own line only, never on its neighbours
    max_source_tokens: int  # tokens of a source beyond this many are not read
    num_workers: int  # calls from several threads that it computes concurrently
    batch_tokens: int  # source tokens of a batch beyond which a sentence costs no less

    def undivided(self) -> "Engine":
        """Returns an engine of the same model for several threads that call at once: safe for concurrent callers."""

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        options: DecodeConfig,
        n_best: int = 1,
        constraints: Sequence[TokenConstraints] | None = None,
    ) -> list[list[Hypothesis]]:
        """Returns each source's hypotheses, best first: at least one, at most `n_best`; draws come in their own order.

        Sources are ids without EOS. A result depends on its source, and on its entry in `constraints` where some are
        given, never on the others. A source without tokens gives one empty hypothesis, under any constraints.

        Raises:
            ConfigError: this engine does not support an option or constraint.
        """

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Returns for each pair the log-probability of each target token, and last that of EOS, given those before.

        Neither side has EOS, which is added. The sum of a list is what a search calls the log-probability of a
        finished hypothesis, in any batch.
        """

    def align(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> "list[np.ndarray]":
        """Returns for each pair how much each target token comes from each source token, (T, S).

        This is the mean attention of heads that align well. Neither side has EOS; its share is omitted, so rows sum to
        at most 1. A source of more than `max_source_tokens` is truncated there: the rest has no weight.
        """

    def next_scores(self, source: Sequence[int], prefix: Sequence[int]) -> "np.ndarray":
        """Returns the log-probability of each token after each beginning of `prefix`, (T + 1, V).

        Row t is for the token after the first t. Neither side has EOS; the source has at least one token.
        """


@dataclass(frozen=True, slots=True, eq=False)
class AttentionWeights:
    """What each position of one pair attends to, in every layer and head; each row of weights sums to 1.

    S source and T target positions, the last of each being EOS. Row t of `decoder` and `cross` holds the weights that
    predict target token t; column t of `decoder` is the decoder's input there, the token before.
    """

    encoder: "np.ndarray"  # (layers, heads, S, S), float32
    decoder: "np.ndarray"  # (layers, heads, T, T), float32, causal
    cross: "np.ndarray"  # (layers, heads, T, S), float32


@runtime_checkable
class AttendingEngine(Engine, Protocol):
    """An engine that returns attention weights."""

    def attend(self, source: Sequence[int], target: Sequence[int]) -> AttentionWeights:
        """Returns the attention weights for one pair, both sides without EOS, which is added to them."""
