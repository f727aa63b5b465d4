"""Corpora with weights, from recipe to model: what is prepared, announced and reported, and an exact resume."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from small_recipe import lines, write_pairs
from small_training import assert_identical, final_weights, state_of, stop_after, with_train, without_clock
from transduce.cli.main import main as command_line
from transduce.config import load_recipe
from transduce.config.checked_json import read_checked, write_checked
from transduce.data.prepare import prepare
from transduce.data.prepared import load_prepared
from transduce.data.store import ParallelStore
from transduce.errors import DataError, TrainingError
from transduce.runs import train
from transduce.training.device import Compute
from transduce.training.run_folder import checkpoints
from transduce.training.trainable import new_model
from transduce.training.trainer import End, Trainer

pytestmark = pytest.mark.computes

RECIPE = """
[model]
num_encoder_layers = 1
num_decoder_layers = 1
d_model = 16
d_ff = 32
num_heads = 2
d_k = 8
d_v = 8

[text]
vocab_size = 300

[data]
folder = "."
validation = ["dev.en", "dev.de"]
target_language = "de"

[[data.corpora]]
name = "noisy"
files = ["noisy.en", "noisy.de"]
tag = "crawled"

[[data.corpora]]
files = ["clean.en", "clean.de"]
weight = 0.25
target_language = "fr"

[train]
source_batch_tokens = 120
target_batch_tokens = 120
max_steps = 24
device = "cpu"
precision = "fp32"
checkpoint_minutes = 0.0
validate_steps = 0
validate_bleu = false
average_last = 1

[[train.phases]]
from_step = 9
weights = { noisy = 0.4, clean = 1 }

[[train.phases]]
from_step = 17
weights = { noisy = 0, clean = 1.5 }
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixture")
    for name, count, seed in (("noisy", 60, 1), ("clean", 20, 2), ("dev", 6, 3)):
        write_pairs(folder, name, lines(count, seed))
    (folder / "recipe.toml").write_text(RECIPE)
    return folder / "recipe.toml"


@pytest.fixture(scope="module")
def data(recipe: Path) -> Path:
    prepare(load_recipe(recipe), recipe.parent / "prepared", progress=False)
    return recipe.parent / "prepared"


def trainer_of(recipe: Path, run: Path, data: Path, **changes: int) -> Trainer:
    config = with_train(load_recipe(recipe), **changes)
    prepared = load_prepared(data)
    model = replace(config.model, vocab_size=prepared.vocab_size)
    config = replace(config, model=model)
    run.mkdir(parents=True, exist_ok=True)
    compute, store = Compute.of("cpu", "fp32"), ParallelStore.open(prepared.train, prepared.corpora)
    return Trainer(new_model(config, compute), config, run, store, compute=compute, show_progress=False)


def test_the_store_knows_which_rows_are_of_which_corpus(data: Path, recipe: Path) -> None:
    prepared = load_prepared(data)
    assert [(corpus.name, corpus.num_pairs) for corpus in prepared.corpora] == [("noisy", 60), ("clean", 20)]
    store = ParallelStore.open(prepared.train, prepared.corpora)
    for corpus, rows in zip(prepared.corpora, (range(60), range(60, 80)), strict=True):
        assert corpus.source_tokens == int(store.source_lengths[rows].sum())
        assert corpus.target_tokens == int(store.target_lengths[rows].sum())
    with pytest.raises(DataError, match="the corpora of its manifest do not"):
        ParallelStore.open(prepared.train, prepared.corpora[:1])


@pytest.fixture(scope="module")
def whole(recipe: Path, data: Path) -> Trainer:
    trainer = trainer_of(recipe, recipe.parent / "whole", data)
    assert trainer.fit().end == End.MAX_STEPS
    return trainer


@pytest.mark.parametrize("step", [1, 8, 9, 13, 16, 17, 23])
def test_a_resume_within_any_phase_is_the_uninterrupted_training_bit_for_bit(
    recipe: Path, data: Path, tmp_path: Path, whole: Trainer, step: int
) -> None:
    stop_after(trainer_of(recipe, tmp_path / "run", data), step)
    resumed = trainer_of(recipe, tmp_path / "run", data)
    assert resumed.resume()
    assert resumed.fit().end == End.MAX_STEPS
    assert_identical(state_of(resumed), state_of(whole))
    assert without_clock(resumed.progress) == without_clock(whole.progress)


def test_weights_change_what_is_trained_and_cannot_change_on_resume(recipe: Path, tmp_path: Path) -> None:
    config = load_recipe(recipe, ["train.max_steps=3"])
    train(config, tmp_path / "run", show_progress=False)
    other = load_recipe(recipe, ["train.max_steps=3", "train.phases=[]"])
    with pytest.raises(TrainingError, match=r"train\.phases was .* now \[\]"):
        train(other, tmp_path / "run", resume=True, show_progress=False)
    again = load_recipe(recipe, ["train.max_steps=3", "train.phases=[{from_step=0,weights={noisy=3}}]"])
    train(again, tmp_path / "other", data=tmp_path / "run" / "data", show_progress=False)
    with pytest.raises(AssertionError):
        assert_identical(final_weights(tmp_path / "run"), final_weights(tmp_path / "other"))


def test_the_announcement_the_report_and_the_check_tell_the_shares(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line(["prepare", str(recipe), "--check-only", "--quiet"]) == 0
    checked = capsys.readouterr().out
    assert "| 9 to 17  | clean  |    20 |" in checked
    assert "about " in checked
    assert command_line(["train", str(recipe), "--output", str(tmp_path / "run"), "--set", "train.max_steps=12"]) == 0
    announced = capsys.readouterr().err
    # 60 pairs once, and 20 pairs a quarter; from step 9 on, 60 pairs 0.4 times and 20 once.
    assert announced.count("| 0 to 9  | clean  |    20 |          0.250 |") == 2  # prepared, and trained
    assert announced.count("| 9 to 12 | noisy  |    60 |          0.400 |") == 2
    assert "12 steps\n" in announced
    report = json.loads((tmp_path / "run" / "data" / "report.json").read_text())
    assert [(part["num_read"], part["num_kept"]) for part in report["train"]["parts"]] == [(60, 60), (20, 20)]
    assert sum(share["token_share"] for share in report["shares"]) == pytest.approx(2)


def test_prepared_data_serve_other_weights(recipe: Path, tmp_path: Path) -> None:
    """Weights belong to the plan: a folder that was prepared with others is used again, and reports the new ones."""
    first = prepare(load_recipe(recipe), tmp_path / "data", progress=False)
    settings = ["train.phases=[]", "data.temperature=0"]
    again = prepare(load_recipe(recipe, settings), tmp_path / "data", progress=False)
    assert again.reused
    assert again.train == first.train
    assert {share.from_step for share in again.shares} == {0}


def test_data_of_an_earlier_version_train_as_they_did(recipe: Path, tmp_path: Path) -> None:
    """Such a folder does not list its corpora. Without weights nothing is missing; with weights it is refused."""
    short = ["data.corpora=[]", 'data.train=[["noisy.en","noisy.de"],["clean.en","clean.de"]]', "train.phases=[]"]
    short += ["train.max_steps=2"]
    config = load_recipe(recipe, short)
    train(config, tmp_path / "now", show_progress=False)
    old = tmp_path / "old"
    shutil.copytree(tmp_path / "now" / "data", old)
    manifest = read_checked(old / "manifest.json")
    del manifest["corpora"]
    manifest["identity"]["data"]["repeat"] = []
    write_checked(old / "manifest.json", manifest)
    assert prepare(config, old, progress=False).reused
    train(config, tmp_path / "then", data=old, show_progress=False)
    assert_identical(final_weights(tmp_path / "now"), final_weights(tmp_path / "then"))
    with pytest.raises(DataError, match="do not say which pairs belong to which corpus"):
        train(load_recipe(recipe), tmp_path / "weighted", data=old, show_progress=False)
    assert not checkpoints(tmp_path / "weighted")
