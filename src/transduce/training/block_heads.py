"""Training of the heads that predict later tokens (`transduce.model.block_heads`): one head learns in each update.

Stern, Shazeer, Uszkoreit 2018: which head it is, is drawn anew for each batch. Its loss is that of head 1, with
targets that lie so many tokens later; the last tokens of a sentence have no later ones, and count in no loss.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.config.weights import BLOCK_HEADS
from transduce.training.batch import Batch
from transduce.training.device import Compute
from transduce.training.trainable import TrainableModel

_DRAW = 1 << 31  # makes the seeds of these draws other ones than those of dropout, which end in a rank
_LOGITS_BYTES = 16 << 20  # held at once


def trained_heads(model: TrainableModel) -> list[int]:
    """Returns the heads that updates train, from 1; head 1 is the model itself, which may be frozen, as may the others.

    A model without further heads has head 1 only.
    """
    if model.block_heads is None:
        return [1]
    is_later = {name.startswith(BLOCK_HEADS) for name, weight in model.named_parameters() if weight.requires_grad}
    first = [1] if False in is_later else []
    later = range(2, model.block_heads.block_size + 1) if True in is_later else []
    return [*first, *later]


def drawn_head(heads: Sequence[int], seed: int, step: int) -> int:
    """Returns the head that an update trains: it depends on the seed and the step alone.

    Head 1, where it learns, is drawn as often as all later heads together: it writes the output. Where all heads were
    drawn equally often, the output lost half of its BLEU (`experiments/2026-11-26-blockwise`).
    """
    drawn = int(np.random.SeedSequence([seed, step, _DRAW]).generate_state(1)[0])
    choices = [1] * max(1, len(heads) - 1) + [head for head in heads if head > 1] if 1 in heads else heads
    return choices[drawn % len(choices)]


def num_targets(target_lengths: NDArray[np.integer], head: int) -> int:
    """Returns how many tokens a head predicts in targets of these lengths; 1 where there are none, to divide by."""
    return max(1, int(np.maximum(target_lengths - (head - 1), 0).sum()))


def states_of_head(states_ND: Tensor, model: TrainableModel, batch: Batch) -> Tensor:
    """Returns the states that the targets of a batch are predicted from: the decoder's outputs, (N, D), or a head's."""
    if batch.head == 1:
        return states_ND
    assert model.block_heads is not None
    return model.block_heads.head(batch.head, states_ND.index_select(0, batch.predicting_N))


def pass_counts(model: TrainableModel, batch: Batch, compute: Compute) -> Tensor:
    """Returns how often the heads predict what the model itself will say, and what that saves, (2k,), float64.

    First for each of heads 2 … k: at how many positions its best token is the one that the ordinary output has there,
    so many tokens later. Then the same heads' numbers of positions. Then the target tokens, EOS counted, and the passes
    that a search with these heads makes for them, if the targets are what it finds: the first pass gives a token; each
    other one gives those that are predicted rightly, up to the first that is not, and a token more.
    """
    assert model.block_heads is not None
    block_size = model.block_heads.block_size
    with torch.no_grad(), compute.autocast():
        states_ND = model(*batch.inputs)
        heads = [states_ND, *(model.block_heads.head(head, states_ND) for head in range(2, block_size + 1))]
        best = torch.stack([_best_tokens(model, states_ND) for states_ND in heads]).cpu()
    counts = torch.zeros(2, block_size, dtype=torch.float64)  # the last column: tokens, and passes
    for best_kT in best.split(batch.target_lengths_B.tolist(), dim=1):
        length = best_kT.size(1)
        right = torch.zeros(block_size - 1, length, dtype=torch.bool)
        for index, later in enumerate(range(1, min(block_size, length))):
            right[index, : length - later] = best_kT[later, : length - later] == best_kT[0, later:]
            counts[1, index] += length - later
        counts[0, :-1] += right.sum(1)
        accepted_T = right.long().cumprod(0).sum(0).tolist()
        passes, at = 1, 0
        while at < length - 1:
            passes, at = passes + 1, at + 1 + accepted_T[at]
        counts[:, -1] += torch.tensor([length, passes])
    return torch.cat([counts[:, :-1].flatten(), counts[:, -1]])


def scores_of_counts(counts: Sequence[float]) -> dict[str, float]:
    """Returns the tokens a pass, and each head's share of right tokens, from the sum of `pass_counts`."""
    num_heads = len(counts) // 2 - 1
    right, tried, (tokens, passes) = counts[:num_heads], counts[num_heads:-2], counts[-2:]
    shares = {
        f"head_{number}": hits / max(of, 1) for number, (hits, of) in enumerate(zip(right, tried, strict=True), start=2)
    }
    return {"tokens_per_pass": tokens / max(passes, 1)} | shares


def _best_tokens(model: TrainableModel, states_ND: Tensor) -> Tensor:
    rows = max(1, _LOGITS_BYTES // (4 * model.output_embedding.size(0)))
    return torch.cat([model.logits(chunk_ND).argmax(dim=-1) for chunk_ND in states_ND.split(rows)])
