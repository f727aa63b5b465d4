"""What an output must begin with and may not hold: bans on the next token, given the tokens before it.

A restriction sets log-probabilities to -inf and changes no other. What is left keeps the model's own probability, so
the score of a restricted output is what the model gives it, and a bound on what can still come stays a bound. And it is
a function of the tokens so far, which every search keeps anyway: when beams change places, nothing has to move along.

Shapes: R rows = B sentences × K beams, sentence by sentence; T tokens so far, P places or phrases, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor

from transduce.decoding.candidates import Restrict


class Ban(Protocol):
    """Bans tokens, row by row."""

    def apply_(self, gains_RV: Tensor, past_RT: Tensor) -> None:
        """Sets what may not follow `past_RT` to -inf, in place."""
        ...

    def keep(self, sentences_B: Tensor) -> Self:
        """Returns what is asked of the given sentences, in the given order."""
        ...


def _ban_(gains: Tensor, tokens: Tensor, banned: Tensor) -> None:
    """Sets the gains of those tokens to -inf that are banned, along the last dimension; a GPU is not waited for."""
    gains.scatter_reduce_(-1, tokens, torch.where(banned, -torch.inf, torch.inf), "amin")


@dataclass(frozen=True)
class MinimumLength:
    """No output ends before it has `num_tokens`."""

    num_tokens: int
    eos: int

    def apply_(self, gains_RV: Tensor, past_RT: Tensor) -> None:
        """Bans EOS from outputs that are too short."""
        if past_RT.size(1) < self.num_tokens:
            gains_RV[:, self.eos] = -torch.inf

    def keep(self, sentences_B: Tensor) -> Self:
        """Returns itself: it asks the same of all."""
        return self


@dataclass(frozen=True)
class NoRepeat:
    """No `size` tokens in a row come twice."""

    size: int

    def apply_(self, gains_RV: Tensor, past_RT: Tensor) -> None:
        """Bans each token that would repeat an n-gram: one that has followed the last n - 1 tokens before.

        With n = 3 and a past of "a b c a b", the windows are "a b c", "b c a" and "c a b"; the first begins with the
        last two tokens, "a b", and so its "c" is banned.
        """
        before = self.size - 1
        if past_RT.size(1) < self.size:
            return
        windows_RPN = past_RT.unfold(1, self.size, 1)
        last_R1N = past_RT[:, None, past_RT.size(1) - before :]
        _ban_(gains_RV, windows_RPN[:, :, before], (windows_RPN[:, :, :before] == last_R1N).all(dim=2))

    def keep(self, sentences_B: Tensor) -> Self:
        """Returns itself: it asks the same of all."""
        return self


@dataclass(frozen=True)
class Forbidden:
    """Phrases that may not occur, of one length: phrase p is forbidden to sentence `owners_P[p]`."""

    phrases_PN: Tensor
    owners_P: Tensor
    num_sentences: int

    def apply_(self, gains_RV: Tensor, past_RT: Tensor) -> None:
        """Bans the last token of each phrase where the others have just come."""
        before, num_tokens = self.phrases_PN.size(1) - 1, past_RT.size(1)
        if num_tokens < before:
            return
        num_beams = gains_RV.size(0) // self.num_sentences
        last_BKN = past_RT[:, num_tokens - before :].view(self.num_sentences, num_beams, before)
        matched_PK = (last_BKN[self.owners_P] == self.phrases_PN[:, None, :before]).all(dim=2)
        rows_PK = self.owners_P[:, None] * num_beams + torch.arange(num_beams, device=gains_RV.device)
        places_PK = rows_PK * gains_RV.size(1) + self.phrases_PN[:, before:]
        _ban_(gains_RV.view(-1), places_PK.flatten(), matched_PK.flatten())

    def keep(self, sentences_B: Tensor) -> Self:
        """Returns the phrases of the given sentences."""
        place_B = torch.full((self.num_sentences,), -1, device=self.owners_P.device)
        place_B[sentences_B] = torch.arange(sentences_B.numel(), device=self.owners_P.device)
        owners_P = place_B[self.owners_P]
        kept_P = owners_P >= 0
        return type(self)(self.phrases_PN[kept_P], owners_P[kept_P], sentences_B.numel())


@dataclass(frozen=True)
class Prefix:
    """What each sentence's output begins with.

    At place p, one of `completions[sentence][p]` may stand for all that is left of the prefix: see
    `engines.interface.TokenConstraints`.
    """

    tokens_BP: Tensor  # padded
    lengths_B: Tensor
    completions: tuple[tuple[Tensor, ...], ...]
    longest: int

    @classmethod
    def of(
        cls, prefixes: Sequence[Sequence[int]], completions: Sequence[Sequence[Sequence[int]]], device: torch.device
    ) -> Self:
        """Returns the prefixes as tensors on `device`."""
        longest = max(map(len, prefixes))
        padded = [[*prefix, *[0] * (longest - len(prefix))] for prefix in prefixes]
        ids = tuple(tuple(torch.tensor(list(x), dtype=torch.long, device=device) for x in each) for each in completions)
        lengths_B = torch.tensor([len(prefix) for prefix in prefixes], device=device)
        return cls(torch.tensor(padded, device=device), lengths_B, ids, longest)

    def apply_(self, gains_RV: Tensor, past_RT: Tensor, bans: Sequence[Ban]) -> None:
        """Bans all but the next token of the prefix and what may complete it; where it is complete, the `bans` only.

        The next token of a prefix is never banned; a completion, which is chosen freely, may be.
        """
        num_rows, place = past_RT.shape
        num_beams = num_rows // self.lengths_B.numel()
        begun_RP = self.tokens_BP[:, :place].repeat_interleave(num_beams, dim=0)
        bound_R = (self.lengths_B > place).repeat_interleave(num_beams) & (past_RT == begun_RP).all(dim=1)
        next_R1 = self.tokens_BP[:, place].repeat_interleave(num_beams)[:, None]
        gain_R1 = gains_RV.gather(1, next_R1)
        for ban in bans:
            ban.apply_(gains_RV, past_RT)
        gains_RV.scatter_(1, next_R1, torch.where(bound_R[:, None], gain_R1, gains_RV.gather(1, next_R1)))
        allowed_RV = torch.zeros_like(gains_RV, dtype=torch.bool).scatter_(1, next_R1, True)
        for sentence, completions in enumerate(self.completions):
            if place < len(completions):
                first = sentence * num_beams
                allowed_RV[first : first + num_beams].index_fill_(1, completions[place], True)
        gains_RV.masked_fill_(bound_R[:, None] & ~allowed_RV, -torch.inf)

    def keep(self, sentences_B: Tensor) -> Self:
        """Returns the prefixes of the given sentences."""
        completions = tuple(self.completions[place] for place in sentences_B.tolist())
        return type(self)(self.tokens_BP[sentences_B], self.lengths_B[sentences_B], completions, self.longest)


@dataclass(frozen=True)
class BannedTokens:
    """All that is asked of a batch; a prefix holds whatever the rest says, which binds what follows."""

    bans: tuple[Ban, ...]
    prefix: Prefix | None = None

    def apply_(self, gains_RV: Tensor, past_RT: Tensor) -> None:
        """Sets what may not follow `past_RT` to -inf, in place."""
        if self.prefix is not None and past_RT.size(1) < self.prefix.longest:
            self.prefix.apply_(gains_RV, past_RT, self.bans)
            return
        for ban in self.bans:
            ban.apply_(gains_RV, past_RT)

    def after(self, past_RT: Tensor) -> Restrict:
        """Returns `apply_` for the tokens so far."""
        return lambda gains_RV: self.apply_(gains_RV, past_RT)

    def keep(self, sentences_B: Tensor) -> Self:
        """Returns what is asked of the given sentences, in the given order."""
        prefix = None if self.prefix is None else self.prefix.keep(sentences_B)
        return type(self)(tuple(ban.keep(sentences_B) for ban in self.bans), prefix)


def banned_tokens(
    num_sentences: int,
    *,
    eos: int,
    min_tokens: int = 0,
    no_repeat_ngram: int = 0,
    prefixes: Sequence[Sequence[int]] = (),
    completions: Sequence[Sequence[Sequence[int]]] = (),
    forbidden: Sequence[Sequence[Sequence[int]]] = (),
    device: torch.device | str = "cpu",
) -> BannedTokens | None:
    """Returns what is asked of the outputs of `num_sentences` sentences, or None where that is nothing.

    `prefixes`, `completions` and `forbidden` have one entry for each sentence, or none at all.
    """
    device = torch.device(device)
    bans: list[Ban] = []
    if min_tokens:
        bans.append(MinimumLength(min_tokens, eos))
    if no_repeat_ngram:
        bans.append(NoRepeat(no_repeat_ngram))
    owned = [(phrase, owner) for owner, phrases in enumerate(forbidden) for phrase in phrases]
    for length in sorted({len(phrase) for phrase, _ in owned}):
        phrases = [(list(phrase), owner) for phrase, owner in owned if len(phrase) == length]
        phrases_PN = torch.tensor([phrase for phrase, _ in phrases], device=device)
        bans.append(Forbidden(phrases_PN, torch.tensor([owner for _, owner in phrases], device=device), num_sentences))
    prefix = None
    if any(prefixes):
        prefix = Prefix.of(prefixes, completions or [()] * num_sentences, device)
    return BannedTokens(tuple(bans), prefix) if bans or prefix is not None else None
