"""Table 1: complexity, sequential operations and maximum path length of each layer type, measured (§4).

FLOPs, time and memory of a forward pass are measured over n and d (and k, r), and powers fitted to them. Sequential
operations are the longest chain of tensor operations that need one another's results. The maximum path length is the
number of stacked layers after which, by the Jacobian, every output position depends on every input position.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from transduce.experiments.paper.experiment import Experiment, Measured, Measurement, Options, Say, Values
from transduce.experiments.paper.layer_types import Kind, Shape, batch, layer, layer_cost, recurrent_flops
from transduce.experiments.paper.measure import exponents
from transduce.experiments.paper.path_length import longest_chain, stack_of, steps_until_all_reach
from transduce.experiments.paper.report import claims_table, cost_cells, listed, page, plot, select
from transduce.experiments.paper.scales import Scale, at_scale
from transduce.reporting.charts import COLOURS, count_axis, log_sizes, new_chart, save_chart
from transduce.reporting.tables import table


@dataclass(frozen=True)
class Settings:
    """The sizes at which layers are measured."""

    lengths: tuple[int, ...]  # n
    long_lengths: tuple[int, ...]  # n at which restricted attention alone is measured as well
    widths: tuple[int, ...]  # d
    kernels: tuple[int, ...]  # k: all at the first, the others at one n and d
    windows: tuple[int, ...]  # r: likewise
    num_heads: int  # of the attention layer; the mixing alone is measured with one head
    chain_lengths: tuple[int, ...]  # n at which dependent operations are counted
    path_lengths: tuple[int, ...]  # n at which the Jacobian is taken
    seconds_a_cell: float


SETTINGS: dict[Scale, Settings] = {
    "smoke": Settings((64, 128), (256,), (16, 32), (3, 5), (32, 64), 4, (32, 64), (4, 8, 16), 0.0),
    "laptop": Settings(
        (512, 1024, 2048, 4096), (8192, 16384), (128, 256, 512), (3, 9), (128, 64, 256), 8,
        (32, 64, 128, 256), (8, 16, 32, 64), 0.3,
    ),
    "paper": Settings(
        (1024, 2048, 4096, 8192, 16384), (32768, 65536), (256, 512, 1024), (3, 5, 9), (128, 64, 256), 8,
        (32, 64, 128, 256), (8, 16, 32, 64, 128), 1.0,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A row of Table 1 as printed; "" where the paper has no such row."""

    name: str
    kind: Kind
    complexity: str
    sequential: str
    path: str
    dilation: int = 1  # of the layer whose cost is measured; in a stack, it differs from layer to layer


ROWS = {
    "attention": Row("self-attention", "attention", "O(n²·d)", "O(1)", "O(1)"),
    "recurrent": Row("recurrent (LSTM)", "recurrent", "O(n·d²)", "O(n)", "O(n)"),
    "convolution": Row("convolution, contiguous", "convolution", "O(k·n·d²)", "O(1)", "O(n/k)"),
    "dilated": Row("convolution, dilated", "convolution", "O(k·n·d²)", "O(1)", "O(log_k n)", dilation=3),
    "restricted": Row("self-attention, restricted", "restricted", "O(r·n·d)", "O(1)", "O(n/r)"),
    "separable": Row("separable convolution", "separable", "O(k·n·d + n·d²)", "", ""),
    "attention layer": Row("self-attention with its projections", "attention layer", "", "", ""),
}
_PATH_ROWS = ("attention", "recurrent", "convolution", "dilated", "restricted")
_PROSE_KINDS: tuple[Kind, ...] = ("separable", "attention and feed-forward")
_PATH_WIDTH, _PATH_WINDOW = 4, 8  # any width gives the same paths; the window is small enough to need several layers


def experiment(options: Options) -> Experiment:
    """Returns the experiment at its scale."""
    settings = at_scale(SETTINGS, options.scale)
    return Experiment(
        name="table1",
        title="Table 1: complexity, sequential operations and maximum path length",
        settings={"scale": options.scale, **asdict(settings)},
        measurements=list(_measurements(settings)),
        render=partial(_render, settings),
        draw=partial(_draw, settings),
    )


def _measurements(settings: Settings) -> Iterator[Measurement]:
    for name, row in ROWS.items():
        for n, shape in _sizes(row, settings):
            yield Measurement(_cost_id(name, row, n, shape), partial(_cost, row, n, shape, settings.seconds_a_cell))
    for kind, n in product(_PROSE_KINDS, settings.chain_lengths):
        yield Measurement(f"prose/{kind}/n={n + 1}", partial(_prose, kind, n + 1, settings))
    for name, n in product(ROWS, settings.chain_lengths):
        yield Measurement(f"chain/{name}/n={n}", partial(_chain, ROWS[name], n))
    for name, n in product(_PATH_ROWS, settings.path_lengths):
        yield Measurement(f"path/{name}/n={n}", partial(_path, ROWS[name], n))


def _sizes(row: Row, settings: Settings) -> Iterator[tuple[int, Shape]]:
    """Yields all n × d at the first k or r, then the other k or r at the greatest n and the middle d."""
    heads = settings.num_heads if row.kind == "attention layer" else 1
    k, r = settings.kernels[0], settings.windows[0]
    lengths = settings.lengths + (settings.long_lengths if row.kind == "restricted" else ())
    for n, d in product(lengths, settings.widths):
        yield n, Shape(d, heads, k, r)
    n, d = settings.lengths[-1], settings.widths[len(settings.widths) // 2]
    if row.kind in ("convolution", "separable"):
        yield from ((n, Shape(d, heads, other, r)) for other in settings.kernels[1:])
    if row.kind == "restricted":
        yield from ((n, Shape(d, heads, k, other)) for other in settings.windows[1:])


def _cost_id(name: str, row: Row, n: int, shape: Shape) -> str:
    extra = {"convolution": f"/k={shape.k}", "separable": f"/k={shape.k}", "restricted": f"/r={shape.r}"}
    return f"cost/{name}/n={n}/d={shape.d}{extra.get(row.kind, '')}"


def _cost(row: Row, n: int, shape: Shape, budget_seconds: float, say: Say) -> Values:
    cost = layer_cost(row.kind, shape, n, dilation=row.dilation, budget_seconds=budget_seconds)
    return {"n": n, "d": shape.d, "k": shape.k, "r": shape.r, **cost}


def _prose(kind: Kind, n: int, settings: Settings, say: Say) -> Values:
    """Returns what a layer costs at an odd n, with a kernel of n positions if it has one."""
    d = settings.widths[len(settings.widths) // 2]
    cost = layer_cost(kind, Shape(d, 1, n), n, budget_seconds=settings.seconds_a_cell, memory=False)
    return {"kind": kind, "n": n, "d": d, **cost}


def _chain(row: Row, n: int, say: Say) -> Values:
    torch.manual_seed(0)
    module = layer(row.kind, Shape(8, 1, 3, _PATH_WINDOW), dilation=row.dilation).eval()
    return {"n": n, "operations": longest_chain(module, batch(n, 8))}


def _path(row: Row, n: int, say: Say) -> Values:
    torch.manual_seed(0)
    stack = stack_of(row.kind, Shape(_PATH_WIDTH, 1, 3, _PATH_WINDOW), n, dilated=row.dilation > 1)
    return {"n": n, "steps": steps_until_all_reach(stack, n, _PATH_WIDTH, forwards_only=row.kind == "recurrent")}


# --- results --------------------------------------------------------------------------------------------------


def _powers(samples: Sequence[Values], of: str, by: Sequence[str] = ("k", "r", "n", "d")) -> str:
    """Returns fitted powers such as "n^2.00 · d^1.00"."""
    fitted = exponents(samples, of, by)
    return " · ".join(f"{name}^{round(power, 2) + 0.0:.2f}" for name, power in fitted.items()) or "too few sizes"


def _render(settings: Settings, measured: Measured) -> str:
    n, d, k, r = settings.lengths[-1], settings.widths[-1], settings.kernels[0], settings.windows[0]
    costs, orders, figures = [], [], []
    for name, row in ROWS.items():
        samples = select(measured, f"cost/{name}")
        powers = [_powers(samples, of) for of in ("flops", "seconds", "peak_bytes")]
        costs.append([row.name, row.complexity or "–", *powers])
        chain = _growth(select(measured, f"chain/{name}"), "operations")
        path = _path_growth(row, select(measured, f"path/{name}")) if name in _PATH_ROWS else "not measured"
        orders.append([row.name, row.sequential or "–", chain, row.path or "–", path])
        figures.append([row.name, *cost_cells(select(measured, f"cost/{name}", n=n, d=d, k=k, r=r)[0])])
    return page(
        "## Complexity per layer",
        table(["layer", "printed", "FLOPs, fitted", "time, fitted", "peak memory, fitted"], costs, text_columns=5),
        f"Powers fitted to one forward pass, one sequence, over n = {listed(settings.lengths)} (restricted "
        f"attention also {listed(settings.long_lengths)}), d = {listed(settings.widths)}, "
        f"k = {listed(settings.kernels)}, r = {listed(settings.windows)}.",
        f"## At n = {n}, d = {d}, k = {k}, r = {r}",
        table(["layer", "GFLOP", "time", "peak memory"], figures),
        "## What section 4 says in prose",
        claims_table(_PROSE, [_times_recurrent(settings, measured), _separable_against_attention(measured)]),
        "## Sequential operations and maximum path length",
        table(
            ["layer", "sequential, printed", "longest chain", "path, printed", "layers until all reach all"],
            orders,
            text_columns=5,
        ),
        f"Chains of operations at n = {listed(settings.chain_lengths)}; paths at "
        f"n = {listed(settings.path_lengths)}, k = 3, r = {_PATH_WINDOW}. A recurrent layer's steps are those "
        "of its cell.",
        "## What differs from the paper",
        (f"- **{_TWO_SIZES}**\n" if len(settings.lengths) < 3 else "") + _DIFFERENCES,
    )


_PROSE = {
    "a convolution costs k times a recurrent layer": "O(k·n·d²) against O(n·d²)",
    "a separable one with k = n costs attention and a point-wise feed-forward layer": "O(n²·d + n·d²) each",
}


def _times_recurrent(settings: Settings, measured: Measured) -> str:
    """Returns how many times the operations of a recurrent layer each kernel costs, at one n and d."""
    n, d = settings.lengths[-1], settings.widths[len(settings.widths) // 2]
    simple, lstm = (recurrent_flops(n, d, simple=each) for each in (True, False))
    times = [
        f"k = {sample['k']}: {sample['flops'] / simple:.2f} × a tanh layer, {sample['flops'] / lstm:.2f} × an LSTM"
        for sample in select(measured, "cost/convolution", n=n, d=d)
    ]
    return f"{'; '.join(times)}: k / 2 and k / 8, because one has two d × d products a position and the other eight"


def _separable_against_attention(measured: Measured) -> str:
    """Returns the cost of the one over that of the other, at each n = k."""
    separable, attention = (select(measured, f"prose/{kind}") for kind in _PROSE_KINDS)
    ratios = [
        f"n = {ours['n']}: {ours['flops'] / theirs['flops']:.2f} × the FLOPs, "
        f"{ours['seconds'] / theirs['seconds']:.2f} × the time"
        for ours, theirs in zip(separable, attention, strict=True)
    ]
    return f"d = {separable[0]['d']}; {'; '.join(ratios)} (attention has two products of n²·d, the other one)"


_TWO_SIZES = "Most lines join two points only and show no growth: larger scales measure more sizes."
_DIFFERENCES = """\
- Table 1 prints orders of growth. Here are measurements of real layers, and the exponents that fit them best. Exponents
  of time hold for this machine and these sizes only: small products do not use all of it, large ones do not fit into
  its caches. With one thread in use, time is processor time.
- "Complexity" in Table 1 is that of mixing positions: its n²·d leaves out the four projections of attention, which cost
  n·d². The row "with its projections" is the cost in a model: 8·n·d² + 4·n²·d operations.
- FLOPs are those of matrix products and convolutions, two per multiply-add, by PyTorch's counter. It does not cover the
  LSTM, whose FLOPs are by our own count (16·n·d²). Softmax, activations and sums count in the time, not in the FLOPs.
- Peak memory is the most that PyTorch's allocator held beyond input and weights. The paper's table has no memory
  column: the fused kernel of full attention never holds its n² weights.
- Restricted attention computes blocks of r/2 queries against 3r/2 keys: one and a half times the minimum.
- A dilated stack has dilations 1, k, k², … below n, and again from 1. One round is not enough: near the ends of a
  sequence, the one sum of dilations that leads to a position may lead out of the sequence on its way.
- The longest chain counts the tensor operations of our implementations, not the fewest possible; what matters is how it
  grows.
- For a recurrent layer only paths from earlier to later positions exist."""


def _growth(samples: Sequence[Values], of: str) -> str:
    return f"{listed([sample[of] for sample in samples])}: {_powers(samples, of, ['n'])}"


def _path_growth(row: Row, samples: Sequence[Values]) -> str:
    if row.dilation == 1:
        return _growth(samples, "steps")
    logs = np.array([math.log(sample["n"], 3) for sample in samples])
    slope = np.polyfit(logs, np.array([sample["steps"] for sample in samples], dtype=float), 1)[0]
    return f"{listed([sample['steps'] for sample in samples])}: {slope:.2f} more for each factor k of n"


def _draw(settings: Settings, measured: Measured, folder: Path) -> None:
    figure, axes = new_chart(2, 2)
    colours = dict(zip(ROWS, COLOURS, strict=False))
    d, k, r = settings.widths[len(settings.widths) // 2], settings.kernels[0], settings.windows[0]

    for name, row in ROWS.items():
        line = "--" if row.dilation > 1 else "-"  # it may lie on that of the contiguous one
        style: dict[str, Any] = {"ms": 3, "color": colours[name], "label": row.name, "linestyle": line}
        same_size = select(measured, f"cost/{name}", d=d, k=k, r=r)
        plot(axes[2], select(measured, f"chain/{name}"), "n", "operations", **style)
        if name in _PATH_ROWS:
            plot(axes[3], select(measured, f"path/{name}"), "n", "steps", **style)
        if row.dilation == 1:  # the dilated one costs what the contiguous one does
            plot(axes[0], same_size, "n", "seconds", **style)
            plot(axes[1], same_size, "n", "peak_bytes", scale=2.0**-20, **style)
    for axis, sizes, title in (
        (axes[0], settings.lengths + settings.long_lengths, f"A forward pass, d = {d}: seconds"),
        (axes[1], settings.lengths + settings.long_lengths, f"Memory beyond input and weights, d = {d}: MiB"),
        (axes[2], settings.chain_lengths, "Sequential operations: longest chain"),
        (axes[3], settings.path_lengths, "Path length: layers until all reach all"),
    ):
        log_sizes(axis, sizes)
        axis.set(yscale="log", xlabel="positions n", title=title)
    for axis in axes[2:]:
        count_axis(axis.yaxis)
    figure.legend(*axes[2].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    if len(settings.lengths) < 3:
        figure.suptitle(_TWO_SIZES, fontsize=9)
    save_chart(figure, folder / "table1.png")
