"""Training that starts from a model: its weights and words, frozen parts, an exact resume, and what is refused."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_trees import write_trees
from several_processes import finish, start
from small_recipe import lines
from small_training import assert_close, final_weights
from stopped_runs import TIMES, Killed, assert_same_model
from transduce.bundle import Bundle
from transduce.cli.main import main as command_line
from transduce.config import load_recipe
from transduce.data.prepare import prepare
from transduce.errors import BundleError, ConfigError, TokenizerError, TransduceError
from transduce.runs import train
from transduce.text import SubwordTokenizer
from transduce.training.run_folder import checkpoints
from transduce.training.step import StepResult
from transduce.training.trainer import Trainer

pytestmark = pytest.mark.computes

NEW_WORDS = ["harbour", "seagull"]
SETTINGS = ["train.max_steps=6", "train.warmup_steps=2", "train.checkpoint_steps=2", "train.average_last=2"]
SETTINGS += ["init.learning_rate=1e-3"]
FREEZE = 'init.freeze=["encoder", "decoder.0.feed_forward"]'
WORDS = f"init.words={json.dumps(NEW_WORDS)}"


@pytest.fixture(scope="module")
def ancestor(finished_run: Path) -> Path:
    return finished_run / "model"


@pytest.fixture(scope="module")
def shifted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the recipe of a corpus of other sentences, with words that the ancestor has never seen."""
    folder = tmp_path_factory.mktemp("shifted")
    for split, count, seed in (("train", 60, 5), ("dev", 10, 6)):
        sources = [f"{NEW_WORDS[number % 2]} {line}" for number, line in enumerate(lines(count, seed))]
        (folder / f"{split}.en").write_text("".join(f"{line}\n" for line in sources))
        (folder / f"{split}.de").write_text("".join(f"{line[::-1]}\n" for line in sources))
    (folder / "recipe.toml").write_text(
        "name = 'adapted'\n"
        "[data]\nfolder = '.'\ntrain = [['train.en', 'train.de']]\nvalidation = ['dev.en', 'dev.de']\n"
        "[train]\nsource_batch_tokens = 300\ntarget_batch_tokens = 300\ndevice = 'cpu'\nprecision = 'fp32'\n"
        "checkpoint_minutes = 0.0\nvalidate_steps = 2\nvalidate_bleu = false\nlog_steps = 1\n"
    )
    return folder / "recipe.toml"


def fine_tune(recipe: Path, run: Path, ancestor: Path | None, *settings: str, resume: bool = False) -> int:
    arguments = ["train", str(recipe), "--output", str(run), "--quiet", *(["--resume"] if resume else [])]
    arguments += ["--from", str(ancestor)] if ancestor else []
    return command_line([*arguments, *(word for setting in settings for word in ("--set", setting))])


@pytest.fixture(scope="module")
def adapted(shifted: Path, ancestor: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a finished run with new words and frozen parts."""
    run = tmp_path_factory.mktemp("adapted") / "run"
    assert fine_tune(shifted, run, ancestor, *SETTINGS, WORDS, FREEZE) == 0
    return run


def validations(run: Path) -> list[dict[str, Any]]:
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [record for record in records if record["kind"] == "validation"]


# --- the model that comes out -----------------------------------------------------------------------------------------


def test_frozen_weights_are_byte_equal_and_the_others_are_not(adapted: Path, ancestor: Path) -> None:
    before, after = Bundle.load(ancestor).weights(), Bundle.load(adapted / "model").weights()
    frozen = [name for name in before if name.startswith(("encoder.", "decoder.0.feed_forward."))]
    assert len(frozen) > 5
    for name in frozen:
        assert after[name].tobytes() == before[name].tobytes(), name
    matrices = [name for name in before if name not in frozen and name.endswith(".weight") and before[name].ndim == 2]
    assert [name for name in matrices if np.array_equal(after[name], before[name])] == []


def test_old_pieces_keep_their_ids_and_new_words_are_pieces(adapted: Path, ancestor: Path) -> None:
    old, new = Bundle.load(ancestor).tokenizer, Bundle.load(adapted / "model").tokenizer
    assert new.tokens()[: old.vocab_size] == old.tokens()
    assert new.encode("harbour seagull") == [old.vocab_size, old.vocab_size + 1]
    assert Bundle.load(adapted / "model").weights()["source_embedding"].shape == (old.vocab_size + 2, 16)


@pytest.fixture(scope="module")
def general_model(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns a function from `tie_embeddings` to the run of a model."""

    @cache
    def trained(tied: str) -> Path:
        run = tmp_path_factory.mktemp("general") / "general"
        quick = ["train.max_steps=2", "train.warmup_steps=1", "train.average_last=1"]
        assert fine_tune(recipe, run, None, *quick, f"model.tie_embeddings={tied}") == 0
        return run

    return trained


@pytest.mark.parametrize("tied", ["all", "none"])
def test_rows_of_new_words_start_from_the_mean_of_their_pieces(
    general_model: Callable[[str], Path], shifted: Path, tmp_path: Path, tied: str
) -> None:
    """With a rate of nearly 0 the model is its ancestor, and the new rows are what they started from."""
    quick, general = ["train.max_steps=2", "train.warmup_steps=1", "train.average_last=1"], general_model(tied)
    assert fine_tune(shifted, tmp_path / "run", general, *quick, WORDS, "init.learning_rate=1e-30") == 0
    old, new = Bundle.load(general / "model"), Bundle.load(tmp_path / "run" / "model")
    before, after = old.weights(), new.weights()
    tables = [name for name in before if name.endswith("_embedding")]
    assert len(tables) == (1 if tied == "all" else 3)
    for name in tables:
        np.testing.assert_array_equal(after[name][:300], before[name])
        for index, word in enumerate(NEW_WORDS):
            pieces = old.tokenizer.encode(word)
            assert len(pieces) > 1
            np.testing.assert_allclose(
                after[name][300 + index], before[name][pieces].mean(axis=0), rtol=1e-5, atol=1e-7
            )


def test_a_shallower_model_starts_from_some_layers(
    recipe: Path, shifted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first, the last and one between, numbered anew; with a rate of nearly 0 they are the ancestor's."""
    quick = ["train.max_steps=2", "train.warmup_steps=1", "train.average_last=1"]
    deep, run = tmp_path / "deep", tmp_path / "run"
    assert fine_tune(recipe, deep, None, *quick, "model.num_encoder_layers=2", "model.num_decoder_layers=6") == 0
    fewer = ["model.num_encoder_layers=1", "model.num_decoder_layers=3", "init.learning_rate=1e-30"]
    arguments = [str(shifted), "--output", str(run), "--from", str(deep)]
    settings = [word for setting in (*quick, *fewer) for word in ("--set", setting)]
    assert command_line(["train", *arguments, *settings]) == 0
    assert "decoder: has 3 layers of it: 0, 2, 5, counted from 0" in capsys.readouterr().err
    before, after = Bundle.load(deep / "model").weights(), Bundle.load(run / "model").weights()
    came_from = {"encoder.0": "encoder.0", "decoder.0": "decoder.0", "decoder.1": "decoder.2", "decoder.2": "decoder.5"}
    for name, weight in after.items():
        layer = ".".join(name.split(".")[:2])
        np.testing.assert_allclose(weight, before[name.replace(layer, came_from.get(layer, layer), 1)], atol=1e-6)
    assert Bundle.load(run / "model").metrics["ancestor"]["layers"] == {"encoder": [0], "decoder": [0, 2, 5]}


def test_training_starts_with_the_ancestors_own_score(ancestor: Path, recipe: Path, tmp_path: Path) -> None:
    assert fine_tune(recipe, tmp_path / "run", ancestor, "train.validate_steps=2", *SETTINGS) == 0
    first = validations(tmp_path / "run")[0]
    assert first["step"] == 0
    assert first["perplexity"] == pytest.approx(Bundle.load(ancestor).metrics["validation_perplexity"], rel=1e-4)


def test_the_card_and_the_metrics_name_the_ancestor(
    adapted: Path, ancestor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle, checksum = Bundle.load(adapted / "model"), Bundle.load(ancestor).checksum("model.safetensors")
    named = {"name": "small", "path": str(ancestor), "sha256": checksum, "new_words": 2}
    assert bundle.metrics["ancestor"] == named
    card = (bundle.path / "README.md").read_text()
    assert f"| started from | small (`{ancestor}`, 2 new words), SHA-256 of its weights `{checksum}` |" in card
    assert bundle.config.init.model == str(ancestor)
    assert command_line(["info", str(bundle.path)]) == 0
    assert f"ancestor: name small, path {ancestor}, sha256 {checksum}, new_words 2" in capsys.readouterr().out
    assert command_line(["info", str(adapted)]) == 0
    assert "learning rate: rises from 0 to 1.0e-03 at step 2" in capsys.readouterr().out


def test_the_announcement_says_what_is_to_come(
    shifted: Path, ancestor: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [*SETTINGS, 'init.freeze=["embeddings"]']
    arguments = ["train", str(shifted), "--output", str(tmp_path / "run"), "--from", str(ancestor)]
    assert command_line([*arguments, *(word for setting in settings for word in ("--set", setting))]) == 0
    said = capsys.readouterr().err
    assert f"starts from small ({ancestor})\n" in said
    assert "learning rate: rises from 0 to 1.0e-03 at step 2 and falls to 5.8e-04 at step 6" in said
    assert "frozen: embeddings: 4,800 of" in said
    assert "(source_embedding is one table for source, target and output)" in said
    before, after = Bundle.load(ancestor).weights(), Bundle.load(tmp_path / "run" / "model").weights()
    assert after["source_embedding"].tobytes() == before["source_embedding"].tobytes()


def test_fine_tuning_is_better_on_its_own_corpus_than_the_ancestor(
    shifted: Path, ancestor: Path, tmp_path: Path
) -> None:
    settings = ["train.max_steps=40", "train.warmup_steps=4", "init.learning_rate=1e-2", "train.validate_steps=40"]
    assert fine_tune(shifted, tmp_path / "run", ancestor, *settings, "train.average_last=1") == 0
    before, after = (record["perplexity"] for record in validations(tmp_path / "run"))
    assert after < 0.7 * before


def test_frequent_words_of_the_corpus_are_found_and_reported(
    shifted: Path, ancestor: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(f"{shifted.read_text()}[init]\nmodel = '{ancestor}'\nnew_words = 3\nwords_file = 'words.txt'\n")
    (tmp_path / "words.txt").write_text("lighthouse\n\n")
    arguments = ["prepare", str(path), "--output", str(tmp_path / "data"), "--set", f"data.folder={shifted.parent}"]
    assert command_line(arguments) == 0
    old, new = (SubwordTokenizer.load(each / "tokenizer.json") for each in (ancestor, tmp_path / "data"))
    texts = [(shifted.parent / f"train.{side}").read_text() for side in ("en", "de")]
    counts = Counter(word for text in texts for word in text.split() if word.isalpha())
    several = [word for word in counts if len(old.encode(word)) > 1]
    expected = sorted(several, key=lambda word: (-counts[word], word))[:3]
    added = ["lighthouse", *expected]
    assert [new.encode(word) for word in added] == [[old.vocab_size + index] for index in range(4)]
    assert f"304 pieces (4 new words: {', '.join(added)})" in capsys.readouterr().out
    assert command_line([*arguments, "--set", "init.new_words=3"]) == 0
    assert "already prepared" in capsys.readouterr().out
    assert command_line([*arguments, "--set", "init.new_words=2"]) == 3
    assert "text.new_words was 3, now 2" in capsys.readouterr().err


# --- resuming ---------------------------------------------------------------------------------------------------------


def test_resumed_without_the_ancestor_it_is_the_uninterrupted_training(
    adapted: Path, shifted: Path, ancestor: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "general"
    shutil.copytree(ancestor, copy)
    run = tmp_path / "run"
    started = [setting for setting in SETTINGS if "max_steps" not in setting]
    assert fine_tune(shifted, run, copy, *started, "train.max_steps=3", WORDS, FREEZE) == 0
    shutil.rmtree(copy)
    assert fine_tune(shifted, run, None, "train.max_steps=6", resume=True) == 0
    assert_same_but_for_the_path(run / "model", adapted / "model")


def test_killed_before_the_first_checkpoint_it_starts_again_from_the_ancestor(
    adapted: Path, shifted: Path, ancestor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"

    def killed(*_: object) -> StepResult:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_step", killed)
        with pytest.raises(Killed):
            fine_tune(shifted, run, ancestor, *SETTINGS, WORDS, FREEZE)
    assert checkpoints(run) == []
    assert fine_tune(shifted, run, None, resume=True) == 0  # what was set at the start still holds
    assert_same_model(run / "model", adapted / "model")


def assert_same_but_for_the_path(ours: Path, theirs: Path) -> None:
    """Compares two model folders whose ancestors are equal and lie in different places."""
    for name in ("model.safetensors", "tokenizer.json"):
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name
    first, second = (Bundle.load(folder) for folder in (ours, theirs))
    assert replace(first.config, init=replace(first.config.init, model=second.config.init.model)) == second.config
    metrics = [{key: value for key, value in each.metrics.items() if key not in TIMES} for each in (first, second)]
    metrics[0]["ancestor"]["path"] = metrics[1]["ancestor"]["path"]
    assert metrics[0] == metrics[1]


def test_another_init_is_refused_when_resuming(
    shifted: Path, ancestor: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert fine_tune(shifted, run, ancestor, *SETTINGS) == 0
    changed = ["train.max_steps=8", 'init.freeze=["encoder"]', "init.learning_rate=0.5"]
    assert fine_tune(shifted, run, None, *changed, resume=True) == 5
    said = capsys.readouterr().err
    assert "init.freeze was [], now ['encoder']" in said
    assert "init.learning_rate was 0.001, now 0.5" in said
    assert fine_tune(shifted, run, None, "init.model=", "init.learning_rate=3e-4", resume=True) == 5


def test_an_ancestor_that_changed_before_the_first_step_is_noticed(
    shifted: Path, ancestor: Path, tmp_path: Path
) -> None:
    """The record of the run is compared with the model, on every process."""
    from transduce.config import apply_settings
    from transduce.data.prepared import load_prepared
    from transduce.training.ancestor import first_weights

    config = apply_settings(load_recipe(shifted, [f"init.model={ancestor}"]), SETTINGS)
    prepare(config, tmp_path / "data", progress=False)
    (tmp_path / "ancestor.json").write_text('{"sha256": "0"}')
    with pytest.raises(TransduceError, match=r"changed since .* was started from it"):
        first_weights(tmp_path, config, load_prepared(tmp_path / "data"))


# --- new rows of frozen embeddings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("tied", ["all", "none"])
def test_only_the_rows_of_new_words_are_trained_where_all_else_is_frozen(
    general_model: Callable[[str], Path],
    shifted: Path,
    tmp_path: Path,
    tied: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    general, run = general_model(tied), tmp_path / "run"
    settings = [*SETTINGS, WORDS, 'init.freeze=["encoder", "decoder", "embeddings"]']
    arguments = ["train", str(shifted), "--output", str(run), "--from", str(general)]
    assert command_line([*arguments, *(word for setting in settings for word in ("--set", setting))]) == 0
    assert "; the rows of 2 new words and tags are trained" in capsys.readouterr().err
    before, after = Bundle.load(general / "model").weights(), Bundle.load(run / "model").weights()
    old = Bundle.load(general / "model").tokenizer
    for name in before:
        assert after[name][: len(before[name])].tobytes() == before[name].tobytes(), name
        if name in ("source_embedding", "output_embedding"):  # no target has one of the words
            start = np.stack([before[name][old.encode(word)].mean(axis=0) for word in NEW_WORDS])
            assert np.abs(after[name][len(before[name]) :] - start).max() > 1e-4, name


def test_new_rows_of_frozen_embeddings_resume_exactly_without_the_ancestor(
    shifted: Path, ancestor: Path, tmp_path: Path
) -> None:
    copy, settings = tmp_path / "general", [*SETTINGS, WORDS, 'init.freeze=["embeddings"]']
    shutil.copytree(ancestor, copy)
    assert fine_tune(shifted, tmp_path / "whole", ancestor, *settings) == 0
    assert fine_tune(shifted, tmp_path / "parts", copy, *settings, "train.max_steps=3") == 0
    shutil.rmtree(copy)
    assert fine_tune(shifted, tmp_path / "parts", None, "train.max_steps=6", resume=True) == 0
    assert_same_but_for_the_path(tmp_path / "parts" / "model", tmp_path / "whole" / "model")
    before, after = (Bundle.load(folder).weights() for folder in (ancestor, tmp_path / "whole" / "model"))
    assert after["source_embedding"][:300].tobytes() == before["source_embedding"].tobytes()
    changed = [name for name in before if after[name][: len(before[name])].tobytes() != before[name].tobytes()]
    assert len(changed) > 5


# --- what is refused, before anything is prepared ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "error", "reason"),
    [
        (["model.d_ff=64"], ConfigError, r"model\.d_ff = 64: the model has 32"),
        (["model.num_decoder_layers=9"], ConfigError, r"model\.num_decoder_layers = 9: the model has"),
        (["model.norm=pre", "model.tie_embeddings=none"], ConfigError, r'tie_embeddings = "none": the model has "all"'),
        (["model.positions=learned"], ConfigError, r'model\.positions = "learned": the model has "sinusoidal"'),
        (["text.vocab_size=500"], ConfigError, r"text\.vocab_size = 500: the model has 300"),
        (['init.freeze=["encoder.3"]'], ConfigError, r"unknown part 'encoder\.3'\. Did you mean 'encoder\.0'"),
        (['init.freeze=["encoder", "decoder", "embeddings"]'], ConfigError, "leaves nothing to train"),
        (["train.warmup_steps=6"], ConfigError, r"train\.warmup_steps = 6: must be less than train\.max_steps \(6\)"),
        (['init.words=["COVID-19"]'], TokenizerError, r"New words of \[init\]: 'COVID-19': cannot become one piece"),
    ],
)
def test_a_wrong_recipe_is_refused_before_the_corpus_is_read(
    shifted: Path, ancestor: Path, tmp_path: Path, settings: list[str], error: type[Exception], reason: str
) -> None:
    config = load_recipe(shifted, [*SETTINGS, f"init.model={ancestor}", *settings])
    with pytest.raises(error, match=reason):
        train(config, tmp_path / "run", show_progress=False)
    assert not (tmp_path / "run" / "data").exists()


def test_tags_of_the_recipe_are_added_to_the_vocabulary(
    shifted: Path, ancestor: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "recipe.toml"
    corpus = "[[data.corpora]]\nfiles = ['train.en', 'train.de']\ndomain = 'birds'\n"
    path.write_text(shifted.read_text().replace("train = [['train.en', 'train.de']]\n", "") + corpus)
    settings = [f"data.folder={shifted.parent}", "train.max_steps=2", "train.warmup_steps=1", "train.average_last=1"]
    assert fine_tune(path, tmp_path / "run", ancestor, *settings, WORDS, "init.learning_rate=1e-30") == 0
    old, new = Bundle.load(ancestor), Bundle.load(tmp_path / "run" / "model")
    assert new.tokenizer.domains == ("birds",)
    assert new.tokenizer.vocab_size == old.tokenizer.vocab_size + 3
    assert new.metrics["ancestor"]["new_words"] == 2
    row = new.weights()["source_embedding"][new.tokenizer.tags["<domain:birds>"]]
    pieces = old.tokenizer.encode("a <domain:birds>")[len(old.tokenizer.encode("a")) :]
    np.testing.assert_allclose(row, old.weights()["source_embedding"][pieces].mean(axis=0), rtol=1e-5, atol=1e-7)


def test_dropout_may_differ(shifted: Path, ancestor: Path, tmp_path: Path) -> None:
    settings = ["model.dropout=0.4", "model.attention_dropout=0.0", "train.max_steps=2", "train.warmup_steps=1"]
    assert fine_tune(shifted, tmp_path / "run", ancestor, *settings) == 0
    assert Bundle.load(tmp_path / "run" / "model").config.model.dropout == 0.4


def test_a_damaged_ancestor_is_refused(shifted: Path, ancestor: Path, tmp_path: Path) -> None:
    copy = tmp_path / "general"
    shutil.copytree(ancestor, copy)
    content = bytearray((copy / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (copy / "model.safetensors").write_bytes(content)
    with pytest.raises(BundleError, match="changed or damaged"):
        train(load_recipe(shifted, [*SETTINGS, f"init.model={copy}"]), tmp_path / "run", show_progress=False)


def test_data_of_another_tokenizer_are_refused(
    shifted: Path, ancestor: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(load_recipe(shifted, ["text.vocab_size=320"]), tmp_path / "data", progress=False)
    arguments = ["train", str(shifted), "--from", str(ancestor), "--data", str(tmp_path / "data"), "--quiet"]
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    assert command_line([*arguments, "--output", str(tmp_path / "run"), *settings]) == 5
    assert "was prepared with another tokenizer than that of" in capsys.readouterr().err


def test_a_tokenizer_beside_an_ancestor_is_refused_and_a_folder_has_one(
    shifted: Path, ancestor: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["prepare", str(shifted), "--output", str(tmp_path / "data"), "--quiet", "--tokenizer", str(ancestor)]
    assert command_line([*arguments, "--set", f"init.model={ancestor}"]) == 2
    assert "init.model has its own tokenizer" in capsys.readouterr().err
    assert command_line(arguments) == 0
    assert (tmp_path / "data" / "tokenizer.json").read_bytes() == (ancestor / "tokenizer.json").read_bytes()


# --- several processes, parsers ---------------------------------------------------------------------------------------


def test_two_processes_start_from_the_same_weights(
    shifted: Path, ancestor: Path, tmp_path: Path, warm_python: Path
) -> None:
    settings = [*SETTINGS, WORDS, FREEZE]
    settings += [f"model.{name}=0.0" for name in ("dropout", "attention_dropout", "ffn_dropout")]
    arguments = ["train", str(shifted), "--from", str(ancestor)]
    arguments += [word for setting in settings for word in ("--set", setting)]
    processes = start(2, ["-m", "transduce.cli.main", *arguments, "--output", str(tmp_path / "two")], warm_python)
    assert command_line([*arguments, "--output", str(tmp_path / "one"), "--quiet"]) == 0
    for code, messages in finish(processes):
        assert code == 0, messages
    assert_close(final_weights(tmp_path / "one"), final_weights(tmp_path / "two"))


def test_a_parser_starts_from_a_parser_and_reads_rare_words_as_it_does(recipe: Path, tmp_path: Path) -> None:
    write_trees(tmp_path / "train.trees", 60, 1)
    text = recipe.read_text().replace("vocab_size = 300", "vocab_size = 420")
    data = "[data]\nformat = 'trees'\nfolder = '.'\ntrain = [['train.trees']]\n"
    text = text[: text.index("[data]")] + data + "rare_words = 'signatures'\n" + text[text.index("[train]") :]
    (tmp_path / "first.toml").write_text(text)
    (tmp_path / "second.toml").write_text(f"{data}{text[text.index('[train]') :]}[init]\nmodel = 'general'\n")
    quick = ["train.max_steps=2", "train.warmup_steps=1", "train.average_last=1"]
    arguments = ["--quiet", *(word for setting in quick for word in ("--set", setting))]
    general = ["--output", str(tmp_path / "general"), *arguments]
    assert command_line(["parse", "train", str(tmp_path / "first.toml"), *general]) == 0
    rate = ["--set", "init.learning_rate=1e-30", "--set", 'init.words=["Boojum"]']
    adapted = ["--output", str(tmp_path / "adapted"), *arguments, *rate]
    assert command_line(["parse", "train", str(tmp_path / "second.toml"), *adapted]) == 0
    old, new = (Bundle.load(tmp_path / name / "model") for name in ("general", "adapted"))
    assert new.config.data.rare_words == "signatures"
    [signature] = old.tokenizer.encode("UNK")  # no other signature is in this vocabulary
    row = new.weights()["source_embedding"][new.tokenizer.encode("Boojum")]
    assert old.tokenizer.vocab_size in new.tokenizer.encode("Boojum")
    np.testing.assert_allclose(row[0], old.weights()["source_embedding"][signature], rtol=1e-5)
