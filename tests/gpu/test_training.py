"""Training on a GPU: the CPU's updates, finite in bf16, resumable, and with memory that does not grow."""

import dataclasses
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from transduce.bundle import read_weights
from transduce.config import Config, DataConfig, ModelConfig, TrainConfig
from transduce.config.tensors import read_tensors
from transduce.data.store import ParallelStore, StoreWriter
from transduce.model import Transformer
from transduce.training.device import Compute
from transduce.training.guidance import CurrentWord, Guidance
from transduce.training.memory import measured
from transduce.training.progress import WEIGHTS
from transduce.training.run_folder import checkpoints
from transduce.training.trainable import new_model
from transduce.training.trainer import Trainer
from transduce.training.validation import perplexity

DEVICE = os.environ.get("TRANSDUCE_TEST_DEVICE", "cuda")  # "cpu" tries the tests themselves
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        DEVICE == "cuda" and not torch.cuda.is_available(), reason="no GPU: make gpu, on a machine with one"
    ),
]
_BASE = ModelConfig(
    vocab_size=60,
    num_encoder_layers=2,
    num_decoder_layers=2,
    d_model=32,
    d_ff=64,
    num_heads=2,
    d_k=16,
    d_v=16,
    dropout=0.0,
)
_CONFIGS = {
    "post-norm": _BASE,
    "released code": dataclasses.replace(
        _BASE, decoder_start="zero", attention_bias=True, target_space_embedding=True, sinusoid_layout="concatenated"
    ),
    "learned positions": dataclasses.replace(_BASE, positions="learned", max_positions=100, norm="pre"),
    "window": dataclasses.replace(_BASE, attention_window=4),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ParallelStore:
    path = tmp_path_factory.mktemp("store") / "train.arrow"
    random = np.random.default_rng(1)
    with StoreWriter.open(path, tokenizer_fingerprint="none", vocab_size=60) as writer:
        for length in random.integers(1, 25, 64):
            writer.write([random.integers(4, 60, length)], [random.integers(4, 60, length + 2)])
    return ParallelStore.open(path)


def _config(model: ModelConfig = _BASE, **train: Any) -> Config:
    settings: dict[str, Any] = {"warmup_steps": 10, "adam_epsilon": 1e-3, "precision": "fp32", "device": DEVICE}
    return Config(model=model, data=DataConfig(), train=TrainConfig(**(settings | train)))


def _updates(config: Config, store: ParallelStore, compute: Compute, count: int) -> tuple[Transformer, list[float]]:
    """Returns the model after `count` updates on the whole store, and its losses per token."""
    torch.manual_seed(1)
    model = Transformer(config.model).to(compute.device)
    guide = Guidance(0.5, CurrentWord([token % 2 == 0 for token in range(60)], [token % 3 == 0 for token in range(60)]))
    guide.watch(model)
    trainer = Trainer(model, config, store.path.parent, store, compute=compute, show_progress=False)
    rows, losses = np.arange(len(store)), []
    for step in range(1, count + 1):
        trainer.guidance = guide if step % 2 else None
        trainer.progress.step = step - 1
        result = trainer.train_step(rows)
        assert result.finite
        losses.append(result.negative_log_likelihood / result.target_tokens)
    return model, losses


@pytest.mark.parametrize("name", _CONFIGS)
def test_an_update_is_that_of_the_cpu(name: str, store: ParallelStore) -> None:
    config = _config(_CONFIGS[name], max_gradient_norm=1.0, micro_batch_tokens=300)
    ours, losses = _updates(config, store, Compute(torch.device(DEVICE), torch.float32), 5)
    theirs, expected = _updates(config, store, Compute(torch.device("cpu"), torch.float32), 5)
    assert losses == pytest.approx(expected, rel=1e-4)
    weights = theirs.weights()
    for key, value in ours.weights().items():
        torch.testing.assert_close(
            value.cpu(), weights[key], rtol=1e-3, atol=1e-4, msg=lambda text, key=key: key + text
        )


@pytest.mark.skipif(DEVICE != "cuda", reason="counts where the host waits for a GPU")
def test_an_update_waits_for_the_gpu_once(store: ParallelStore) -> None:
    """`tests/parity/test_pretended_gpu.py` counts more, but on a simulated device."""
    config = _config(max_gradient_norm=1.0, micro_batch_tokens=300, target_batch_tokens=600)
    compute = Compute(torch.device(DEVICE), torch.bfloat16)
    model = Transformer(config.model).to(compute.device)
    trainer = Trainer(model, config, store.path.parent, store, compute=compute, show_progress=False)
    rows = np.arange(len(store))
    trainer.train_step(rows)  # the first one makes the optimiser's moments
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            trainer.train_step(rows)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len([each for each in found if "synchronizing" in str(each.message)]) == 1, [str(e.message) for e in found]


def test_rounded_shapes_change_no_update(store: ParallelStore) -> None:
    compute = Compute(torch.device(DEVICE), torch.float32)
    exact, losses = _updates(_config(micro_batch_tokens=300), store, compute, 5)
    rounded, same_losses = _updates(_config(micro_batch_tokens=300, rounded_shapes=True), store, compute, 5)
    assert same_losses == pytest.approx(losses, rel=1e-4)
    weights = exact.weights()
    for key, value in rounded.weights().items():
        torch.testing.assert_close(value, weights[key], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", _CONFIGS)
def test_bf16_learns_as_float32_does(name: str, store: ParallelStore) -> None:
    device, count = torch.device(DEVICE), 20 if DEVICE == "cuda" else 5
    config = _config(dataclasses.replace(_CONFIGS[name], dropout=0.1))
    model, losses = _updates(config, store, Compute(device, torch.bfloat16), count)
    _, expected = _updates(config, store, Compute(device, torch.float32), count)
    assert losses[-1] < losses[0] - 0.1
    assert losses[-1] == pytest.approx(expected[-1], rel=0.1)
    assert all(weight.dtype == torch.float32 and bool(weight.isfinite().all()) for weight in model.weights().values())
    assert np.isfinite(perplexity(model, store, Compute(device, torch.bfloat16)))


def test_resumed_is_uninterrupted(store: ParallelStore, tmp_path: Path) -> None:
    """Up to the order in which a GPU's kernels add; dropout is drawn from the step's number."""
    settings = {"source_batch_tokens": 120, "target_batch_tokens": 120, "checkpoint_minutes": 0.0, "validate_steps": 0}
    shape = dataclasses.replace(_BASE, dropout=0.1)

    def trained(run: Path, *ends: int) -> np.ndarray:
        run.mkdir()
        for end in ends:
            config = _config(shape, max_steps=end, **settings)
            compute = Compute.of(config.train.device, config.train.precision)
            trainer = Trainer(new_model(config, compute), config, run, store, compute=compute, show_progress=False)
            assert trainer.resume() == (end != ends[0])
            trainer.fit()
        weights = read_weights(checkpoints(run)[-1] / WEIGHTS)
        return np.concatenate([weights[name].ravel() for name in sorted(weights)])

    once, twice = trained(tmp_path / "once", 20), trained(tmp_path / "twice", 7, 20)
    np.testing.assert_allclose(twice, once, rtol=0.0, atol=1e-3 if DEVICE == "cuda" else 0.0)


def test_a_checkpoint_has_the_numbers_of_its_step(
    store: ParallelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is copied while the GPU computes, and written while training continues."""
    config = _config(max_steps=12, checkpoint_steps=1, keep_checkpoints=12, validate_steps=0)
    compute = Compute.of(config.train.device, config.train.precision)
    trainer = Trainer(new_model(config, compute), config, tmp_path, store, compute=compute, show_progress=False)
    save, expected = trainer.writer.save, {}

    def recorded(path: Path, *arguments: Any) -> None:
        weights = {name: weight.clone() for name, weight in trainer.model.weights().items()}
        moments = {
            f"exp_avg:{name}": trainer.optimizer.state[parameter]["exp_avg"].clone()
            for name, parameter in trainer.model.named_parameters()
        }
        expected[path.name] = weights, moments
        save(path, *arguments)

    monkeypatch.setattr(trainer.writer, "save", recorded)
    trainer.fit()
    found = checkpoints(tmp_path)
    assert [path.name for path in found] == [*expected]
    assert len(found) == 12
    for path in found:
        for file, tensors in zip(("model.safetensors", "optimizer.safetensors"), expected[path.name], strict=True):
            written, _ = read_tensors(path / file)
            assert all(np.array_equal(written[name], tensor.cpu().numpy()) for name, tensor in tensors.items())


@pytest.mark.skipif(DEVICE != "cuda", reason="what is allocated is known of a GPU only")
def test_memory_does_not_grow(store: ParallelStore) -> None:
    config, compute = _config(), Compute(torch.device(DEVICE), torch.bfloat16)
    model = Transformer(config.model).to(compute.device)
    trainer = Trainer(model, config, store.path.parent, store, compute=compute, show_progress=False)
    random, held = np.random.default_rng(1), []
    for step in range(1, 61):
        rows = random.choice(len(store), 16, replace=False)
        trainer.progress.step = step - 1
        trainer.train_step(rows)
        torch.cuda.synchronize()
        trainer.optimizer.zero_grad(set_to_none=True)
        held.append(torch.cuda.memory_allocated())
    assert max(held[30:]) <= max(held[:30])


def test_updates_take_what_was_predicted(store: ParallelStore, tmp_path: Path) -> None:
    """The worst batches are tried, and leave the weights alone; the allocator rounds up, hence the slack."""
    shape = dataclasses.replace(_BASE, d_model=256, d_ff=1024, num_heads=4, d_k=64, d_v=64)
    config, device = _config(shape), torch.device(DEVICE)
    compute = Compute(device, torch.float32)
    trainer = Trainer(new_model(config, compute), config, tmp_path, store, compute=compute, show_progress=False)
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    trainer.fit_memory()
    assert all(map(torch.equal, before, trainer.model.parameters()))
    predicted = trainer.splits.entries[-1].peak_bytes
    plan = trainer.order.plan(0, 0)
    with measured(device) as usage:
        for _ in range(4):
            trainer.train_step(plan.batch(0))
            trainer.progress.step += 1
    assert 0 < usage.peak < 1.25 * predicted + (64 << 20)
    assert len(trainer.splits.entries) == 1
