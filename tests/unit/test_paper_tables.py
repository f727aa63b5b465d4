"""Tables 2 to 4 of `transduce paper`: their options, what is refused, their reports."""

import dataclasses
import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from made_memories import write_memory
from transduce import files
from transduce.bundle import save_bundle
from transduce.config import Config, DataConfig, apply_settings, load_recipe, preset
from transduce.errors import ConfigError, DataError, TrainingError
from transduce.evaluation import bleu, paper_bleu
from transduce.experiments.paper import table2, table2_report, table3, table4, table4_report, trained_models
from transduce.experiments.paper.catalogue import EXPERIMENTS
from transduce.experiments.paper.experiment import Experiment, run_experiment
from transduce.experiments.paper.table4_report import Baseline
from transduce.experiments.paper.toy_treebank import RULES, WORDS, make_toy_treebank
from transduce.parser import Parse
from transduce.text import SubwordTokenizer
from transduce.training.outcome import End, Outcome
from transduce.training.progress import Progress
from transduce.translation.pipeline import TextOptions
from transduce.treebank import Leaf, Tree, read_trees

_REPOSITORY = Path(__file__).resolve().parents[2]

CORPUS = """
preset = "tiny"
name = "own"

[data]
source_language = "en"
target_language = "de"
folder = "own"
train = [["train.en", "train.de"]]
validation = ["dev.en", "dev.de"]
test = { first = ["test.en", "test.de"] }
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A recipe with a corpus of a line a file, in a folder of the name that the recipe has for it."""
    folder = tmp_path / "corpora" / "own"
    folder.mkdir(parents=True)
    for name in ("train", "dev", "test"):
        for language in ("en", "de"):
            (folder / f"{name}.{language}").write_text(f"{name}\n")
    (tmp_path / "own.toml").write_text(CORPUS)
    return tmp_path / "own.toml"


def row(page: str, name: str, section: str = "") -> list[str]:
    page = page[page.index(section) :]
    line, *_ = [line for line in page.splitlines() if line.startswith(f"| {name} |")]
    return [part.strip() for part in line.strip("|").split("|")]


def make(name: str, scale: str, **options: Any) -> Experiment:
    function, options_class = EXPERIMENTS[name]
    return function(options_class(scale, **options))


def is_picture(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG")


# --- recipes and their corpora ----------------------------------------------------------------------------------


def test_a_corpus_is_found_in_its_folder_or_in_a_folder_of_corpora(recipe: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpora" / "own"
    for data in (corpus, corpus.parent):
        assert trained_models.recipe_config(recipe, data).data.folder == str(corpus)
    moved = trained_models.recipe_config(recipe, corpus, ["train.max_steps=7"])
    assert moved.train.max_steps == 7
    assert trained_models.comparable(moved) == trained_models.comparable(
        dataclasses.replace(moved, data=dataclasses.replace(moved.data, folder="elsewhere"))
    )


def test_a_corpus_in_the_home_folder_is_found_before_and_after_the_training(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "corpora"))
    config = trained_models.recipe_config(recipe, None, ["data.folder=~/own"])
    assert config.data.folder == str(tmp_path / "corpora" / "own"), "not all that reads a test set expands a ~"


def test_what_is_not_there_is_said_before_anything_begins(recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"own: its corpus is not in .*own: .* Please name its folder: --corpus DIR\."
    ):
        trained_models.recipe_config(recipe, None)
    with pytest.raises(ConfigError, match=r"get it with 'transduce prepare .*own\.toml --check-only', or name"):
        trained_models.recipe_config(recipe, None, ["data.download=multi30k-en-de"])
    with pytest.raises(ConfigError, match=r"none\.toml: no such recipe"):
        trained_models.recipe_config(tmp_path / "none.toml", None)
    for name in ("table2", "table3", "table4"):
        with pytest.raises(ConfigError, match=r"recipes/.*\.toml: no such recipe|its corpus is not in"):
            make(name, "laptop", output=tmp_path / "out", data=tmp_path)
    assert not (tmp_path / "out").exists()


def test_the_recipes_of_every_scale_exist() -> None:
    names = [name for scale, names in table2.DEFAULTS.items() if scale != "smoke" for name in names]
    recipes = [trained_models.RECIPES / f"{name}.toml" for name in names]
    recipes += [settings.recipe for settings in table3.SETTINGS.values() if settings.recipe]
    recipes += [recipe for each in table4.SETTINGS.values() for recipe in (each.recipe, each.semi_recipe) if recipe]
    assert len(recipes) == 10
    for recipe in recipes:
        config = load_recipe(_REPOSITORY / recipe)
        assert config.data.test
        assert config.data.validation


def test_a_stopped_training_stops_the_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Path, bool]] = []

    def stopped(config: Config, run: Path, *, resume: bool, show_progress: bool) -> Outcome:
        calls.append((run, resume))
        return Outcome(End.SIGNAL, Progress(), 2)

    monkeypatch.setattr(trained_models, "train", stopped)
    with pytest.raises(KeyboardInterrupt):
        trained_models.trained(Config(), tmp_path, print, show_progress=False)
    assert calls == [(tmp_path, True)]  # it resumes
    save_model(tmp_path / "model", Config())
    assert trained_models.trained(Config(), tmp_path, print, show_progress=False) == tmp_path / "model"
    assert len(calls) == 1


def save_model(folder: Path, config: Config, metrics: dict[str, Any] | None = None) -> None:
    tokenizer = SubwordTokenizer.train(["a b c"], algorithm="bpe", vocab_size=260)
    save_bundle(folder, config, {"w": np.zeros(2, np.float32)}, tokenizer, metrics or {})


def test_a_finished_model_of_another_configuration_is_not_taken(tmp_path: Path) -> None:
    save_model(tmp_path / "model", apply_settings(Config(), ["train.max_steps=10", "model.vocab_size=260"]))
    same = ["train.max_steps=10", "name=other", "train.log_steps=7", "train.device=cpu", "data.folder=elsewhere"]
    same += ["train.num_workers=2"]
    assert trained_models.trained(apply_settings(Config(), same), tmp_path, print, show_progress=False).is_dir()
    message = r"model: is a finished model of other settings: train\.max_steps was 10, now 20\. .*whole output folder"
    with pytest.raises(ConfigError, match=message):
        trained_models.trained(apply_settings(Config(), ["train.max_steps=20"]), tmp_path, print, show_progress=False)
    with pytest.raises(ConfigError, match=r"decode\.beam_size was 4, now 8\. Choose another --output"):
        trained_models.trained(
            apply_settings(Config(), [*same, "decode.beam_size=8"]), tmp_path, print, show_progress=False
        )


def test_options_without_an_effect_are_refused(recipe: Path, tmp_path: Path) -> None:
    corpora, silver = tmp_path / "corpora", tmp_path / "own.toml"
    save_model(tmp_path / "model", trained_models.recipe_config(recipe, corpora))
    change: dict[str, Any] = {"settings": ["train.max_steps=1"]}
    refused: list[tuple[str, str, dict[str, Any], str]] = [
        ("table2", "smoke", change, "--set"),
        ("table2", "smoke", {"data": corpora}, "--corpus"),
        ("table2", "laptop", change | {"models": [str(tmp_path / "model")], "data": corpora}, "--set"),
        ("table3", "smoke", {"data": corpora}, "--corpus"),
        ("table3", "smoke", {"tokenized": True}, "--tokenized"),
        ("table4", "smoke", {"data": corpora}, "--corpus"),
        ("table4", "smoke", {"silver": silver}, "--silver"),
    ]
    for name, scale, options, flag in refused:
        with pytest.raises(ConfigError, match=rf"^{flag} has no effect here: .*\. Leave it out\."):
            make(name, scale, output=tmp_path / "out", **options)
    both = {"recipes": [recipe], "models": [str(tmp_path / "model")], "data": corpora}
    assert make("table2", "smoke", output=tmp_path / "out", **both, **change).measurements  # the recipe's it changes


def test_test_files_are_part_of_what_was_measured(recipe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "corpora" / "own"

    def settings() -> Any:
        return make("table2", "laptop", output=tmp_path / "out", recipes=[recipe], data=folder).settings

    before = settings()
    tests = before["systems"]["own"]["tests"]
    assert tests == {"first": {name: files.sha256(folder / name) for name in ("test.en", "test.de")}}
    (folder / "train.de").write_text("more\n")
    assert settings() == before
    (folder / "test.de").write_text("another reference\n")
    assert settings()["systems"]["own"]["tests"]["first"]["test.de"] != tests["first"]["test.de"]


def test_the_weights_of_a_finished_model_are_part_of_what_was_measured(recipe: Path, tmp_path: Path) -> None:
    corpora, model = tmp_path / "corpora", tmp_path / "model"
    save_model(model, trained_models.recipe_config(recipe, corpora))
    systems = make("table2", "laptop", output=tmp_path / "out", models=[str(model)], data=corpora).settings["systems"]
    assert systems[str(model)]["sha256"]["model.safetensors"] == files.sha256(model / "model.safetensors")
    settings = make("figures", "laptop", output=tmp_path / "out", model=model).settings["model"]
    assert settings["sha256"] == systems[str(model)]["sha256"]


def test_a_corpus_of_the_demo_that_was_not_finished_is_made_again(tmp_path: Path) -> None:
    pytest.importorskip("babel")
    config = trained_models.demo_config(tmp_path, "de")
    trained_models.make_demo(config)
    lines = (tmp_path / "train.de").read_text(encoding="utf-8")
    (tmp_path / "train.de").unlink()
    trained_models.make_demo(config)
    assert (tmp_path / "train.de").read_text(encoding="utf-8") == lines


# --- Table 2 ----------------------------------------------------------------------------------------------------


def test_systems_are_trained_or_given(recipe: Path, tmp_path: Path) -> None:
    corpora, model = tmp_path / "corpora", tmp_path / "model"
    tokenizer = SubwordTokenizer.train(["a b c"], algorithm="bpe", vocab_size=260)
    config = trained_models.recipe_config(recipe, corpora)
    save_bundle(model, config, {}, tokenizer, {"training_flops": 5})
    experiment = make(
        "table2", "laptop", output=tmp_path / "out", recipes=[recipe], models=[f"{model}:en-fr"], data=corpora
    )
    measured = [each.name for each in experiment.measurements]
    assert measured == ["train/own", "test/own/first", f"train/{model}", f"test/{model}/first"]
    systems = experiment.settings["systems"]
    assert (systems["own"]["pair"], systems["own"]["given"]) == ("en-de", None)
    assert (systems[str(model)]["pair"], systems[str(model)]["given"]) == ("en-fr", {"training_flops": 5})
    for line in (corpora / "own").glob("train.*"):
        line.unlink()  # a finished model needs its test set only
    assert make("table2", "laptop", output=tmp_path / "out", models=[str(model)], data=corpora).measurements


def test_the_papers_bleu_is_tokenised_by_the_target_language(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[TextOptions] = []

    def stream(sources: list[str], text_options: TextOptions) -> Iterator[list[SimpleNamespace]]:
        passed.append(text_options)
        return ([SimpleNamespace(text=source)] for source in sources)

    echo = SimpleNamespace(stream=stream)
    monkeypatch.setattr(table2, "Translator", SimpleNamespace(load=lambda *_, **__: echo))
    system = table2.System("own", "en-fr", trained_models.recipe_config(recipe, tmp_path / "corpora"), tmp_path, None)
    (test,) = system.config.data.test_corpora
    plain, tokenized = (table2._test(system, dataclasses.replace(test, domain="law"), each, print) for each in (0, 1))
    assert "|tok:moses-like-fr+" in plain["signature"]
    assert ("tok:13a" in plain["sacrebleu_signature"], "tok:none" in tokenized["sacrebleu_signature"]) == (True, True)
    assert passed == [TextOptions(language="en", target="de", domain="law")] * 2
    (corpus := tmp_path / "corpora" / "own").joinpath("test.en").write_text("a well-known dog runs home\n")
    (corpus / "test.de").write_text("a well-known cat runs home\n")
    found = table2._test(system, test, False, print)
    lines, references = ["a well-known dog runs home"], [["a well-known cat runs home"]]
    assert found["bleu"] == paper_bleu(lines, references, language="fr").value
    assert found["sacrebleu"] == bleu(lines, references).value != found["bleu"]


def test_the_pair_of_a_system_may_be_that_of_its_corpora(recipe: Path, tmp_path: Path) -> None:
    corpora = '[{files=["train.en", "train.de"], source_language="en", target_language="fr"}]'
    settings = ["data.source_language=", "data.target_language=", "data.train=[]", f"data.corpora={corpora}"]
    given: dict[str, Any] = {"recipes": [recipe], "data": tmp_path / "corpora", "settings": settings}
    assert make("table2", "laptop", output=tmp_path, **given).settings["systems"]["own"]["pair"] == "en-fr"


def test_test_sets_of_a_multilingual_model_are_each_of_their_own_pair(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpora, model = tmp_path / "corpora", tmp_path / "model"
    sets = [f'{{name="{code}", files=["test.en", "test.de"], target_language="{code}"}}' for code in ("de", "fr", "nl")]
    trained = ", ".join(entry.replace("test.", "train.") for entry in sets)
    settings = ["data.train=[]", "data.test={}", f"data.corpora=[{trained}]", f"data.test_sets=[{', '.join(sets)}]"]
    config = trained_models.recipe_config(recipe, corpora, settings)
    save_bundle(model, config, {}, SubwordTokenizer.train(["a b c"], algorithm="bpe", vocab_size=260), {})
    echo = SimpleNamespace(stream=lambda sources, text_options: ([SimpleNamespace(text=each)] for each in sources))
    monkeypatch.setattr(table2, "Translator", SimpleNamespace(load=lambda *_, **__: echo))
    experiment = make("table2", "laptop", output=tmp_path / "out", models=[str(model)], data=corpora)
    found = [each.measure(print) for each in experiment.measurements if each.name.startswith("test/")]
    assert [(each["test"], each["pair"]) for each in found] == [("de", "en-de"), ("fr", "en-fr")]
    assert "|tok:moses-like-fr+" in found[1]["signature"]


def test_a_test_set_may_be_a_translation_memory_of_the_other_direction(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def stream(sources: list[str], text_options: TextOptions) -> Iterator[list[SimpleNamespace]]:
        read.extend(sources)
        return ([SimpleNamespace(text="Hund")] for _ in sources)

    monkeypatch.setattr(table2, "Translator", SimpleNamespace(load=lambda *_, **__: SimpleNamespace(stream=stream)))
    corpus = tmp_path / "corpora" / "own"
    write_memory(corpus / "test.tmx", [{"de": "Hund", "en": "dog"}], source="de")
    config = trained_models.recipe_config(recipe, corpus, ['data.test={memory = ["test.tmx"]}'])
    system = table2.System("own", "en-de", config, tmp_path, None)
    assert table2._test(system, *config.data.test_corpora, False, print)["lines"] == 1
    assert read == ["dog"]
    assert trained_models.read_test(config, "memory") == (["dog"], ["Hund"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["data.target_language=nl"], r"own: translates 'en-nl'\. Table 2 has en-de and en-fr"),
        (["data.test={}"], r"own: names no test set"),
    ],
)
def test_what_table_2_cannot_have(recipe: Path, tmp_path: Path, settings: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make("table2", "laptop", output=tmp_path, recipes=[recipe], data=tmp_path / "corpora", settings=settings)


def test_a_system_is_named_once(recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="own: is named twice"):
        make("table2", "laptop", output=tmp_path, recipes=[recipe, recipe], data=tmp_path / "corpora")


TABLE2_MEASURED: dict[str, Any] = {
    "train/ours": {
        "name": "ours", "pair": "en-de", "trained_here": True, "corpus": "wmt14-en-de", "training_pairs": 4_500_000,
        "parameters": 63_050_000, "model": dataclasses.asdict(preset("paper-base").model), "max_steps": 100_000,
        "batch_tokens": 25_000, "decode": {"beam_size": 4, "length_penalty": 0.6},
        "metrics": {
            "steps": 100_000, "training_seconds": 7200.0, "training_flops": 10**18, "training_flops_estimate": 4e18,
            "training_flops_estimate_of": "7,200 device seconds × 556 TFLOP/s",
        },
    },
    "test/ours/newstest2014": {
        "system": "ours", "pair": "en-de", "test": "newstest2014", "lines": 3003, "bleu": 27.31,
        "signature": "tok:moses-like-de", "sacrebleu": 26.5, "sacrebleu_signature": "tok:13a",
    },
    "train/old": {
        "name": "old", "pair": "en-fr", "trained_here": False, "corpus": "own", "training_pairs": None,
        "parameters": 1_000_000, "model": dataclasses.asdict(preset("tiny").model), "max_steps": 10,
        "batch_tokens": 100, "decode": {"beam_size": 1, "length_penalty": 0.0}, "metrics": {},
    },
    "test/old/toy": {
        "system": "old", "pair": "en-fr", "test": "toy", "lines": 10, "bleu": 12.0,
        "signature": "tok:moses-like-fr", "sacrebleu": 11.0, "sacrebleu_signature": "tok:13a",
    },
}  # fmt: skip


def test_the_report_of_table_2(tmp_path: Path) -> None:
    page = table2_report.render("laptop", TABLE2_MEASURED)
    assert row(page, "Transformer (base model)")[1:3] == ["27.3", "38.1"]
    ours = ["27.31", "", "4.0e18", "", "1.0e18", ""]
    assert row(page, "**measured: ours, newstest2014**")[1:] == ours
    assert row(page, "ours", "## What ours cost") == ["ours", "63.05", "100,000", "2.00", "1.00e+18", "4.00e+18", "25%"]
    assert row(page, "old", "## What ours cost")[2:] == ["", "", "not counted", "unknown", ""]
    assert "ours: estimated from 7,200 device seconds × 556 TFLOP/s." in page
    assert "old: its training recorded no cost." in page
    (about_ours,) = [line for line in page.splitlines() if line.startswith("- ours: ")]
    assert "4,500,000 pairs of wmt14-en-de (the paper: WMT 2014, 4.5 million pairs)" in about_ours
    assert "Measured on" not in about_ours  # it is the paper's test set
    (about_old,) = [line for line in page.splitlines() if line.startswith("- old: ")]
    assert about_old.endswith("Measured on toy, not on newstest2014.")
    assert "Smoke scale" not in page
    assert "Smoke scale" in table2_report.render("smoke", TABLE2_MEASURED)
    table2_report.draw(TABLE2_MEASURED, tmp_path)
    assert is_picture(tmp_path / "table2.png")


# --- Table 3 ----------------------------------------------------------------------------------------------------


def test_parameters_come_out_as_printed() -> None:
    rows = {name: measured for name, *measured in table3.parameter_rows()}
    assert len(rows) == 20
    for name, (printed, t2t, _) in rows.items():
        if printed and name != "big":  # see docs/paper-map.md
            assert round(float(t2t)) == int(printed), name
    assert rows["base"] == ["65", "65.13", "63.05"]
    assert rows["big"][0] == "213"


@pytest.fixture
def smoke_table3(tmp_path: Path) -> Experiment:
    return make("table3", "smoke", output=tmp_path / "out", rows=["D3"], seeds=2)


def test_the_base_is_always_among_the_rows(smoke_table3: Experiment, tmp_path: Path) -> None:
    assert [each.name for each in smoke_table3.measurements] == ["base", "D3"]
    assert smoke_table3.settings["seeds"] == 2
    assert not (tmp_path / "out").exists()
    with pytest.raises(ConfigError, match=r"no row 'D9'"):
        make("table3", "smoke", output=tmp_path, rows=["D9"])
    with pytest.raises(ConfigError, match=r"--seeds 0, --jobs 1: must be greater than 0"):
        make("table3", "smoke", output=tmp_path, seeds=0)


def table3_row(row: str, perplexities: list[float], bleu: list[float]) -> dict[str, Any]:
    seeds = [
        {
            "row": row,
            "seed": seed,
            "perplexity": perplexity,
            "bleu": score,
            "parameters": 10_000,
            "steps": 10,
            "training_seconds": 1.0,
        }
        for seed, (perplexity, score) in enumerate(zip(perplexities, bleu, strict=True), start=1)
    ]
    return {"bleu": "sacreBLEU 13a, beam 2", "seeds": seeds}


def test_the_report_of_table_3(smoke_table3: Experiment, tmp_path: Path) -> None:
    measured = {"base": table3_row("base", [6.0, 6.2], [20.0, 20.2]), "D3": table3_row("D3", [5.0, 5.2], [19.0, 18.8])}
    page = smoke_table3.render(measured)
    assert row(page, "D3")[:6] == ["D3", "label_smoothing 0.0", "4.67", "5.10 ± 0.14", "25.3", "18.9 ± 0.1"]
    assert "(§5.4) label smoothing hurts perplexity, but improves BLEU:\n    - perplexity: **holds**" in page
    assert "(A) a single head is worse than the best number of heads: **not measured**" in page
    assert "Not trained here: rows A1, A2, " in page
    assert "demo's generated corpus" in page
    smoke_table3.draw(measured, tmp_path)
    assert is_picture(tmp_path / "table3.png")


def test_at_the_papers_scale_table_3_has_the_papers_bleu(recipe: Path, tmp_path: Path) -> None:
    made = {
        scale: make("table3", scale, output=tmp_path / "out", recipe=recipe, data=tmp_path / "corpora")
        for scale in ("laptop", "paper")
    }
    assert {scale: each.settings.get("bleu") for scale, each in made.items()} == {
        "laptop": None,
        "paper": "the paper's way",
    }
    studies = {scale: each.measurements[0].measure.func.__self__ for scale, each in made.items()}  # type: ignore[attr-defined]
    assert {scale: study.ablation.paper_bleu for scale, study in studies.items()} == {"laptop": False, "paper": True}


def test_the_report_of_table_3_says_what_row_e_also_changes(smoke_table3: Experiment) -> None:
    measured = {"base": table3_row("base", [6.0], [20.0]), "E": table3_row("E", [5.0], [19.0])}
    assert "learned positions start at 0.177 (1/√d_model), but embeddings at 1" in smoke_table3.render(measured)


def test_rows_of_earlier_calls_stay_in_table_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table3.Study, "measure", lambda self, row, say: table3_row(row, [6.0], [20.0]))
    for rows in (["B1"], ["A1"]):
        experiment = make("table3", "smoke", output=tmp_path, rows=rows)
        page = run_experiment(experiment, tmp_path, show_progress=False).read_text(encoding="utf-8")
    assert row(page, "B1")[3] == "6.00"
    assert page.index("| A1 |") < page.index("| B1 |")
    assert "Not trained here: rows A2, A3, A4, B2, " in page


# --- Table 4 ----------------------------------------------------------------------------------------------------


def test_toy_trees_are_of_the_grammar_and_all_different(tmp_path: Path) -> None:
    """Of 1200 that are drawn one after the other, some have the same words."""
    make_toy_treebank(tmp_path / "a", {"test": 200, "train": 1000})
    make_toy_treebank(tmp_path / "b", {"test": 200, "train": 1000})
    names = ("test.trees", "train.trees")
    assert [(tmp_path / "a" / n).read_bytes() for n in names] == [(tmp_path / "b" / n).read_bytes() for n in names]
    trees = [tree for name in names for tree in read_trees(tmp_path / "a" / name)]
    sentences = {" ".join(leaf.word for leaf in tree.leaves()) for tree in trees}
    assert len(trees) == len(sentences) == 1200
    waiting = list(trees)
    while waiting:
        node = waiting.pop()
        children = tuple(getattr(child, "label", getattr(child, "tag", "")) for child in node.children)
        assert children in RULES[node.label]
        for child in node.children:
            if hasattr(child, "word"):
                assert child.word in WORDS[child.tag]
            else:
                waiting.append(child)


def test_the_semi_supervised_parser_needs_trees(recipe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "corpora" / "own"
    make_toy_treebank(folder, {"train": 3, "dev": 2, "test": 2, "silver": 7})
    (folder / "raw.txt").write_text("a dog .\n")
    recipe.write_text(
        'name = "own"\n[data]\nformat = "trees"\nfolder = "own"\ntrain = [["train.trees"]]\n'
        'validation = ["dev.trees"]\ntest = { toy = ["test.trees"] }\n'
    )

    def names(**options: Any) -> list[str]:
        experiment = make("table4", "laptop", output=tmp_path / "out", recipe=recipe, data=folder, seeds=2, **options)
        return [each.name for each in experiment.measurements]

    supervised, semi = ["supervised/seed=1", "supervised/seed=2"], ["semi-supervised/seed=1", "semi-supervised/seed=2"]
    assert names() == supervised
    assert names(silver=folder / "silver.trees") == [*supervised, *semi]
    assert names(raw=folder / "raw.txt") == [*supervised, "silver", *semi]

    def settings(**options: Any) -> Any:
        return make("table4", "laptop", output=tmp_path / "out", recipe=recipe, data=folder, **options).settings

    assert settings()["tests"] == {"toy": {"test.trees": files.sha256(folder / "test.trees")}}
    before = settings(raw=folder / "raw.txt")
    assert before["silver"] == {"name": "raw.txt", "sha256": [files.sha256(folder / "raw.txt")]}
    (folder / "raw.txt").write_text("a cat .\n")  # as many bytes
    assert settings(raw=folder / "raw.txt")["silver"] != before["silver"]
    with pytest.raises(ConfigError, match=r"--raw is parsed into silver trees"):
        names(raw=folder / "raw.txt", silver=folder / "silver.trees")
    with pytest.raises(ConfigError, match=r"none\.txt: no such file"):
        names(raw=folder / "none.txt")
    with pytest.raises(DataError, match=r"own: is a folder, not a text file"):
        names(raw=folder)
    (folder / "blank.txt").write_text("\n \n")
    with pytest.raises(ConfigError, match=r"blank\.txt: has no sentences"):
        names(raw=folder / "blank.txt")
    with pytest.raises(DataError, match=r"raw\.txt, line 1, column 1: stray text 'a'"):
        names(silver=folder / "raw.txt")
    (folder / "late.trees").write_text((folder / "silver.trees").read_text() + "(S (NP\n")
    with pytest.raises(DataError, match=r"late\.trees"):
        names(silver=folder / "late.trees")
    config = trained_models.recipe_config(recipe, folder)
    mixed = table4._with_silver(config, folder / "silver.trees").data
    assert mixed.train == (("train.trees",), (str(folder / "silver.trees"),))
    assert mixed.repeat == (2, 1)  # three gold trees twice, for seven silver ones
    fixed = dataclasses.replace(config, data=dataclasses.replace(config.data, repeat=(10,)))
    assert table4._with_silver(fixed, folder / "silver.trees").data.repeat == (10, 1)
    (tmp_path / "stored").write_bytes(gzip.compress((folder / "silver.trees").read_bytes()))
    (folder / "link.trees.gz").symlink_to(tmp_path / "stored")  # read as its own name says
    assert table4._with_silver(config, folder / "link.trees.gz").data.train[1] == (str(folder / "link.trees.gz"),)


def test_treebanks_with_weights_are_counted_and_get_no_silver_trees(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "corpora" / "own"
    make_toy_treebank(folder, {"one": 3, "two": 4, "dev": 2, "test": 2})
    recipe.write_text(
        'name = "own"\n[data]\nformat = "trees"\nfolder = "own"\nvalidation = ["dev.trees"]\n'
        'test = { toy = ["test.trees"] }\n[[data.corpora]]\nfiles = ["one.trees"]\n'
        '[[data.corpora]]\nfiles = ["two.trees"]\nweight = 2.0\n'
    )
    config = trained_models.recipe_config(recipe, folder)
    assert table4._count(table4._gold(config)) == 7
    monkeypatch.setenv("HOME", str(tmp_path))
    home = apply_settings(config, ['data.corpora=[{files=["~/corpora/own/one.trees"]}]'])
    assert table4._count(table4._gold(home)) == 3  # as training reads it
    options: dict[str, Any] = {"output": tmp_path / "out", "recipe": recipe, "data": folder}
    assert make("table4", "laptop", **options, seeds=1).measurements
    with pytest.raises(ConfigError, match=r"own: silver trees are added to data\.train, and it has data\.corpora"):
        make("table4", "laptop", **options, silver=folder / "one.trees")


@pytest.mark.parametrize(("toy", "whole", "kept"), [(False, 2, 2), (True, 2, 3), (True, 0, 3)])
def test_silver_trees_are_those_that_needed_no_repair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toy: bool, whole: int, kept: int
) -> None:
    stub_parser(monkeypatch, whole)
    (tmp_path / "raw.txt").write_text("one .\n\ntwo .\nthree .\n")
    task = table4.Task(Config(), Config(), tmp_path, tmp_path / "raw.txt", tmp_path / "silver.trees", toy, False)
    values = table4._silver(task, tmp_path / "raw.txt", 1, print)
    assert values == {"source": "raw.txt", "sentences": 3, "well_formed": whole, "kept": kept}
    trees = [str(tree) for tree in read_trees(tmp_path / "silver.trees")]
    assert trees == [f"(S (CD {word}) (. .))" for word in ("one", "two", "three")[:kept]]


def test_without_silver_trees_nothing_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub_parser(monkeypatch, 0)
    (tmp_path / "raw.txt").write_text("one .\n")
    task = table4.Task(Config(), Config(), tmp_path, tmp_path / "raw.txt", tmp_path / "silver.trees", False, False)
    with pytest.raises(TrainingError, match=r"raw\.txt: none of 1 sentences got a tree without repair"):
        table4._silver(task, tmp_path / "raw.txt", 1, print)
    assert not (tmp_path / "silver.trees").exists()


def stub_parser(monkeypatch: pytest.MonkeyPatch, whole: int) -> None:
    """Puts a parser in place that gives the first `whole` sentences a tree of their own, and repairs the others."""

    class Stub:
        translator = SimpleNamespace(with_options=lambda **options: options)

        def stream(self, sentences: Iterable[str], *, options: dict[str, int]) -> Iterator[Parse]:
            assert options == {"beam_size": 1}
            for number, sentence in enumerate(sentences):
                words = tuple(sentence.split())
                tree = Tree("S", (Leaf("CD", words[0]), Leaf(".", words[1])))
                yield Parse(words, tree, number >= whole, 0.0, True, False)

    monkeypatch.setattr(table4.Parser, "load", lambda path, constrained: Stub())


def test_at_the_papers_scale_silver_trees_have_a_recipe_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for section in ("02", "11", "21", "22", "23"):
        make_toy_treebank(tmp_path / "mrg" / "wsj" / section, {"one": 2}, seed=int(section))
    make_toy_treebank(tmp_path, {"silver": 5})
    monkeypatch.chdir(_REPOSITORY)
    options = {"output": tmp_path / "out", "data": tmp_path / "mrg", "settings": ["train.max_steps=9"]}
    experiment = make("table4", "paper", silver=tmp_path / "silver.trees", **options)
    assert [each.name for each in experiment.measurements] == ["supervised/seed=1", "semi-supervised/seed=1"]
    alone, both = experiment.settings["config"], experiment.settings["semi"]
    assert (alone["text"]["vocab_size"], both["text"]["vocab_size"]) == (16_000, 32_000)
    assert (alone["train"]["max_steps"], both["train"]["max_steps"]) == (9, 9)
    assert both["data"]["train"] == alone["data"]["train"]  # silver ones come when they are there
    assert (alone["data"]["repeat"], both["data"]["repeat"]) == ([], [10])


def test_a_recipe_of_a_translator_is_no_parser(recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="own: trains no parser"):
        make("table4", "laptop", output=tmp_path, recipe=recipe, data=tmp_path / "corpora")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"f1": "high"}', '{"tests": {}}', '{"tests": {"gum": {}}}', '{"runs": []}']
)
def test_what_is_no_baseline(tmp_path: Path, text: str) -> None:
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(ConfigError, match=r"b\.json: no result of a parser"):
        table4.read_baseline(tmp_path / "b.json")


def test_a_baseline(tmp_path: Path) -> None:
    path = tmp_path / "pcfg.json"
    path.write_text('{"f1": 70}')
    assert table4.read_baseline(path) == [Baseline("pcfg", "", 70.0)]
    run = {
        "what": "treebank PCFG, exact CKY; input is words alone",
        "settings": {"max_words": 25},
        "train": {"name": "gum"},
        "tests": {"gum": {"scores": {"f1": 77.3}}, "wsj": {"scores": {"f1": 70.5}}},
    }
    name = "treebank PCFG, exact CKY, trained on gum"
    expected = [Baseline(name, "gum", 77.3, 25), Baseline(name, "wsj", 70.5, 25)]
    for written, times in ((run, 1), ({"runs": [run, run]}, 2)):
        path.write_text(json.dumps(written))
        assert table4.read_baseline(path) == expected * times


def parser_result(setting: str, seed: int, f1: float, silver: int = 0) -> dict[str, Any]:
    figures = dict.fromkeys(("precision", "recall", "complete_match", "tagging_accuracy", "repaired"), 50.0)
    shape = {"num_encoder_layers": 4, "num_decoder_layers": 4, "d_model": 128, "vocab_size": 4000, "norm": "pre"}
    return {
        "setting": setting,
        "seed": seed,
        "recipe": "treebank-small",
        "gold_trees": 40_000,
        "silver_trees": silver,
        "model": shape,
        "decode": {"beam_size": 4, "length_penalty": 0.3},
        "metrics": {"steps": 4000},
        "scores": {"toy": {"f1": f1, "sentences": 1200, **figures}},
        "short_scores": {"toy": {"f1": f1 + 5, "sentences": 700, **figures}},
    }


def test_the_report_of_table_4(tmp_path: Path) -> None:
    measured = {
        "supervised/seed=1": parser_result("supervised", 1, 80.0),
        "supervised/seed=2": parser_result("supervised", 2, 82.0),
        "semi-supervised/seed=1": parser_result("semi-supervised", 1, 83.0, silver=90_000),
    }
    baselines = [
        Baseline("treebank PCFG", "toy", 70.5, 25),
        Baseline("another", "toy", 69.5, 10),
        Baseline("a third", "toy", 68.5),
    ]
    page = table4_report.render("laptop", measured, baselines=baselines)
    assert len(table4_report.LITERATURE) == 12
    assert "| Transformer (4 layers) | WSJ only, discriminative | WSJ 23 | 91.3 |  |  |" in page
    assert "| **measured: treebank-small** | supervised | toy |  | 81.00 ± 1.41 | 86.00 ± 1.41 |" in page
    assert "| **measured: treebank-small** | semi-supervised | toy |  | 83.00 | 88.00 |" in page
    assert "| baseline: treebank PCFG |  | toy |  |  | 70.50 |" in page
    assert "| baseline: another |  | toy, up to 10 words |  | 69.50 |  |" in page
    assert "| baseline: a third |  | toy |  | 68.50 |  |" in page
    assert "Mean of 2 seeds" in page
    assert "- semi-supervised: 40,000 gold trees and 90,000 silver ones" in page
    assert "was not trained" not in page
    alone = table4_report.render("laptop", {"supervised/seed=1": parser_result("supervised", 1, 80.0)})
    assert "The semi-supervised parser was not trained" in alone
    assert "One seed: there is no spread." in alone
    assert "baseline" not in alone
    table4_report.draw(measured, tmp_path, baselines=baselines)
    assert is_picture(tmp_path / "table4.png")


def test_the_trees_of_the_toy_recipe_are_data(tmp_path: Path) -> None:
    experiment = make("table4", "smoke", output=tmp_path)
    data = DataConfig(**experiment.settings["config"]["data"])
    assert data.format == "trees"
    assert [each.name for each in experiment.measurements] == ["supervised/seed=1", "silver", "semi-supervised/seed=1"]
