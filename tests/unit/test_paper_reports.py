"""The figures that the reports of `transduce paper` work out from measurements, by hand."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from transduce.config import Config, apply_settings, preset
from transduce.errors import TrainingError
from transduce.experiments.ablation.results import Results, TrialResult
from transduce.experiments.ablation.trials import Ablation
from transduce.experiments.paper import positions, scaling_report, table1, table3, table4, table4_report
from transduce.experiments.paper.compatibility import KINDS
from transduce.experiments.paper.layer_types import Shape
from transduce.training.batch import Batch
from transduce.treebank import Leaf, Tree

MIB = 2**20


def cells(page: str, first: str) -> list[str]:
    """Returns the cells behind the first one of a row of the page."""
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


# --- scaling ----------------------------------------------------------------------------------------------------

# By kind, in the order of KINDS: scaled, unscaled, additive; then at d_k = 4 and 16.
VARIANCES, GRADIENTS = ((1.0, 1.0), (4.4, 32.0), (0.5, 0.6)), ((0.4, 0.35), (0.3, 0.002), (0.45, 0.25))
RIGHT = (((0.5, 0.7), (1.0, 0.9)), ((0.4, 0.6), (0.2, 0.4)), ((0.8, 0.8), (0.9, 0.9)))  # and two seeds
SECONDS, MEMORY = ((0.001, 0.002), (0.005, 0.009), (0.004, 0.012)), ((1, 2), (3, 3), (8, 50))  # at n = 64 and 128
CROSSOVER = {  # FLOPs and seconds at n = 16, 64 and 256
    "attention": ((256, 4096, 65536), (1.0, 2.0, 3.0)),
    "simple recurrent": ((1024, 4096, 16384), (5.0, 6.0, 7.0)),
    "recurrent": ((100, 100, 100), (0.5, 0.5, 0.5)),
    "attention layer": ((50, 200, 400), (0.25, 1.0, 4.0)),
}


def scaling_measured() -> dict[str, Any]:
    measured: dict[str, Any] = {}
    for k, kind in enumerate(KINDS):
        for i, d_k in enumerate((4, 16)):
            scores = {"variance": VARIANCES[k][i], "gradient": GRADIENTS[k][i], "greatest_weight": 0.125}
            measured[f"scores/{kind}/d_k={d_k}"] = {"kind": kind, "d_k": d_k, "keys": 64, **scores}
            for seed in (1, 2):
                learned = {"d_k": d_k, "seed": seed, "loss": float(seed), "right": RIGHT[k][i][seed - 1]}
                measured[f"mirror/{kind}/d_k={d_k}/seed={seed}"] = learned
        for i, n in enumerate((64, 128)):
            speed = {"n": n, "seconds": SECONDS[k][i], "peak_bytes": MEMORY[k][i] * MIB}
            measured[f"speed/{kind}/n={n}"] = speed
    for heads, flops, spent in ((1, 10, 2.0), (2, 10, 5.0), (4, 12, 4.0)):
        sizes = {"heads": heads, "d_model": 64, "n": 32}
        measured[f"heads/h={heads}"] = sizes | {"flops": flops * 1e9, "seconds": spent, "peak_bytes": MIB}
    for kind, (flops_of, seconds_of) in CROSSOVER.items():
        for n, flops, spent in zip((16, 64, 256), flops_of, seconds_of, strict=True):
            measured[f"crossover/{kind}/n={n}"] = {"n": n, "d": 128, "flops": flops, "seconds": spent}
    for heads, rights in ((1, (0.5, 0.3)), (4, (0.9, 0.8))):
        for seed, right in enumerate(rights, start=1):
            learned = {"heads": heads, "seed": seed, "loss": float(seed), "right": right}
            measured[f"two places/h={heads}/seed={seed}"] = learned
    return measured


def test_the_claims_of_the_report_on_scaling() -> None:
    page = scaling_report.render(scaling_measured())
    rows = [line for line in page.splitlines() if "§" in line and line.startswith("| ")]
    assert [line.strip("|").split("|")[2].strip() for line in rows] == [
        "variance / d_k: 1.10, 2.00",
        "median gradient at d_k = 16: scaled dot product 0.350, dot product 0.00200, additive 0.250",
        "answers right, d_k = 4: scaled dot product 60.0%, dot product 50.0%, additive 80.0%",
        "answers right, d_k = 16: scaled dot product 95.0%, dot product 30.0%, additive 90.0%",
        "answers right: h = 1 40.0%, h = 4 85.0%",
        "n = 128: 6.00 × the time, 25.0 × the memory",  # of the scaled dot product
        "most / least, h = 1, 2, 4: FLOPs 1.20, time 2.50",
        "d = 128: the tanh recurrence needs fewer FLOPs from n = 64, less time from n = more than 256",
    ]


def test_the_tables_of_the_report_on_scaling() -> None:
    page = scaling_report.render(scaling_measured())
    scores, learned = page[page.index("## Scores") :].split("## What a model learns")
    assert cells(scores.split("## Speed")[0], "16")[:6] == ["1.00", "32.0", "0.600", "0.350", "0.00200", "0.250"]
    learned = learned.split("## Speed")[0]
    assert cells(learned, "16") == ["1.500 / 95.0%", "1.500 / 30.0%", "1.500 / 90.0%"]
    assert cells(page, "additive | seconds") == ["seconds", "4.00 ms", "12.0 ms", "n^1.58"]  # three times: 2^1.58
    assert cells(page, "additive | peak") == ["peak", "8.00 MiB", "50.0 MiB", "n^2.64"]
    layer, places = page[page.index("## One head against many: a layer of d_model = 64 at n = 32") :].split("naming")
    assert cells(layer, "4") == ["16", "12.0", "4.00 s", "1.00 MiB"]
    assert cells(places.split("## Self")[0], "4") == ["1.500", "85.0%"]
    attention = "self-attention, mixing alone"
    assert cells(page, f"{attention} / recurrent, tanh") == ["64", "more than 256"]
    assert cells(page, f"{attention} / recurrent, LSTM") == ["16 or less", "16 or less"]
    # From half of it at 16 to twice as much at 64: the same at √(16 · 64).
    assert cells(page, "self-attention with its projections / recurrent, LSTM") == ["32", "32"]
    assert cells(page, "recurrent, tanh") == ["5.00 s", "6.00 s", "7.00 s"]


# --- positions --------------------------------------------------------------------------------------------------


def test_the_report_on_positions() -> None:
    """Trained on lengths up to 4, with two seeds; sequences are right half as often as tokens."""
    settings = replace(
        positions.SETTINGS["smoke"], trained_length=4, tested_lengths=(2, 4, 6, 8), seeds=(1, 2), shifts=(1, 7)
    )
    found = {
        "sinusoidal": ((1.0, 0.9, 0.5, 0.3), (1.0, 0.7, 0.7, 0.5)),
        "learned": ((0.8, 0.8, 0.2, 0.0), (0.6, 0.6, 0.4, 0.2)),
    }
    measured: dict[str, Any] = {}
    for kind, by_seed in found.items():
        for seed, shares in enumerate(by_seed, start=1):
            tokens = {str(length): share for length, share in zip((2, 4, 6, 8), shares, strict=True)}
            sequences = {length: share / 2 for length, share in tokens.items()}
            measured[f"copy/{kind}/seed={seed}"] = {"tokens_right": tokens, "sequences_right": sequences}
    names = ("constructed", "found", "found_beyond", "matrices_differ", "random_table")
    for shift, first in ((1, 3.0e-8), (7, 1.0e-8)):
        values = {name: first * 10**power for power, name in enumerate(names)}
        measured[f"shift/k={shift}"] = {"shift": shift, **values}
    page = positions._render(settings, measured)
    claims = [line.strip("|").split("|")[2].strip() for line in page.splitlines()[2:5]]
    assert claims == [
        "tokens right, lengths up to 4: sinusoidal 90.0% (85.0% – 95.0%), learned 70.0% (60.0% – 80.0%)",
        "tokens right, longer than 4: sinusoidal 50.0% (40.0% – 60.0%), learned 20.0% (10.0% – 30.0%)",
        "greatest error of the constructed rotation, all k and pos: 3.0e-08",
    ]
    copying, shifted = page.split("## PE(pos + k)")
    assert cells(copying, "4") == [
        "80.0% (70.0% – 90.0%)",
        "70.0% (60.0% – 80.0%)",
        "40.0% (35.0% – 45.0%)",
        "35.0% (30.0% – 40.0%)",
    ]
    assert cells(copying, "6 (longer than any seen)")[0] == "60.0% (50.0% – 70.0%)"
    assert cells(shifted, "7") == ["1.0e-08", "1.0e-07", "1.0e-06", "1.0e-05", "1.0e-04"]


@pytest.mark.parametrize("kind", positions.KINDS)
def test_a_copy_is_right_with_its_end(kind: positions.Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every token is predicted, but the end of every other sequence is not."""
    settings = positions.SETTINGS["smoke"]
    assert positions.copy_config(settings, kind, 3).model.max_positions == 6 + 1  # the longest and its end
    assert positions.copy_config(settings, kind, 3).train.seed == 3

    def right_tokens(model: str, batch: Batch) -> torch.Tensor:
        right = torch.ones(batch.target_BT.shape, dtype=torch.bool)
        right[::2, -1] = False
        return right.flatten()

    monkeypatch.setattr(positions, "train", lambda *_: ("a model", 0.25))
    monkeypatch.setattr(positions, "right_tokens", right_tokens)
    found = positions._copy(settings, kind, 3, print)
    assert (found["kind"], found["seed"], found["loss"]) == (kind, 3, 0.25)
    assert found["tokens_right"] == {str(n): pytest.approx(1 - 0.5 / (n + 1)) for n in (2, 4, 6)}
    assert found["sequences_right"] == {"2": 0.5, "4": 0.5, "6": 0.5}


# --- Table 1 ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "heads", "lengths", "more"),
    [
        ("attention", 1, (64, 128), None),
        ("attention layer", 4, (64, 128), None),
        ("recurrent", 1, (64, 128), None),
        ("convolution", 1, (64, 128), Shape(32, 1, 5, 32)),
        ("separable", 1, (64, 128), Shape(32, 1, 5, 32)),
        ("restricted", 1, (64, 128, 256), Shape(32, 1, 3, 64)),
    ],
)
def test_the_sizes_at_which_a_layer_is_measured(
    name: str, heads: int, lengths: tuple[int, ...], more: Shape | None
) -> None:
    """All n × d at the first k and r; others at the greatest n and the middle d of those that all layers have."""
    found = list(table1._sizes(table1.ROWS[name], table1.SETTINGS["smoke"]))
    expected = [(n, Shape(d, heads, 3, 32)) for n in lengths for d in (16, 32)]
    assert found == expected + ([(128, more)] if more else [])


def test_growth_is_a_power_of_n_or_of_its_logarithm() -> None:
    samples = [{"n": n, "operations": 2 * n, "steps": steps} for n, steps in ((3, 2), (9, 4), (27, 6))]
    assert table1._growth(samples, "operations") == "6, 18, 54: n^1.00"
    assert table1._growth(samples[:1], "operations") == "6: too few sizes"
    dilated, plain = table1.ROWS["dilated"], table1.ROWS["attention"]
    assert table1._path_growth(dilated, samples) == "2, 4, 6: 2.00 more for each factor k of n"
    assert table1._path_growth(plain, samples) == "2, 4, 6: n^0.50"  # ln 3 / ln 9
    grid = [{"n": n, "d": d, "k": 3, "r": 8, "flops": n * n * d} for n in (2, 4) for d in (8, 16)]
    assert table1._powers(grid, "flops") == "n^2.00 · d^1.00"


def test_paths_of_a_recurrent_layer_go_forwards_only() -> None:
    for name, steps in (("attention", 1), ("recurrent", 5), ("convolution", 4)):
        assert table1._path(table1.ROWS[name], 5, print) == {"n": 5, "steps": steps}


# --- Tables 3 and 4 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "tokenized", "jobs"),
    [
        ({"jobs": 4, "seeds": 3, "tokenized": True}, True, 3),  # no more than a row has trainings
        ({"jobs": 2, "seeds": 3}, False, 2),
        ({}, False, 1),  # the scale has two seeds and a tokenised corpus, but of a recipe of its own
    ],
)
def test_the_trainings_of_table_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], tokenized: bool, jobs: int
) -> None:
    monkeypatch.setattr(table3, "recipe_config", lambda recipe, data: preset("tiny"))
    experiment = table3.experiment(table3.Table3Options("laptop", tmp_path, recipe=tmp_path / "own.toml", **options))
    study = experiment.measurements[0].measure.func.__self__  # type: ignore[attr-defined]
    assert (study.jobs, study.ablation.tokenized) == (jobs, tokenized)
    assert study.ablation.num_seeds == experiment.settings["seeds"] == options.get("seeds", 2)
    assert (study.ablation.base.model.d_model, study.ablation.base.train.max_steps) == (64, 4000)


def test_a_row_has_the_trainings_of_its_own_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of an earlier call with more seeds do not count; one that failed is an error."""
    trials = [TrialResult(row, seed, bleu=float(seed)) for row in ("base", "A1") for seed in (1, 2, 3)]
    ablation = Ablation(table3.GRID, preset("tiny"), tmp_path, 2)
    study = table3.Study(ablation, jobs=2, demo=False, show_progress=False)
    asked: list[Any] = []

    def ablate(*arguments: Any, jobs: int, show_progress: bool) -> Results:
        asked.append((*arguments, jobs))
        return Results("table3", "tiny", "a BLEU", (), tuple(trials))

    monkeypatch.setattr(table3, "ablate", ablate)
    found = study.measure("A1", print)
    assert [(each["row"], each["seed"], each["bleu"]) for each in found["seeds"]] == [("A1", 1, 1.0), ("A1", 2, 2.0)]
    assert (found["bleu"], asked) == ("a BLEU", [(ablation, ["A1"], 2)])
    trials[4] = replace(trials[4], error="no memory")
    with pytest.raises(TrainingError, match="table3, row A1, seed 2: no memory"):
        study.measure("A1", print)


def test_gold_trees_of_the_semi_supervised_parser_are_all_repeated(tmp_path: Path) -> None:
    (tmp_path / "semi.toml").write_text("[data]\nformat = 'trees'\ntrain = [['x']]\nrepeat = [10]\n[model]\nd_ff = 8\n")
    config = apply_settings(Config(), ["data.format=trees", "data.train=[['a'],['b']]", "data.folder=here"])
    semi = table4._semi_recipe(tmp_path / "semi.toml", config, ["train.max_steps=9"])
    assert semi.data == replace(config.data, repeat=(10, 10))
    assert (semi.model.d_ff, semi.train.max_steps) == (8, 9)


def test_a_bar_of_table_4_is_a_mean_with_the_deviation_of_a_sample() -> None:
    scores = {("supervised", "toy"): [{"f1": 80.0}, {"f1": 82.0}], ("semi-supervised", "toy"): [{"f1": 83.0}]}
    bars = [bar[:3] for bar in table4_report._bars(scores, ", short")]
    assert bars == [
        ("ours: supervised, toy, short", 81.0, pytest.approx(2**0.5)),
        ("ours: semi-supervised, toy, short", 83.0, 0.0),
    ]


def test_what_the_paper_prints_in_table_4() -> None:
    expected = {
        "WSJ only, discriminative": {
            "Vinyals & Kaiser et al. (2014)": 88.3,
            "Petrov et al. (2006)": 90.4,
            "Zhu et al. (2013)": 90.4,
            "Dyer et al. (2016)": 91.7,
            "Transformer (4 layers)": 91.3,
        },
        "semi-supervised": {
            "Zhu et al. (2013)": 91.3,
            "Huang & Harper (2009)": 91.3,
            "McClosky et al. (2006)": 92.1,
            "Vinyals & Kaiser et al. (2014)": 92.1,
            "Transformer (4 layers)": 92.7,
        },
        "multi-task": {"Luong et al. (2015)": 93.0},
        "generative": {"Dyer et al. (2016)": 93.3},
    }
    found: dict[str, dict[str, float]] = {}
    for parser, training, f1 in table4_report.LITERATURE:
        found.setdefault(training, {})[parser] = f1
    assert found == expected


def test_a_parser_is_scored_on_all_sentences_and_on_short_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three sentences the longest has 26 words, and its parse lacks one of two brackets."""

    def tree(num_words: int) -> Tree:
        return Tree("S", (Tree("NP", tuple(Leaf("NN", "a") for _ in range(num_words))),))

    gold = [tree(3), tree(25), tree(26)]
    parses = [(gold[0], False), (gold[1], True), (Tree("S", tuple(gold[2].leaves())), False)]
    trained: list[Any] = []
    parser = SimpleNamespace(reparse=lambda trees, label: parses)
    bundle = SimpleNamespace(config=preset("tiny"), metrics={"steps": 9})
    monkeypatch.setattr(table4, "trained", lambda config, run, *_, **__: trained.append((config, run)))
    monkeypatch.setattr(table4.Bundle, "load", lambda model: bundle)
    monkeypatch.setattr(table4.Parser, "load", lambda model, engine, constrained: parser)
    monkeypatch.setattr(table4, "read_test_trees", lambda config: {"toy": gold})
    (tmp_path / "gold.mrg").write_text("(S (NP (NN a)))\n(S (NP (NN b)))\n", encoding="utf-8")
    config = apply_settings(Config(name="own"), ["data.format=trees", "data.train=[['gold.mrg']]"])
    config = replace(config, data=replace(config.data, folder=str(tmp_path)))
    task = table4.Task(config, None, tmp_path, None, tmp_path / "silver", False, False)
    (tmp_path / "runs" / "supervised-seed7").mkdir(parents=True)
    values = table4._train(task, table4.SUPERVISED, 7, print)
    ((config, run),) = trained
    assert (config.name, config.train.seed, run) == ("own-supervised", 7, tmp_path / "runs" / "supervised-seed7")
    assert [values[name] for name in ("setting", "seed", "gold_trees", "silver_trees", "metrics")] == [
        *("supervised", 7, 2, 0),
        bundle.metrics,
    ]
    scores, short = values["scores"]["toy"], values["short_scores"]["toy"]
    assert (scores["sentences"], short["sentences"], short["f1"]) == (3, 2, 100)
    assert scores["f1"] == pytest.approx(100 * 2 * 5 / (6 + 5))
    assert (scores["repaired"], short["repaired"]) == (pytest.approx(100 / 3), 50)
    written = [(run / "parses" / f"toy.{side}").read_text(encoding="utf-8") for side in ("gold", "parsed")]
    assert written == ["".join(f"{each}\n" for each in trees) for trees in (gold, [each for each, _ in parses])]
