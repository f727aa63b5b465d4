"""The last steps of a training, tuned for int8: stopped, resumed, split, in bf16, validated and averaged."""

import copy
import json
from pathlib import Path

import pytest
import torch

from small_training import (
    assert_close,
    assert_identical,
    final_weights,
    make_trainer,
    state_of,
    stop_after,
    with_train,
    without_dropout,
)
from transduce.bundle import Bundle
from transduce.cli.main import main as command_line
from transduce.config import Config
from transduce.config.tensors import read_weights
from transduce.training.int8_tuning import rounded
from transduce.training.run_folder import checkpoint_path, checkpoints
from transduce.training.trainer import Trainer
from transduce.training.validation import perplexity

pytestmark = pytest.mark.computes


@pytest.fixture(scope="module")
def tuned(config: Config) -> Config:
    """Returns a configuration whose steps 5 to 8 are tuned."""
    return with_train(config, max_steps=8, int8_tuning_steps=4, average_last=1)


@pytest.fixture(scope="module")
def whole(tuned: Config, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    trainer = make_trainer(with_train(tuned, checkpoint_steps=4), tmp_path_factory.mktemp("whole") / "run", data)
    trainer.fit()
    return trainer


@pytest.mark.parametrize("step", [3, 4, 5, 7])
def test_stopped_before_at_and_after_the_border_it_is_the_uninterrupted_one(
    tuned: Config, data: Path, tmp_path: Path, whole: Trainer, step: int
) -> None:
    stop_after(make_trainer(tuned, tmp_path / "run", data), step)
    torch.rand(7)  # a new process has other random numbers
    resumed = make_trainer(tuned, tmp_path / "run", data)
    assert resumed.resume()
    resumed.fit()
    assert_identical(state_of(resumed), state_of(whole))


def test_only_the_last_steps_differ_and_checkpoints_have_float32_weights(
    tuned: Config, data: Path, tmp_path: Path, whole: Trainer
) -> None:
    plain = make_trainer(with_train(tuned, int8_tuning_steps=0, checkpoint_steps=4), tmp_path / "run", data)
    plain.fit()
    at_border = [read_weights(checkpoint_path(run, 4) / "model.safetensors") for run in (plain.run, whole.run)]
    assert all((at_border[0][name] == at_border[1][name]).all() for name in at_border[0])
    last = final_weights(whole.run)
    assert not torch.equal(last["source_embedding"], final_weights(plain.run)["source_embedding"])
    assert not torch.equal(last["source_embedding"], rounded(last["source_embedding"]))
    assert_identical(last, dict(whole.model.weights()))


def test_a_tuned_update_by_hand(tuned: Config, data: Path, tmp_path: Path) -> None:
    """The gradient of a model that has the rounded weights, and Adam's step from the weights themselves."""
    config = with_train(without_dropout(tuned), max_steps=1, int8_tuning_steps=1)
    ours, other = (make_trainer(config, tmp_path / name, data) for name in ("ours", "other"))
    weights = {name: weight.clone() for name, weight in other.model.weights().items()}
    other.model.load_weights({n: rounded(w) if w.dim() == 2 else w for n, w in weights.items()}, "rounded")
    other.config = with_train(config, int8_tuning_steps=0)
    gradients = {}
    step = other.optimizer.step

    def put_back() -> None:
        gradients.update({name: each.grad.clone() for name, each in other.model.named_parameters()})
        other.model.load_weights(weights, "before")
        step()

    other.optimizer.step = put_back  # type: ignore[method-assign, assignment]
    other.fit()
    ours.fit()
    assert any(gradient.abs().max() > 0 for gradient in gradients.values())
    assert_identical(dict(ours.model.weights()), dict(other.model.weights()))


@pytest.mark.parametrize("changes", [{"micro_batch_tokens": 60}, {"activation_checkpointing": True}])
def test_the_split_of_a_batch_does_not_change_a_tuned_update(
    tuned: Config, data: Path, tmp_path: Path, changes: dict[str, int]
) -> None:
    config = with_train(without_dropout(tuned), max_steps=2, int8_tuning_steps=1)
    plain, split = (make_trainer(each, tmp_path / str(i), data) for i, each in enumerate((config, copy.copy(config))))
    split.config = with_train(config, **changes)
    split.splits.train = split.config.train
    split.splits.__post_init__()
    for trainer in (plain, split):
        trainer.fit()
    assert_close(dict(plain.model.weights()), dict(split.model.weights()))


def test_in_bf16_the_weights_stay_float32_and_it_resumes(tuned: Config, data: Path, tmp_path: Path) -> None:
    once = make_trainer(tuned, tmp_path / "once", data, precision="bf16")
    once.fit()
    stop_after(make_trainer(tuned, tmp_path / "run", data, precision="bf16"), 6)
    resumed = make_trainer(tuned, tmp_path / "run", data, precision="bf16")
    assert resumed.resume()
    resumed.fit()
    assert_identical(state_of(resumed), state_of(once))
    assert {weight.dtype for weight in once.model.weights().values()} == {torch.float32}


def test_validation_says_that_it_scores_the_float32_weights(
    tuned: Config, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = make_trainer(with_train(tuned, validate_steps=4), tmp_path / "run", data, validate=True)
    trainer.log.show = True
    trainer.fit()
    said = [line for line in capsys.readouterr().err.splitlines() if "validation" in line]
    assert said[0].startswith("step 4: validation perplexity")
    assert said[1].startswith("step 8: validation of the float32 weights perplexity")
    assert trainer.validation is not None
    score = perplexity(trainer.model, trainer.validation.store, trainer.compute)
    assert trainer.progress.validations["perplexity"] == pytest.approx(score)


def test_the_command_averages_tuned_checkpoints_only_and_resumes_with_and_without_tuning(
    recipe: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    command = ["train", str(recipe), "--data", str(data), "--output", str(run)]
    for setting in ("checkpoint_steps=3", "average_last=3", "int8_tuning_steps=4"):
        command += ["--set", f"train.{setting}"]
    assert command_line(command) == 0
    assert "int8 tuning: steps 9 to 12 compute with weights rounded" in capsys.readouterr().err
    assert [int(path.name[-2:]) for path in checkpoints(run)] == [6, 9, 10, 11, 12]
    assert Bundle.load(run / "model").metrics["averaged_steps"] == "10, 11, 12"
    average = ["average", str(run), "--last", "5", "--output", str(tmp_path / "five")]
    assert command_line(average) == 0
    assert "has 4 tuned checkpoints to average, not 5" in capsys.readouterr().err
    assert Bundle.load(tmp_path / "five").metrics["averaged_steps"] == "9, 10, 11, 12"
    assert command_line([*command, "--resume", "--set", "train.int8_tuning_steps=0"]) == 5
    assert "train.int8_tuning_steps was 4, now 0" in capsys.readouterr().err
    longer = ["--set", "train.max_steps=14", "--set", "train.int8_tuning_steps=6"]  # tuned from step 9 on, as it was
    assert command_line([*command, "--resume", *longer]) == 0
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records if record["kind"] == "train"] == list(range(1, 15))
