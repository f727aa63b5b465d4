"""What a search needs of a model: a step function and the state that it carries.

The rows of a state are B sentences × K beams, sentence by sentence: row b · K + k is beam k of sentence b.
A state is a value: each method returns the next state, and the old one must not be used again.
"""

from collections.abc import Callable
from typing import Protocol, Self, TypeVar

from torch import Tensor


class State(Protocol):
    """What a decoder keeps of the tokens so far."""

    def expand(self, num_beams: int) -> Self:
        """Goes from one row to `num_beams` equal rows a sentence."""

    def reorder(self, rows_R: Tensor) -> Self:
        """Makes row r the continuation of the old row `rows_R[r]`, which belongs to the same sentence."""

    def keep(self, sentences_B: Tensor) -> Self:
        """Keeps all rows of the given sentences, in the given order, and drops the others."""


S = TypeVar("S", bound=State)

# (the last token of each row, state) → (logits_RV, state). The logits are float32; the search may overwrite them.
Step = Callable[[Tensor, S], tuple[Tensor, S]]
