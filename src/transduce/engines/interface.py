"""What every engine can do; needs no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from transduce.config import DecodeConfig
from transduce.config.ranges import Range, require_within
from transduce.decoding.scores import Hypothesis

if TYPE_CHECKING:
    import numpy as np  # at run time it would slow down `transduce --help`

ENGINES = ("auto", "torch", "ctranslate2")
# Longest source that is read, in tokens. Attention over more would be far outside of what any model has seen.
MAX_SOURCE_TOKENS = 1024
# What the ctranslate2 engine can store a model's numbers as, and those of them that the torch engine computes with too.
QUANTIZATIONS = (
    "float32",
    "bfloat16",
    "float16",
    "int8",
    "int8_float32",
    "int8_bfloat16",
    "int8_float16",
    "int16",
)
TORCH_QUANTIZATIONS = ("float32", "bfloat16", "int8")
# More are never of use, and some systems do not survive the attempt.
THREADS = Range(1, 1024)
SHORTLIST_CHOICES = ("on", "off", "auto")  # see `engines.loading.choose_shortlist`


@dataclass(frozen=True, slots=True)
class TokenConstraints:
    """What is asked of one source's outputs, in token ids."""

    prefix: tuple[int, ...] = ()  # what each output begins with
    # At place p of the prefix one of `completions[p]` may stand for all that is left of it: " Hund" for " H", "u". A
    # tokenizer spells a text that goes on otherwise than one that ends. Engines may do without: the prefix is enough.
    completions: tuple[tuple[int, ...], ...] = ()
    required: tuple[tuple[tuple[int, ...], ...], ...] = ()  # each a choice of phrases, one of which must occur
    # After one of these tokens such a phrase does not count: they make another word of its last, "dogs" of "dog".
    joining: tuple[int, ...] = ()
    forbidden: tuple[tuple[int, ...], ...] = ()  # phrases that no output may hold


def require_threads(threads: int | None) -> None:
    """Raises ConfigError where there cannot be as many CPU threads; None is an engine's default."""
    if threads is not None:
        require_within(threads, "threads", int, THREADS)


class Engine(Protocol):
    """Turns source token ids into hypotheses."""

    @property
    def name(self) -> str:
        """The engine and the device that it works on, for messages."""
        ...

    @property
    def max_source_tokens(self) -> int:
        """Tokens of a source beyond this many are not read."""
        ...

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        options: DecodeConfig,
        n_best: int = 1,
        constraints: Sequence[TokenConstraints] | None = None,
    ) -> list[list[Hypothesis]]:
        """Returns each source's hypotheses, best first: at least one, at most `n_best`; what is drawn comes as drawn.

        Sources are ids without EOS. A result depends on its source, and on its entry in `constraints` where some are
        given, never on the others. A source without tokens gives one empty hypothesis, whatever the constraints.

        Raises:
            ConfigError: an option or condition is not one that this engine can honour.
        """
        ...

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Returns for each pair the log-probability of each target token, and last that of EOS, given those before.

        Neither side has EOS, which is added. The sum of a list is what a search calls the log-probability of a
        finished hypothesis, whatever batch either was in.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class AttentionWeights:
    """What each position of one pair attends to, in every layer and head; each row of weights sums to 1.

    S source and T target positions, the last of each being EOS. Row t of `decoder` and `cross` is what is looked at to
    predict target token t; column t of `decoder` is the decoder's input there, the token before.
    """

    encoder: "np.ndarray"  # (layers, heads, S, S), float32
    decoder: "np.ndarray"  # (layers, heads, T, T), float32, causal
    cross: "np.ndarray"  # (layers, heads, T, S), float32


@runtime_checkable
class AttendingEngine(Engine, Protocol):
    """An engine that can tell what its model attends to."""

    def attend(self, source: Sequence[int], target: Sequence[int]) -> AttentionWeights:
        """Returns the attention weights for one pair, both sides without EOS, which is added to them."""
        ...
