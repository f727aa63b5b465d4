"""What every system to compare provides: the log-probabilities of given translations, and its own translations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Forced:
    """A system's predictions for one target, EOS included, given the tokens before each (teacher forcing)."""

    log_probabilities: list[float]
    choices: list[int]  # the most probable token at each position, over the whole vocabulary


class System(Protocol):
    """Runs a model: ours, or that of a library."""

    @property
    def name(self) -> str:
        """What runs, for the certificate."""
        ...

    @property
    def num_positions(self) -> int | None:
        """The greatest length of a source with its EOS, or of a target; None: as long as our engines allow."""
        ...

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns our token ids of each line, without EOS, as this system's tokeniser gives them."""
        ...

    def force(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Forced]:
        """Returns the model's predictions for each pair; ids are without EOS, which is added to both."""
        ...

    def translate(self, lines: Sequence[str]) -> list[str] | None:
        """Returns each line's translation by the system's own search; None where it has none."""
        ...


def forced(logits_TV: np.ndarray, target: Sequence[int]) -> Forced:
    """Returns the predictions for one target from its logits; rows of `logits_TV` beyond it are padding."""
    logits = np.asarray(logits_TV[: len(target)], np.float64)
    greatest = logits.max(axis=1, keepdims=True)
    normaliser = np.log(np.exp(logits - greatest).sum(axis=1)) + greatest[:, 0]
    chosen = logits[np.arange(len(target)), list(target)] - normaliser
    return Forced(chosen.tolist(), logits.argmax(axis=1).tolist())


def in_batches(items: Sequence[_T], size: int) -> list[Sequence[_T]]:
    """Divides items into batches of `size`; the last one may be smaller."""
    return [items[start : start + size] for start in range(0, len(items), size)]
