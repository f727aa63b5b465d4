"""Greedy search: the most probable token at each step.

Shapes: B sentences still in the batch, V vocabulary, T tokens so far.
"""

from collections.abc import Sequence

import torch

from transduce.decoding.candidates import best_token
from transduce.decoding.restrictions import Restrictions
from transduce.decoding.scores import Hypothesis, SpecialIds, hypothesis
from transduce.decoding.step import S, Step, worth_shrinking


def greedy_search(
    step: Step[S],
    state: S,
    limits: Sequence[int],
    *,
    length_penalty: float = 0.0,
    specials: SpecialIds | None = None,
    restrictions: Restrictions | None = None,
    device: torch.device | str = "cpu",
) -> list[Hypothesis]:
    """Returns one hypothesis a sentence: what `beam_search` finds with a beam of 1, at less cost.

    Args:
        step: see `transduce.decoding.step`.
        state: one row a sentence, nothing decoded yet.
        limits: for each sentence, the greatest number of tokens of its output; EOS is not counted.
        length_penalty: α, for the scores; a beam of 1 has nothing to rank.
        specials: ids of the special tokens.
        restrictions: what outputs must begin with and may not hold; where they leave nothing, an output is unfinished.
        device: where `step` works.
    """
    specials = specials or SpecialIds()
    results: list[Hypothesis | None] = [None] * len(limits)
    sentences = list(range(len(limits)))  # row → place in `results`
    limits_B = torch.tensor(list(limits), device=device)
    scores_B = torch.zeros(len(limits), device=device)
    done_B = torch.zeros(len(limits), dtype=torch.bool, device=device)
    tokens_B = torch.full((len(limits),), specials.bos, device=device)
    output_BT = torch.zeros(len(limits), max(limits, default=0) + 1, dtype=torch.long, device=device)
    num_tokens = 0
    while sentences:
        logits_BV, state = step(tokens_B, state)
        restrict = None if restrictions is None else restrictions.after(output_BT[:, :num_tokens])
        tokens_B, gains_B = best_token(logits_BV, specials.never_generated, restrict)
        eos_B, last_B = tokens_B == specials.eos, limits_B == num_tokens
        if restrictions is not None:
            stuck_B = gains_B == -torch.inf
            eos_B, last_B = eos_B & ~stuck_B, last_B | stuck_B
        for row in ((eos_B | last_B) & ~done_B).nonzero().flatten().tolist():
            finished = bool(eos_B[row])
            total = float(scores_B[row] + gains_B[row]) if finished else float(scores_B[row])
            ids = output_BT[row, :num_tokens].tolist()
            results[sentences[row]] = hypothesis(ids, total, finished, length_penalty)
            done_B[row] = True
        scores_B += gains_B
        output_BT[:, num_tokens] = tokens_B
        num_tokens += 1
        num_done = int(done_B.sum())
        if num_done == len(sentences):
            break
        if worth_shrinking(num_done, len(sentences)):
            kept_B = (~done_B).nonzero().flatten()
            state = state.keep(kept_B)
            restrictions = None if restrictions is None else restrictions.keep(kept_B)
            sentences = [sentences[row] for row in kept_B.tolist()]
            limits_B, scores_B, done_B = limits_B[kept_B], scores_B[kept_B], done_B[kept_B]
            tokens_B, output_BT = tokens_B[kept_B], output_BT[kept_B]
    return [result for result in results if result is not None]
