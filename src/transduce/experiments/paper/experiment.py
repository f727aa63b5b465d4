"""An experiment is a list of cells: measured one by one, kept as they come, rendered when all are there.

FOLDER/results.json    every finished cell, written after each of them: what a stopped run goes on from
FOLDER/table.md        printed beside measured, and what differs
FOLDER/*.png           the picture
"""

import datetime
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce import files
from transduce.data.progress import progress_bar
from transduce.engines.allocator import keep_memory
from transduce.experiments import store
from transduce.experiments.store import RESULTS, TABLE
from transduce.reporting.machine import describe_machine, machine_line

Values = dict[str, Any]  # what a cell measured: names, and what JSON can hold
Cells = Mapping[str, Values]  # by the cell's id
Say = Callable[[str], None]  # shows how far a long cell has come


@dataclass(frozen=True)
class Options:
    """What is said of every experiment; those that have more options add fields."""

    scale: str  # one of `SCALES`; decides what is not given
    output: Path = Path()  # the experiment's folder; models that it trains lie below it
    quiet: bool = False  # whether trainings show no progress


@dataclass(frozen=True)
class Cell:
    """One thing to measure. What it returns depends on its id and the experiment's settings alone."""

    id: str
    measure: Callable[[Say], Values]


@dataclass(frozen=True)
class Experiment:
    """What to measure, and how to show it. `render` and `draw` are given all cells, and what `order` names beside."""

    name: str
    title: str
    settings: Mapping[str, Any]  # all that decides the results, `scale` among it; others' results are not mixed in
    cells: Sequence[Cell]
    render: Callable[[Cells], str]  # Markdown
    draw: Callable[[Cells, Path], None]  # pictures, into a folder
    order: Sequence[str] = ()  # of ids, where a call may have some of the cells only: shown is all that is known


def run_experiment(experiment: Experiment, folder: Path, *, show_progress: bool = True) -> Path:
    """Measures what `folder` does not hold yet, then writes table and picture; returns the table's path.

    Raises:
        ConfigError: `folder` holds results of another experiment or of other settings.
    """
    keep_memory()  # as training does: times are not to be those of page faults
    results = _Results.open(experiment, folder / RESULTS)
    missing = [cell for cell in experiment.cells if cell.id not in results.cells]
    with progress_bar(experiment.name, len(experiment.cells), unit="cell", shown=show_progress) as bar:
        bar.update(len(experiment.cells) - len(missing))
        for cell in missing:
            started = time.perf_counter()
            values = _measure(cell, bar)
            results.add(cell.id, values, time.perf_counter() - started)
            bar.update()
    shown = [cell for cell in experiment.order if cell in results.cells] or [cell.id for cell in experiment.cells]
    cells = {cell: results.cells[cell]["values"] for cell in shown}
    experiment.draw(cells, folder)
    files.write_text(folder / TABLE, f"# {experiment.title}\n\n{experiment.render(cells)}\n\n{results.footer()}\n")
    return folder / TABLE


def _measure(cell: Cell, bar: Any) -> Values:
    def show(text: str) -> None:
        bar.set_postfix_str(text, refresh=sys.stderr.isatty())  # a log file wants a line now and then, not each

    show(cell.id)
    return cell.measure(lambda text: show(f"{cell.id}: {text}"))


class _Results:
    """results.json: what was measured so far, and the machines that it was measured on."""

    def __init__(self, path: Path, values: dict[str, Any]) -> None:
        self.path, self._values = path, values
        machine = describe_machine()
        machines: list[dict[str, Any]] = values["machines"]
        if machine not in machines:
            machines.append(machine)
        self._machine = machines.index(machine)

    @classmethod
    def open(cls, experiment: Experiment, path: Path) -> "_Results":
        now = {"experiment": experiment.name, "settings": json.loads(json.dumps(dict(experiment.settings)))}
        if not path.exists():
            started = datetime.date.today().isoformat()
            return cls(path, {**now, "started": started, "machines": [], "cells": {}})

        def parse(values: dict[str, Any]) -> dict[str, Any]:
            return values | {key: values[key] for key in (*now, "machines", "cells")}

        values = store.read(path, "the results of 'transduce paper'", parse)
        store.require_same(
            {key: values[key] for key in now},
            now,
            f"{path}: holds results of",
            remedy="Choose another --output, or remove the whole folder "
            f"{path.parent} to begin anew: what was trained there is of those results.",
        )
        return cls(path, values)

    @property
    def cells(self) -> dict[str, dict[str, Any]]:
        """What each finished cell came to: `values`, `seconds` it took, and `machine`, an index."""
        cells: dict[str, dict[str, Any]] = self._values["cells"]
        return cells

    def add(self, cell: str, values: Values, seconds: float) -> None:
        """Keeps a cell, durably."""
        self.cells[cell] = {"values": values, "seconds": round(seconds, 3), "machine": self._machine}
        files.write_json(self.path, self._values)

    def footer(self) -> str:
        """Says when, on what and for how long all was measured."""
        used = sorted({cell["machine"] for cell in self.cells.values()})
        lines = [f"- {machine_line(self._values['machines'][index])}" for index in used]
        if len(used) > 1:
            lines.append("- **Times of different machines stand in one table: see `machine` in results.json.**")
        minutes = sum(cell["seconds"] for cell in self.cells.values()) / 60
        done = (
            f"Begun {self._values['started']}; {len(self.cells)} cells in {minutes:.1f} minutes, scale "
            f"`{self._values['settings']['scale']}`. All settings and figures are in {RESULTS}."
        )
        return "\n".join(["## Measured on", "", *lines, "", done])
