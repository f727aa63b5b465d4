"""Any module that has what `TrainableModel` says is trained by the same trainer: the controls, exactly resumed."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from small_training import with_train
from transduce.config import Config, DecodeConfig, apply_settings, preset
from transduce.data.store import ParallelStore, StoreWriter
from transduce.errors import TrainingError
from transduce.experiments.paper.controls.control import Control
from transduce.experiments.paper.controls.convolutional import ConvolutionalTransducer
from transduce.experiments.paper.controls.recurrent import RecurrentTransducer
from transduce.experiments.paper.controls.search import search
from transduce.training.optimizer import kept_shapes, make_optimizer
from transduce.training.outcome import End
from transduce.training.trainer import Trainer
from transduce.training.validation import Validation

pytestmark = pytest.mark.computes

SETTINGS = (
    *("model.vocab_size=20", "model.num_encoder_layers=1", "model.num_decoder_layers=2", "model.norm=pre"),
    *("model.d_model=32", "model.d_k=8", "model.d_v=8", "model.num_heads=4", "model.dropout=0.1"),
    *("train.source_batch_tokens=600", "train.target_batch_tokens=600", "train.micro_batch_tokens=0"),
    *("train.checkpoint_steps=3", "train.checkpoint_minutes=0", "train.validate_steps=0", "train.device=cpu"),
    *("train.label_smoothing=0", "train.validate_bleu=false", "train.warmup_steps=20"),
)
KINDS: dict[str, tuple[Callable[..., Control], tuple[str, ...], int]] = {
    "recurrent": (RecurrentTransducer, ("train.learning_rate=0.01",), 200),
    "convolutional": (
        ConvolutionalTransducer,
        ("train.optimizer=nesterov", "train.learning_rate=0.25", "train.max_gradient_norm=0.1"),
        300,
    ),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ParallelStore:
    """Sequences of two to seven symbols, to be reversed."""
    path = tmp_path_factory.mktemp("reversing") / "train.arrow"
    random = np.random.default_rng(0)
    with StoreWriter.open(path, tokenizer_fingerprint="x", vocab_size=20) as writer:
        rows = [random.integers(4, 20, random.integers(2, 8)).tolist() for _ in range(600)]
        writer.write(rows, [row[::-1] for row in rows])
    return ParallelStore.open(path)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def trainer_of(kind: str, run: Path, store: ParallelStore, max_steps: int) -> Trainer:
    make, settings, _ = KINDS[kind]
    config = apply_settings(preset("tiny"), [*SETTINGS, *settings, f"train.max_steps={max_steps}"])
    run.mkdir(exist_ok=True)
    torch.manual_seed(config.train.seed)
    model = make(config.model)
    return Trainer(model, config, run, store, Validation(store), show_progress=False)


def test_a_resumed_training_is_the_uninterrupted_one(kind: str, tmp_path: Path, store: ParallelStore) -> None:
    whole = trainer_of(kind, tmp_path / "whole", store, 6)
    whole.fit()
    trainer_of(kind, tmp_path / "parts", store, 3).fit()
    resumed = trainer_of(kind, tmp_path / "parts", store, 6)
    assert resumed.resume()
    assert resumed.progress.step == 3
    resumed.fit()
    assert resumed.progress.cost.flops == whole.progress.cost.flops > 0
    for name, weight in whole.model.weights().items():
        assert torch.equal(weight, resumed.model.weights()[name]), name


def test_minutes_are_those_of_the_clock_that_is_given(tmp_path: Path, store: ParallelStore) -> None:
    """A clock that moves by ten seconds whenever it is read: twice a step, so a minute is spent after six."""
    trainer = trainer_of("recurrent", tmp_path, store, 100)
    trainer.config = with_train(trainer.config, max_minutes=1.0)
    trainer.clock = itertools.count(0.0, 10.0).__next__
    assert trainer.fit().end == End.MAX_MINUTES
    assert (trainer.progress.step, trainer.progress.seconds) == (6, 60.0)


def test_it_learns_to_reverse(kind: str, tmp_path: Path, store: ParallelStore) -> None:
    """Of 16 symbols, guessing has a perplexity of about 12; nothing but attention to the other end gets near 1."""
    trainer = trainer_of(kind, tmp_path / "run", store, KINDS[kind][2])
    trainer.fit()
    assert trainer.progress.validations["perplexity"] < 1.5
    sources = [[4, 9, 13], [19, 5], [7, 8, 9, 10, 11]]
    found = search(trainer.model, sources, DecodeConfig(beam_size=2, max_extra_tokens=3))
    assert [each[::-1] for each in found] == sources


def test_moments_of_another_optimiser_are_refused(tmp_path: Path, store: ParallelStore) -> None:
    trainer_of("convolutional", tmp_path, store, 3).fit()
    other = trainer_of("convolutional", tmp_path, store, 6)
    other.config = with_train(other.config, optimizer="adam")
    other.optimizer = make_optimizer(other.model.parameters(), other.config.train)
    with pytest.raises(TrainingError, match="its only checkpoint is damaged"):
        other.resume()


def test_nesterovs_momentum_by_hand() -> None:
    """Gradients 1 and 1, momentum ½, rate 0.1: v = 1, then 1½; each step is rate × (gradient + ½ v)."""
    train = replace(Config().train, optimizer="nesterov", momentum=0.5)
    weight = torch.nn.Parameter(torch.tensor([10.0]))
    optimizer = make_optimizer([weight], train)
    optimizer.param_groups[0]["lr"] = 0.1
    for expected in (10 - 0.15, 10 - 0.15 - 0.175):
        weight.grad = torch.ones(1)
        optimizer.step()
        assert math.isclose(weight.item(), expected, rel_tol=1e-6)
    assert {key: tuple(each.shape) for key, each in optimizer.state[weight].items()} == kept_shapes(train, (1,))
