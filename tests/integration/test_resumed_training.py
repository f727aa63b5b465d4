"""A resumed training is the one that was never stopped; what it may be resumed with."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from small_training import (
    assert_close,
    assert_identical,
    batches_an_epoch,
    final_weights,
    make_trainer,
    state_of,
    stop_after,
    with_train,
    without_clock,
    without_dropout,
)
from transduce.cli.main import main as command_line
from transduce.config import Config, DecodeConfig, load_recipe
from transduce.config.checked_json import read_checked, write_checked
from transduce.data.prepare import prepare
from transduce.engines.torch import TorchEngine
from transduce.errors import TrainingError
from transduce.model import windowed
from transduce.runs import train
from transduce.training import trainer as trainer_module
from transduce.training.averaging import average
from transduce.training.outcome import End
from transduce.training.progress import check_checkpoint
from transduce.training.run_folder import checkpoints, load_run_config, load_run_data
from transduce.training.schedule import cooldown, noam
from transduce.training.step import StepResult
from transduce.training.trainer import Trainer

pytestmark = pytest.mark.computes


@pytest.fixture(scope="module")
def uninterrupted(
    config: Config, data: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Tensor], Any]:
    steps = 2 * batches_an_epoch(config, data) + 2
    trainer = make_trainer(with_train(config, max_steps=steps), tmp_path_factory.mktemp("whole") / "run", data)
    outcome = trainer.fit()
    assert outcome.end == End.MAX_STEPS
    return state_of(trainer), outcome.progress


@pytest.mark.parametrize("place", ["first step", "within an epoch", "before its end", "at its end", "after its end"])
def test_a_resumed_training_is_the_uninterrupted_one_bit_for_bit(
    config: Config, data: Path, tmp_path: Path, uninterrupted: tuple[dict[str, Tensor], Any], place: str
) -> None:
    epoch = batches_an_epoch(config, data)
    step = {
        "first step": 1,
        "within an epoch": epoch // 2,
        "before its end": epoch - 1,
        "at its end": epoch,
        "after its end": epoch + 1,
    }[place]
    config = with_train(config, max_steps=2 * epoch + 2)
    stop_after(make_trainer(config, tmp_path / "run", data), step)
    torch.manual_seed(12345)  # a new process has other random numbers
    torch.rand(7)
    resumed = make_trainer(config, tmp_path / "run", data)
    assert resumed.resume()
    assert resumed.progress.step == step
    assert (resumed.progress.epoch, resumed.progress.batch) == divmod(step, epoch)
    outcome = resumed.fit()
    assert_identical(state_of(resumed), uninterrupted[0])
    assert without_clock(outcome.progress) == without_clock(uninterrupted[1])
    assert outcome.progress.seconds > 0
    (device,) = outcome.progress.cost.devices.values()
    assert device.seconds == pytest.approx(outcome.progress.seconds)
    assert outcome.progress.cost.estimate is not None


def test_a_model_with_an_attention_window_trains_resumes_and_translates(
    config: Config, data: Path, tmp_path: Path
) -> None:
    """Sentences of up to hundreds of subwords against a window of 6."""
    full = make_trainer(with_train(config, max_steps=6), tmp_path / "full", data)
    full.fit()
    config = with_train(config, max_steps=6)
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, attention_window=6))
    whole = make_trainer(config, tmp_path / "whole", data)
    assert whole.fit().end == End.MAX_STEPS
    stop_after(make_trainer(config, tmp_path / "run", data), 3)
    resumed = make_trainer(config, tmp_path / "run", data)
    assert resumed.resume()
    resumed.fit()
    assert_identical(state_of(resumed), state_of(whole))
    assert not torch.equal(state_of(full)["weight source_embedding"], state_of(whole)["weight source_embedding"])
    hypotheses = TorchEngine(whole.model).translate([list(range(10, 50))], DecodeConfig(beam_size=3))
    assert hypotheses[0]


def test_training_with_an_attention_window_is_training_with_full_attention_masked(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packed batches, padding and both stacks: losses and weights of six updates, to rounding."""
    config = without_dropout(with_train(config, max_steps=6, log_steps=1))
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, attention_window=6))
    losses, weights = [], []
    for kernel in (windowed.windowed_attend, windowed.windowed_attend_reference):
        monkeypatch.setattr(windowed, "windowed_attend", kernel)
        run = tmp_path / kernel.__name__
        make_trainer(config, run, data).fit()
        records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        losses.append([record["loss"] for record in records if record["kind"] == "train"])
        weights.append(final_weights(run))
    assert len(losses[0]) == 6
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert_close(*weights, tolerance=1e-4)


def test_dropout_was_on_while_resuming_was_tested(
    config: Config, data: Path, tmp_path: Path, uninterrupted: tuple[dict[str, Tensor], Any]
) -> None:
    quiet = make_trainer(with_train(without_dropout(config), max_steps=uninterrupted[1].step), tmp_path / "run", data)
    quiet.fit()
    assert not torch.equal(state_of(quiet)["weight source_embedding"], uninterrupted[0]["weight source_embedding"])


def test_a_damaged_checkpoint_is_passed_over(
    config: Config,
    data: Path,
    tmp_path: Path,
    uninterrupted: tuple[dict[str, Tensor], Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = with_train(config, max_steps=uninterrupted[1].step, checkpoint_steps=2, keep_checkpoints=100)
    stop_after(make_trainer(config, tmp_path / "run", data), 5)
    damaged = checkpoints(tmp_path / "run")[-1] / "optimizer.safetensors"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    resumed = make_trainer(config, tmp_path / "run", data)
    resumed.log.show = True
    assert resumed.resume()
    assert resumed.progress.step == 4
    warning = capsys.readouterr().err
    assert str(damaged) in warning
    assert "checksum" in warning
    resumed.fit()
    assert_identical(state_of(resumed), uninterrupted[0])
    # The last checkpoints can be averaged: the damaged one, which no later one has overwritten, is not among them.
    assert [check_checkpoint(path).step for path in checkpoints(tmp_path / "run")][:2] == [2, 4]
    average(checkpoints(tmp_path / "run"))
    assert (tmp_path / "run" / "checkpoints" / "damaged-step-00000005").is_dir()


def test_a_checkpoint_of_before_there_were_accounts_goes_on(config: Config, data: Path, tmp_path: Path) -> None:
    make_trainer(with_train(config, max_steps=3), tmp_path / "run", data).fit()
    state = checkpoints(tmp_path / "run")[-1] / "state.json"
    values = read_checked(state) | {"format": 1}
    whole = values["progress"].pop("cost")
    state.write_text(json.dumps(values))
    resumed = make_trainer(with_train(config, max_steps=5), tmp_path / "run", data)
    assert resumed.resume()
    cost = resumed.fit().progress.cost
    assert (cost.steps, whole["steps"]) == (2, 3)
    assert 0 < cost.flops < whole["flops"]


def test_a_budget_of_minutes_counts_over_all_sessions(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that stands still but in a step, which takes four seconds: 0.2 minutes are three steps."""
    now = [0.0]
    train_step = Trainer.train_step

    def slow(trainer: Trainer, rows: np.ndarray) -> StepResult:
        now[0] += 4.0
        return train_step(trainer, rows)

    monkeypatch.setattr(trainer_module.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(Trainer, "train_step", slow)
    config = with_train(config, max_steps=100, max_minutes=0.2)
    stop_after_step_two = with_train(config, max_steps=2)
    assert make_trainer(stop_after_step_two, tmp_path / "run", data).fit().progress.step == 2
    resumed = make_trainer(config, tmp_path / "run", data)
    assert resumed.resume()
    outcome = resumed.fit()
    assert (outcome.end, outcome.progress.step, outcome.progress.seconds) == (End.MAX_MINUTES, 3, 12.0)


def test_a_training_is_resumed_without_its_corpus(recipe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    shutil.copytree(recipe.parent, folder)
    arguments = ["train", str(folder / recipe.name), "--output", str(tmp_path / "run"), "--quiet"]
    assert command_line([*arguments, "--set", "train.max_steps=1"]) == 0
    for file in folder.glob("*.??"):
        file.unlink()
    settings = ["train.max_steps=2", "train.micro_batch_tokens=50", "data.source_language=en"]
    changed = [word for setting in settings for word in ("--set", setting)]
    assert command_line([*arguments, "--resume", *changed]) == 0
    assert check_checkpoint(checkpoints(tmp_path / "run")[-1]).step == 2


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        ("model.dropout=0.3", "model.dropout was 0.1, now 0.3"),
        ("train.seed=2", "train.seed was 1, now 2"),
        ("train.warmup_steps=30", "train.warmup_steps was 20, now 30"),
        ("data.max_tokens=999", "data.max_tokens was 1000, now 999"),
    ],
)
def test_another_training_cannot_be_resumed(
    recipe: Path, data: Path, finished_run: Path, capsys: pytest.CaptureFixture[str], setting: str, key: str
) -> None:
    arguments = ["train", str(recipe), "--output", str(finished_run), "--resume", "--quiet"]
    assert command_line([*arguments, "--set", setting]) == TrainingError.exit_code
    assert key in capsys.readouterr().err


def test_a_finished_run_is_left_as_it_is(
    recipe: Path, finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else its model would say that it was trained with another rate, and lose a shortlist that was learned since."""
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    (run / "model" / "shortlist.safetensors").write_text("learned since")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in run.rglob("*") if path.is_file()}
    arguments = ["train", str(recipe), "--output", str(run), "--resume", "--quiet"]
    assert command_line(arguments) == 0
    for setting in ("train.learning_rate_factor=3", "train.average_last=3", "train.max_steps=5"):
        capsys.readouterr()
        assert command_line([*arguments, "--set", setting]) == TrainingError.exit_code
        message = capsys.readouterr().err
        assert f"{run}: is finished after step 10, and no update is left that this would change" in message
        assert f"{setting.partition('=')[0]} was " in message
    after = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in run.rglob("*") if path.is_file()}
    assert after == before
    shutil.rmtree(run / "model")  # killed before it was written, say: then the updates are done, but not the rest
    assert command_line([*arguments, "--set", "train.learning_rate_factor=3"]) == TrainingError.exit_code
    assert command_line([*arguments, "--set", "train.average_last=1"]) == 0
    assert json.loads((run / "model" / "metrics.json").read_text())["averaged_steps"] == "10"


def test_where_a_cooldown_ends_cannot_be_moved(
    recipe: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", str(recipe), "--data", str(data), "--output", str(tmp_path), "--quiet"]
    settings = ["--set", "train.cooldown_steps=3", "--set", "train.max_steps=4"]
    assert command_line([*arguments, *settings]) == 0
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    rates = {each["step"]: each["learning_rate"] for each in records if "learning_rate" in each}
    train = load_run_config(tmp_path).train
    for step, rate in rates.items():
        plain = noam(step, load_run_config(tmp_path).model.d_model, train.warmup_steps, train.learning_rate_factor)
        assert rate == pytest.approx(plain * cooldown(step, 4, 3), rel=1e-6)
    assert max(rates) > 1  # where it has begun to fall
    assert command_line([*arguments[:2], *arguments[4:], *settings[:2], "--set", "train.max_steps=8", "--resume"]) != 0
    assert "train.max_steps was 4, now 8" in capsys.readouterr().err


def test_resume_on_other_data_is_refused(recipe: Path, config: Config, finished_run: Path, tmp_path: Path) -> None:
    other = dataclasses.replace(config, text=dataclasses.replace(config.text, vocab_size=280))
    prepare(other, tmp_path / "other", progress=False)
    before = final_weights(finished_run)
    with pytest.raises(TrainingError, match="other data"):
        train(load_recipe(recipe), finished_run, resume=True, data=tmp_path / "other", show_progress=False)
    assert_identical(final_weights(finished_run), before)
    assert json.loads((finished_run / "data.json").read_text())["folder"] != str(tmp_path / "other")


@pytest.mark.parametrize("key", ["train_sha256", "tokenizer_fingerprint"])
def test_other_text_or_another_tokenizer_alone_are_other_data(finished_run: Path, tmp_path: Path, key: str) -> None:
    noted = read_checked(finished_run / "data.json")
    write_checked(tmp_path / "data.json", noted)
    load_run_data(tmp_path)
    write_checked(tmp_path / "data.json", noted | {key: "0" * 64})
    with pytest.raises(TrainingError, match="other data"):
        load_run_data(tmp_path)
