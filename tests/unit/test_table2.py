"""Table 2: the literature as printed, and rows of ours beside it."""

from transduce.experiments.paper.table2_report import LITERATURE, our_rows, render_table2


def row(page: str, system: str) -> list[str]:
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {system} |")]
    return [part.strip() for part in line.strip("|").split("|")]


def test_the_printed_rows() -> None:
    page = render_table2()
    assert row(page, "ByteNet") == ["ByteNet", "23.75", "", "", "", "", ""]
    assert row(page, "GNMT + RL") == ["GNMT + RL", "24.6", "39.92", "2.3e19", "1.4e20", "", ""]
    big = row(page, "Transformer (big)")
    assert big == ["Transformer (big)", "28.4", "41.8", "2.3e19", "2.3e19", "", ""]
    assert len(LITERATURE) == 10
    assert len(page.splitlines()) == 2 + 10


def test_what_the_paper_prints() -> None:
    """BLEU and FLOPs, for English-German and English-French."""
    printed = {
        "ByteNet": (23.75, None, None, None),
        "Deep-Att + PosUnk": (None, 39.2, None, 1.0e20),
        "GNMT + RL": (24.6, 39.92, 2.3e19, 1.4e20),
        "ConvS2S": (25.16, 40.46, 9.6e18, 1.5e20),
        "MoE": (26.03, 40.56, 2.0e19, 1.2e20),
        "Deep-Att + PosUnk ensemble": (None, 40.4, None, 8.0e20),
        "GNMT + RL ensemble": (26.30, 41.16, 1.8e20, 1.1e21),
        "ConvS2S ensemble": (26.36, 41.29, 7.7e19, 1.2e21),
        "Transformer (base model)": (27.3, 38.1, 3.3e18, 3.3e18),
        "Transformer (big)": (28.4, 41.8, 2.3e19, 2.3e19),
    }
    found = {
        each.name: tuple(values.get(pair) for values in (each.bleu, each.flops) for pair in ("en-de", "en-fr"))
        for each in LITERATURE
    }
    assert found == printed


def test_a_row_of_ours() -> None:
    metrics = {"training_flops": 123 * 10**15, "training_flops_estimate": 4.56e18, "steps": 10}
    measured = {
        "train/ours": {"name": "ours", "metrics": metrics},
        "train/old": {"name": "old", "metrics": {}},
        "test/ours/t": {"system": "ours", "test": "t", "pair": "en-fr", "bleu": 38.0},
        "test/old/t": {"system": "old", "test": "t", "pair": "en-de", "bleu": 27.31},
    }
    page = render_table2(our_rows(measured))
    assert row(page, "ours, t") == ["ours, t", "", "38.0", "", "4.6e18", "", "1.2e17"]
    assert row(page, "old, t") == ["old, t", "27.31", "", "", "", "", ""]
