"""Table 2: BLEU on newstest2014 and the cost of training, of the systems that the paper compares with, and of ours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from transduce.reporting.tables import table

PAIRS = ("en-de", "en-fr")


@dataclass(frozen=True)
class System:
    """One row; everything by language pair, and absent where it is not known."""

    name: str
    bleu: Mapping[str, float] = field(default_factory=dict)
    flops: Mapping[str, float] = field(default_factory=dict)  # by the paper's estimate: seconds × devices × capacity
    counted: Mapping[str, float] = field(default_factory=dict)  # really made; nobody but us has counted


def _both(figure: float) -> dict[str, float]:
    """The paper prints one figure for both pairs in the rows of its own models."""
    return dict.fromkeys(PAIRS, figure)


LITERATURE = (
    System("ByteNet", {"en-de": 23.75}),
    System("Deep-Att + PosUnk", {"en-fr": 39.2}, {"en-fr": 1.0e20}),
    System("GNMT + RL", {"en-de": 24.6, "en-fr": 39.92}, {"en-de": 2.3e19, "en-fr": 1.4e20}),
    System("ConvS2S", {"en-de": 25.16, "en-fr": 40.46}, {"en-de": 9.6e18, "en-fr": 1.5e20}),
    System("MoE", {"en-de": 26.03, "en-fr": 40.56}, {"en-de": 2.0e19, "en-fr": 1.2e20}),
    System("Deep-Att + PosUnk ensemble", {"en-fr": 40.4}, {"en-fr": 8.0e20}),
    System("GNMT + RL ensemble", {"en-de": 26.30, "en-fr": 41.16}, {"en-de": 1.8e20, "en-fr": 1.1e21}),
    System("ConvS2S ensemble", {"en-de": 26.36, "en-fr": 41.29}, {"en-de": 7.7e19, "en-fr": 1.2e21}),
    System("Transformer (base model)", {"en-de": 27.3, "en-fr": 38.1}, _both(3.3e18)),
    System("Transformer (big)", {"en-de": 28.4, "en-fr": 41.8}, _both(2.3e19)),
)


def measured_system(name: str, pair: str, bleu: float, metrics: Mapping[str, Any]) -> System:
    """Returns the row of a model of ours.

    Args:
        name: what the row is called; say in it where data or BLEU are not the paper's.
        pair: "en-de" or "en-fr".
        bleu: on the test set, measured as the paper did where it is to stand beside its figures.
        metrics: the model folder's `metrics.json`.
    """
    flops = {pair: metrics["training_flops_estimate"]} if "training_flops_estimate" in metrics else {}
    counted = {pair: metrics["training_flops"]} if "training_flops" in metrics else {}
    return System(name, {pair: bleu}, flops, counted)


def render_table2(ours: Sequence[System] = ()) -> str:
    """Returns the literature's rows and then `ours` as a Markdown table."""
    header = ["system", *(f"BLEU {pair}" for pair in PAIRS), *(f"FLOPs {pair}" for pair in PAIRS)]
    header += [f"counted FLOPs {pair}" for pair in PAIRS]
    rows = []
    for system in (*LITERATURE, *ours):
        cells = [_decimal(system.bleu.get(pair)) for pair in PAIRS]
        cells += [_scientific(system.flops.get(pair)) for pair in PAIRS]
        rows.append([system.name, *cells, *(_scientific(system.counted.get(pair)) for pair in PAIRS)])
    return table(header, rows)


def _decimal(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}".removesuffix("0")


def _scientific(value: float | None) -> str:
    return "" if value is None else f"{value:.1e}".replace("e+", "e")
