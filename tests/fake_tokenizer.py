"""A tokenizer that is no more than what a test says of it."""

from collections.abc import Sequence
from types import SimpleNamespace


class FakeTokenizer(SimpleNamespace):
    """Has the attributes that a test names, or a subclass has; one vocabulary for both sides, unless it says another.

    Each token stands for its own bytes of a text.
    """

    target_vocab_size = 0

    @property
    def target(self) -> "FakeTokenizer":
        return vars(self).get("target_side", self)  # type: ignore[no-any-return]

    def covered(self, text: str, ids: Sequence[int]) -> list[bytes]:
        return self.piece_bytes(ids)  # type: ignore[no-any-return]
