"""A translator with a head that is trained to align: prepared, trained, resumed and averaged, and its alignments."""

import json
from pathlib import Path

import numpy as np
import pytest

from made_links import made_corpus
from several_processes import finish, start
from transduce import Translator
from transduce.bundle import Bundle
from transduce.cli.main import main
from transduce.config.tensors import read_weights
from transduce.data.prepared import load_prepared
from transduce.errors import DataError
from transduce.training.run_folder import checkpoints
from transduce.translation.pipeline.atoms import atoms
from transduce.translation.pipeline.word_alignment import WordAligner

pytestmark = pytest.mark.computes

RECIPE = """
name = "made"
model = { num_encoder_layers = 1, num_decoder_layers = 3, d_model = 32, d_ff = 64, num_heads = 2, d_k = 16, d_v = 16 }
text = { vocab_size = 340 }

[data]
folder = "."
train = [["train.one", "train.two"]]
validation = ["dev.one", "dev.two"]

[train]
source_batch_tokens = 600
target_batch_tokens = 600
guided_attention = 1
warmup_steps = 20
max_steps = 8
device = "cpu"
precision = "fp32"
checkpoint_minutes = 0.0
checkpoint_steps = 4
validate_steps = 0
validate_bleu = false
average_last = 1
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    for name, count, seed in (("train", 400, 1), ("dev", 20, 2)):
        sources, targets, _ = made_corpus(count, seed)
        (folder / f"{name}.one").write_text("\n".join(sources) + "\n", encoding="utf-8")
        (folder / f"{name}.two").write_text("\n".join(targets) + "\n", encoding="utf-8")
    (folder / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    return folder / "recipe.toml"


def train(recipe: Path, run: Path, *settings: str, more: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
    given = [word for setting in settings for word in ("--set", setting)]
    assert main(["train", str(recipe), "--output", str(run), "--quiet", *given, *more]) == 0
    return read_weights(checkpoints(run)[-1] / "model.safetensors")


@pytest.fixture(scope="module")
def run(recipe: Path) -> Path:
    train(recipe, recipe.parent / "run")
    return recipe.parent / "run"


def greatest_difference(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> float:
    return max(float(np.abs(first[name] - second[name]).max()) for name in first)


@pytest.fixture(scope="module")
def whole(recipe: Path, run: Path) -> dict[str, np.ndarray]:
    """Returns the weights of a training without dropout."""
    return train(recipe, recipe.parent / "whole", "model.dropout=0", more=("--data", str(run / "data")))


def test_guidance_acts_and_micro_batches_change_nothing(
    recipe: Path, run: Path, whole: dict[str, np.ndarray], tmp_path: Path
) -> None:
    prepared, small = ("--data", str(run / "data")), "train.micro_batch_tokens=120"
    parts = train(recipe, tmp_path / "parts", "model.dropout=0", small, more=prepared)
    plain = train(recipe, tmp_path / "plain", "model.dropout=0", "train.guided_attention=0")
    assert greatest_difference(whole, parts) < 1e-4
    assert greatest_difference(whole, plain) > 1e-2
    assert not (tmp_path / "plain" / "data" / "aligner.safetensors").exists()


def test_resumed_is_uninterrupted(recipe: Path, run: Path, tmp_path: Path) -> None:
    train(recipe, tmp_path / "run", "train.max_steps=5")
    resumed = train(recipe, tmp_path / "run", "train.max_steps=8", more=("--resume",))
    assert greatest_difference(resumed, read_weights(checkpoints(run)[-1] / "model.safetensors")) == 0


def test_two_ranks_train_as_one(recipe: Path, whole: dict[str, np.ndarray], tmp_path: Path, warm_python: Path) -> None:
    arguments = ["-m", "transduce", "train", str(recipe), "--output", str(tmp_path / "two"), "--quiet"]
    ended = finish(start(2, [*arguments, "--set", "model.dropout=0"], warm_python))
    assert [code for code, _ in ended] == [0, 0], ended
    two = read_weights(checkpoints(tmp_path / "two")[-1] / "model.safetensors")
    assert greatest_difference(whole, two) < 1e-4


def test_the_folder_names_the_guided_head_and_both_engines_align_by_it(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = ("train.max_steps=300", "train.warmup_steps=100", "train.learning_rate_factor=2")
    train(recipe, tmp_path / "run", *steps, "model.norm=pre", "model.dropout=0", "text.vocab_size=400")
    named = {"layer": 2, "heads": [1], "guided": True}
    assert json.loads((tmp_path / "run" / "model" / "alignment.json").read_text()) == named
    assert main(["average", str(tmp_path / "run"), "--output", str(tmp_path / "model")]) == 0
    assert json.loads((tmp_path / "model" / "alignment.json").read_text()) == named
    sources, targets, gold = made_corpus(50, seed=3)
    tokenizer = Bundle.load(tmp_path / "model").tokenizer
    engines = [
        Translator.load(tmp_path / "model", device="cpu", engine=engine).engine for engine in ("torch", "ctranslate2")
    ]
    source_ids, target_ids = tokenizer.encode_batch(sources), tokenizer.target.encode_batch(targets)
    first, second = (engine.align(source_ids, target_ids) for engine in engines)
    for ours, theirs in zip(first, second, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)
    capsys.readouterr()
    translator = Translator.load(tmp_path / "model", device="cpu")
    aligner, found = WordAligner(translator), 0
    for source, target, links in zip(sources, targets, gold, strict=True):
        words = [{span: place for place, span in enumerate(atoms(text))} for text in (source, target)]
        found += len({(words[0][s], words[1][t]) for s, t in aligner.links(source, target)} & links)
    assert found > 0.9 * sum(map(len, gold))


def test_a_model_that_starts_from_it_keeps_the_head(recipe: Path, run: Path, tmp_path: Path) -> None:
    text = recipe.read_text().replace(RECIPE[RECIPE.index("model =") : RECIPE.index("[data]")], "")
    (recipe.parent / "tuned.toml").write_text(f'{text}\n[init]\nmodel = "{run / "model"}"\n', encoding="utf-8")
    settings = ("train.guided_attention=0", "train.warmup_steps=1", "train.max_steps=2")
    for layers, expected in (([], {"layer": 2, "heads": [1], "guided": True}), (["model.num_decoder_layers=1"], None)):
        output = tmp_path / str(len(layers))
        train(recipe.parent / "tuned.toml", output, *settings, *layers)
        found = json.loads((output / "model" / "alignment.json").read_text())
        if expected is None:  # of three layers it has the first only
            assert "guided" not in found
        else:
            assert found == expected
        assert "guided_head" not in json.loads((output / "model" / "metrics.json").read_text())["ancestor"]


def test_a_folder_that_was_prepared_without_is_refused(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    assert main(["prepare", str(recipe), "--output", str(folder), "--set", "train.guided_attention=0"]) == 0
    expected = (
        f"{folder}: was prepared without aligner.safetensors, which train.guided_attention or train.modifiers need."
    )
    capsys.readouterr()
    assert main(["prepare", str(recipe), "--output", str(folder)]) == DataError.exit_code
    assert expected in capsys.readouterr().err
    assert main(["train", str(recipe), "--output", str(tmp_path / "run"), "--data", str(folder)]) == DataError.exit_code
    assert expected in capsys.readouterr().err
    assert main(["prepare", str(recipe), "--output", str(folder), "--overwrite"]) == 0
    made = load_prepared(folder).aligner
    assert made is not None
    assert main(["prepare", str(recipe), "--output", str(folder), "--set", "train.guided_attention=0"]) == 0
    assert made.is_file()  # what has more than is needed is used
