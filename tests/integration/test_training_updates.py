"""What must not change an update, what is left out of one, and models that can be trained."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from several_processes import finish, start
from small_training import (
    assert_close,
    assert_identical,
    batches_an_epoch,
    final_weights,
    make_trainer,
    state_of,
    stop_after,
    validation_store,
    with_train,
    without_dropout,
)
from transduce.cli.main import main as command_line
from transduce.config import Config
from transduce.data.batching import BatchPlan, plan_epoch
from transduce.data.store import ParallelStore
from transduce.errors import TrainingError
from transduce.training import micro_batches
from transduce.training import trainer as trainer_module
from transduce.training.guidance import CurrentWord, Guidance
from transduce.training.outcome import End
from transduce.training.prefetch import Prefetch
from transduce.training.progress import read_progress
from transduce.training.run_folder import checkpoints
from transduce.training.step import StepResult
from transduce.training.trainer import Trainer
from transduce.training.validation import Validation, perplexity

pytestmark = pytest.mark.computes


@pytest.mark.parametrize("micro_batch_tokens", [1, 60])
def test_many_micro_batches_are_one_batch(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, micro_batch_tokens: int
) -> None:
    num_batches = 0
    collate = micro_batches.collate

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal num_batches
        num_batches += 1
        return collate(*arguments, **options)

    monkeypatch.setattr(micro_batches, "collate", counted)
    config = with_train(without_dropout(config), max_steps=2)
    whole = make_trainer(config, tmp_path / "whole", data)
    whole.fit()
    assert num_batches == 2
    parts = make_trainer(with_train(config, micro_batch_tokens=micro_batch_tokens), tmp_path / "parts", data)
    parts.fit()
    assert num_batches >= 2 + 4
    assert_close(dict(whole.model.weights()), dict(parts.model.weights()))


def test_batches_made_ahead_change_nothing(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over epochs, micro-batches, a stop and a resume: the same bits, and all but the first of an epoch are used."""
    batches, take, used = batches_an_epoch(config, data), Prefetch.take, list[bool]()

    def ahead(prefetch: Prefetch, rows: np.ndarray) -> Any:
        prefetch.enabled = True  # as on a GPU
        batch = take(prefetch, rows)
        used.append(batch is not None)
        return batch

    config = with_train(config, max_steps=2 * batches + 2)
    plain = make_trainer(config, tmp_path / "plain", data)
    plain.fit()
    monkeypatch.setattr(Prefetch, "take", ahead)
    whole = make_trainer(config, tmp_path / "ahead", data)
    whole.fit()
    assert used == [step % batches > 0 for step in range(2 * batches + 2)]
    assert_identical(state_of(plain), state_of(whole))
    first = make_trainer(with_train(config, max_steps=batches + 2), tmp_path / "resumed", data)
    first.fit()
    resumed = make_trainer(config, tmp_path / "resumed", data)
    assert resumed.resume()
    resumed.fit()
    assert_identical(state_of(plain), state_of(resumed))
    split = make_trainer(with_train(config, micro_batch_tokens=60), tmp_path / "split", data)
    used.clear()
    split.fit()
    assert used.count(True) == 2 * (batches - 1) + 1  # the first micro-batch of a step each
    left_out = make_trainer(with_train(config, skip_steps=(2,)), tmp_path / "left out", data)
    left_out.fit()  # the batch that was made for step 2 is not that of step 3
    monkeypatch.setattr(Prefetch, "take", take)
    expected = make_trainer(with_train(config, micro_batch_tokens=60), tmp_path / "expected", data)
    expected.fit()
    assert_identical(state_of(expected), state_of(split))
    expected = make_trainer(with_train(config, skip_steps=(2,)), tmp_path / "expected without", data)
    expected.fit()
    assert_identical(state_of(expected), state_of(left_out))


def test_memory_that_runs_out_ahead_of_time_changes_no_update(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is made again in its turn, where a smaller one can be tried."""
    config = with_train(config, max_steps=4)
    plain = make_trainer(config, tmp_path / "plain", data)
    plain.fit()
    make_next, num_failures = Prefetch.make_next, 0

    def full(*_: Any) -> None:
        nonlocal num_failures
        num_failures += 1
        raise RuntimeError("out of memory")

    def ahead(prefetch: Prefetch, *given: Any) -> None:
        prefetch.enabled = True  # as on a GPU
        with monkeypatch.context() as patched:
            patched.setattr(prefetch.splits, "collate", full)
            make_next(prefetch, *given)

    monkeypatch.setattr(Prefetch, "make_next", ahead)
    failing = make_trainer(config, tmp_path / "failing", data)
    failing.fit()
    assert num_failures > 0
    assert_identical(state_of(plain), state_of(failing))


def test_rounded_shapes_change_no_update(config: Config, data: Path, tmp_path: Path) -> None:
    config = without_dropout(config)
    exact = make_trainer(config, tmp_path / "exact", data)
    rounded = make_trainer(with_train(config, rounded_shapes=True), tmp_path / "rounded", data)
    said = list[str]()
    rounded.log.say = said.append  # type: ignore[method-assign]
    rounded.announce()
    assert any("numbers of rows instead of" in line for line in said)
    exact.fit()
    rounded.fit()
    assert_close(dict(exact.model.weights()), dict(rounded.model.weights()))


def test_two_processes_are_one(recipe: Path, config: Config, data: Path, tmp_path: Path, warm_python: Path) -> None:
    steps = batches_an_epoch(config, data)  # so that the batch of one pair, which leaves a process idle, is among them
    settings = [
        f"train.max_steps={steps}",
        *(f"model.{name}=0.0" for name in ("dropout", "attention_dropout", "ffn_dropout")),
    ]
    arguments = ["train", str(recipe), "--data", str(data)]
    arguments += [word for setting in settings for word in ("--set", setting)]
    processes = start(2, ["-m", "transduce.cli.main", *arguments, "--output", str(tmp_path / "two")], warm_python)
    assert command_line([*arguments, "--output", str(tmp_path / "one"), "--quiet"]) == 0
    for code, messages in finish(processes):
        assert code == 0, messages
    assert_close(final_weights(tmp_path / "one"), final_weights(tmp_path / "two"))
    records = [
        [
            r
            for r in map(json.loads, (tmp_path / run / "metrics.jsonl").read_text().splitlines())
            if r["kind"] == "train"
        ]
        for run in ("one", "two")
    ]
    assert [r["target_tokens"] for r in records[0]] == [r["target_tokens"] for r in records[1]]
    np.testing.assert_allclose([r["loss"] for r in records[0]], [r["loss"] for r in records[1]], rtol=1e-5)
    np.testing.assert_allclose(
        [r["gradient_norm"] for r in records[0]], [r["gradient_norm"] for r in records[1]], rtol=1e-4
    )
    costs = [read_progress(checkpoints(tmp_path / run)[-1]).cost for run in ("one", "two")]
    assert [cost.steps for cost in costs] == [steps, steps]
    # Halves of a batch are padded less than the whole, or as much; apart from that, the same is computed.
    assert 0.8 * costs[0].flops < costs[1].flops <= costs[0].flops


def test_the_plan_is_that_of_its_epoch(config: Config, data: Path, tmp_path: Path) -> None:
    trainer, store = make_trainer(config, tmp_path / "run", data), ParallelStore.open(data / "train.arrow")

    def batches(plan: BatchPlan) -> list[list[int]]:
        return [plan.batch(index).tolist() for index in range(len(plan))]

    plans = {epoch: batches(trainer.order.plan(0, epoch)) for epoch in (0, 1, 1, 0, 2)}
    assert len({str(plan) for plan in plans.values()}) == 3
    for epoch, plan in plans.items():
        expected = plan_epoch(
            store.source_lengths,
            store.target_lengths,
            source_budget=config.train.source_batch_tokens,
            target_budget=config.train.target_batch_tokens,
            seed=config.train.seed,
            epoch=epoch,
        )
        assert plan == batches(expected)


def test_decoding_past_the_table_of_positions_does_not_disturb_training(
    config: Config, data: Path, tmp_path: Path
) -> None:
    """The table of sinusoids grows inside the scorer's inference mode; training goes on with the grown one."""

    def scorer(model: Any) -> dict[str, float]:
        with torch.inference_mode():
            model.encode(torch.full((1, 700), 5), torch.tensor([700]))
            model.target_positions(0, 700)
        return {"bleu": 1.0}

    config = with_train(config, max_steps=3, validate_steps=1, validate_bleu=True)
    grown = make_trainer(config, tmp_path / "grown", data, scorer=scorer)
    assert grown.fit().end == End.MAX_STEPS
    plain = make_trainer(config, tmp_path / "plain", data)
    plain.fit()
    assert_identical(state_of(grown), state_of(plain))


def test_bf16_trains_as_fp32_does(config: Config, data: Path, tmp_path: Path) -> None:
    config = with_train(without_dropout(config), max_steps=3, source_batch_tokens=60, target_batch_tokens=60)
    losses = {}
    for precision in ("fp32", "bf16"):
        trainer = make_trainer(config, tmp_path / precision, data, precision=precision)
        trainer.fit()
        assert trainer.progress.skipped_steps == 0
        assert {weight.dtype for weight in trainer.model.weights().values()} == {torch.float32}
        records = (tmp_path / precision / "metrics.jsonl").read_text().splitlines()
        losses[precision] = [json.loads(line)["loss"] for line in records]
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=0.02)
    assert losses["bf16"] != losses["fp32"]


def poison(monkeypatch: pytest.MonkeyPatch, steps: set[int]) -> None:
    """Makes the loss of the given steps NaN."""
    original, train_step = trainer_module.states_loss, Trainer.train_step
    now = 0

    def counted(trainer: Trainer, rows: np.ndarray) -> StepResult:
        nonlocal now
        now = trainer.progress.step + 1
        return train_step(trainer, rows)

    def poisoned(*arguments: Any) -> tuple[Tensor, Tensor]:
        loss, nll = original(*arguments)
        return (loss * math.nan if now in steps else loss), nll

    monkeypatch.setattr(Trainer, "train_step", counted)
    monkeypatch.setattr(trainer_module, "states_loss", poisoned)


def test_an_update_that_is_not_finite_is_left_out(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch, {3})
    seen: list[dict[str, Tensor]] = []
    trainer = make_trainer(with_train(config, max_steps=4), tmp_path / "run", data)
    original = trainer.log.step

    def spy(*arguments: Any) -> None:
        seen.append(state_of(trainer))
        original(*arguments)

    trainer.log.step = spy  # type: ignore[method-assign]
    trainer.fit()
    assert_identical(seen[2], seen[1])
    assert not torch.equal(seen[3]["weight source_embedding"], seen[2]["weight source_embedding"])
    assert trainer.progress.skipped_steps == 1
    assert trainer.progress.step == 4
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [record["gradient_norm"] is None for record in records] == [False, False, True, False]


def test_training_ends_when_no_update_is_finite(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch, set(range(2, 100)))
    trainer = make_trainer(with_train(config, max_steps=50, checkpoint_steps=1), tmp_path / "run", data)
    with pytest.raises(TrainingError, match="not finite"):
        trainer.fit()
    assert trainer.progress.step == 1 + 20
    assert all(bool(weight.isfinite().all()) for weight in trainer.model.weights().values())


def test_updates_left_out_are_counted_in_a_row(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nineteen bad ones, a good one and nineteen bad ones go on: twenty in a row would end the training."""
    poison(monkeypatch, set(range(2, 41)) - {21})
    trainer = make_trainer(with_train(config, max_steps=41), tmp_path / "run", data)
    assert trainer.fit().end == End.MAX_STEPS
    assert (trainer.progress.step, trainer.progress.skipped_steps) == (41, 38)


def test_too_little_memory_says_what_to_set(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(Trainer, "train_step", exhausted)
    trainer = make_trainer(config, tmp_path / "run", data)
    with pytest.raises(TrainingError, match=r"step 1: CPU.* ran out of memory.*--set train\.micro_batch_tokens="):
        trainer.fit()


def test_what_guidance_keeps_of_an_attempt_without_enough_memory_is_freed_before_the_next(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores keep all that their gradient needs: the next, smaller attempt would have to fit in beside it."""
    config = with_train(config, max_steps=1)
    plain = make_trainer(config, tmp_path / "run", data)
    guidance, kept = Guidance(0.5, CurrentWord([True] * 300, [True] * 300)), list[int]()
    guidance.watch(plain.model)  # type: ignore[arg-type]
    trainer = Trainer(plain.model, config, plain.run, plain.train, guidance=guidance, compute=plain.compute)
    collate, states_loss = trainer.splits.collate, trainer_module.states_loss

    def noted(rows: np.ndarray) -> Any:
        kept.append(len(guidance.scores_LBTS))
        return collate(rows)

    def full(*given: Any) -> Any:
        if len(kept) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return states_loss(*given)

    monkeypatch.setattr(trainer.splits, "collate", noted)
    monkeypatch.setattr(trainer_module, "states_loss", full)
    assert trainer.fit().end == End.MAX_STEPS
    assert kept[:2] == [0, 0]


class MeanModel(nn.Module):
    """Predicts a token from the one before it and the mean of the source: no attention, and no `Transformer`."""

    def __init__(self, vocab_size: int, width: int) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding = nn.Parameter(torch.randn(vocab_size, width) / width**0.5)
        self.mix = nn.Linear(2 * width, width)
        self.checkpointing, self.rounded_shapes, self.max_positions = False, False, None
        self.output_bias: Tensor | None = None
        self.block_heads = None

    def forward(self, source_BS: Tensor, source_lengths_B: Tensor, target_BT: Tensor, lengths_B: Tensor) -> Tensor:
        source_BSD, previous_BT = self.embedding[source_BS], nn.functional.pad(target_BT[:, :-1], (1, 0))
        mean_BTD = source_BSD.mean(1, keepdim=True).expand(-1, target_BT.size(1), -1)
        states_BTD = self.mix(torch.cat([mean_BTD, self.embedding[previous_BT]], dim=-1))
        return states_BTD[torch.arange(target_BT.size(1)) < lengths_B[:, None]]

    @property
    def output_embedding(self) -> Tensor:
        return self.embedding

    @property
    def num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    def logits(self, states: Tensor) -> Tensor:
        return states @ self.embedding.T

    def training_flops(self, sizes: Any) -> int:
        return 0

    def weights(self) -> dict[str, Tensor]:
        return {name: parameter.detach() for name, parameter in self.named_parameters()}

    def require_shapes(self, found: Mapping[str, tuple[int, ...]], where: str) -> None:
        assert dict(found) == {name: tuple(weight.shape) for name, weight in self.weights().items()}, where

    def load_weights(self, weights: Mapping[str, Any], where: str) -> None:
        for name, weight in self.weights().items():
            weight.copy_(torch.as_tensor(weights[name]))


def test_another_model_is_trained_stopped_and_resumed(config: Config, data: Path, tmp_path: Path) -> None:
    config = with_train(config, max_steps=30, validate_steps=10)
    store = ParallelStore.open(data / "train.arrow")

    def trainer(run: str) -> Trainer:
        (tmp_path / run).mkdir(exist_ok=True)
        model, validation = MeanModel(300, 16), Validation(validation_store(data))
        return Trainer(model, config, tmp_path / run, store, validation, show_progress=False)

    whole = trainer("whole")
    before = perplexity(whole.model, validation_store(data), whole.compute)
    assert whole.fit().end == End.MAX_STEPS
    assert whole.progress.validations["perplexity"] < before / 2
    assert whole.progress.cost.flops == 0  # nobody knows its products
    stop_after(trainer("parts"), 13)
    parts = trainer("parts")
    assert parts.resume()
    parts.fit()
    assert_identical(state_of(parts), state_of(whole))
