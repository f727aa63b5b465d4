"""The attention weights of every layer and head, for a source and a given target (the data of Figures 3 to 5)."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from transduce.model.layers import DecoderLayer, EncoderLayer
from transduce.model.transformer import Transformer


@dataclass(frozen=True)
class AttentionMaps:
    """Weights by layer: [layer][b, h, query position, key position]; each row of real keys sums to 1.

    Decoder positions are those of the predictions: row t holds the weights with which target token t was predicted.
    """

    encoder: list[Tensor]  # (B, H, S, S)
    decoder: list[Tensor]  # (B, H, T, T), causal
    cross: list[Tensor]  # (B, H, T, S)


def attention_maps(model: Transformer, source_BS: Tensor, source_lengths_B: Tensor, target_BT: Tensor) -> AttentionMaps:
    """Runs `model` over whole sequences and returns all attention weights, without dropout.

    Args:
        model: its mode, training or evaluation, is restored.
        source_BS: ids that end in EOS, right-padded.
        source_lengths_B: lengths with EOS.
        target_BT: ids to predict, EOS last.
    """
    maps = AttentionMaps([], [], [])
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad(), ExitStack() as stack:
            for layer in model.modules():
                if isinstance(layer, EncoderLayer):
                    stack.enter_context(_recording(layer.self_attention, maps.encoder))
                elif isinstance(layer, DecoderLayer):
                    stack.enter_context(_recording(layer.self_attention, maps.decoder))
                    stack.enter_context(_recording(layer.cross_attention, maps.cross))
            model.decode(model.encode(source_BS, source_lengths_B), target_BT)
    finally:
        model.train(was_training)
    return maps


def _recording(attention: nn.Module, into: list[Tensor]) -> RemovableHandle:
    """Appends the attention's `weights` for each of its forward passes to `into`, until the handle is left."""

    def note(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> None:
        into.append(module.weights(*args, **kwargs))

    return attention.register_forward_hook(note, with_kwargs=True)
