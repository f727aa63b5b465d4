"""An ablation's results: means and spreads, saved and read again, the page and the picture."""

import sys
from pathlib import Path

import pytest

from transduce.errors import ConfigError, MissingDependencyError
from transduce.experiments.ablation.report import describe_settings, draw, render
from transduce.experiments.ablation.results import Results, RowInfo, TrialResult, in_order

ROWS = (
    RowInfo("base", {}, {"perplexity": 4.92, "bleu": 25.8, "parameters": 65}),
    RowInfo("D1", {"model.dropout": 0.0}, {"perplexity": 5.77, "bleu": 24.6}),
    RowInfo("E", {"model.positions": "learned"}, {"perplexity": 4.92, "bleu": 25.7}),
)


def trial(row: str, seed: int, perplexity: float, bleu: float) -> TrialResult:
    return TrialResult(
        row,
        seed,
        perplexity=perplexity,
        bleu=bleu,
        parameters=1_234_567,
        steps=1000,
        training_seconds=3600.0,
        training_flops=2 * 10**15,
    )


RESULTS = Results(
    "table3",
    "tiny",
    "sacreBLEU, beam 4",
    ROWS,
    (
        trial("base", 1, 5.0, 30.2),
        trial("base", 2, 5.2, 29.8),
        trial("D1", 1, 6.0, 28.0),
        TrialResult("D1", 2, error="exit code 1; it last said: no memory"),
    ),
)


def line_of(page: str, row: str) -> list[str]:
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {row} |")]
    return [part.strip() for part in line.strip("|").split("|")]


def test_mean_and_spread() -> None:
    base = RESULTS.statistic("base", "bleu")
    assert base is not None
    assert (base.mean, base.count) == (30.0, 2)
    assert base.spread == pytest.approx(0.2 * 2**0.5)  # of a sample of two: their difference over √2
    one = RESULTS.statistic("D1", "bleu")
    assert one is not None
    assert (one.mean, one.spread, one.count) == (28.0, None, 1)
    assert RESULTS.statistic("E", "bleu") is None


def test_the_table_has_printed_and_measured_side_by_side() -> None:
    page = render(RESULTS)
    expected = ["base", "", "4.92", "5.10 ± 0.14", "25.8", "30.0 ± 0.3", "65", "1.23", "1,000", "3,600", "2.00e+15"]
    assert line_of(page, "base") == expected
    assert line_of(page, "D1")[1:6] == ["dropout 0.0", "5.77", "6.00", "24.6", "28.0"]
    assert line_of(page, "E")[1:] == ["positions learned", "4.92", "", "25.7", "", "", "", "", "", ""]


def test_a_printed_number_of_parameters_has_its_decimals() -> None:
    rows = (RowInfo("base", {}, {"parameters": 1.45}),)
    assert line_of(render(Results("mine", "tiny", "", rows, RESULTS.trials)), "base")[6:8] == ["1.45", "1.23"]


def test_without_printed_figures_there_are_no_columns_for_them() -> None:
    rows = tuple(RowInfo(row.name, row.settings) for row in ROWS)
    page = render(Results("mine", "tiny", "", rows, RESULTS.trials))
    assert "printed" not in page
    assert line_of(page, "base")[2:4] == ["5.10 ± 0.14", "30.0 ± 0.3"]
    assert "conclusions" not in page


def test_the_page_says_what_holds_and_what_failed() -> None:
    page = render(RESULTS)
    assert "- (D) dropout helps to avoid over-fitting:\n    - perplexity: **holds**." in page
    assert "- (E) learned positions give nearly identical results: **not measured**.\n" in page
    assert "- D1, seed 2: exit code 1; it last said: no memory" in page
    assert "Mean over seeds 1, 2" in page
    assert "3.0 hours of training, 6.00e+15 FLOPs" in page


def test_one_seed_is_said_to_be_one() -> None:
    single = Results("table3", "tiny", "", ROWS, tuple(c for c in RESULTS.trials if c.seed == 1))
    page = render(single)
    assert "±" not in page
    assert "One seed: these figures do not show how much of a difference is chance." in page
    assert "With one seed there is no spread to judge by" in page


def test_nothing_yet_is_a_page_too() -> None:
    assert line_of(render(Results("mine", "tiny", "", ROWS, ())), "base")[2] == "4.92"


def test_equal_numbers_of_layers_are_one_number() -> None:
    assert describe_settings({"model.num_encoder_layers": 2, "model.num_decoder_layers": 2}) == "num_layers 2"
    assert describe_settings({"model.num_encoder_layers": 2, "model.d_ff": 8}) == "num_encoder_layers 2, d_ff 8"
    assert describe_settings({"model.num_heads": 1, "model.d_k": 64}) == "num_heads 1, d_k 64"


def test_saved_and_read_again(tmp_path: Path) -> None:
    RESULTS.save(tmp_path / "results.json")
    assert Results.load(tmp_path / "results.json") == RESULTS


@pytest.mark.parametrize("content", ["", "[]", '{"format": 1}', '{"format": 2}', '{"format": 1, "rows": 3}'])
def test_what_is_not_results_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"results\.json: (not the results of an ablation|format 2)"):
        Results.load(path)


def test_trials_come_in_the_order_of_rows_and_seeds() -> None:
    shuffled = [trial("E", 1, 1, 1), trial("base", 2, 1, 1), trial("gone", 1, 1, 1), trial("base", 1, 1, 1)]
    assert [(c.row, c.seed) for c in in_order(shuffled, ROWS)] == [("base", 1), ("base", 2), ("E", 1)]


def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw(RESULTS, tmp_path / "rows.png")
    assert (tmp_path / "rows.png").read_bytes().startswith(b"\x89PNG")
    draw(RESULTS, tmp_path / "rows.svg")
    assert "<svg" in (tmp_path / "rows.svg").read_text("utf-8")
    draw(Results("mine", "tiny", "", ROWS, ()), tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependencyError, match=r"pip install .*\[figures\]"):
        draw(RESULTS, tmp_path / "rows.png")
    assert list(tmp_path.iterdir()) == []
