"""`transduce ablate` on a small corpus: every trial trained and measured, whatever stops it in between."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from small_recipe import lines, write_pairs
from stopped_runs import RECIPE as TRAINING
from transduce.bundle import Bundle
from transduce.cli.main import main as command_line
from transduce.config.tensors import read_weights
from transduce.config.weights import count_parameters
from transduce.data.prepare import load_prepared
from transduce.data.store import ParallelStore
from transduce.errors import ConfigError, TrainingError
from transduce.experiments.ablation.results import Results
from transduce.training.progress import read_progress
from transduce.training.run_folder import checkpoints, data_folder, load_run_config
from transduce.translation.forced_scores import ScoreSummary

pytestmark = [pytest.mark.computes, pytest.mark.slow]  # each trial is a process

RECIPE = f"""{TRAINING}
[decode]
beam_size = 2
max_extra_tokens = 8
"""

GRID = """
base = "recipe.toml"

[rows.base]

[rows.wide]
model.d_ff = 64
printed = { perplexity = 4.75, bleu = 26.2 }
"""

BROKEN = """
base = "recipe.toml"

[rows.nowhere]
train.device = "cuda:77"

[rows.nothing-left]
data.max_tokens = 1

[rows.base]
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_pairs(folder, "train", lines(120, 1))
    write_pairs(folder, "dev", lines(12, 2))
    (folder / "recipe.toml").write_text(RECIPE)
    (folder / "grid.toml").write_text(GRID)
    (folder / "broken.toml").write_text(BROKEN)
    return folder


def command(corpus: Path, output: Path, *more: str, grid: str = "grid.toml") -> list[str]:
    return ["ablate", "--grid", str(corpus / grid), "--output", str(output), *more]


@pytest.fixture(scope="module")
def with_warm_trials(warm_python: Path) -> Callable[[list[str]], int]:
    """Returns a function that runs a command whose trials start with PyTorch loaded."""

    def run(arguments: list[str]) -> int:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.executable", str(warm_python))
            return command_line(arguments)

    return run


@pytest.fixture(scope="module")
def finished(
    corpus: Path, with_warm_trials: Callable[[list[str]], int], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Two rows, two seeds, two at a time."""
    output = tmp_path_factory.mktemp("finished") / "out"
    assert with_warm_trials(command(corpus, output, "--seeds", "2", "--jobs", "2", "--quiet")) == 0
    return output


def figures(output: Path) -> dict[tuple[str, int], tuple[Any, ...]]:
    """What does not depend on the clock, by trial."""
    return {
        (trial.row, trial.seed): (trial.perplexity, trial.bleu, trial.parameters, trial.steps, trial.training_flops)
        for trial in Results.load(output / "results.json").trials
    }


def test_every_trial_is_trained_and_measured(finished: Path) -> None:
    results = Results.load(finished / "results.json")
    assert [(trial.row, trial.seed) for trial in results.trials] == [("base", 1), ("base", 2), ("wide", 1), ("wide", 2)]
    for trial in results.trials:
        run = finished / "runs" / f"{trial.row}-seed{trial.seed}"
        config = load_run_config(run)
        assert (config.train.seed, config.model.d_ff) == (trial.seed, 64 if trial.row == "wide" else 32)
        assert trial.parameters == count_parameters(config.model)
        assert trial.steps == 23
        training = ParallelStore.open(load_prepared(data_folder(run), checksums=False).train)
        seen = Bundle.load(run / "model").metrics["target_tokens_seen"]
        assert trial.epochs == seen / int(training.target_lengths.sum())
        assert trial.error == ""
        assert trial.perplexity is not None
        assert 1 < trial.perplexity < 300
        assert trial.training_flops is not None
        assert trial.training_flops > 10**6
    wide, base = (figures(finished)[row, 1] for row in ("wide", "base"))
    assert wide[4] > base[4]
    assert len({trial.perplexity for trial in results.trials}) == 4
    assert results.pooled_spread("perplexity")


def test_the_last_checkpoint_is_measured_on_all_of_the_validation_set(corpus: Path, finished: Path) -> None:
    run = finished / "runs" / "wide-seed2"
    last = read_weights(checkpoints(run)[-1] / "model.safetensors")
    for name, weight in Bundle.load(run / "model").weights().items():
        np.testing.assert_array_equal(weight, last[name])
    sources, targets = ((corpus / f"dev.{side}").read_text().splitlines() for side in ("en", "de"))
    from transduce.translation.translator import Translator

    expected = ScoreSummary()
    expected.add(Translator.load(run / "model", engine="torch", device="cpu").score(sources, targets))
    assert figures(finished)["wide", 2][0] == pytest.approx(expected.perplexity, rel=1e-5)


def test_bleu_is_that_of_beam_search(corpus: Path, finished: Path) -> None:
    from transduce.evaluation.bleu import bleu
    from transduce.translation.translator import Translator

    run = finished / "runs" / "base-seed1"
    sources, targets = ((corpus / f"dev.{side}").read_text().splitlines() for side in ("en", "de"))
    translations = Translator.load(run / "model", engine="torch", device="cpu").translate(
        sources
    )  # the recipe's beam of 2
    assert figures(finished)["base", 1][1] == pytest.approx(bleu(translations, [targets]).value)


def test_finished_trials_are_kept_outside_their_run_folders(finished: Path) -> None:
    kept = sorted(path.name for path in (finished / "cells").iterdir())
    assert kept == [f"{row}-seed{seed}.json" for row in ("base", "wide") for seed in (1, 2)]
    values = json.loads((finished / "cells" / "wide-seed2.json").read_text())
    assert values["result"] == json.loads((finished / "runs" / "wide-seed2" / "result.json").read_text())
    assert values["request"]["config"]["model"]["d_ff"] == 64


def test_the_data_is_prepared_once(finished: Path) -> None:
    (prepared,) = (finished / "data").glob("[!.]*")  # but for the lock
    assert (prepared / "manifest.json").is_file()
    assert not list((finished / "runs").glob("*/data"))


def test_the_page_has_every_row(finished: Path) -> None:
    page = (finished / "table.md").read_text()
    (line,) = [line for line in page.splitlines() if line.startswith("| wide |")]
    assert "d_ff 64" in line
    assert "4.75" in line
    assert "±" in line
    assert "Mean over seeds 1, 2" in page


def test_finished_trials_are_skipped_and_others_added(
    corpus: Path, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.glob("runs/*/result.json")}
    assert command_line(command(corpus, finished, "--seeds", "1", "--rows", "wide")) == 0
    output, messages = capsys.readouterr()
    assert "1 training, 1 of them done" in messages
    assert {path: path.stat().st_mtime_ns for path in finished.glob("runs/*/result.json")} == before
    assert len(figures(finished)) == 4
    assert "| base |" in output


def test_another_base_in_the_same_folder_is_refused(
    corpus: Path, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (finished / "results.json").read_bytes()
    assert command_line(command(corpus, finished, "--set", "model.dropout=0.3")) == 2
    assert "model.dropout was 0.1, now 0.3" in capsys.readouterr().err
    assert (finished / "results.json").read_bytes() == before


def test_a_failed_trial_is_recorded_and_the_others_go_on(
    corpus: Path,
    tmp_path: Path,
    with_warm_trials: Callable[[list[str]], int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = command(corpus, tmp_path / "out", "--steps", "2", "--quiet", grid="broken.toml")
    assert with_warm_trials(arguments) == TrainingError.exit_code
    assert "2 trainings failed" in capsys.readouterr().err
    trials = {trial.row: trial for trial in Results.load(tmp_path / "out" / "results.json").trials}
    assert "cuda:77" in trials["nowhere"].error or "CUDA" in trials["nowhere"].error
    assert "no training pairs are left" in trials["nothing-left"].error
    assert trials["base"].error == ""
    assert trials["base"].steps == 2
    page = (tmp_path / "out" / "table.md").read_text()
    assert "- nowhere, seed 1: exit code" in page


def wait_until(condition: Any, process: "subprocess.Popen[bytes]", seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.02)


# SIGINT is ignored in whatever a shell has started in the background: say that it is not.
_COMMAND_LINE = """
import signal, sys
from transduce.cli.main import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.executable = sys.argv[1]  # what the trials are started with
sys.exit(main(sys.argv[2:]))
"""


def wait_until_the_trial_has_left(run: Path, seconds: float = 300.0) -> None:
    """A killed command leaves its trial behind, which notices by itself, and holds its lock until it is done."""
    deadline = time.monotonic() + seconds
    with (run / ".cell.lock").open("w") as lock:
        while time.monotonic() < deadline:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                time.sleep(0.05)
    pytest.fail("the trial goes on training")


def last_step(run: Path) -> int:
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return max(record["step"] for record in records if record["kind"] == "train")


_LONG = ("--rows", "base", "--steps", "80", "--quiet")


@pytest.fixture(scope="module")
def whole(
    corpus: Path, with_warm_trials: Callable[[list[str]], int], tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, int], tuple[Any, ...]]:
    """What comes out where nobody kills anything."""
    output = tmp_path_factory.mktemp("whole") / "out"
    assert with_warm_trials(command(corpus, output, *_LONG)) == 0
    return figures(output)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_and_run_again_it_comes_out_as_if_never_killed(
    corpus: Path,
    tmp_path: Path,
    whole: dict[tuple[str, int], tuple[Any, ...]],
    with_warm_trials: Callable[[list[str]], int],
    warm_python: Path,
    how: int,
) -> None:
    stopped = tmp_path / "stopped"
    process = subprocess.Popen(
        [sys.executable, "-c", _COMMAND_LINE, str(warm_python), *command(corpus, stopped, *_LONG)]
    )
    run = stopped / "runs" / "base-seed1"
    wait_until(lambda: len(list(run.glob("checkpoints/step-*"))) > 0, process)
    process.send_signal(how)
    assert process.wait(60) == (-how if how == signal.SIGKILL else 130)
    wait_until_the_trial_has_left(run)
    assert not (run / "result.json").exists()
    assert last_step(run) == read_progress(checkpoints(run)[-1]).step < 80  # it finished its step, and wrote it down
    assert with_warm_trials(command(corpus, stopped, *_LONG)) == 0
    assert "resuming after step" in (run / "log.txt").read_text()
    assert figures(stopped) == whole
    assert whole["base", 1][3] == 80


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--seeds", "0"], "--seeds 0"),
        (["--minutes", "-1"], "--minutes -1"),
        (["--rows", "bsae"], "Did you mean 'base'?"),
        (["--width", "100"], "width 100"),
        (["--set", "model.droput=0"], "Did you mean 'dropout'?"),
    ],
)
def test_bad_arguments_are_named_and_nothing_is_written(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], message: str
) -> None:
    assert command_line(command(corpus, tmp_path / "out", *more)) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_grid_without_a_base_needs_a_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["ablate", "--grid", "table3", "--output", str(tmp_path / "out")]) == 2
    assert "give a RECIPE" in capsys.readouterr().err


def test_a_budget_of_minutes_and_a_width_reach_the_trials(
    corpus: Path, tmp_path: Path, with_warm_trials: Callable[[list[str]], int]
) -> None:
    arguments = ["ablate", str(corpus / "recipe.toml"), "--output", str(tmp_path / "out"), "--rows", "A1"]
    arguments += ["--minutes", "0.02", "--width", "32", "--quiet", "--tokenized"]
    assert with_warm_trials(arguments) == 0
    config = load_run_config(tmp_path / "out" / "runs" / "A1-seed1")
    assert (config.model.d_model, config.model.num_heads, config.model.d_k) == (32, 1, 32)
    assert config.train.max_minutes == 0.02
    (trial,) = Results.load(tmp_path / "out" / "results.json").trials
    assert trial.training_seconds is not None
    assert 1.2 <= trial.training_seconds < 300  # long enough for a busy machine
    assert "tokens as given" in (tmp_path / "out" / "table.md").read_text()


def test_only_the_trials_need_torch(corpus: Path, finished: Path) -> None:
    """The command itself stays small: `import torch` would take more memory than all it does."""
    code = f"""
import sys
from pathlib import Path
from transduce.experiments.ablation.ablate import ablate
from transduce.experiments.ablation.built_in import find_grid
from transduce.experiments.ablation.trials import Ablation
from transduce.config import load_recipe
grid, base = find_grid({str(corpus / "grid.toml")!r}), load_recipe(Path({str(corpus / "recipe.toml")!r}))
results = ablate(Ablation(grid, base, Path({str(finished)!r})), ["base"], show_progress=False)
assert len(results.trials) == 4
assert "torch" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=dict(os.environ), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_recipe_that_cools_down_does_so_over_the_same_share_of_the_budget(
    corpus: Path,
    tmp_path: Path,
    with_warm_trials: Callable[[list[str]], int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (corpus / "recipe.toml").read_text(encoding="utf-8")
    recipe = corpus / "cooling.toml"
    recipe.write_text(text.replace("max_steps = 23\n", "max_steps = 20\ncooldown_steps = 15\n"), encoding="utf-8")
    arguments = ["ablate", str(recipe), "--rows", "base", "--quiet", "--output", str(tmp_path / "out")]
    assert command_line([*arguments, "--minutes", "1"]) == ConfigError.exit_code
    assert "Give --steps, or add --set train.cooldown_steps=0" in capsys.readouterr().err
    assert with_warm_trials([*arguments, "--steps", "4"]) == 0
    assert load_run_config(tmp_path / "out" / "runs" / "base-seed1").train.cooldown_steps == 3
