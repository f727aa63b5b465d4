"""When a checkpoint is due after a stop and a resume."""

from dataclasses import replace
from pathlib import Path

import pytest

from transduce.config import Config, TrainConfig
from transduce.training import checkpoint_schedule
from transduce.training.checkpoint_schedule import CheckpointSchedule
from transduce.training.progress import CheckpointKind, Progress, write_state
from transduce.training.run_folder import checkpoint_path


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (100, [None, None, None, CheckpointKind.RESUME_ONLY]),  # 60 seconds after the one by time that was last
        (0, [CheckpointKind.REGULAR, None, None, CheckpointKind.REGULAR]),  # 60 seconds after the regular one
    ],
)
def test_a_resumed_run_writes_its_checkpoints_when_the_uninterrupted_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int, expected: list[CheckpointKind | None]
) -> None:
    """Checkpoints came after 10 and after 70 seconds of training; each step takes 20."""
    now = 1000.0
    monkeypatch.setattr(checkpoint_schedule.time, "monotonic", lambda: now)
    found = [checkpoint_path(tmp_path, step) for step in (1, 4)]
    kinds = (CheckpointKind.REGULAR, CheckpointKind.RESUME_ONLY)
    for path, seconds, kind in zip(found, (10.0, 70.0), kinds, strict=True):
        path.mkdir(parents=True)
        write_state(path, Progress(step=int(path.name[-1]), seconds=seconds), kind, {})
    config = replace(Config().train, checkpoint_steps=steps, checkpoint_minutes=1.0)
    schedule = CheckpointSchedule(config)
    schedule.restore(found, Progress(step=4, seconds=70.0))
    schedule.start()
    due = []
    for step in range(5, 9):
        due.append(schedule.due(step, bool))
        if due[-1] is not None:
            schedule.written(due[-1], step)
        now += 20.0
    assert due == expected


def test_minutes_go_on_from_the_last_regular_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last of two came after 60 of 100 seconds of training: the next is due 20 seconds after the resume."""
    now = 1000.0
    monkeypatch.setattr(checkpoint_schedule.time, "monotonic", lambda: now)
    found = [checkpoint_path(tmp_path, step) for step in (1, 2)]
    for path, seconds in zip(found, (20.0, 60.0), strict=True):
        path.mkdir(parents=True)
        write_state(path, Progress(step=int(path.name[-1]), seconds=seconds), CheckpointKind.REGULAR, {})
    schedule = CheckpointSchedule(replace(Config().train, checkpoint_steps=0, checkpoint_minutes=1.0))
    schedule.restore(found, Progress(step=3, seconds=100.0))
    schedule.start()
    now += 19.0
    assert schedule.due(4, bool) is None
    now += 1.0
    assert schedule.due(5, bool) == CheckpointKind.REGULAR


def test_a_damaged_regular_checkpoint_does_not_keep_a_run_from_resuming(tmp_path: Path) -> None:
    found = [checkpoint_path(tmp_path, step) for step in (1, 2)]
    for path in found:
        path.mkdir(parents=True)
    write_state(found[1], Progress(step=2, seconds=4.0), CheckpointKind.RESUME_ONLY, {})
    (found[0] / "state.json").write_text("{")
    schedule = CheckpointSchedule(replace(Config().train, checkpoint_steps=0, checkpoint_minutes=1.0))
    schedule.restore(found, Progress(step=2, seconds=4.0))
    assert schedule.last_kind(2) == CheckpointKind.FINAL


def test_every_step_may_have_a_checkpoint_and_where_only_steps_count_nobody_is_asked_for_the_time() -> None:
    asked: list[bool] = []
    by_steps = CheckpointSchedule(TrainConfig(checkpoint_steps=1, checkpoint_minutes=0))
    assert [by_steps.due(step, asked.append) for step in (1, 2)] == [CheckpointKind.REGULAR] * 2  # type: ignore[arg-type]
    never = CheckpointSchedule(TrainConfig(checkpoint_steps=0, checkpoint_minutes=0))
    assert never.due(1, asked.append) is None  # type: ignore[arg-type]
    assert asked == []
    assert [each.last_kind(5) for each in (by_steps, never)] == [CheckpointKind.REGULAR, CheckpointKind.FINAL]
    by_steps.written(CheckpointKind.RESUME_ONLY, 5)
    assert by_steps.last_kind(5) == CheckpointKind.REGULAR
    by_steps.written(CheckpointKind.REGULAR, 5)
    assert by_steps.last_kind(5) is None  # it is not written twice


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [8, 10, 12]),  # six steps for three checkpoints
        ({"checkpoint_steps": 5}, [5, 8, 10, 12]),
        ({"int8_tuning_steps": 2}, [11, 12]),  # no more than there are steps
        ({"average_last": 1}, [12]),
        ({"int8_tuning_steps": 0}, []),
    ],
)
def test_the_steps_that_tune_for_int8_have_the_checkpoints_to_average(
    changes: dict[str, int], expected: list[int]
) -> None:
    usual = {"max_steps": 12, "int8_tuning_steps": 6, "average_last": 3, "checkpoint_minutes": 0}
    schedule = CheckpointSchedule(TrainConfig(**(usual | changes)))  # type: ignore[arg-type]
    due = {step: schedule.due(step, bool) for step in range(1, 13)}
    assert [step for step, kind in due.items() if kind == CheckpointKind.REGULAR] == expected
    assert set(due.values()) <= {CheckpointKind.REGULAR, None}
