"""The settings of a run that is begun, resumed or read: what train's command makes of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from noted_calls import Noting
from transduce.cli.main import main
from transduce.config import apply_settings, preset
from transduce.errors import TrainingError
from transduce.training.outcome import End, Outcome
from transduce.training.progress import Progress
from transduce.training.resume import save_run_config
from transduce.training.run_folder import (
    ancestor_metrics,
    checkpoint_path,
    checkpoints,
    data_folder,
    load_run_config,
    read_ancestor_record,
    read_run_config,
    run_settings,
    started_config,
)

TINY = apply_settings(preset("tiny"), ["data.train=[['a.tsv']]"])


def begun(run: Path, *settings: str, step: int = 3) -> None:
    save_run_config(run, apply_settings(TINY, settings), settings)
    checkpoint_path(run, step).mkdir(parents=True)
    (checkpoint_path(run, step) / "state.json").touch()


def test_a_resumed_training_keeps_what_was_set_unless_it_is_set_again(
    noting: Noting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = noting("transduce.runs.train", Outcome(End.MAX_STEPS, Progress(step=7), is_main=False))
    recipe, run = tmp_path / "r.toml", tmp_path / "run"
    recipe.write_text('preset = "tiny"\n[data]\ntrain = [["a.tsv"]]\n')
    begun(run, "train.seed=5", "model.dropout=0.2")
    given = ["train", str(recipe), "--output", str(run), "--resume"]
    assert main([*given, "--set", "train.seed=6"]) == 0
    [((config, _), options)] = calls
    assert (config.train.seed, config.model.dropout) == (6, 0.2)
    assert options["settings"] == ["train.seed=6", "model.dropout=0.2"]
    assert capsys.readouterr().err == f"still set in {run}: model.dropout=0.2\n"
    for quiet, rank in (("--quiet", "0"), ("", "1")):
        monkeypatch.setenv("RANK", rank)  # of several processes, one says so
        assert main([*given, *filter(None, [quiet])]) == 0
        assert capsys.readouterr().err == ""
    assert calls[2][1]["settings"] == ["train.seed=5", "model.dropout=0.2"]
    assert main([*given[:-1], "--set", "train.seed=6"]) == 0  # not resumed: nothing holds
    assert (calls[3][1]["settings"], calls[3][0][0].model.dropout) == (["train.seed=6"], 0.1)


def test_a_model_to_start_from_is_a_setting(noting: Noting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = noting("transduce.config.load_recipe", TINY)
    noting("transduce.runs.train", Outcome(End.MAX_STEPS, Progress(step=7), is_main=False))
    given = ["train", "r.toml", "--output", str(tmp_path / "run")]
    assert main([*given, "--from", 'models/"mine" é', "--set", "train.seed=6"]) == 0
    setting = 'init.model="models/\\"mine\\" é"'
    assert calls == [((Path("r.toml"), [setting, "train.seed=6"]), {"started": None})]
    begun(tmp_path / "run", "train.seed=5")
    assert main([*given, "--resume"]) == 0
    [_, (_, options)] = calls
    assert options["started"] == apply_settings(TINY, ["train.seed=5"])


def test_what_a_run_folder_says_of_itself(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert (run_settings(run), started_config(run), checkpoints(run)) == ([], None, [])
    with pytest.raises(TrainingError, match=rf"{run}: not a run folder: it has no config\.json"):
        load_run_config(run)
    save_run_config(run, TINY, ["train.seed=1"])
    assert (run_settings(run), started_config(run)) == (["train.seed=1"], None)  # nothing is trained yet
    assert load_run_config(run) == TINY
    assert {"transduce", "torch", "set"} <= read_run_config(run).keys()
    save_run_config(run, TINY, [])
    assert "set" not in read_run_config(run)
    for step in (12, 3, 123_456_789):
        checkpoint_path(run, step).mkdir(parents=True)
    assert checkpoints(run) == []  # empty ones are none
    for name in ("step-00000012/state.json", "step-00000003/model.safetensors", "step-123456789/x"):
        (run / "checkpoints" / name).touch()
    (run / "checkpoints" / "step-12").mkdir()
    (run / "checkpoints" / "step-12" / "x").touch()
    assert [path.name for path in checkpoints(run)] == ["step-00000003", "step-00000012", "step-123456789"]
    assert started_config(run) == TINY
    values: Any = json.loads((run / "config.json").read_text())
    for damage, said in (({"set": "train.seed=1"}, "'set'"), ({"set": [1]}, "'set'")):
        text = json.dumps({key: value for key, value in values.items() if key != "checksum"} | damage)
        (run / "config.json").write_text(text)
        with pytest.raises(TrainingError, match=rf"config\.json: damaged: .*{said}"):
            run_settings(run)
    (run / "config.json").write_text(json.dumps(values | {"name": "changed"}))
    with pytest.raises(TrainingError, match=r"config\.json: damaged: its content differs from its checksum"):
        read_run_config(run)


def test_data_and_ancestor_of_a_run(tmp_path: Path) -> None:
    assert (data_folder(tmp_path), read_ancestor_record(tmp_path), ancestor_metrics(tmp_path)) == (
        tmp_path / "data",
        {},
        {},
    )
    (tmp_path / "data.json").write_text('{"folder": "/there"}')
    (tmp_path / "ancestor.json").write_text('{"name": "general", "vocab_size": 300}')
    assert data_folder(tmp_path) == Path("/there")
    assert ancestor_metrics(tmp_path) == {"ancestor": {"name": "general"}}
    for name, read in (("data.json", data_folder), ("ancestor.json", read_ancestor_record)):
        (tmp_path / name).write_text("{")
        with pytest.raises(TrainingError, match=rf"{name}: damaged"):
            read(tmp_path)
