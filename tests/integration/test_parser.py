"""A parser end to end: trained on treebanks, run, scored, resumed, trained on its own silver trees; clear errors."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from made_trees import made_tree, write_trees
from transduce import Parser
from transduce.bundle import Bundle, save_bundle
from transduce.cli.main import main
from transduce.config import Config, DataConfig, DecodeConfig, ModelConfig, load_recipe
from transduce.config.checked_json import read_checked, write_checked
from transduce.config.tensors import read_weights
from transduce.data.origins import origins
from transduce.data.prepare import prepare
from transduce.data.prepared import load_prepared
from transduce.data.treebank_reader import read_treebank
from transduce.errors import BundleError, ConfigError, DataError
from transduce.model import Transformer
from transduce.parser import Parse
from transduce.text import SubwordTokenizer
from transduce.training.run_folder import checkpoints
from transduce.translation.translator import Translator
from transduce.treebank import normalise, parse_trees
from transduce.treebank.pairs import WHOLE, sentence_words, tree_words

pytestmark = pytest.mark.computes

RECIPE = """
name = "made"

[model]
num_encoder_layers = 1
num_decoder_layers = 1
d_model = 16
d_ff = 32
num_heads = 2
d_k = 8
d_v = 8
norm = "pre"

[text]
vocab_size = 300

[data]
format = "trees"
folder = "."
train = [["train"]]
validation = ["dev.trees"]
test = { made = ["test.trees"] }
max_ratio = 0.0
drop_leaked = false

[train]
source_batch_tokens = 500
target_batch_tokens = 500
warmup_steps = 20
max_steps = 12
device = "cpu"
precision = "fp32"
checkpoint_minutes = 0.0
checkpoint_steps = 6
validate_steps = 6
average_last = 2
log_steps = 4

[decode]
beam_size = 2
length_penalty = 0.3
max_extra_tokens = 40
"""

SENTENCES = [
    "the dog sees a ball .",
    "",
    "f(x) is 10\u00a0mg ( at most )",
    "   ",
    "odd\u2028separators\u0085and <s> </s> <pad> \u00a0 \x1c 日本語 😀",
    "(S (NP",
    "the " * 70 + "ball",
    "ball",
]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("treebank")
    write_trees(folder / "train" / "01.mrg", 40, 1)
    write_trees(folder / "train" / "02.mrg", 40, 2)
    write_trees(folder / "dev.trees", 8, 3)
    write_trees(folder / "test.trees", 6, 4)
    (folder / "recipe.toml").write_text(RECIPE)
    return folder / "recipe.toml"


@pytest.fixture(scope="module")
def run(recipe: Path) -> Path:
    assert main(["parse", "train", str(recipe), "--output", str(recipe.parent / "run"), "--quiet"]) == 0
    return recipe.parent / "run"


def records(run: Path, kind: str) -> list[dict[str, Any]]:
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


def assert_trees_over(lines: list[str], sentences: list[str]) -> None:
    """Checks that each line is one well-formed tree over exactly the words of its sentence, or empty as it is."""
    assert len(lines) == len(sentences)
    for line, sentence in zip(lines, sentences, strict=True):
        words = sentence_words(sentence)
        if not words:
            assert line == ""
            continue
        (tree,) = parse_trees([line], "output")
        assert tree_words(tree) == words
        assert str(tree) == line


def test_validation_is_by_f1(run: Path) -> None:
    validations = records(run, "validation")
    assert [record["step"] for record in validations] == [6, 12]
    names = {"perplexity", "f1", "precision", "recall", "complete_match", "tagging_accuracy", "repaired"}
    for record in validations:
        assert names <= record.keys()
        assert "bleu" not in record
        assert 0 <= record["f1"] <= 100
    state = json.loads((checkpoints(run)[-1] / "state.json").read_text())["progress"]
    assert state["best_by"] == "f1"
    assert state["best_score"] == max(record["f1"] for record in validations)


def test_the_first_run_needs_no_conversion_of_its_own(run: Path, tmp_path: Path) -> None:
    """Training converts the model to parse the test sentences; the conversion stays beside the model."""
    folders = run / "model" / "ctranslate2"
    [made] = folders.iterdir()
    before = (made / "model.bin").stat().st_ino
    (tmp_path / "in.txt").write_text("the dog\n", encoding="utf-8")
    given = ["--source", str(tmp_path / "in.txt"), "--output", str(tmp_path / "out.trees"), "--device", "cpu"]
    assert main(["parse", "run", str(run / "model"), *given]) == 0
    assert [*folders.iterdir()] == [made]
    assert (made / "model.bin").stat().st_ino == before


def test_the_model_knows_what_it_is_and_how_it_did(run: Path, recipe: Path) -> None:
    bundle = Bundle.load(run / "model")
    bundle.verify()
    assert bundle.config.data.format == "trees"
    metrics = bundle.metrics
    assert {"validation_perplexity", "validation_f1", "validation_repaired", "steps"} <= metrics.keys()
    assert not [key for key in metrics if "bleu" in key]
    gold = [tree for tree in map(normalise, read_treebank([recipe.parent / "test.trees"])) if tree]
    scores = Parser.load(run / "model", engine="torch", device="cpu", constrained=False).score(gold)
    assert {key: metrics[f"test_made_{key}"] for key in scores} == scores
    assert metrics["test_made_sentences"] == 6
    card = (run / "model" / "README.md").read_text(encoding="utf-8")
    assert f"| test_made_f1 | {scores['f1']:.2f} |" in card
    assert "transduce parse run" in card


def test_run_on_text(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in SENTENCES), encoding="utf-8")
    arguments = ["parse", "run", str(run / "model"), "--source", str(tmp_path / "text"), "--device", "cpu"]
    assert main([*arguments, "--output", str(tmp_path / "trees")]) == 0
    lines = (tmp_path / "trees").read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    assert_trees_over(lines, SENTENCES)
    summary = capsys.readouterr().err
    assert summary.startswith(
        "transduce: engine: torch on cpu (ctranslate2 has no search among well-formed trees only: --unconstrained does "
        "without it)\n6 sentences; 0 outputs (0.0%) were not a tree"
    )
    trees = Parser.load(run / "model", device="cpu").parse(SENTENCES)
    assert lines == [str(tree) if tree else "" for tree in trees]
    for changes in (["--batch-size", "1"], ["--beam-size", "1"], ["--length-penalty", "2", "--max-extra-tokens", "3"]):
        assert main([*arguments, *changes]) == 0
        output = capsys.readouterr().out.split("\n")[:-1]
        assert_trees_over(output, SENTENCES)
        assert changes[0] != "--batch-size" or output == lines


def test_a_treebank_without_trees_is_an_error(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.trees").write_text("\n", encoding="utf-8")
    assert main(["parse", "run", str(run / "model"), "--trees", "--source", str(tmp_path / "empty.trees")]) == 3
    assert "empty.trees: has no trees." in capsys.readouterr().err


def test_the_torch_engine_writes_trees_only(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in SENTENCES), encoding="utf-8")
    arguments = ["parse", "run", str(run / "model"), "--source", str(tmp_path / "text"), "--engine", "torch"]
    arguments += ["--device", "cpu"]
    outputs = []
    for changes in ([], ["--batch-size", "1"], ["--beam-size", "1"], ["--max-extra-tokens", "2"]):
        assert main([*arguments, *changes]) == 0
        shown = capsys.readouterr()
        outputs.append(shown.out.split("\n")[:-1])
        assert_trees_over(outputs[-1], SENTENCES)
        assert shown.err == (
            "6 sentences; 0 outputs (0.0%) were not a tree over their words and were repaired; 0 reached the length "
            "limit\n"
        )
    assert outputs[0] == outputs[1]
    assert main([*arguments, "--unconstrained"]) == 0
    unconstrained = Parser.load(run / "model", engine="torch", device="cpu", constrained=False)
    parses = list(unconstrained.stream(SENTENCES))
    assert any(parse.repaired for parse in parses)
    assert capsys.readouterr().out.split("\n")[:-1] == [str(parse.tree) if parse.tree else "" for parse in parses]


def test_a_limit_below_any_tree_is_kept_and_the_output_repaired(run: Path) -> None:
    parser = Parser.load(run / "model", engine="torch", device="cpu")
    options = parser.translator.with_options(max_tokens=7)  # a tree needs two more tokens than its sentence has words
    first, second = parser.stream(["the dog sees a ball", "the dog sees a big ball"], options=options)
    assert (first.repaired, first.finished) == (False, True)
    assert second.repaired
    assert second.tree is not None
    assert tree_words(second.tree) == ["the", "dog", "sees", "a", "big", "ball"]


def test_drafts_and_the_automatic_engine_find_the_same_trees(run: Path) -> None:
    def loaded(**options: Any) -> Parser:
        return Parser(Translator.load(run / "model", device="cpu", **options), constrained=True)

    plain, drafted = loaded(engine="torch"), loaded(engine="torch", draft="self")
    expected = plain.parse(SENTENCES, beam_size=1)
    assert drafted.parse(SENTENCES, beam_size=1) == expected
    assert loaded().parse(SENTENCES, beam_size=1) == expected  # the engine that can is loaded for it
    with pytest.raises(ConfigError, match="ctranslate2 engine has no search among well-formed trees only"):
        loaded(engine="ctranslate2").parse(SENTENCES)


def test_only_well_formed_leaves_out_what_was_repaired(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in SENTENCES), encoding="utf-8")
    arguments = ["parse", "run", str(run / "model"), "--source", str(tmp_path / "text"), "--device", "cpu"]
    assert main([*arguments, "--only-well-formed", "--beam-size", "1"]) == 0
    lines = capsys.readouterr().out.split("\n")[:-1]
    parser = Parser.load(run / "model", device="cpu", constrained=False)
    parses = list(parser.stream(SENTENCES, options=parser.translator.with_options(beam_size=1)))
    assert any(parse.repaired for parse in parses)
    assert lines == [str(parse.tree) if parse.tree and not parse.repaired else "" for parse in parses]


def test_only_well_formed_leaves_out_repaired_parses_and_no_others(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [tree] = parse_trees(["(S (UH yes))"], "made")
    repaired = Parse(("yes",), tree, repaired=True, score=-1.0, finished=True, source_truncated=False)
    cut_off = replace(repaired, repaired=False, finished=False)
    monkeypatch.setattr(Parser, "stream", lambda *_, **__: iter([repaired, cut_off]))
    (tmp_path / "text").write_text("yes\nyes\n", encoding="utf-8")
    arguments = ["parse", "run", str(run / "model"), "--source", str(tmp_path / "text"), "--device", "cpu"]
    assert main([*arguments, "--only-well-formed"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "\n(S (UH yes))\n"
    assert "1 outputs (50.0%) were not a tree over their words and were left out; 1 reached" in shown.err


def test_run_on_trees_says_what_score_says(
    run: Path, recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold, parsed = str(tmp_path / "gold"), str(tmp_path / "parsed")
    folder = tmp_path / "bank"
    folder.mkdir()
    (folder / "a.mrg").write_text("( (NP (-NONE- *)) )\n" + (recipe.parent / "test.trees").read_text(), "utf-8")
    (folder / "b.mrg").write_text((recipe.parent / "dev.trees").read_text(), "utf-8")
    assert main(["parse", "draw", str(folder), "--normalise", "--format", "brackets", "--output", gold]) == 0
    arguments = ["parse", "run", str(run / "model"), "--device", "cpu", "--trees", "--source", str(folder)]
    assert main([*arguments, "--output", parsed]) == 0
    said = capsys.readouterr().err.splitlines()
    summary = [line for line in said if not line.startswith("transduce: ")]  # of the engine, and its conversion
    assert summary[0].startswith("14 sentences; ")
    assert main(["parse", "score", "--reference", gold, "--hypothesis", parsed, "--gold-punctuation", "--json"]) == 0
    total = json.loads(capsys.readouterr().out)["all"]
    assert total["num_valid"] == 14
    assert summary[1].startswith(f"f1 {total['f1']:.2f}, precision {total['precision']:.2f}")
    assert f"tagging accuracy {total['tagging_accuracy']:.2f}" in summary[1]


def test_resumed_is_uninterrupted(recipe: Path, run: Path, tmp_path: Path) -> None:
    arguments = ["parse", "train", str(recipe), "--output", str(tmp_path / "run"), "--quiet"]
    assert main([*arguments, "--set", "train.max_steps=7"]) == 0
    assert main(arguments) == 5  # there is a training already
    assert main([*arguments, "--resume", "--set", "train.max_steps=12"]) == 0
    ours, theirs = (read_weights(checkpoints(folder)[-1] / "model.safetensors") for folder in (run, tmp_path / "run"))
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    scores = [[record["f1"] for record in records(folder, "validation")] for folder in (run, tmp_path / "run")]
    assert scores[1][0] == scores[0][0]
    assert scores[1][-1] == scores[0][-1]


def test_silver_trees_beside_gold(recipe: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generator = random.Random(5)
    raw = [tree for tree in map(normalise, parse_trees([made_tree(generator) for _ in range(20)], "raw")) if tree]
    (tmp_path / "raw").write_text("".join(" ".join(tree_words(tree)) + "\n" for tree in raw), encoding="utf-8")
    silver = tmp_path / "silver.trees"
    assert main(["parse", "run", str(run / "model"), "--source", str(tmp_path / "raw"), "--output", str(silver)]) == 0
    settings = [f'data.train=[["train"],["{silver}"]]', "data.repeat=[2,1]", "train.max_steps=2"]
    arguments = ["parse", "train", str(recipe), "--output", str(tmp_path / "run")]
    assert main([*arguments, *(word for setting in settings for word in ("--set", setting))]) == 0
    messages = capsys.readouterr().err
    assert "training pairs     100 kept of 100" in messages
    assert "| train  |    80 |           2.00 |" in messages
    assert "made: f1 " in messages
    assert [corpus.num_pairs for corpus in load_prepared(tmp_path / "run" / "data").corpora] == [80, 20]


@pytest.mark.parametrize("seed", range(3))
def test_an_untrained_model_writes_trees_over_the_words(tmp_path: Path, seed: int) -> None:
    generator = random.Random(seed)
    trees = list(parse_trees([made_tree(generator) for _ in range(20)], "made"))
    lines = [text for tree in trees for text in (str(tree), "(S (NP DT NN )NP (VP VBZ )VP . )S")]
    tokenizer = SubwordTokenizer.train(lines, algorithm="bpe", vocab_size=320, whole=WHOLE)
    shape = ModelConfig(
        vocab_size=tokenizer.vocab_size,
        num_encoder_layers=1,
        num_decoder_layers=1,
        d_model=16,
        d_ff=16,
        num_heads=2,
        d_k=8,
        d_v=8,
        tie_embeddings="none",  # tied, it would repeat itself
    )
    torch.manual_seed(seed)
    weights = {name: weight.numpy() for name, weight in Transformer(shape).weights().items()}
    data = DataConfig(format="trees")
    save_bundle(tmp_path / "model", Config(model=shape, data=data), weights, tokenizer, {})
    constrained = Parser.load(tmp_path / "model", device="cpu", engine="torch")
    for changes in ({"beam_size": 1}, {"beam_size": 21, "length_penalty": 0.3}, {"temperature": 1.0}):
        options = constrained.translator.with_options(max_extra_tokens=30, **changes)
        parses = list(constrained.stream(SENTENCES, options=options))
        assert_trees_over([str(parse.tree) if parse.tree else "" for parse in parses], SENTENCES)
        assert all(parse.finished and not parse.repaired for parse in parses)
    parser = Parser.load(tmp_path / "model", device="cpu", engine="ctranslate2")
    for beam_size in (1, 3):
        options = parser.translator.with_options(beam_size, 0.3, 30, 4)
        parses = list(parser.stream(SENTENCES, options=options))
        assert_trees_over([str(parse.tree) if parse.tree else "" for parse in parses], SENTENCES)
        assert all(parse.repaired for parse in parses if parse.tree)  # or the repair was not needed, nor tested


# --- data -----------------------------------------------------------------------------------------------------


def test_preparing_trees(recipe: Path, tmp_path: Path) -> None:
    config = load_recipe(recipe)
    report = prepare(config, tmp_path / "data", progress=False)
    assert (report.train.num_kept, report.validation and report.validation.num_kept) == (80, 8)
    tokenizer = SubwordTokenizer.load(tmp_path / "data" / "tokenizer.json")
    assert tokenizer.pieces(tokenizer.encode("(S (NP DT NN )NP"))[:2] == ["▁(S", "▁(NP"]
    assert prepare(config, tmp_path / "data", progress=False).reused


def test_where_trees_come_from(recipe: Path, tmp_path: Path) -> None:
    """The second of ten trees of a file has no words, and is left out."""
    for name, seed in (("01.mrg", 1), ("02.mrg", 2)):
        write_trees(tmp_path / "train" / name, 10, seed)
        lines = (tmp_path / "train" / name).read_text(encoding="utf-8").splitlines()
        assert len(lines) == 20  # each tree has two
        lines[2:4] = ["(TOP (NP (-NONE- *)))"]
        (tmp_path / "train" / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = load_recipe(recipe, [f"data.folder={tmp_path}", "data.validation=[]", "data.test={}"])
    prepare(config, tmp_path / "data", progress=False)
    first, second = tmp_path / "train" / "01.mrg", tmp_path / "train" / "02.mrg"
    assert origins(tmp_path / "data", np.array([10, 0, 8, 9, 1])) == [
        (place, place)
        for place in (
            f"{second}: tree 3",
            f"{first}: tree 1",
            f"{first}: tree 10",
            f"{second}: tree 1",
            f"{first}: tree 3",
        )
    ]


def test_a_folder_prepared_before_there_were_trees_is_reused(tmp_path: Path) -> None:
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text("".join(f"line {n} of {name}\n" for n in range(50)))
    config = Config(data=DataConfig(folder=str(tmp_path), train=(("a.en", "a.de"),)))
    prepare(config, tmp_path / "data", progress=False)
    manifest = read_checked(tmp_path / "data" / "manifest.json")
    del manifest["identity"]["data"]["format"]
    write_checked(tmp_path / "data" / "manifest.json", manifest)
    assert prepare(config, tmp_path / "data", progress=False).reused


def test_a_folder_of_trees_that_has_grown_is_another_corpus(recipe: Path, tmp_path: Path) -> None:
    write_trees(tmp_path / "train" / "01.mrg", 10, 1)
    settings = [f"data.folder={tmp_path}", "data.validation=[]", "data.test={}"]
    config = load_recipe(recipe, settings)
    prepare(config, tmp_path / "data", progress=False)
    write_trees(tmp_path / "train" / "02.mrg", 10, 2)
    with pytest.raises(DataError, match="the corpus had 1 file, now 2"):
        prepare(config, tmp_path / "data", progress=False)


# --- what goes wrong ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["train", "validation", "test.made"])
def test_a_malformed_tree_is_named_before_training(
    recipe: Path, tmp_path: Path, split: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.mrg").write_text("(S (NN x))\n(S\n  (NN y z))\n", encoding="utf-8")
    value = f'[["{tmp_path}/bad.mrg"]]' if split == "train" else f'["{tmp_path}/bad.mrg"]'
    arguments = ["parse", "train", str(recipe), "--output", str(tmp_path / "run"), "--quiet"]
    assert main([*arguments, "--set", f"data.{split}={value}"]) == 3
    assert f"{tmp_path}/bad.mrg, line 3, column 9: 'z' is a second word" in capsys.readouterr().err
    assert not checkpoints(tmp_path / "run")


@pytest.mark.parametrize("split", ["validation", "test.made"])
def test_a_set_without_trees_is_named_before_training(
    recipe: Path, tmp_path: Path, split: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "traces.mrg").write_text("(S (NP (-NONE- *)))\n", encoding="utf-8")
    arguments = ["parse", "train", str(recipe), "--output", str(tmp_path / "run"), "--quiet"]
    assert main([*arguments, "--set", f'data.{split}=["{tmp_path}/traces.mrg"]']) == 3
    assert f"{tmp_path}/traces.mrg" in capsys.readouterr().err
    assert not checkpoints(tmp_path / "run")


@pytest.mark.parametrize(
    ("setting", "exit_code", "message"),
    [
        ("data.format=text", 2, "recipe.toml: trains no parser: data.format is 'text'"),
        ('data.train=[["none.mrg"]]', 3, "none.mrg: no such file"),
        ('data.test={x=["none*"]}', 3, "none*: no file matches this pattern"),
        ("data.formt=trees", 2, "Did you mean 'format'?"),
    ],
)
def test_a_wrong_recipe(
    recipe: Path, tmp_path: Path, setting: str, exit_code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["parse", "train", str(recipe), "--output", str(tmp_path / "run"), "--quiet", "--set", setting]
    assert main(arguments) == exit_code
    assert message in capsys.readouterr().err


def test_a_translator_is_no_parser(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = Bundle.load(run / "model")
    config = Config(model=bundle.config.model, decode=DecodeConfig())
    save_bundle(tmp_path / "model", config, bundle.weights(), bundle.tokenizer, {})
    with pytest.raises(BundleError, match="was not trained on trees"):
        Parser.load(tmp_path / "model")
    assert main(["parse", "run", str(tmp_path / "model"), "--source", str(run / "metrics.jsonl")]) == 4
    assert "transduce parse train" in capsys.readouterr().err


def test_a_failed_run_leaves_no_output(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.mrg").write_text("(S (NN x))\n(S (NN y)\n", encoding="utf-8")
    arguments = ["parse", "run", str(run / "model"), "--trees", "--source", str(tmp_path / "bad.mrg")]
    assert main([*arguments, "--output", str(tmp_path / "trees")]) == 3
    assert f"{tmp_path}/bad.mrg, line 2, column 1: this bracket is never closed" in capsys.readouterr().err
    assert not (tmp_path / "trees").exists()
