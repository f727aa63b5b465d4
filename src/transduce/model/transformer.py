"""The Transformer (§3, Figure 1): encoder, decoder, shared embeddings."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from transduce.config import ModelConfig
from transduce.config.choices import EMBEDDINGS, is_pre_norm, reads_source_end, starts_from_zero
from transduce.config.special_ids import BOS
from transduce.config.weights import TARGET_SPACES, require_memory, require_shapes
from transduce.model.attention import mask_bias
from transduce.model.block_heads import BlockHeads
from transduce.model.cache import DecoderState, LayerCache, Memory, StepCache, StepContext
from transduce.model.device import send
from transduce.model.dropout import dropout
from transduce.model.flops import BatchSizes, training_flops
from transduce.model.layers import DecoderLayer, Encoded, EncoderLayer
from transduce.model.packing import Packing, packed, real_positions, unpacked
from transduce.model.positions import Positions

Projection = Callable[[Tensor], Tensor]  # decoder outputs (…, D) to logits (…, V)

_INITIAL_STEPS = 64  # capacity of a new decoder cache; it doubles as needed
_MOST_PROGRAMS = 64  # of a compiled layer, for all kinds of batches: packed or not, masked or not, of one sentence


class Transformer(nn.Module):
    """An encoder-decoder Transformer of any shape that `ModelConfig` describes.

    Sources and targets are token ids that end in EOS, right-padded with 0; their lengths count EOS and are on the CPU.
    There are three ways to use it: `forward` for training (all target positions at once), `encode` + `start` + `step`
    for decoding, and `encode` + `decode` for logits of whole targets. Shape suffixes: `transduce.model.attention`.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        require_memory(config)  # before the system kills the process for it
        self.config = config
        self.source_embedding = nn.Parameter(torch.empty(config.vocab_size, config.d_model))
        self.target_embedding = self.source_embedding
        if "target_embedding" in EMBEDDINGS[config.tie_embeddings]:
            self.target_embedding = nn.Parameter(torch.empty(config.output_vocab_size, config.d_model))
        self.output_embedding = self.target_embedding
        if "output_embedding" in EMBEDDINGS[config.tie_embeddings]:
            self.output_embedding = nn.Parameter(torch.empty(config.output_vocab_size, config.d_model))
        self.output_bias: nn.Parameter | None = None
        if config.output_bias:
            self.output_bias = nn.Parameter(torch.empty(config.output_vocab_size))
        self.source_positions = Positions(config)
        self.target_positions = Positions(config)
        self.target_space: nn.Parameter | None = None
        if config.target_space_embedding:
            # DEVIATION: its problem id selects one of the released code's rows; ours is always the first.
            self.target_space = nn.Parameter(torch.empty(TARGET_SPACES, config.d_model))
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_decoder_layers))
        self.encoder_norm, self.decoder_norm = (
            nn.LayerNorm(config.d_model, eps=config.layer_norm_epsilon) if is_pre_norm(config) else nn.Identity()
            for _ in range(2)
        )
        self.block_heads = BlockHeads(config) if config.block_size > 1 else None
        self.checkpointing = False  # in training: keep each layer's input only, and compute the layer again backwards
        self.rounded_shapes = False  # in `forward`: few numbers of rows (`packing.num_rows`), for the same result
        self.output_projection: nn.Module | None = None  # replaces `output_embedding` in a prepacked model
        if not self.source_embedding.is_meta:  # there, drawing would only load PyTorch's compiler, for seconds
            self.initialise()

    @classmethod
    def from_weights(
        cls,
        config: ModelConfig,
        weights: Mapping[str, np.ndarray | Tensor],
        where: str = "weights",
        *,
        copy: bool = True,
    ) -> "Transformer":
        """Returns the model of `config` with these weights; their shapes are checked before it is built.

        No weight is drawn. Without `copy` the model shares the memory of float32 weights.

        Raises:
            BundleError: lists all names that are missing, unknown, or of another shape.
        """
        require_shapes(config, {name: tuple(weight.shape) for name, weight in weights.items()}, where)
        with torch.device("meta"):
            model = cls(config)
        given = {name: torch.as_tensor(weight, dtype=torch.float32) for name, weight in weights.items()}
        given = {name: weight.clone() if copy else weight for name, weight in given.items()}
        model.load_state_dict(given, strict=False, assign=True)
        own = EMBEDDINGS[config.tie_embeddings]
        for name in EMBEDDINGS["none"]:
            if name not in own:
                setattr(model, name, getattr(model, own[-1]))
        return model

    def initialise(self) -> None:
        """Draws all weights: Xavier uniform for each matrix, N(0, 1/d_model) for embeddings (as the released code).

        Learned positions are drawn as embeddings are, unless `model.position_deviation` says otherwise.

        W_Q, W_K and W_V are one matrix and are drawn as one, as in that code. Drawn separately, queries and keys would
        start larger, and post-norm models would learn to attend to the source far later (docs/lab-log.md).

        Heads of blockwise decoding begin as the identity: each first predicts what the ordinary output does.

        DEVIATION: the released code zeroes the padding row. Here it is like the others: no real position reads it.
        """
        deviation = self.config.d_model**-0.5
        for name, parameter in self.named_parameters():
            if name.endswith(("embedding", "table", "target_space")):
                of_positions = self.config.position_deviation if name.endswith("table") else 0.0
                nn.init.normal_(parameter, 0.0, of_positions or deviation)
            elif name.endswith("score_HE"):
                nn.init.normal_(parameter, 0.0, self.config.d_k**-0.5)
            elif name.endswith("bias") or name.startswith("block_heads.outer"):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 1:
                nn.init.ones_(parameter)
            else:
                nn.init.xavier_uniform_(parameter)

    def decoder_layers(self) -> Iterator[DecoderLayer]:
        """Returns the layers of the decoder, from the bottom up."""
        return cast(Iterator[DecoderLayer], iter(self.decoder))

    def compile(self, **options: Any) -> None:
        """Compiles each layer by itself, as `torch.nn.Module.compile` compiles a module.

        All layers of a stack run one compiled program, so that the time to compile does not grow with their number.
        What looks at lengths, and so would be compiled again and again, stays outside. So does a layer with hooks, such
        as those of guided attention: the program of a layer without them would not call them.
        """
        limits = torch._dynamo.config
        limits.recompile_limit = max(limits.recompile_limit, _MOST_PROGRAMS)  # beyond it, nothing more is compiled
        for layer in [*self.encoder, *self.decoder]:
            if not any(module._forward_pre_hooks for module in layer.modules()):
                layer.compile(**options)

    # --- encoder and decoder over whole sequences -------------------------------------------------------------

    def forward(
        self, source_BS: Tensor, source_lengths_B: Tensor, target_BT: Tensor, target_lengths_B: Tensor
    ) -> Tensor:
        """Returns the decoder's output at each real target position, (N, D), sentence after sentence.

        Position t of a target is predicted from positions before it: `target_BT` ends in EOS and is shifted here.
        """
        read_B = self._read(source_lengths_B)
        packing = Packing.of(read_B, source_BS.size(1), source_BS.device, rounded=self.rounded_shapes)
        mask = padding_mask(read_B, source_BS.size(1), source_BS.device)
        encoded = Encoded(self._encode(source_BS, mask, packing), mask, packing)
        return self._decode(encoded, target_BT, target_lengths_B)

    def encode(self, source_BS: Tensor, source_lengths_B: Tensor) -> Memory:
        """Returns the encoder's output, (B, S, D), and the mask of its padding."""
        read_B = self._read(source_lengths_B)
        packing = Packing.of(read_B, source_BS.size(1), source_BS.device)
        mask = padding_mask(read_B, source_BS.size(1), source_BS.device)
        states_BSD = unpacked(self._encode(source_BS, mask, packing), packing)
        if mask is not None and not reads_source_end(self.config):  # the same, packed or not
            states_BSD = states_BSD.masked_fill(~mask[:, 0, 0, :, None], 0)
        return Memory(states_BSD, mask)

    def decode(self, memory: Memory, target_BT: Tensor) -> Tensor:
        """Returns logits of each target position given those before it, (B, T, V), float32."""
        lengths_B = torch.full((target_BT.size(0),), target_BT.size(1))
        states = self._decode(Encoded(memory.states_BSD, memory.attend_mask, None), target_BT, lengths_B)
        return self.logits(states).view(*target_BT.shape, -1)

    def logits(self, states: Tensor) -> Tensor:
        """Projects decoder outputs (…, D) to logits (…, V), float32."""
        if self.output_projection is not None:
            logits: Tensor = self.output_projection(states)
            return logits
        return F.linear(states, self.output_embedding, self.output_bias).float()

    def _read(self, source_lengths_B: Tensor) -> Tensor:
        """Returns how many tokens of each source are read: all, or all but the EOS that follows others."""
        return source_lengths_B if reads_source_end(self.config) else source_lengths_B - (source_lengths_B > 1).long()

    def _encode(self, source_BS: Tensor, mask: Tensor | None, packing: Packing | None) -> Tensor:
        x: Tensor = self._embed(source_BS, self.source_embedding) + self.source_positions(0, source_BS.size(1))
        if self.target_space is not None:
            x = x + self.target_space[0]
        x = dropout(_in_compute_dtype(packed(x, packing)), self.config.dropout, self.training)
        checkpointing = self.checkpointing and torch.is_grad_enabled()
        for layer in self.encoder:
            inputs = (x, mask, packing)
            x = checkpoint(layer, *inputs, use_reentrant=False) if checkpointing else layer(*inputs)
        normed: Tensor = self.encoder_norm(x)
        return normed

    def _decode(self, encoded: Encoded, target_BT: Tensor, target_lengths_B: Tensor) -> Tensor:
        packing = Packing.of(target_lengths_B, target_BT.size(1), target_BT.device, rounded=self.rounded_shapes)
        x: Tensor = packed(self._embed_target(target_BT), packing)
        x = dropout(_in_compute_dtype(x), self.config.dropout, self.training)
        checkpointing = self.checkpointing and torch.is_grad_enabled()
        for layer in self.decoder_layers():
            inputs = (x, encoded, packing)
            x = checkpoint(layer, *inputs, use_reentrant=False) if checkpointing else layer(*inputs)
        x = self.decoder_norm(x)
        if packing is None:
            x = x.flatten(0, 1).index_select(0, real_positions(target_lengths_B, target_BT.size(1), x.device))
        elif self.rounded_shapes:
            x = x[: int(target_lengths_B.sum())]
        return x

    def _embed(self, tokens: Tensor, embedding: Tensor) -> Tensor:
        """Returns embeddings × √d_model (§3.4)."""
        return F.embedding(tokens, embedding) * math.sqrt(self.config.d_model)

    def _embed_target(self, target_BT: Tensor) -> Tensor:
        """Embeds BOS (or a zero vector) followed by all but the last target token, with positions."""
        inputs_BT = F.pad(target_BT[:, :-1], (1, 0), value=BOS)
        embedded_BTD = self._embed(inputs_BT, self.target_embedding)
        if starts_from_zero(self.config):
            first = torch.zeros_like(embedded_BTD[:, :1])
            embedded_BTD = torch.cat([first, embedded_BTD[:, 1:]], dim=1)
        positions_TD: Tensor = self.target_positions(0, target_BT.size(1))
        return embedded_BTD + positions_TD

    # --- decoding one position at a time ----------------------------------------------------------------------

    def start(self, memory: Memory, *, max_steps: int, coverage: bool = False) -> DecoderState:
        """Returns the state before the first step, one row a sentence, for at most `max_steps` steps.

        With `coverage` the state sums up what the last layer attends to (`DecoderState.coverage_BKS`).
        """
        config, num_sentences = self.config, memory.states_BSD.size(0)
        capacity = max(1, min(max_steps, _INITIAL_STEPS))
        layers = []
        for layer in self.decoder_layers():
            key, value = layer.cross_attention.project_memory(memory.states_BSD)
            key, value = key.contiguous(), value.contiguous()  # copied once here, because every step reads them
            shape = (num_sentences, config.num_heads, capacity, 1)
            layers.append(LayerCache(key.new_empty(*shape, config.d_k), key.new_empty(*shape, config.d_v), key, value))
        if coverage:
            nothing_B1S = memory.states_BSD.new_zeros(num_sentences, 1, memory.states_BSD.size(1), dtype=torch.float32)
            layers[-1] = replace(layers[-1], coverage_BKS=nothing_B1S)
        nothing_B1T = torch.empty(num_sentences, 1, 0, dtype=torch.long, device=memory.states_BSD.device)
        return DecoderState(tuple(layers), memory.attend_mask, nothing_B1T, max_steps, config.attention_window)

    def step(
        self, tokens_R: Tensor, state: DecoderState, projection: Projection | None = None
    ) -> tuple[Tensor, DecoderState]:
        """Feeds one token to each row (BOS first) and returns logits (R, V), float32, and the next state.

        The step writes to the cache of the given state, which must not be used again. `projection` replaces the output
        projection, for logits of a part of the vocabulary.
        """
        position, state = state.position, state.step()
        positions_1D = self.target_positions(position, position + 1)
        states_RD = self.step_states(tokens_R, positions_1D, state.layers, state, state.ancestor_mask())
        return self.logits(states_RD) if projection is None else projection(states_RD), state

    def step_states(
        self,
        tokens_R: Tensor,
        positions_1D: Tensor,
        caches: Sequence[StepCache],
        context: StepContext,
        past_mask: Tensor | None,
    ) -> Tensor:
        """Returns the decoder's output for one more token of each row, (R, D), and writes into `caches`.

        Args:
            tokens_R: the token that each row is fed.
            positions_1D: the vector of its position; for tokens at several, of each, (R, D).
            caches: one for each layer.
            context: the position (for tokens at several, that of each, (R, 1)), and what the step sees.
            past_mask: which of those keys each beam may see, (B, 1, K, T × K); None: all.
        """
        x_RD = self._embed(tokens_R, self.target_embedding)
        if starts_from_zero(self.config):
            x_RD = x_RD * (context.newest > 0)
        x_RD = x_RD + positions_1D
        x_BKD = x_RD.unflatten(0, (caches[0].memory_key_BHSE.size(0), -1))
        num_heads, dtype = self.config.num_heads, x_RD.dtype
        biases = (mask_bias(past_mask, num_heads, dtype), mask_bias(context.memory_mask, num_heads, dtype))
        for layer, cache in zip(self.decoder_layers(), caches, strict=True):
            x_BKD = layer.step(x_BKD, cache, context, biases)
        states_RD: Tensor = self.decoder_norm(x_BKD).flatten(0, 1)
        return states_RD

    # --- weights ----------------------------------------------------------------------------------------------

    @property
    def max_positions(self) -> int | None:
        """The longest sequence that a learned table of positions allows; None: any."""
        return self.source_positions.limit

    @property
    def num_parameters(self) -> int:
        """The number of parameters; a shared matrix counts once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def training_flops(self, sizes: BatchSizes) -> int:
        """Returns the operations of a training step on a batch; only heads are trained in evaluation mode."""
        return training_flops(self.config, sizes, rounded=self.rounded_shapes, frozen=not self.training)

    def weights(self) -> dict[str, Tensor]:
        """Returns each parameter once, by name."""
        return {name: parameter.detach() for name, parameter in self.named_parameters()}

    def require_shapes(self, found: Mapping[str, tuple[int, ...]], where: str) -> None:
        """Compares names and shapes of weights with this model's; `where` names their file in errors.

        Raises:
            BundleError: lists all names that are missing, unknown, or of another shape.
        """
        require_shapes(self.config, found, where)

    def load_weights(self, weights: Mapping[str, np.ndarray | Tensor], where: str = "weights") -> None:
        """Copies `weights` in; the names and shapes must be this model's exactly.

        Raises:
            BundleError: lists all names that are missing, unknown, or of another shape.
        """
        self.require_shapes({name: tuple(weight.shape) for name, weight in weights.items()}, where)
        with torch.no_grad():
            for name, parameter in self.weights().items():
                parameter.copy_(torch.as_tensor(weights[name]))


def padding_mask(lengths_B: Tensor, num_positions: int, device: torch.device) -> Tensor | None:
    """Returns the (B, 1, 1, S) mask of real tokens, or None where all are real.

    A sequence without any, which fills up a batch, sees its first position: the softmax over nothing is not finite.
    """
    real_BS = torch.arange(num_positions, device=lengths_B.device) < lengths_B.clamp(min=1)[:, None]
    return None if bool(real_BS.all()) else send(real_BS[:, None, None], device)


def _in_compute_dtype(x: Tensor) -> Tensor:
    """Converts activations to autocast's dtype once, before the first layer, instead of at each product."""
    device_type = x.device.type
    return x.to(torch.get_autocast_dtype(device_type)) if torch.is_autocast_enabled(device_type) else x
