"""From rows of the store to padded tensors."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from transduce.config.special_ids import EOS, PAD
from transduce.data.store import Pairs
from transduce.data.word_links import PieceLinks
from transduce.model.device import send
from transduce.model.flops import BatchSizes
from transduce.model.packing import ROUNDED_MULTIPLE, real_positions, rounded_size
from transduce.training.trainable import TrainableModel


@dataclass(frozen=True)
class Batch:
    """Source and target ids, each ending in EOS and right-padded; lengths count EOS and stay on the CPU.

    Sentences of length 0 may follow, which only fill up the batch.

    Attributes:
        links_N3: links of pieces: sentence, position in the target, position in the source; None if nothing needs them.
        head: which head of a model is trained; head i predicts the token i - 1 tokens after that of head 1.
    """

    source_BS: Tensor
    source_lengths_B: Tensor
    target_BT: Tensor
    target_lengths_B: Tensor
    links_N3: Tensor | None = None
    head: int = 1

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The arguments of a model's forward pass."""
        return self.source_BS, self.source_lengths_B, self.target_BT, self.target_lengths_B

    @property
    def num_target_tokens(self) -> int:
        """Target tokens that are predicted, EOS counted, padding not."""
        return int((self.target_lengths_B - (self.head - 1)).clamp(min=0).sum())

    @property
    def num_source_tokens(self) -> int:
        """The same of the source."""
        return int(self.source_lengths_B.sum())

    @property
    def sizes(self) -> BatchSizes:
        """What decides how many operations it costs."""
        num_sentences, source = self.source_BS.shape
        tokens = (self.num_source_tokens, int(self.target_lengths_B.sum()), self.num_target_tokens)
        return BatchSizes(num_sentences, source, self.target_BT.size(1), *tokens, head=self.head)

    @property
    def targets_N(self) -> Tensor:
        """The real target tokens end to end: what the decoder's outputs, (N, D), or those of `predicting_N` predict."""
        later, num_positions = self.head - 1, self.target_BT.size(1) - (self.head - 1)
        lengths_B = (self.target_lengths_B - later).clamp(min=0)
        indices_N = real_positions(lengths_B, max(0, num_positions), self.target_BT.device)
        return self.target_BT[:, later:].flatten().index_select(0, indices_N)

    @property
    def predicting_N(self) -> Tensor:
        """The index of each of the decoder's outputs that the head predicts a token from."""
        position_1T, lengths_B1 = torch.arange(self.target_BT.size(1))[None], self.target_lengths_B[:, None]
        predicts_N = (position_1T < lengths_B1 - (self.head - 1))[position_1T < lengths_B1]
        return send(predicts_N.nonzero().squeeze(1), self.target_BT.device)


def pad(
    sequences: Sequence[np.ndarray | Sequence[int]], *, rounded: bool = False, max_positions: int | None = None
) -> tuple[Tensor, Tensor]:
    """Appends EOS to each sequence and pads: ids (B, T) and lengths (B), both int64.

    With `rounded`, B and T are rounded up to few sizes; sequences that only fill up have the length 0. T is not rounded
    beyond `max_positions`, the positions that a model has learned.
    """
    lengths = np.fromiter((len(sequence) + 1 for sequence in sequences), np.int64, len(sequences))
    shape = len(sequences), int(lengths.max(initial=1))
    if rounded:
        positions = rounded_size(shape[1], ROUNDED_MULTIPLE)
        shape = rounded_size(shape[0]), positions if max_positions is None else min(positions, max_positions)
        lengths = np.pad(lengths, (0, shape[0] - len(sequences)))
    ids = np.full(shape, PAD, np.int64)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = sequence
        ids[row, len(sequence)] = EOS
    return torch.from_numpy(ids), torch.from_numpy(lengths)


def collate(
    pairs: Pairs,
    rows: np.ndarray,
    device: torch.device,
    *,
    model: TrainableModel | None = None,
    links: PieceLinks | None = None,
) -> Batch:
    """Returns the given rows of `pairs` as one batch on `device`.

    Args:
        pairs: those of a store, or of an epoch.
        rows: which of them.
        device: of the tensors.
        model: the batch is of rounded sizes if this model has them.
        links: finds the links of pieces, if the batch needs them.
    """
    rounded, max_positions = False, None
    if model is not None:
        rounded, max_positions = model.rounded_shapes, model.max_positions
    ids = pairs.pairs(rows)
    sides = (pad(each, rounded=rounded, max_positions=max_positions) for each in ids)
    (source_BS, source_lengths_B), (target_BT, target_lengths_B) = sides
    links_N3 = None if links is None else send(torch.from_numpy(links(*ids)), device)
    return Batch(send(source_BS, device), source_lengths_B, send(target_BT, device), target_lengths_B, links_N3)
