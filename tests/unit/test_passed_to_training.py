"""Every option of the commands that prepare and train is passed on to what does the work."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from noted_calls import Noting
from transduce.cli.main import main
from transduce.config import Config, preset
from transduce.training.outcome import End, Outcome
from transduce.training.progress import Progress

RECIPE = """preset = "tiny"
[data]
train = [["a.tsv"]]
"""


def recipe_of(folder: Path, more: str = "") -> str:
    (folder / "r.toml").write_text(RECIPE + more)
    return str(folder / "r.toml")


def test_train(noting: Noting, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls = noting("transduce.runs.train", Outcome(End.MAX_STEPS, Progress(step=7)))
    given = ["train", recipe_of(tmp_path), "--output", str(tmp_path / "run")]
    options = "--resume --data d --mirror w --set model.d_ff=8 --set train.seed=2 --quiet"
    assert main([*given, *options.split()]) == 0
    [((config, run), further)] = calls
    assert (config.model.d_ff, config.train.seed, config.data.train) == (8, 2, (("a.tsv",),))
    assert run == tmp_path / "run"
    assert further == {
        "settings": ["model.d_ff=8", "train.seed=2"],
        "resume": True,
        "data": Path("d"),
        "mirror": Path("w"),
        "show_progress": False,
    }
    assert capsys.readouterr().err == (
        f"done after step 7. The model: {run / 'model'}\ncost: not counted\n"
        f"try it: echo '…' | transduce translate {run / 'model'}\n"
    )
    assert main(given) == 0
    rest = {"resume": False, "data": None, "mirror": None, "show_progress": True}
    assert calls[1][1] == {"settings": [], **rest}


@pytest.mark.parametrize(
    ("outcome", "code", "shown"),
    [
        (Outcome(End.EARLY_STOPPING, Progress(step=7)), 0, "early stopping after step 7. The model: "),
        (Outcome(End.MAX_MINUTES, Progress(step=7)), 0, "done after step 7. The model: "),
        (Outcome(End.MAX_STEPS, Progress(step=7), is_main=False), 0, ""),
        (
            Outcome(End.SIGNAL, Progress(step=7), 2),
            130,
            "stopped by SIGINT after step 7; a checkpoint is written. Continue with --resume.\n",
        ),
        (Outcome(End.SIGNAL, Progress(step=7)), 143, "stopped by a signal to another process after step 7"),
        (Outcome(End.SIGNAL, Progress(step=7), 15, is_main=False), 143, ""),
    ],
)
def test_how_training_ended(
    outcome: Outcome, code: int, shown: str, noting: Noting, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noting("transduce.runs.train", outcome)
    assert main(["train", recipe_of(tmp_path), "--output", str(tmp_path / "run")]) == code
    found = capsys.readouterr().err
    assert found.startswith(shown)
    assert bool(found) == bool(shown)


def test_train_a_parser(noting: Noting, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("f1", "precision", "recall", "complete_match", "tagging_accuracy", "repaired")
    scores: dict[str, Any] = {f"test_wsj_{name}": float(index) for index, name in enumerate(names)}
    scores["test_wsj_sentences"] = 1200
    calls = noting("transduce.runs.train", Outcome(End.MAX_STEPS, Progress(step=7)))
    tests = noting("transduce.runs.read_test_trees", {"wsj": ["tree"]})
    measured = noting("transduce.runs.measure_parser", SimpleNamespace(metrics=scores))
    given = ["parse", "train", recipe_of(tmp_path, 'format = "trees"\n'), "--output", str(tmp_path / "run")]
    assert main([*given, "--set", "train.seed=2", "--quiet"]) == 0
    [((config, run), further)] = calls
    assert (config.data.format, run, further["settings"]) == ("trees", tmp_path / "run", ["train.seed=2"])
    assert tests == [((config,), {})]
    assert capsys.readouterr().err.endswith(f"| transduce parse run {run / 'model'}\n")
    bundle = SimpleNamespace(metrics={"test_wsj_f1": 1.0})
    new = SimpleNamespace(metrics={})
    further["finish"](new)
    assert measured == [((new, {"wsj": ["tree"]}), {"show_progress": False})]
    row = "wsj: f1 0.00, precision 1.00, recall 2.00, complete match 3.00, tagging accuracy 4.00 on 1,200 sentences; "
    assert capsys.readouterr().err == f"{row}5.00 % repaired\n"
    bundle.metrics = scores
    further["finish"](bundle)
    assert len(measured) == 1  # the run was finished before
    assert main(["parse", "train", recipe_of(tmp_path), "--output", "o"]) == 2


def test_average(noting: Noting, capsys: pytest.CaptureFixture[str]) -> None:
    metrics = {"validation_bleu": 31.25, "validation_perplexity": 4.0, "steps": 3, "averaged_steps": "10, 20"}
    calls = noting("transduce.runs.average_run", SimpleNamespace(metrics=metrics))
    assert main(["average", "r", "--output", "m", "--last", "3", "--overwrite"]) == 0
    assert capsys.readouterr().err == (
        "m: the mean of the checkpoints after steps 10, 20; validation bleu 31.25, validation perplexity 4.00\n"
    )
    metrics.clear()
    metrics["averaged_steps"] = "20"
    assert main(["average", "r", "--output", "m", "--best"]) == 0
    assert capsys.readouterr().err == "m: the checkpoint after step 20; not measured\n"
    names = (Path("r"), Path("m"))
    assert calls == [
        (names, {"last": 3, "best": False, "overwrite": True}),
        (names, {"last": None, "best": True, "overwrite": False}),
    ]


def test_prepare(noting: Noting, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepared = noting("transduce.data.prepare.prepare", "report")
    corpus = "--train a.en a.de --train b.tsv --validation v.en v.de --preset tiny --set text.vocab_size=400"
    options = "--tokenizer t.json --mirror w --threads 3 --overwrite --quiet"
    assert main(["prepare", *corpus.split(), "--output", "o", *options.split()]) == 0
    [((config, output), further)] = prepared
    assert (config.data.train, config.data.validation) == ((("a.en", "a.de"), ("b.tsv",)), ("v.en", "v.de"))
    assert (config.model, config.text.vocab_size, output) == (preset("tiny").model, 400, Path("o"))
    assert further == {
        "progress": False,
        "num_workers": 3,
        "tokenizer": Path("t.json"),
        "mirror": Path("w"),
        "overwrite": True,
    }
    assert main(["prepare", "--train", "a.tsv", "--output", "o"]) == 0
    rest = {"progress": True, "num_workers": None, "tokenizer": None, "mirror": None, "overwrite": False}
    assert prepared[1][1] == rest
    assert (prepared[1][0][0].model, prepared[1][0][0].data.validation) == (Config().model, ())
    assert capsys.readouterr().out == "report\nreport\n"
    recipe = recipe_of(tmp_path)
    checked = noting("transduce.data.prepare.check", SimpleNamespace(findings="findings"))
    noting("transduce.data.prepare_report.describe_examination", "examined")
    aligned = noting("transduce.data.doctor.require_aligned")
    assert main(["prepare", recipe, "--check-only", "--mirror", "w", "--set", "data.max_tokens=9"]) == 0
    [((config,), further)] = checked
    assert (config.data.max_tokens, further) == (9, {"progress": True, "mirror": Path("w")})
    assert (aligned, capsys.readouterr().out) == ([(("findings", config.data), {})], "examined\n")
    for wrong in (["prepare", recipe], ["prepare", recipe, "--train", "a.tsv", "--output", "o"], ["prepare"]):
        assert main(wrong) == 2
    for more in (["--validation", "v.tsv"], ["--preset", "tiny"]):
        assert main(["prepare", recipe, "--output", "o", *more]) == 2
    assert len(prepared) == 2


_TRIALS = (SimpleNamespace(error=""), SimpleNamespace(error="ended"))


def test_ablate(noting: Noting, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = "transduce.experiments.ablation"
    calls = noting(f"{place}.ablate.ablate", SimpleNamespace(trials=_TRIALS[:1]))
    noting(f"{place}.report.render", "| table |")
    given = ["ablate", recipe_of(tmp_path), "--grid", "label-smoothing", "--output", "o"]
    options = "--rows smoothing-0.0,smoothing-0.2 --seeds 3 --jobs 2 --tokenized --any-source --mirror w --quiet"
    assert main([*given, *options.split(), "--steps", "90", "--width", "16", "--set", "model.d_ff=8"]) == 0
    [((ablation, rows), further)] = calls
    assert (ablation.grid.name, ablation.output, ablation.num_seeds) == ("label-smoothing", Path("o"), 3)
    assert (ablation.tokenized, ablation.any_source, ablation.paper_bleu) == (True, True, False)
    model, train = ablation.base.model, ablation.base.train
    assert (model.d_model, model.num_heads, model.d_k, model.d_ff) == (16, 8, 2, 8)
    assert (train.max_steps, train.max_minutes) == (90, 0)
    assert rows == ["smoothing-0.0", "smoothing-0.2"]
    assert further == {"jobs": 2, "mirror": Path("w"), "show_progress": False}
    assert main(given) == 0
    (ablation, rows), further = calls[1]
    assert (ablation.num_seeds, ablation.tokenized, ablation.any_source, rows) == (1, False, False, ())
    assert (ablation.base.model.d_model, ablation.base.train.max_steps) == (128, 20_000)
    assert further == {"jobs": 1, "mirror": None, "show_progress": True}
    noting(f"{place}.ablate.ablate", SimpleNamespace(trials=_TRIALS))
    assert main(given) == 5
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (
        "| table |\n" * 3,
        "1 training failed, see o/table.md; the same command tries them again\n",
    )


@pytest.mark.parametrize(
    ("options", "budget"),
    [
        ("--steps 100", (100, 0.0, 10)),  # a tenth of them, as of the recipe's 20 000
        ("--steps 100 --set train.cooldown_steps=7", (100, 0.0, 7)),
        ("--minutes 2.5 --set train.cooldown_steps=0", (1_000_000_000, 2.5, 0)),
        ("--minutes 2.5 --steps 100 --set train.cooldown_steps=0", (100, 2.5, 0)),
        ("", (20_000, 0.0, 2000)),
    ],
)
def test_budgets_of_an_ablation(options: str, budget: tuple[int, float, int], noting: Noting, tmp_path: Path) -> None:
    calls = noting("transduce.experiments.ablation.ablate.ablate", SimpleNamespace(trials=()))
    noting("transduce.experiments.ablation.report.render", "")
    recipe = recipe_of(tmp_path, "[train]\ncooldown_steps = 2000\n")
    assert main(["ablate", recipe, "--output", "o", *options.split()]) == 0
    train = calls[0][0][0].base.train
    assert (train.max_steps, train.max_minutes, train.cooldown_steps) == budget
    assert main(["ablate", recipe, "--output", "o", "--minutes", "3"]) == 2
    recipe = recipe_of(tmp_path, "[train]\nint8_tuning_steps = 4000\n")
    assert main(["ablate", recipe, "--output", "o", "--steps", "100"]) == 0
    assert calls[-1][0][0].base.train.int8_tuning_steps == 20
    assert main(["ablate", recipe, "--output", "o", "--minutes", "3"]) == 2


def test_compare_ablations(noting: Noting, capsys: pytest.CaptureFixture[str]) -> None:
    compared = noting("transduce.experiments.ablation.versions.compare", "versions")
    noting("transduce.experiments.ablation.versions.render", "differences")
    assert main(["ablate", "--compare", "a", "b"]) == 0
    assert compared == [((Path("a"), Path("b")), {})]
    assert capsys.readouterr().out == "differences\n"
    for wrong in (["--compare", "a", "b", "--output", "o"], ["r.toml", "--compare", "a", "b"], ["r.toml"], []):
        assert main(["ablate", *wrong]) == 2


def test_demo(noting: Noting, capsys: pytest.CaptureFixture[str]) -> None:
    def translated(*lines: str, seconds: float) -> Any:
        bleu = SimpleNamespace(value=12.34, signature="nrefs:1")
        return SimpleNamespace(lines=lines, references=("x", "y"), exact_match=0.5, bleu=bleu, seconds=seconds)

    result = SimpleNamespace(
        sources=["a", "b"],
        translated=translated("x", "z", seconds=3.0),
        translated_int8=translated("x", "y", seconds=1.5),
        example=("it's", "ja"),
        model=Path("m"),
        page=Path("p.html"),
        seconds=90.0,
    )
    calls = noting("transduce.experiments.demo.run_demo", result)
    options = "--output o --languages fr it --pairs 9 --overwrite --set train.max_steps=5 --set train.cooldown_steps=0"
    assert main(["demo", *options.split(), "--quiet"]) == 0
    [((config, output), further)] = calls
    assert (config.name, config.train.max_steps, output) == ("demo", 5, Path("o"))
    assert further == {"languages": ("fr", "it"), "num_train": 9, "overwrite": True, "show_progress": False}
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:7] == ["held-out lines (fr → it):", "  a", "    ✓ x", "  b", "    ✗ z", "      expected: y"]
    assert lines[8:11] == [
        "exact match 50.0%, BLEU 12.3 on 2 held-out lines",
        "sacreBLEU signature: nrefs:1",
        "all of it took 1.5 minutes; the model is in m",
    ]
    assert "the same 2 lines in 1.5 seconds (torch: 3.0), exact match 50.0%" in lines[-1]
    assert main(["demo"]) == 0
    assert (calls[1][0][1], calls[1][0][0]) == (Path("runs/demo"), preset("demo"))
    assert calls[1][1] == {
        "languages": ("en", "de"),
        "num_train": 60_000,
        "overwrite": False,
        "show_progress": True,
    }


def test_paper(noting: Noting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transduce.experiments.paper import catalogue

    (tmp_path / "table.md").write_text("| table |\n")
    made: list[Any] = []

    def make(options: Any) -> Any:
        made.append(options)
        return "experiment"

    for name, (_, options) in catalogue.EXPERIMENTS.items():
        monkeypatch.setitem(catalogue.EXPERIMENTS, name, (make, options))
    ran = noting("transduce.experiments.paper.experiment.run_experiment", tmp_path / "table.md")
    training = "--corpus c --set train.seed=2"
    given = {
        "table1": "",
        "table2": f"{training} --recipe a --recipe b --model m:en-fr --tokenized --controls --flops 3e13 "
        "--minutes 20 --seeds 3 --systems lstm,convs2s --trials 4",
        "table3": f"{training} --recipe a --rows A1,B2 --seeds 3 --jobs 2 --tokenized --any-source",
        "table4": f"{training} --recipe a --raw r --silver s --seeds 3 --baseline b.json --constrained",
        "figures": "--model m --layer 2 --sentence x --word w --related u,v --anaphora y --anaphor i --antecedent j "
        "--trees t --trees u --max-sentences 50",
    }
    for name, more in given.items():
        assert main(["paper", name, "--scale", "smoke", "--output", "o", *more.split(), "--quiet"]) == 0
    assert main(["paper", "scaling"]) == 0
    both: dict[str, Any] = {"data": Path("c"), "settings": ["train.seed=2"]}
    expected = [
        {},
        both
        | {"recipes": [Path("a"), Path("b")], "models": ["m:en-fr"], "tokenized": True}
        | {"controls": True, "flops": 3e13, "minutes": 20.0, "seeds": 3, "systems": ["lstm", "convs2s"], "trials": 4},
        both
        | {"recipe": Path("a"), "rows": ["A1", "B2"], "seeds": 3, "jobs": 2, "tokenized": True, "any_source": True},
        both
        | {"recipe": Path("a"), "raw": Path("r"), "silver": Path("s"), "seeds": 3, "baseline": Path("b.json")}
        | {"constrained": True},
        {
            "model": Path("m"),
            "layer": 2,
            "sentence": "x",
            "word": "w",
            "related": ["u", "v"],
            "anaphora": "y",
            "anaphor": "i",
            "antecedent": "j",
            "trees": [Path("t"), Path("u")],
            "max_sentences": 50,
        },
    ]
    everywhere = {"scale": "smoke", "output": Path("o"), "quiet": True}
    assert [vars(each) for each in made[:5]] == [everywhere | each for each in expected]
    assert vars(made[5]) == {"scale": "laptop", "output": Path("runs/paper-scaling-laptop"), "quiet": False}
    assert ran[0] == (("experiment", Path("o")), {"show_progress": False})
    assert ran[5] == (("experiment", Path("runs/paper-scaling-laptop")), {"show_progress": True})


def test_presets_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--presets", "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert main(["info", "--presets"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [(name, int(count.replace(",", ""))) for name, count, _ in rows] == [*counts.items()]
