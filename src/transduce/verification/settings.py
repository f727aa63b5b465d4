"""How much `verify` checks, how much results may differ, and in which direction the model translates."""

from dataclasses import dataclass
from typing import Any

from transduce.config.quantities import Count, Factor
from transduce.config.ranges import check_ranges


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much is checked, and how much may differ.

    In float32, results that are equal on paper differ by rounding: usually by 1e-5 in a log-probability, and by at most
    1e-4 in any model of ours. A fault (a missing mask, a wrong position) changes it by 0.01 to 10.
    """

    num_sentences: Count = 40  # translated
    num_pairs: Count = 12  # whose log-probabilities are compared
    num_changes: Count = 6  # positions from which targets are changed, for the check of causality
    max_target_tokens: Count = 40  # of those pairs
    batch_sizes: tuple[int, ...] = (1, 7, 64)
    log_probability: Factor = 1e-3  # greatest difference of the log-probability of a token, or of a line
    tie: Factor = 1e-4  # two outputs whose scores differ by less are equally good
    seed: int = 1
    source_language: str = ""  # its code, for a model that is given it; "": the model's default
    target_language: str = ""  # its code, for a model of several; "": the model's default
    domain: str = ""  # for a model that was trained on domains

    def __post_init__(self) -> None:
        check_ranges("settings", self)


QUICK: dict[str, Any] = {"num_sentences": 16, "num_pairs": 4, "num_changes": 3, "max_target_tokens": 24}
