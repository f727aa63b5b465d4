"""What an output must begin with, must not contain, and its form: bans on the next token, given the tokens before it.

A ban sets log-probabilities to -inf and changes no others. Allowed tokens keep the model's own probability, so the
score of an output is what the model gives it, and a bound on scores to come stays a bound. A ban is a function of the
tokens so far, which the search keeps: no state has to follow reordered beams.

Shapes: R rows = B sentences × K beams, sentence by sentence; T tokens so far, P positions or phrases, V vocabulary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from transduce.config import DecodeConfig
from transduce.config.special_ids import EOS
from transduce.decoding.bracket_bans import BracketBans
from transduce.decoding.constraints import TokenConstraints


def _ban_(gains: Tensor, tokens: Tensor, banned: Tensor) -> None:
    """Sets the gains of banned tokens to -inf, along the last dimension, without synchronising with a GPU."""
    gains.scatter_reduce_(-1, tokens, torch.where(banned, -torch.inf, torch.inf), "amin")


def _ban_repeats_(gains_RV: Tensor, past_RT: Tensor, size: int) -> None:
    """Bans each token that would repeat `size` tokens in a row: one that has followed the last size - 1 before.

    With 3 and a past of "a b c a b", the windows are "a b c", "b c a" and "c a b"; the first begins with the last two
    tokens, "a b", and so its "c" is banned.
    """
    before = size - 1
    if past_RT.size(1) < size:
        return
    windows_RPN = past_RT.unfold(1, size, 1)
    last_R1N = past_RT[:, None, past_RT.size(1) - before :]
    _ban_(gains_RV, windows_RPN[:, :, before], (windows_RPN[:, :, :before] == last_R1N).all(dim=2))


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
        index_PK = rows_PK * gains_RV.size(1) + self.phrases_PN[:, before:]
        _ban_(gains_RV.view(-1), index_PK.flatten(), matched_PK.flatten())

    def keep(self, sentences_B: Tensor) -> Self:
        """Returns the phrases of the given sentences."""
        new_index_B = torch.full((self.num_sentences,), -1, device=self.owners_P.device)
        new_index_B[sentences_B] = torch.arange(sentences_B.numel(), device=self.owners_P.device)
        owners_P = new_index_B[self.owners_P]
        kept_P = owners_P >= 0
        return type(self)(self.phrases_PN[kept_P], owners_P[kept_P], sentences_B.numel())


@dataclass(frozen=True)
class Prefix:
    """What each sentence's output begins with.

    At position p, one of `completions[sentence][p]` may replace the rest of the prefix: see
    `TokenConstraints`.
    """

    tokens_BP: Tensor  # padded
    lengths_B: Tensor
    completions: tuple[tuple[Tensor, ...], ...]

    @classmethod
    def of(cls, constraints: Sequence[TokenConstraints], device: torch.device | str) -> Self:
        """Returns the prefixes of a batch as tensors on `device`."""
        lengths = [len(each.prefix) for each in constraints]
        padded = [[*each.prefix, *[0] * (max(lengths) - len(each.prefix))] for each in constraints]
        completions = tuple(
            tuple(torch.tensor(ids, dtype=torch.long, device=device) for ids in each.completions)
            for each in constraints
        )
        return cls(torch.tensor(padded, device=device), torch.tensor(lengths, device=device), completions)

    def apply_(self, gains_RV: Tensor, past_RT: Tensor, ban_others_: Callable[[Tensor, Tensor], None]) -> None:
        """Bans all but the next token of the prefix and its completions; after the prefix, only what others ban.

        The others never forbid the next token of a prefix, but they may forbid a completion.
        """
        num_rows, position = past_RT.shape
        num_beams = num_rows // self.lengths_B.numel()
        begun_RP = self.tokens_BP[:, :position].repeat_interleave(num_beams, dim=0)
        bound_R = (self.lengths_B > position).repeat_interleave(num_beams) & (past_RT == begun_RP).all(dim=1)
        next_R1 = self.tokens_BP[:, position].repeat_interleave(num_beams)[:, None]
        gain_R1 = gains_RV.gather(1, next_R1)
        ban_others_(gains_RV, past_RT)
        gains_RV.scatter_(1, next_R1, torch.where(bound_R[:, None], gain_R1, gains_RV.gather(1, next_R1)))
        allowed_RV = torch.zeros_like(gains_RV, dtype=torch.bool).scatter_(1, next_R1, True)
        for sentence, completions in enumerate(self.completions):
            if position < len(completions):
                first = sentence * num_beams
                allowed_RV[first : first + num_beams].index_fill_(1, completions[position], True)
        gains_RV.masked_fill_(bound_R[:, None] & ~allowed_RV, -torch.inf)

    def keep(self, sentences_B: Tensor) -> Self:
        """Returns the prefixes of the given sentences."""
        completions = tuple(self.completions[index] for index in sentences_B.tolist())
        return type(self)(self.tokens_BP[sentences_B], self.lengths_B[sentences_B], completions)


@dataclass(frozen=True)
class BannedTokens:
    """All bans of a batch. A prefix is stronger than the others, which act on what follows it."""

    min_tokens: int  # no output ends before it has so many
    no_repeat_ngram: int  # no so many tokens in a row come twice; 0 disables
    forbidden: tuple[Forbidden, ...]
    prefix: Prefix | None
    brackets: BracketBans | None

    def apply_(self, gains_RV: Tensor, past_RT: Tensor) -> None:
        """Sets what may not follow `past_RT` to -inf, in place."""
        if self.prefix is not None and past_RT.size(1) < self.prefix.tokens_BP.size(1):
            self.prefix.apply_(gains_RV, past_RT, self._ban_others_)
        else:
            self._ban_others_(gains_RV, past_RT)

    def _ban_others_(self, gains_RV: Tensor, past_RT: Tensor) -> None:
        """Applies all but the prefix."""
        if past_RT.size(1) < self.min_tokens:
            gains_RV[:, EOS] = -torch.inf
        if self.no_repeat_ngram:
            _ban_repeats_(gains_RV, past_RT, self.no_repeat_ngram)
        for each in self.forbidden:
            each.apply_(gains_RV, past_RT)
        if self.brackets is not None:
            self.brackets.apply_(gains_RV, past_RT)

    def keep(self, sentences_B: Tensor) -> Self:
        """Returns the bans of the given sentences, in the given order."""
        prefix = None if self.prefix is None else self.prefix.keep(sentences_B)
        brackets = None if self.brackets is None else self.brackets.keep(sentences_B)
        forbidden = tuple(each.keep(sentences_B) for each in self.forbidden)
        return replace(self, forbidden=forbidden, prefix=prefix, brackets=brackets)


def banned_tokens(
    options: DecodeConfig,
    constraints: Sequence[TokenConstraints],
    limits: Sequence[int],
    device: torch.device | str = "cpu",
) -> BannedTokens | None:
    """Returns the bans of a batch, or None where there are none.

    Args:
        options: of the search.
        constraints: of each sentence, or none at all.
        limits: of each sentence, the greatest number of tokens of its output.
        device: of the search.
    """
    forbidden = []
    owned = [(phrase, owner) for owner, each in enumerate(constraints) for phrase in each.forbidden]
    for length in sorted({len(phrase) for phrase, _ in owned}):
        phrases, owners = zip(*(each for each in owned if len(each[0]) == length), strict=True)
        parts = torch.tensor(phrases, device=device), torch.tensor(owners, device=device)
        forbidden.append(Forbidden(*parts, len(constraints)))
    prefix = Prefix.of(constraints, device) if any(each.prefix for each in constraints) else None
    forms = [each.brackets for each in constraints]
    brackets = BracketBans.of(forms, limits, device) if any(forms) else None
    if not (options.min_tokens or options.no_repeat_ngram or forbidden or prefix is not None or brackets is not None):
        return None
    return BannedTokens(options.min_tokens, options.no_repeat_ngram, tuple(forbidden), prefix, brackets)
