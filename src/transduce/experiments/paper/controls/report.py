"""The report and the picture of systems at equal cost."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from transduce.experiments.paper.experiment import Measured, Values
from transduce.experiments.paper.report import differences, distinct, mean_and_spread, page, select
from transduce.experiments.paper.table2_report import PAIRS, System, render_table2
from transduce.reporting.charts import COLOURS, new_chart, save_chart
from transduce.reporting.tables import table

# IWSLT 2014 German-English, BLEU of lowercased, tokenised text.
PUBLISHED = (
    ("RNN with attention", "one toolkit, the same data and search", 30.74),
    ("Transformer", "the same toolkit", 33.73),
    ("ConvS2S", "fairseq", 32.2),
)
_BUDGETS = {"flops": "equal counted FLOPs", "minutes": "equal minutes"}
_SMOKE = "systems trained for seconds on a generated corpus. The figures only show that all of it runs."
_LINES = {"transformer": "-", "lstm": "--", "convs2s": ":"}


def render(scale: str, measured: Measured) -> str:
    """Returns the report as Markdown."""
    legs, trials = select(measured, "leg"), select(measured, "trial")
    return page(
        "Rows as printed, then the three systems trained here, measured when the budget of counted operations was "
        "spent and when that of minutes was. BLEU of ours is the paper's way, on other test sets than the rows above, "
        "and does not compare with them.",
        render_table2(_rows(legs)),
        "## At equal cost",
        *(_table(legs, budget) for budget in _BUDGETS),
        *(f"`{signature}`" for signature in distinct([t for leg in legs for t in leg["tests"].values()], "signature")),
        "## Settings",
        _settings(legs, trials),
        "## Published, for comparison",
        table(
            ["system", "by", "BLEU, IWSLT 2014 de-en"],
            [[name, source, f"{score:.2f}"] for name, source, score in PUBLISHED],
            text_columns=2,
        ),
        differences(_differences(legs, tried=bool(trials)), scale, _SMOKE),
    )


def _groups(legs: Sequence[Values], budget: str) -> list[list[Values]]:
    """Returns the seeds of each system, measured when it had spent the budget."""
    own = [leg for leg in legs if leg["budget"] == budget]
    return [[leg for leg in own if leg["system"] == name] for name in distinct(own, "system")]


def _rows(legs: Sequence[Values]) -> list[System]:
    rows = []
    for budget, name in _BUDGETS.items():
        for seeds in _groups(legs, budget):
            first, pair = seeds[0], seeds[0]["pair"]
            if pair not in PAIRS:  # Table 2 has no column for it
                continue
            for test in first["tests"]:
                score = fmean(leg["tests"][test]["paper"] for leg in seeds)
                known = [leg["estimate"] for leg in seeds if leg["estimate"]]
                flops = {pair: fmean(known)} if known else {}
                counted = {pair: fmean(leg["flops"] for leg in seeds)}
                rows.append(System(f"**{first['title']}, {name}**, {test}", {pair: score}, flops, counted))
    return rows


def _table(legs: Sequence[Values], budget: str) -> str:
    names = list(dict.fromkeys(test for leg in legs for test in leg["tests"]))
    header = ["system", "seeds", "parameters × 10⁶", "layers", "steps", "minutes", "counted FLOPs", "perplexity"]
    header += [
        "BLEU, validation",
        *(f"{kind}, {test}" for test in names for kind in ("BLEU, the paper's way", "sacreBLEU")),
    ]
    rows = []
    for seeds in _groups(legs, budget):
        first = seeds[0]
        scores = [[leg["tests"][test][kind] for leg in seeds] for test in names for kind in ("paper", "sacrebleu")]
        rows.append(
            [
                first["title"],
                str(len(seeds)),
                f"{first['parameters'] / 1e6:.2f}",
                "+".join(map(str, first["layers"])),
                f"{fmean(leg['steps'] for leg in seeds):,.0f}",
                f"{fmean(leg['minutes'] for leg in seeds):.1f}",
                f"{fmean(leg['flops'] for leg in seeds):.2e}",
                *(mean_and_spread([leg["validation"][kind] for leg in seeds]) for kind in ("perplexity", "bleu")),
                *map(mean_and_spread, scores),
            ]
        )
    return f"### At {_BUDGETS[budget]}\n\n{table(header, rows)}"


def _settings(legs: Sequence[Values], trials: Sequence[Values]) -> str:
    if not trials:
        rows = [[leg["title"], _listed(leg["settings"])] for leg in {leg["system"]: leg for leg in legs}.values()]
        return "Nothing was tried: these are the first settings.\n\n" + table(
            ["system", "settings"], rows, text_columns=2
        )
    chosen = {leg["system"]: (leg["title"], leg["trial"]) for leg in legs}
    rows = []
    for each in trials:
        if each["system"] not in chosen:  # another command has tried it, and has not trained it yet
            continue
        title, best = chosen[each["system"]]
        name = f"**{title}**" if each["trial"] == best else title
        rows.append([name, _listed(each["settings"]), f"{each['perplexity']:.2f}", f"{each['minutes']:.1f}"])
    said = "Each was tried with a quarter of the operations, one seed; those in bold were trained."
    return f"{said}\n\n{table(['system', 'settings', 'perplexity', 'minutes'], rows, text_columns=2)}"


def _listed(settings: Sequence[str]) -> str:
    return ", ".join(f"`{each}`" for each in settings) or "the recipe's own"


def _differences(legs: Sequence[Values], *, tried: bool) -> list[str]:
    seeds = len(distinct(legs, "seed"))
    return [
        "- Size: these are small systems on a small corpus. With more of both, another kind may learn best.",
        "- Same for all: the corpus, its pieces, the batches and their order, the loss, validation, averaging, beam "
        "search and scores. A control has as many layers as bring it nearest to the Transformer's parameters.",
        "- Own for each: the optimiser, its rate and dropout"
        + (
            ", chosen on the validation set alone, as many trials each."
            if tried
            else "; nothing was tried on this corpus."
        ),
        "- Minutes are those of updates: with one thread its processor time; otherwise the clock's, which compares on "
        "an idle machine only. "
        "The recurrent system uses PyTorch's fused LSTM. Counted operations do not depend on the machine.",
        "- The recurrent system is RNMT+ in small, with norms around layers and not within gates; the convolutional "
        "one ConvS2S with one table of embeddings. The source says what else differs.",
        f"- Seeds: {seeds}." + (" One says nothing of the spread." if seeds == 1 else ""),
    ]


def draw(measured: Measured, folder: Path) -> None:
    """Writes table2.png: validation perplexity and BLEU over counted operations and over minutes, a line a seed."""
    figure, panels = new_chart(2, 2)
    last = {(leg["system"], leg["seed"]): leg for leg in select(measured, "leg")}  # leg 2 has all of leg 1
    colours = dict(zip(distinct(list(last.values()), "system"), COLOURS, strict=False))
    for (system, seed), leg in last.items():
        style: dict[str, Any] = {"color": colours[system], "linestyle": _LINES[system], "marker": "o", "markersize": 3}
        label = leg["title"] if seed == min(each for _, each in last) else None
        xs = {"flops": [each["flops"] for each in leg["curve"]]}
        xs["minutes"] = [each["seconds"] / 60 for each in leg["curve"]]
        for panel, (y, x) in zip(panels, _PANELS, strict=True):
            panel.plot(xs[x], [each[y] for each in leg["curve"]], label=label, **style)
    for panel, (y, x) in zip(panels, _PANELS, strict=True):
        panel.set(xlabel={"flops": "counted FLOPs", "minutes": "minutes"}[x], ylabel=f"{_NAMES[y]}, validation")
        if y == "perplexity":
            panel.set_yscale("log")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    save_chart(figure, folder / "table2.png")


_PANELS = (("perplexity", "flops"), ("perplexity", "minutes"), ("bleu", "flops"), ("bleu", "minutes"))
_NAMES = {"perplexity": "perplexity", "bleu": "BLEU, greedy"}
