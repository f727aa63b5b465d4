"""Guided attention: a loss that trains a head of the decoder to attend to the words that its output comes from.

Chen et al. 2016, "Guided alignment training for topic-aware neural machine translation". The model is not changed:
hooks read the attention scores of the guided layers. Their first head is trained.

- A parser's target of brackets and tags does not contain its words: each tag belongs to the next word, and each bracket
  comes before the next word. All decoder layers but the outermost two learn to attend to the word that the output is
  at.
- A translator learns the links that a statistical aligner finds in its training pairs, in one layer, as Garg et al.
  2019, "Jointly learning to align and translate with Transformer models", do: the last but one. The links of a target
  piece are learned in the step after it, which has read the piece (Chen et al. 2020, "Accurate word alignment induction
  from neural machine translation").
"""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from transduce.alignment.word_aligner import WordAligner
from transduce.config import Config
from transduce.config.aligning_heads import guided_head
from transduce.data.prepared import Prepared, require_aligner
from transduce.data.treebank_reader import beginnings
from transduce.data.word_links import PieceLinks
from transduce.model import Transformer
from transduce.model.attention import CrossAttention, attention_scores
from transduce.model.device import send
from transduce.model.packing import real_positions
from transduce.text import Tokenizer
from transduce.training.batch import Batch


class Alignment(Protocol):
    """Which source pieces each target piece is to attend to, and where.

    Attributes:
        links: finds the links that batches are made with; None where they need none.
    """

    links: PieceLinks | None

    def layers(self, model: Transformer) -> list[int]:
        """Returns the decoder layers that are guided, from 0."""

    def aligned(self, batch: Batch) -> Tensor:
        """Returns which source pieces each target piece is to attend to, (B, T, S); a row may have none."""


class CurrentWord:
    """The alignment of a parser, whose output is at one word of the sentence at a time."""

    links: PieceLinks | None = None

    def __init__(self, begins_word: Sequence[bool], begins_tag: Sequence[bool]) -> None:
        """Takes for each id whether it begins a source word, and whether it begins a tag."""
        self._begins_word_V, self._begins_tag_V = torch.tensor(begins_word), torch.tensor(begins_tag)

    def layers(self, model: Transformer) -> list[int]:
        """Returns the inner decoder layers; with two layers or fewer, all."""
        num_layers = model.config.num_decoder_layers
        return list(range(1, num_layers - 1) if num_layers > 2 else range(num_layers))

    def aligned(self, batch: Batch) -> Tensor:
        """Returns which source pieces belong to the word that each target piece is at, (B, T, S).

        They are at word n from the piece after tag n - 1 to the beginning of tag n; after the last tag, at EOS.
        """
        source_BS, target_BT, device = batch.source_BS, batch.target_BT, batch.source_BS.device
        if self._begins_word_V.device != device:
            self._begins_word_V, self._begins_tag_V = self._begins_word_V.to(device), self._begins_tag_V.to(device)
        position_1S, lengths_B1 = torch.arange(source_BS.size(1))[None], batch.source_lengths_B[:, None]
        real_BS, ends_BS = send(position_1S < lengths_B1, device), send(position_1S == lengths_B1 - 1, device)
        word_BS = (self._begins_word_V[source_BS] | ends_BS).cumsum(1) - 1  # EOS comes after the words
        begins_BT = self._begins_tag_V[target_BT].long()
        at_BT = begins_BT.cumsum(1) - begins_BT
        last_B = word_BS.gather(1, send((lengths_B1 - 1).clamp(min=0), device))
        at_BT = torch.minimum(at_BT, last_B)
        return (word_BS[:, None] == at_BT[:, :, None]) & real_BS[:, None]


class LinkedWords:
    """The alignment of a translator, by the links that its batches have."""

    def __init__(self, links: PieceLinks, layer: int) -> None:
        """Takes what finds the links, and the decoder layer that is guided, from 0."""
        self.links: PieceLinks | None = links
        self._layer = layer

    def layers(self, model: Transformer) -> list[int]:
        """Returns the guided layer."""
        return [self._layer]

    def aligned(self, batch: Batch) -> Tensor:
        """Returns which source pieces are linked with the target piece before each one, (B, T, S); many have none."""
        source_BS, target_BT = batch.source_BS, batch.target_BT
        shape = (*target_BT.shape, source_BS.size(1))
        aligned_BTS = torch.zeros(shape, dtype=torch.bool, device=source_BS.device)
        if batch.links_N3 is not None:
            sentences_N, targets_N, sources_N = batch.links_N3.unbind(1)
            aligned_BTS[sentences_N, targets_N + 1, sources_N] = True
        return aligned_BTS


class Guidance:
    """The loss for an alignment and the model that `watch` was given."""

    def __init__(self, weight: float, alignment: Alignment) -> None:
        """Takes the weight of the loss, and what heads are to attend to."""
        self.weight, self.alignment = weight, alignment
        self.scores_LBTS: list[Tensor] = []  # of the last forward pass in training

    def watch(self, model: Transformer) -> None:
        """Registers hooks that keep the attention scores of the guided heads in each forward pass of training."""
        layers = list(model.decoder_layers())
        guided = [layers[index].cross_attention for index in self.alignment.layers(model)]

        def keep(attention: CrossAttention, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if attention.training:
                x, (key_BHSE, _), attend_mask = args
                if attention is guided[0]:  # another forward pass begins
                    self.forget()
                query_B1TE = attention.project_query(x, kwargs["packing"])[:, :1]  # of the first head
                own_1E = None if attention.score_HE is None else attention.score_HE[:1]
                scores_BTS = attention_scores(query_B1TE, key_BHSE[:, :1], own_1E)[:, 0]
                if attend_mask is not None:
                    scores_BTS = scores_BTS.masked_fill(~attend_mask[:, 0], -math.inf)
                self.scores_LBTS.append(scores_BTS)

        for attention in guided:
            attention.register_forward_pre_hook(keep, with_kwargs=True)

    def forget(self) -> None:
        """Frees the scores of the last forward pass, and with them what its gradient would need."""
        self.scores_LBTS.clear()

    def loss(self, scores_LBTS: Sequence[Tensor], batch: Batch) -> Tensor:
        """Returns weight · -Σ log(attention to the aligned pieces), over target pieces; the mean over layers.

        A target piece that is aligned with nothing adds nothing.

        Args:
            scores_LBTS: attention scores of each guided head, before the softmax; padding is -inf.
            batch: the batch that they were computed for.
        """
        aligned_BTS = self.alignment.aligned(batch)
        aligned_BTS |= ~aligned_BTS.any(-1, keepdim=True)  # attention to any piece is 1, and its logarithm 0
        indices_N = real_positions(batch.target_lengths_B, batch.target_BT.size(1), aligned_BTS.device)
        total = torch.zeros((), device=aligned_BTS.device)
        for scores_BTS in scores_LBTS:
            scores_BTS = scores_BTS.float()
            hit_BT = scores_BTS.masked_fill(~aligned_BTS, -torch.inf).logsumexp(-1)
            total = total + (scores_BTS.logsumexp(-1) - hit_BT).flatten().index_select(0, indices_N).sum()
        return self.weight * total / len(scores_LBTS)


def guidance_of(config: Config, prepared: Prepared, tokenizer: Tokenizer) -> Guidance | None:
    """Returns the guidance of a training; None if it has none.

    Raises:
        DataError: the prepared folder has no aligner, and a translator is to be guided.
    """
    weight = config.train.guided_attention
    if (head := guided_head(config)) is not None:
        links = PieceLinks(WordAligner.load(require_aligner(prepared.folder)), tokenizer)
        return Guidance(weight, LinkedWords(links, head.layer))
    if weight:
        return Guidance(weight, CurrentWord(*beginnings(tokenizer.piece_bytes(range(tokenizer.vocab_size)))))
    return None
