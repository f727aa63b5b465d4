"""What the outputs of one source must begin with, must contain and must not contain; needs no torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class BracketPieces:
    """The token ids that write labelled brackets around leaves: "(S (NP DT NN )NP )S"."""

    vocab_size: int
    closing: Mapping[int, int]  # of each id that opens a bracket: the id that closes it
    leaves: Sequence[int]  # ids that begin a leaf
    continuing: Sequence[int]  # ids that continue a leaf
    max_depth: int  # brackets that may be open at once


@dataclass(frozen=True, slots=True)
class Brackets:
    """The form of an output: one bracket around all, none empty, each closed by its own label, and so many leaves."""

    pieces: BracketPieces
    num_leaves: int  # at least 1

    @property
    def least_tokens(self) -> int:
        """The tokens of the shortest output: one bracket, and a piece for each leaf."""
        return self.num_leaves + 2


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
    # The form of each output; None: any. Where the limit on its length leaves no such output, the form is free.
    brackets: Brackets | None = None

    def unmet(self, ids: Sequence[int]) -> list[tuple[tuple[int, ...], ...]]:
        """Returns the entries of `required` of which an output holds no phrase."""
        given = tuple(ids)
        return [entry for entry in self.required if not any(self._holds(given, phrase) for phrase in entry)]

    def _holds(self, ids: tuple[int, ...], phrase: tuple[int, ...]) -> bool:
        ends = (i + len(phrase) for i in range(len(ids) - len(phrase) + 1) if ids[i : i + len(phrase)] == phrase)
        return any(end == len(ids) or ids[end] not in self.joining for end in ends)
