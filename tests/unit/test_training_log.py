"""The speed that is reported is that of training, whatever is done in between."""

import errno
import io
import json
import math
import os
import resource
import time
from itertools import pairwise
from pathlib import Path

import pytest

from transduce.config import TrainConfig
from transduce.errors import TrainingError
from transduce.reporting.tables import clock as clock_text
from transduce.training import log as log_module
from transduce.training.event_file import EventFile
from transduce.training.log import TimeLeft, TrainingLog
from transduce.training.progress import Progress
from transduce.training.records import RecordFile
from transduce.training.step import StepResult

RESULT = StepResult(20.0, 10.0, target_tokens=10, source_tokens=8, gradient_norm=1.0, learning_rate=0.1)


def test_time_between_steps_counts_and_paused_time_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    with TrainingLog(tmp_path, TrainConfig(max_steps=10, log_steps=4), show=False) as log:
        log.begin(0)
        for step in range(1, 5):
            clock[0] += 1.0
            log.step(RESULT, Progress(step=step))
            if step < 4:
                with log.paused():
                    clock[0] += 50.0
    first, record = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert (first["step"], record["step"]) == (1, 4)
    assert record["target_tokens_per_second"] == pytest.approx(30 / 3.0)
    assert record["source_tokens_per_second"] == pytest.approx(24 / 3.0)
    assert record["loss"] == pytest.approx(2.0)
    assert record["perplexity"] == pytest.approx(math.e)  # of the negative log-likelihood, not of the smoothed loss


def test_what_is_recorded_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first step, every third and the last; updates that were left out have no part in the loss."""
    monkeypatch.setattr(log_module, "_tensorboard", lambda *_: None)
    left_out = StepResult(math.nan, 5.0, target_tokens=30, source_tokens=9, gradient_norm=2.0, learning_rate=0.3)
    other = StepResult(90.0, 60.0, target_tokens=30, source_tokens=9, gradient_norm=3.0, learning_rate=0.2)
    with TrainingLog(tmp_path, TrainConfig(max_steps=7, log_steps=3), show=True) as log:
        log.begin(0)
        for step, result in enumerate((RESULT, RESULT, other, left_out, left_out, left_out, RESULT), start=1):
            log.step(result, Progress(step=step, epoch=step // 4, target_tokens=100 * step, seconds=1.23456))
        scores = {"bleu": 17.256, "best_score": 1.0, "perplexity.news": math.inf}
        log.validation(scores, Progress(step=7, epoch=1, target_tokens=700), best=True)
        log.validation({"bleu": 1.0}, Progress(step=8), best=False)
    *records, validation, _ = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(r["kind"], r["step"], r["epoch"], r["target_tokens"], r["seconds"]) for r in records] == [
        ("train", step, step // 4, 100 * step, 1.235) for step in (1, 3, 6, 7)
    ]
    # Steps 2 and 3: (20 + 90) / (10 + 30) nats per token, and (10 + 60) / 40 without smoothing.
    assert [r["loss"] for r in records] == [2.0, pytest.approx(110 / 40), None, 2.0]
    assert records[1]["perplexity"] == pytest.approx(math.exp(70 / 40))
    assert [(r["learning_rate"], r["gradient_norm"]) for r in records[1:3]] == [(0.2, 3.0), (0.3, 2.0)]
    assert validation == {
        "kind": "validation",
        "step": 7,
        "epoch": 1,
        "seconds": 0.0,
        "target_tokens": 700,
        "flops": 0,
        **(scores | {"perplexity.news": None}),
    }
    said = capsys.readouterr().err.splitlines()
    assert [line.partition("  ")[0] for line in said[:4]] == ["step 1/7", "step 3/7", "step 6/7", "step 7/7"]
    assert said[1].startswith("step 3/7  loss 2.750  ppl 5.75  lr 2.00e-01  ")
    assert said[4] == "step 7: validation bleu 17.26  best score 1.00  perplexity of news inf  (best so far)"
    assert said[5] == "step 8: validation bleu 1.00"


def test_what_comes_after_the_last_record_is_recorded_where_training_stops(tmp_path: Path) -> None:
    other = StepResult(90.0, 60.0, target_tokens=30, source_tokens=9, gradient_norm=3.0, learning_rate=0.2)
    for first, results in ((1, (RESULT, RESULT, other)), (4, (RESULT,))):  # stopped after step 3, and resumed
        with TrainingLog(tmp_path, TrainConfig(max_steps=9, log_steps=4), show=False) as log:
            log.begin(first - 1)
            for step, result in enumerate(results, start=first):
                log.step(result, Progress(step=step))
            log.end(Progress(step=first + len(results) - 1))
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    # Steps 2 and 3: (20 + 90) / (10 + 30) nats per token.
    assert [(r["step"], r["loss"]) for r in records] == [(1, 2.0), (3, 2.75), (4, 2.0)]


def test_the_time_left_does_not_jump(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of 0.1 and 0.9 seconds in runs of ten, as short and long sentences come; a validation every 100 steps."""
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    left = TimeLeft(1000)
    left.start(200)
    assert left.seconds == 0.0
    estimates = []
    for step in range(201, 1001):
        clock[0] += 0.1 if step // 10 % 2 else 0.9
        left.step(step)
        if step % 100 == 0:
            clock[0] += 20.0
            left.pause(20.0)
        if step % 20 == 0:
            estimates.append((step, left.seconds))
    assert estimates[-1] == (1000, 0.0)
    for (_, before), (step, now) in pairwise(estimates):
        assert before - now < 0.2 * before + 20, step  # it falls by what has passed, and by little more
        assert now < 1.15 * before, step
    for step, estimate in estimates[5:]:
        assert estimate == pytest.approx((1000 - step) * (0.5 + 20 / 100), rel=0.35, abs=1), step


def test_the_time_left_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    left = TimeLeft(100)
    left.start(50)
    assert left.seconds == 0.0
    for step, seconds in ((51, 1.0), (52, 3.0)):
        clock[0] += seconds
        left.step(step)
    pace = (299 / 300 * 1 + 3) / (299 / 300 + 1)  # the older step counts a little less
    assert left.seconds == pytest.approx(48 * pace)
    clock[0] += 30.0
    left.pause(30.0)  # is spread over 300 steps
    assert left.seconds == pytest.approx(48 * (pace + 30 / 300))
    clock[0] += pace
    left.step(53)  # the pause is no part of a step
    assert left.seconds == pytest.approx(47 * (pace + 30 / 300))
    long = TimeLeft(1000)
    for step in range(1, 601):
        clock[0] += 2.0
        long.step(step)
    long.pause(60.0)
    assert long.seconds == pytest.approx(400 * (2 + 60 / 600))


def test_the_time_left_is_that_to_the_first_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After ten steps of 2 seconds and 1e9 operations each: 990 steps, 30 minutes less 20 seconds, or 590 steps."""
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    for limits, expected in (
        ({}, "0:33:00"),
        ({"max_minutes": 30.0}, "0:29:40"),
        ({"max_flops": 600e9}, "0:19:40"),
        ({"max_minutes": 30.0, "max_flops": 600e9}, "0:19:40"),
        ({"max_flops": 5e9}, "0:00:00"),
    ):
        log = TrainingLog(tmp_path, TrainConfig(max_steps=1000, log_steps=10, **limits), show=True, write=False)
        log._left.start(0)
        progress = Progress()
        for step in range(1, 11):
            clock[0] += 2.0
            progress.step, progress.seconds, progress.cost.flops = step, 2.0 * step, step * 10**9
            log._left.step(step)
        assert clock_text(log._seconds_left(progress)) == expected


def test_a_warning_is_printed_where_nothing_else_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = TrainingLog(tmp_path, TrainConfig(max_steps=10, log_steps=1), show=False)
    log.say("progress")
    log.warn("trouble")
    assert capsys.readouterr().err == "trouble\n"
    TrainingLog(tmp_path, TrainConfig(max_steps=10, log_steps=1), show=False, write=False).warn("one process is enough")
    assert capsys.readouterr().err == ""


def test_metrics_that_cannot_be_written_are_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing the file tries again, and must not hide the error that names it."""
    monkeypatch.setattr(log_module, "_tensorboard", lambda *_: None)  # the limit below is for all files
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, hard))  # stands for a full disk
    try:
        with pytest.raises(TrainingError, match=r"metrics\.jsonl: cannot be written: File too large"):
            record(tmp_path, num_steps=9)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("moment", ["opening", "writing", "closing"])
def test_a_training_goes_on_where_tensorboard_cannot_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], moment: str
) -> None:
    def fail_at(now: str) -> None:
        if now == moment:
            raise OSError(errno.ENOSPC, "No space left on device")

    class Board:
        def __init__(self, *_: object) -> None:
            fail_at("opening")

        def add_scalar(self, *_: object) -> None:
            fail_at("writing")

        def close(self) -> None:
            fail_at("closing")

    monkeypatch.setattr(log_module, "_tensorboard", Board)
    record(tmp_path, num_steps=3)
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 3
    warned = capsys.readouterr().err
    assert warned.count("\n") == 1
    assert "tensorboard: cannot be written (No space left on device)" in warned


def test_tensorboard_reads_the_numbers_and_drops_those_before_a_crash(tmp_path: Path) -> None:
    """A resumed training writes a file of its own, which takes the place of later steps in the one before."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for first, steps, loss in ((0, (1, 2, 3, 4), 8.0), (2, (3,), 4.0)):
        board = EventFile(tmp_path, first)
        for step in steps:
            board.add_scalar("train/loss", loss / step, step)
        board.close()
    read = accumulator.EventAccumulator(str(tmp_path))
    read.Reload()
    assert [(event.step, event.value) for event in read.Scalars("train/loss")] == [
        (1, 8.0),
        (2, 4.0),
        (3, pytest.approx(4 / 3)),
    ]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full, which stands for a full disk")
def test_a_full_disk_is_told_where_tensorboard_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "open", lambda *_, **__: io.FileIO("/dev/full", "wb"))
    with pytest.raises(OSError, match="No space left"):
        EventFile(tmp_path, 0)


def record(run: Path, num_steps: int) -> None:
    with TrainingLog(run, TrainConfig(max_steps=99, log_steps=1), show=False) as log:
        log.begin(0)
        for step in range(1, num_steps + 1):
            log.step(RESULT, Progress(step=step))


def test_what_a_crashed_training_recorded_past_its_checkpoint_is_dropped(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    with TrainingLog(tmp_path, TrainConfig(max_steps=10, log_steps=1), show=False) as log:
        log.begin(0)
        for step in range(1, 6):
            log.step(RESULT, Progress(step=step))
    with metrics.open("a") as file:
        file.write('{"kind": "train", "st')  # the crash
    with TrainingLog(tmp_path, TrainConfig(max_steps=10, log_steps=1), show=False) as log:
        log.begin(3)
        log.step(RESULT, Progress(step=4))
    assert [json.loads(line)["step"] for line in metrics.read_text().splitlines()] == [1, 2, 3, 4]


def test_the_record_of_a_validation_that_comes_again_is_dropped_and_damaged_lines_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = tmp_path / "metrics.jsonl"
    kept = ['{"kind": "validation", "step": 2}', '{"kind": "train", "step": 4}']
    metrics.write_text("\n".join([kept[0], "{}", kept[1], "[1]", '{"kind": "validation", "step": 4}']) + "\n")
    RecordFile(metrics).begin(4, without="validation")
    assert metrics.read_text().splitlines() == kept
    assert capsys.readouterr().err == f"warning: {metrics}: line 2 is no record of a step: damaged, and left out\n"
    metrics.write_text('{"kind": "train", "step": 4}\n')
    RecordFile(metrics).begin(3)
    assert not metrics.exists()  # nothing is left


def test_a_record_without_its_line_end_comes_again(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text('{"step": 1}\n{"step": 2}')  # the crash came before the last byte
    with TrainingLog(tmp_path, TrainConfig(max_steps=10, log_steps=1), show=False) as log:
        log.begin(2)
        log.step(RESULT, Progress(step=3))
    assert [json.loads(line)["step"] for line in metrics.read_text().splitlines()] == [1, 3]


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_records_are_not_written_to_a_pipe_or_a_device(tmp_path: Path, kind: str) -> None:
    metrics = tmp_path / "metrics.jsonl"
    if kind == "device":
        metrics.symlink_to(os.devnull)
        reader = None
    else:
        os.mkfifo(metrics)
        reader = os.open(metrics, os.O_RDWR)  # else a writer would wait for ever
    try:
        log = TrainingLog(tmp_path, TrainConfig(max_steps=10, log_steps=1), show=False)
        with pytest.raises(TrainingError, match=r"metrics\.jsonl: a pipe or a device"):
            log.begin(0)
    finally:
        if reader is not None:
            os.close(reader)
