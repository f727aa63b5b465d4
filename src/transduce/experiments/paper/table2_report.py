"""Table 2 as printed, and the report and picture of what `transduce paper table2` measured for comparison."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from transduce.experiments.paper.experiment import Measured, Values
from transduce.experiments.paper.report import differences, distinct, page, select
from transduce.reporting.charts import COLOURS, GREY, new_chart, save_chart
from transduce.reporting.tables import table

PAIRS = ("en-de", "en-fr")


@dataclass(frozen=True)
class System:
    """One row; every figure by language pair, and absent if unknown."""

    name: str
    bleu: Mapping[str, float] = field(default_factory=dict)
    flops: Mapping[str, float] = field(default_factory=dict)  # by the paper's estimate: seconds × devices × capacity
    counted: Mapping[str, float] = field(default_factory=dict)  # operations of training; known of our systems only


# In the rows of its own models, the paper prints one figure of FLOPs for both pairs.
LITERATURE = (
    System("ByteNet", {"en-de": 23.75}),
    System("Deep-Att + PosUnk", {"en-fr": 39.2}, {"en-fr": 1.0e20}),
    System("GNMT + RL", {"en-de": 24.6, "en-fr": 39.92}, {"en-de": 2.3e19, "en-fr": 1.4e20}),
    System("ConvS2S", {"en-de": 25.16, "en-fr": 40.46}, {"en-de": 9.6e18, "en-fr": 1.5e20}),
    System("MoE", {"en-de": 26.03, "en-fr": 40.56}, {"en-de": 2.0e19, "en-fr": 1.2e20}),
    System("Deep-Att + PosUnk ensemble", {"en-fr": 40.4}, {"en-fr": 8.0e20}),
    System("GNMT + RL ensemble", {"en-de": 26.30, "en-fr": 41.16}, {"en-de": 1.8e20, "en-fr": 1.1e21}),
    System("ConvS2S ensemble", {"en-de": 26.36, "en-fr": 41.29}, {"en-de": 7.7e19, "en-fr": 1.2e21}),
    System("Transformer (base model)", {"en-de": 27.3, "en-fr": 38.1}, dict.fromkeys(PAIRS, 3.3e18)),
    System("Transformer (big)", {"en-de": 28.4, "en-fr": 41.8}, dict.fromkeys(PAIRS, 2.3e19)),
)


def render_table2(ours: Sequence[System] = ()) -> str:
    """Returns the literature's rows and then `ours` as a Markdown table."""
    header = ["system", *(f"{name} {pair}" for name in ("BLEU", "FLOPs", "counted FLOPs") for pair in PAIRS)]
    rows = []
    for system in (*LITERATURE, *ours):
        costs = [_scientific(of.get(pair)) for of in (system.flops, system.counted) for pair in PAIRS]
        rows.append([system.name, *(_decimal(system.bleu.get(pair)) for pair in PAIRS), *costs])
    return table(header, rows)


def _decimal(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}".removesuffix("0")


def _scientific(value: float | None) -> str:
    return "" if value is None else f"{value:.1e}".replace("e+", "e")


_PAPER_DATA = {"en-de": "4.5 million pairs", "en-fr": "36 million pairs"}
_PAPER_TEST = "newstest2014"


def our_rows(measured: Measured) -> list[System]:
    """Returns a row for each system and test set of ours."""
    metrics = {values["name"]: values["metrics"] for values in select(measured, "train")}
    rows = []
    for test in select(measured, "test"):
        known, pair = metrics[test["system"]], test["pair"]
        flops = {pair: known["training_flops_estimate"]} if "training_flops_estimate" in known else {}
        counted = {pair: known["training_flops"]} if "training_flops" in known else {}
        rows.append(System(f"{test['system']}, {test['test']}", {pair: test["bleu"]}, flops, counted))
    return rows


def render(scale: str, measured: Measured) -> str:
    """Returns the report as Markdown."""
    ours = [replace(row, name=f"**measured: {row.name}**") for row in our_rows(measured)]
    trained, tests = select(measured, "train"), select(measured, "test")
    return page(
        "Rows as printed, then ours as measured. FLOPs: the paper's estimate, time × devices × what a device "
        "sustains; counted FLOPs: the operations that training actually performed, which are known of ours only.",
        render_table2(ours),
        "## Ours",
        table(
            ["system", "test set", "lines", "BLEU, the paper's way", "sacreBLEU"],
            [[t["system"], t["test"], f"{t['lines']:,}", f"{t['bleu']:.2f}", f"{t['sacrebleu']:.2f}"] for t in tests],
            text_columns=2,
        ),
        *(f"`{signature}`" for signature in distinct(tests, "signature")),
        "## What ours cost",
        table(
            ["system", "parameters × 10⁶", "steps", "hours", "counted FLOPs", "the paper's estimate", "put to use"],
            [_cost_row(values) for values in trained],
        ),
        *(f"{values['name']}: {_estimate_of(values)}" for values in trained),
        differences([*_differences(measured), *_ALWAYS], scale, _SMOKE),
    )


def _cost_row(values: Values) -> list[str]:
    metrics = values["metrics"]
    counted, estimate = metrics.get("training_flops"), metrics.get("training_flops_estimate")
    seconds = metrics.get("training_seconds")
    return [
        values["name"],
        f"{values['parameters'] / 1e6:.2f}",
        f"{metrics['steps']:,}" if "steps" in metrics else "",
        f"{seconds / 3600:.2f}" if seconds is not None else "",
        f"{counted:.2e}" if counted else "not counted",
        f"{estimate:.2e}" if estimate else "unknown",
        f"{counted / estimate:.0%}" if counted and estimate else "",
    ]


def _estimate_of(values: Values) -> str:
    terms = values["metrics"].get("training_flops_estimate_of")
    return f"estimated from {terms}." if terms else "its training recorded no cost."


def _differences(measured: Measured) -> Iterator[str]:
    for values in select(measured, "train"):
        model, pair = values["model"], values["pair"]
        pairs = f"{values['training_pairs']:,} pairs" if values["training_pairs"] else "an unknown number of pairs"
        tests = [test["test"] for test in select(measured, "test") if test["system"] == values["name"]]
        tested = "" if tests == [_PAPER_TEST] else f" Measured on {', '.join(tests)}, not on {_PAPER_TEST}."
        yield (
            f"- {values['name']}: {pairs} of {values['corpus']} (the paper: WMT 2014, "
            f"{_PAPER_DATA[pair]}); {model['num_encoder_layers']} + {model['num_decoder_layers']} layers of d_model "
            f"{model['d_model']} (6 + 6 of 512 or 1024), {model['vocab_size']:,} pieces (37,000 or 32,000); "
            f"{values['metrics'].get('steps', values['max_steps']):,} steps of at most {values['batch_tokens']:,} "
            f"target tokens (100,000 or 300,000 of 25,000); beam {values['decode']['beam_size']}, α "
            f"{values['decode']['length_penalty']:g} (4, 0.6).{tested}"
        )


_SMOKE = "models trained for seconds on a generated corpus. The figures only show that all of it runs."
_ALWAYS = (
    "- Hardware: the paper's estimate takes 9.5 TFLOP/s for each of 8 P100; ours takes the figure above for each "
    "device, which for newer GPUs is the peak of its data sheet and for a CPU what it reaches on large products.",
    "- BLEU the paper's way: cased, tokens like those of Moses, quotes normalised, compounds split at hyphens, as the "
    "authors' released script does. Its scores are mostly higher than sacreBLEU's.",
    "- Other systems' rows are as quoted by the paper; they were not measured here. ByteNet has no FLOPs there, and so "
    "is not in the picture. The paper gives one figure of FLOPs for both pairs of its own models, and in its "
    "first version and its body another BLEU for the big model, en-fr: 41.0.",
)


def draw(measured: Measured, folder: Path) -> None:
    """Writes table2.png: BLEU against FLOPs, a panel for each pair; ours twice, by the estimate and as counted."""
    figure, panels = new_chart(len(PAIRS), width=5.2, height=4.2)
    ours = our_rows(measured)
    legend: dict[str, Any] = {}
    for panel, pair in zip(panels, PAIRS, strict=True):
        for number, system in enumerate(LITERATURE):
            if pair in system.bleu and pair in system.flops:
                colour = COLOURS[0] if system.name.startswith("Transformer") else GREY
                marker = _MARKERS[number % len(_MARKERS)]
                point = _point(panel, system.flops[pair], system.bleu[pair], marker=marker, color=colour)
                legend[system.name] = point
        for number, system in enumerate(ours):
            style: dict[str, Any] = {"marker": "*", "markersize": 11, "color": COLOURS[1 + number % (len(COLOURS) - 1)]}
            if pair in system.flops:
                legend[f"ours: {system.name}"] = _point(panel, system.flops[pair], system.bleu[pair], **style)
            if pair in system.counted:
                point = _point(panel, system.counted[pair], system.bleu[pair], fillstyle="none", **style)
                legend[f"ours: {system.name}, counted"] = point
        panel.set(xscale="log", xlabel="training FLOPs", ylabel="BLEU", title=f"{pair}; printed: newstest2014")
        panel.margins(x=0.1, y=0.1)
    figure.legend(legend.values(), legend.keys(), loc="outside right upper", fontsize=8)
    save_chart(figure, folder / "table2.png")


_MARKERS = "ovs^DPX<>p"


def _point(panel: Any, flops: float, score: float, **style: Any) -> Any:
    return panel.plot([flops], [score], linestyle="none", **style)[0]
