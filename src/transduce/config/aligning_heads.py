"""The heads of a model that align words; needs no NumPy, as model folders are opened without it."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from transduce.config import Config


class AligningHeads(NamedTuple):
    """The heads of one decoder layer whose mean attention aligns words; numbers count from 0.

    A head that was trained to align attends to the counterpart of the token that was written last; others, to that of
    the token that is to be written.
    """

    layer: int
    heads: tuple[int, ...]  # the best first
    guided: bool = False  # whether `train.guided_attention` trained it

    def order(self, num_heads: int) -> list[int]:
        """Returns all heads of the layer, those that align first."""
        return [*self.heads, *(head for head in range(num_heads) if head not in self.heads)]


def guided_head(config: "Config") -> AligningHeads | None:
    """Returns the head of a translator that `train.guided_attention` trains to align; None if it trains none.

    It is the first head of the last decoder layer but one.
    """
    if not config.train.guided_attention or config.data.format == "trees":
        return None
    return AligningHeads(max(0, config.model.num_decoder_layers - 2), (0,), guided=True)
