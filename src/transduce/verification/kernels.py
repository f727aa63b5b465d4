"""Fast paths compared with slow, obvious ones: attention, weights in the CPU's layout, float32."""

import copy
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from torch import Tensor

from transduce.config.special_ids import EOS
from transduce.model.attention import CrossAttention, SelfAttention, project_heads
from transduce.reporting.tables import counted
from transduce.verification.differences import Differences
from transduce.verification.findings import Finding
from transduce.verification.model_under_test import ModelUnderTest, Pairs, forced, padded

# Positions of the long sequence: beyond 256 × 256 pairs another kernel takes over, and a window has several blocks.
_LONG = 300


def attention(tested: ModelUnderTest) -> Finding:
    """Recomputes the output of each attention of the model from its input, as eq. 1 writes it.

    With a window (§4) the reference is full attention with all but the neighbourhood masked. Differences are divided by
    the greatest number of the output where that is above 1.
    """
    seen = Differences()
    lengths = [_watch(tested, tested.pairs, seen)]
    if tested.position_limit >= _LONG:
        lengths.append(_watch(tested, _long_pair(tested), seen))
    config = tested.bundle.config.model
    kind = f"window of {config.attention_window} against masked full attention" if config.attention_window else "eq. 1"
    layers = config.num_encoder_layers + 2 * config.num_decoder_layers
    compared = f"{counted(layers, 'attention')}, up to {max(lengths)} positions; {kind}"
    return seen.finding(compared, min(1e-4, tested.settings.log_probability))


def _long_pair(tested: ModelUnderTest) -> Pairs:
    targets = [target[:-1] for target in tested.pairs.targets]  # a target may have another vocabulary
    return Pairs(("all sentences in one",), (_long(tested.sources),), (_long(targets),))


def _long(sentences: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Returns the tokens of all sentences, as often as needed, and EOS: `_LONG` positions."""
    ids = [token for sentence in sentences for token in sentence]
    return (*(ids * (_LONG // max(len(ids), 1) + 1))[: _LONG - 1], EOS)


def _watch(tested: ModelUnderTest, pairs: Pairs, seen: Differences) -> int:
    """Runs the model on whole sequences with a hook on every attention; returns the greatest length."""
    model = tested.plain
    with ExitStack() as hooks:
        for name, module in model.named_modules():
            if isinstance(module, SelfAttention | CrossAttention):
                hook = partial(_compare, name, seen)
                hooks.enter_context(module.register_forward_hook(hook, with_kwargs=True))
        memory = model.encode(*padded(pairs.sources, tested.device))
        target_BT, _ = padded(pairs.targets, tested.device)
        model.decode(memory, target_BT)
        forced(model, pairs)  # as in training, where padding is left out between attentions
    return max(map(len, (*pairs.sources, *pairs.targets)))


def _compare(
    name: str, seen: Differences, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor
) -> None:
    """A hook that recomputes an attention's output the obvious way: the softmax of all scores, times the values."""
    packing = kwargs["packing"]
    value_BHSE = module.project(args[0], packing)[2] if isinstance(module, SelfAttention) else args[1][1]
    expected = project_heads(module.weights(*args, **kwargs) @ value_BHSE, module.output, packing)
    scale = max(1.0, float(expected.abs().max()))
    seen.compare(output / scale, expected / scale, f"{name}, row {{}} of the batch")


def prepacked(tested: ModelUnderTest) -> Finding:
    """Compares the engine's model, with weights in the layout of this machine, with the weights on disk."""
    compared = f"{counted(len(tested.pairs), 'sentence')}, the engine's weights and those of the folder"
    if tested.engine.model.output_projection is None:
        return Finding(compared, skipped=f"on {tested.device} the engine uses the weights as they are")
    seen = Differences()
    plain, ours = forced(tested.plain, tested.pairs), forced(tested.engine.model, tested.pairs)
    seen.compare_sentences(tested.pairs.names, ours, plain)
    return seen.finding(compared, tested.settings.log_probability)


def precision(tested: ModelUnderTest) -> Finding:
    """Compares the engine with the same weights in float64: the effect of rounding."""
    seen, pairs = Differences(), tested.pairs
    ours = forced(tested.engine.model, pairs)
    exact = forced(copy.deepcopy(tested.plain).double(), pairs)
    seen.compare_sentences(pairs.names, ours, [each_TV.to(ours[0].dtype) for each_TV in exact])
    dtype = str(tested.plain.source_embedding.dtype).removeprefix("torch.")
    return seen.finding(f"{counted(len(pairs), 'sentence')}, {dtype} against float64", tested.settings.log_probability)
