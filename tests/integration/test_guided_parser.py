"""A parser that reads each word as one token and is shown which word it is at: trained, resumed, run and exported."""

import json
from pathlib import Path

import numpy as np
import pytest

from made_trees import write_trees
from transduce import Parser
from transduce.bundle import Bundle
from transduce.cli.main import main
from transduce.config import load_recipe
from transduce.config.tensors import read_weights
from transduce.data.prepare import prepare
from transduce.data.prepared import load_prepared
from transduce.data.store import ParallelStore
from transduce.data.treebank_reader import read_treebank
from transduce.errors import ConfigError
from transduce.text import SubwordTokenizer
from transduce.training.run_folder import checkpoints
from transduce.treebank import normalise
from transduce.treebank.pairs import WHOLE, tree_words

pytestmark = pytest.mark.computes

RECIPE = """
name = "made"
model = { num_encoder_layers = 1, num_decoder_layers = 3, d_model = 16, d_ff = 32, num_heads = 2, d_k = 8, d_v = 8 }
text = { vocab_size = 400 }
decode = { beam_size = 2, max_extra_tokens = 40 }

[data]
format = "trees"
folder = "."
train = [["train.trees"]]
validation = ["dev.trees"]
test = { made = ["dev.trees"] }
max_ratio = 0.0
drop_leaked = false
rare_words = "signatures"

[train]
source_batch_tokens = 500
target_batch_tokens = 500
guided_attention = 0.5
warmup_steps = 20
max_steps = 8
device = "cpu"
precision = "fp32"
checkpoint_minutes = 0.0
checkpoint_steps = 4
validate_steps = 0
average_last = 1
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("treebank")
    write_trees(folder / "train.trees", 60, 1)
    write_trees(folder / "dev.trees", 8, 3)
    (folder / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    return folder / "recipe.toml"


def train(recipe: Path, run: Path, *settings: str, more: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
    given = [word for setting in settings for word in ("--set", setting)]
    assert main(["parse", "train", str(recipe), "--output", str(run), "--quiet", *given, *more]) == 0
    return read_weights(checkpoints(run)[-1] / "model.safetensors")


@pytest.fixture(scope="module")
def run(recipe: Path) -> Path:
    train(recipe, recipe.parent / "run")
    return recipe.parent / "run"


def greatest_difference(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> float:
    return max(float(np.abs(first[name] - second[name]).max()) for name in first)


def test_each_word_of_the_store_is_one_token(recipe: Path, run: Path) -> None:
    prepared = load_prepared(run / "data")
    store = ParallelStore.open(prepared.train)
    trees = [tree for tree in map(normalise, read_treebank([recipe.parent / "train.trees"])) if tree]
    assert [len(store.source(row)) for row in range(len(store))] == [len(tree_words(tree)) for tree in trees]
    assert len(SubwordTokenizer.load(prepared.tokenizer).encode("UNK")) == 1


def test_guidance_acts_and_micro_batches_change_nothing(recipe: Path, run: Path, tmp_path: Path) -> None:
    guided = read_weights(checkpoints(run)[-1] / "model.safetensors")
    plain = train(recipe, tmp_path / "plain", "train.guided_attention=0", "model.dropout=0")
    prepared, small = ("--data", str(run / "data")), "train.micro_batch_tokens=120"
    whole = train(recipe, tmp_path / "whole", "model.dropout=0", more=prepared)
    parts = train(recipe, tmp_path / "parts", "model.dropout=0", small, more=prepared)
    assert greatest_difference(whole, parts) < 1e-4
    assert greatest_difference(whole, plain) > 1e-2
    assert greatest_difference(guided, whole) > 0  # dropout


def test_resumed_is_uninterrupted(recipe: Path, run: Path, tmp_path: Path) -> None:
    train(recipe, tmp_path / "run", "train.max_steps=5")
    resumed = train(recipe, tmp_path / "run", "train.max_steps=8", more=("--resume",))
    assert greatest_difference(resumed, read_weights(checkpoints(run)[-1] / "model.safetensors")) == 0


def test_trees_have_the_words_as_they_were(run: Path) -> None:
    sentence = "the Snarkiest boojum-4711 sees UNK , 日本語 and <s> !"
    [tree] = Parser.load(run / "model", device="cpu").parse([sentence])
    assert tree is not None
    assert tree_words(tree) == sentence.split()


def test_known_trees_are_scored_as_the_model_reads_them(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A word that the vocabulary does not have is read by its shape, and is worth the same as that shape."""
    for name, sentence in (
        ("as-it-is", "the Snarkiest dog"),
        ("by-shape", "the UNK-C-est dog"),
        ("tree", "(S DT NN )S"),
    ):
        (tmp_path / name).write_text(f"{sentence}\n", encoding="utf-8")
    scores = []
    for name in ("as-it-is", "by-shape"):
        source, target = str(tmp_path / name), str(tmp_path / "tree")
        assert main(["score", str(run / "model"), "--source", source, "--target", target, "--device", "cpu"]) == 0
        scores.append(capsys.readouterr().out)
    assert scores[0] == scores[1]


def test_a_parser_is_no_translator(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", str(run / "model")]) == ConfigError.exit_code
    assert "this model is a parser. 'transduce parse run" in capsys.readouterr().err


def test_an_export_is_certified_on_what_the_model_reads(run: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("the Snarkiest dog sees a boojum .\n", encoding="utf-8")
    arguments = ["--format", "ctranslate2", "--source", str(tmp_path / "in"), "--output", str(tmp_path / "out")]
    assert main(["export", str(run / "model"), *arguments]) == 0
    certificate = json.loads((tmp_path / "out" / "certificate.json").read_text(encoding="utf-8"))
    assert certificate["verdict"] == "passed"
    verified = ["verify", str(run / "model"), "--quick", "--no-engines", "--sample", "2", "--device", "cpu"]
    assert main([*verified, "--source", str(tmp_path / "in"), "--export", str(tmp_path / "out")]) == 0


def test_a_vocabulary_without_signatures_is_refused(recipe: Path, tmp_path: Path) -> None:
    lines = ["the dog sees a ball .", "(S (NP DT NN )NP (VP VBZ )VP . )S"]
    SubwordTokenizer.train(lines, algorithm="bpe", vocab_size=300, whole=WHOLE).save(tmp_path / "tokenizer.json")
    with pytest.raises(ConfigError, match=r"data\.rare_words = 'signatures': 'UNK'"):
        prepare(load_recipe(recipe), tmp_path / "data", tokenizer=tmp_path / "tokenizer.json", progress=False)


def test_a_saved_model_says_how_it_reads(run: Path) -> None:
    assert Bundle.load(run / "model").config.data.rare_words == "signatures"
