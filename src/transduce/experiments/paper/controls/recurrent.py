"""A recurrent transducer: LSTMs with residual connections, layer norm and multi-head attention (RNMT+, in small).

Chen, Firat et al. 2018, "The best of both worlds" (arXiv 1804.09849). What differs from theirs: norms are around the
layers and not within the gates, so that fused LSTM kernels can be used; and the lowest layer of the decoder does not
read the context of the step before, so that attention is computed for all positions at once in training.
"""

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from transduce.config import ModelConfig
from transduce.experiments.paper.controls.control import Control, ControlMemory, ControlState
from transduce.model.attention import CrossAttention
from transduce.model.device import send
from transduce.model.dropout import dropout
from transduce.model.flops import BatchSizes
from transduce.model.layers import Residual
from transduce.model.transformer import padding_mask


class RecurrentLayer(nn.Module):
    """An LSTM within a residual connection, whose input is `further` numbers wider than what it adds to."""

    def __init__(self, config: ModelConfig, *, further: int = 0, width: int | None = None) -> None:
        super().__init__()
        self.residual = Residual(config)
        self.lstm = _lstm(config.d_model + further, width or config.d_model)

    def forward(
        self, x_BTD: Tensor, further: tuple[Tensor, ...] = (), past: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Returns the layer's output, (B, T, D), and the LSTM's state after it, (1, B, D) each."""
        inputs = torch.cat([self.residual.enter(x_BTD), *further], dim=-1)
        hidden_BTD, state = self.lstm(inputs, past)
        return self.residual.leave(x_BTD, hidden_BTD), state


class BidirectionalLayer(RecurrentLayer):
    """Two LSTMs of half the width, of which one reads from the end of each sentence, side by side."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, width=config.d_model // 2)
        self.backwards = _lstm(config.d_model, config.d_model // 2)

    def read(self, x_BSD: Tensor, reversed_BS: Tensor) -> Tensor:
        """Returns the layer's output; `reversed_BS` has for each position the one that takes its place in reverse."""
        inputs_BSD = self.residual.enter(x_BSD)
        forwards = self.lstm(inputs_BSD)[0]
        backwards = _in_order(self.backwards(_in_order(inputs_BSD, reversed_BS))[0], reversed_BS)
        return self.residual.leave(x_BSD, torch.cat([forwards, backwards], dim=-1))


class RecurrentTransducer(Control):
    """A bidirectional encoder, and a decoder whose layers above the first read what attention finds in the source."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        d = config.d_model
        self.encoder = nn.ModuleList(BidirectionalLayer(config) for _ in range(config.num_encoder_layers))
        self.decoder = nn.ModuleList(
            RecurrentLayer(config, further=d if layer else 0) for layer in range(config.num_decoder_layers)
        )
        self.attention = CrossAttention(config)
        if self.attention.score_HE is not None:
            nn.init.normal_(self.attention.score_HE, 0.0, config.d_k**-0.5)
        norms = (nn.LayerNorm(d, eps=config.layer_norm_epsilon) for _ in range(3))
        self.encoder_norm, self.query_norm, self.decoder_norm = norms
        self.output = nn.Linear(2 * d, d)

    def encode(self, source_BS: Tensor, source_lengths_B: Tensor) -> ControlMemory:
        """Returns the keys and values of the encoder's output."""
        reversed_BS = send(reversed_positions(source_lengths_B, source_BS.size(1)), source_BS.device)
        x_BSD = self._embedded(source_BS)
        for layer in cast(Iterable[BidirectionalLayer], self.encoder):
            x_BSD = layer.read(x_BSD, reversed_BS)
        keys_and_values = self.attention.project_memory(self.encoder_norm(x_BSD))
        return ControlMemory(*keys_and_values, padding_mask(source_lengths_B, source_BS.size(1), source_BS.device))

    def decode_states(self, memory: ControlMemory, inputs_BT: Tensor) -> Tensor:
        """Returns the decoder's output after each of the inputs, (B, T, D)."""
        first, *others = self.decoder
        x_BTD, _ = first(self._embedded(inputs_BT))
        context_BTD = self.attention(self.query_norm(x_BTD), memory.keys_and_values, memory.attend_mask)
        context_BTD = dropout(context_BTD, self.config.dropout, self.training)
        for layer in others:
            x_BTD, _ = layer(x_BTD, (context_BTD,))
        return self._output(x_BTD, context_BTD)

    def start(self, memory: ControlMemory, *, max_steps: int) -> ControlState:
        """Returns the state before the first step; the past is the two parts of each LSTM's state, (R, D) each."""
        zeros_RD = memory.key_BHSE.new_zeros(memory.key_BHSE.size(0), self.config.d_model)
        return ControlState(memory, (zeros_RD,) * (2 * len(self.decoder)))

    def step(self, tokens_R: Tensor, state: ControlState) -> tuple[Tensor, ControlState]:
        """Feeds one token to each row; returns logits (R, V) and the next state."""
        memory, past = state.memory, list[Tensor]()
        x_R1D, further = self._embedded(tokens_R[:, None]), tuple[Tensor, ...]()
        for layer, hidden_RD, cell_RD in zip(self.decoder, state.past[::2], state.past[1::2], strict=True):
            x_R1D, (hidden, cell) = layer(x_R1D, further, (hidden_RD[None], cell_RD[None]))
            past += [hidden[0], cell[0]]
            if not further:
                query_BKD = self.query_norm(x_R1D).view(state.num_sentences, -1, self.config.d_model)
                found_BKD = self.attention.step(query_BKD, memory.keys_and_values, memory.bias())
                further = (found_BKD.flatten(0, 1)[:, None],)
        return self.logits(self._output(x_R1D, *further)[:, 0]), state.advance(tuple(past))

    def multiplications(self, sizes: BatchSizes) -> int:
        """Returns those of a forward pass: an LSTM of n inputs and m numbers has 4 · m · (n + m) at each position."""
        config, d = self.config, self.config.d_model
        sources, targets = sizes.num_sentences * sizes.source, sizes.num_sentences * sizes.target
        key, value = config.num_heads * config.d_k, config.num_heads * config.d_v
        half = d // 2
        encoder = sources * (config.num_encoder_layers * 2 * 4 * half * (d + half) + d * (key + value))
        upper = (config.num_decoder_layers - 1) * 4 * d * (2 * d + d)
        decoder = targets * (4 * d * 2 * d + upper + d * key + value * d + 2 * d * d)
        return encoder + decoder + targets * sizes.source * (key + value)

    def _embedded(self, tokens: Tensor) -> Tensor:
        return dropout(self.embed(tokens), self.config.dropout, self.training)

    def _output(self, x_BTD: Tensor, context_BTD: Tensor) -> Tensor:
        states_BTD: Tensor = self.output(torch.cat([self.decoder_norm(x_BTD), context_BTD], dim=-1))
        return dropout(states_BTD, self.config.dropout, self.training)


def reversed_positions(lengths_B: Tensor, num_positions: int) -> Tensor:
    """Returns the positions (B, S) in the order that reverses the real tokens of each sentence and leaves its padding.

    Lengths 3 and 2 of 3: [[2, 1, 0], [1, 0, 2]].
    """
    positions_S, lengths_B1 = torch.arange(num_positions), lengths_B[:, None]
    return torch.where(positions_S < lengths_B1, lengths_B1 - 1 - positions_S, positions_S)


def _in_order(x_BSD: Tensor, positions_BS: Tensor) -> Tensor:
    return x_BSD.gather(1, positions_BS[:, :, None].expand(-1, -1, x_BSD.size(2)))


def _lstm(num_inputs: int, width: int) -> nn.LSTM:
    """Returns an LSTM that remembers at first: the bias of the forget gate, the second of four, is 1."""
    lstm = nn.LSTM(num_inputs, width, batch_first=True)
    nn.init.ones_(lstm.get_parameter("bias_ih_l0")[width : 2 * width])
    return lstm
