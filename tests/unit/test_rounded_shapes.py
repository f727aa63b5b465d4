"""Batches whose sizes are rounded up: few sizes, and the same losses and gradients."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor

from transduce.config import ModelConfig, TrainConfig
from transduce.data.store import ParallelStore, StoreWriter
from transduce.model import Transformer
from transduce.model.packing import num_rows
from transduce.training.batch import Batch, collate
from transduce.training.device import Compute
from transduce.training.guidance import CurrentWord, Guidance
from transduce.training.loss import Smoothing
from transduce.training.shapes import describe_rounding, plan_sizes
from transduce.training.step import batch_loss

pytestmark = pytest.mark.computes
CPU = torch.device("cpu")
_BASE = ModelConfig(
    vocab_size=40, num_encoder_layers=2, num_decoder_layers=2, d_model=16, d_ff=24, num_heads=2, d_k=8, d_v=8,
    dropout=0.0,
)  # fmt: skip
_CONFIGS = {
    "post-norm": _BASE,
    "released code": dataclasses.replace(_BASE, decoder_start="zero", attention_bias=True, target_space_embedding=True),
    "learned positions": dataclasses.replace(_BASE, positions="learned", max_positions=64, norm="pre"),
    "window": dataclasses.replace(_BASE, attention_window=4),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ParallelStore:
    path = tmp_path_factory.mktemp("store") / "train.arrow"
    random = np.random.default_rng(1)
    with StoreWriter.open(path, tokenizer_fingerprint="none", vocab_size=40) as writer:
        for length in random.integers(1, 50, 600):
            writer.write([random.integers(4, 40, length)], [random.integers(4, 40, max(1, length + length % 5 - 2))])
    return ParallelStore.open(path)


def _loss_and_gradients(
    model: Transformer, batch: Batch, guidance: Guidance | None
) -> tuple[list[float], dict[str, Tensor]]:
    model.zero_grad()
    loss, nll = batch_loss(model, batch, Smoothing.of(0.1, 40, "uniform"), Compute(CPU, torch.float64), guidance)
    loss.backward()
    return [loss.item(), nll.item()], {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", _CONFIGS)
@pytest.mark.parametrize("guided", [False, True])
def test_losses_and_gradients_are_those_of_batches_as_they_are(name: str, guided: bool, store: ParallelStore) -> None:
    torch.manual_seed(1)
    model = Transformer(_CONFIGS[name]).double().train()
    guidance, precision = None, 1e-9
    if guided:
        guidance = Guidance(
            0.5, CurrentWord([token % 2 == 0 for token in range(40)], [token % 3 == 0 for token in range(40)])
        )
        guidance.watch(model)
        precision = 1e-5  # it computes in float32
    for count in (1, 5, 67) if guided else (1, 5, 67, 141):  # from one sentence to some that only fill up
        rows = np.arange(count)
        losses, gradients = _loss_and_gradients(model, collate(store, rows, CPU), guidance)
        model.rounded_shapes = True
        batch = collate(store, rows, CPU, model=model)
        same_losses, same_gradients = _loss_and_gradients(model, batch, guidance)
        model.rounded_shapes = False
        assert batch.target_BT.size(1) % 8 == batch.source_BS.size(1) % 8 == 0
        assert batch.source_BS.size(0) == {1: 1, 5: 5, 67: 68, 141: 144}[count]
        assert same_losses == pytest.approx(losses, rel=precision)
        assert gradients.keys() == same_gradients.keys()
        for key, gradient in gradients.items():
            torch.testing.assert_close(same_gradients[key], gradient, rtol=precision, atol=precision)


def test_sizes_are_not_rounded_beyond_the_positions_that_were_learned(store: ParallelStore) -> None:
    longest = int(max(store.source_lengths.max(), store.target_lengths.max()))
    assert longest % 8  # rounded up, it would be longer than the table
    model = Transformer(dataclasses.replace(_CONFIGS["learned positions"], max_positions=longest)).double().train()
    model.rounded_shapes = True
    batch = collate(store, np.arange(len(store)), CPU, model=model)
    assert max(batch.source_BS.size(1), batch.target_BT.size(1)) == longest
    assert batch.source_BS.size(0) > len(store)
    assert np.isfinite(_loss_and_gradients(model, batch, None)[0]).all()


def test_few_sizes_are_left_and_it_is_said_what_they_cost(store: ParallelStore) -> None:
    plan = store.plan_epoch(TrainConfig(source_batch_tokens=600, target_batch_tokens=600), 0)
    model = Transformer(_BASE)
    model.rounded_shapes = True
    exact, rounded = (plan_sizes(plan, store, rounded=each) for each in (False, True))
    rows, positions = list[int](), 0
    for index in range(len(plan)):
        batch = collate(store, plan.batch(index), CPU, model=model)
        for ids, lengths in ((batch.source_BS, batch.source_lengths_B), (batch.target_BT, batch.target_lengths_B)):
            rows.append(num_rows(int(lengths.sum()), *ids.shape, rounded=True))
            positions += ids.numel()
    assert rounded == (len(set(rows)), sum(rows), positions)
    assert rounded[0] < exact[0]
    assert exact[1] < rounded[1] < 1.1 * exact[1]
    assert describe_rounding(plan, store).startswith(
        f"batches with {rounded[0]} numbers of rows instead of {exact[0]}, for "
    )
