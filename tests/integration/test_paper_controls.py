"""`transduce paper table2 --controls`: three systems trained for seconds, stopped and resumed, and what is refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from noted_calls import Noting
from transduce.cli.main import main
from transduce.config import DataConfig, apply_settings, preset
from transduce.config.corpora import CorpusConfig
from transduce.errors import ConfigError
from transduce.experiments.paper import table2
from transduce.experiments.paper.controls import comparison, report, training
from transduce.experiments.paper.controls.systems import MOST_TRIALS, SYSTEMS
from transduce.experiments.paper.controls.training import Run, clock_of
from transduce.experiments.paper.table2 import Table2Options
from transduce.model import Transformer
from transduce.training.device import Compute

pytestmark = pytest.mark.computes

NAMES = ["transformer", "lstm", "convs2s"]
# The minutes are spent by the first step of any machine, and the operations by a few.
COMMAND = ["paper", "table2", "--controls", "--scale", "smoke", "--flops", "4e8", "--minutes", "1e-7", "--quiet"]
COMMAND += ["--set", "decode.max_extra_tokens=6"]  # what is searched for is noise
TESTS = ["data.train=[]", "data.test={}", "data.validation=[]"]
LAW = [*TESTS, 'data.corpora=[{files=["a", "b"], domain="law"}]', 'data.validation_sets=[{files=["v", "w"]}]']
LAW += ['data.test_sets=[{files=["c", "d"], domain="law"}]']
TWO_LANGUAGES = [*TESTS, 'data.test_sets=[{files=["c", "d"], target_language="fr"}]']
TWO_LANGUAGES += ['data.corpora=[{files=["a", "b"]}, {files=["a", "c"], target_language="fr"}]']
TWO_LANGUAGES += ['data.validation_sets=[{files=["v", "w"], target_language="fr"}]']


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("babel")
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("controls") / "out"
    assert main([*COMMAND, "--trials", "2", "--output", str(folder)]) == 0
    return folder


def cells(folder: Path) -> dict[str, Any]:
    return {name: cell["values"] for name, cell in json.loads((folder / "results.json").read_text())["cells"].items()}


def test_each_system_is_measured_at_both_budgets(finished: Path) -> None:
    found = cells(finished)
    assert [name for name in found if name.startswith("leg/")] == [
        f"leg/{name}/1/{leg}" for name in NAMES for leg in (1, 2)
    ]
    for name in NAMES:
        first, second = found[f"leg/{name}/1/1"], found[f"leg/{name}/1/2"]
        assert (first["budget"], second["budget"]) == ("minutes", "flops")
        assert first["steps"] == 1
        assert first["flops"] < 4e8 <= second["flops"]
        assert second["curve"][-1]["flops"] == second["flops"]
        assert [each["step"] for each in second["curve"]] == [first["steps"], second["steps"]]
        assert second["tests"]["test"]["lines"] == 12


def test_the_best_trial_is_the_one_trained(finished: Path) -> None:
    found = cells(finished)
    for name in NAMES:
        tried = [found[f"trial/{name}/{trial}"] for trial in (0, 1)]
        assert all(1e8 <= each["flops"] < 4e8 for each in tried)
        best = min(tried, key=lambda each: each["perplexity"])
        assert found[f"leg/{name}/1/2"]["settings"] == best["settings"]


def test_the_report_has_a_row_for_each(finished: Path) -> None:
    text = (finished / "table.md").read_text()
    for title in ("Transformer", "LSTM", "ConvS2S"):
        assert f"| **{title}, equal counted FLOPs**, test |" in text
        assert f"| **{title}, equal minutes**, test |" in text
    assert "| RNN with attention | one toolkit, the same data and search | 30.74 |" in text
    assert "Smoke scale" in text
    assert (finished / "table2.png").stat().st_size > 10_000


def test_a_finished_comparison_is_left_alone(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "train", lambda *_: pytest.fail("trained again"))
    before = (finished / "results.json").read_bytes()
    assert main([*COMMAND, "--trials", "2", "--output", str(finished)]) == 0
    assert (finished / "results.json").read_bytes() == before


def test_a_second_seed_may_be_added(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "out")
    assert main([*COMMAND, "--trials", "2", "--seeds", "2", "--output", str(tmp_path / "out")]) == 0
    before, found = cells(finished), cells(tmp_path / "out")
    assert {name: found[name] for name in before} == before
    assert {*found} - {*before} == {f"leg/{name}/2/{leg}" for name in NAMES for leg in (1, 2)}
    assert found["leg/lstm/2/2"]["settings"] == found["leg/lstm/1/2"]["settings"]
    assert "- Seeds: 2.\n" in (tmp_path / "out" / "table.md").read_text()


def test_systems_may_be_trained_by_separate_commands(finished: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    for system in ("convs2s", "transformer"):
        assert main([*COMMAND, "--systems", system, "--output", str(output)]) == 0
    text = (output / "table.md").read_text()
    assert [text.count(f"| **{title}, equal minutes**") for title in ("Transformer", "LSTM", "ConvS2S")] == [1, 0, 1]
    assert text.index("**Transformer, equal minutes**") < text.index("**ConvS2S, equal minutes**")


@pytest.mark.parametrize(
    ("stopped_at", "setting", "code", "message"),
    [
        ("cost", "train.learning_rate_factor=0.1", 5, "train.learning_rate_factor was 0.2, now 0.1"),
        ("_model", "text.vocab_size=290", 2, "text.vocab_size was 300, now 290"),
    ],
)
def test_what_a_stopped_command_has_left_is_not_used_for_other_settings(
    stopped_at: str, setting: str, code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was stopped before its first result: after a training, or after the corpus was prepared."""
    command = [*COMMAND, "--systems", "transformer", "--output", str(tmp_path / "out")]

    def stop(_: Run) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, stopped_at, stop)
        assert main(command) == 130
    assert main([*command, "--set", setting]) == code
    assert message in capsys.readouterr().err
    assert main(command) == 0


def test_minutes_are_processor_time_of_a_single_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for threads in (1, 2):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        found[threads] = clock_of(Compute.of("cpu", "fp32"))
    assert found == {1: "processor", 2: "wall"}


def test_what_another_command_has_prepared_meanwhile_is_not_prepared_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([False, True])
    monkeypatch.setattr(training, "is_prepared", lambda folder: next(answers))
    monkeypatch.setattr(training, "prepare", lambda *_, **__: pytest.fail("prepared again"))
    monkeypatch.setattr(training, "load_prepared", lambda folder, **_: folder)
    run = Run(SYSTEMS[0], preset("demo"), tmp_path / "run", tmp_path / "runs" / "data", False, False)
    assert run._prepared == tmp_path / "runs" / "data"


def test_the_papers_bleu_is_tokenised_by_the_language_of_the_corpora(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noting: Noting
) -> None:
    corpus = CorpusConfig(files=("a", "b"), source_language="en", target_language="fr")
    config = replace(preset("demo"), data=DataConfig(corpora=(corpus,)))
    same = SimpleNamespace(encode_batch=list, vocab_size=9, target_vocab_size=0)
    same.target = SimpleNamespace(decode_batch=list)
    monkeypatch.setattr(Run, "_tokenizer", same)
    monkeypatch.setattr(training, "read_test", lambda *_: (["a"], ["a"]))
    monkeypatch.setattr(training, "search", lambda model, sources, options: sources)
    scored = noting((training, "paper_bleu"), SimpleNamespace(value=1.0))
    Run(SYSTEMS[0], config, tmp_path, tmp_path, False, False)._test(None, "test")
    assert scored[0][1]["language"] == "fr"


def test_a_second_leg_that_had_ended_is_measured_by_its_own_budget(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a crash between training and the result: both budgets are spent, and the second is the operations."""
    settings = comparison.Settings("smoke", preset("demo"), tmp_path, flops=4e8, minutes=1e-7)
    run = Run(SYSTEMS[0], settings.recipe, finished / "runs" / "transformer-seed1", tmp_path, False, False)
    spent: list[Any] = []
    monkeypatch.setattr(Run, "train", lambda _, budget: spent.append(budget))
    assert run.train_leg(settings.budget, 2) == "flops"
    assert spent == [comparison.Budget(flops=4e8)]


def test_a_control_has_about_as_many_parameters() -> None:
    """Within one layer, at the base model's size: the paper's 63 million, of which 18.9 million are the table."""
    recipe = preset("paper-base")
    layers = [(system.config(recipe, 0).model.num_encoder_layers, system.make is Transformer) for system in SYSTEMS]
    assert layers[0] == (6, True)
    d = 512
    lstm, convolution = 6 * d * d + 12 * d * d, 2 * 2 * 3 * d * d + 2 * d * d  # both sides together
    body = 6 * (4 * d * d + 8 * d * d) + 6 * (8 * d * d + 8 * d * d)
    assert layers[1][0] == pytest.approx(body / lstm, abs=1)
    assert layers[2][0] == pytest.approx(body / convolution, abs=1)


def test_tables_that_are_not_trained_count_for_no_layers() -> None:
    """All systems share one table, also where the recipe's own model has three."""
    one = preset("paper-base")
    three = apply_settings(one, ["model.tie_embeddings=none"])
    for system in SYSTEMS[1:]:
        assert system.config(three, 0).model.num_encoder_layers == system.config(one, 0).model.num_encoder_layers


def test_every_system_has_as_many_trials() -> None:
    assert [len(system.trials) for system in SYSTEMS] == [MOST_TRIALS] * 3
    for system in SYSTEMS:
        for trial in range(MOST_TRIALS):
            system.config(preset("tiny"), trial)  # no setting is misspelt


def test_what_only_the_transformer_or_a_last_step_could_have_is_left_out() -> None:
    recipe = apply_settings(preset("tiny"), ["train.int8_tuning_steps=5", "model.block_size=4"])
    for system in SYSTEMS:
        config = system.config(recipe, 0)
        assert (config.train.int8_tuning_steps, config.model.block_size) == (0, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"flops": 1e9}, "--flops has no effect here: it is an option of --controls"),
        ({"seeds": 3}, "--seeds has no effect here"),
        ({"controls": True, "models": ["runs/a"]}, "--controls compares what it trains itself"),
        ({"controls": True, "trials": 9}, f"--trials 9: must be from 1 to {MOST_TRIALS}"),
        ({"controls": True, "seeds": 0}, "--seeds 0: must be from 1"),
        ({"systems": ["lstm"]}, "--systems has no effect here"),
        ({"controls": True, "systems": ["lstm", "gru"]}, "--systems gru: must be of transformer, lstm, convs2s"),
        ({"controls": True, "minutes": 0.0}, "--minutes 0: must be greater than 0"),
        ({"controls": True, "data": Path("somewhere")}, "--corpus has no effect here"),
        ({"controls": True, "settings": ["train.max_steps=2"]}, "--set train.max_steps=2 has no effect here"),
        ({"controls": True, "settings": ["train.guided_attention=0.1"]}, "guided_attention=0.1 has no effect here"),
        ({"controls": True, "settings": ["init.model=runs/a"]}, "init.model must be empty"),
        ({"controls": True, "settings": ["data.format=trees"]}, "trains a parser"),
        ({"controls": True, "settings": LAW}, "must have no domain and one target language"),
        ({"controls": True, "settings": TWO_LANGUAGES}, "must have no domain and one target language"),
    ],
)
def test_what_has_no_effect_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        table2.experiment(replace(Table2Options("smoke", tmp_path), **changes))


def test_trials_of_a_system_that_is_still_trained_are_not_shown(finished: Path) -> None:
    """As where another command, which trains it, is at work in the same folder, or was stopped there."""
    left = {name: values for name, values in cells(finished).items() if not name.startswith("leg/lstm")}
    settings = report.render("smoke", left).partition("## Settings")[2]
    assert "trial/lstm/0" in left
    assert [settings.count(f"{title}** |") for title in ("| **Transformer", "| **LSTM", "| **ConvS2S")] == [1, 0, 1]


def test_seeds_are_averaged() -> None:
    """Two seeds of one system: means of costs, mean and deviation of scores."""
    leg = {
        "system": "lstm", "title": "LSTM", "pair": "en-de", "budget": "flops", "layers": [2, 2],
        "parameters": 5 * 10**6, "estimate": None, "settings": [], "trial": 0, "curve": [],
    }  # fmt: skip
    legs = {}
    for seed, score in ((1, 30.0), (2, 34.0)):
        tests = {"news": {"paper": score, "sacrebleu": score - 1, "signature": "s"}}
        cost = {"seed": seed, "steps": 10 * seed, "minutes": 1.0, "flops": seed * 1e9}
        legs[f"leg/lstm/{seed}/1"] = (
            leg | cost | {"validation": {"perplexity": 6.0 + seed, "bleu": score}, "tests": tests}
        )
    text = report.render("laptop", legs)
    assert "| **LSTM, equal counted FLOPs**, news | 32.0 |" in text
    assert (
        "| LSTM | 2 | 5.00 | 2+2 | 15 | 1.0 | 1.50e+09 | 7.50 ± 0.71 | 32.00 ± 2.83 | 32.00 ± 2.83 | 31.00 ± 2.83 |"
        in text
    )
