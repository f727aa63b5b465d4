"""What the outputs of one source must begin with, must contain and must not contain; needs no torch."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenConstraints:
    """What the outputs of one source must begin with, must contain and must not contain, in token ids."""

    prefix: tuple[int, ...] = ()  # what each output begins with
    # At position p of the prefix, one of `completions[p]` may replace the rest of it: " Hund" for " H", "u". A
    # tokenizer spells a text that continues differently. An engine may ignore them: the prefix is enough.
    completions: tuple[tuple[int, ...], ...] = ()
    required: tuple[tuple[tuple[int, ...], ...], ...] = ()  # each a choice of phrases, one of which must occur
    # A required phrase does not count if one of these tokens follows: it makes the last word another, "dogs" for "dog".
    joining: tuple[int, ...] = ()
    forbidden: tuple[tuple[int, ...], ...] = ()  # phrases that no output may contain
    # What the decoder reads before the output, such as the code of the target's language: neither written nor scored,
    # and of the same length for all sources of a call.
    start: tuple[int, ...] = ()

    def unmet(self, ids: Sequence[int]) -> list[tuple[tuple[int, ...], ...]]:
        """Returns the entries of `required` of which an output holds no phrase."""
        given = tuple(ids)
        return [entry for entry in self.required if not any(self._holds(given, phrase) for phrase in entry)]

    def _holds(self, ids: tuple[int, ...], phrase: tuple[int, ...]) -> bool:
        ends = (i + len(phrase) for i in range(len(ids) - len(phrase) + 1) if ids[i : i + len(phrase)] == phrase)
        return any(end == len(ids) or ids[end] not in self.joining for end in ends)
