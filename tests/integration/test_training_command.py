"""A run from all sides: its folder, its metrics, its model; the average and info commands."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from small_training import (
    assert_identical,
    batches_an_epoch,
    final_weights,
)
from transduce import files
from transduce.bundle import Bundle
from transduce.cli.main import main as command_line
from transduce.config import Config, load_recipe
from transduce.config.tensors import read_weights
from transduce.errors import BundleError, TrainingError
from transduce.runs import average_run, train
from transduce.training import averaging as averaging_module
from transduce.training.outcome import End
from transduce.training.progress import WEIGHTS, Progress, check_checkpoint, read_progress
from transduce.training.run_folder import checkpoints
from transduce.translation.translator import Translator

pytestmark = pytest.mark.computes


def test_the_last_checkpoints_are_kept(finished_run: Path) -> None:
    assert [path.name for path in checkpoints(finished_run)] == ["step-00000006", "step-00000008", "step-00000010"]
    assert sorted(path.name for path in (finished_run / "checkpoints").iterdir()) == [
        path.name for path in checkpoints(finished_run)
    ]


def test_metrics_have_a_line_for_each_record(finished_run: Path, config: Config, data: Path) -> None:
    records = [json.loads(line) for line in (finished_run / "metrics.jsonl").read_text().splitlines()]
    trained = [record for record in records if record["kind"] == "train"]
    assert [record["step"] for record in trained] == [1, 2, 4, 6, 8, 10]
    assert [record["step"] for record in records if record["kind"] == "validation"] == [4, 8, 10]
    for record in trained:
        assert record.keys() == {
            *("kind", "step", "epoch", "seconds", "target_tokens", "flops", "loss", "perplexity"),
            *("learning_rate", "gradient_norm", "target_tokens_per_second", "source_tokens_per_second"),
        }
        assert 0 < record["loss"] < 2 * math.log(300)
        assert record["learning_rate"] == pytest.approx(16**-0.5 * record["step"] * 20**-1.5)
        assert record["gradient_norm"] > 0
    assert trained[-1]["flops"] == read_progress(checkpoints(finished_run)[-1]).cost.flops
    assert trained[0]["target_tokens"] < trained[-1]["target_tokens"]
    for record in records:
        if record["kind"] == "validation":
            assert record["perplexity"] > 1
            assert 0 <= record["bleu"] <= 100
    epoch = batches_an_epoch(config, data)
    assert [record["epoch"] for record in trained] == [step // epoch for step in (1, 2, 4, 6, 8, 10)]
    assert list((finished_run / "tensorboard").iterdir())


def test_the_model_is_the_mean_of_the_last_checkpoints_and_translates(finished_run: Path) -> None:
    bundle = Bundle.load(finished_run / "model")
    bundle.verify()
    weights = bundle.weights()
    last = [read_weights(path / WEIGHTS) for path in checkpoints(finished_run)[-2:]]
    assert weights.keys() == last[0].keys()
    for name, weight in weights.items():
        np.testing.assert_allclose(weight, (last[0][name] + last[1][name]) / 2, rtol=1e-6, atol=1e-7)
    assert bundle.metrics["averaged_steps"] == "8, 10"
    assert bundle.metrics["steps"] == 10
    assert bundle.metrics["sentences_per_line"] == 1
    assert bundle.metrics["validation_perplexity"] > 1
    assert bundle.metrics["training_flops"] == read_progress(checkpoints(finished_run)[-1]).cost.flops > 10**6
    assert bundle.metrics["training_flops_steps"] == 10
    assert bundle.metrics["training_flops_estimate"] > 0
    assert f"| training_flops | {bundle.metrics['training_flops']} |" in (finished_run / "model/README.md").read_text()
    assert len(Translator.load(finished_run / "model").translate(["a dog", ""])) == 2


def test_average_command(finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["average", str(finished_run), "--last", "3", "--output", str(tmp_path / "three")]) == 0
    assert Bundle.load(tmp_path / "three").metrics["averaged_steps"] == "6, 8, 10"
    assert "6, 8, 10" in capsys.readouterr().err
    assert command_line(["average", str(finished_run), "--best", "--output", str(tmp_path / "best")]) == 0
    best = read_weights(finished_run / "best" / "model.safetensors")
    assert f"the checkpoint after step {read_progress(finished_run / 'best').step};" in capsys.readouterr().err
    for name, weight in Bundle.load(tmp_path / "best").weights().items():
        np.testing.assert_array_equal(weight, best[name])
    capsys.readouterr()

    assert command_line(["average", str(finished_run), "--last", "0", "--output", str(tmp_path / "none")]) == 2
    assert "--last 0" in capsys.readouterr().err
    assert command_line(["average", str(tmp_path), "--output", str(tmp_path / "none")]) == TrainingError.exit_code
    assert "not a run folder" in capsys.readouterr().err
    assert (
        command_line(["average", str(tmp_path / "best"), "--output", str(tmp_path / "none")]) == TrainingError.exit_code
    )
    assert "best: a model folder, not a run folder" in capsys.readouterr().err
    again = ["average", str(finished_run), "--last", "2", "--output", str(tmp_path / "best")]
    assert command_line(again) == BundleError.exit_code
    assert "exists already. Add --overwrite" in capsys.readouterr().err
    assert Bundle.load(tmp_path / "best").metrics["averaged_steps"] != "8, 10"
    assert command_line([*again, "--overwrite"]) == 0
    assert Bundle.load(tmp_path / "best").metrics["averaged_steps"] == "8, 10"
    capsys.readouterr()
    (tmp_path / "occupied").mkdir()
    (tmp_path / "occupied" / "thesis.tex").touch()
    assert command_line(["average", str(finished_run), "--output", str(tmp_path / "occupied")]) == 4
    assert "not a model folder" in capsys.readouterr().err
    assert (tmp_path / "occupied" / "thesis.tex").exists()
    assert command_line(["average", str(finished_run), "--output", str(tmp_path / "occupied" / "thesis.tex")]) == 4
    assert "thesis.tex" in capsys.readouterr().err


def test_averaging_a_run_that_goes_on(finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest checkpoint is removed, as a new one comes, while it is being read."""
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    check = check_checkpoint

    def train_on(path: Path) -> Progress:
        if path.name == "step-00000006" and path.is_dir():
            shutil.rmtree(path)
        return check(path)

    monkeypatch.setattr(averaging_module, "check_checkpoint", train_on)
    assert average_run(run, tmp_path / "model", last=3, show_progress=False).metrics["averaged_steps"] == "8, 10"

    (run / "checkpoints" / "step-00000008" / "model.safetensors").write_bytes(b"")
    with pytest.raises(BundleError, match=r"step-00000008/model\.safetensors: damaged"):
        average_run(run, tmp_path / "model", last=3, overwrite=True, show_progress=False)


def test_info_command(finished_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for subject, kind in ((finished_run, "run folder"), (finished_run / "model", "model folder")):
        assert command_line(["info", str(subject), "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert shown["kind"] == kind
        assert shown["parameters"] == sum(w.size for w in Bundle.load(finished_run / "model").weights().values())
        assert shown["config"]["model"]["vocab_size"] == 300
        assert ("validation_bleu" in shown["metrics"]) == (kind == "model folder")
        assert shown["metrics"]["training_flops"] == Bundle.load(finished_run / "model").metrics["training_flops"]
    assert command_line(["info", "tinny"]) == 2
    assert "Did you mean 'tiny'?" in capsys.readouterr().err


def test_the_cost_is_said_at_the_end(
    recipe: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", str(recipe), "--data", str(data), "--output", str(tmp_path / "run"), "--quiet"]
    assert command_line([*arguments, "--set", "train.max_steps=2"]) == 0
    cost = Bundle.load(tmp_path / "run" / "model").metrics
    assert f"cost: {cost['training_flops']:.2e} FLOPs counted over 2 steps" in capsys.readouterr().err


def test_training_prepares_the_data_by_itself(recipe: Path, tmp_path: Path) -> None:
    outcome = train(load_recipe(recipe, ["train.max_steps=1"]), tmp_path / "run", show_progress=False)
    assert outcome.end == End.MAX_STEPS
    assert (tmp_path / "run" / "data" / "manifest.json").is_file()
    assert Bundle.load(tmp_path / "run" / "model").config.model.vocab_size == 300


def test_prepared_data_that_differ_from_the_recipe_are_named(
    recipe: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*settings: str) -> str:
        config = load_recipe(recipe, ["train.max_steps=1", *settings])
        train(config, tmp_path / f"run {' '.join(settings)}", data=data)
        return capsys.readouterr().err

    assert "warning" not in said("data.folder=elsewhere")
    warning = f"warning: {data}: was prepared differently from what the recipe says: data.max_tokens was 1000, now 9."
    assert warning in said("data.max_tokens=9")
    assert "text.vocab_size was 300, now 999" in said("text.vocab_size=999")


def test_a_second_training_in_the_same_folder_is_refused(
    recipe: Path, data: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = final_weights(finished_run)
    arguments = ["train", str(recipe), "--data", str(data), "--output", str(finished_run), "--quiet"]
    assert command_line(arguments) == TrainingError.exit_code
    message = capsys.readouterr().err
    assert str(finished_run) in message
    assert "--resume" in message
    assert_identical(final_weights(finished_run), before)


def test_two_trainings_do_not_share_a_folder(
    recipe: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", str(recipe), "--data", str(data), "--output", str(tmp_path / "run"), "--quiet", "--resume"]
    arguments += ["--set", "train.max_steps=1"]
    with files.exclusive(tmp_path / "run") as alone:
        assert alone
        assert command_line(arguments) == TrainingError.exit_code
    assert "run: another training is at work here" in capsys.readouterr().err
    assert not checkpoints(tmp_path / "run")
    assert command_line(arguments) == 0


def test_a_training_does_not_write_among_other_files(
    recipe: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model folder, say: its config.json would be lost."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "letter.txt").write_text("Dear …")
    arguments = ["train", str(recipe), "--data", str(data), "--output", str(tmp_path), "--quiet"]
    assert command_line(arguments) == TrainingError.exit_code
    (message,) = capsys.readouterr().err.splitlines()
    assert f"--output {tmp_path}: is not a run folder, and has other files (letter.txt)" in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "letter.txt"]
    assert (tmp_path / "config.json").read_text() == "{}"


def test_the_output_must_not_be_a_file(
    recipe: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    arguments = ["train", str(recipe), "--data", str(data), "--output", str(tmp_path / "notes.txt"), "--quiet"]
    assert command_line(arguments) == TrainingError.exit_code
    assert "notes.txt" in capsys.readouterr().err
    assert (tmp_path / "notes.txt").read_text() == "mine"
