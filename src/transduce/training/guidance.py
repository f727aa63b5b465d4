"""A parser's attention held to the word it is at, so that it learns early which one that is.

A target of brackets and tags says nothing of its words: each tag is of the next one, and every bracket stands before
the first of the words that are still to come. Where the alignment is known, a head can be told of it (Chen et al. 2016,
"Guided alignment training"): the first one of each decoder layer but the outermost. The model is the paper's as it was;
a loss is added in training, and nothing to what the model computes.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from transduce.training.batch import Batch


class Guidance:
    """The loss, for one vocabulary."""

    def __init__(self, weight: float, begins_word: Sequence[bool], begins_tag: Sequence[bool]) -> None:
        """Takes the loss's weight, and for each id whether it begins a word of a source, and a tag of a target."""
        self.weight = weight
        self._begins_word_V, self._begins_tag_V = torch.tensor(begins_word), torch.tensor(begins_tag)

    def aligned(self, batch: Batch) -> Tensor:
        """Returns which pieces of the source are those of the word that each target piece is at, (B, T, S).

        Word n is at hand from the piece after tag n - 1 to the beginning of tag n; after the last one it is EOS.
        """
        source_BS, target_BT = batch.source_BS.cpu(), batch.target_BT.cpu()
        real_BS = torch.arange(source_BS.size(1)) < batch.source_lengths_B[:, None]
        ends_BS = torch.arange(source_BS.size(1)) == batch.source_lengths_B[:, None] - 1  # EOS stands after the words
        word_BS = (self._begins_word_V[source_BS] | ends_BS).cumsum(1) - 1
        begins_BT = self._begins_tag_V[target_BT].long()
        at_BT = begins_BT.cumsum(1) - begins_BT
        last_B = word_BS.gather(1, batch.source_lengths_B[:, None] - 1)
        at_BT = torch.minimum(at_BT, last_B)
        return ((word_BS[:, None] == at_BT[:, :, None]) & real_BS[:, None]).to(batch.source_BS.device)

    def loss(self, scores_LBTS: Sequence[Tensor], batch: Batch) -> Tensor:
        """Returns weight · -Σ log(attention to the aligned pieces), over target pieces; the mean over layers.

        Args:
            scores_LBTS: for each guided layer what its head attends by, before the softmax; padding is -inf.
            batch: what they are of.
        """
        aligned_BTS = self.aligned(batch)
        real_BT = (torch.arange(batch.target_BT.size(1)) < batch.target_lengths_B[:, None]).to(aligned_BTS.device)
        total = torch.zeros((), device=aligned_BTS.device)
        for scores_BTS in scores_LBTS:
            scores_BTS = scores_BTS.float()
            hit_BT = scores_BTS.masked_fill(~aligned_BTS, -torch.inf).logsumexp(-1)
            total = total + (scores_BTS.logsumexp(-1) - hit_BT)[real_BT].sum()
        return self.weight * total / len(scores_LBTS)
