"""Drafts without training: what the outputs so far say of the next token.

Two tables are learned from each output that ends, and its source. One counts what followed the last tokens of outputs.
The other says what the tokens of a source become (as IBM model 1, Brown et al. 1993, in one pass, with a preference for
like positions). A token is proposed that has followed the last ones, and that translates what is not translated yet. A
new token of a source counts as a translation of itself, as names and numbers do. What the last pass said for later
positions, though after proposals that were wrong, counts as if it had followed (Santilli et al. 2023).
"""

import math
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TypeVar

from torch import Tensor

from transduce.config.special_ids import BOS, EOS
from transduce.decoding.proposals import Output, Proposal

_LONGEST = 3  # last tokens that are looked up
_NEW_SHARE = 0.8  # of the tokens that followed, for what never did (Witten and Bell)
_UNSEEN = 0.02  # the share of a token that never followed
_GUESSED = 0.1  # the share of what the last pass said
_FOREIGN = 0.03  # the lexical probability of a token that translates nothing
_LEAST = 0.05  # lexical probability from which a translation counts
_LEARNED_LEAST = 0.02  # the same of a new translation, while learning
_END = 0.3  # in place of EOS's lexical probability
_NEARNESS = [math.exp(-distance / 3) for distance in range(12)]  # weight of a source token by its distance
_LEARNED_NEARNESS = [math.exp(-distance / 4) for distance in range(24)]  # the same, while learning
_LEAST_SCORE = 1e-4  # of a proposal
_STEPS = 8  # of a proposal's share of all candidates, by which proposals are grouped
_MOST_KEPT = 200_000  # keys of a table; the oldest half is dropped beyond
_MOST_OF_A_KEY = 128  # tokens of a key; the rarer half is dropped beyond, before it makes lookups slow

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class _Followed:
    """What followed some tokens, how often, and the likeliest."""

    counts: dict[int, int] = field(default_factory=dict)
    total: int = 0
    best: int = EOS

    def add(self, token: int) -> None:
        count = self.counts[token] = self.counts.get(token, 0) + 1
        self.total += 1
        if count >= self.counts.get(self.best, 0):
            self.best = token
        self.counts = _commonest(self.counts)


@dataclass(slots=True)
class _Word:
    """What a token of a source became: how often, shared among all tokens of the source."""

    became: dict[int, float] = field(default_factory=dict)
    count: int = 0


class OutputMemory:
    """What is learned from outputs; searches in several threads may share it."""

    def __init__(self) -> None:
        self._following: dict[tuple[int, ...], _Followed] = {}
        self._words: dict[int, _Word] = {}
        self.length_ratio = 1.0  # of outputs to sources, of late
        self._lock = threading.Lock()

    def translations(self, token: int) -> dict[int, float]:
        """Returns what a source token becomes, with probabilities."""
        word = self._words.get(token)
        if word is None:
            return {token: 1.0}
        with self._lock:
            return {other: mass / word.count for other, mass in word.became.items() if mass > _LEAST * word.count}

    def followed(self, read: Sequence[int]) -> list[tuple[_Followed, float]]:
        """Returns what followed the last tokens, the longest match first, with weights; what is left is for the new."""
        found, left = [], 1.0
        for length in range(min(_LONGEST, len(read)), 0, -1):
            after = self._following.get(tuple(read[-length:]))
            if after is not None:
                known = after.total / (after.total + _NEW_SHARE * len(after.counts))
                found.append((after, left * known / after.total))
                left *= 1 - known
        return found

    def learn(self, source: Sequence[int], ids: Sequence[int]) -> None:
        """Learns from an output and its source."""
        with self._lock:
            self._learn_following([BOS, *ids, EOS])
            self._learn_words(source, ids)

    def _learn_following(self, read: Sequence[int]) -> None:
        for position in range(1, len(read)):
            for length in range(1, min(_LONGEST, position) + 1):
                key = tuple(read[position - length : position])
                after = self._following.pop(key, None) or _Followed()  # so that it becomes the newest
                after.add(read[position])
                self._following[key] = after
        self._following = _newest(self._following)

    def _learn_words(self, source: Sequence[int], ids: Sequence[int]) -> None:
        words = [self._words.setdefault(token, _Word()) for token in source]
        ratio = max(0.5, len(ids) / len(source))
        for position, token in enumerate(ids):
            expected = int(position / ratio)
            first, end = max(0, expected - len(_LEARNED_NEARNESS) + 1), expected + len(_LEARNED_NEARNESS)
            near = words[first:end]
            chances = [
                (word.became.get(token, 0.0) + _LEARNED_LEAST) / (word.count + 1) * _LEARNED_NEARNESS[abs(j - expected)]
                for j, word in enumerate(near, start=first)
            ]
            total = sum(chances)
            for word, chance in zip(near, chances, strict=True):
                word.became[token] = word.became.get(token, 0.0) + chance / total
        for word in words:
            word.count += 1
            word.became = _commonest(word.became)
        self.length_ratio = max(0.1, 0.98 * self.length_ratio + 0.02 * len(ids) / len(source))
        self._words = _newest(self._words)


class OnlineDrafter:
    """Proposes what the outputs so far suggest; for one search."""

    def __init__(self, memory: OutputMemory) -> None:
        """Takes what was learned before."""
        self._memory = memory
        self._translations: dict[int, dict[int, list[tuple[int, float]]]] = {}  # by sentence, by token: from where

    def seconds(self, num_sentences: int) -> float:
        """Returns 0: looking up costs little beside a pass."""
        return 0.0

    def learn(self, output: Output) -> None:
        """Learns from an output that has ended."""
        if output.source:
            self._memory.learn(output.source, output.ids)

    def propose(
        self, outputs: Sequence[Output], most: int, newest: Callable[[], Tensor | None]
    ) -> list[list[Proposal]]:
        """Returns at most so many proposals for each output."""
        return [self._propose(output, most) for output in outputs]

    def _propose(self, output: Output, most: int) -> list[Proposal]:
        translations = self._translations.get(output.sentence)
        if translations is None:
            translations = self._translations[output.sentence] = defaultdict(list)
            for position, token in enumerate(output.source):
                for other, share in self._memory.translations(token).items():
                    translations[other].append((position, share))
        ids, found = output.ids, []
        open_shares = [1.0] * len(output.source)
        for token in ids:
            _close(open_shares, translations.get(token, ()))
        for number in range(most):
            guess = output.guesses[number] if number < len(output.guesses) else None
            token, share = self._next(ids, translations, open_shares, guess)
            if token == EOS:
                break
            found.append(Proposal(token, f"online {int(_STEPS * share)}"))
            ids.append(token)
            _close(open_shares, translations.get(token, ()))
        return found

    def _next(
        self,
        ids: Sequence[int],
        translations: dict[int, list[tuple[int, float]]],
        open_shares: Sequence[float],
        guess: int | None,
    ) -> tuple[int, float]:
        """Returns the likeliest next token, and its share among the candidates."""
        followed = self._memory.followed([BOS, *ids[-_LONGEST:]] if len(ids) < _LONGEST else ids[-_LONGEST:])
        expected, furthest = int(len(ids) / self._memory.length_ratio), len(_NEARNESS) - 1
        weights = [share * _NEARNESS[min(furthest, abs(j - expected))] for j, share in enumerate(open_shares)]
        all_weights = sum(weights) or 1.0
        candidates = {*translations, *(after.best for after, _ in followed)}
        if guess is not None:
            candidates.add(guess)
        best, best_score, total = EOS, _LEAST_SCORE, 0.0
        for token in candidates:
            score = _GUESSED if token == guess else _UNSEEN * _UNSEEN
            for after, weight in followed:
                score += weight * after.counts.get(token, 0)
            lexical = _END if token == EOS else _FOREIGN
            for position, share in translations.get(token, ()):
                lexical += share * weights[position] / all_weights
            score *= lexical
            total += score
            if score > best_score:
                best, best_score = token, score
        return best, best_score / total if total else 0.0


def _close(open_shares: list[float], positions: Sequence[tuple[int, float]]) -> None:
    """Notes that a token translates the likeliest of some positions of a source."""
    if positions:
        share, position = max((share * open_shares[position], position) for position, share in positions)
        open_shares[position] *= max(0.0, 1 - 1.5 * share)


def _newest(table: dict[K, V]) -> dict[K, V]:
    """Returns a table without its oldest half, where it is full."""
    return dict(list(table.items())[-_MOST_KEPT // 2 :]) if len(table) > _MOST_KEPT else table


def _commonest(of_key: dict[int, V]) -> dict[int, V]:
    """Returns the tokens of a key without the rarer half, where they are too many."""
    if len(of_key) <= _MOST_OF_A_KEY:
        return of_key
    return dict(sorted(of_key.items(), key=itemgetter(1))[-_MOST_OF_A_KEY // 2 :])
