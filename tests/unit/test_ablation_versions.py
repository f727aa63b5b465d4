"""`transduce ablate --compare`: two versions of the source code, row by row, with an interval by seeds."""

import dataclasses
from dataclasses import asdict
from pathlib import Path

import pytest

from transduce import files
from transduce.cli.main import main as command_line
from transduce.config import Config
from transduce.errors import ConfigError
from transduce.experiments.ablation import trials as trials_module
from transduce.experiments.ablation.grid import Grid, Row, constant
from transduce.experiments.ablation.results import Results, TrialResult, row_infos
from transduce.experiments.ablation.trials import Ablation, keep_finished
from transduce.experiments.ablation.versions import compare, render
from transduce.reporting.intervals import student_t

GRID = Grid(
    "mine", tuple(Row(name, constant({"model": {"d_ff": d_ff}})) for name, d_ff in (("base", 256), ("wide", 512)))
)
Figures = dict[tuple[str, int], tuple[float, float]]  # perplexity and BLEU, by row and seed

BEFORE: Figures = {("base", 1): (10, 20), ("base", 2): (12, 22), ("wide", 1): (9, 25), ("wide", 2): (11, 26)}
# Perplexity: base -1 and -3, wide +1 and +1. BLEU: base +3 and +3, wide +3 and +3.
AFTER: Figures = {("base", 1): (9, 23), ("base", 2): (9, 25), ("wide", 1): (10, 28), ("wide", 2): (12, 29)}


def write(base: Config, output: Path, figures: Figures, monkeypatch: pytest.MonkeyPatch, source: str) -> Path:
    """Writes an output folder whose trainings were done by a version of the source code."""
    monkeypatch.setattr(trials_module, "training_source", lambda: source)
    for trial in Ablation(GRID, base, output, num_seeds=3).trials():
        if (found := figures.get((trial.row, trial.seed))) is not None:
            trial.write_request()
            result = TrialResult(trial.row, trial.seed, perplexity=found[0], bleu=found[1], source=source)
            files.write_json(trial.folder / "result.json", asdict(result))
    finished = keep_finished(output)
    Results(GRID.name, base.name, "", row_infos(GRID, base), tuple(each.result for each in finished)).save(
        output / "results.json"
    )
    return output


@pytest.fixture
def folders(base: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    moved = dataclasses.replace(base, data=dataclasses.replace(base.data, folder="/elsewhere"))
    return (
        write(base, tmp_path / "before", BEFORE, monkeypatch, "aaaa"),
        write(moved, tmp_path / "after", AFTER, monkeypatch, "bbbb"),
    )


def test_differences_are_of_the_same_seed_with_an_interval_from_all_rows(folders: tuple[Path, Path]) -> None:
    versions = compare(*folders)
    assert versions.pairs("base", "perplexity") == [(10, 9), (12, 9)]
    assert versions.pairs("wide", "bleu") == [(25, 28), (26, 29)]
    # Variance 2 of base's two differences and 0 of wide's: 1 with two degrees of freedom. Mean of two: √(1/2).
    assert versions.half_width("perplexity", 2) == pytest.approx(4.303 * 0.5**0.5)
    assert versions.half_width("bleu", 2) == 0


def test_low_perplexity_and_high_bleu_are_better(
    base: Config, folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alike = {key: (perplexity + 5, bleu) for key, (perplexity, bleu) in BEFORE.items()}
    other = write(base, tmp_path / "other", alike, monkeypatch, "cccc")
    page = render(compare(folders[0], other))
    assert "| base | 1, 2 | 11.000 | 16.000 | +5.000 ± 0.000, worse | 21.00 | 21.00 | +0.00 ± 0.00, same |" in page


def test_the_command_prints_the_differences(folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["ablate", "--compare", *map(str, folders)]) == 0
    page = capsys.readouterr().out
    assert f"- before: {folders[0]}, source aaaa\n- after: {folders[1]}, source bbbb\n" in page
    assert "| base | 1, 2 | 11.000 | 9.000 | -2.000 ± 3.043, undecided | 21.00 | 24.00 | +3.00 ± 0.00, better |" in page
    assert (
        "| wide | 1, 2 | 10.000 | 11.000 | +1.000 ± 3.043, undecided | 25.50 | 28.50 | +3.00 ± 0.00, better |" in page
    )
    assert "the same source code" not in page


def test_what_only_one_has_is_listed_and_one_seed_has_no_interval(
    base: Config, folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = write(base, tmp_path / "few", {("wide", 1): (9.5, 24)}, monkeypatch, "aaaa")
    page = render(compare(folders[0], few))
    assert "| wide | 1 | 9.000 | 9.500 | +0.500 | 25.00 | 24.00 | -1.00 |" in page
    assert f"Only in {folders[0]}: base, seed 1; base, seed 2; wide, seed 2." in page
    assert "One seed in common" in page
    assert "±" not in page
    assert "Both were trained by the same source code." in page


def test_what_does_not_compare_is_refused(
    base: Config,
    folders: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    changed = dataclasses.replace(base, train=dataclasses.replace(base.train, max_steps=7))
    other = write(changed, tmp_path / "other", BEFORE, monkeypatch, "aaaa")
    with pytest.raises(
        ConfigError, match=r"other/cells/base-seed1\.json: .* other settings: train\.max_steps was 20000, now 7"
    ):
        compare(folders[0], other)
    third = write(base, tmp_path / "third", {("wide", 3): (9.5, 24)}, monkeypatch, "aaaa")
    with pytest.raises(ConfigError, match="no finished training of the same row and seed"):
        compare(folders[0], third)
    assert command_line(["ablate", "--compare", str(folders[0]), str(tmp_path)]) == 2
    assert f"{tmp_path / 'results.json'}: not the results of an ablation" in (error := capsys.readouterr().err)
    assert "Name the output folders of two ablations" in error
    for more in (["tiny"], ["--output", str(tmp_path / "new")]):
        assert command_line(["ablate", *more, "--compare", *map(str, folders)]) == 2
        assert "leave out RECIPE and --output" in capsys.readouterr().err
    assert command_line(["ablate", "tiny"]) == 2
    assert "needs --output DIR" in capsys.readouterr().err


def test_students_t_is_that_of_the_tables() -> None:
    assert [student_t(freedom) for freedom in (1, 3, 10, 30)] == [12.706, 3.182, 2.228, 2.042]
    assert student_t(14) == student_t(12), "the next lower one, never too narrow"
    assert student_t(10_000) == 1.98
