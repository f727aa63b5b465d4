"""What every engine can do; needs no torch."""

from collections.abc import Sequence
from typing import Protocol

from transduce.config import DecodeConfig
from transduce.decoding.scores import Hypothesis

ENGINES = ("auto", "torch")  # "auto": the best that is installed


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
        self, sources: Sequence[Sequence[int]], options: DecodeConfig, n_best: int = 1
    ) -> list[list[Hypothesis]]:
        """Returns each source's hypotheses, best first: at least one, at most `n_best`.

        Sources are ids without EOS. A result depends on its source alone, never on the others. A source
        without tokens gives one empty hypothesis.
        """
        ...
