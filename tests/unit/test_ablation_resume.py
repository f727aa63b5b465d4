"""What stays of finished trainings when their run folders are gone, and that no table mixes what does not compare."""

import dataclasses
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from transduce import files
from transduce.config import Config
from transduce.errors import ConfigError
from transduce.experiments.ablation import source
from transduce.experiments.ablation.ablate import ablate
from transduce.experiments.ablation.grid import Grid, Row, constant
from transduce.experiments.ablation.results import Results, TrialResult
from transduce.experiments.ablation.trials import Ablation, keep_finished, read_finished


def grid_of(d_ff: int) -> Grid:
    return Grid("mine", (Row("base", constant({})), Row("wide", constant({"model": {"d_ff": d_ff}}))))


GRID = grid_of(512)


@pytest.fixture
def output(base: Config, tmp_path: Path) -> Path:
    """An output folder as an earlier version left it: two finished trainings, which lie in their run folders only."""
    trials = Ablation(GRID, base, tmp_path / "out", tokenized=True).trials()
    for trial, perplexity in zip(trials, (5.0, 4.0), strict=True):
        trial.write_request()
        result = TrialResult(trial.row, trial.seed, perplexity=perplexity, bleu=30.0, training_seconds=1.0)
        files.write_json(trial.folder / "result.json", asdict(result))
    return tmp_path / "out"


def again(
    base: Config, output: Path, grid: Grid = GRID, rows: Sequence[str] = (), *, tokenized: bool = True
) -> Results:
    """Gives the command again; were a row trained, it would fail, since there is no corpus."""
    return ablate(Ablation(grid, base, output, tokenized=tokenized), rows, show_progress=False)


def test_results_outlive_the_run_folders(base: Config, output: Path) -> None:
    before = again(base, output)
    assert before.bleu == "tokens as given, beam 4, length penalty 0.6"
    assert [(trial.row, trial.perplexity) for trial in before.trials] == [("base", 5.0), ("wide", 4.0)]
    assert sorted(path.name for path in (output / "cells").iterdir()) == ["base-seed1.json", "wide-seed1.json"]
    shutil.rmtree(output / "runs")
    assert again(base, output, rows=["base"]) == before
    assert again(base, output) == before
    assert Results.load(output / "results.json") == before
    assert not (output / "runs").exists()
    assert "| wide | d_ff 512 |" in (output / "table.md").read_text()


def test_what_is_kept_comes_before_what_a_run_folder_has(base: Config, output: Path) -> None:
    keep_finished(output)
    files.write_json(output / "runs" / "base-seed1" / "result.json", {"row": "base", "seed": 1, "perplexity": 9.0})
    assert [trial.result.perplexity for trial in read_finished(output)] == [5.0, 4.0]


def test_one_table_has_one_bleu(base: Config, output: Path) -> None:
    again(base, output)
    before = (output / "results.json").read_bytes()
    more = Grid("mine", (*GRID.rows, Row("deep", constant({"model": {"num_encoder_layers": 4}}))))
    for rows in (["base"], ["deep"]):
        with pytest.raises(ConfigError, match=r"row base, seed 1, .* other settings: tokenized was True, now False"):
            again(base, output, more, rows=rows, tokenized=False)
    assert (output / "results.json").read_bytes() == before
    assert not (output / "runs" / "deep-seed1").exists()


@pytest.mark.parametrize("gone", [True, False])
def test_a_row_whose_settings_were_edited_is_not_shown_with_its_old_result(
    base: Config, output: Path, gone: bool
) -> None:
    again(base, output)
    if gone:
        shutil.rmtree(output / "runs")
    with pytest.raises(ConfigError, match=r"row wide, seed 1, .*d_ff was 512, now 1024\. .* remove .*wide-seed1"):
        again(base, output, grid_of(1024), rows=["base"])
    without = dataclasses.replace(GRID, rows=GRID.rows[:1])
    assert [trial.row for trial in again(base, output, without).trials] == ["base"]  # it is no row any more


def test_a_corpus_may_have_moved(base: Config, output: Path) -> None:
    moved = dataclasses.replace(base, data=dataclasses.replace(base.data, folder="elsewhere"))
    assert len(again(moved, output).trials) == 2


@pytest.mark.parametrize("text", ["{", "[]", '{"request": {}, "result": {"row": "base", "seed": 1}}'])
def test_a_damaged_record_is_named(base: Config, output: Path, text: str) -> None:
    again(base, output)
    (output / "cells" / "base-seed1.json").write_text(text)
    with pytest.raises(ConfigError, match=r"cells.base-seed1\.json: not a finished training: .*Remove"):
        again(base, output)


def test_a_result_without_its_request_is_named(base: Config, output: Path) -> None:
    (output / "runs" / "wide-seed1" / "cell.json").unlink()
    with pytest.raises(ConfigError, match=r"wide-seed1.cell\.json: not the request of a training"):
        again(base, output)
    (output / "runs" / "wide-seed1" / "cell.json").write_text(json.dumps({"row": "wide"}))
    with pytest.raises(ConfigError, match=r"wide-seed1.cell\.json: not the request .*: no 'config'\. Remove"):
        again(base, output)


def test_trainings_of_other_source_code_count_only_on_request(
    base: Config, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the code had been changed after both trainings: in their folders, and where they are kept."""
    trials = Ablation(GRID, base, output, tokenized=True).trials()
    assert len(trials[0].request["source"]) == 12
    monkeypatch.setattr("transduce.experiments.ablation.trials.training_source", lambda: "another")
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"cells/base-seed1\.json: trained by other source code .* --any-source"):
            again(base, output)
        assert not (output / "results.json").exists()
        keep_finished(output)
    counted = Ablation(GRID, base, output, tokenized=True, any_source=True)
    assert [trial.perplexity for trial in ablate(counted, show_progress=False).trials] == [5.0, 4.0]

    (output / "cells" / "wide-seed1.json").unlink()
    (output / "runs" / "wide-seed1" / "result.json").unlink()
    (output / "cells" / "base-seed1.json").unlink()
    (output / "runs" / "base-seed1" / "result.json").unlink()
    with pytest.raises(ConfigError, match=r"runs/wide-seed1/cell\.json: trained by other source code"):
        Ablation(GRID, base, output, tokenized=True).trials()[1].write_request()
    counted.trials()[1].write_request()
    assert files.read_json(output / "runs" / "wide-seed1" / "cell.json")["source"] == "another"


def test_trainings_that_note_no_source_count(base: Config, output: Path) -> None:
    """Those of earlier versions; their requests have no such key."""
    for path in output.glob("runs/*/cell.json"):
        values = files.read_json(path)
        del values["source"]
        files.write_json(path, values)
    assert [trial.perplexity for trial in again(base, output).trials] == [5.0, 4.0]


def test_a_table_says_where_its_trainings_are_of_different_source_code(base: Config, output: Path) -> None:
    for path, digest in zip(sorted(output.glob("runs/*/result.json")), ("aaa", "bbb"), strict=True):
        files.write_json(path, files.read_json(path) | {"source": digest})
    again(base, output)
    assert "Trained by different source code: aaa, bbb." in (output / "table.md").read_text(encoding="utf-8")


def test_an_installation_next_to_its_libraries_has_the_same_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("transduce", "library"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("import library\n")
    monkeypatch.setattr(source, "_ROOT", tmp_path)
    assert [*source.reached("transduce")] == ["transduce"]


def test_the_source_of_a_training_is_what_it_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    reached = source.reached("transduce.experiments.ablation.worker")
    for name in ("transduce", "model.layers", "training.schedule", "evaluation.bleu", "files", "treebank"):
        assert f"transduce.{name}".removesuffix(".transduce") in reached
    assert not [name for name in reached if name.startswith(("transduce.serve", "transduce.cli", "transduce.export"))]

    digests = []
    for text in (b"x = 1", b"x = 1  # one", b"x = 2"):
        monkeypatch.setattr(source, "reached", lambda start, text=text: {start: text})
        digests.append(source.training_source.__wrapped__())
    assert digests[0] == digests[1] != digests[2]
