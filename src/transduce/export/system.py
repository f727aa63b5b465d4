"""What systems are compared by: the log-probabilities of given translations, and what each would write instead."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True, slots=True)
class Forced:
    """One target, EOS included, as a system sees it when the tokens before each are given."""

    log_probabilities: list[float]
    choices: list[int]  # the most probable token at each position, over the whole vocabulary


class System(Protocol):
    """Something that runs a model: ours, or that of a library."""

    @property
    def name(self) -> str:
        """What runs, for the certificate."""
        ...

    @property
    def num_positions(self) -> int | None:
        """How many positions a source with its EOS, or a target, may fill; None: as many as our engines ever use."""
        ...

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns our token ids of each line, without EOS, as this system's tokeniser gives them."""
        ...

    def force(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Forced]:
        """Returns what the model makes of each pair; ids without EOS, which is added to both."""
        ...

    def translate(self, lines: Sequence[str]) -> list[str] | None:
        """Returns each line's translation by the system's own search; None where it has none."""
        ...


def forced(logits_TV: np.ndarray, target: Sequence[int]) -> Forced:
    """Returns what logits say of one target: rows of `logits_TV` beyond it, which are padding, are not looked at."""
    logits = np.asarray(logits_TV[: len(target)], np.float64)
    greatest = logits.max(axis=1, keepdims=True)
    normaliser = np.log(np.exp(logits - greatest).sum(axis=1)) + greatest[:, 0]
    chosen = logits[np.arange(len(target)), list(target)] - normaliser
    return Forced(chosen.tolist(), logits.argmax(axis=1).tolist())


def in_batches(num_rows: int, size: int) -> list[range]:
    """Cuts rows 0 … num_rows - 1 into batches."""
    return [range(start, min(start + size, num_rows)) for start in range(0, num_rows, size)]
