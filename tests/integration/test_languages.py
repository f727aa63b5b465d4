"""One model of two target languages: what decides which is written is the tag, from the recipe to the command line."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from transduce.cli.main import main
from transduce.config import load_recipe
from transduce.data.prepare import prepare
from transduce.data.prepared import load_prepared
from transduce.data.store import ParallelStore
from transduce.errors import ConfigError, DataError
from transduce.runs import train
from transduce.text import SubwordTokenizer
from transduce.translation.pipeline import TextOptions
from transduce.translation.translator import Translator

pytestmark = pytest.mark.computes

WORDS = {
    "en": ["dog", "cat", "red", "big", "house", "runs", "sees", "tree", "one", "two"],
    "de": ["Hund", "Katze", "rot", "groß", "Haus", "rennt", "sieht", "Baum", "eins", "zwei"],
    "fr": ["chien", "chat", "rouge", "grand", "maison", "court", "voit", "arbre", "un", "deux"],
}
RECIPE = """
[model]
num_encoder_layers = 1
num_decoder_layers = 1
d_model = 32
d_ff = 64
num_heads = 2
d_k = 16
d_v = 16
dropout = 0.0
norm = "pre"

[text]
vocab_size = 330

[data]
folder = "."
source_language = "en"
drop_leaked = false

[[data.corpora]]
files = ["train.en", "train.de"]
target_language = "de"

[[data.corpora]]
files = ["other.en", "other.fr"]
target_language = "fr"
weight = 0.5
domain = "animals"

[[data.validation_sets]]
name = "german"
files = ["dev.en", "dev.de"]
target_language = "de"

[[data.validation_sets]]
name = "french"
files = ["dev-fr.en", "dev-fr.fr"]
target_language = "fr"
domain = "animals"

[train]
source_batch_tokens = 600
target_batch_tokens = 600
warmup_steps = 40
learning_rate_factor = 0.5
max_steps = 240
device = "cpu"
precision = "fp32"
checkpoint_minutes = 0.0
validate_steps = 120
average_last = 1
"""


def write(folder: Path, name: str, language: str, count: int, seed: int) -> None:
    generator = random.Random(seed)
    sentences = [generator.choices(range(10), k=generator.randint(1, 2)) for _ in range(count)]
    for each in ("en", language):
        text = "".join(" ".join(WORDS[each][i] for i in sentence) + "\n" for sentence in sentences)
        (folder / f"{name}.{each}").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("languages")
    for name, language, count, seed in (("train", "de", 500, 1), ("other", "fr", 700, 2), ("dev", "de", 30, 3)):
        write(folder, name, language, count, seed)
    write(folder, "dev-fr", "fr", 20, 4)
    (folder / "recipe.toml").write_text(RECIPE)
    return folder / "recipe.toml"


@pytest.fixture(scope="module")
def run(recipe: Path) -> Path:
    train(load_recipe(recipe), recipe.parent / "run", show_progress=False)
    return recipe.parent / "run"


def test_each_source_begins_with_the_tags_of_its_corpus(run: Path) -> None:
    prepared = load_prepared(run / "data")
    tags = SubwordTokenizer.load(prepared.tokenizer).tags
    assert list(tags) == ["<2de>", "<2fr>", "<domain:animals>"]
    store = ParallelStore.open(prepared.train, prepared.corpora)
    german, french = store.rows_of_corpora().values()
    assert {int(store.source(row)[0]) for row in german} == {tags["<2de>"]}
    assert {tuple(store.source(row)[:2].tolist()) for row in french} == {(tags["<2fr>"], tags["<domain:animals>"])}
    assert not any(np.isin(store.target(row), [*tags.values()]).any() for row in range(len(store)))
    validation = ParallelStore.open(prepared.validation, prepared.validation_sets)  # type: ignore[arg-type]
    assert {name: len(rows) for name, rows in validation.rows_of_corpora().items()} == {"german": 30, "french": 20}


def test_the_tag_decides_which_language_is_written(run: Path) -> None:
    """240 steps leave room: trainings of other seeds wrote all words right after about half of them."""
    translator = Translator.load(run / "model", engine="torch")
    for language in ("de", "fr"):
        written = translator.translate(
            WORDS["en"], text_options=TextOptions(target=language, domain="animals" if language == "fr" else "")
        )
        assert sum(word == wanted for word, wanted in zip(written, WORDS[language], strict=True)) >= 8
    assert translator.translate(WORDS["en"]) == translator.translate(WORDS["en"], target="de")
    with pytest.raises(ConfigError, match="It knows: de, fr"):
        translator.translate(["dog"], target="it")


def test_each_validation_set_has_scores_and_their_mean_decides(run: Path) -> None:
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    validation = [record for record in records if record["kind"] == "validation"][-1]
    each = [validation["perplexity.german"], validation["perplexity.french"]]
    assert validation["perplexity"] == pytest.approx((each[0] * each[1]) ** 0.5)
    assert validation["bleu"] == pytest.approx((validation["bleu.german"] + validation["bleu.french"]) / 2)
    state = json.loads((sorted((run / "checkpoints").glob("step-*"))[-1] / "state.json").read_text())
    assert state["progress"]["best_by"] == "bleu"
    metrics = json.loads((run / "model" / "metrics.json").read_text())
    assert metrics["validation_perplexity.french"] == pytest.approx(each[1], rel=1e-4)


@pytest.mark.parametrize(("target", "warned"), [("de", False), ("fr", True)])
def test_a_text_in_the_target_language_is_named(
    run: Path, tmp_path: Path, target: str, warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.fr").write_text("chien\n")
    files = ["--source", str(tmp_path / "in.fr"), "--output", str(tmp_path / "out")]
    assert main(["translate", str(run / "model"), *files, "--target", target, "--quiet"]) == 0
    warning = "in.fr: by its name its language is fr, but the model translates en → fr."
    assert (warning in capsys.readouterr().err) == warned


def test_commands_take_a_target(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, folder = tmp_path / "in.en", run.parent
    source.write_text("dog\nred tree\n")
    common = ["translate", str(run / "model"), "--source", str(source)]
    outputs = {}
    for language in ("de", "fr"):
        assert main([*common, "--target", language, "--output", str(tmp_path / language)]) == 0
        outputs[language] = (tmp_path / language).read_text()
    assert outputs["de"] != outputs["fr"]
    assert "zero-shot" not in capsys.readouterr().err
    assert main([*common, "--target", "fr", "--source-language", "de", "--output", str(tmp_path / "zero")]) == 0
    assert capsys.readouterr().err.count("de → fr is zero-shot: the model was not trained on this pair.") == 1
    assert main([*common, "--target", "it"]) != 0
    assert "target language 'it': this model does not know it. It knows: de, fr." in capsys.readouterr().err
    perplexities = {}
    for language in ("de", "fr"):
        files = ["--source", str(folder / "dev.en"), "--reference", str(folder / "dev.de")]
        assert main(["evaluate", "--model", str(run / "model"), *files, "--target", language, "--json"]) == 0
        perplexities[language] = json.loads(capsys.readouterr().out)["perplexity"]
    assert perplexities["de"] < perplexities["fr"]
    score = ["score", str(run / "model"), "--source", str(folder / "dev.en"), "--target", str(folder / "dev.de")]
    scored = []
    for language in ("de", "fr"):
        assert main([*score, "--target-language", language]) == 0
        scored.append(capsys.readouterr().out)
    assert scored[0] != scored[1]


def test_a_target_is_part_of_what_a_file_is_resumed_with(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "in.en"
    source.write_text("dog\n")
    common = ["translate", str(run / "model"), "--source", str(source), "--output", str(tmp_path / "out")]
    assert main([*common, "--target", "de"]) == 0
    assert main([*common, "--target", "fr", "--resume"]) != 0
    assert "target" in capsys.readouterr().err


def test_a_vocabulary_with_tags_is_used_again(recipe: Path, run: Path, tmp_path: Path) -> None:
    """Also for one target language: sources are tagged as the model expects them. New tags come behind the others."""
    settings = [
        "data.validation_sets=[]",
        'data.corpora=[{files=["train.en","train.de"],target_language="de",tag="bt"}]',
    ]
    tokenizer = run / "data" / "tokenizer.json"
    prepare(load_recipe(recipe, settings), tmp_path / "data", tokenizer=tokenizer, progress=False)
    prepared = load_prepared(tmp_path / "data")
    before, now = SubwordTokenizer.load(tokenizer), SubwordTokenizer.load(prepared.tokenizer)
    assert now.tags == before.tags | {"<tag:bt>": before.vocab_size}
    store = ParallelStore.open(prepared.train, prepared.corpora)
    assert store.source(0)[:2].tolist() == [now.tags["<2de>"], now.tags["<tag:bt>"]]
    assert prepare(load_recipe(recipe, settings), tmp_path / "data", tokenizer=tokenizer, progress=False).reused


def test_tags_are_part_of_what_data_were_prepared_with(recipe: Path, tmp_path: Path) -> None:
    plain = ["data.validation_sets=[]", 'data.corpora=[{files=["train.en","train.de"]}]']
    tagged = ["data.validation_sets=[]", 'data.corpora=[{files=["train.en","train.de"],tag="bt"}]']
    prepare(load_recipe(recipe, plain), tmp_path / "data", progress=False)
    with pytest.raises(DataError, match=r"was prepared differently: data\.tags"):
        prepare(load_recipe(recipe, tagged), tmp_path / "data", progress=False)


def test_a_model_of_more_languages_starts_from_one(recipe: Path, run: Path, tmp_path: Path) -> None:
    """Its tags keep their ids, and new ones come behind all pieces, each with a row of its own."""
    settings = ["data.validation_sets=[]", f"init.model={run / 'model'}", "train.max_steps=2", "train.warmup_steps=1"]
    files = 'files=["train.en","train.de"]'
    settings.append(f'data.corpora=[{{{files},target_language="de"}},{{{files},target_language="it"}}]')
    train(load_recipe(recipe, settings), tmp_path / "run", show_progress=False)
    translator, before = Translator.load(tmp_path / "run" / "model", engine="torch"), Translator.load(run / "model")
    assert translator.tokenizer.tags == before.tokenizer.tags | {"<2it>": before.tokenizer.vocab_size}
    assert translator.directions.targets == ("de", "fr", "it")
    assert translator.translate(["dog"], target="it")


def test_info_lists_the_corpora_of_prepared_data(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(run / "data"), "--json"]) == 0
    parts = json.loads(capsys.readouterr().out)["parts"]
    assert [(name, part["pairs"]) for name, part in parts.items()] == [
        ("train", 1200),
        ("validation", 50),
        ("train: train", 500),
        ("train: other", 700),
        ("validation: german", 30),
        ("validation: french", 20),
    ]
    assert main(["info", str(run / "data")]) == 0
    assert "train: other" in capsys.readouterr().out
