"""Phrases that an output must hold: which of them it holds so far, and a beam divided among banks.

Dynamic beam allocation (Post & Vilar 2018; vectorised as by Hu et al. 2019). A candidate's bank is the number of
required tokens that it has; each bank gets a share of the beam. There are three differences. Progress is a function of
the tokens so far, computed anew at each step, so that no state has to follow reordered beams. An entry may be
a choice of phrases. And the beam is divided among the banks that have candidates, not among all possible ones.

`decoding.required_reference` is the obvious version, which tests compare with.

Shapes: B sentences, K beams each, T tokens so far, N candidates, V vocabulary; P phrases and E entries of the sentence
that has most, L tokens of the longest phrase. Missing phrases, entries and tokens are padding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from transduce.config.special_ids import EOS
from transduce.decoding.candidates import best_of_each_beam, padded_candidates, ranked
from transduce.decoding.constraints import TokenConstraints

_NO_TOKEN = -1


@dataclass(frozen=True)
class Progress:
    """Which entries outputs have met and which phrases they have begun, given their tokens so far."""

    settled_BKE: Tensor  # whether an entry is met, for any continuation
    fresh_BKE: Tensor  # whether it is met by a phrase that ends with the last token: a joining token would undo that
    begun_BKPL: Tensor  # at l: whether the last l tokens are the first l of the phrase, which has more than l

    @property
    def met_BKE(self) -> Tensor:
        """Whether an entry is met by the tokens so far."""
        return self.settled_BKE | self.fresh_BKE


@dataclass(frozen=True)
class RequiredPhrases:
    """The entries of each sentence of a batch; an entry is met where one of its phrases occurs.

    A phrase that is followed by one of the sentence's `joining` tokens does not count: the token makes its last word
    another one, "dogs" instead of "dog".
    """

    phrases_BPL: Tensor
    lengths_BP: Tensor  # 0 for padding
    entries_BP: Tensor  # the entry that a phrase is of
    costs_BE: Tensor  # tokens of an entry's shortest phrase; 0 for padding
    joining_BJ: Tensor  # whether a token joins; its last column is of all tokens from J - 1 on, which do not

    @property
    def total_B(self) -> Tensor:
        """The bank of an output that has met all entries."""
        return self.costs_BE.sum(dim=1)

    def keep(self, sentences_B: Tensor) -> Self:
        """Returns the entries of the given sentences, in the given order."""
        return type(self)(*(part[sentences_B] for part in vars(self).values()))

    def progress(self, past_BKT: Tensor) -> Progress:
        """Returns the progress of each beam.

        Example: for the phrase "a b" and the past "a b c a", the entry is met by the occurrence at 0, and the last "a"
        has begun the phrase anew, with 1 token (and 0 tokens are always begun).
        """
        num_sentences, num_beams, num_tokens = past_BKT.shape
        longest = self.phrases_BPL.size(2)
        wanted_BPL, lengths_BP = self.phrases_BPL, self.lengths_BP
        ends = past_BKT.new_full((num_sentences, num_beams, longest), _NO_TOKEN)
        padded = torch.cat([past_BKT, ends], dim=2)
        shape = (num_sentences, num_beams, num_tokens, wanted_BPL.size(1))
        matched_BKTP = (lengths_BP > 0)[:, None, None].expand(shape)
        for offset in range(longest):
            same = padded[:, :, offset : offset + num_tokens, None] == wanted_BPL[:, None, None, :, offset]
            matched_BKTP = matched_BKTP & (same | (lengths_BP <= offset)[:, None, None])
        starts_T = torch.arange(num_tokens, device=past_BKT.device)
        ends_BTP = starts_T[:, None] + lengths_BP[:, None]
        joins_BKT = self._joins(padded.flatten(1)).view_as(padded)
        index = ends_BTP.flatten(1)[:, None].expand(-1, num_beams, -1)
        joined_BKTP = joins_BKT.gather(2, index.clamp(max=padded.size(2) - 1)).view(shape)
        last_BTP = ends_BTP == num_tokens
        settled_BKP = (matched_BKTP & ~joined_BKTP & ~last_BTP[:, None]).any(dim=2)
        fresh_BKP = (matched_BKTP & last_BTP[:, None]).any(dim=2)
        begun = [(lengths_BP > 0)[:, None].expand(-1, num_beams, -1)]
        for count in range(1, longest):
            if count > num_tokens:
                begun.append(torch.zeros_like(begun[0]))
                continue
            same = past_BKT[:, :, None, num_tokens - count :] == wanted_BPL[:, None, :, :count]
            begun.append(same.all(dim=3) & (lengths_BP > count)[:, None])
        return Progress(self._of_entries(settled_BKP), self._of_entries(fresh_BKP), torch.stack(begun, dim=3))

    def unmet(self, progress: Progress) -> Tensor:
        """Returns which entries are not met, (B, K, E)."""
        return ~progress.met_BKE & (self.costs_BE > 0)[:, None]

    def offers(self, progress: Progress) -> tuple[Tensor, Tensor]:
        """Returns the next tokens of unmet entries' phrases and their validity, each (B, K, 2P).

        Of a phrase that is begun, these are its next token, and its first, with which it may begin anew.
        """
        begun_BKPL = progress.begun_BKPL
        counts_L = torch.arange(begun_BKPL.size(3), device=begun_BKPL.device)
        longest_BKP = (begun_BKPL * counts_L).amax(dim=3)
        phrases_BKPL = self.phrases_BPL[:, None].expand(-1, begun_BKPL.size(1), -1, -1)
        following_BKP = phrases_BKPL.gather(3, longest_BKP[..., None])[..., 0]
        open_BKP = ~self._of_phrases(progress.met_BKE) & (self.lengths_BP > 0)[:, None]
        tokens = torch.cat([following_BKP, phrases_BKPL[..., 0]], dim=2)
        return tokens.clamp(min=0), torch.cat([open_BKP, open_BKP & (longest_BKP > 0)], dim=2)

    def banks(self, progress: Progress, beams_BN: Tensor, tokens_BN: Tensor) -> Tensor:
        """Returns the bank of each candidate, (B, N): tokens of met entries, and of the one phrase that is furthest.

        A met entry counts as many tokens as its shortest phrase has. A longer phrase in progress counts from where no
        more is left of it than of the shortest. Only one phrase in progress counts: "a" begins both "a b" and "a c",
        but is one step.
        """
        num_phrases, longest = self.phrases_BPL.shape[1:]
        index = beams_BN[:, :, None, None].expand(-1, -1, num_phrases, longest)
        hits_BNPL = progress.begun_BKPL.gather(1, index) & (self.phrases_BPL[:, None] == tokens_BN[:, :, None, None])
        counts_L = torch.arange(1, longest + 1, device=tokens_BN.device)
        done_BNP = (hits_BNPL * counts_L).amax(dim=3)
        of_entry = beams_BN[:, :, None].expand(-1, -1, self.costs_BE.size(1))
        stays_BN1 = ~self._joins(tokens_BN)[:, :, None]
        met_BNE = progress.settled_BKE.gather(1, of_entry) | (progress.fresh_BKE.gather(1, of_entry) & stays_BN1)
        met_BNE = met_BNE | self._of_entries((done_BNP == self.lengths_BP[:, None]) & (done_BNP > 0))
        costs_BP = self.costs_BE.gather(1, self.entries_BP)
        ahead_BNP = (costs_BP - self.lengths_BP)[:, None] + done_BNP
        ahead_BNP = ahead_BNP.clamp(min=0).masked_fill(self._of_phrases(met_BNE) | (done_BNP == 0), 0)
        banks_BN: Tensor = (met_BNE * self.costs_BE[:, None]).sum(dim=2) + ahead_BNP.amax(dim=2)
        return banks_BN

    def _joins(self, tokens_BN: Tensor) -> Tensor:
        return self.joining_BJ.gather(1, tokens_BN.clamp(0, self.joining_BJ.size(1) - 1)) & (tokens_BN >= 0)

    def _of_entries(self, of_phrases_BKP: Tensor) -> Tensor:
        """Returns for each entry whether any of its phrases has the property."""
        counts_BKE = torch.zeros(*of_phrases_BKP.shape[:2], self.costs_BE.size(1), device=of_phrases_BKP.device)
        index = self.entries_BP[:, None].expand_as(of_phrases_BKP)
        return counts_BKE.scatter_add_(2, index, of_phrases_BKP.to(counts_BKE.dtype)) > 0

    def _of_phrases(self, of_entries_BKE: Tensor) -> Tensor:
        """Returns for each phrase whether its entry has the property."""
        return of_entries_BKE.gather(2, self.entries_BP[:, None].expand(-1, of_entries_BKE.size(1), -1))


def required_phrases(
    constraints: Sequence[TokenConstraints], device: torch.device | str = "cpu"
) -> RequiredPhrases | None:
    """Returns the phrases that the outputs of a batch must contain, or None where nothing is required.

    `constraints` are of each sentence, or none at all; no phrase is empty.
    """
    required = [each.required for each in constraints]
    if not any(required):
        return None
    num_phrases = max(sum(map(len, entries)) for entries in required)
    longest = max(len(phrase) for entries in required for entry in entries for phrase in entry)
    phrases = torch.full((len(required), num_phrases, longest), _NO_TOKEN)
    lengths, owners = (torch.zeros(len(required), num_phrases, dtype=torch.long) for _ in range(2))
    costs = torch.zeros(len(required), max(map(len, required)), dtype=torch.long)
    distinct = {id(each.joining): each.joining for each in constraints if each.joining}
    ids_of = {key: torch.tensor(ids) for key, ids in distinct.items()}  # most often one tuple for all, and it is long
    greatest = max((int(ids.max()) for ids in ids_of.values()), default=-1)
    joins = torch.zeros(len(required), greatest + 2, dtype=torch.bool)
    for sentence, (entries, joining) in enumerate((each.required, each.joining) for each in constraints):
        flat = [(phrase, owner) for owner, entry in enumerate(entries) for phrase in entry]
        for index, (phrase, owner) in enumerate(flat):
            phrases[sentence, index, : len(phrase)] = torch.tensor(phrase)
            lengths[sentence, index], owners[sentence, index] = len(phrase), owner
        for owner, entry in enumerate(entries):
            costs[sentence, owner] = min(map(len, entry))
        if joining:
            joins[sentence, ids_of[id(joining)]] = True
    return RequiredPhrases(*(part.to(device) for part in (phrases, lengths, owners, costs, joins)))


def required_candidates(
    gains_RV: Tensor, scores_BK: Tensor, past_BKT: Tensor, required: RequiredPhrases, beam_size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns each sentence's candidates, as (scores, beams, tokens), each (B, 2 × beam_size).

    First those that do not end, best first, then those that do: they have met all entries, and are among the best
    2 × beam_size that have. Where there are fewer of either, the gaps score -inf. Candidates are chosen from each
    beam's own best 2 × beam_size continuations, and the next tokens of its unmet phrases. For a sentence without
    required phrases this is what `best_candidates` finds.

    Overwrites the gains: beams that have not met all entries cannot end.
    """
    progress = required.progress(past_BKT)
    unmet_BK = required.unmet(progress).any(dim=2)
    gains_RV[:, EOS] = gains_RV[:, EOS].masked_fill(unmet_BK.flatten(), -torch.inf)
    own_RC, own_tokens_RC = best_of_each_beam(gains_RV, 2 * beam_size)
    offered_BKO, valid_BKO = required.offers(progress)
    offered_RO = offered_BKO.flatten(0, 1)
    known_RO = (offered_RO[:, :, None] == own_tokens_RC[:, None]).any(dim=2)
    repeated_RO = ((offered_RO[:, :, None] == offered_RO[:, None]) & valid_BKO.flatten(0, 1)[:, None]).tril(-1)
    invalid_RO = ~valid_BKO.flatten(0, 1) | known_RO | repeated_RO.any(dim=2)
    offers_RO = gains_RV.gather(1, offered_RO).masked_fill(invalid_RO, -torch.inf)
    gains_RN = torch.cat([own_RC, offers_RO], dim=1)
    scores_BN, beams_BN, tokens_BN = ranked(gains_RN, torch.cat([own_tokens_RC, offered_RO], dim=1), scores_BK)
    banks_BN = required.banks(progress, beams_BN, tokens_BN)
    possible_BN, ends_BN = scores_BN > -torch.inf, tokens_BN == EOS
    complete_BN = possible_BN & (banks_BN == required.total_B[:, None])
    ending_BN = complete_BN & ends_BN & (complete_BN.cumsum(dim=1) <= 2 * beam_size)
    open_BN = possible_BN & ~ends_BN
    opened_BK = _allocate(banks_BN, open_BN, beam_size)
    ended_BK = torch.where(ending_BN, 0, 1).sort(dim=1, stable=True).indices[:, :beam_size]
    index_BC = torch.cat([opened_BK, ended_BK], dim=1)
    rejected_BC = ~torch.cat([open_BN.gather(1, opened_BK), ending_BN.gather(1, ended_BK)], dim=1)
    scores_BC = scores_BN.gather(1, index_BC).masked_fill(rejected_BC, -torch.inf)
    beams_BC, tokens_BC = (x.gather(1, index_BC).masked_fill(rejected_BC, 0) for x in (beams_BN, tokens_BN))
    return padded_candidates(scores_BC, beams_BC, tokens_BC, 2 * beam_size)


def _allocate(banks_BN: Tensor, allowed_BN: Tensor, count: int) -> Tensor:
    """Returns the indices of the `count` candidates to keep open, in the order of the candidates, which is by score.

    The best candidate of the highest bank is kept regardless of its score. The next token of an unmet phrase is always
    offered to it, so the highest bank grows by one at each step, and all entries are met after as many steps as they
    have tokens. Then come the best of each bank, then the seconds, and so on, each in order of score: a likely
    candidate that has few of the phrases keeps its chance to meet the rest where they fit.
    """
    index_BN = torch.arange(banks_BN.size(1), device=banks_BN.device).expand_as(banks_BN)
    banks_BN = banks_BN.masked_fill(~allowed_BN, -1)
    sorted_BN, order_BN = banks_BN.sort(dim=1, stable=True)
    starts_BN = torch.ones_like(allowed_BN)
    starts_BN[:, 1:] = sorted_BN[:, 1:] != sorted_BN[:, :-1]
    first_BN = torch.where(starts_BN, index_BN, 0).cummax(dim=1).values
    ranks_BN = torch.zeros_like(banks_BN).scatter_(1, order_BN, index_BN - first_BN)
    highest_BN = (banks_BN == banks_BN.amax(dim=1, keepdim=True)) & (ranks_BN == 0)
    ranks_BN = ranks_BN.masked_fill(highest_BN, -1).masked_fill(~allowed_BN, banks_BN.size(1))
    return ranks_BN.sort(dim=1, stable=True).indices[:, :count].sort(dim=1).values
