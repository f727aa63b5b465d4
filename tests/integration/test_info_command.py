"""`transduce info` of each kind of subject, with the progress of a run and the changes of a recipe."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from transduce.cli.main import main
from transduce.config import load_recipe, preset, to_dict
from transduce.config.weights import count_parameters
from transduce.errors import BundleError, ConfigError

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "0.1.0"


def shown(capsys: pytest.CaptureFixture[str], subject: Path | str) -> str:
    assert main(["info", str(subject)]) == 0
    return capsys.readouterr().out


def data(capsys: pytest.CaptureFixture[str], subject: Path | str) -> dict[str, object]:
    assert main(["info", str(subject), "--json"]) == 0
    values: dict[str, object] = json.loads(capsys.readouterr().out)
    return values


@pytest.mark.parametrize("subject", [FIXTURES / "model", FIXTURES / "run", FIXTURES / "recipe.toml", "tiny"])
def test_everything_has_its_size_and_its_cost(subject: Path | str, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, subject)
    assert "parameters (" in text
    assert "| FLOPs of a step |" in text
    assert "| memory to train |" in text
    assert "| memory to translate, int8 |" in text
    assert ("on disk" in text) == (isinstance(subject, Path) and subject.is_dir())


def test_a_run_shows_its_progress_and_best_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    (run / "checkpoints" / "step-00000030").mkdir(parents=True)
    config = to_dict(preset("tiny"))
    config["train"]["max_steps"] = 120
    (run / "config.json").write_text(json.dumps(config))
    progress = {
        "step": 30, "epoch": 1, "seconds": 1830.0, "skipped_steps": 2, "best_score": 12.345, "best_by": "bleu",
        "best_step": 20,
    }  # fmt: skip
    (run / "checkpoints" / "step-00000030" / "state.json").write_text(json.dumps({"format": 1, "progress": progress}))
    text = shown(capsys, run)
    assert "| steps | 30 of 120 (25%) |" in text
    assert "| time spent | 0:30:30 |" in text
    assert "| time left, at the speed so far | 1:31:30 |" in text
    assert "| best bleu | 12.35 at step 20 |" in text or "| best bleu | 12.34 at step 20 |" in text
    assert "| updates left out, not finite | 2; see quarantine.jsonl |" in text
    assert data(capsys, run)["progress"] == {**progress, "max_steps": 120, "seconds_left": 5490.0}

    progress |= {"best_score": -5.25, "best_by": "perplexity"}  # kept so that higher is better
    (run / "checkpoints" / "step-00000030" / "state.json").write_text(json.dumps({"format": 1, "progress": progress}))
    assert "| best perplexity | 5.25 at step 20 |" in shown(capsys, run)
    assert data(capsys, run)["progress"]["best_score"] == 5.25

    (run / "checkpoints" / "step-00000030" / "state.json").write_text('{"format": 1, "progress": {}}')
    assert main(["info", str(run)]) == 4
    assert "step-00000030" in capsys.readouterr().err


def test_a_recipe_shows_what_differs_from_its_preset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text('preset = "tiny"\nmodel.dropout = 0.3\ntrain.max_steps = 20_000\n', encoding="utf-8")
    assert "differs from preset tiny:" in shown(capsys, recipe)
    said = data(capsys, recipe)
    assert said["preset"] == "tiny"
    assert said["differs"] == {"model.dropout": {"preset": 0.1, "here": 0.3}}  # 20 000 steps are the preset's own
    recipe.write_text('preset = "tiny"\ndata.test.news = ["news.en", "news.de"]\n', encoding="utf-8")
    assert data(capsys, recipe)["differs"] == {"data.test.news": {"preset": None, "here": ["news.en", "news.de"]}}
    recipe.write_text('preset = "tiny"\n', encoding="utf-8")
    assert "nothing differs from preset tiny." in shown(capsys, recipe)
    recipe.write_text('name = "mine"\n', encoding="utf-8")
    assert '| name | "transducer" | "mine" |' in shown(capsys, recipe)
    assert load_recipe(recipe).name == "mine"


def test_modifiers_are_shown_with_what_they_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('preset = "tiny"\n[[train.modifiers]]\nname = "typos"\nprobability = 0.05\n')
    assert main(["info", str(recipe)]) == 0
    shown = capsys.readouterr().out
    assert "| modifier | probability | effect on a line |" in shown
    assert "| typos | 0.05 | the source is misspelled, in nine ways |" in shown
    assert main(["info", "tiny"]) == 0
    assert "modifier " not in capsys.readouterr().out


def test_which_steps_tune_for_int8_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "tiny", "--set", "train.int8_tuning_steps=2000"]) == 0
    shown = capsys.readouterr().out
    assert "int8 tuning: steps 18,001 to 20,000 compute with weights rounded as int8 inference rounds them" in shown
    assert main(["info", "tiny"]) == 0
    assert "int8 tuning" not in capsys.readouterr().out


def test_settings_change_a_recipe_and_a_preset_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text('preset = "tiny"\n', encoding="utf-8")
    for subject in (str(recipe), "tiny"):
        assert main(["info", subject, "--json", "--set", "model.dropout=0.3"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert said["config"]["model"]["dropout"] == 0.3
    assert main(["info", str(FIXTURES / "model"), "--set", "model.dropout=0.3"]) == ConfigError.exit_code
    assert "--set model.dropout=0.3: " in capsys.readouterr().err


def test_a_run_shows_the_checksum_of_its_ancestor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(to_dict(preset("tiny"))))
    record = {"name": "general", "path": "models/general", "sha256": "3" * 64, "new_words": 0, "vocab_size": 300}
    (tmp_path / "ancestor.json").write_text(json.dumps(record))
    assert f"ancestor: name general, path models/general, sha256 {'3' * 64}" in shown(capsys, tmp_path)


def test_a_recipe_counts_the_pieces_that_it_learns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text('preset = "tiny"\ntext.vocab_size = 1000\n', encoding="utf-8")
    said = data(capsys, recipe)
    assert said["parameters"] == count_parameters(replace(preset("tiny").model, vocab_size=1000))
    assert said["differs"] == {key: {"preset": 10_000, "here": 1000} for key in ("model.vocab_size", "text.vocab_size")}


def test_a_prepared_folder_shows_its_pairs_and_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, FIXTURES / "prepared")
    assert "prepared folder, 330 pieces in the vocabulary" in text
    assert "| train | 887 | 12,715 | 14,988 |" in text
    assert "| validation | 30 | 438 | 517 |" in text
    assert "batches in an epoch: 39" in text
    assert data(capsys, FIXTURES / "prepared")["parts"] == {
        "train": {"pairs": 887, "source_tokens": 12715, "target_tokens": 14988},
        "validation": {"pairs": 30, "source_tokens": 438, "target_tokens": 517},
    }
    assert main(["info", str(FIXTURES / "prepared"), "--set", "text.vocab_size=9"]) == 2
    assert "is neither a recipe nor a preset" in capsys.readouterr().err


def test_a_model_folder_of_other_sizes_than_its_weights_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for file in (FIXTURES / "model").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    values = json.loads((folder / "config.json").read_text())
    values["config"]["model"]["d_ff"] = 100_000
    (folder / "config.json").write_text(json.dumps(values))
    assert main(["info", str(folder)]) == 4
    assert "model.safetensors: the weights do not fit the configuration" in capsys.readouterr().err


def test_a_model_folder_without_its_weights_is_not_taken_for_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(FIXTURES / "model", folder)
    (folder / "model.safetensors").unlink()
    assert main(["info", str(folder)]) == BundleError.exit_code
    assert "not a model folder: model.safetensors missing" in capsys.readouterr().err
