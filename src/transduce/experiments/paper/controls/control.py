"""What the controls share: the table of embeddings, weights by name, and the state of a search."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transduce.config import ModelConfig
from transduce.config.choices import EMBEDDINGS
from transduce.config.special_ids import BOS
from transduce.errors import BundleError, ConfigError
from transduce.model.attention import mask_bias
from transduce.model.block_heads import BlockHeads
from transduce.model.flops import BatchSizes
from transduce.model.packing import real_positions


@dataclass(frozen=True)
class ControlMemory:
    """What the decoder attends to, one row a sentence."""

    key_BHSE: Tensor
    value_BHSE: Tensor
    attend_mask: Tensor | None  # (B, 1, 1, S), True at real tokens; None where there is no padding

    @property
    def keys_and_values(self) -> tuple[Tensor, Tensor]:
        """Keys and values."""
        return self.key_BHSE, self.value_BHSE

    def bias(self) -> Tensor | None:
        """Returns the mask as `attend_step` wants it."""
        return mask_bias(self.attend_mask, self.key_BHSE.size(1), self.key_BHSE.dtype)

    def keep(self, sentences_B: Tensor) -> Self:
        """Returns the memory of the given sentences, in that order."""
        mask = None if self.attend_mask is None else self.attend_mask.index_select(0, sentences_B)
        key, value = (each.index_select(0, sentences_B) for each in self.keys_and_values)
        return replace(self, key_BHSE=key, value_BHSE=value, attend_mask=mask)


@dataclass(frozen=True)
class ControlState:
    """What the next step needs; `transduce.decoding.step.State`."""

    memory: ControlMemory
    past: tuple[Tensor, ...]  # (R, …) each: what a row keeps of its tokens so far
    position: int = 0

    @property
    def num_sentences(self) -> int:
        """The number of sentences, each of which has equally many rows."""
        return self.memory.key_BHSE.size(0)

    def advance(self, past: tuple[Tensor, ...]) -> Self:
        """Returns the state after one more token."""
        return replace(self, past=past, position=self.position + 1)

    def expand(self, num_beams: int) -> Self:
        """Goes from one row to `num_beams` equal rows a sentence."""
        return replace(self, past=tuple(each.repeat_interleave(num_beams, dim=0) for each in self.past))

    def reorder(self, rows_R: Tensor) -> Self:
        """Makes row r the continuation of the old row `rows_R[r]`."""
        return replace(self, past=tuple(each.index_select(0, rows_R) for each in self.past))

    def keep(self, sentences_B: Tensor) -> Self:
        """Keeps all rows of the given sentences, in the given order."""
        rows = (each.unflatten(0, (self.num_sentences, -1)).index_select(0, sentences_B) for each in self.past)
        return replace(self, memory=self.memory.keep(sentences_B), past=tuple(each.flatten(0, 1) for each in rows))


class Control(nn.Module, ABC):
    """A transducer that `transduce.training.trainer.Trainer` trains and `transduce.decoding` searches.

    One table embeds both sides and projects to the vocabulary, times √d_model where it embeds, as in the Transformer
    (§3.4). Sources and targets are what `transduce.model.Transformer` takes. Suffixes: `transduce.model.attention`.
    """

    output_bias: Tensor | None = None
    max_positions: int | None = None

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        if len(EMBEDDINGS[config.tie_embeddings]) > 1 or config.d_model % 2:
            raise ConfigError(
                f"model.tie_embeddings = {config.tie_embeddings!r}, model.d_model = {config.d_model}: a control needs "
                "'all' and an even number."
            )
        self.config = config
        self.checkpointing = self.rounded_shapes = False  # not used: no layer is computed twice
        self.block_heads: BlockHeads | None = None
        self.embedding = nn.Parameter(torch.empty(config.vocab_size, config.d_model))
        nn.init.normal_(self.embedding, 0.0, config.d_model**-0.5)

    @abstractmethod
    def encode(self, source_BS: Tensor, source_lengths_B: Tensor) -> ControlMemory:
        """Returns what the decoder attends to."""

    @abstractmethod
    def decode_states(self, memory: ControlMemory, inputs_BT: Tensor) -> Tensor:
        """Returns the decoder's output after each of the inputs, of which BOS is the first, (B, T, D)."""

    @abstractmethod
    def start(self, memory: ControlMemory, *, max_steps: int) -> ControlState:
        """Returns the state before the first step, one row a sentence."""

    @abstractmethod
    def step(self, tokens_R: Tensor, state: ControlState) -> tuple[Tensor, ControlState]:
        """Feeds one token to each row (BOS first); returns logits (R, V), float32, and the next state."""

    @abstractmethod
    def multiplications(self, sizes: BatchSizes) -> int:
        """Returns the multiplications of all matrix products of a forward pass but the projection to the vocabulary."""

    def training_flops(self, sizes: BatchSizes) -> int:
        """Returns the operations of a training step, counted as `transduce.model.flops` does; padding is computed."""
        projection = sizes.predicted_tokens * self.config.d_model * self.config.vocab_size
        return 6 * (self.multiplications(sizes) + projection)

    def forward(
        self, source_BS: Tensor, source_lengths_B: Tensor, target_BT: Tensor, target_lengths_B: Tensor
    ) -> Tensor:
        """Returns the decoder's output at each real target position, (N, D), sentence after sentence."""
        inputs_BT = F.pad(target_BT[:, :-1], (1, 0), value=BOS)
        states_BTD = self.decode_states(self.encode(source_BS, source_lengths_B), inputs_BT)
        real_N = real_positions(target_lengths_B, target_BT.size(1), target_BT.device)
        return states_BTD.flatten(0, 1).index_select(0, real_N)

    def embed(self, tokens: Tensor) -> Tensor:
        """Returns embeddings × √d_model."""
        return F.embedding(tokens, self.embedding) * math.sqrt(self.config.d_model)

    def logits(self, states: Tensor) -> Tensor:
        """Projects states (…, D) to logits (…, V), float32."""
        return F.linear(states, self.embedding).float()

    @property
    def output_embedding(self) -> Tensor:
        """The matrix of the output projection."""
        return self.embedding

    @property
    def num_parameters(self) -> int:
        """The number of parameters."""
        return sum(parameter.numel() for parameter in self.parameters())

    def weights(self) -> dict[str, Tensor]:
        """Returns each parameter, by name."""
        return {name: parameter.detach() for name, parameter in self.named_parameters()}

    def require_shapes(self, found: Mapping[str, tuple[int, ...]], where: str) -> None:
        """Raises BundleError, naming the first that differs, unless `found` are the names and shapes of the weights."""
        wanted = {name: tuple(weight.shape) for name, weight in self.weights().items()}
        differing = [name for name in sorted({*wanted, *found}) if wanted.get(name) != found.get(name)]
        if differing:
            name = differing[0]
            raise BundleError(f"{where}: weight {name} is {found.get(name)}, and this model has {wanted.get(name)}.")

    def load_weights(self, weights: Mapping[str, np.ndarray | Tensor], where: str = "weights") -> None:
        """Copies `weights` in; raises BundleError where they do not fit."""
        self.require_shapes({name: tuple(weight.shape) for name, weight in weights.items()}, where)
        with torch.no_grad():
            for name, parameter in self.weights().items():
                parameter.copy_(torch.as_tensor(weights[name]))
