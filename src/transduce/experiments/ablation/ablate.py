"""Runs an ablation: `transduce ablate` from Python.

    from transduce.experiments.ablation.ablate import ablate
    from transduce.experiments.ablation.built_in import find_grid
    from transduce.experiments.ablation.trials import Ablation

    results = ablate(Ablation(find_grid("table3"), base, Path("runs/table3"), num_seeds=2))

Each trial is a process of its own (`experiments.ablation.worker`): if one fails, or is killed for lack of memory, the
others go on. This module needs no torch.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from functools import partial
from pathlib import Path

from transduce import files
from transduce.data.prepare import prepare
from transduce.engines.allocator import num_cores
from transduce.errors import TransduceError
from transduce.experiments import store
from transduce.experiments.ablation.report import draw, render
from transduce.experiments.ablation.results import Results, TrialResult, in_order, row_infos
from transduce.experiments.ablation.trials import LOG, Ablation, Trial, keep_finished
from transduce.experiments.store import RESULTS, TABLE
from transduce.reporting.tables import counted

PICTURE = "rows.png"

_POLL_SECONDS = 0.2


def ablate(
    ablation: Ablation,
    rows: Sequence[str] = (),
    *,
    jobs: int = 1,
    mirror: Path | None = None,
    show_progress: bool = True,
) -> Results:
    """Trains and measures every row with every seed, and writes results, table and picture into the output folder.

    Called again, it resumes: finished trials stay as they are, a stopped one continues at its last checkpoint, a failed
    one is tried again. Rows and seeds may be added; the base may not change, nor how finished rows were made.

    Args:
        ablation: what is trained, and the output folder.
        rows: names of the rows to train now; none: all.
        jobs: trials trained in parallel; they share the machine's threads and its visible GPUs.
        mirror: a folder that the corpus is read from instead of the network.
        show_progress: whether to print progress on standard error.

    Raises:
        ConfigError: a row cannot be made, the output folder is of another ablation, or has results that do not compare.
        TransduceError: the corpus cannot be prepared, and all trials share it.
    """
    say = partial(store.say, show_progress)
    trials = ablation.trials(rows)
    ablation.begin()
    for trial in trials:
        trial.write_request()
    missing = [trial for trial in trials if not trial.done]
    errors = _prepare_data(missing, mirror, show_progress)
    waiting = [trial for trial in missing if trial.data not in errors]
    failed = [TrialResult(each.row, each.seed, error=errors[each.data]) for each in missing if each.data in errors]
    say(f"{counted(len(trials), 'training')}, {len(trials) - len(missing)} of them done, {jobs} at a time")
    started = time.monotonic()
    results = _write(ablation, trials, failed)
    with contextlib.closing(_run(waiting, jobs)) as ended:
        for count, (trial, code) in enumerate(ended, start=1):
            if not trial.done:
                failed.append(TrialResult(trial.row, trial.seed, error=_failure(trial, code)))
            results = _write(ablation, trials, failed)
            left = (time.monotonic() - started) / count * (len(waiting) - count)
            (result,) = (each for each in results.trials if (each.row, each.seed) == (trial.row, trial.seed))
            say(f"[{count}/{len(waiting)}] {_describe(result)}; about {counted(round(left / 60), 'minute')} left")
    store.draw_if_possible(partial(draw, results, ablation.output / PICTURE), shown=show_progress)
    return results


def _prepare_data(trials: Sequence[Trial], mirror: Path | None, show_progress: bool) -> dict[Path, str]:
    """Prepares the data folder of each trial; returns error messages by folder."""
    firsts: dict[Path, Trial] = {}
    for trial in trials:
        firsts.setdefault(trial.data, trial)
    errors: dict[Path, str] = {}
    for folder, trial in firsts.items():
        try:
            with files.in_turn(folder.parent):  # of several commands the first prepares
                report = prepare(trial.config, folder, mirror=mirror, progress=show_progress)
        except TransduceError as error:
            if len(firsts) == 1:
                raise
            errors[folder] = str(error)
            continue
        store.say(show_progress and not report.reused, str(report))
    return errors


def _run(trials: Sequence[Trial], jobs: int) -> Generator[tuple[Trial, int], None, None]:
    """Runs the trials' processes, `jobs` at a time, and yields each trial whose process has ended, with its exit code.

    Where this ends early, it stops the processes that still run and waits until they have written a checkpoint.
    """
    waiting, slots = deque(trials), list(range(jobs))
    running: dict[subprocess.Popen[bytes], tuple[Trial, int]] = {}
    try:
        while waiting or running:
            while waiting and slots:
                trial, slot = waiting.popleft(), slots.pop(0)
                running[_start(trial, slot, jobs)] = (trial, slot)
            ended = [process for process in running if process.poll() is not None]
            for process in ended:
                trial, slot = running.pop(process)
                _request_stop(process)  # it has ended; this closes the pipe
                slots.append(slot)
                yield trial, process.returncode
            if not ended:
                time.sleep(_POLL_SECONDS)
    finally:
        for process in running:
            _request_stop(process)
        for process in running:
            process.wait()


def _start(trial: Trial, slot: int, jobs: int) -> "subprocess.Popen[bytes]":
    with (trial.folder / LOG).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "transduce.experiments.ablation.worker", str(trial.folder)],
            env=shared_environment(os.environ, slot, jobs),
            stdin=subprocess.PIPE,  # never written to: the process stops when it is closed
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for us: a second signal would cut its checkpoint short
        )


def _request_stop(process: "subprocess.Popen[bytes]") -> None:
    if process.stdin is not None:
        process.stdin.close()


def shared_environment(environment: Mapping[str, str], slot: int, jobs: int) -> dict[str, str]:
    """Returns the environment of one of `jobs` processes: its share of the threads, and one of several visible GPUs."""
    own = dict(environment)
    if jobs == 1:
        return own
    own["OMP_NUM_THREADS"] = str(max(1, int(own.get("OMP_NUM_THREADS") or num_cores()) // jobs))
    devices = [device for device in own.get("CUDA_VISIBLE_DEVICES", "").split(",") if device]
    if len(devices) > 1:
        own["CUDA_VISIBLE_DEVICES"] = devices[slot % len(devices)]
    return own


def _failure(trial: Trial, code: int) -> str:
    log = trial.folder / LOG
    *_, last = log.read_text(encoding="utf-8", errors="replace").strip().split("\n")
    end = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
    return f"{end}; it last said: {last.strip() or 'nothing'} ({log})"


def _write(ablation: Ablation, trials: Sequence[Trial], failed: Sequence[TrialResult]) -> Results:
    """Gathers the results of this call and of earlier ones, and writes results and table."""
    found = [*(trial.result for trial in keep_finished(ablation.output)), *failed]
    shown = {each.row for each in found} | {each.row for each in trials}
    base, grid = ablation.base, ablation.grid.select([row.name for row in ablation.grid.rows if row.name in shown])
    rows = row_infos(grid, base)
    tokens = "the paper's way" if ablation.paper_bleu else "tokens as given" if ablation.tokenized else "sacreBLEU"
    bleu = f"{tokens}, beam {base.decode.beam_size}, length penalty {base.decode.length_penalty}"
    results = Results(grid.name, base.name, bleu, rows, in_order(found, rows))
    results.save(ablation.output / RESULTS)
    files.write_text(ablation.output / TABLE, render(results))
    return results


def _describe(result: TrialResult) -> str:
    name = f"{result.row}, seed {result.seed}"
    if result.error:
        return f"{name}: failed: {result.error}"
    minutes = (result.training_seconds or 0.0) / 60
    figures = f"perplexity {result.perplexity:.3f}, BLEU {result.bleu:.2f}"
    return f"{name}: {figures}, {result.steps:,} steps in {minutes:.1f} minutes"
