"""How much `verify` checks, and how much results may differ."""

from dataclasses import dataclass
from typing import Any

from transduce.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much is checked, and how much may differ.

    In float32, results that are equal on paper differ by rounding: usually by 1e-5 in a log-probability, and by at most
    1e-4 in any model of ours. A fault (a missing mask, a wrong position) changes it by 0.01 to 10.
    """

    num_sentences: int = 40  # translated
    num_pairs: int = 12  # whose log-probabilities are compared
    num_changes: int = 6  # positions from which targets are changed, for the check of causality
    max_target_tokens: int = 40  # of those pairs
    batch_sizes: tuple[int, ...] = (1, 7, 64)
    log_probability: float = 1e-3  # greatest difference of the log-probability of a token, or of a line
    tie: float = 1e-4  # two outputs whose scores differ by less are equally good
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("num_sentences", "num_pairs", "num_changes", "max_target_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} = {getattr(self, name)}: must be 1 or greater.")
        for name in ("log_probability", "tie"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} = {getattr(self, name)}: must be greater than 0.")


QUICK: dict[str, Any] = {"num_sentences": 16, "num_pairs": 4, "num_changes": 3, "max_target_tokens": 24}
