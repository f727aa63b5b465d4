"""A run folder with damaged or missing files, leftovers, or a full disk."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from stopped_runs import (
    assert_same_model,
    resume,
    train,
)
from transduce.bundle import Bundle
from transduce.config import load_recipe
from transduce.config.checked_json import read_checked, write_checked
from transduce.data.prepare import prepare
from transduce.errors import DataError, TrainingError
from transduce.runs import average_run
from transduce.training import checkpoints as checkpoints_module
from transduce.training.progress import check_checkpoint
from transduce.training.run_folder import checkpoint_path, checkpoints, load_run_data


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("how", ["no manifest", "prepared anew", "no notes", "elsewhere"])
def test_a_run_goes_on_with_its_own_data_only(
    stopped: tuple[Path, Path], capsys: pytest.CaptureFixture[str], how: str
) -> None:
    """Else it would learn another tokenizer, and train the old weights on with it."""
    recipe, run = stopped
    text = recipe.parent / "train.en"
    text.write_text(text.read_text().replace("dog", "zebra"))
    arguments: list[str] = []
    if how in ("no manifest", "no notes"):
        (run / "data" / "manifest.json").unlink()
    if how == "no notes":  # as in a run of version 0.1.0
        (run / "data.json").unlink()
    if how == "prepared anew":
        prepare(load_recipe(recipe), run / "data", progress=False, overwrite=True)
        with pytest.raises(TrainingError, match="started with other data"):
            average_run(run, run.parent / "model", show_progress=False)
    if how == "elsewhere":
        prepare(load_recipe(recipe), run.parent / "other", progress=False)
        arguments = ["--data", str(run.parent / "other")]
    before = contents(run)
    capsys.readouterr()
    assert train(recipe, run, arguments=["--resume", *arguments]) == TrainingError.exit_code
    (message,) = capsys.readouterr().err.splitlines()
    assert ("started with other data" in message) == (how in ("prepared anew", "elsewhere"))
    assert str(run) in message
    assert contents(run) == before


@pytest.mark.parametrize("name", ["train_sha256", "validation_sha256", "tokenizer_fingerprint"])
def test_each_part_of_the_data_must_be_that_of_the_start(stopped: tuple[Path, Path], name: str) -> None:
    _, run = stopped
    write_checked(run / "data.json", read_checked(run / "data.json") | {name: "0" * 64})
    with pytest.raises(TrainingError, match="was started with other data"):
        load_run_data(run)


def test_data_that_were_lost_can_be_prepared_again(stopped: tuple[Path, Path], whole: Path) -> None:
    recipe, run = stopped
    shutil.rmtree(run / "data")
    prepare(load_recipe(recipe), run.parent / "again", progress=False)
    assert train(recipe, run, arguments=["--resume", "--data", str(run.parent / "again")]) == 0
    assert (run / "model" / "model.safetensors").read_bytes() == (whole / "model" / "model.safetensors").read_bytes()
    shutil.move(run, moved := run.parent / "moved")
    assert resume(recipe, moved) == 0


@pytest.mark.parametrize(
    "name", ["config.json", "data.json", "data/manifest.json", "checkpoints/step-00000007/state.json"]
)
@pytest.mark.parametrize("damage", ["", "[]", '{"a": 1}', '{"files": 3, "format_version": 1, "set": 7, "folder": 5}'])
def test_a_damaged_file_is_one_clear_line(
    stopped: tuple[Path, Path], capsys: pytest.CaptureFixture[str], name: str, damage: str
) -> None:
    recipe, run = stopped
    (run / name).write_text(damage)
    capsys.readouterr()
    code = resume(recipe, run)
    message = capsys.readouterr().err
    if name.startswith("checkpoints"):  # there is one before it
        assert code == 0
        assert f"warning: {run / name}"[: -len("/state.json")] in message
    else:
        assert code in (TrainingError.exit_code, DataError.exit_code, 2)
        assert str(run / name) in message
        assert len(message.splitlines()) == 1


def test_without_its_configuration_a_run_is_not_resumed(
    stopped: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, run = stopped
    (run / "config.json").unlink()
    assert resume(recipe, run) == TrainingError.exit_code
    assert "config.json: missing" in capsys.readouterr().err


def test_the_batch_that_is_next_must_be_there(stopped: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    recipe, run = stopped
    state = checkpoint_path(run, 7) / "state.json"
    values = read_checked(state)
    values["progress"]["batch"] = 1000
    write_checked(state, values)
    assert resume(recipe, run) == TrainingError.exit_code
    assert "batch 1000 of epoch" in capsys.readouterr().err


def test_what_a_killed_training_left_is_swept_at_the_next_start(stopped: tuple[Path, Path]) -> None:
    recipe, run = stopped
    left = [
        ".best.abcdefgh.part",
        ".model.abcdefgh.part",
        ".config.json.abcdefgh.part",
        "data/.train.arrow.abcdefgh.part",
    ]
    left += ["checkpoints/.step-00000009.abcdefgh.part", "checkpoints/step-00000002"]
    for name in left:
        (run / name).mkdir()
    foreign = ["checkpoints/step-abc", "checkpoints/notes", ".notes"]
    for name in foreign:
        (run / name).mkdir()
    (run / "checkpoints" / "step-abc" / "state.json").write_text("{}")
    assert resume(recipe, run) == 0
    assert not [name for name in left if (run / name).exists()]
    assert all((run / name).is_dir() for name in foreign)
    assert Bundle.load(run / "model").metrics["averaged_steps"] == "15, 20, 23"


def test_what_a_killed_average_left_is_swept_by_the_next_one(whole: Path, tmp_path: Path) -> None:
    (tmp_path / ".model.abcdefgh.part").mkdir()
    (tmp_path / ".other.abcdefgh.part").mkdir()
    average_run(whole, tmp_path / "model", show_progress=False)
    assert {path.name for path in tmp_path.iterdir()} == {"model", ".other.abcdefgh.part"}


@pytest.mark.parametrize(("full", "complete"), [("checkpoint", [5]), ("best", [5, 10])])
def test_a_full_disk_leaves_the_checkpoint_before(
    recipe: Path,
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    full: str,
    complete: list[int],
) -> None:
    run, write_json = tmp_path / "run", checkpoints_module.files.write_json

    def write(path: Path, value: Any) -> None:
        which = "best" if full == "best" else "scheduled"
        if path.name == "state.json" and (value["purpose"], value["progress"]["step"]) == (which, 10):
            raise OSError(28, "No space left on device", str(path))
        write_json(path, value)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints_module.files, "write_json", write)
        assert train(recipe, run) == TrainingError.exit_code
    (message,) = capsys.readouterr().err.splitlines()
    assert f"No space left on device. step-{complete[-1]:08d} is complete: make room and continue with" in message
    assert [check_checkpoint(path).step for path in checkpoints(run)] == complete
    assert not [path for path in run.rglob(".*") if path.name != ".lock"]
    assert resume(recipe, run) == 0
    assert_same_model(run / "model", whole / "model")
