"""What `transduce paper scaling` measured, beside what the paper says: the table and the picture."""

from pathlib import Path
from typing import Any

import numpy as np

from transduce.experiments.paper.compatibility import KINDS
from transduce.experiments.paper.experiment import Cells, Values
from transduce.experiments.paper.measure import crossing, exponents
from transduce.reporting.charts import log_sizes, new_chart, save_chart
from transduce.reporting.tables import mebibytes, seconds, short, table

_LABELS = {
    "attention": "self-attention, mixing alone",
    "attention layer": "self-attention with its projections",
    "simple recurrent": "recurrent, tanh",
    "recurrent": "recurrent, LSTM",
}
_PAIRS = (("attention", "simple recurrent"), ("attention", "recurrent"), ("attention layer", "recurrent"))


def _of(cells: Cells, start: str, **fixed: Any) -> list[Values]:
    return [
        values
        for name, values in cells.items()
        if name.startswith(f"{start}/") and all(values[key] == value for key, value in fixed.items())
    ]


def _mean(samples: list[Values], of: str) -> float:
    return float(np.mean([sample[of] for sample in samples]))


def _varied(samples: list[Values], of: str) -> list[Any]:
    """Returns the different values of a quantity, in the order in which they were measured."""
    return list(dict.fromkeys(sample[of] for sample in samples))


def render(cells: Cells) -> str:
    """Returns the report as Markdown."""
    claims = [*_score_claims(cells), *_learning_claims(cells), *_cost_claims(cells)]
    return "\n\n".join(
        [
            "## Claims",
            table(["claim", "printed", "measured"], claims, text_columns=3),
            *_score_tables(cells),
            *_additive_table(cells),
            *_head_tables(cells),
            *_crossover_tables(cells),
            "## What differs from the paper",
            _DIFFERENCES,
        ]
    )


def _score_claims(cells: Cells) -> list[list[str]]:
    plain = _of(cells, "scores/dot product")
    ratios = ", ".join(short(sample["variance"] / sample["d_k"]) for sample in plain)
    widest = plain[-1]["d_k"]
    gradients = [f"{kind} {short(_of(cells, f'scores/{kind}', d_k=widest)[0]['gradient'])}" for kind in KINDS]
    return [
        ["q · k has mean 0 and variance d_k (§3.2.1, note 4)", "d_k", f"variance / d_k: {ratios}"],
        [
            "large scores push softmax to where gradients are extremely small (§3.2.1)",
            "suspected",
            f"median gradient at d_k = {widest}: {', '.join(gradients)}",
        ],
    ]


def _learning_claims(cells: Cells) -> list[list[str]]:
    widths = _varied(_of(cells, "mirror/additive"), "d_k")

    def right(d_k: int) -> str:
        shares = [f"{kind} {_mean(_of(cells, f'mirror/{kind}', d_k=d_k), 'right'):.1%}" for kind in KINDS]
        return f"answers right, d_k = {d_k}: {', '.join(shares)}"

    by_heads = [
        f"h = {h} {_mean(_of(cells, 'two places', heads=h), 'right'):.1%}"
        for h in _varied(_of(cells, "two places"), "heads")
    ]
    return [
        ["for small d_k additive and dot product do alike (§3.2.1)", "“similarly”", right(widths[0])],
        [
            "for larger d_k additive does better than the dot product without scaling (§3.2.1)",
            "“outperforms”",
            right(widths[-1]),
        ],
        [
            "one head averages, which keeps it from what many can do (§3.2.2, Table 3 A)",
            "0.9 BLEU less with one head",
            f"answers right: {', '.join(by_heads)}",
        ],
    ]


def _cost_claims(cells: Cells) -> list[list[str]]:
    longest = _of(cells, "speed/additive")[-1]["n"]
    dot, additive = (_of(cells, f"speed/{kind}", n=longest)[0] for kind in ("scaled dot product", "additive"))
    times, sizes = (short(additive[of] / dot[of]) for of in ("seconds", "peak_bytes"))
    heads = _of(cells, "heads")
    spread = {of: short(max(s[of] for s in heads) / min(s[of] for s in heads)) for of in ("flops", "seconds")}
    width = _of(cells, "crossover/attention")[0]["d"]
    flops, time = (_crossing(cells, of, ("attention", "simple recurrent")) for of in ("flops", "seconds"))
    return [
        [
            "dot product is much faster and leaner than additive (§3.2.1)",
            "“much”",
            f"n = {longest}: {times} × the time, {sizes} × the memory",
        ],
        [
            "many narrow heads cost about as much as one of full width (§3.2.2)",
            "“similar”",
            f"most / least, h = {_list(_varied(heads, 'heads'))}: FLOPs {spread['flops']}, time {spread['seconds']}",
        ],
        [
            "self-attention is faster than recurrence while n < d (§4)",
            "n < d",
            f"d = {width}: the tanh recurrence needs fewer FLOPs from n = {flops}, less time from n = {time}",
        ],
    ]


def _crossing(cells: Cells, of: str, pair: tuple[str, str]) -> str:
    ours, theirs = (_of(cells, f"crossover/{kind}") for kind in pair)
    lengths = [sample["n"] for sample in ours]
    found = crossing(lengths, [sample[of] for sample in ours], [sample[of] for sample in theirs])
    if found is None:
        return f"more than {lengths[-1]}"
    return f"{lengths[0]} or less" if found == lengths[0] else f"{found:.0f}"


def _list(values: list[Any]) -> str:
    return ", ".join(map(str, values))


def _score_tables(cells: Cells) -> list[str]:
    drawn, trained = [], []
    for d_k in _varied(_of(cells, "scores/additive"), "d_k"):
        samples = [_of(cells, f"scores/{kind}", d_k=d_k)[0] for kind in KINDS]
        figures = [short(sample[of]) for of in ("variance", "gradient", "greatest_weight") for sample in samples]
        drawn.append([str(d_k), *figures])
    for d_k in _varied(_of(cells, "mirror/additive"), "d_k"):
        seeds = [_of(cells, f"mirror/{kind}", d_k=d_k) for kind in KINDS]
        trained.append([str(d_k), *(f"{_mean(of, 'loss'):.3f} / {_mean(of, 'right'):.1%}" for of in seeds)])
    header = ["d_k", *(f"{of}: {kind}" for of in ("variance", "gradient", "top weight") for kind in KINDS)]
    keys = _of(cells, "scores/additive")[0]["keys"]
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


def _additive_table(cells: Cells) -> list[str]:
    rows = []
    for kind in KINDS:
        samples = _of(cells, f"speed/{kind}")
        for of, show in (("seconds", seconds), ("peak_bytes", mebibytes)):
            power = exponents(samples, of, ["n"]).get("n")
            rows.append([kind, of.removesuffix("_bytes"), *(show(s[of]) for s in samples), f"n^{power or 0:.2f}"])
    lengths = [f"n = {n}" for n in _varied(_of(cells, "speed/additive"), "n")]
    return [
        "## Speed and memory, forward, d_k = 64",
        table(["attention", "", *lengths, "grows as"], rows, text_columns=2),
    ]


def _head_tables(cells: Cells) -> list[str]:
    costs = [
        [
            str(sample["heads"]),
            str(sample["d_model"] // sample["heads"]),
            short(sample["flops"] / 1e9),
            seconds(sample["seconds"]),
            mebibytes(sample["peak_bytes"]),
        ]
        for sample in _of(cells, "heads")
    ]
    learned = []
    for heads in _varied(_of(cells, "two places"), "heads"):
        seeds = _of(cells, "two places", heads=heads)
        learned.append([str(heads), f"{_mean(seeds, 'loss'):.3f}", f"{_mean(seeds, 'right'):.1%}"])
    first = _of(cells, "heads")[0]
    return [
        f"## One head against many: a layer of d_model = {first['d_model']} at n = {first['n']}",
        table(["h", "d_k", "GFLOP", "time", "peak memory"], costs),
        "## One head against many: naming the symbols of two other places",
        table(["h", "loss", "answers right"], learned),
        "One layer; mean of all seeds. The task is made so that it takes two looks at once: the average of two symbols "
        "does not tell which of them stood where.",
    ]


def _crossover_tables(cells: Cells) -> list[str]:
    samples = _of(cells, "crossover/attention")
    times = [
        [label, *(seconds(sample["seconds"]) for sample in _of(cells, f"crossover/{kind}"))]
        for kind, label in _LABELS.items()
    ]
    pairs = [
        [f"{_LABELS[pair[0]]} / {_LABELS[pair[1]]}", *(_crossing(cells, of, pair) for of in ("flops", "seconds"))]
        for pair in _PAIRS
    ]
    return [
        f"## Self-attention against recurrence, d = {samples[0]['d']}",
        table(["time of one layer, forward", *(f"n = {sample['n']}" for sample in samples)], times),
        table(["recurrence is the cheaper from n =", "in FLOPs", "in time"], pairs),
    ]


_DIFFERENCES = """\
- The paper quotes Britz et al. (2017) on additive attention, who measured translation; here it is a made-up task, small
  models, one learning rate for all, and queries and keys whose variance of 1 the paper's argument supposes, drawn so.
  A learning rate chosen for each might bring them closer.
- Speed and memory of additive attention are those of the obvious implementation, which holds n × n × d_k hidden units;
  a fused kernel would need less memory, and not less work.
- One head against many: the paper's figure is of translation (Table 3 A, 24.9 against 25.8 BLEU).
- n < d comes of counting n²·d against n·d², without constants: an attention of 4·n²·d operations against a tanh
  recurrence of 4·n·d². An LSTM has 16·n·d², an attention with its projections 8·n·d² more. In time, a recurrence also
  waits for itself n times, and small products leave a machine idle. With one thread in use, time is the processor's."""


def draw(cells: Cells, folder: Path) -> None:
    """Writes scaling.png."""
    figure, axes = new_chart(3, 2, height=3.4)
    for kind in KINDS:
        samples = _of(cells, f"scores/{kind}")
        for axis, of in ((axes[0], "variance"), (axes[1], "gradient")):
            axis.plot([s["d_k"] for s in samples], [max(s[of], 1e-9) for s in samples], marker="o", ms=4, label=kind)
        widths = _varied(_of(cells, f"mirror/{kind}"), "d_k")
        shares = [_mean(_of(cells, f"mirror/{kind}", d_k=d_k), "right") for d_k in widths]
        axes[2].plot(widths, shares, marker="o", ms=4, label=kind)
        speeds = _of(cells, f"speed/{kind}")
        axes[3].plot([s["n"] for s in speeds], [s["seconds"] for s in speeds], marker="o", ms=4, label=kind)
    drawn, trained = (_varied(_of(cells, f"{part}/additive"), "d_k") for part in ("scores", "mirror"))
    for axis, sizes in ((axes[0], drawn), (axes[1], drawn), (axes[2], trained)):
        log_sizes(axis, sizes)
        axis.set_xlabel("d_k")
    axes[0].set(yscale="log", title="Variance of scores")
    axes[1].set(yscale="log", title="Gradient of the softmax, median")
    axes[2].set(ylim=(0, 1.03), title="Answers right after training")
    log_sizes(axes[3], _varied(_of(cells, "speed/additive"), "n"))
    axes[3].set(yscale="log", xlabel="positions n", ylabel="seconds", title="Attention, forward, d_k = 64")
    heads = _varied(_of(cells, "two places"), "heads")
    shares = [_mean(_of(cells, "two places", heads=h), "right") for h in heads]
    axes[4].plot(heads, shares, marker="o", ms=4)
    log_sizes(axes[4], heads)
    axes[4].set(xlabel="heads", ylim=(0, 1.03), title="Two places at once: answers right")
    for layer_kind, label in _LABELS.items():
        samples = _of(cells, f"crossover/{layer_kind}")
        axes[5].plot([s["n"] for s in samples], [s["seconds"] for s in samples], marker="o", ms=3, label=label)
    width = _of(cells, "crossover/attention")[0]["d"]
    axes[5].axvline(width, color="#888888", linestyle="--", linewidth=1)
    log_sizes(axes[5], _varied(_of(cells, "crossover/attention"), "n"))
    axes[5].set(yscale="log", xlabel=f"positions n (dashed: n = d = {width})", ylabel="seconds")
    axes[5].set_title("A layer, forward")
    for axis in (axes[0], axes[5]):
        axis.legend(fontsize=7)
    save_chart(figure, folder / "scaling.png")
