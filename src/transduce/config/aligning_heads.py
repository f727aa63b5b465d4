"""The heads of a model that align words; needs no NumPy, as model folders are opened without it."""

from typing import NamedTuple


class AligningHeads(NamedTuple):
    """The heads of one decoder layer whose mean attention aligns words; numbers count from 0."""

    layer: int
    heads: tuple[int, ...]  # the best first

    def order(self, num_heads: int) -> list[int]:
        """Returns all heads of the layer, those that align first."""
        return [*self.heads, *(head for head in range(num_heads) if head not in self.heads)]
