"""An experiment is a list of measurements: each is saved as soon as it is made, and all are rendered at the end.

FOLDER/results.json    all finished measurements (its "cells"), written after each: a stopped run resumes from it
FOLDER/table.md        printed next to measured, and what differs
FOLDER/*.png           the picture
"""

import datetime
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from transduce import files
from transduce.data.progress import progress_bar
from transduce.engines.allocator import keep_memory
from transduce.experiments import store
from transduce.experiments.store import RESULTS, TABLE
from transduce.reporting.machine import describe_machine, machine_line

Values = dict[str, Any]  # the result of a measurement: names, and what JSON can hold
Measured = Mapping[str, Values]  # by the measurement's name
Say = Callable[[str], None]  # shows the progress of a long measurement


@dataclass(frozen=True)
class Options:
    """Options of every experiment; some have more, in a subclass."""

    scale: str  # one of `SCALES`; decides what the other options leave open
    output: Path = Path()  # the folder of results; trained models are in subfolders
    quiet: bool = False  # whether trainings show no progress


@dataclass(frozen=True)
class Measurement:
    """One thing to measure. What it returns depends on its name and the experiment's settings alone."""

    name: str
    measure: Callable[[Say], Values]


@dataclass(frozen=True)
class Experiment:
    """What to measure, and how to show it."""

    name: str
    title: str
    settings: Mapping[str, Any]  # all that decides the results, `scale` too; a folder has results of one setting
    measurements: Sequence[Measurement]
    render: Callable[[Measured], str]  # Markdown
    draw: Callable[[Measured, Path], None]  # pictures, into a folder
    order: Sequence[str] = ()  # of all names, where a call may make some only: those of earlier calls are shown too


def run_experiment(experiment: Experiment, folder: Path, *, show_progress: bool = True) -> Path:
    """Measures what `folder` does not hold yet, then writes table and picture; returns the table's path.

    Raises:
        ConfigError: `folder` holds results of another experiment or of other settings, or is a file.
    """
    store.require_folder(folder)
    keep_memory()  # as training does: times are not to be those of page faults
    results = _Results(experiment, folder / RESULTS)
    names = [each.name for each in experiment.measurements]
    missing = [each for each in experiment.measurements if each.name not in results.cells]
    with progress_bar(experiment.name, len(names), unit="measurement", shown=show_progress) as bar:
        bar.update(len(names) - len(missing))
        for measurement in missing:
            started = time.perf_counter()
            values = _measure(measurement, bar)
            results.add(measurement.name, values, time.perf_counter() - started)
            bar.update()
    with files.in_turn(folder):  # the command that ends last shows the results of all
        results.read()
        shown = [name for name in experiment.order if name in results.cells] or names
        measured = {name: results.cells[name]["values"] for name in shown}
        experiment.draw(measured, folder)
        page = f"# {experiment.title}\n\n{experiment.render(measured)}\n\n{results.footer()}\n"
        files.write_text(folder / TABLE, page)
    return folder / TABLE


def _measure(measurement: Measurement, bar: Any) -> Values:
    # A log file wants a line now and then, not each.
    show = partial(bar.set_postfix_str, refresh=sys.stderr.isatty())
    show(measurement.name)
    return measurement.measure(lambda text: show(f"{measurement.name}: {text}"))


class _Results:
    """results.json: the finished measurements, and the machines that made them."""

    def __init__(self, experiment: Experiment, path: Path) -> None:
        self._now = {"experiment": experiment.name, "settings": json.loads(json.dumps(dict(experiment.settings)))}
        self._path = path
        self._values = {**self._now, "started": datetime.date.today().isoformat(), "machines": [], "cells": {}}
        self.read()
        self._machine = describe_machine()

    @property
    def cells(self) -> dict[str, dict[str, Any]]:
        """Each finished measurement by its name: `values`, the `seconds` it took, and `machine`, an index."""
        cells: dict[str, dict[str, Any]] = self._values["cells"]
        return cells

    def read(self) -> None:
        """Takes over what is written, which must be of this experiment and its settings."""
        path, now = self._path, self._now
        if not path.exists():
            return
        with store.reading(path, "the results of 'transduce paper'") as values:
            self._values |= values | {key: values[key] for key in (*now, "machines", "cells")}
        remedy = (
            f"Choose another --output, or remove the whole folder {path.parent} to start over: the models there "
            "belong to those results."
        )
        store.require_same({key: self._values[key] for key in now}, now, f"{path}: holds results of", remedy=remedy)

    def add(self, name: str, values: Values, seconds: float) -> None:
        """Keeps a measurement, durably, next to those that other commands have written here since."""
        with files.in_turn(self._path.parent):
            self.read()
            machines = self._values["machines"]
            if self._machine not in machines:
                machines.append(self._machine)
            machine = machines.index(self._machine)
            self.cells[name] = {"values": values, "seconds": round(seconds, 3), "machine": machine}
            files.write_json(self._path, self._values)

    def footer(self) -> str:
        """Returns when, on what and for how long all was measured."""
        used = sorted({cell["machine"] for cell in self.cells.values()})
        lines = [f"- {machine_line(self._values['machines'][index])}" for index in used]
        if len(used) > 1:
            lines.append("- **Times of different machines are in one table: see `machine` in results.json.**")
        minutes = sum(cell["seconds"] for cell in self.cells.values()) / 60
        done = (
            f"Started {self._values['started']}; {len(self.cells)} cells in {minutes:.1f} minutes, scale "
            f"`{self._values['settings']['scale']}`. All settings and figures are in {RESULTS}."
        )
        return "\n".join(["## Measured on", "", *lines, "", done])
