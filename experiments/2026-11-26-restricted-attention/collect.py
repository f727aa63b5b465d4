"""Means and intervals of what run.sh measured so far: table.md, results.json and quality.png.

    python collect.py RUNS --output DIR

A difference from full attention counts by ±2 σ √(2/n), n seeds, where σ is the spread of seeds, pooled over all rows of
the comparison (`experiments/ablation/results.py` does the same). With one seed there is no interval, and no verdict.
"""

import argparse
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transduce.files import atomic_path
from transduce.reporting.charts import COLOURS, GREY, legend_below, new_chart, save_chart
from transduce.reporting.machine import describe_machine
from transduce.reporting.tables import short, table

WINDOWS = ("window-0", "window-8", "window-16", "window-32", "window-64")  # the first is full attention
KINDS = ("sinusoidal", "learned")
LIMITS = ("1", "60", "125", "250", "500", "1000")  # subwords of a document; 1: single lines
LINES, DOCUMENTS = LIMITS[0], LIMITS[-1]
MEASURES = {"log_perplexity": -1.0, "bleu": 1.0}  # with the sign of better
Values = Mapping[str, Sequence[float]]  # of the seeds, by row


def name_of(row: str) -> str:
    """Returns what tables call a row."""
    return row.replace("window-", "r = ").replace("r = 0", "full")


def read(runs: Path, row: str) -> list[dict[str, dict[str, float]]]:
    """Returns for each seed what was measured, by limit and measure."""
    found = []
    for path in sorted(runs.glob(f"{row}-*.json")):
        sets = {each["name"]: each for each in json.loads(path.read_text(encoding="utf-8"))["sets"]}
        found.append(
            {
                limit: {
                    "log_perplexity": math.log(sets[limit]["perplexity"]),
                    "bleu": sets[limit]["scores"]["bleu"]["value"],
                }
                for limit in LIMITS
            }
        )
    return found


def half_width(values: Values) -> float | None:
    """Returns the half-width of the interval of 95 % of a difference between two rows; None with one seed."""
    spreads = [(len(seeds) - 1, statistics.variance(seeds)) for seeds in values.values() if len(seeds) > 1]
    freedom = sum(count for count, _ in spreads)
    if not freedom:
        return None
    variance = sum(count * spread for count, spread in spreads) / freedom
    return 2 * math.sqrt(variance * 2 / min(len(seeds) for seeds in values.values() if seeds))


def compare(values: Values, better: float) -> dict[str, Any]:
    """Returns how each row differs from the first, the interval, and which rows lose more than it."""
    means = {row: statistics.fmean(seeds) for row, seeds in values.items() if seeds}
    base, half = means[next(iter(values))], half_width(values)
    differences = {row: mean - base for row, mean in means.items()}
    worse = None if half is None else [row for row, each in differences.items() if better * each < -half]
    return {"means": means, "differences": differences, "half_width": half, "worse": worse}


def least_window(comparison: Mapping[str, Any]) -> str:
    """Returns from which r on no window loses more than the interval, in words."""
    measured = [row for row in WINDOWS[1:] if row in comparison["means"]]
    if comparison["worse"] is None:
        return "undecided: one seed"
    if len(measured) < len(WINDOWS) - 1:
        return "undecided: windows are missing"
    within: list[str] = []
    for row in reversed(measured):
        if row in comparison["worse"]:
            break
        within = [row, *within]
    return name_of(within[0]) if within else "none of these"


def cells(comparison: Mapping[str, Any], row: str, *, log: bool) -> list[str]:
    """Returns the mean of a row and its difference from the first, as a table shows them."""
    mean, difference, half = comparison["means"][row], comparison["differences"][row], comparison["half_width"]
    shown = short(math.exp(mean)) if log else f"{mean:.1f}"
    interval = "" if half is None else f" ± {100 * half:.1f}" if log else f" ± {half:.1f}"
    return [shown, f"{100 * difference:+.1f}{interval} %" if log else f"{difference:+.1f}{interval}"]


def quality_table(rows: Sequence[str], results: Mapping[str, Any], limits: Sequence[str]) -> str:
    """Returns perplexity and BLEU of rows at some limits, with the differences from the first row."""
    lines = []
    for limit in limits:
        for row in rows:
            if row in results["seeds"] and results["seeds"][row]:
                both = (cells(results[limit][each], row, log=each == "log_perplexity") for each in MEASURES)
                about = "single lines" if limit == LINES else f"documents up to {limit}"
                lines.append(
                    [about, name_of(row), str(results["seeds"][row]), *(cell for pair in both for cell in pair)]
                )
    first = name_of(rows[0])
    header = ["text", "", "seeds", "perplexity", f"log of it, less {first}'s", "BLEU", f"less {first}'s"]
    return table(header, lines, text_columns=2)


def compared(runs: Path, rows: Sequence[str]) -> dict[str, Any]:
    """Returns the comparison of rows by each measure, at each limit."""
    measured = {row: read(runs, row) for row in rows}
    results: dict[str, Any] = {"seeds": {row: len(seeds) for row, seeds in measured.items()}}
    if not measured[rows[0]]:
        return results
    for limit in LIMITS:
        results[limit] = {}
        for each, better in MEASURES.items():
            values = {row: [seed[limit][each] for seed in seeds] for row, seeds in measured.items()}
            results[limit][each] = {"values": values, **compare(values, better)}
    return results


def draw(
    windows: Mapping[str, Any], positions: Mapping[str, Any], costs: Sequence[Mapping[str, Any]], path: Path
) -> None:
    """Draws quality, time and memory over r, and perplexity over the length of documents."""
    figure, (quality, time, memory, length) = new_chart(columns=2, rows=2)
    in_order = (*WINDOWS[1:], WINDOWS[0])
    names = [name_of(row) for row in in_order]
    rows = [row for row in in_order if windows["seeds"][row]]
    for limit, colour in zip((DOCUMENTS, LINES), COLOURS, strict=False):
        points = [math.exp(windows[limit]["log_perplexity"]["means"][row]) for row in rows]
        label = "single lines" if limit == LINES else f"documents up to {limit}"
        quality.plot([name_of(row) for row in rows], points, "o-", color=colour, label=label)
    for panel, key in ((time, "milliseconds_per_1000_tokens"), (memory, "peak_mib")):
        for number in sorted({cost["n"] for cost in costs}):
            by_kind = {cost["attention"]: cost[key] for cost in costs if cost["n"] == number}
            by_kind = {kind: by_kind[kind] for kind in (*names, *(by_kind.keys() - set(names)))}  # in the order of r
            labels = [kind.removesuffix(" as written") for kind in by_kind]
            panel.plot(labels, list(by_kind.values()), "o-", label=f"n = {number}")
        panel.set_ylim(bottom=0)
        legend_below(panel, columns=4)
    for kind, colour in zip(KINDS, (COLOURS[0], COLOURS[1]), strict=True):
        if positions["seeds"][kind]:
            points = [math.exp(positions[limit]["log_perplexity"]["means"][kind]) for limit in LIMITS]
            length.plot(LIMITS, points, "o-", color=colour, label=kind)
    length.axvline("125", color=GREY, linestyle=":")
    quality.set(title="Quality over r", ylabel="perplexity")
    time.set(title="Time of a training step", ylabel="ms for 1000 tokens a side")
    memory.set(title="Memory of a training step", ylabel="MiB")
    length.set(title="Positions beyond the trained length (125)", ylabel="perplexity", xlabel="subwords of a document")
    for panel in (quality, length):
        panel.legend(fontsize=8)
    save_chart(figure, path)


def main() -> None:
    """Reads the command line, and writes the table, the results and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    windows, positions = compared(args.runs, WINDOWS), compared(args.runs, KINDS)
    cost = json.loads((args.runs / "cost.json").read_text(encoding="utf-8"))
    if not windows["seeds"][WINDOWS[0]]:
        raise SystemExit(f"{args.runs}: no results of {WINDOWS[0]}; run run.sh first.")
    verdicts = {limit: {each: least_window(windows[limit][each]) for each in MEASURES} for limit in (LINES, DOCUMENTS)}
    results = {"windows": windows, "within_interval_from": verdicts, "positions": positions, "cost": cost}
    parts = [quality_table(WINDOWS, windows, (LINES, DOCUMENTS))]
    parts += [f"Within the interval of full attention, from which r on: {json.dumps(verdicts)}"]
    parts += [quality_table(KINDS, positions, LIMITS)] if positions["seeds"][KINDS[0]] else []
    header = ["n", "attention", "ms for 1000 tokens", "of full", "MiB"]
    lines = [[str(value) for value in row.values()] for row in cost["rows"]]
    parts += [table(header, lines, text_columns=2)]
    with atomic_path(args.output / "table.md") as temporary:
        temporary.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    with atomic_path(args.output / "results.json") as temporary:
        temporary.write_text(
            json.dumps(results | {"collected_on": describe_machine()}, indent=1) + "\n", encoding="utf-8"
        )
    draw(windows, positions, cost["rows"], args.output / "quality.png")


if __name__ == "__main__":
    main()
