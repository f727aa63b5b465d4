"""A training that takes seconds: its trainer, and what is compared of two trainings."""

import dataclasses
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from transduce.config import Config
from transduce.config.tensors import read_weights
from transduce.data.batching import plan_epoch
from transduce.data.store import ParallelStore
from transduce.training.device import Compute
from transduce.training.outcome import End
from transduce.training.progress import WEIGHTS, Progress
from transduce.training.run_folder import checkpoints
from transduce.training.step import StepResult
from transduce.training.trainable import new_model
from transduce.training.trainer import Trainer
from transduce.training.validation import Scorer, Validation


def with_train(config: Config, **changes: Any) -> Config:
    return dataclasses.replace(config, train=dataclasses.replace(config.train, **changes))


def without_dropout(config: Config) -> Config:
    model = dataclasses.replace(config.model, dropout=0.0, attention_dropout=0.0, ffn_dropout=0.0)
    return dataclasses.replace(config, model=model)


def make_trainer(
    config: Config,
    run: Path,
    data: Path,
    *,
    validate: bool = False,
    scorer: Scorer | None = None,
    precision: Any = None,
) -> Trainer:
    """Returns a trainer of a new model; it validates if there is a scorer, or if told to."""
    run.mkdir(parents=True, exist_ok=True)
    compute = Compute.of("cpu", precision or config.train.precision)
    validation = Validation(validation_store(data), scorer) if validate or scorer else None
    train, model = ParallelStore.open(data / "train.arrow"), new_model(config, compute)
    return Trainer(model, config, run, train, validation, compute=compute, show_progress=False)


def validation_store(data: Path) -> ParallelStore:
    return ParallelStore.open(data / "validation.arrow")


def batches_an_epoch(config: Config, data: Path) -> int:
    store, settings = ParallelStore.open(data / "train.arrow"), config.train
    plan = plan_epoch(
        store.source_lengths,
        store.target_lengths,
        source_budget=settings.source_batch_tokens,
        target_budget=settings.target_batch_tokens,
        seed=settings.seed,
        epoch=0,
    )
    return len(plan)


def state_of(trainer: Trainer) -> dict[str, Tensor]:
    """Weights and Adam's moments, each under a name of its own."""
    weights = {f"weight {name}": value.clone() for name, value in trainer.model.weights().items()}
    moments = {
        f"{key} {name}": trainer.optimizer.state[parameter][key].clone()
        for name, parameter in trainer.model.named_parameters()
        for key in ("exp_avg", "exp_avg_sq", "step")
    }
    return weights | moments


def assert_identical(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []


def assert_close(ours: dict[str, Tensor], theirs: dict[str, Tensor], tolerance: float = 1e-5) -> None:
    assert ours.keys() == theirs.keys()
    for name in ours:
        torch.testing.assert_close(
            ours[name], theirs[name], rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
        )


def final_weights(run: Path) -> dict[str, Tensor]:
    weights = read_weights(checkpoints(run)[-1] / WEIGHTS)
    return {name: torch.from_numpy(weight) for name, weight in weights.items()}


def without_clock(progress: Progress) -> dict[str, Any]:
    """All but times: of the cost, what was counted."""
    values = {key: value for key, value in dataclasses.asdict(progress).items() if key not in ("seconds", "cost")}
    return values | {"flops": progress.cost.flops, "counted_steps": progress.cost.steps}


def stop_after(trainer: Trainer, step: int) -> None:
    """Makes this process get a SIGTERM during step number `step`."""
    train_step = trainer.train_step

    def interrupted(rows: np.ndarray) -> StepResult:
        if trainer.progress.step + 1 == step:
            os.kill(os.getpid(), signal.SIGTERM)
        return train_step(rows)

    trainer.train_step = interrupted  # type: ignore[method-assign]
    outcome = trainer.fit()
    assert (outcome.end, outcome.signal, outcome.progress.step) == (End.SIGNAL, signal.SIGTERM, step)
