"""The folder that init.model names, and what a recipe inherits from the model in it."""

import dataclasses
import json
from pathlib import Path

import pytest

from made_models import made_bundle
from transduce.config import Config, InitConfig, apply_settings, from_dict, load_recipe, to_dict
from transduce.config.ancestor import ancestor_folder, inherited
from transduce.config.loading import recipe_start
from transduce.errors import ConfigError
from transduce.training.schedule import describe_rate, learning_rate


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_bundle(tmp_path_factory.mktemp("models") / "general", norm="pre").path


def recipe(folder: Path, text: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return path


# --- the folder -------------------------------------------------------------------------------------------------------


def test_a_run_folder_stands_for_its_model(model: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "model").symlink_to(model)
    assert ancestor_folder(str(tmp_path / "run")) == tmp_path / "run" / "model"
    assert ancestor_folder(str(model)) == model


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "not a model folder: it has no model.safetensors"),
        ({"config.json": '{"model_type": "marian"}', "model.safetensors": ""}, "transduce import .* --output MODEL"),
        ({"model.bin": "", "config.json": "{}"}, "weights for CTranslate2 only.*the model folder that was exported"),
        ({"encoder.onnx": ""}, "weights for ONNX only"),
        ({"checkpoints/step-1/x": ""}, "a run folder without a model. .*transduce average"),
        ({"a/model.safetensors": "", "b/model.safetensors": ""}, r"several models \(a, b\). Name one of them"),
        ({"model.safetensors": "", "config.json": "{]"}, "The file is damaged"),
    ],
)
def test_what_is_no_model_folder_is_named(files: dict[str, str], reason: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    with pytest.raises(ConfigError, match=reason):
        load_recipe(recipe(tmp_path, "[init]\nmodel = 'folder'"))


def test_a_missing_folder_and_an_ensemble_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'init.model = ".*none": no such folder'):
        load_recipe(recipe(tmp_path, "[init]\nmodel = 'none'"))
    with pytest.raises(ConfigError, match="An ensemble has no weights of its own: name one"):
        load_recipe(recipe(tmp_path, "[init]\nmodel = 'one,two'"))


# --- what is inherited ------------------------------------------------------------------------------------------------


def test_shape_subwords_and_search_are_inherited(model: Path, tmp_path: Path) -> None:
    config = load_recipe(recipe(tmp_path, f"[init]\nmodel = '{model}'\n[train]\nmax_steps = 7000"))
    assert (config.model.d_model, config.model.norm, config.model.num_decoder_layers) == (32, "pre", 2)
    assert config.decode.max_extra_tokens == 5
    assert config.train.max_steps == 7000


def test_what_a_model_determines_is_inherited_and_nothing_else() -> None:
    own = ["name=mine", "data.max_tokens=5", "train.max_steps=7", "data.folder=here"]
    of_model = ["model.d_ff=8", "text.vocab_size=300", "data.format=trees", "data.rare_words=signatures"]
    of_model += ["data.source_language=en", "data.target_language=de", "decode.beam_size=2"]
    others = ["name=old", "data.max_tokens=9", "train.max_steps=70", "data.folder=there", "data.max_ratio=2"]
    start, ancestor = apply_settings(Config(), own), apply_settings(Config(), [*of_model, *others])
    assert inherited(start, ancestor) == apply_settings(Config(), [*own, *of_model])


def test_a_preset_gives_the_training_and_not_the_shape(model: Path, tmp_path: Path) -> None:
    path = recipe(tmp_path, f"preset = 'tiny'\n[init]\nmodel = '{model}'\n[model]\ndropout = 0.3")
    config = load_recipe(path)
    assert (config.model.d_model, config.model.dropout, config.train.source_batch_tokens) == (32, 0.3, 4096)
    name, start = recipe_start(path)
    assert (name, start.model.d_model, start.init.model) == ("tiny", 32, str(model))


def test_the_recipe_may_say_another_shape_which_training_refuses(model: Path, tmp_path: Path) -> None:
    assert load_recipe(recipe(tmp_path, f"[init]\nmodel = '{model}'\n[model]\nd_ff = 8")).model.d_ff == 8


def test_paths_are_relative_to_the_recipe_and_those_of_settings_are_not(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "models").symlink_to(model.parent)
    path = recipe(folder, "[init]\nmodel = 'models/general'\nwords_file = 'words.txt'")
    config = load_recipe(path)
    assert config.init.model == str(folder / "models" / "general")
    assert config.init.words_file == str(folder / "words.txt")
    monkeypatch.chdir(model.parent)
    config = load_recipe(path, ["init.model=general", "init.learning_rate=1e-3"])
    assert (config.init.model, config.init.learning_rate) == ("general", 1e-3)
    assert load_recipe(path, ["init.model=none", "init.model = general"]).init.model == "general"
    assert recipe_start(path, ["init.model=general"])[1].init.model == "general"
    bare = recipe(tmp_path, "[init]\nfreeze = ['encoder']")
    assert load_recipe(bare, ["init.model=general"]).init == InitConfig(model="general", freeze=("encoder",))


def test_a_resumed_run_needs_no_ancestor(model: Path, tmp_path: Path) -> None:
    path = recipe(tmp_path, f"[init]\nmodel = '{model}'")
    started = load_recipe(path)
    path.write_text(path.read_text().replace(str(model), str(tmp_path / "gone")))
    assert load_recipe(path, started=started).model == started.model


def test_without_a_model_nothing_else_may_be_set(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"init.freeze = \['encoder'\]: must be left out where init.model"):
        load_recipe(recipe(tmp_path, "[init]\nfreeze = ['encoder']"))
    with pytest.raises(ConfigError, match=r"init\.learning_rate = 0\.5: must be left out"):
        apply_settings(Config(), ["init.learning_rate=0.5"])
    with pytest.raises(ConfigError, match=r"unknown key 'init.modle'. Did you mean 'model'"):
        apply_settings(Config(), ["init.modle=x"])
    with pytest.raises(ConfigError, match="'init' is a section"):
        load_recipe(recipe(tmp_path, "init = 'x'"))


def test_a_configuration_with_an_ancestor_is_written_and_read_back() -> None:
    config = dataclasses.replace(Config(), init=InitConfig(model="general", words=("a",), freeze=("encoder",)))
    assert from_dict(json.loads(json.dumps(to_dict(config))), "here") == config
    assert "init" not in to_dict(Config())


# --- the rate ---------------------------------------------------------------------------------------------------------


def test_the_rate_rises_from_zero_to_its_peak_and_falls_with_the_root_of_the_step() -> None:
    config = apply_settings(
        Config(), ["init.model=general", "init.learning_rate=2e-4", "train.warmup_steps=100", "train.max_steps=400"]
    )
    assert learning_rate(1, config) == pytest.approx(2e-6)
    assert learning_rate(50, config) == pytest.approx(1e-4)
    assert learning_rate(100, config) == pytest.approx(2e-4)
    assert learning_rate(400, config) == pytest.approx(1e-4)
    assert (
        describe_rate(config) == "learning rate: rises from 0 to 2.0e-04 at step 100 and falls to 1.0e-04 at step 400"
    )


def test_the_factor_and_the_cooldown_multiply_the_rate() -> None:
    settings = ["init.model=general", "init.learning_rate=2e-4", "train.warmup_steps=100", "train.max_steps=400"]
    config = apply_settings(Config(), [*settings, "train.learning_rate_factor=0.5", "train.cooldown_steps=99"])
    assert learning_rate(100, config) == pytest.approx(1e-4)
    assert learning_rate(400, config) == pytest.approx(0.5e-4 / 100)
    assert "1.0e-04 (init.learning_rate × train.learning_rate_factor 0.5) at step 100" in describe_rate(config)
