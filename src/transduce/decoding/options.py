"""The options of a beam search."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class BeamOptions:
    """The numbers of a beam search.

    Attributes:
        beam_size: open beams of a sentence, in all its groups.
        length_penalty: α of GNMT's length penalty, 0 or greater.
        n_best: hypotheses to return for a sentence.
        num_groups: above 1 for diverse beam search (`decoding.diverse`); divides `beam_size`.
        diversity_penalty: λ of diverse beam search.
        stop_early: False continues to each limit. The result is the same; tests compare the two.
    """

    beam_size: int
    length_penalty: float
    n_best: int = 1
    num_groups: int = 1
    diversity_penalty: float = 0.0
    stop_early: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.n_best <= self.beam_size:
            raise ValueError(f"n_best = {self.n_best}: must be between 1 and the beam size, {self.beam_size}.")
        if self.length_penalty < 0:
            raise ValueError(f"length_penalty = {self.length_penalty}: must be 0 or greater.")
        if self.beam_size % self.num_groups:
            raise ValueError(f"num_groups = {self.num_groups}: must divide the beam size, {self.beam_size}.")

    @property
    def group_size(self) -> int:
        """Open beams of one group."""
        return self.beam_size // self.num_groups
