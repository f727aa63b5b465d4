"""Which conclusions hold: on the paper's own figures, and on made-up ones where the answer is known."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from transduce.experiments.ablation.built_in import TABLE3
from transduce.experiments.ablation.conclusions import CLAIMS, Alike, Finding, judge
from transduce.experiments.ablation.report import render
from transduce.experiments.ablation.results import Results, RowInfo, TrialResult


def results_of(figures: Mapping[str, Sequence[tuple[float, float]]], grid: str = "table3") -> Results:
    """Results of rows by name, each with (perplexity, BLEU) for seeds 1, 2, …"""
    trials = [
        TrialResult(row, seed, perplexity=perplexity, bleu=bleu)
        for row, values in figures.items()
        for seed, (perplexity, bleu) in enumerate(values, start=1)
    ]
    return Results(grid, "made-up", "", tuple(RowInfo(row, {}) for row in figures), tuple(trials))


def finding(results: Results, letter: str, measure: str) -> Finding:
    (found,) = [f for f in judge(results) if f.claim.text.startswith(letter) and f.measure == measure]
    return found


def verdict(results: Results, letter: str, measure: str) -> str:
    return finding(results, letter, measure).verdict


def test_the_papers_figures_bear_out_the_papers_conclusions() -> None:
    """Each comparison that is drawn from them, by each measure."""
    printed = {row.name: [(row.printed["perplexity"], row.printed["bleu"])] for row in TABLE3.rows if row.printed}
    findings = judge(results_of(printed))
    assert len(findings) == 2 * len(CLAIMS["table3"]) == 16
    of_paper = [found for found in findings if "(E2)" not in found.claim.text]
    assert len(of_paper) == 14
    for found in of_paper:
        assert found.verdict == "holds", found
        assert all(detail.endswith(", holds") for detail in found.details), found


def test_eight_layers_are_compared_by_perplexity_alone() -> None:
    """With eight layers (C3) the paper's own BLEU is below the base's: 25.5 against 25.8."""
    printed = {row.name: row.printed for row in TABLE3.rows}
    assert printed["C3"]["bleu"] < printed["base"]["bleu"]
    (bigger,) = [claim for claim in CLAIMS["table3"] if claim.text.startswith("(C)")]
    rows = {
        measure: {name for each in comparisons for name in (each.row, *each.than)}
        for measure, comparisons in bigger.comparisons.items()
    }
    assert rows["perplexity"] == {"base", *(f"C{number}" for number in range(1, 8))}
    assert rows["bleu"] == rows["perplexity"] - {"C3"}


@pytest.mark.parametrize(
    ("epochs", "depth", "dropout"),
    [(2.0, "holds in part", "not testable"), (10.0, "holds", "holds"), (20.0, "holds", "holds")],
)
def test_what_takes_long_is_not_testable_after_two_epochs(epochs: float, depth: str, dropout: str) -> None:
    printed = {row.name: [(row.printed["perplexity"], row.printed["bleu"])] for row in TABLE3.rows if row.printed}
    results = results_of(printed)
    results = replace(results, trials=tuple(replace(trial, epochs=epochs) for trial in results.trials))
    for measure in ("perplexity", "bleu"):
        assert verdict(results, "(C)", measure) == depth  # width is testable, depth and d_ff are not
        assert verdict(results, "(D)", measure) == dropout
        assert verdict(results, "(B)", measure) == "holds"
    details = " ".join(finding(results, "(C)", "bleu").details)
    assert ("C6 25.40, base 25.80: a difference of -0.40, not testable" in details) == (epochs == 2.0)
    assert ("Not testable: it shows after long training only" in render(results)) == (epochs == 2.0)


def test_not_testable_outweighs_only_what_was_not_measured() -> None:
    few = {"base": [(5.0, 30.0)], "C1": [(6.0, 29.0)], "C2": [(5.5, 29.5)]}
    short = results_of(few)
    short = replace(short, trials=tuple(replace(trial, epochs=2.0) for trial in short.trials))
    assert verdict(short, "(C)", "bleu") == "not testable"
    wider = results_of(few | {"C5": [(5.0, 29.0)]})
    wider = replace(wider, trials=tuple(replace(trial, epochs=2.0) for trial in wider.trials))
    assert verdict(wider, "(C)", "bleu") == "does not hold"


def test_every_row_that_is_spoken_of_is_in_the_grid() -> None:
    named = set()
    for claim in CLAIMS["table3"]:
        for comparisons in claim.comparisons.values():
            for comparison in comparisons:
                named |= {comparison.row, *comparison.than}
    assert named <= {row.name for row in TABLE3.rows}
    assert any(isinstance(c, Alike) for claim in CLAIMS["table3"] for c in claim.comparisons["bleu"])


def test_a_difference_must_exceed_two_standard_errors() -> None:
    """Each row 30 ± 0.1·√2 or so: a spread of 0.1414; of means over two seeds, two standard errors are 0.2828."""
    spread = [(5.0, 30.1), (5.0, 29.9)]
    assert verdict(results_of({"base": spread, "D1": [(5.0, 29.9), (5.0, 29.7)]}), "(D)", "bleu") == "undecided"
    assert verdict(results_of({"base": spread, "D1": [(5.0, 29.8), (5.0, 29.6)]}), "(D)", "bleu") == "holds"
    assert verdict(results_of({"base": spread, "D1": [(5.0, 30.4), (5.0, 30.2)]}), "(D)", "bleu") == "does not hold"


def test_the_spread_is_pooled_over_all_rows() -> None:
    results = results_of({"base": [(5.0, 30.1), (5.0, 29.9)], "D1": [(5.0, 29.0), (5.0, 29.0), (5.0, 29.0)]})
    pooled = results.pooled_spread("bleu")  # (1 · 0.02 + 2 · 0) / 3
    assert pooled == pytest.approx((0.02 / 3) ** 0.5)
    assert results.pooled_spread("perplexity") == 0.0


def test_low_perplexity_is_good() -> None:
    assert verdict(results_of({"base": [(5.0, 30.0)], "D1": [(6.0, 30.0)]}), "(D)", "perplexity") == "holds"
    assert verdict(results_of({"base": [(5.0, 30.0)], "D1": [(4.0, 30.0)]}), "(D)", "perplexity") == "does not hold"


def test_an_undecided_difference_says_how_many_seeds_would_decide() -> None:
    """A spread of 0.1414 and a difference of 0.25: 2 · 0.1414 · √(2/n) is less from n = 2.56 on."""
    spread = [(5.0, 30.1), (5.0, 29.9)]
    results = results_of({"base": spread, "D1": [(5.0, 29.85), (5.0, 29.65)]})
    assert "(with 3 seeds of each, such a difference would decide)" in finding(results, "(D)", "bleu").details[0]
    same = results_of({"base": spread, "D1": spread})
    assert "seeds" not in finding(same, "(D)", "bleu").details[0]
    decided = results_of({"base": spread, "D1": [(5.0, 29.0), (5.0, 28.8)]})
    assert "seeds" not in finding(decided, "(D)", "bleu").details[0]


def test_the_best_of_several_rows_is_compared_with() -> None:
    results = results_of({"base": [(5.0, 30.0)], "A1": [(4.9, 30.5)], "A2": [(5.2, 29.0)], "A3": [(4.8, 31.0)]})
    assert finding(results, "(A) a single", "bleu").details == ("A1 30.50, A3 31.00: a difference of -0.50, holds",)
    assert verdict(results, "(A) a single", "perplexity") == "holds"


def test_alike_means_within_a_margin_even_at_the_far_end_of_the_doubt() -> None:
    base = [(5.0, 30.0)]
    assert verdict(results_of({"base": base, "E": [(5.0, 30.4)]}), "(E)", "bleu") == "holds"
    assert verdict(results_of({"base": base, "E": [(5.0, 29.4)]}), "(E)", "bleu") == "does not hold"
    assert verdict(results_of({"base": base, "E": [(5.2, 30.0)]}), "(E)", "perplexity") == "does not hold"
    assert verdict(results_of({"base": base, "E": [(5.09, 30.0)]}), "(E)", "perplexity") == "holds"  # 2 % are 0.10
    unsure = {"base": [(5.0, 30.0), (5.0, 30.4)], "E": [(5.0, 30.4), (5.0, 30.8)]}
    assert verdict(results_of(unsure), "(E)", "bleu") == "undecided"


def test_learned_positions_at_the_scale_of_sinusoids_are_judged_by_themselves() -> None:
    results = results_of({"base": [(5.0, 30.0)], "E": [(4.0, 33.0)], "E2": [(5.05, 30.2)]})
    assert verdict(results, "(E) learned", "perplexity") == "does not hold"
    assert verdict(results, "(E2)", "perplexity") == "holds"


def test_several_comparisons_together() -> None:
    holds, against = [(6.0, 29.0)], [(4.0, 31.0)]
    base = [(5.0, 30.0)]
    assert verdict(results_of({"base": base, "B1": holds, "B2": holds}), "(B)", "bleu") == "holds"
    assert verdict(results_of({"base": base, "B1": holds, "B2": against}), "(B)", "bleu") == "holds in part"
    assert verdict(results_of({"base": base, "B1": against, "B2": against}), "(B)", "bleu") == "does not hold"
    assert verdict(results_of({"base": base, "B1": against, "B2": base}), "(B)", "bleu") == "does not hold"
    assert verdict(results_of({"base": base, "B1": holds}), "(B)", "bleu") == "holds in part"
    assert verdict(results_of({"base": base, "B1": base}), "(B)", "bleu") == "undecided"
    assert verdict(results_of({"base": base}), "(B)", "bleu") == "not measured"
    assert verdict(results_of({"B1": base}), "(B)", "bleu") == "not measured"
    assert finding(results_of({"base": base}), "(B)", "bleu").details == ("B1 not measured", "B2 not measured")
    assert finding(results_of({"B1": base}), "(B)", "bleu").details == ("base not measured", "B2 not measured")


def test_label_smoothing_has_two_sides() -> None:
    both = {"smoothing-0.0": [(4.67, 25.3)], "smoothing-0.1": [(4.92, 25.8)], "smoothing-0.2": [(5.47, 25.7)]}
    found = judge(results_of(both, "label-smoothing"))
    assert [(f.measure, f.verdict) for f in found] == [("perplexity", "holds"), ("bleu", "holds")]


def test_of_a_grid_of_ones_own_the_paper_says_nothing() -> None:
    assert judge(results_of({"base": [(5.0, 30.0)], "A1": [(6.0, 29.0)]}, "mine")) == []
