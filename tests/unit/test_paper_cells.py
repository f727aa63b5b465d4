"""What each cell of `transduce paper` computes, with what, and under which name: by hand and by fakes."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from transduce.config import Config, apply_settings, preset
from transduce.experiments.paper import (
    figures,
    layer_types,
    positions,
    scaling,
    table1,
    table2,
    table3,
    table4,
    tagging,
    trained_models,
)
from transduce.experiments.paper.compatibility import KINDS, draw_weight
from transduce.experiments.paper.layer_types import Convolution, Kind, Shape, layer, layer_cost
from transduce.experiments.paper.learning import copying, draw_sequences, right_tokens, train
from transduce.experiments.paper.measure import count_flops
from transduce.experiments.paper.report import claims_table, differences, distinct, mean_and_spread, page, plot, select
from transduce.experiments.paper.scaling import _MIRROR, SETTINGS
from transduce.experiments.paper.toy_treebank import RULES, WORDS, random_tree
from transduce.training.device import Compute
from transduce.treebank import Tree

CPU = torch.device("cpu")


# --- layers and what they cost ----------------------------------------------------------------------------------

N, D, K = 10, 8, 3


@pytest.mark.parametrize(
    ("kind", "heads", "expected"),
    [
        ("attention", 1, 4 * N * N * D),  # two products of n × d × n, two operations per multiply-add
        ("attention", 4, 4 * N * N * D),
        ("attention layer", 2, 8 * N * D * D + 4 * N * N * D),
        ("convolution", 1, 2 * K * N * D * D),
        ("separable", 1, 2 * N * (K * D + D * D)),  # one channel each, then a product at each position
        ("recurrent", 1, 16 * N * D * D),
        ("simple recurrent", 1, 4 * N * D * D),
    ],
)
def test_the_operations_of_a_layer(kind: Kind, heads: int, expected: int) -> None:
    cost = layer_cost(kind, Shape(D, heads, K, 4), N, budget_seconds=0.0, memory=False)
    assert cost["flops"] == expected
    assert set(cost) == {"flops", "seconds"}
    assert cost["seconds"] > 0


def test_the_memory_of_a_layer_is_measured_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(layer_types, "peak_bytes", lambda run, device: 7)
    monkeypatch.setattr(
        layer_types,
        "shortest_seconds",
        lambda run, device, **options: calls.append(options) or 0.5,  # type: ignore[func-returns-value]
    )
    found = layer_cost("convolution", Shape(4), 9, dilation=3, budget_seconds=2.0)
    assert found == {"flops": 2 * 3 * 9 * 16, "seconds": 0.5, "peak_bytes": 7}
    assert calls == [{"budget_seconds": 2.0}]


def test_a_convolution_has_the_kernel_and_the_channels_that_it_is_asked_for() -> None:
    plain, separable = Convolution(6, 5, dilation=2), Convolution(6, 5, separable=True)
    assert [tuple(each.shape) for each in plain.parameters()] == [(6, 6, 5)]
    assert [tuple(each.shape) for each in separable.parameters()] == [(6, 1, 5), (6, 6, 1)]
    assert plain(torch.zeros(1, 20, 6)).shape == (1, 20, 6)
    shape = Shape(6, num_heads=3, k=5, r=8)
    made: Any = layer("restricted", shape)
    assert (made.window, made.num_heads) == (8, 3)
    made = layer("attention layer", shape)
    assert (made.attention.num_heads, made.attention.widths) == (3, (6, 6, 6))
    made = layer("convolution", shape, dilation=3)
    assert (made.over_positions.dilation, made.over_positions.padding) == ((3,), (6,))
    assert count_flops(lambda: layer("separable", shape)(torch.zeros(1, 9, 6))) == 2 * 9 * (5 * 6 + 36)


# --- Table 1 ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("attention", []),
        ("convolution", [(4096, Shape(256, 1, 9, 128))]),
        ("separable", [(4096, Shape(256, 1, 9, 128))]),
        ("restricted", [(4096, Shape(256, 1, 3, 64)), (4096, Shape(256, 1, 3, 256))]),
    ],
)
def test_other_kernels_and_windows_are_measured_at_the_middle_width(
    name: str, expected: list[tuple[int, Shape]]
) -> None:
    settings, row = table1.SETTINGS["laptop"], table1.ROWS[name]
    found = list(table1._sizes(row, settings))
    lengths = (512, 1024, 2048, 4096, *((8192, 16384) if name == "restricted" else ()))
    first = [(n, Shape(d, 1, 3, 128)) for n in lengths for d in (128, 256, 512)]
    assert found == [*first, *expected]


def test_a_cell_of_table_1_measures_its_own_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def cost(*given: Any, **options: Any) -> dict[str, float]:
        calls.append((given, options))
        return {"flops": 9}

    monkeypatch.setattr(table1, "layer_cost", cost)
    shape = Shape(16, 1, 5, 32)
    for name, dilation in (("convolution", 1), ("dilated", 3)):
        found = table1._cost(table1.ROWS[name], 64, shape, 0.5, print)
        assert found == {"n": 64, "d": 16, "k": 5, "r": 32, "flops": 9}
        assert calls.pop() == (("convolution", shape, 64), {"dilation": dilation, "budget_seconds": 0.5})


def test_what_section_4_says_in_prose_by_hand() -> None:
    """n = k = 5, d = 4: n²·d and n·d² multiplications, attention's n²·d twice."""
    settings = replace(table1.SETTINGS["smoke"], widths=(2, 4, 8))
    separable, attention = (table1._prose(kind, 5, settings, print) for kind in table1._PROSE_KINDS)
    assert (separable["n"], separable["d"]) == (5, 4)
    assert separable["flops"] == 2 * (5 * 5 * 4 + 5 * 4 * 4)
    assert attention["flops"] == 2 * (2 * 5 * 5 * 4 + 5 * 4 * 4)


def test_a_convolution_costs_half_of_k_tanh_layers() -> None:
    """At width 16 and n = 64: k · d² multiplications a position, and 2 · d² or 8 · d²."""
    settings = table1.SETTINGS["smoke"]
    settings = replace(settings, lengths=(64,), widths=(8, 16, 32), kernels=(3, 9))
    measured = {
        table1._cost_id("convolution", table1.ROWS["convolution"], n, shape): table1._cost(
            table1.ROWS["convolution"], n, shape, 0.0, print
        )
        for n, shape in table1._sizes(table1.ROWS["convolution"], settings)
    }
    found = table1._times_recurrent(settings, measured)
    assert found.startswith("k = 3: 1.50 × a tanh layer, 0.38 × an LSTM; k = 9: 4.50 × a tanh layer, 1.12 × an LSTM")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("attention", "cost/attention/n=64/d=16"),
        ("dilated", "cost/dilated/n=64/d=16/k=5"),
        ("separable", "cost/separable/n=64/d=16/k=5"),
        ("restricted", "cost/restricted/n=64/d=16/r=32"),
    ],
)
def test_cells_of_other_sizes_have_other_names(name: str, expected: str) -> None:
    assert table1._cost_id(name, table1.ROWS[name], 64, Shape(16, 1, 5, 32)) == expected


def test_the_report_of_table_1_shows_the_greatest_sizes() -> None:
    """Costs by formula: the fits find their powers; the row "at" is that of the greatest n and d, the first k and r."""
    settings = table1.SETTINGS["laptop"]
    measured: dict[str, Any] = {}
    for name, row in table1.ROWS.items():
        for n, shape in table1._sizes(row, settings):
            sizes = {"n": n, "d": shape.d, "k": shape.k, "r": shape.r}
            cost = {"flops": 2.0 * n * shape.d, "seconds": 1e-9 * n, "peak_bytes": 4.0 * n * shape.d**2}
            measured[table1._cost_id(name, row, n, shape)] = sizes | cost
        for n in settings.chain_lengths:
            measured[f"chain/{name}/n={n}"] = {"n": n, "operations": 3 * n if name == "recurrent" else 4}
    for name in table1._PATH_ROWS:
        for n in settings.path_lengths:
            measured[f"path/{name}/n={n}"] = {"n": n, "steps": n}
    for kind, flops in (("separable", 3.0), ("attention and feed-forward", 4.0)):
        for n in (33, 65):
            measured[f"prose/{kind}/n={n}"] = {"kind": kind, "n": n, "d": 256, "flops": n * flops, "seconds": flops / n}
    text = table1._render(settings, measured)
    claims = [line.strip("| ").split(" | ") for line in text.splitlines() if "O(n·d²)" in line and "k times" in line]
    # 2 · n · d operations, as above, against 4 · n · d² and 16 · n · d², at d = 256
    assert claims[0][2].startswith("k = 3: 0.00 × a tanh layer, 0.00 × an LSTM; k = 9: 0.00 × a tanh layer")
    ratios = "n = 33: 0.75 × the FLOPs, 0.75 × the time; n = 65: 0.75 × the FLOPs, 0.75 × the time"
    assert f"d = 256; {ratios}" in text
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:2] == "| "]
    powers = ["n^1.00 · d^1.00", "n^1.00 · d^0.00", "n^1.00 · d^2.00"]
    assert rows[2] == ["self-attention", "O(n²·d)", *powers]
    assert ["self-attention", "0.00419", "4.10 µs", "4,100 MiB"] in rows  # 2 · 4096 · 512 operations
    assert ["recurrent (LSTM)", "O(n)", "96, 192, 384, 768: n^1.00", "O(n)", "8, 16, 32, 64: n^1.00"] in rows
    assert ["separable convolution", "–", "4, 4, 4, 4: n^0.00", "–", "not measured"] in rows
    assert "## At n = 4096, d = 512, k = 3, r = 128" in text
    assert table1._TWO_SIZES not in text
    smoke = table1.SETTINGS["smoke"]
    assert len(smoke.lengths) < 3


# --- scaling ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_drawn_as_the_paper_assumes(kind: Any) -> None:
    """q · k has the variance d_k, a scaled one 1; at d_k = 4 all 4096 rows are drawn at once, at 64 in four parts."""
    for d_k in (4, 64):
        found = scaling._scores(kind, d_k, 16, print)
        assert (found["kind"], found["d_k"], found["keys"]) == (kind, d_k, 16)
        if kind != "additive":
            assert found["variance"] == pytest.approx(d_k if kind == "dot product" else 1, rel=0.1)
        assert 1 / 16 < found["greatest_weight"] < 1
        assert 0 < found["gradient"] < 1
    assert found == scaling._scores(kind, 64, 16, print)


def test_as_many_scores_are_drawn_whatever_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    scores = scaling.compatibility.scores

    def counting(kind: Any, query: torch.Tensor, key: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        drawn.append(len(query))
        assert key.shape == (len(query), 1, 3, query.size(-1))
        return scores(kind, query, key, weight)

    monkeypatch.setattr(scaling.compatibility, "scores", counting)
    for d_k, parts in ((4, [4096]), (16, [4096]), (64, [1024] * 4), (1024, [64] * 64)):
        drawn.clear()
        scaling._scores("dot product", d_k, 3, print)
        assert drawn == parts


def test_the_last_layer_of_additive_attention_has_variance_one_over_d_k() -> None:
    torch.manual_seed(0)
    assert float(draw_weight(10_000).var()) == pytest.approx(1e-4, rel=0.1)


def test_cells_of_scaling_measure_their_own_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def noting(name: str, result: dict[str, Any]) -> None:
        def fake(*given: Any, **options: Any) -> dict[str, Any]:
            calls.append((name, given, options))
            return result

        monkeypatch.setattr(scaling, name, fake)

    noting("layer_cost", {"flops": 1})
    noting("train_tagger", {"loss": 2})
    settings = replace(SETTINGS["laptop"], seconds_a_cell=0.25)
    assert scaling._heads(8, settings, print) == {"heads": 8, "d_model": 512, "n": 512, "flops": 1}
    assert scaling._crossover("recurrent", 64, settings, print) == {"kind": "recurrent", "n": 64, "d": 256, "flops": 1}
    assert calls == [
        ("layer_cost", ("attention layer", Shape(512, 8), 512), {"budget_seconds": 0.25}),
        ("layer_cost", ("recurrent", Shape(256), 64), {"budget_seconds": 0.25, "memory": False}),
    ]
    calls.clear()
    assert scaling._mirror(settings, "additive", 16, 3, print) == {"kind": "additive", "d_k": 16, "seed": 3, "loss": 2}
    assert scaling._two_places(settings, 4, 2, print) == {"heads": 4, "seed": 2, "loss": 2}
    (_, mirror, _), (_, places, _) = calls
    assert mirror[:3] == (replace(settings.mirror, d_k=16), "additive", 3)
    # As many operations and parameters whatever the heads: 64 / 4.
    assert places[:3] == (replace(settings.two_places, num_heads=4, d_k=16), "scaled dot product", 2)


def test_the_speed_of_attention_is_at_the_width_of_a_head_of_the_base(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def attend_by(kind: str, *given: torch.Tensor) -> torch.Tensor:
        seen.append((kind, [tuple(each.shape) for each in given]))
        return given[0]

    def seconds(run: Any, device: Any, budget_seconds: float) -> float:
        run()
        return budget_seconds

    monkeypatch.setattr(scaling.compatibility, "attend_by", attend_by)
    monkeypatch.setattr(scaling, "shortest_seconds", seconds)
    monkeypatch.setattr(scaling, "peak_bytes", lambda run, device: 5)
    found = scaling._speed("additive", 20, 0.125, print)
    assert found == {"kind": "additive", "n": 20, "d_k": 64, "seconds": 0.125, "peak_bytes": 5}
    assert seen == [("additive", [(1, 1, 20, 64)] * 3 + [(64,)])]


def test_the_cells_of_scaling_by_name() -> None:
    names = [each.name for each in scaling._measurements(SETTINGS["smoke"])]
    assert names[:4] == [
        f"scores/{KINDS[0]}/d_k=4",
        f"scores/{KINDS[0]}/d_k=64",
        *[f"scores/{KINDS[1]}/d_k={n}" for n in (4, 64)],
    ]
    assert names[6:9] == [f"speed/{kind}/n=16" for kind in KINDS]
    assert names[12:14] == ["heads/h=1", "heads/h=4"]
    assert [name for name in names if name.startswith("crossover/recurrent")] == [
        f"crossover/recurrent/n={n}" for n in (16, 32, 64)
    ]
    assert names[-2:] == ["two places/h=1/seed=1", "two places/h=2/seed=1"]
    assert len(names) == 3 * 2 + 2 * 3 + 2 + 4 * 3 + 2 * 3 + 2


# --- tasks and training -----------------------------------------------------------------------------------------


def test_the_learning_rate_of_a_tagger_rises_over_a_tenth_of_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    step = torch.optim.Adam.step

    def noting(self: torch.optim.Adam, *given: Any) -> Any:
        rates.append(self.param_groups[0]["lr"])
        return step(self, *given)

    monkeypatch.setattr(torch.optim.Adam, "step", noting)
    small = replace(_MIRROR, length=4, num_symbols=4, num_layers=1, d_model=8, d_k=8, max_steps=40, learning_rate=0.5)
    tagging.train_tagger(small, "dot product", 1, CPU, print)
    assert rates == pytest.approx([0.125, 0.25, 0.375, *[0.5] * 37])


def test_the_loss_of_a_tagger_is_the_mean_of_its_last_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter(range(1, 100))
    monkeypatch.setattr(
        tagging.F, "cross_entropy", lambda logits, answers: 0 * logits.sum() + next(numbers), raising=True
    )
    small = replace(_MIRROR, length=4, num_symbols=4, num_layers=1, d_model=8, d_k=8, max_steps=20)
    found = tagging.train_tagger(small, "dot product", 1, CPU, print)
    assert found["loss"] == pytest.approx((19 + 20) / 2)


def test_the_sizes_of_a_tagger() -> None:
    made = tagging.Tagger(replace(_MIRROR, num_layers=3, d_model=16, num_heads=4, d_k=6), "additive")
    attention: Any = made.attention[2]
    assert (len(made.attention), len(made.feed_forward), len(made.residuals)) == (3, 3, 6)
    assert (attention.kind, attention.num_heads) == ("additive", 4)
    shapes = [tuple(part.weight.shape) for part in (attention.query, attention.key, attention.value, attention.output)]
    assert shapes == [(24, 16), (24, 16), (16, 16), (16, 16)]  # d_v is d_model / heads
    assert attention.weight.requires_grad
    inner: Any = made.feed_forward[0]
    assert (inner.inner.out_features, inner.dropout, made.answers.out_features) == (32, 0.0, 16)
    other: Any = tagging.Tagger(_MIRROR, "dot product").attention[0]
    assert not other.weight.requires_grad


def test_sequences_are_of_ordinary_symbols_and_copies_of_themselves() -> None:
    drawn = draw_sequences(np.random.default_rng(0), [3, 500], 5)
    assert [len(each) for each in drawn] == [3, 500]
    assert set(drawn[1].tolist()) == {4, 5, 6, 7, 8}
    batch = copying([np.array([5, 6]), np.array([7])], CPU)
    assert batch.source_BS.tolist() == batch.target_BT.tolist() == [[5, 6, 2], [7, 2, 0]]
    assert batch.source_lengths_B.tolist() == batch.target_lengths_B.tolist() == [3, 2]


def test_right_tokens_are_those_of_the_targets() -> None:
    logits = torch.eye(9)[[5, 4, 2, 7, 2]]  # the second symbol is wrong
    fake: Any = type("Fake", (), {"__call__": lambda self, *given: None, "logits": lambda self, states: logits})()
    assert right_tokens(fake, copying([np.array([5, 6]), np.array([7])], CPU)).tolist() == [
        True,
        False,
        True,
        True,
        True,
    ]


def test_training_draws_from_its_seed_with_the_rates_of_its_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[tuple[int, float]] = []
    said: list[str] = []

    def rate(step: int, config: Config) -> float:
        rates.append((step, config.train.learning_rate_factor))
        return 0.0

    monkeypatch.setattr("transduce.experiments.paper.learning.learning_rate", rate)
    sizes = ["vocab_size=9", "d_model=4", "d_ff=4", "num_heads=1", "d_k=4", "d_v=4", "num_encoder_layers=1"]
    settings = [f"model.{each}" for each in (*sizes, "num_decoder_layers=1")]
    config = apply_settings(Config(), [*settings, "train.max_steps=50", "train.seed=7"])
    drawn: list[int] = []

    def make(generator: np.random.Generator) -> Any:
        drawn.append(int(generator.integers(1000)))
        return copying([np.array([5, 6])], CPU)

    model, _ = train(config, make, Compute.of("cpu", "fp32"), said.append)
    expected = np.random.default_rng(7)
    assert drawn == [int(expected.integers(1000)) for _ in range(50)]
    assert rates == [(step, config.train.learning_rate_factor) for step in range(1, 51)]
    assert [line.partition(", loss")[0] for line in said] == ["step 50 of 50"]
    again, _ = train(config, make, Compute.of("cpu", "fp32"), said.append)
    assert torch.equal(model.source_embedding, again.source_embedding)


def test_a_tree_ends_soon_below_its_fifth_level() -> None:
    class Last:
        """Always takes the last expansion, which for NP is the one that goes on and on."""

        def choice(self, items: Any) -> Any:
            return items[-1]

    tree = random_tree(Last(), "NP")  # type: ignore[arg-type]

    def depth(node: Any) -> int:
        return 1 + max(map(depth, node.children)) if isinstance(node, Tree) else 0

    assert depth(tree) == 5 + 2  # a PP at the sixth has a noun phrase of words
    assert {part for rules in RULES.values() for rule in rules for part in rule} == {*RULES, *WORDS} - {"S"}


# --- Tables 2 to 4 and the figures ------------------------------------------------------------------------------


@pytest.mark.parametrize("any_source", [False, True])
def test_table_3_counts_trainings_of_other_source_only_on_request(tmp_path: Path, any_source: bool) -> None:
    experiment = table3.experiment(table3.Table3Options("smoke", tmp_path, any_source=any_source, quiet=any_source))
    study = experiment.measurements[0].measure.func.__self__  # type: ignore[attr-defined]
    assert (study.ablation.any_source, study.show_progress, study.demo) == (any_source, not any_source, True)
    assert study.ablation.output == tmp_path / "ablation"
    assert [each.name for each in experiment.measurements] == ["base", "A1", "D3", "E"]
    base = study.ablation.base
    assert (base.model.num_encoder_layers, base.model.norm, base.model.d_model) == (1, "post", 32)


def test_changes_of_the_user_come_after_those_of_the_scale(tmp_path: Path) -> None:
    options = table3.Table3Options("smoke", tmp_path, settings=["model.norm=pre", "train.max_steps=3"])
    base = table3.experiment(options).measurements[0].measure.func.__self__.ablation.base  # type: ignore[attr-defined]
    assert (base.model.norm, base.train.max_steps) == ("pre", 3)


def test_a_system_of_table_2_reports_its_training(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = apply_settings(preset("tiny"), ["data.source_language=en", "data.target_language=de", "data.folder=a/own"])
    config = replace(config, data=replace(config.data, test={"t": ("a", "b")}))
    calls: list[Any] = []
    monkeypatch.setattr(table2, "trained", lambda *given, **options: calls.append((given, options)))
    monkeypatch.setattr(table2, "make_demo", lambda given: calls.append(given))
    monkeypatch.setattr(table2, "data_folder", lambda run: run / "data")
    monkeypatch.setattr(table2, "load_prepared", lambda folder, checksums: SimpleNamespace(train=(folder, checksums)))
    monkeypatch.setattr(table2.ParallelStore, "open", lambda path: [path] * 12)
    bundle = SimpleNamespace(config=config, metrics={"steps": 5})
    monkeypatch.setattr(table2.Bundle, "load", lambda folder: bundle)
    here = table2.System("mine", "en-de", config, tmp_path / "model", tmp_path)
    found = table2._train(here, True, print)
    assert calls == [((config, tmp_path, print), {"show_progress": True})]
    figures_of = ("name", "pair", "trained_here", "corpus", "training_pairs", "max_steps", "batch_tokens", "metrics")
    own = (config.train.max_steps, config.train.target_batch_tokens, {"steps": 5})
    assert [found[key] for key in figures_of] == ["mine", "en-de", True, "own", 12, *own]
    assert (found["model"]["d_model"], found["decode"]["beam_size"]) == (config.model.d_model, config.decode.beam_size)
    calls.clear()
    finished = table2._train(replace(here, run=None), True, print)
    assert (finished["trained_here"], finished["training_pairs"], calls) == (False, None, [])
    demo = table2._train(replace(here, demo=True), False, print)
    assert (demo["corpus"], calls) == (
        "the demo's corpus",
        [config, ((config, tmp_path, print), {"show_progress": False})],
    )
    named = replace(config, data=replace(config.data, download="multi30k-en-de"))
    monkeypatch.setattr(bundle, "config", named)
    assert table2._train(replace(here, run=None), False, print)["corpus"] == "multi30k-en-de"


def test_a_model_is_named_with_its_pair(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = apply_settings(Config(), ["data.source_language=en", "data.target_language=de"])
    config = replace(config, data=replace(config.data, test={"t": ("a", "b")}))
    loaded: list[Path] = []

    def load(folder: Path) -> Any:
        loaded.append(folder)
        return SimpleNamespace(config=config)

    monkeypatch.setattr(table2.Bundle, "load", load)
    monkeypatch.setattr(table2, "with_data", lambda given, data, remedy, test_only: given if test_only else None)
    (tmp_path / "m:en-fr").mkdir()  # a folder that is there is no pair
    cases = (
        ("m:en-fr", "m", "en-fr"),
        ("m", "m", "en-de"),
        (str(tmp_path / "m:en-fr"), str(tmp_path / "m:en-fr"), "en-de"),
    )
    for named, folder, pair in cases:
        system = table2._from_model(named, None)
        assert (system.name, system.pair, system.model, system.run) == (folder, pair, Path(folder), None)
    assert loaded == [Path(folder) for _, folder, _ in cases]


def test_a_parser_of_table_4_learns_from_its_own_trees(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = apply_settings(Config(name="own"), ["data.format=trees", "data.train=[['a'],['b']]"])
    config = replace(config, data=replace(config.data, folder=str(tmp_path)))
    for name in ("a", "b"):
        tmp_path.joinpath(name).touch()
    trees = {"a": 10, "b": 20, "silver": 65}
    monkeypatch.setattr(table4, "_count", lambda paths: sum(trees[path.name] for path in paths))
    trained: list[Any] = []
    monkeypatch.setattr(
        table4, "trained", lambda config, run, say, show_progress: trained.append((config, run, show_progress))
    )
    monkeypatch.setattr(table4.Bundle, "load", lambda model: SimpleNamespace(config=config, metrics={}))
    loaded: list[Any] = []
    monkeypatch.setattr(table4.Parser, "load", lambda model, engine, constrained: loaded.append((engine, constrained)))
    monkeypatch.setattr(table4, "read_test_trees", lambda config: {})
    semi = replace(config, train=replace(config.train, max_steps=9))
    task = table4.Task(config, semi, tmp_path, None, Path("silver"), False, True)
    found = [table4._train(task, setting, 3, print) for setting in (table4.SUPERVISED, table4.SEMI)]
    assert [(each["gold_trees"], each["silver_trees"], each["recipe"]) for each in found] == [
        (30, 0, "own"),
        (30, 65, "own"),
    ]
    (alone, run, shown), (both, other, _) = trained
    assert (alone.name, alone.data, alone.train.seed, shown) == ("own-supervised", config.data, 3, True)
    assert (both.name, both.train.max_steps, both.train.seed) == ("own-semi-supervised", 9, 3)
    assert both.data.train == (("a",), ("b",), (str(Path("silver").resolve()),))
    assert both.data.repeat == (2, 2, 1)  # 65 silver trees for 30 gold ones
    assert (run, other) == (tmp_path / "runs" / "supervised-seed3", tmp_path / "runs" / "semi-supervised-seed3")
    table4._train(replace(task, constrained=True), table4.SUPERVISED, 3, print)
    assert loaded == [("auto", False), ("auto", False), ("torch", True)]


def test_trainings_of_table_4_count_on_from_the_seed_of_the_recipe(tmp_path: Path) -> None:
    config = apply_settings(Config(), ["train.seed=5"])
    task = table4.Task(config, config, tmp_path, tmp_path / "raw", tmp_path / "silver", False, True)
    cells = list(table4._measurements(task, 2))
    assert [each.name for each in cells] == [
        *("supervised/seed=5", "supervised/seed=6", "silver", "semi-supervised/seed=5", "semi-supervised/seed=6")
    ]
    assert cells[2].measure.args == (task, tmp_path / "raw", 5)  # type: ignore[attr-defined]
    assert cells[4].measure.args == (task, table4.SEMI, 6)  # type: ignore[attr-defined]
    alone = table4._measurements(replace(task, semi=None), 1)
    assert [each.name for each in alone] == ["supervised/seed=5"]


def test_sentences_of_the_figures_may_be_the_users(tmp_path: Path) -> None:
    options = figures.FiguresOptions(
        "smoke", tmp_path, sentence="a b", word="b", related=["a"], anaphora="it is it", anaphor="it", antecedent="is"
    )
    assert options.sentences == figures.Sentences("a b", "b", ("a",), "it is it", "it", "is")
    first = replace(options, anaphora=None, anaphor=None, antecedent=None).sentences
    usual = figures.SENTENCES["smoke"]
    assert first == replace(usual, sentence="a b", word="b", related=("a",))
    experiment = figures.experiment(replace(options, layer=2))
    assert (experiment.settings["layer"], experiment.settings["word"]) == (2, "b")
    assert [each.name for each in experiment.measurements] == ["model", "figure3", "figure4", "figure5"]
    attend = experiment.measurements[1].measure.args[0]  # type: ignore[attr-defined]
    assert attend.args == (tmp_path / "runs" / "demo" / "model", 2)


# --- parts of reports -------------------------------------------------------------------------------------------


def test_parts_of_a_report() -> None:
    assert page("a", ["b", "c"], "d") == "a\n\nb\n\nc\n\nd"
    assert differences(["- x", "- y"], "laptop", "small.") == "## What differs from the paper\n\n- x\n- y"
    assert differences(["- x"], "smoke", "small.") == "## What differs from the paper\n\n- **Smoke scale: small.**\n- x"
    assert claims_table({"c": "p"}, ["m"], heading="h").splitlines()[0] == "| h | printed | measured |"
    assert (mean_and_spread([91.304]), mean_and_spread([1.0, 2.0, 3.0])) == ("91.30", "2.00 ± 1.00")
    measured = {"a/x": {"d": 1, "n": 2}, "a/y": {"d": 2, "n": 2}, "ab/z": {"d": 1, "n": 3}}
    assert select(measured, "a") == [{"d": 1, "n": 2}, {"d": 2, "n": 2}]
    assert select(measured, "a", d=2, n=2) == [{"d": 2, "n": 2}]
    assert select(measured, "a", d=2, n=3) == []
    assert distinct(measured.values(), "d") == [1, 2]
    drawn: list[Any] = []
    axis = SimpleNamespace(plot=lambda *given, **style: drawn.append((given, style)))
    plot(axis, [{"x": 1, "y": 4}, {"x": 2, "y": 6}], "x", "y", scale=0.5, ms=3, label="l")
    assert drawn == [(([1, 2], [2.0, 3.0]), {"marker": "o", "ms": 3, "label": "l"})]


def test_the_training_of_a_copy_is_as_it_is_described() -> None:
    settings = positions.SETTINGS["laptop"]
    config = positions.copy_config(settings, "learned", 3)
    train_config, model = config.train, config.model
    assert (train_config.max_steps, train_config.warmup_steps, train_config.seed) == (1000, 166, 3)
    assert (train_config.learning_rate_factor, train_config.max_gradient_norm, train_config.label_smoothing) == (
        *(0.2, 0.5, 0.0),
    )
    assert (model.vocab_size, model.d_model, model.d_ff, model.num_heads, model.d_k, model.d_v) == (
        24,
        64,
        128,
        4,
        16,
        16,
    )
    assert (model.num_encoder_layers, model.num_decoder_layers, model.norm, model.dropout) == (2, 2, "pre", 0.0)
    assert (model.positions, model.max_positions, config.name) == ("learned", 37, "copy-learned")


def test_what_differs_from_table_3_names_its_own_training(tmp_path: Path) -> None:
    options = table3.Table3Options(
        "smoke",
        tmp_path,
        settings=["train.target_batch_tokens=4321", "train.source_batch_tokens=1234", "model.dropout=0.25"],
        seeds=2,
    )
    study = table3.experiment(options).measurements[0].measure.func.__self__  # type: ignore[attr-defined]
    seeds = [{"row": "base", "seed": seed, "perplexity": 6.0, "bleu": 20.0, "epochs": 1.0 + seed} for seed in (1, 2)]
    text = "\n".join(table3._differences(study, {"base": {"bleu": "a BLEU", "seeds": seeds}}))
    assert "10 steps of at most 4,321 target tokens (2.5 epochs), 2 seeds; the paper's" in text
    assert "- Base: 1 + 1 layers, d_model 32, d_ff 128, 8 heads of 4, dropout 0.25, post-norm;" in text
    assert "of 300 pieces here and 37,000 there" in text
    assert "- BLEU: a BLEU;" in text
    assert "scores cannot." in text
    assert (
        "- Not trained here: rows A1, A2, A3, A4, B1, B2, C1, C2, C3, C4, C5, C6, C7, D1, D2, D3, D4, E, E2, big."
        in text
    )


def test_models_that_are_trained_in_seconds_do_nothing_else() -> None:
    config = trained_models.seconds_config("quick", max_steps=20, settings=["decode.beam_size=3"])
    found = config.train
    assert (found.max_steps, found.checkpoint_steps, found.average_last, found.warmup_steps) == (20, 6, 1, 10)
    assert (found.validate_steps, found.validate_bleu, found.cooldown_steps) == (0, False, 0)
    assert (config.name, config.decode.beam_size, config.text.vocab_size) == ("quick", 3, 300)
    assert (config.model.d_model, config.model.num_encoder_layers, config.model.num_decoder_layers) == (32, 2, 2)
    assert trained_models.seconds_config("quick", max_steps=2).train.checkpoint_steps == 1


def test_test_files_are_named_within_their_corpus(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "t.de"
    (tmp_path / "own" / "deep").mkdir(parents=True)
    elsewhere.parent.mkdir()
    for path in (tmp_path / "own" / "deep" / "t.en", elsewhere):
        path.write_text(path.name)
    config = apply_settings(Config(), [f"data.folder={tmp_path / 'own'}"])
    config = replace(config, data=replace(config.data, test={"t": ("deep/t.en", str(elsewhere))}))
    found = trained_models.checksums_of_tests(config)
    assert list(found["t"]) == ["deep/t.en", "t.de"]
