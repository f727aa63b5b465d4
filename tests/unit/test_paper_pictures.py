"""What the pictures of `transduce paper` show: the curves, points and names in them, against the figures by hand."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="pictures need transduce[figures]")

from matplotlib.colors import to_hex

from transduce.experiments.paper import positions, scaling_report, table1, table2_report, table3, table4_report
from transduce.experiments.paper.compatibility import KINDS
from transduce.experiments.paper.table4_report import Baseline
from transduce.reporting.charts import COLOURS, GREY

MIB = 2**20
Saved = Callable[[Any], list[tuple[Any, Path]]]


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch) -> Saved:
    """Returns a function that keeps the pictures of a module from being written, and returns the list of them."""

    def keep(module: Any) -> list[tuple[Any, Path]]:
        kept: list[tuple[Any, Path]] = []
        monkeypatch.setattr(module, "save_chart", lambda figure, path: kept.append((figure, path)))
        return kept

    return keep


def curves(panel: Any) -> dict[str, tuple[list[float], list[float]]]:
    """Returns the named curves of a panel: x and y."""
    return {
        str(line.get_label()): ([*line.get_xdata()], [*map(float, line.get_ydata())])
        for line in panel.lines
        if not str(line.get_label()).startswith("_")
    }


def points(panel: Any) -> list[tuple[float, float]]:
    return [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in panel.lines]


# --- Table 1 ----------------------------------------------------------------------------------------------------


def test_the_picture_of_table_1(saved: Saved) -> None:
    """Costs at the middle width and the first k and r; the dilated stack costs what the contiguous one does."""
    settings = table1.SETTINGS["laptop"]
    measured: dict[str, Any] = {}
    for name, row in table1.ROWS.items():
        for n, shape in table1._sizes(row, settings):
            sizes = {"n": n, "d": shape.d, "k": shape.k, "r": shape.r}
            cost = {"seconds": n + shape.d, "peak_bytes": n * MIB, "flops": 1}
            measured[table1._cost_id(name, row, n, shape)] = sizes | cost
        for n in settings.chain_lengths:
            measured[f"chain/{name}/n={n}"] = {"n": n, "operations": 2 * n}
    for name in table1._PATH_ROWS:
        for n in settings.path_lengths:
            measured[f"path/{name}/n={n}"] = {"n": n, "steps": 3 * n}
    kept = saved(table1)
    table1._draw(settings, measured, Path("there"))
    [(figure, path)] = kept
    assert path == Path("there/table1.png")
    time, memory, chains, paths = figure.axes
    lengths = [512, 1024, 2048, 4096]
    assert curves(time)["convolution, contiguous"] == (lengths, [n + 256 for n in lengths])
    assert curves(time)["self-attention, restricted"][0] == [*lengths, 8192, 16384]
    assert curves(memory)["recurrent (LSTM)"] == (lengths, lengths)
    assert "convolution, dilated" not in curves(time) | curves(memory)
    assert curves(chains)["separable convolution"] == ([32, 64, 128, 256], [64, 128, 256, 512])
    assert curves(paths)["convolution, dilated"] == ([8, 16, 32, 64], [24, 48, 96, 192])
    assert [len(curves(each)) for each in figure.axes] == [6, 6, 7, 5]
    assert {line.get_linestyle() for line in chains.lines if line.get_label() == "convolution, dilated"} == {"--"}
    assert [axis.get_yscale() for axis in figure.axes] == ["log"] * 4
    assert "d = 256" in time.get_title()


# --- scaling ----------------------------------------------------------------------------------------------------


def test_the_picture_of_scaling(saved: Saved) -> None:
    measured: dict[str, Any] = {}
    for place, kind in enumerate(KINDS, start=1):
        for d_k in (4, 16):
            scores = {"d_k": d_k, "variance": place * d_k, "gradient": 0.0 if d_k == 16 else place / 10}
            measured[f"scores/{kind}/d_k={d_k}"] = scores
            for seed in (1, 2):
                learned = {"d_k": d_k, "loss": 1.0, "right": (place + seed) / 10 + d_k / 100}
                measured[f"mirror/{kind}/d_k={d_k}/seed={seed}"] = learned
        for n in (64, 128):
            measured[f"speed/{kind}/n={n}"] = {"n": n, "seconds": place * n, "peak_bytes": 1}
    for heads, rights in ((1, (0.25, 0.5)), (4, (0.5, 1.0))):
        for seed, right in enumerate(rights):
            measured[f"two places/h={heads}/seed={seed}"] = {"heads": heads, "loss": 1.0, "right": right}
    for place, kind in enumerate(scaling_report._LABELS, start=1):
        for n in (16, 64):
            measured[f"crossover/{kind}/n={n}"] = {"n": n, "d": 128, "seconds": place * n, "flops": 1}
    kept = saved(scaling_report)
    scaling_report.draw(measured, Path("there"))
    [(figure, path)] = kept
    assert path == Path("there/scaling.png")
    variance, gradient, learned_by, speed, places, crossover = figure.axes
    for place, kind in enumerate(KINDS, start=1):
        assert curves(variance)[kind] == ([4, 16], [4 * place, 16 * place])
        assert curves(gradient)[kind] == ([4, 16], pytest.approx([place / 10, 1e-9]))  # a logarithm of 0 there is not
        mean = place / 10 + 0.15
        assert curves(learned_by)[kind] == ([4, 16], pytest.approx([mean + 0.04, mean + 0.16]))
        assert curves(speed)[kind] == ([64, 128], [64 * place, 128 * place])
    [shares] = [line for line in places.lines if len(line.get_xdata()) == 2]
    assert ([*shares.get_xdata()], [*shares.get_ydata()]) == ([1, 4], [0.375, 0.75])
    for place, label in enumerate(scaling_report._LABELS.values(), start=1):
        assert curves(crossover)[label] == ([16, 64], [16 * place, 64 * place])
    assert crossover.lines[-1].get_xdata() == [128, 128]  # n = d
    assert crossover.get_xlabel() == "positions n (dashed: n = d = 128)"


# --- positions --------------------------------------------------------------------------------------------------


def test_the_picture_of_positions(saved: Saved) -> None:
    settings = dataclasses.replace(
        positions.SETTINGS["smoke"], trained_length=4, tested_lengths=(2, 6), seeds=(1, 2), shifts=(1, 7)
    )
    shares = {"sinusoidal": ((1.0, 0.5), (0.8, 0.3)), "learned": ((0.6, 0.2), (0.4, 0.0))}
    measured: dict[str, Any] = {}
    for kind, by_seed in shares.items():
        for seed, values in enumerate(by_seed, start=1):
            tokens = dict(zip(("2", "6"), values, strict=True))
            measured[f"copy/{kind}/seed={seed}"] = {"tokens_right": tokens, "sequences_right": {}}
    for shift in (1, 7):
        errors = {"random_table": 3.0, "found_beyond": 1e-3, "found": 1e-6, "constructed": 0.0}
        measured[f"shift/k={shift}"] = {name: error * shift for name, error in errors.items()}
    kept = saved(positions)
    positions._draw(settings, measured, Path("there"))
    [(figure, path)] = kept
    assert path == Path("there/positions.png")
    left, right = figure.axes
    assert curves(left)["sinusoidal"] == ([2, 6], pytest.approx([0.9, 0.4]))
    assert curves(left)["learned"] == ([2, 6], pytest.approx([0.5, 0.1]))
    borders = [sorted({round(float(y), 6) for _, y in band.get_paths()[0].vertices}) for band in left.collections]
    assert borders == [[0.3, 0.5, 0.8, 1.0], [0.0, 0.2, 0.4, 0.6]]  # from the worst seed to the best
    assert 4.5 in [each.get_xdata()[0] for each in left.lines]  # the end of what training saw
    assert curves(right) == {
        "random vectors: least squares": ([1, 7], [3.0, 21.0]),
        "sinusoids: least squares, on later positions": ([1, 7], pytest.approx([1e-3, 7e-3])),
        "sinusoids: least squares": ([1, 7], pytest.approx([1e-6, 7e-6])),
        "sinusoids: rotation": ([1, 7], [1e-12, 1e-12]),
    }


# --- Tables 2 to 4 ----------------------------------------------------------------------------------------------


def test_the_picture_of_table_2(saved: Saved) -> None:
    """Each system stands in the panel of its pair; ours twice, by the estimate and as counted, where both are known."""
    metrics = {"training_flops_estimate": 4e18, "training_flops": 1e18}
    measured: dict[str, Any] = {
        "train/both": {"name": "both", "metrics": metrics},
        "train/counted": {"name": "counted", "metrics": {"training_flops": 2e17}},
        "train/none": {"name": "none", "metrics": {}},
    }
    for name, pair, score in (("both", "en-de", 27.5), ("counted", "en-fr", 38.5), ("none", "en-fr", 12.0)):
        measured[f"test/{name}/t"] = {"system": name, "pair": pair, "test": "t", "bleu": score}
    kept = saved(table2_report)
    table2_report.draw(measured, Path("there"))
    [(figure, path)] = kept
    assert path == Path("there/table2.png")
    german, french = figure.axes
    assert points(german) == [
        *[(2.3e19, 24.6), (9.6e18, 25.16), (2.0e19, 26.03), (1.8e20, 26.3), (7.7e19, 26.36), (3.3e18, 27.3)],
        *[(2.3e19, 28.4), (4e18, 27.5), (1e18, 27.5)],
    ]
    assert points(french)[-3:] == [(3.3e18, 38.1), (2.3e19, 41.8), (2e17, 38.5)]
    assert len(points(french)) == 10
    colours = [to_hex(line.get_color()) for line in german.lines]
    assert colours == [GREY] * 5 + [COLOURS[0]] * 2 + [COLOURS[1]] * 2
    assert [line.get_fillstyle() for line in german.lines[-2:]] == ["full", "none"]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    ours = [name for name in names if name.startswith("ours: ")]
    assert ours == ["ours: both, t", "ours: both, t, counted", "ours: counted, t, counted"]
    assert {*names} - {*ours} == {each.name for each in table2_report.LITERATURE} - {"ByteNet"}
    assert len({line.get_marker() for line in german.lines[:7]}) == 7
    assert [panel.get_xscale() for panel in figure.axes] == ["log", "log"]


def test_the_picture_of_table_3(saved: Saved, tmp_path: Path) -> None:
    """Two seeds with a deviation of √2 / 10 each: the difference of their means has as much, √(1/2 + 1/2) times."""
    study = table3.experiment(table3.Table3Options("smoke", tmp_path)).measurements[0].measure.func.__self__  # type: ignore[attr-defined]

    def made(row: str, perplexities: tuple[float, float], scores: tuple[float, float]) -> dict[str, Any]:
        seeds = [
            {"row": row, "seed": seed, "perplexity": perplexity, "bleu": score}
            for seed, (perplexity, score) in enumerate(zip(perplexities, scores, strict=True), start=1)
        ]
        return {"bleu": "BLEU", "seeds": seeds}

    measured = {"base": made("base", (6.0, 6.2), (20.0, 20.2)), "D3": made("D3", (5.0, 5.2), (19.0, 18.8))}
    kept = saved(table3)
    table3._draw(study, measured, tmp_path)
    [(figure, path)] = kept
    assert path == tmp_path / "table3.png"
    for panel, printed, found in zip(figure.axes, (4.67 - 4.92, 25.3 - 25.8), (-1.0, -1.2), strict=True):
        dots = [line for line in panel.lines if line.get_marker() in ("o", "D")]
        assert [line.get_marker() for line in dots] == ["o", "D"]
        assert [float(line.get_xdata()[0]) for line in dots] == pytest.approx([printed, found])
        [[[begin, _], [end, _]]] = panel.collections[0].get_segments()
        assert (begin, end) == pytest.approx((found - 0.02**0.5, found + 0.02**0.5))
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["D3"]
    assert [panel.get_xlabel().partition(":")[0] for panel in figure.axes] == ["perplexity per subword", "BLEU"]


def test_the_picture_of_table_4(saved: Saved) -> None:
    scores = {"f1": 80.0, "sentences": 9}
    measured: dict[str, Any] = {
        f"supervised/seed={seed}": {
            "setting": "supervised",
            "scores": {"toy": scores | {"f1": 80.0 + seed}},
            "short_scores": {"toy": scores | {"f1": 90.0 + seed, "sentences": 0 if seed == 3 else 5}},
        }
        for seed in (1, 3)
    }
    kept = saved(table4_report)
    baselines = [Baseline("pcfg", "toy", 70.5, 25), Baseline("other", "toy", 60.0, 10)]
    for given, green in ((baselines, True), (baselines[1:], True), ([], False)):
        table4_report.draw(measured, Path("there"), baselines=given)
        figure, path = kept.pop()
        assert path == Path("there/table4.png")
        [panel] = figure.axes
        names = [label.get_text() for label in panel.get_yticklabels()]
        values = [text.get_text() for text in panel.texts]
        shown = dict(zip(names[12:], values[12:], strict=True))
        expected = {"ours: supervised, toy": "82.0 ± 1.4"}
        if given == baselines:  # of one seed, the other had no short sentence
            expected["ours: supervised, toy, up to 25 words"] = "91.0"
            expected["baseline: pcfg, toy, up to 25 words"] = "70.5"
        if given:
            expected["baseline: other, toy, up to 10 words"] = "60.0"
        assert shown == expected
        assert (names[4], values[4]) == ("Transformer (4 layers), WSJ only", "91.3")
        colours = [to_hex(text.get_color()) for text in panel.texts]
        assert (colours[4], colours[0], colours[-1]) == (COLOURS[0], GREY, COLOURS[1])
        assert (colours.count(COLOURS[2]), "green another parser" in panel.get_title(loc="right")) == (
            len(given),
            green,
        )
