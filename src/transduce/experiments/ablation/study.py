"""Runs an ablation: `transduce ablate` from Python.

    from transduce.experiments.ablation.built_in import find_grid
    from transduce.experiments.ablation.study import ablate

    results = ablate(find_grid("table3"), base, Path("runs/table3"), num_seeds=2)

Each cell is a process of its own (`experiments.ablation.cell`): one that fails, or is killed for want of memory, takes
no other with it. This side needs no torch.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

from transduce import files
from transduce.config import Config
from transduce.data.prepare import prepare
from transduce.errors import DataError, MissingDependencyError
from transduce.experiments.ablation.grid import Grid
from transduce.experiments.ablation.picture import draw
from transduce.experiments.ablation.plan import LOG, Cell, begin, changed_settings, plan
from transduce.experiments.ablation.record import keep_records, read_records, require_comparable
from transduce.experiments.ablation.report import render
from transduce.experiments.ablation.results import CellResult, Results, RowInfo, in_order
from transduce.reporting.tables import counted

RESULTS, TABLE, PICTURE = "results.json", "table.md", "rows.png"

_POLL_SECONDS = 0.2


def ablate(
    grid: Grid,
    base: Config,
    output: Path,
    *,
    rows: Sequence[str] = (),
    num_seeds: int = 1,
    jobs: int = 1,
    tokenized: bool = False,
    mirror: Path | None = None,
    show_progress: bool = True,
) -> Results:
    """Trains and measures every row with every seed, and writes results, table and picture into `output`.

    Called again, it goes on: finished cells are left as they are, a half one is resumed from its last checkpoint, a
    failed one is tried again. Rows and seeds may be added; the base may not change, nor how finished rows were made.

    Args:
        grid: the variations.
        base: what they vary; its `train.max_steps` and `train.max_minutes` are the budget of each cell.
        output: the folder.
        rows: names of the rows to train now; none: all.
        num_seeds: from the base's seed on.
        jobs: cells trained side by side, the machine's threads (and visible GPUs) shared out over them.
        tokenized: whether the corpus is tokenised already, and BLEU takes its tokens as they stand.
        mirror: a folder that stands in for the network when the corpus is fetched.
        show_progress: whether to say on standard error what is done.

    Raises:
        ConfigError: a row cannot be made, `output` is of another ablation, or it has results that do not compare.
        DataError: the corpus cannot be used, for any of the cells.
    """
    say = _say if show_progress else _say_nothing
    cells = plan(grid.select(rows) if rows else grid, base, output, num_seeds=num_seeds, tokenized=tokenized)
    begin(output, grid, base)
    require_comparable(read_records(output), grid, base, output, tokenized=tokenized)
    for cell in cells:
        cell.request()
    missing = [cell for cell in cells if not cell.done]
    errors = _prepare_data(missing, mirror, show_progress)
    waiting = [cell for cell in missing if cell.data not in errors]
    failed = {cell.folder: errors[cell.data] for cell in missing if cell.data in errors}
    say(f"{counted(len(cells), 'cell')}, {len(cells) - len(waiting) - len(failed)} of them done, {jobs} at a time")
    started = time.monotonic()
    results = _write(grid, base, output, cells, failed)
    with contextlib.closing(_run(waiting, jobs)) as ends:
        for count, (cell, code) in enumerate(ends, start=1):
            if not cell.done:
                failed[cell.folder] = _last_words(cell, code)
            results = _write(grid, base, output, cells, failed)
            left = (time.monotonic() - started) / count * (len(waiting) - count)
            say(f"[{count}/{len(waiting)}] {_describe(cell, results)}; about {left / 60:,.0f} minutes left")
    try:
        draw(results, output / PICTURE)
    except MissingDependencyError as error:
        say(f"no picture: {error}")
    return results


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _say_nothing(line: str) -> None:
    pass


def _prepare_data(cells: Sequence[Cell], mirror: Path | None, show_progress: bool) -> dict[Path, str]:
    """Prepares each data folder that cells ask for; returns what went wrong, by folder."""
    firsts: dict[Path, Cell] = {}
    for cell in cells:
        firsts.setdefault(cell.data, cell)
    errors: dict[Path, str] = {}
    for folder, cell in firsts.items():
        try:
            report = prepare(cell.config, folder, mirror=mirror, progress=show_progress)
        except DataError as error:
            if len(firsts) == 1:
                raise
            errors[folder] = str(error)
            continue
        if show_progress and not report.reused:
            _say(str(report))
    return errors


def _run(cells: Sequence[Cell], jobs: int) -> Generator[tuple[Cell, int], None, None]:
    """Runs the cells' processes, `jobs` at a time, and yields each cell whose process has ended, with its exit code.

    Processes that are under way when this ends early are told to stop, and waited for while they write a checkpoint.
    """
    waiting, slots = deque(cells), list(range(jobs))
    running: dict[subprocess.Popen[bytes], tuple[Cell, int]] = {}
    try:
        while waiting or running:
            while waiting and slots:
                cell, slot = waiting.popleft(), slots.pop(0)
                running[_start(cell, slot, jobs)] = (cell, slot)
            ended = [process for process in running if process.poll() is not None]
            for process in ended:
                cell, slot = running.pop(process)
                _tell_to_stop(process)  # it has; this closes the pipe
                slots.append(slot)
                yield cell, process.returncode
            if not ended:
                time.sleep(_POLL_SECONDS)
    finally:
        for process in running:
            _tell_to_stop(process)
        for process in running:
            process.wait()


def _start(cell: Cell, slot: int, jobs: int) -> "subprocess.Popen[bytes]":
    with (cell.folder / LOG).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "transduce.experiments.ablation.cell", str(cell.folder)],
            env=shared_environment(os.environ, slot, jobs),
            stdin=subprocess.PIPE,  # never written to: that it is open tells the process that we are there
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for us: a second signal would cut its checkpoint short
        )


def _tell_to_stop(process: "subprocess.Popen[bytes]") -> None:
    if process.stdin is not None:
        process.stdin.close()


def shared_environment(environment: Mapping[str, str], slot: int, jobs: int) -> dict[str, str]:
    """Returns the environment of one of `jobs` processes: its share of the threads, and one of several visible GPUs."""
    own = dict(environment)
    if jobs == 1:
        return own
    num_threads = int(own.get("OMP_NUM_THREADS") or _num_cores())
    own["OMP_NUM_THREADS"] = str(max(1, num_threads // jobs))
    devices = [device for device in own.get("CUDA_VISIBLE_DEVICES", "").split(",") if device]
    if len(devices) > 1:
        own["CUDA_VISIBLE_DEVICES"] = devices[slot % len(devices)]
    return own


def _num_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _last_words(cell: Cell, code: int) -> str:
    lines = (cell.folder / LOG).read_text(encoding="utf-8", errors="replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    end = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
    return f"{end}; it last said: {said[-1] if said else 'nothing'} ({cell.folder / LOG})"


def _write(grid: Grid, base: Config, output: Path, cells: Sequence[Cell], failed: Mapping[Path, str]) -> Results:
    """Gathers what there is, of this call and of earlier ones, and writes results and table."""
    done = [record.result for record in keep_records(output)]
    lost = [CellResult(cell.row, cell.seed, error=failed[cell.folder]) for cell in cells if cell.folder in failed]
    known = {row.name for row in grid.rows}
    shown = grid.select([*known & ({result.row for result in done} | {cell.row for cell in cells})])
    configs = shown.configs(base)
    rows = tuple(RowInfo(row.name, changed_settings(base, configs[row.name]), row.printed) for row in shown.rows)
    tokens = "tokens as given" if cells[0].tokenized else "sacreBLEU 13a"
    search = f"beam {base.decode.beam_size}, length penalty {base.decode.length_penalty}"
    results = Results(grid.name, base.name, f"{tokens}, {search}", rows, in_order([*done, *lost], rows))
    results.save(output / RESULTS)
    files.write_text(output / TABLE, render(results))
    return results


def _describe(cell: Cell, results: Results) -> str:
    for result in results.cells:
        if (result.row, result.seed) == (cell.row, cell.seed):
            if result.error:
                return f"{cell.row}, seed {cell.seed}: failed: {result.error}"
            minutes = (result.training_seconds or 0.0) / 60
            return (
                f"{cell.row}, seed {cell.seed}: perplexity {result.perplexity:.3f}, BLEU {result.bleu:.2f}, "
                f"{result.steps:,} steps in {minutes:.1f} minutes"
            )
    return f"{cell.row}, seed {cell.seed}"
