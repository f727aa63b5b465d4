"""What is proposed to greedy search, how often it was right, and how much of it is worth its time."""

import itertools
import operator
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor

MOST_PROPOSED = 8  # tokens of a sentence in one pass
PREFIX = "prefix"  # the kind of proposals that are certain
_TRIED_AGAIN = 16  # every so many searches, the slower way is tried
_MOST_OF_A_PREFIX = 64  # of its tokens in one pass: they are certain
_DECAY = 0.995  # of what earlier proposals and searches say of the next
_FORGETTING = 0.98  # the same for proposals, in each search that has none


@dataclass(frozen=True, slots=True)
class Proposal:
    """A token that may come next, after those that are proposed before it."""

    token: int
    kind: str  # where it comes from; proposals of a kind are about equally often right


@dataclass(slots=True)
class Output:
    """What a sentence has so far.

    Attributes:
        sentence: its number in the batch.
        source: its tokens, without EOS.
        limit: the greatest number of tokens.
        read: what the decoder reads: the first tokens, and the output.
        num_first: how many of these are no output.
        prefix: what the output begins with.
        ban_: sets the log-probabilities of tokens that may not follow to -inf, in place; None: nothing is banned. It
            takes them and the tokens of the output so far, (1, V) and (1, T).
        log_probability: of the output.
        guesses: what the last pass said for later positions, after proposals that were wrong.
    """

    sentence: int
    source: Sequence[int]
    limit: int
    read: list[int]
    num_first: int
    prefix: Sequence[int] = ()
    ban_: Callable[[Tensor, Tensor], None] | None = None
    log_probability: float = 0.0
    guesses: list[int] = field(default_factory=list)

    @property
    def ids(self) -> list[int]:
        """The output's tokens."""
        return self.read[self.num_first :]

    def apply_bans_(self, gains_1V: Tensor) -> None:
        """Sets the log-probabilities of tokens that may not follow to -inf, in place."""
        if self.ban_ is not None:
            self.ban_(gains_1V, torch.tensor([self.ids], dtype=torch.long, device=gains_1V.device))

    def rest_of_prefix(self) -> list[Proposal]:
        """Returns what certainly comes next: the rest of the prefix, as far as one pass reads it."""
        num_tokens = len(self.read) - self.num_first
        if num_tokens >= len(self.prefix) or list(self.prefix[:num_tokens]) != self.ids:
            return []
        return [Proposal(token, PREFIX) for token in self.prefix[num_tokens : num_tokens + _MOST_OF_A_PREFIX]]


class Drafter(Protocol):
    """What proposes tokens, in one search."""

    def seconds(self, num_sentences: int) -> float:
        """Returns the seconds that one more proposal for each sentence takes."""

    def propose(
        self, outputs: Sequence[Output], most: int, newest: Callable[[], Tensor | None]
    ) -> list[list[Proposal]]:
        """Returns at most so many proposals for each output; `newest` is `SpanState.newest` of them."""

    def learn(self, output: Output) -> None:
        """Learns from an output that has ended."""


class Chances:
    """How often proposals of each kind were right, of late; searches in several threads may share it."""

    def __init__(self) -> None:
        self._right: dict[str, float] = {}
        self._tried: dict[str, float] = {}

    def __getitem__(self, kind: str) -> float:
        """Returns the chance of a proposal of this kind; a half for one that was never tried."""
        return (self._right.get(kind, 0.0) + 1) / (self._tried.get(kind, 0.0) + 2)

    def gains(self, most: int) -> list[float]:
        """Returns the tokens that a pass gives a sentence by its own choice, by a first proposal, by a second, …"""
        return list(itertools.accumulate((self[numbered(number)] for number in range(most)), operator.mul, initial=1.0))

    def note(self, kind: str, right: bool) -> None:
        """Notes whether a proposal was right."""
        self._right[kind] = _DECAY * self._right.get(kind, 0.0) + right
        self._tried[kind] = _DECAY * self._tried.get(kind, 0.0) + 1

    def forget(self) -> None:
        """Trusts the tries less, after a search without any: else what proposes badly at first is never tried again."""
        for kind in list(self._tried):  # a search in another thread may add a kind meanwhile
            self._right[kind] *= _FORGETTING
            self._tried[kind] *= _FORGETTING


@cache
def numbered(number: int) -> str:
    """Returns the kind of all proposals that come after so many others."""
    return f"after {number} others"


class FasterWay:
    """Which of two ways to search is the faster one, by their times of late, for searches of a kind.

    The outputs are the same, so it is free to choose. The slower way is tried again now and then. Searches in several
    threads may share it.
    """

    def __init__(self) -> None:
        # Of each way and kind: decayed sums of seconds and of tokens.
        self._seconds: dict[tuple[bool, Hashable], float] = {}
        self._tokens: dict[tuple[bool, Hashable], float] = {}
        self._searches = 0

    def __call__(self, kind: Hashable) -> bool:
        """Returns whether to search with drafts."""
        self._searches += 1
        for way in (True, False):
            if (way, kind) not in self._tokens:  # which `note` sets last
                return way
        paces = [self._seconds[way, kind] / self._tokens[way, kind] for way in (False, True)]
        return (paces[True] < paces[False]) != (self._searches % _TRIED_AGAIN == 0)

    def note(self, with_drafts: bool, kind: Hashable, num_tokens: int, seconds: float) -> None:
        """Notes how long a search took that wrote so many tokens."""
        key = with_drafts, kind
        self._seconds[key] = _DECAY * self._seconds.get(key, 0.0) + seconds
        self._tokens[key] = _DECAY * self._tokens.get(key, 0.0) + num_tokens


@dataclass(frozen=True)
class PassCosts:
    """The seconds of a pass, by the number of its tokens, in which all sentences' tokens count.

    On any machine a pass over few tokens takes little more than one over a single token, and one over many in
    proportion; where the one ends and the other begins is measured.
    """

    measured: Sequence[tuple[int, float]]  # (tokens, seconds), with growing numbers of tokens, from 1

    def __call__(self, num_tokens: int) -> float:
        """Returns the seconds that a pass over so many tokens may take."""
        known = self._known
        return known[num_tokens] if num_tokens < len(known) else known[-1] * num_tokens / (len(known) - 1)

    @cached_property
    def _known(self) -> list[float]:
        """The seconds for 0, 1, 2, … tokens, up to the most that were measured."""
        found = [0.0]
        for (less, early), (more, late) in pairwise(self.measured):
            found += [early + (late - early) * (count - less) / (more - less) for count in range(less, more)]
        return [*found, self.measured[-1][1]]

    def worthwhile(self, num_sentences: int, gains: Sequence[float], seconds_each: float = 0.0) -> int:
        """Returns the number of proposals for each sentence that gives the most tokens in a second.

        Args:
            num_sentences: in the pass.
            gains: tokens of all sentences that the pass is expected to give by its own choice, by the first proposal of
                each, by the second, …
            seconds_each: what one more proposal for each sentence costs besides the pass.
        """
        best, best_rate, tokens = 0, 0.0, 0.0
        for number, gain in enumerate(gains):
            tokens += gain
            rate = tokens / (self(num_sentences * (number + 1)) + number * seconds_each)
            if rate > best_rate:
                best, best_rate = number, rate
        return best
