"""What the trainer asks of its parts: memory, checkpoints, validation and signals."""

import contextlib
import math
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from noted_calls import Noting
from transduce.config import apply_settings, preset
from transduce.errors import BundleError, TrainingError
from transduce.training import trainer as trainer_module
from transduce.training.checkpoint_schedule import CheckpointSchedule
from transduce.training.cost import CostAccount
from transduce.training.distributed import Ranks
from transduce.training.outcome import End
from transduce.training.prefetch import Prefetch
from transduce.training.progress import CheckpointKind, Progress
from transduce.training.run_folder import checkpoint_path
from transduce.training.step import StepResult
from transduce.training.stop_signals import StopSignals
from transduce.training.trainer import Trainer

TINY = preset("tiny")


class Log:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.validated: list[Any] = []

    def say(self, line: str) -> None:
        self.said.append(line)

    def warn(self, line: str) -> None:
        self.said.append(f"! {line}")

    def paused(self) -> Any:
        return contextlib.nullcontext()

    def validation(self, *given: Any, **options: Any) -> None:
        self.validated.append((given, options))

    def step(self, *_: Any) -> None: ...


def trainer_of(run: Path, *settings: str, **parts: Any) -> Any:
    """Returns a trainer of these parts only."""
    trainer: Any = object.__new__(Trainer)
    trainer.config = apply_settings(TINY, settings)
    trainer.run, trainer.progress, trainer.ranks, trainer.log = run, Progress(step=4), Ranks(), Log()
    trainer.compute = SimpleNamespace(device=torch.device("cpu"))
    trainer.model, trainer.optimizer, trainer.guidance = "model", SimpleNamespace(state={}), None
    trainer.checkpoint_schedule = CheckpointSchedule(trainer.config.train)
    for name, part in parts.items():
        setattr(trainer, name, part)
    return trainer


def stopped_at(run: Path, *steps: int) -> list[Path]:
    paths = [checkpoint_path(run, step) for step in steps]
    for path in paths:
        path.mkdir(parents=True)
        (path / "state.json").touch()
    return paths


@pytest.mark.parametrize(("known", "moments"), [(False, {}), (False, {"a": 1}), (True, {})])
def test_memory_is_tried_for_each_phase_to_come(
    known: bool, moments: dict[str, Any], noting: Noting, tmp_path: Path
) -> None:
    added: list[Any] = []
    splits = SimpleNamespace(
        load=lambda step: known and step == 4,
        add=lambda *given, **options: added.append((given, options)),
        announcement=lambda: ["whole batches", "warning: too little"],
    )
    phases = [SimpleNamespace(from_step=step) for step in (0, 3, 9, 20)]
    order = SimpleNamespace(mixture=SimpleNamespace(phases=phases), stored_plan=lambda step, epoch: (step, epoch))
    fits: list[Any] = []

    def fit(**options: Any) -> tuple[int, int]:
        fits.append(options)
        return 900, 5

    trials = noting((trainer_module, "MemoryTrial"), SimpleNamespace(fit=fit))
    optimizer = SimpleNamespace(state=moments)
    trainer = trainer_of(tmp_path, splits=splits, order=order, train="store", guidance="guide", optimizer=optimizer)
    trainer.progress.epoch = 2
    trainer.fit_memory()
    assert trainer.log.said == ["whole batches", "warning: too little"]
    if known:
        assert (trials, added) == ([], [])
        return
    plans = [(4, 2), (9, 2), (20, 2)]
    assert trials == [(("model", trainer.config, "store", plans, trainer.compute, Ranks(), "guide"), {})]
    assert fits == [{"moments_exist": bool(moments)}]
    assert added == [((5, [900], "tried"), {"peak_bytes": 5})]


def test_the_announcement_of_a_training(tmp_path: Path) -> None:
    class Plan:
        padding_share = 0.125

        def __len__(self) -> int:
            return 40

    phases = [SimpleNamespace(from_step=0)]
    order = SimpleNamespace(
        mixture=SimpleNamespace(phases=phases), plan=lambda *_: Plan(), description=lambda _: "the corpora"
    )
    model = SimpleNamespace(num_parameters=1_234_567, rounded_shapes=False)
    trainer = trainer_of(tmp_path, "train.max_steps=100", order=order, model=model, train=[0] * 2000)
    trainer.compute = "CPU, fp32"
    trainer.announce()
    first = "tiny: 1,234,567 parameters on CPU, fp32; 2,000 pairs, 40 batches an epoch (12.5% padding), 100 steps"
    assert trainer.log.said == [f"{first} = 2.5 epochs", "the corpora"]
    phases.append(SimpleNamespace(from_step=9))
    order.description = lambda _: ""
    trainer.log.said.clear()
    trainer.announce()
    assert trainer.log.said == [first]


def test_the_last_undamaged_checkpoint_is_resumed_from_and_later_ones_are_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = stopped_at(tmp_path, 2, 4, 6)
    damaged = {third}

    def load(path: Path, model: Any, optimizer: Any, train: Any) -> Progress:
        if path in damaged:
            raise BundleError(f"{path.name} is damaged.")
        return Progress(step=int(path.name[-1]))

    monkeypatch.setattr(trainer_module, "load_checkpoint", load)
    restored: list[Any] = []
    schedule = SimpleNamespace(restore=lambda *given: restored.append(given))
    other = trainer_of(tmp_path, ranks=Ranks(1, 1), checkpoint_schedule=schedule)
    assert other.resume()
    assert third.exists()  # only the main process changes the folder
    trainer = trainer_of(tmp_path, checkpoint_schedule=schedule)
    capsys.readouterr()
    assert trainer.resume()
    assert capsys.readouterr().err == "warning: step-00000006 is damaged. Trying the checkpoint before it.\n"
    assert (trainer.progress.step, restored[-1]) == (4, ([first, second], Progress(step=4)))
    assert trainer.log.said == [
        f"! set aside as {third.with_name('damaged-step-00000006')}",
        f"resuming after step 4 ({second})",
    ]
    damaged.update((first, second))
    with pytest.raises(TrainingError, match="all 2 checkpoints are damaged"):
        trainer.resume()
    assert not trainer_of(tmp_path / "none", checkpoint_schedule=schedule).resume()


@pytest.mark.parametrize(
    ("minutes", "seconds", "voted", "end"),
    [
        (0, 999, False, None),
        (2, 119, False, None),
        (2, 119, True, End.MAX_MINUTES),  # the clock of another process
        (2, 120, True, End.MAX_MINUTES),
        (2, 120, False, None),
    ],
)
def test_processes_end_by_the_clock_together(
    minutes: int, seconds: int, voted: bool, end: End | None, tmp_path: Path
) -> None:
    flags: list[bool] = []

    def any_rank(flag: bool, device: Any) -> bool:
        flags.append(flag)
        return voted

    trainer = trainer_of(tmp_path, f"train.max_minutes={minutes}", ranks=SimpleNamespace(any_rank=any_rank))
    trainer.progress.seconds = float(seconds)
    assert trainer._end() == end
    assert flags == ([seconds >= 120] if minutes else [])
    trainer.progress.step = trainer.config.train.max_steps
    assert trainer._end() == End.MAX_STEPS  # by a count that all share
    assert len(flags) == bool(minutes)


@pytest.mark.parametrize(
    ("every", "step", "due"), [(0, 4, False), (4, 4, True), (3, 4, False), (2, 4, True), (5, 4, False), (4, 0, True)]
)
def test_when_a_validation_is_due(every: int, step: int, due: bool, tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path, f"train.validate_steps={every}")
    trainer.progress.step = step
    assert trainer._validation_is_due() == due
    assert not trainer._is_validated()
    trainer.progress.validations = {"bleu": 1.0, "step": float(step)}
    assert trainer._is_validated()


@pytest.mark.parametrize(("least", "whole", "at_once"), [(4096, 4096, 8192), (900, 4096, 900)])
def test_a_validation_takes_what_memory_allows_and_all_processes_have_the_scores_of_the_main_one(
    least: int, whole: int, at_once: int, tmp_path: Path
) -> None:
    asked, saved = list[Any](), list[Any]()

    def scores(*given: Any, **options: Any) -> dict[str, float]:
        asked.append((given, options))
        return {"perplexity": 4.0, "bleu": 10.0}

    class Main(Ranks):
        def broadcast(self, values: Any, device: Any) -> list[float]:
            return [value + 1 for value in values]

    writer = SimpleNamespace(
        save=lambda *given: saved.append(given), record_validation=lambda *given: saved.append(given)
    )
    trainer = trainer_of(tmp_path, ranks=Main())
    trainer.validation, trainer.writer = SimpleNamespace(scores=scores), writer
    trainer.splits = SimpleNamespace(least=least, whole=whole)
    trainer._validate()
    assert asked == [(("model", trainer.compute, Main()), {"most_tokens": at_once})]
    assert trainer.log.validated == [(({"perplexity": 5.0, "bleu": 11.0}, trainer.progress), {"best": True})]
    path = checkpoint_path(tmp_path, 4)
    assert saved == [
        (tmp_path / "best", trainer.progress, CheckpointKind.BEST),
        (path, trainer.progress),
    ]
    saved.clear()
    trainer._validate()  # no better
    assert (saved, trainer.progress.validations_since_best) == ([(path, trainer.progress)], 1)
    trainer.ranks, trainer.progress.best_score = Ranks(1, 1), None
    trainer._validate()
    assert len(saved) == 1  # another process writes nothing
    trainer.validation = None
    trainer._validate()
    assert len(asked) == 3


def test_an_update_is_counted_with_its_batch_its_time_and_its_cost(tmp_path: Path) -> None:
    examined: list[Any] = []

    def advance(progress: Progress) -> None:
        progress.step, progress.batch = progress.step + 1, progress.batch + 1

    order = SimpleNamespace(advance=advance, pairs=lambda progress: f"pairs of epoch {progress.epoch}")
    trainer = trainer_of(tmp_path, order=order, ranks=Ranks(0, 3))
    trainer.clock = lambda: 12.5
    trainer.capacity = SimpleNamespace(flops_per_second=2.0, basis="measured")
    trainer.compute, trainer._micro_batches = "CPU", ["pass"]
    trainer.quarantine = SimpleNamespace(examine=lambda *given: examined.append(given))
    trainer.progress = Progress(step=4, epoch=2, batch=6, target_tokens=100, seconds=1.0, cost=CostAccount())
    rows = np.arange(3)
    result = StepResult(1.0, 1.0, 30, 20, 0.5, 0.1, flops=7)
    trainer._advance(result, rows, 10.0)
    progress = trainer.progress
    assert (progress.step, progress.target_tokens, progress.seconds) == (5, 130, 3.5)
    assert (progress.cost.flops, progress.cost.steps, progress.cost.devices["CPU"].seconds) == (7, 1, 7.5)
    [(seen, batch, given)] = examined
    assert (seen, given) == (result, progress)
    assert (batch.epoch, batch.number, batch.own) == (2, 6, ["pass"])  # where it was in the plan
    assert batch.pairs == "pairs of epoch 2"
    left_out = trainer_of(tmp_path, "train.skip_steps=[5]")._left_out()
    assert (left_out.target_tokens, left_out.flops, math.isnan(left_out.loss)) == (0, 0, True)
    trainer._advance(left_out, rows, 10.0)
    assert (len(examined), progress.step, progress.skipped_steps) == (1, 6, 0)  # as the recipe says: no fault


@pytest.mark.parametrize(
    ("rank", "whole", "step", "there", "writes"),
    [
        (0, True, 4, False, True),
        (0, True, 4, True, False),
        (1, True, 4, False, False),
        (0, False, 4, False, False),
        (0, True, 0, False, False),
    ],
)
def test_after_another_process_has_failed_the_main_one_writes_a_checkpoint(
    rank: int, whole: bool, step: int, there: bool, writes: bool, tmp_path: Path
) -> None:
    saved: list[Any] = []
    writer = SimpleNamespace(save=lambda *given: saved.append(given), wait=lambda: saved.append("waited"))
    trainer = trainer_of(tmp_path, "train.checkpoint_minutes=0", ranks=Ranks(rank, 2), writer=writer, _is_whole=whole)
    trainer.progress.step = step
    if there:
        stopped_at(tmp_path, step)
    advice = trainer._checkpoint_alone()
    written = (checkpoint_path(tmp_path, step), trainer.progress, CheckpointKind.RESUME_ONLY)
    assert saved == (["waited", written, "waited"] if writes else ["waited"] if there else [])
    done = f"The checkpoint after step {step} is complete."
    assert advice == (f"{done} Continue with --resume." if writes or there else "Continue with --resume.")
    assert trainer.log.said == ([f"! {done}"] if writes or there else [])


# --- signals, batches made ahead --------------------------------------------------------------------------------------


def test_the_first_signal_is_kept_and_the_second_acts_at_once() -> None:
    seen: list[int] = []
    before = {number: signal.signal(number, lambda number, _: seen.append(number)) for number in (2, 15)}
    try:
        with StopSignals() as stop:
            assert stop.received is None
            os.kill(os.getpid(), signal.SIGTERM)
            assert (stop.received, seen) == (signal.SIGTERM, [])
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)
            assert seen == [15, 2]
        with StopSignals() as stop:
            os.kill(os.getpid(), signal.SIGINT)
            assert stop.received == signal.SIGINT
        os.kill(os.getpid(), signal.SIGINT)
        assert seen == [15, 2, 2]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_batch_made_ahead_is_the_share_of_the_update_after_the_next() -> None:
    made: list[Any] = []

    def collate(part: Any) -> Any:
        made.append(part.tolist())
        return f"batch {part.tolist()}"

    def parts(rows: Any, step: int) -> Any:
        asked.append(step)
        return [rows[:1], rows[1:]]

    asked: list[int] = []
    splits: Any = SimpleNamespace(
        device=torch.device("cuda"), own_limit=None, ranks=Ranks(1, 2), parts=parts, collate=collate, pairs="epoch 0"
    )
    order: Any = SimpleNamespace(rows_after_next=lambda _: np.arange(10, 16))
    prefetch = Prefetch(order, splits)
    prefetch.make_next(Progress(step=4))
    assert (asked, made) == ([6], [[11]])  # of rows 11, 13 and 15
    assert prefetch.take(np.array([11])) == "batch [11]"
    assert prefetch.take(np.array([11])) is None
    prefetch.make_next(Progress(step=4))
    assert prefetch.take(np.array([13])) is None  # other rows are asked for
    prefetch.make_next(Progress(step=4))
    splits.pairs = "epoch 1"
    assert prefetch.take(np.array([11])) is None  # the same number, of another epoch's lines
    for changed in ({"own_limit": 5}, {"own_limit": None, "device": torch.device("cpu")}):
        vars(splits).update(changed)
        Prefetch(order, splits).make_next(Progress(step=4))
    assert len(made) == 3
