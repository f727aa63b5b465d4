"""Layers are compiled once for all batches, and compute what they did.

The backend `aot_eager` traces forward and backward passes, and needs no C++ compiler.
"""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor

from transduce.config import ModelConfig
from transduce.model import Transformer
from transduce.training.batch import Batch, pad
from transduce.training.device import Compute
from transduce.training.guidance import CurrentWord, Guidance
from transduce.training.loss import Smoothing
from transduce.training.step import batch_loss

pytestmark = pytest.mark.computes
_SHAPE = ModelConfig(vocab_size=40, d_model=16, d_ff=24, num_heads=2, d_k=8, d_v=8, dropout=0.0)


def _batches() -> list[Batch]:
    random = np.random.default_rng(1)
    sizes = [(8, 3, 20), (9, 5, 31), (17, 2, 9), (4, 10, 40)]
    sides = [
        [random.integers(4, 40, length) for length in random.integers(a, b, n)] for n, a, b in sizes for _ in range(2)
    ]
    return [Batch(*pad(source), *pad(target)) for source, target in zip(sides[::2], sides[1::2], strict=True)]


def _loss_and_gradients(
    model: Transformer, batch: Batch, guidance: Guidance | None = None
) -> tuple[float, list[Tensor]]:
    model.zero_grad()
    loss, _ = batch_loss(model, batch, Smoothing.of(0.1, 40, "uniform"), Compute.of("cpu", "fp32"), guidance)
    loss.backward()
    return loss.item(), [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


@pytest.mark.filterwarnings("default")  # what PyTorch's compiler says of itself
def test_one_program_for_each_stack_serves_all_batches_and_layers() -> None:
    torch.manual_seed(1)
    model = Transformer(dataclasses.replace(_SHAPE, num_encoder_layers=3, num_decoder_layers=3)).train()
    batches = _batches()
    expected = [_loss_and_gradients(model, batch) for batch in batches]
    names = list(model.weights())
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters  # importing it above would load the compiler for all tests
    before = counters["stats"]["unique_graphs"]
    model.compile(dynamic=True, fullgraph=True, backend="aot_eager")  # fullgraph: whatever cannot be traced is an error
    for batch, (loss, gradients) in zip(batches, expected, strict=True):
        same_loss, same_gradients = _loss_and_gradients(model, batch)
        assert same_loss == pytest.approx(loss, rel=1e-6)
        torch.testing.assert_close(same_gradients, gradients, rtol=1e-4, atol=1e-5)
    assert counters["stats"]["unique_graphs"] - before == 2
    assert list(model.weights()) == names  # a checkpoint of it can be read without compiling
    torch._dynamo.reset()


@pytest.mark.filterwarnings("default")
def test_guided_attention_is_that_of_this_batch() -> None:
    """Its hooks are on inner layers of the decoder, and all layers would run the program of the first one."""
    torch.manual_seed(1)
    model = Transformer(dataclasses.replace(_SHAPE, num_encoder_layers=1, num_decoder_layers=4)).train()
    batches = _batches()[:2]
    torch._dynamo.reset()
    results = []
    for compiled in (False, True):
        words = CurrentWord([token % 2 == 0 for token in range(40)], [token % 3 == 0 for token in range(40)])
        guidance = Guidance(0.5, words)
        same = copy.deepcopy(model)
        guidance.watch(same)
        if compiled:
            same.compile(dynamic=True, backend="eager")
        results.append([_loss_and_gradients(same, batch, guidance) for batch in batches])
    for (loss, gradients), (same_loss, same_gradients) in zip(*results, strict=True):
        assert same_loss == pytest.approx(loss, rel=1e-6)
        torch.testing.assert_close(same_gradients, gradients, rtol=1e-4, atol=1e-5)
    torch._dynamo.reset()


@pytest.mark.filterwarnings("default")
def test_batches_of_all_kinds_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    model = Transformer(dataclasses.replace(_SHAPE, num_encoder_layers=1, num_decoder_layers=1))
    ragged, even = [[4] * length for length in (3, 9, 6)], [[4] * 7] * 3
    batches = [Batch(*pad(source), *pad(target)) for source in (ragged, even) for target in (ragged, even)]
    batches.append(Batch(*pad(even[:1]), *pad(even[:1])))
    torch._dynamo.reset()
    model.compile(dynamic=True, backend="eager")
    monkeypatch.setattr(torch._dynamo.config, "fail_on_recompile_limit_hit", True)
    for batch in batches:
        for training in (True, False):
            model.train(training)
            with torch.set_grad_enabled(training):
                model(*batch.inputs)
    torch._dynamo.reset()
