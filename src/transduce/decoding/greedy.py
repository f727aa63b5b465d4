"""Greedy search: the most probable token at each step.

Shapes: B sentences still in the batch, V vocabulary, T tokens so far.
"""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from transduce.decoding.banned_tokens import BannedTokens
from transduce.decoding.candidates import best_token
from transduce.decoding.finished import FinishedRows, SyncInterval
from transduce.decoding.scores import Hypothesis, SpecialIds
from transduce.decoding.step import S, Step


def greedy_search(
    step: Step[S],
    state: S,
    limits: Sequence[int],
    *,
    length_penalty: float = 0.0,
    specials: SpecialIds | None = None,
    banned: BannedTokens | None = None,
    device: torch.device | str = "cpu",
    look_every: int | None = None,
) -> list[Hypothesis]:
    """Returns one hypothesis a sentence: what `beam_search` finds with a beam of 1, at less cost.

    Args:
        step: see `transduce.decoding.step`.
        state: one row a sentence, nothing decoded yet.
        limits: for each sentence, the greatest number of tokens of its output; EOS is not counted.
        length_penalty: α, for the scores; a beam of 1 has nothing to rank.
        specials: ids of the special tokens.
        banned: what outputs must begin with and may not hold; where they leave nothing, an output is unfinished.
        device: where `step` works.
        look_every: see `beam_search`.
    """
    specials = specials or SpecialIds()
    finished = FinishedRows(limits, length_penalty=length_penalty, eos=specials.eos)
    look = SyncInterval(look_every, device, max(limits, default=0))
    tokens_B = torch.full((len(limits),), specials.bos, device=device)
    output_BT: Tensor | None = None  # what bans are functions of
    if banned is not None:
        output_BT = torch.zeros(len(limits), max(limits, default=0) + 1, dtype=torch.long, device=device)
    taken: list[tuple[Tensor, Tensor]] = []
    for num_tokens in itertools.count() if limits else ():
        logits_BV, state = step(tokens_B, state)
        restrict = None
        if banned is not None and output_BT is not None:
            restrict = banned.after(output_BT[:, :num_tokens])
        tokens_B, gains_B = best_token(logits_BV, specials.never_generated, restrict)
        taken.append((tokens_B, gains_B))
        if output_BT is not None:
            output_BT[:, num_tokens] = tokens_B
        if not look.now(num_tokens):
            continue
        finished.tell(taken)
        taken.clear()
        if finished.all_done:
            break
        stay = finished.drop_done()
        if stay is not None:
            kept_B = torch.tensor(stay, device=device)
            state, tokens_B = state.keep(kept_B), tokens_B[kept_B]
            banned = None if banned is None else banned.keep(kept_B)
            output_BT = None if output_BT is None else output_BT[kept_B]
    return [result for result in finished.results if result is not None]
