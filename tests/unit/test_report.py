"""The speed that is reported is that of training, whatever is done in between."""

import json
import time
from pathlib import Path

import pytest

from transduce.training.report import Report
from transduce.training.state import Progress
from transduce.training.step import StepResult

RESULT = StepResult(20.0, 10.0, target_tokens=10, source_tokens=8, gradient_norm=1.0, learning_rate=0.1)


def test_time_between_steps_counts_and_paused_time_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    with Report(tmp_path, max_steps=10, log_steps=4, show=False) as report:
        report.begin(0)
        for step in range(1, 5):
            clock[0] += 1.0
            report.step(RESULT, Progress(step=step))
            if step < 4:
                with report.paused():
                    clock[0] += 50.0
    (record,) = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert record["target_tokens_per_second"] == pytest.approx(40 / 4.0)
    assert record["source_tokens_per_second"] == pytest.approx(32 / 4.0)
    assert record["loss"] == pytest.approx(2.0)


def test_what_a_crashed_training_recorded_past_its_checkpoint_is_dropped(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    with Report(tmp_path, max_steps=10, log_steps=1, show=False) as report:
        report.begin(0)
        for step in range(1, 6):
            report.step(RESULT, Progress(step=step))
    with metrics.open("a") as file:
        file.write('{"kind": "train", "st')  # the crash
    with Report(tmp_path, max_steps=10, log_steps=1, show=False) as report:
        report.begin(3)
        report.step(RESULT, Progress(step=4))
    assert [json.loads(line)["step"] for line in metrics.read_text().splitlines()] == [1, 2, 3, 4]
