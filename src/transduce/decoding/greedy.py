"""Greedy search: the most probable token at each step."""

from torch import Tensor

from transduce.decoding.candidates import top
from transduce.decoding.rows import RowSearch
from transduce.decoding.step import S


class GreedySearch(RowSearch[S]):
    """Finds one hypothesis a sentence: the same as `BeamSearch` with a beam of 1, at less cost.

    Where bans leave nothing, an output is unfinished.
    """

    def pick(self, gains_RV: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the most probable token of each row, and its log-probability."""
        gains_R1, tokens_R1 = top(gains_RV, 1)
        return tokens_R1[:, 0], gains_R1[:, 0]
