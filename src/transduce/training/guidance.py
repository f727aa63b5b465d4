"""Guided attention of a parser: a loss that trains a head of each inner layer to attend to the current word.

A target of brackets and tags does not contain its words: each tag belongs to the next word, and each bracket comes
before the next word. Since this alignment is known, heads can be trained to follow it (Chen et al. 2016, "Guided
alignment training"): the first head of each decoder layer but the outermost two. The model is not changed:
hooks read the attention scores of those layers.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from transduce.model import Transformer
from transduce.model.attention import CrossAttention, attention_scores
from transduce.model.device import send
from transduce.model.packing import real_positions
from transduce.training.batch import Batch


class Guidance:
    """The loss for a vocabulary and the model that `watch` was given."""

    def __init__(self, weight: float, begins_word: Sequence[bool], begins_tag: Sequence[bool]) -> None:
        """Takes the weight of the loss, and for each id whether it begins a source word and whether it begins a tag."""
        self.weight = weight
        self._begins_word_V, self._begins_tag_V = torch.tensor(begins_word), torch.tensor(begins_tag)
        self.scores_LBTS: list[Tensor] = []  # of the last forward pass in training

    def watch(self, model: Transformer) -> None:
        """Registers hooks that keep the attention scores of the guided heads in each forward pass of training.

        The inner decoder layers are guided; with two layers or fewer, all are.
        """
        layers = list(model.decoder_layers())
        guided = [layer.cross_attention for layer in (layers[1:-1] if len(layers) > 2 else layers)]

        def keep(attention: CrossAttention, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if attention.training:
                x, (key_BHSE, _), attend_mask = args
                if attention is guided[0]:  # another forward pass begins
                    self.scores_LBTS.clear()
                query_BTE = attention.project_query(x, kwargs["packing"])[:, 0]  # of the first head
                scores_BTS = attention_scores(query_BTE, key_BHSE[:, 0])
                if attend_mask is not None:
                    scores_BTS = scores_BTS.masked_fill(~attend_mask[:, 0], -math.inf)
                self.scores_LBTS.append(scores_BTS)

        for attention in guided:
            attention.register_forward_pre_hook(keep, with_kwargs=True)

    def aligned(self, batch: Batch) -> Tensor:
        """Returns which source pieces belong to the word that each target piece is at, (B, T, S).

        They are at word n from the piece after tag n - 1 to the beginning of tag n; after the last tag, at EOS.
        """
        source_BS, target_BT, device = batch.source_BS, batch.target_BT, batch.source_BS.device
        if self._begins_word_V.device != device:
            self._begins_word_V, self._begins_tag_V = self._begins_word_V.to(device), self._begins_tag_V.to(device)
        place_1S, lengths_B1 = torch.arange(source_BS.size(1))[None], batch.source_lengths_B[:, None]
        real_BS, ends_BS = send(place_1S < lengths_B1, device), send(place_1S == lengths_B1 - 1, device)
        word_BS = (self._begins_word_V[source_BS] | ends_BS).cumsum(1) - 1  # EOS comes after the words
        begins_BT = self._begins_tag_V[target_BT].long()
        at_BT = begins_BT.cumsum(1) - begins_BT
        last_B = word_BS.gather(1, send((lengths_B1 - 1).clamp(min=0), device))
        at_BT = torch.minimum(at_BT, last_B)
        return (word_BS[:, None] == at_BT[:, :, None]) & real_BS[:, None]

    def loss(self, scores_LBTS: Sequence[Tensor], batch: Batch) -> Tensor:
        """Returns weight · -Σ log(attention to the aligned pieces), over target pieces; the mean over layers.

        Args:
            scores_LBTS: attention scores of each guided head, before the softmax; padding is -inf.
            batch: the batch that they were computed for.
        """
        aligned_BTS = self.aligned(batch)
        indices_N = real_positions(batch.target_lengths_B, batch.target_BT.size(1), aligned_BTS.device)
        total = torch.zeros((), device=aligned_BTS.device)
        for scores_BTS in scores_LBTS:
            scores_BTS = scores_BTS.float()
            hit_BT = scores_BTS.masked_fill(~aligned_BTS, -torch.inf).logsumexp(-1)
            total = total + (scores_BTS.logsumexp(-1) - hit_BT).flatten().index_select(0, indices_N).sum()
        return self.weight * total / len(scores_LBTS)
