"""The report and picture of `transduce paper scaling`: what the paper says, and what was measured."""

from pathlib import Path

import numpy as np

from transduce.experiments.paper.compatibility import KINDS
from transduce.experiments.paper.experiment import Measured, Values
from transduce.experiments.paper.measure import crossing, exponents
from transduce.experiments.paper.report import claims_table, cost_cells, distinct, listed, page, plot, select
from transduce.reporting.charts import legend_below, log_sizes, new_chart, save_chart
from transduce.reporting.tables import mebibytes, seconds, short, table

_LABELS = {
    "attention": "self-attention, mixing alone",
    "attention layer": "self-attention with its projections",
    "simple recurrent": "recurrent, tanh",
    "recurrent": "recurrent, LSTM",
}
_PAIRS = (("attention", "simple recurrent"), ("attention", "recurrent"), ("attention layer", "recurrent"))


def _learned(measured: Measured, task: str, by: str) -> list[Values]:
    """Returns loss and share of right answers, the mean of all seeds, at each value of a quantity."""
    found = [(value, select(measured, task, **{by: value})) for value in distinct(select(measured, task), by)]
    return [
        {by: value, **{of: float(np.mean([each[of] for each in seeds])) for of in ("loss", "right")}}
        for value, seeds in found
    ]


# The paper's claims and printed figures; `render` puts the measured ones next to each.
_CLAIMS = {
    "q · k has mean 0 and variance d_k (§3.2.1, note 4)": "d_k",
    "large scores push softmax to where gradients are extremely small (§3.2.1)": "suspected",
    "for small d_k, additive and dot product do equally well (§3.2.1)": "“similarly”",
    "for larger d_k, additive does better than the dot product without scaling (§3.2.1)": "“outperforms”",
    "one head averages, which keeps it from what many can do (§3.2.2, Table 3 A)": "0.9 BLEU less with one head",
    "dot product is much faster and leaner than additive (§3.2.1)": "“much”",
    "many narrow heads cost about as much as one of full width (§3.2.2)": "“similar”",
    "self-attention is faster than recurrence while n < d (§4)": "n < d",
}


def render(measured: Measured) -> str:
    """Returns the report as Markdown."""
    return page(
        "## Claims",
        claims_table(_CLAIMS, [*_scores(measured), *_learning(measured), *_costs(measured)]),
        _score_tables(measured),
        _additive_table(measured),
        _head_tables(measured),
        _crossover_tables(measured),
        "## What differs from the paper",
        _DIFFERENCES,
    )


def _scores(measured: Measured) -> list[str]:
    plain = select(measured, "scores/dot product")
    ratios = ", ".join(short(sample["variance"] / sample["d_k"]) for sample in plain)
    widest = plain[-1]["d_k"]
    gradients = [f"{kind} {short(select(measured, f'scores/{kind}', d_k=widest)[0]['gradient'])}" for kind in KINDS]
    return [f"variance / d_k: {ratios}", f"median gradient at d_k = {widest}: {listed(gradients)}"]


def _learning(measured: Measured) -> list[str]:
    by_kind = {kind: _learned(measured, f"mirror/{kind}", "d_k") for kind in KINDS}

    def right(width: int) -> str:
        shares = [f"{kind} {means[width]['right']:.1%}" for kind, means in by_kind.items()]
        return f"answers right, d_k = {by_kind['additive'][width]['d_k']}: {listed(shares)}"

    by_heads = [f"h = {means['heads']} {means['right']:.1%}" for means in _learned(measured, "two places", "heads")]
    return [right(0), right(-1), f"answers right: {listed(by_heads)}"]


def _costs(measured: Measured) -> list[str]:
    longest = select(measured, "speed/additive")[-1]["n"]
    dot, additive = (select(measured, f"speed/{kind}", n=longest)[0] for kind in ("scaled dot product", "additive"))
    times, sizes = (short(additive[of] / dot[of]) for of in ("seconds", "peak_bytes"))
    heads = select(measured, "heads")
    spread = {of: short(max(s[of] for s in heads) / min(s[of] for s in heads)) for of in ("flops", "seconds")}
    width = select(measured, "crossover/attention")[0]["d"]
    flops, time = (_crossing(measured, of, ("attention", "simple recurrent")) for of in ("flops", "seconds"))
    return [
        f"n = {longest}: {times} × the time, {sizes} × the memory",
        f"most / least, h = {listed(distinct(heads, 'heads'))}: FLOPs {spread['flops']}, time {spread['seconds']}",
        f"d = {width}: the tanh recurrence needs fewer FLOPs from n = {flops}, less time from n = {time}",
    ]


def _crossing(measured: Measured, of: str, pair: tuple[str, str]) -> str:
    ours, theirs = (select(measured, f"crossover/{kind}") for kind in pair)
    lengths = [sample["n"] for sample in ours]
    found = crossing(lengths, [sample[of] for sample in ours], [sample[of] for sample in theirs])
    if found is None:
        return f"more than {lengths[-1]}"
    return f"{lengths[0]} or less" if found == lengths[0] else f"{found:.0f}"


def _score_tables(measured: Measured) -> list[str]:
    drawn = []
    for d_k in distinct(select(measured, "scores/additive"), "d_k"):
        samples = [select(measured, f"scores/{kind}", d_k=d_k)[0] for kind in KINDS]
        figures = [short(sample[of]) for of in ("variance", "gradient", "greatest_weight") for sample in samples]
        drawn.append([str(d_k), *figures])
    by_width = zip(*(_learned(measured, f"mirror/{kind}", "d_k") for kind in KINDS), strict=True)
    trained = [
        [f"{means[0]['d_k']}", *(f"{mean['loss']:.3f} / {mean['right']:.1%}" for mean in means)] for means in by_width
    ]
    header = ["d_k", *(f"{of}: {kind}" for of in ("variance", "gradient", "top weight") for kind in KINDS)]
    keys = select(measured, "scores/additive")[0]["keys"]
    return [
        "## Scores and the gradient of their softmax",
        table(header, drawn),
        f"Queries and keys of independent components, mean 0, variance 1; {keys} keys. Gradient: Frobenius norm of "
        "∂ softmax / ∂ scores, the median over rows.",
        "## What a model learns with each",
        table(["d_k", *(f"{kind}: loss / right" for kind in KINDS)], trained),
        "Two encoder layers with one head learn to name the symbol at the mirrored position; mean of all seeds, all "
        "with the same steps and learning rate.",
    ]


def _additive_table(measured: Measured) -> list[str]:
    rows = []
    for kind in KINDS:
        samples = select(measured, f"speed/{kind}")
        for of, show in (("seconds", seconds), ("peak_bytes", mebibytes)):
            power = exponents(samples, of, ["n"]).get("n")
            rows.append([kind, of.removesuffix("_bytes"), *(show(s[of]) for s in samples), f"n^{power or 0:.2f}"])
    lengths = [f"n = {n}" for n in distinct(select(measured, "speed/additive"), "n")]
    return [
        "## Speed and memory, forward, d_k = 64",
        table(["attention", "", *lengths, "grows as"], rows, text_columns=2),
    ]


def _head_tables(measured: Measured) -> list[str]:
    layers, learned = select(measured, "heads"), _learned(measured, "two places", "heads")
    costs = [[str(each["heads"]), str(each["d_model"] // each["heads"]), *cost_cells(each)] for each in layers]
    right = [[str(means["heads"]), f"{means['loss']:.3f}", f"{means['right']:.1%}"] for means in learned]
    return [
        f"## One head against many: a layer of d_model = {layers[0]['d_model']} at n = {layers[0]['n']}",
        table(["h", "d_k", "GFLOP", "time", "peak memory"], costs),
        "## One head against many: naming the symbols of two other places",
        table(["h", "loss", "answers right"], right),
        "One layer; mean of all seeds. The task requires attention to two places at once: the average of two "
        "symbols does not determine which of them was where.",
    ]


def _crossover_tables(measured: Measured) -> list[str]:
    samples = select(measured, "crossover/attention")
    times = [
        [label, *(seconds(sample["seconds"]) for sample in select(measured, f"crossover/{kind}"))]
        for kind, label in _LABELS.items()
    ]
    pairs = [
        [f"{_LABELS[pair[0]]} / {_LABELS[pair[1]]}", *(_crossing(measured, of, pair) for of in ("flops", "seconds"))]
        for pair in _PAIRS
    ]
    return [
        f"## Self-attention against recurrence, d = {samples[0]['d']}",
        table(["time of one layer, forward", *(f"n = {sample['n']}" for sample in samples)], times),
        table(["recurrence is the cheaper from n =", "in FLOPs", "in time"], pairs),
    ]


_DIFFERENCES = """\
- The paper cites Britz et al. (2017) on additive attention, who measured translation. Here, small models learn a
  synthetic task with one learning rate for all; queries and keys start with variance 1, as the paper's argument
  assumes. A learning rate chosen for each might bring them closer.
- Speed and memory of additive attention are those of the obvious implementation, which holds n × n × d_k hidden units;
  a fused kernel would need less memory, and not less work.
- One head against many: the paper's figure is of translation (Table 3 A, 24.9 against 25.8 BLEU).
- n < d comes from counting n²·d against n·d², without constants: an attention of 4·n²·d operations against a tanh
  recurrence of 4·n·d². An LSTM has 16·n·d², an attention with its projections 8·n·d² more. In time, a recurrence also
  has n sequential steps, and small products leave a machine idle. With one thread in use, time is processor time."""


def draw(measured: Measured, folder: Path) -> None:
    """Writes scaling.png."""
    figure, axes = new_chart(3, 2, height=3.4)
    for kind in KINDS:
        samples = select(measured, f"scores/{kind}")
        for axis, of in ((axes[0], "variance"), (axes[1], "gradient")):
            axis.plot([s["d_k"] for s in samples], [max(s[of], 1e-9) for s in samples], marker="o", ms=4, label=kind)
        plot(axes[2], _learned(measured, f"mirror/{kind}", "d_k"), "d_k", "right", label=kind)
        plot(axes[3], select(measured, f"speed/{kind}"), "n", "seconds", label=kind)
    drawn, trained = (distinct(select(measured, f"{part}/additive"), "d_k") for part in ("scores", "mirror"))
    for axis, sizes in ((axes[0], drawn), (axes[1], drawn), (axes[2], trained)):
        log_sizes(axis, sizes)
        axis.set_xlabel("d_k")
    axes[0].set(yscale="log", title="Variance of scores")
    axes[1].set(yscale="log", title="Gradient of the softmax, median")
    axes[2].set(ylim=(0, 1.03), title="Answers right after training")
    log_sizes(axes[3], distinct(select(measured, "speed/additive"), "n"))
    axes[3].set(yscale="log", xlabel="positions n", ylabel="seconds", title="Attention, forward, d_k = 64")
    plot(axes[4], _learned(measured, "two places", "heads"), "heads", "right")
    log_sizes(axes[4], distinct(select(measured, "two places"), "heads"))
    axes[4].set(xlabel="heads", ylim=(0, 1.03), title="Two places at once: answers right")
    for layer_kind, label in _LABELS.items():
        plot(axes[5], select(measured, f"crossover/{layer_kind}"), "n", "seconds", ms=3, label=label)
    width = select(measured, "crossover/attention")[0]["d"]
    axes[5].axvline(width, color="#888888", linestyle="--", linewidth=1)
    log_sizes(axes[5], distinct(select(measured, "crossover/attention"), "n"))
    axes[5].set(yscale="log", xlabel=f"positions n (dashed: n = d = {width})", ylabel="seconds")
    axes[5].set_title("A layer, forward")
    for axis in (axes[1], axes[3]):
        legend_below(axis, columns=3)
    legend_below(axes[5], columns=2)
    save_chart(figure, folder / "scaling.png")
