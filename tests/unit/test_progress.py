"""How far a training has come: what ends it, which model is its best, and what an update depends on."""

import contextlib
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from transduce.config import TrainConfig, apply_settings, preset
from transduce.errors import DataError
from transduce.model import Transformer
from transduce.training import distributed, validation
from transduce.training import step as step_module
from transduce.training.cost import CostAccount
from transduce.training.device import Compute
from transduce.training.distributed import local_device
from transduce.training.optimizer import make_optimizer
from transduce.training.outcome import End, end_of
from transduce.training.progress import Progress
from transduce.training.step import StepResult, require_positions, seed_dropout
from transduce.training.validation import Validation, mean_scorer, update_best


@pytest.mark.parametrize(
    ("step", "seconds", "without_better", "end"),
    [
        (9, 119.9, 2, None),
        (10, 0.0, 0, End.MAX_STEPS),
        (9, 120.0, 0, End.MAX_MINUTES),
        (9, 0.0, 3, End.EARLY_STOPPING),
        (10, 120.0, 2, End.MAX_STEPS),
        (10, 120.0, 3, End.EARLY_STOPPING),
    ],
)
def test_what_ends_a_training(step: int, seconds: float, without_better: int, end: End | None) -> None:
    limits = TrainConfig(max_steps=10, max_minutes=2, early_stopping=3)
    progress = Progress(step=step, seconds=seconds, validations_since_best=without_better)
    assert end_of(limits, progress) == end
    unlimited = replace(limits, max_minutes=0, early_stopping=0)
    assert end_of(unlimited, progress) == (End.MAX_STEPS if step == 10 else None)


@pytest.mark.parametrize(
    ("loss", "norm", "finite"), [(1, 1, True), (1, "nan", False), ("inf", 1, False), ("nan", "inf", False)]
)
def test_an_update_is_made_where_loss_and_gradient_are_finite(loss: Any, norm: Any, finite: bool) -> None:
    assert StepResult(float(loss), 1.0, 1, 1, float(norm), 0.1).finite == finite


def test_the_time_left_is_that_of_the_steps_left() -> None:
    train = TrainConfig(max_steps=10)
    assert [Progress(step=step, seconds=10).seconds_left(train) for step in (4, 10, 12)] == [15, 0, 0]
    assert Progress().seconds_left(train) == 0
    stopping = replace(train, early_stopping=3)
    assert [Progress(step=4, seconds=10, validations_since_best=n).seconds_left(stopping) for n in (2, 3)] == [15, 0]
    seen = Progress(step=4, seconds=10, target_tokens=70).metrics()
    assert seen == {"steps": 4, "training_seconds": 10, "target_tokens_seen": 70}
    # After 4 steps in 120 seconds, 996 steps would take 29,880; a minute of 3 is left; 3 times the operations so far.
    begun = Progress(step=4, seconds=120, cost=CostAccount(flops=100, steps=4))
    for limits, expected in (
        ({}, 29880),
        ({"max_minutes": 3.0}, 60),
        ({"max_minutes": 1.0}, 0),
        ({"max_flops": 400.0}, 360),
        ({"max_flops": 400.0, "max_minutes": 3.0}, 60),
    ):
        assert begun.seconds_left(TrainConfig(max_steps=1000, **limits)) == expected
    counted = Progress(cost=CostAccount(flops=5, steps=1)).metrics()
    assert (counted["training_flops"], counted["training_flops_steps"]) == (5, 1)


def test_scores_of_several_sets_are_their_mean_and_each_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    scorers = {"a": lambda _: {"bleu": 10.0, "chrf": 50.0}, "b": lambda _: {"bleu": 20.0, "chrf": 60.0}}
    both = mean_scorer(scorers)
    found = {"bleu": 15, "chrf": 55, "bleu.a": 10, "chrf.a": 50, "bleu.b": 20, "chrf.b": 60}
    assert both("a model") == found
    assert mean_scorer({"a": scorers["a"]}) is scorers["a"]

    measured: list[Any] = []

    def perplexity(*arguments: Any) -> float:
        measured.append(arguments)
        return 10.0 if arguments[3] == range(1) else 40.0

    monkeypatch.setattr(validation, "perplexity", perplexity)
    sets = {"a": range(1), "b": range(1, 3)}
    store: Any = SimpleNamespace(path="x.arrow", rows_of_corpora=lambda: sets)
    compute, model, ranks = Compute.of("cpu", "fp32"), SimpleNamespace(block_heads=None), distributed.Ranks()
    scores = Validation(store, both).scores(model, compute, ranks, most_tokens=7)  # type: ignore[arg-type]
    assert [*scores] == ["perplexity", *found, "perplexity.a", "perplexity.b"]  # the first but one decides
    assert scores["perplexity"] == pytest.approx(20)  # √(10 · 40)
    assert [each[1:] for each in measured] == [(store, compute, rows, ranks, 7) for rows in sets.values()]
    alone = Validation(store).scores(model, compute, ranks)  # type: ignore[arg-type]
    assert [*alone] == ["perplexity", "perplexity.a", "perplexity.b"]
    del sets["a"]
    assert Validation(store).scores(model, compute, ranks) == {"perplexity": 40.0}  # type: ignore[arg-type]


def test_training_ends_when_its_operations_are_spent() -> None:
    progress = Progress(step=3, cost=CostAccount(flops=999, steps=3))
    assert end_of(TrainConfig(max_steps=10, max_flops=1000), progress) is None
    progress.cost.flops = 1000
    assert end_of(TrainConfig(max_steps=10, max_flops=1000), progress) == End.MAX_FLOPS
    assert end_of(TrainConfig(max_steps=10), progress) is None
    assert end_of(TrainConfig(max_steps=3, max_flops=1000), progress) == End.MAX_STEPS


def test_the_best_is_the_highest_score_or_the_lowest_perplexity() -> None:
    progress, history = Progress(), []
    for step, bleu, perplexity in ((2, 10.0, 9.0), (4, 10.0, 8.0), (6, 12.0, 9.5), (8, float("nan"), 1.0)):
        progress.step = step
        best = update_best(progress, {"perplexity": perplexity, "bleu": bleu, "bleu.a": 99.0}, "score")
        history.append((best, progress.best_step, progress.best_score, progress.validations_since_best))
    assert history == [(True, 2, 10.0, 0), (False, 2, 10.0, 1), (True, 6, 12.0, 0), (False, 6, 12.0, 1)]
    assert (progress.best_by, progress.validations["step"]) == ("bleu", 8.0)
    for step, perplexity, best in ((9, 7.0, True), (10, 7.5, False), (11, 6.0, True)):
        progress.step = step
        assert update_best(progress, {"perplexity": perplexity, "bleu": 0.0}, "perplexity") == best
    assert (progress.best_by, progress.best_score, progress.best_step) == ("perplexity", -6.0, 11)
    progress.validations_since_best = 5  # by the measure before
    assert not update_best(progress, {"perplexity": 1.0, "bleu": float("nan")}, "score")
    assert (progress.best_by, progress.best_score, progress.validations_since_best) == ("bleu", None, 1)


def test_each_process_of_a_machine_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("auto", "cuda", "cpu", "cuda:0")
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert [local_device(name) for name in names] == [*names]
    monkeypatch.setenv("LOCAL_RANK", "2")
    for there, expected in ((True, ("cuda:2", "cuda:2", "cpu", "cuda:0")), (False, names)):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert [local_device(name) for name in names] == [*expected]


def test_the_loss_of_a_batch_has_that_of_a_guidance(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def projected(*arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
        given.append(arguments)
        return torch.tensor(10.0), torch.tensor(9.0)

    monkeypatch.setattr(step_module, "projected_loss", projected)

    class Model:
        output_embedding, output_bias = "matrix", None

        def __call__(self, *_: Any) -> torch.Tensor:
            return torch.ones(2, 3)

    model: Any = Model()
    batch: Any = SimpleNamespace(targets_N="targets", inputs=(), head=1)
    guidance: Any = SimpleNamespace(scores_LBTS=["scores"], loss=lambda scores, _: torch.tensor(3.0 * len(scores)))
    compute: Any = SimpleNamespace(dtype=torch.bfloat16, autocast=contextlib.nullcontext)
    for guide, expected in ((None, [10.0, 9.0]), (guidance, [13.0, 9.0])):
        found = step_module.batch_loss(model, batch, "smoothing", compute, guide)  # type: ignore[arg-type]
        assert [float(each) for each in found] == expected
    states, *rest = given[0]
    assert (states.dtype, rest) == (torch.bfloat16, ["matrix", "targets", "smoothing"])


def test_dropout_depends_on_seed_step_and_process_alone() -> None:
    def drawn(*of: int) -> tuple[float, ...]:
        seed_dropout(*of)
        return tuple(torch.rand(3).tolist())

    states = [(seed, step, rank) for seed in (0, 1, 2**62 - 1) for step in (1, 2) for rank in (0, 1, 2)]
    first = {state: drawn(*state) for state in states}
    assert len(set(first.values())) == len(states)
    assert {state: drawn(*state) for state in reversed(states)} == first


def test_adam_has_the_settings_of_the_recipe_and_what_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.optim, "Adam", lambda params, **given: SimpleNamespace(params=list(params), **given))
    settings = ["train.adam_beta1=0.7", "train.adam_beta2=0.8", "train.adam_epsilon=1e-3"]
    sizes = ("vocab_size=20", "d_model=4", "d_ff=4", "num_heads=1", "num_encoder_layers=1", "num_decoder_layers=1")
    config = apply_settings(preset("tiny"), [*settings, *(f"model.{size}" for size in sizes)])
    model = Transformer(config.model)
    frozen = next(model.parameters()).requires_grad_(False)
    made: Any = make_optimizer(model.parameters(), config.train)
    assert (made.betas, made.eps) == ((0.7, 0.8), 1e-3)
    assert len(made.params) == len([*model.parameters()]) - 1
    assert not any(each is frozen for each in made.params)


@pytest.mark.parametrize(("source", "target"), [(5, 9), (9, 5)])
def test_a_text_longer_than_the_learned_positions_is_refused(source: int, target: int) -> None:
    store: Any = SimpleNamespace(
        path="x.arrow", source_lengths=np.array([1, source]), target_lengths=np.array([target, 1])
    )
    learned = apply_settings(preset("tiny"), ["model.positions=learned", "model.max_positions=9"])
    require_positions(learned, store)
    require_positions(apply_settings(preset("tiny"), ["model.max_positions=2"]), store)  # sinusoids have no limit
    short = apply_settings(learned, ["model.max_positions=8"])
    with pytest.raises(DataError, match=r"x\.arrow: its longest side has 9 tokens, .* for 8\. Raise model\.max_pos"):
        require_positions(short, store)
    limited = apply_settings(preset("tiny"), ["model.max_length=8"])
    with pytest.raises(DataError, match=r"for 8\. Raise model\.max_length, or shorten"):
        require_positions(limited, store)
    with pytest.raises(DataError, match=r"Its ancestor has no more: shorten the text"):
        require_positions(apply_settings(short, ["init.model=m"]), store)
