"""The trials of an ablation: what each is asked for, what they share, and what an output folder refuses."""

import dataclasses
import json
from pathlib import Path

import pytest

from transduce.cli import ablate as command
from transduce.cli.main import build_parser
from transduce.config import Config, apply_settings, preset
from transduce.errors import ConfigError
from transduce.evaluation import bleu, paper_bleu, tokenized_bleu
from transduce.experiments.ablation import worker
from transduce.experiments.ablation.ablate import shared_environment
from transduce.experiments.ablation.built_in import find_grid
from transduce.experiments.ablation.grid import Grid, Row, constant
from transduce.experiments.ablation.results import row_infos
from transduce.experiments.ablation.trials import Ablation
from transduce.experiments.ablation.worker import bleu_metric

GRID = Grid(
    "mine",
    (
        Row("base", constant({})),
        Row("wide", constant({"model": {"d_ff": 512}})),
        Row("words", constant({"text": {"algorithm": "wordpiece"}})),
    ),
)


def test_trials_come_seed_by_seed_each_in_a_folder_of_its_own(base: Config, tmp_path: Path) -> None:
    trials = Ablation(GRID, base, tmp_path / "out", num_seeds=2).trials()
    assert [(trial.row, trial.seed) for trial in trials] == [
        *(("base", 1), ("wide", 1), ("words", 1), ("base", 2), ("wide", 2), ("words", 2)),
    ]
    assert [trial.folder.name for trial in trials[:2]] == ["base-seed1", "wide-seed1"]
    assert [trial.config.train.seed for trial in trials] == [1, 1, 1, 2, 2, 2]
    assert trials[1].config.model.d_ff == 512
    assert {trial.config.train.average_last for trial in trials} == {1}


def test_data_is_shared_where_text_and_data_are_alike(base: Config, tmp_path: Path) -> None:
    trials = Ablation(GRID, base, tmp_path / "out", num_seeds=2).trials()
    folders = [trial.data for trial in trials]
    assert folders[0] == folders[1] == folders[3] != folders[2] == folders[5]
    moved = dataclasses.replace(base, data=dataclasses.replace(base.data, folder="elsewhere"))
    assert Ablation(GRID, moved, tmp_path / "out").trials()[0].data == folders[0]


def test_data_is_shared_where_the_vocabulary_of_the_model_to_start_from_is_alike(base: Config, tmp_path: Path) -> None:
    rows = [{}, {"learning_rate": 1e-3}, {"freeze": ("encoder",)}, {"words": ("fence",)}, {"new_words": 5}]
    grid = Grid("starts", tuple(Row(f"row{index}", constant({"init": row})) for index, row in enumerate(rows)))
    base = apply_settings(base, ["init.model=general"])
    folders = [trial.data for trial in Ablation(grid, base, tmp_path / "out").trials()]
    assert folders[0] == folders[1] == folders[2]
    assert len(set(folders)) == 3


def test_data_is_shared_where_words_are_linked_in_all_or_in_none(base: Config, tmp_path: Path) -> None:
    """Links of words need a file more, which guided attention and two of the modifiers read."""
    terms, noise = ([{"name": name, "probability": 0.1}] for name in ("terms", "noise"))
    rows = [{}, {"guided_attention": 0.1}, {"modifiers": terms}, {"modifiers": noise}]
    grid = Grid("links", tuple(Row(f"row{index}", constant({"train": row})) for index, row in enumerate(rows)))
    folders = [trial.data for trial in Ablation(grid, base, tmp_path / "out").trials()]
    assert folders[0] == folders[3] != folders[1] == folders[2]


def test_a_trial_can_always_be_resumed(base: Config, tmp_path: Path) -> None:
    never = apply_settings(base, ["train.checkpoint_minutes=0"])
    assert Ablation(GRID, never, tmp_path).trials()[0].config.train.checkpoint_minutes > 0
    by_steps = apply_settings(base, ["train.checkpoint_minutes=0", "train.checkpoint_steps=50"])
    train = Ablation(GRID, by_steps, tmp_path).trials()[0].config.train
    assert (train.checkpoint_minutes, train.checkpoint_steps) == (0.0, 50)


def test_a_trial_is_trained_to_its_last_step_and_measured_there(base: Config, tmp_path: Path) -> None:
    config = apply_settings(base, ["train.early_stopping=3", "train.validate_bleu=true", "train.best_by=score"])
    train = Ablation(GRID, config, tmp_path).trials()[0].config.train
    assert (train.early_stopping, train.validate_bleu, train.best_by) == (0, False, "perplexity")
    assert train.max_steps == base.train.max_steps


def test_rows_without_validation_data_cannot_be_compared(base: Config, tmp_path: Path) -> None:
    without = dataclasses.replace(base, data=dataclasses.replace(base.data, validation=()))
    with pytest.raises(ConfigError, match=r"row base: data\.validation is not set"):
        Ablation(GRID, without, tmp_path).trials()


def test_parsers_are_not_compared_by_bleu(base: Config, tmp_path: Path) -> None:
    parser = dataclasses.replace(base, data=dataclasses.replace(base.data, format="trees"))
    with pytest.raises(ConfigError, match="row base: trains a parser"):
        Ablation(GRID, parser, tmp_path).trials()


def test_an_output_folder_is_of_one_ablation(base: Config, tmp_path: Path) -> None:
    Ablation(GRID, base, tmp_path / "out").begin()
    moved = dataclasses.replace(base, data=dataclasses.replace(base.data, folder="moved"))
    Ablation(GRID, moved, tmp_path / "out").begin()
    with pytest.raises(ConfigError, match=r"was begun with other settings: train\.max_steps was 20000, now 30"):
        Ablation(GRID, apply_settings(base, ["train.max_steps=30"]), tmp_path / "out").begin()
    with pytest.raises(ConfigError, match=r"grid was 'mine', now 'other'"):
        Ablation(dataclasses.replace(GRID, name="other"), base, tmp_path / "out").begin()
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is a file"):
        Ablation(GRID, base, tmp_path / "file").begin()


def test_an_older_version_knew_fewer_keys(base: Config, tmp_path: Path) -> None:
    Ablation(GRID, base, tmp_path).begin()
    written = json.loads((tmp_path / "base.json").read_text())
    del written["config"]["train"]["max_minutes"]
    (tmp_path / "base.json").write_text(json.dumps(written))
    Ablation(GRID, base, tmp_path).begin()
    (tmp_path / "base.json").write_text("{")
    with pytest.raises(ConfigError, match=r"base\.json: not the settings of a training"):
        Ablation(GRID, base, tmp_path).begin()


def test_a_row_must_stay_what_it_was(base: Config, tmp_path: Path) -> None:
    trial = Ablation(GRID, base, tmp_path).trials()[1]
    trial.write_request()
    trial.write_request()
    wider = Grid("mine", (Row("wide", constant({"model": {"d_ff": 1024}})),))
    with pytest.raises(ConfigError, match=r"wide-seed1: was begun with other settings: model\.d_ff was 512, now 1024"):
        Ablation(wider, base, tmp_path).trials()[0].write_request()
    with pytest.raises(ConfigError, match="tokenized was False, now True"):
        Ablation(GRID, base, tmp_path, tokenized=True).trials()[1].write_request()
    with pytest.raises(ConfigError, match="paper_bleu was False, now True"):
        Ablation(GRID, base, tmp_path, paper_bleu=True).trials()[1].write_request()


def test_a_request_of_before_there_was_a_choice_is_of_sacrebleu(base: Config, tmp_path: Path) -> None:
    trial = Ablation(GRID, base, tmp_path).trials()[1]
    trial.write_request()
    written = json.loads((trial.folder / "cell.json").read_text())
    del written["paper_bleu"]
    (trial.folder / "cell.json").write_text(json.dumps(written))
    trial.write_request()
    with pytest.raises(ConfigError, match="paper_bleu was False, now True"):
        Ablation(GRID, base, tmp_path, paper_bleu=True).trials()[1].write_request()


def test_the_bleu_of_an_ablation() -> None:
    """A hyphenated compound is split in the paper's way, so that half of it can be right."""
    line, reference = 'ein "well-known" Haus am See', "ein „well-kept“ Haus am See"
    scores = {
        (tokenized, in_paper_way): bleu_metric("de", tokenized=tokenized, in_paper_way=in_paper_way)(
            [line], [[reference]]
        ).value
        for tokenized in (False, True)
        for in_paper_way in (False, True)
    }
    assert scores[False, False] == bleu([line], [[reference]]).value
    assert scores[True, False] == tokenized_bleu([line], [[reference]]).value
    for tokenized in (False, True):
        papers = paper_bleu([line], [[reference]], language="de", tokenized=tokenized).value
        assert scores[tokenized, True] == papers
    assert len(set(scores.values())) == 4


def test_what_a_row_changes(base: Config) -> None:
    rows = {row.name: row.settings for row in row_infos(GRID, base)}
    assert rows["base"] == {}
    assert rows["wide"] == {"model.d_ff": 512}


def test_the_machine_is_shared_out() -> None:
    environment = {"OMP_NUM_THREADS": "8", "CUDA_VISIBLE_DEVICES": "4,5", "PATH": "/bin"}
    assert shared_environment(environment, 0, 1) == environment
    shares = [shared_environment(environment, slot, 3) for slot in range(3)]
    assert [share["OMP_NUM_THREADS"] for share in shares] == ["2", "2", "2"]
    assert [share["CUDA_VISIBLE_DEVICES"] for share in shares] == ["4", "5", "4"]
    assert shared_environment({"OMP_NUM_THREADS": "1"}, 1, 4) == {"OMP_NUM_THREADS": "1"}
    assert int(shared_environment({}, 0, 1000)["OMP_NUM_THREADS"]) == 1


def test_a_training_ends_where_the_source_was_changed_since_its_ablation_began(
    base: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = Ablation(GRID, base, tmp_path / "out").trials()[0]
    trial.write_request()
    monkeypatch.setattr(worker, "_stop_with_starter", lambda: None)
    monkeypatch.setattr(worker, "train", lambda *given, **named: pytest.fail("it was trained"))
    monkeypatch.setattr(worker, "training_source", lambda: "another")
    assert worker.main(trial.folder) == ConfigError.exit_code
    assert "the source code was changed after this ablation began" in capsys.readouterr().err


def test_the_base_may_be_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["ablate", "--output", "out", "--grid", "label-smoothing", "--set", "train.max_steps=7"]
    grid = find_grid("label-smoothing")
    base = command._base(build_parser().parse_args([*given, "tiny"]), grid)
    assert base == apply_settings(preset("tiny"), ["train.max_steps=7"])
    with pytest.raises(ConfigError, match=r"'tinny' is not a recipe or a preset\. Did you mean 'tiny'"):
        command._base(build_parser().parse_args([*given, "tinny"]), grid)
