"""Hypotheses and their scores; needs no torch."""

from dataclasses import dataclass

from transduce.config.special_ids import BOS, PAD, UNK

# Ids that no output may contain.
NEVER_GENERATED = (PAD, BOS, UNK)


def gnmt_penalty(length: float, alpha: float) -> float:
    """Returns GNMT's length penalty ((5 + length) / 6)^α, which divides a log-probability (Wu 2016, eq. 14).

    `length` counts EOS, as the paper's released code does. Other tools call length^α by the same name.
    """
    return float(((5.0 + length) / 6.0) ** alpha)


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One output of a search for one sentence."""

    ids: list[int]  # without EOS
    score: float  # log-probability over the length penalty, plus any bonus; n-best lists are sorted by it
    log_probability: float  # of the ids, and of EOS where finished
    finished: bool  # False: it reached the length limit before EOS


def hypothesis(ids: list[int], log_probability: float, finished: bool, alpha: float, bonus: float = 0.0) -> Hypothesis:
    """Returns the hypothesis with its score; an unfinished one has no EOS to count."""
    length = len(ids) + int(finished)
    return Hypothesis(ids, log_probability / gnmt_penalty(length, alpha) + bonus, log_probability, finished)
