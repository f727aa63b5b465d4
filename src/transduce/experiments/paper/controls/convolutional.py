"""A convolutional transducer: gated convolutions, and attention in each layer of the decoder (ConvS2S, in small).

Gehring et al. 2017, "Convolutional sequence to sequence learning" (arXiv 1705.03122): kernels of three positions, gated
linear units, weight normalisation, sums scaled by √½, one head in each decoder layer, whose values are the encoder's
outputs plus the embeddings, and gradients of the encoder divided by the number of attentions. What differs: the
positions are those of `ModelConfig`, and one table serves both sides and the output.
"""

import math
from collections.abc import Iterable, Iterator
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transduce.config import ModelConfig
from transduce.experiments.paper.controls.control import Control, ControlMemory, ControlState
from transduce.model.attention import attend, attend_step
from transduce.model.dropout import dropout
from transduce.model.flops import BatchSizes
from transduce.model.positions import Positions
from transduce.model.transformer import padding_mask

KERNEL = 3  # positions
_HALF = math.sqrt(0.5)  # keeps the variance of a sum of two
_DEVIATION = 0.1  # of embeddings and positions at first: greater ones would begin with saturated attention


class NormedLinear(nn.Module):
    """x Wᵀ + b, where row i of W is g_i v_i / |v_i| (weight normalisation, Salimans and Kingma 2016)."""

    def __init__(self, num_inputs: int, num_outputs: int, variance: float) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.randn(num_outputs, num_inputs) * math.sqrt(variance / num_inputs))
        self.gain = nn.Parameter(self.direction.detach().norm(dim=1))
        self.bias = nn.Parameter(torch.zeros(num_outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Maps (…, in) to (…, out)."""
        return F.linear(x, self.direction * (self.gain / self.direction.norm(dim=1))[:, None], self.bias)


class Convolution(NormedLinear):
    """A gated linear unit of a convolution over `KERNEL` positions: a · σ(b), for its two halves a and b."""

    def __init__(self, config: ModelConfig) -> None:
        # Gated units quarter the variance of small inputs; dropout multiplies it by 1 / (1 - p).
        super().__init__(KERNEL * config.d_model, 2 * config.d_model, 4 * (1 - config.dropout))

    def over(self, x_BTD: Tensor, before: int) -> Tensor:
        """Maps (B, T, D) to (B, T, D); a position sees `before` positions before it, and the others after it."""
        padded = F.pad(x_BTD, (0, 0, before, KERNEL - 1 - before))
        return F.glu(self(padded.unfold(1, KERNEL, 1).flatten(2)), dim=-1)

    def newest(self, window_RKD: Tensor) -> Tensor:
        """Returns what `over` gives for the last of `KERNEL` positions, (R, D)."""
        return F.glu(self(window_RKD.transpose(1, 2).flatten(1)), dim=-1)


class Attention(nn.Module):
    """q = W x + target embedding; softmax(q · keys) values, back through another W: one head, without 1/√d_k."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d = config.d_model
        self.query, self.output = NormedLinear(d, d, 1.0), NormedLinear(d, d, 1.0)
        self.factor = _HALF * math.sqrt(d)  # `attend` divides by √d

    def queries(self, x: Tensor, embedded: Tensor) -> Tensor:
        """Returns queries (…, D)."""
        queries: Tensor = (self.query(x) + embedded) * self.factor
        return queries

    def added(self, x: Tensor, found: Tensor) -> Tensor:
        """Returns `x` plus what was found, (…, D)."""
        summed: Tensor = (self.output(found) + x) * _HALF
        return summed


class ConvolutionalTransducer(Control):
    """Convolutions over both sides, those of the target causal."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        d, kept = config.d_model, 1 - config.dropout
        self.source_positions, self.target_positions = Positions(config), Positions(config)
        for name, parameter in self.named_parameters():
            if name.endswith("table"):
                nn.init.normal_(parameter)
        self.encoder = nn.ModuleList(Convolution(config) for _ in range(config.num_encoder_layers))
        self.decoder = nn.ModuleList(Convolution(config) for _ in range(config.num_decoder_layers))
        self.attentions = nn.ModuleList(Attention(config) for _ in range(config.num_decoder_layers))
        self.encoder_in, self.decoder_in = NormedLinear(d, d, kept), NormedLinear(d, d, kept)
        self.encoder_out, self.decoder_out = NormedLinear(d, d, 1.0), NormedLinear(d, d, 1.0)
        self.max_positions = self.source_positions.limit

    def encode(self, source_BS: Tensor, source_lengths_B: Tensor) -> ControlMemory:
        """Returns the encoder's outputs as keys, and the values, both (B, 1, S, D)."""
        mask = padding_mask(source_lengths_B, source_BS.size(1), source_BS.device)
        real = None if mask is None else mask[:, 0, 0, :, None]
        positions_SD = self.source_positions(0, source_BS.size(1))
        embedded = self._dropped(_DEVIATION * (self.embed(source_BS) + positions_SD))
        x = self.encoder_in(embedded)
        for convolution in cast(Iterable[Convolution], self.encoder):
            shown = self._dropped(x) if real is None else self._dropped(x) * real  # padding is zero for a kernel
            x = (convolution.over(shown, KERNEL // 2) + x) * _HALF
        key = self.encoder_out(x)
        share = 1 / (2 * len(self.attentions))
        key = key * share + key.detach() * (1 - share)
        num_read_B = source_lengths_B.clamp(min=1).to(key.device, key.dtype)
        value = (key + embedded) * (_HALF * num_read_B.sqrt()[:, None, None])  # else a mean of S shrinks with S
        return ControlMemory(key[:, None], value[:, None], mask)

    def decode_states(self, memory: ControlMemory, inputs_BT: Tensor) -> Tensor:
        """Returns the decoder's output after each of the inputs, (B, T, D)."""
        positions_TD = self.target_positions(0, inputs_BT.size(1))
        embedded = self._dropped(_DEVIATION * (self.embed(inputs_BT) + positions_TD))
        x = self.decoder_in(embedded)
        for convolution, attention in self._decoder_layers():
            gated = convolution.over(self._dropped(x), KERNEL - 1)
            query_B1TD = attention.queries(gated, embedded)[:, None]
            found = attend(query_B1TD, *memory.keys_and_values, memory.attend_mask)[:, 0]
            x = (attention.added(gated, found) + x) * _HALF
        return self._dropped(self.decoder_out(x))

    def start(self, memory: ControlMemory, *, max_steps: int) -> ControlState:
        """Returns the state before the first step; the past is each layer's last inputs, (R, `KERNEL` - 1, D)."""
        zeros = memory.key_BHSE.new_zeros(memory.key_BHSE.size(0), KERNEL - 1, self.config.d_model)
        return ControlState(memory, (zeros,) * len(self.decoder))

    def step(self, tokens_R: Tensor, state: ControlState) -> tuple[Tensor, ControlState]:
        """Feeds one token to each row; returns logits (R, V) and the next state."""
        position_1D = self.target_positions(state.position, state.position + 1)
        embedded_RD = _DEVIATION * (self.embed(tokens_R) + position_1D)
        x_RD, past, bias = self.decoder_in(embedded_RD), list[Tensor](), state.memory.bias()
        for (convolution, attention), seen in zip(self._decoder_layers(), state.past, strict=True):
            window_RKD = torch.cat([seen, x_RD[:, None]], dim=1)
            past.append(window_RKD[:, 1:])
            gated_RD = convolution.newest(window_RKD)
            query_B1KD = attention.queries(gated_RD, embedded_RD).unflatten(0, (state.num_sentences, 1, -1))
            found_RD = attend_step(query_B1KD, *state.memory.keys_and_values, bias).flatten(0, 2)
            x_RD = (attention.added(gated_RD, found_RD) + x_RD) * _HALF
        return self.logits(self.decoder_out(x_RD)), state.advance(tuple(past))

    def multiplications(self, sizes: BatchSizes) -> int:
        """Returns those of a forward pass: a gated convolution has `KERNEL` · d · 2 d at each position."""
        d = self.config.d_model
        sources, targets = sizes.num_sentences * sizes.source, sizes.num_sentences * sizes.target
        convolution = 2 * KERNEL * d * d
        encoder = sources * (len(self.encoder) * convolution + 2 * d * d)
        decoder = targets * (len(self.decoder) * (convolution + 2 * d * d + sizes.source * 2 * d) + 2 * d * d)
        return encoder + decoder

    def _decoder_layers(self) -> Iterator[tuple[Convolution, Attention]]:
        pairs = zip(self.decoder, self.attentions, strict=True)
        return cast(Iterator[tuple[Convolution, Attention]], pairs)

    def _dropped(self, x: Tensor) -> Tensor:
        return dropout(x, self.config.dropout, self.training)
