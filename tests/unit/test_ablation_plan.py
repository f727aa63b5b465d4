"""The cells of an ablation: what each is asked for, what they share, and what an output folder refuses."""

import dataclasses
import json
from pathlib import Path

import pytest

from transduce.config import Config, apply_settings, preset
from transduce.errors import ConfigError
from transduce.experiments.ablation.grid import Grid, Row, unchanging
from transduce.experiments.ablation.plan import begin, changed_settings, plan
from transduce.experiments.ablation.study import shared_environment

GRID = Grid(
    "mine",
    (
        Row("base", unchanging({})),
        Row("wide", unchanging({"model": {"d_ff": 512}})),
        Row("words", unchanging({"text": {"algorithm": "wordpiece"}})),
    ),
)


@pytest.fixture
def base(tmp_path: Path) -> Config:
    tiny = preset("tiny")
    data = dataclasses.replace(tiny.data, folder=str(tmp_path), train=(("a", "b"),), validation=("c", "d"))
    return dataclasses.replace(tiny, data=data)


def test_cells_come_seed_by_seed_each_in_a_folder_of_its_own(base: Config, tmp_path: Path) -> None:
    cells = plan(GRID, base, tmp_path / "out", num_seeds=2)
    assert [(cell.row, cell.seed) for cell in cells] == [
        *(("base", 1), ("wide", 1), ("words", 1), ("base", 2), ("wide", 2), ("words", 2)),
    ]
    assert [cell.folder.name for cell in cells[:2]] == ["base-seed1", "wide-seed1"]
    assert [cell.config.train.seed for cell in cells] == [1, 1, 1, 2, 2, 2]
    assert cells[1].config.model.d_ff == 512
    assert {cell.config.train.average_last for cell in cells} == {1}


def test_data_is_shared_where_text_and_data_are_alike(base: Config, tmp_path: Path) -> None:
    cells = plan(GRID, base, tmp_path / "out", num_seeds=2)
    folders = [cell.data for cell in cells]
    assert folders[0] == folders[1] == folders[3] != folders[2] == folders[5]
    moved = dataclasses.replace(base, data=dataclasses.replace(base.data, folder="elsewhere"))
    assert plan(GRID, moved, tmp_path / "out")[0].data == folders[0]


def test_a_cell_can_always_be_resumed(base: Config, tmp_path: Path) -> None:
    never = apply_settings(base, ["train.checkpoint_minutes=0"])
    assert plan(GRID, never, tmp_path)[0].config.train.checkpoint_minutes > 0
    by_steps = apply_settings(base, ["train.checkpoint_minutes=0", "train.checkpoint_steps=50"])
    train = plan(GRID, by_steps, tmp_path)[0].config.train
    assert (train.checkpoint_minutes, train.checkpoint_steps) == (0.0, 50)


def test_rows_without_validation_data_cannot_be_compared(base: Config, tmp_path: Path) -> None:
    without = dataclasses.replace(base, data=dataclasses.replace(base.data, validation=()))
    with pytest.raises(ConfigError, match=r"row base: data\.validation is not set"):
        plan(GRID, without, tmp_path)


def test_parsers_are_not_compared_by_bleu(base: Config, tmp_path: Path) -> None:
    parser = dataclasses.replace(base, data=dataclasses.replace(base.data, format="trees"))
    with pytest.raises(ConfigError, match="row base: trains a parser"):
        plan(GRID, parser, tmp_path)


def test_an_output_folder_is_of_one_ablation(base: Config, tmp_path: Path) -> None:
    begin(tmp_path / "out", GRID, base)
    begin(tmp_path / "out", GRID, dataclasses.replace(base, data=dataclasses.replace(base.data, folder="moved")))
    with pytest.raises(ConfigError, match=r"was begun with train\.max_steps = 20000, now 30"):
        begin(tmp_path / "out", GRID, apply_settings(base, ["train.max_steps=30"]))
    with pytest.raises(ConfigError, match=r"grid = 'mine', now 'other'"):
        begin(tmp_path / "out", dataclasses.replace(GRID, name="other"), base)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is a file"):
        begin(tmp_path / "file", GRID, base)


def test_an_older_version_knew_fewer_keys(base: Config, tmp_path: Path) -> None:
    begin(tmp_path, GRID, base)
    written = json.loads((tmp_path / "base.json").read_text())
    del written["config"]["train"]["max_minutes"]
    (tmp_path / "base.json").write_text(json.dumps(written))
    begin(tmp_path, GRID, base)
    (tmp_path / "base.json").write_text("{")
    with pytest.raises(ConfigError, match=r"base\.json: cannot be read"):
        begin(tmp_path, GRID, base)


def test_a_row_must_stay_what_it_was(base: Config, tmp_path: Path) -> None:
    cell = plan(GRID, base, tmp_path)[1]
    cell.request()
    cell.request()
    wider = Grid("mine", (Row("wide", unchanging({"model": {"d_ff": 1024}})),))
    with pytest.raises(ConfigError, match=r"wide-seed1: was begun with model\.d_ff = 512, now 1024"):
        plan(wider, base, tmp_path)[0].request()
    with pytest.raises(ConfigError, match="tokenized = False, now True"):
        plan(GRID, base, tmp_path, tokenized=True)[1].request()


def test_what_a_row_changes(base: Config) -> None:
    configs = GRID.configs(base)
    assert changed_settings(base, configs["base"]) == {}
    assert changed_settings(base, configs["wide"]) == {"model.d_ff": 512}


def test_the_machine_is_shared_out() -> None:
    environment = {"OMP_NUM_THREADS": "8", "CUDA_VISIBLE_DEVICES": "4,5", "PATH": "/bin"}
    assert shared_environment(environment, 0, 1) == environment
    shares = [shared_environment(environment, slot, 3) for slot in range(3)]
    assert [share["OMP_NUM_THREADS"] for share in shares] == ["2", "2", "2"]
    assert [share["CUDA_VISIBLE_DEVICES"] for share in shares] == ["4", "5", "4"]
    assert shared_environment({"OMP_NUM_THREADS": "1"}, 1, 4) == {"OMP_NUM_THREADS": "1"}
    assert int(shared_environment({}, 0, 1000)["OMP_NUM_THREADS"]) == 1
