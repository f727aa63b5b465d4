"""Configuration: presets, recipe files, --set, and what they refuse."""

import argparse
import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from transduce import Translator
from transduce.cli import translate
from transduce.cli.options import Number
from transduce.config import (
    Config,
    DataConfig,
    DecodeConfig,
    InitConfig,
    ModelConfig,
    TextConfig,
    TrainConfig,
    apply_settings,
    from_dict,
    load_recipe,
    preset,
    preset_names,
    to_dict,
)
from transduce.config.presets import TABLE3
from transduce.config.ranges import flags_of, ranges_of
from transduce.config.schema import DecodeOptions
from transduce.errors import ConfigError
from transduce.translation.call_options import SearchOptions


def recipe(folder: Path, text: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return path


def changes(config: Any, base: Any) -> dict[str, Any]:
    """The fields of a section in which it differs from `base`."""
    ours, theirs = dataclasses.asdict(config), dataclasses.asdict(base)
    return {key: value for key, value in ours.items() if value != theirs[key]}


# --- defaults and presets -------------------------------------------------------------------------------------


def test_the_defaults_are_the_papers_base_model() -> None:
    config = Config()
    model, train, decode = config.model, config.train, config.decode
    assert (model.num_encoder_layers, model.num_decoder_layers, model.d_model, model.d_ff) == (6, 6, 512, 2048)
    assert (model.num_heads, model.d_k, model.d_v, model.dropout) == (8, 64, 64, 0.1)
    assert (model.norm, model.positions, model.sinusoid_layout) == ("post", "sinusoidal", "interleaved")
    assert (model.tie_embeddings, model.attention_dropout, model.ffn_dropout) == ("all", 0.0, 0.0)
    assert (train.adam_beta1, train.adam_beta2, train.adam_epsilon) == (0.9, 0.98, 1e-9)
    assert (train.warmup_steps, train.max_steps, train.label_smoothing) == (4000, 100_000, 0.1)
    assert (train.source_batch_tokens, train.target_batch_tokens) == (25_000, 25_000)
    assert (train.checkpoint_minutes, train.average_last, train.max_gradient_norm) == (10.0, 5, 0.0)
    assert (decode.beam_size, decode.length_penalty, decode.max_extra_tokens) == (4, 0.6, 50)


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_builds_under_its_own_name(name: str) -> None:
    config = preset(name)
    assert config.name == name
    assert from_dict(to_dict(config), "here") == config


def test_there_is_a_preset_for_each_row_of_table_3() -> None:
    rows = ["a1", "a2", "a3", "a4", "b1", "b2", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "d1", "d2", "d3", "d4", "e"]
    named = {"paper-base", "paper-big", "t2t-2017-base", "t2t-2017-big", "t2t-2017-big-en-fr", "tiny", "demo"}
    named |= {"student-6-1", "student-6-2", "student-tiny"}
    assert set(preset_names()) == named | {f"{family}-{row}" for family in ("paper", "t2t-2017") for row in rows}


# As printed: N, d_model, d_ff, h, d_k, d_v, P_drop, ε_ls; None where the table has a blank: as base.
PRINTED: dict[str, tuple[Any, ...]] = {
    "a1": (None, None, None, 1, 512, 512, None, None),
    "a2": (None, None, None, 4, 128, 128, None, None),
    "a3": (None, None, None, 16, 32, 32, None, None),
    "a4": (None, None, None, 32, 16, 16, None, None),
    "b1": (None, None, None, None, 16, None, None, None),
    "b2": (None, None, None, None, 32, None, None, None),
    "c1": (2, None, None, None, None, None, None, None),
    "c2": (4, None, None, None, None, None, None, None),
    "c3": (8, None, None, None, None, None, None, None),
    "c4": (None, 256, None, None, 32, 32, None, None),
    "c5": (None, 1024, None, None, 128, 128, None, None),
    "c6": (None, None, 1024, None, None, None, None, None),
    "c7": (None, None, 4096, None, None, None, None, None),
    "d1": (None, None, None, None, None, None, 0.0, None),
    "d2": (None, None, None, None, None, None, 0.2, None),
    "d3": (None, None, None, None, None, None, None, 0.0),
    "d4": (None, None, None, None, None, None, None, 0.2),
}


def test_how_the_released_code_differs_from_the_paper() -> None:
    paper, released = preset("paper-base"), preset("t2t-2017-base")
    assert changes(released.model, paper.model) == {
        "vocab_size": 40960,
        "attention_bias": True,
        "target_space_embedding": True,
        "sinusoid_layout": "concatenated",
        "decoder_start": "zero",
    }
    assert changes(released.train, paper.train) == {
        "source_batch_tokens": 32768,
        "target_batch_tokens": 32768,
        "smoothing": "others",
    }
    assert changes(released.text, paper.text) == {"vocab_size": 40960}
    assert (released.data, released.decode) == (paper.data, paper.decode)


@pytest.mark.parametrize("family", ["paper", "t2t-2017"])
@pytest.mark.parametrize("row", PRINTED)
def test_a_row_of_table_3_changes_what_the_table_says(family: str, row: str) -> None:
    base, config = preset(f"{family}-base"), preset(f"{family}-{row}")
    layers, d_model, d_ff, heads, d_k, d_v, dropout, smoothing = PRINTED[row]
    cells = {
        "num_encoder_layers": layers,
        "num_decoder_layers": layers,
        "d_model": d_model,
        "d_ff": d_ff,
        "num_heads": heads,
        "d_k": d_k,
        "d_v": d_v,
        "dropout": dropout,
    }
    assert changes(config.model, base.model) == {key: value for key, value in cells.items() if value is not None}
    wanted = {"average_last": 1} | ({} if smoothing is None else {"label_smoothing": smoothing})
    assert changes(config.train, base.train) == wanted
    assert (config.text, config.data, config.decode) == (base.text, base.data, base.decode)


@pytest.mark.parametrize("family", ["paper", "t2t-2017"])
def test_row_e_learns_its_positions(family: str) -> None:
    base, config = preset(f"{family}-base"), preset(f"{family}-e")
    assert changes(config.model, base.model) == {"positions": "learned"}
    assert changes(config.train, base.train) == {"average_last": 1}
    assert set(TABLE3) == {*PRINTED, "e"}


@pytest.mark.parametrize("family", ["paper", "t2t-2017"])
def test_big(family: str) -> None:
    base, big = preset(f"{family}-base"), preset(f"{family}-big")
    assert changes(big.model, base.model) == {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3}
    assert changes(big.train, base.train) == {"max_steps": 300_000, "keep_checkpoints": 20, "average_last": 20}


def test_the_released_codes_big_model_for_english_french() -> None:
    big, config = preset("t2t-2017-big"), preset("t2t-2017-big-en-fr")
    own = {"vocab_size": 32768, "d_ff": 8192, "dropout": 0.1, "tie_embeddings": "none"}
    assert changes(config.model, big.model) == own
    assert changes(config.text, big.text) == {"algorithm": "wordpiece", "vocab_size": 32768}
    assert (config.train, config.data, config.decode) == (big.train, big.data, big.decode)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("paper-bse", "paper-base"), ("tinny", "tiny"), ("paper-big-a1", "paper-"), ("t2t-2017-c8", "t2t-2017-c")],
)
def test_an_unknown_preset_is_refused_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=rf"No preset is called '{name}'. Did you mean '{nearest}"):
        preset(name)


# --- validation where a value is made -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ModelConfig(d_model=0), "model.d_model = 0: must be from 1 to 1,000,000."),
        (lambda: ModelConfig(num_decoder_layers=-1), "model.num_decoder_layers = -1: must be from 1 to 1,000."),
        (lambda: ModelConfig(dropout=1.0), "model.dropout = 1.0: must be at least 0 and less than 1"),
        (lambda: ModelConfig(ffn_dropout=-0.1), "model.ffn_dropout = -0.1: must be at least 0 and less than 1"),
        (lambda: ModelConfig(dropout=float("nan")), "model.dropout = nan"),
        (lambda: ModelConfig(d_model=5), "model.d_model = 5: must be even for sinusoidal positions"),
        (lambda: ModelConfig(attention_window=-1), "model.attention_window = -1: must be from 0 to"),
        (lambda: TextConfig(vocab_size=259), "text.vocab_size = 259: must be from 260 to"),
        (lambda: DataConfig(max_tokens=0), "data.max_tokens = 0: must be from 1 to"),
        (lambda: DataConfig(train=(("a", "b", "c"),)), "data.train = ['a', 'b', 'c']: must be a pair of files"),
        (lambda: DataConfig(validation=("a", "b", "c")), "data.validation = ['a', 'b', 'c']: must be a pair of files"),
        (lambda: DataConfig(test={"news": ()}), "data.test.news = []: must be a pair of files, or one TSV or TMX file"),
        (lambda: TrainConfig(max_steps=0), "train.max_steps = 0: must be from 1 to"),
        (lambda: TrainConfig(label_smoothing=1.0), "train.label_smoothing = 1.0: must be at least 0 and less than 1"),
        (lambda: TrainConfig(seed=-1), "train.seed = -1: must be from 0 to 2^62 - 1."),
        (
            lambda: TrainConfig(average_last=6),
            "train.average_last = 6: must be at most train.keep_checkpoints (5): only kept checkpoints",
        ),
        (
            lambda: TrainConfig(early_stopping=3, validate_steps=0),
            "train.early_stopping = 3: must be 0 where train.validate_steps is 0",
        ),
        (lambda: TrainConfig(cooldown_steps=-1), "train.cooldown_steps = -1: must be from 0 to"),
        (
            lambda: TrainConfig(cooldown_steps=9, max_steps=8),
            "train.cooldown_steps = 9: must be at most train.max_steps",
        ),
        (
            lambda: TrainConfig(cooldown_steps=9, max_minutes=1),
            "train.cooldown_steps = 9: must be 0 with train.max_min",
        ),
        (lambda: TrainConfig(int8_tuning_steps=-1), "train.int8_tuning_steps = -1: must be from 0 to"),
        (
            lambda: TrainConfig(int8_tuning_steps=9, max_steps=8),
            "train.int8_tuning_steps = 9: must be at most train.max_steps (8): they are the last of these steps",
        ),
        (
            lambda: TrainConfig(int8_tuning_steps=9, early_stopping=2),
            "train.int8_tuning_steps = 9: must be 0 with train.max_minutes, train.max_flops or train.early_stopping",
        ),
        (lambda: TrainConfig(num_workers=257), "train.num_workers = 257: must be from 0 to 256."),
        (lambda: TrainConfig(guided_attention=-1), "train.guided_attention = -1: must be from 0 to 1,000."),
        (lambda: DecodeConfig(beam_size=0), "decode.beam_size = 0: must be from 1 to 1,024."),
        (lambda: DecodeConfig(length_penalty=-0.1), "decode.length_penalty = -0.1: must be from 0 to 10."),
        (lambda: DecodeConfig(top_p=0.0), "decode.top_p = 0.0: must be greater than 0 and at most 1"),
        (lambda: DecodeConfig(top_p=0.9), "decode.top_p = 0.9: must be 1 where decode.temperature is 0"),
        (
            lambda: DecodeConfig(temperature=0.5, diversity_groups=2),
            "decode.diversity_groups = 2: must be 1 where decode.temperature is above 0",
        ),
    ],
)
def test_a_value_out_of_range_is_refused_where_it_is_made(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make()
    assert message in str(refused.value)


def test_unusual_values_are_allowed() -> None:
    assert ModelConfig(d_model=5, positions="learned").d_model == 5
    assert ModelConfig(d_model=6, num_heads=5, d_k=3, d_v=7).num_heads == 5  # 5 × 3 is not 6, and need not be
    assert DataConfig(train=(("a.tsv",),), validation=()).train == (("a.tsv",),)


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ModelConfig().d_model = 3  # type: ignore[misc]


def test_every_decoding_key_is_a_keyword_of_a_call() -> None:
    """`DecodeOptions` repeats the schema for type checkers, which cannot derive one from the other."""
    schema = {key: kind | None for key, kind in get_type_hints(DecodeConfig).items()}
    assert get_type_hints(SearchOptions) == schema
    named = inspect.signature(Translator.with_options).parameters.keys() - {"self", "options"}
    assert get_type_hints(DecodeOptions) == {key: kind for key, kind in schema.items() if key not in named}


def test_every_decoding_key_is_an_option_of_translate() -> None:
    parser = argparse.ArgumentParser()
    translate.configure(parser)
    options = {action.dest: action for action in parser._actions}
    assert flags_of(DecodeConfig).keys() == ranges_of(DecodeConfig).keys() == DecodeConfig.__dataclass_fields__.keys()
    for key, flag in flags_of(DecodeConfig).items():
        assert options[key].option_strings == [f"--{key.replace('_', '-')}"]
        assert (options[key].help or "").startswith(flag.help)
        assert options[key].metavar == flag.metavar
        assert options[key].type == Number(*ranges_of(DecodeConfig)[key], options[key].option_strings[0])
        assert options[key].default is None  # the model's value stays


# --- recipe files ---------------------------------------------------------------------------------------------

RECIPE = """
preset = "tiny"
name = "mine"

[model]
dropout = 0.25
num_heads = 8

[data]
folder = "corpus"
train = [["a.en", "a.de"], ["b.tsv"]]
validation = ["v.en", "v.de"]
test = { news = ["n.en", "n.de"] }

[train]
max_steps = 7
checkpoint_minutes = 3   # a whole number where a number is wanted
"""


def test_a_recipe_changes_its_preset(tmp_path: Path) -> None:
    config = load_recipe(recipe(tmp_path, RECIPE))
    tiny = preset("tiny")
    assert config.name == "mine"
    assert changes(config.model, tiny.model) == {"dropout": 0.25, "num_heads": 8}
    assert changes(config.train, tiny.train) == {"max_steps": 7, "checkpoint_minutes": 3.0}
    assert isinstance(config.train.checkpoint_minutes, float)
    assert config.data.train == (("a.en", "a.de"), ("b.tsv",))
    assert config.data.validation == ("v.en", "v.de")
    assert config.data.test == {"news": ("n.en", "n.de")}
    assert config.text == tiny.text
    assert from_dict(to_dict(config), "here") == config


def test_settings_win_over_the_recipe(tmp_path: Path) -> None:
    config = load_recipe(recipe(tmp_path, RECIPE), ["train.max_steps=9", "model.norm=pre", "train.max_steps=10"])
    assert (config.train.max_steps, config.model.norm, config.model.dropout) == (10, "pre", 0.25)


def test_the_folder_of_a_recipe_is_relative_to_it_and_that_of_a_setting_to_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = recipe(tmp_path, RECIPE)
    assert load_recipe(path).data.folder == str(tmp_path / "corpus")
    assert load_recipe(path, ["data.folder=elsewhere"]).data.folder == "elsewhere"
    monkeypatch.setenv("HOME", "/srv/ada")
    assert load_recipe(recipe(tmp_path, '[data]\nfolder = "~/corpus"')).data.folder == "/srv/ada/corpus"
    assert load_recipe(recipe(tmp_path, '[data]\nfolder = "/corpora"')).data.folder == "/corpora"
    assert load_recipe(recipe(tmp_path, "")).data.folder == ""


def test_a_name_that_begins_with_a_tilde_may_be_no_users(tmp_path: Path) -> None:
    assert load_recipe(recipe(tmp_path, '[data]\nfolder = "~$old"')).data.folder == str(tmp_path / "~$old")
    with pytest.raises(ConfigError, match=r'init.model = "~nobody-here/m": no such folder'):
        load_recipe(recipe(tmp_path, ""), ["init.model=~nobody-here/m"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[model]\ndropuot = 0.1", "unknown key 'model.dropuot'. Did you mean 'dropout'?"),
        ("[trian]\nmax_steps = 1", "unknown key 'trian'. Did you mean 'train'?"),
        ("[model]\nnothing_like_it = 1", "unknown key 'model.nothing_like_it'."),
        (
            '[data]\n[[data.corpora]]\nfiles = ["a.tsv"]\nvalidation = ["b.tsv"]',
            "unknown key 'data.corpora[0].validation'. A key of [data] is written above the first [[data.corpora]].",
        ),
        (
            '[[train.modifiers]]\nname = "typos"\nprobability = 0.1\nmax_steps = 9',
            "unknown key 'train.modifiers[0].max_steps'. A key of [train] is written above the first",
        ),
        ("[[data.corpora]]\nflies = []", "unknown key 'data.corpora[0].flies'. Did you mean 'files'?"),
        ("model = 3", "'model' is a section: write [model] and its keys below"),
        ("name = 3", "name = 3: must be a text in quotes"),
        ("preset = 3", "preset = 3: must be a text in quotes"),
        ('preset = "tinny"', "Did you mean 'tiny'?"),
        ("[model]\nnum_heads = 4.0", "model.num_heads = 4.0: must be a whole number"),
        ("[model]\nnum_heads = true", "model.num_heads = True: must be a whole number"),
        ("[model]\ndropout = true", "model.dropout = True: must be a number"),
        ('[model]\ndropout = "0.1"', "model.dropout = '0.1': must be a number"),
        ("[train]\ncompile = 1", "train.compile = 1: must be true or false"),
        ("[data]\nfolder = 1", "data.folder = 1: must be a text in quotes"),
        ('[data]\ntrain = "a.en"', "data.train = 'a.en': must be a list"),
        ('[data]\ntrain = ["a.en", "a.de"]', "data.train[0] = 'a.en': must be a list. Write train = [["),
        ('[data]\ntrain = [["a.en", 3]]', "data.train[0][1] = 3: must be a text in quotes."),
        ('[data]\ntest = ["a.en", "a.de"]', "data.test = ['a.en', 'a.de']: must be a table. Write test = {"),
        ('[data]\ntest = { news = "a.en" }', "data.test.news = 'a.en': must be a list"),
        ('[model]\nnorm = "Pre"', "model.norm = 'Pre': must be one of 'post', 'pre'. Did you mean 'pre'?"),
        ("[train]\nmax_steps = -1", "train.max_steps = -1: must be from 1 to"),
        ("[model", "not a TOML file"),
    ],
)
def test_a_wrong_recipe_is_refused_by_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    path = recipe(tmp_path, text)
    with pytest.raises(ConfigError) as refused:
        load_recipe(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert message in str(refused.value)


def test_a_recipe_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such recipe"):
        load_recipe(tmp_path / "absent.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not a TOML file"):
        load_recipe(tmp_path / "binary.toml")


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_bytes(b"\xef\xbb\xbf" + RECIPE.replace("\n", "\r\n").encode())
    assert load_recipe(path) == load_recipe(recipe(tmp_path, RECIPE))


# --- --set ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "read"),
    [
        ("train.max_steps=2_000", lambda c: c.train.max_steps == 2000),
        ("model.dropout = 0.2", lambda c: c.model.dropout == 0.2),
        ("model.dropout=0", lambda c: c.model.dropout == 0.0),
        ("train.device=cuda:1", lambda c: c.train.device == "cuda:1"),
        ('train.device="cuda:1"', lambda c: c.train.device == "cuda:1"),
        ("train.compile=true", lambda c: c.train.compile is True),
        ('data.train=[["x=1.en","x.de"]]', lambda c: c.data.train == (("x=1.en", "x.de"),)),
        ('data.test.news=["n.tsv"]', lambda c: c.data.test == {"news": ("n.tsv",)}),
        ("data.folder=", lambda c: c.data.folder == ""),
        ("name=other", lambda c: c.name == "other"),
    ],
)
def test_a_setting(setting: str, read: Callable[[Config], bool]) -> None:
    assert not read(dataclasses.replace(Config(), data=DataConfig(folder="before")))
    assert read(apply_settings(dataclasses.replace(Config(), data=DataConfig(folder="before")), [setting]))


@pytest.mark.parametrize(
    ("settings", "test"),
    [
        (['data.test.new=["b.tsv"]'], {"news": ("a.tsv",), "new": ("b.tsv",)}),
        (['data.test.news=["b.tsv"]'], {"news": ("b.tsv",)}),
        (['data.test.b=["b.tsv"]', 'data.test.c=["c.tsv"]'], {"news": ("a.tsv",), "b": ("b.tsv",), "c": ("c.tsv",)}),
        (["data.test={}"], {}),
        (['data.test={b=["b.tsv"]}'], {"b": ("b.tsv",)}),
        (["data.test={}", 'data.test.b=["b.tsv"]'], {"b": ("b.tsv",)}),
        (['data.test.b=["b.tsv"]', "data.test={}"], {}),
    ],
)
def test_a_setting_of_one_test_set_leaves_the_others(settings: list[str], test: dict[str, tuple[str, ...]]) -> None:
    start = Config(data=DataConfig(test={"news": ("a.tsv",)}))
    assert apply_settings(start, settings).data.test == test
    assert start.data.test == {"news": ("a.tsv",)}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("max_steps=3", "write section.key=value"),
        ("train.max_steps", "write section.key=value"),
        ("train.=3", "write section.key=value"),
        ("=3", "write section.key=value"),
        ("train.max_step=3", "unknown key 'train.max_step'. Did you mean 'max_steps'?"),
        ("train.max_steps=many", "train.max_steps = 'many': must be a whole number"),
        ("train.max_steps.a=1", "train.max_steps = {'a': 1}: must be a whole number"),
        ("train.precision=fp16", "train.precision = 'fp16': must be one of 'auto', 'fp32', 'bf16'."),
        ("preset.x=tiny", "'preset' can be set in a recipe only"),
        ("name.x=1", "name = {'x': 1}: must be a text in quotes"),
    ],
)
def test_a_wrong_setting_is_refused(setting: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        apply_settings(Config(), [setting])
    assert f"--set {setting}: " in str(refused.value)
    assert message in str(refused.value)


@pytest.mark.parametrize("turned", [False, True])
def test_settings_are_validated_together(turned: bool) -> None:
    """Each of these alone contradicts the default of the other."""
    settings = ["train.keep_checkpoints=2", "train.average_last=2", "model.d_model=5", "model.positions=learned"]
    config = apply_settings(Config(), settings[::-1] if turned else settings)
    assert (config.train.keep_checkpoints, config.train.average_last, config.model.d_model) == (2, 2, 5)
    with pytest.raises(ConfigError, match=r"--set train\.keep_checkpoints=2"):
        apply_settings(Config(), settings[:1])


# --- to_dict and from_dict ------------------------------------------------------------------------------------


def test_from_dict_names_the_file_and_the_key() -> None:
    values = to_dict(Config())
    values["model"]["num_haeds"] = 3
    with pytest.raises(ConfigError, match=r"^models/x/config.json: unknown key 'model.num_haeds'. Did you mean"):
        from_dict(values, "models/x/config.json")


def test_to_dict_is_plain_and_complete() -> None:
    values = to_dict(Config(data=DataConfig(train=(("a", "b"),), test={"news": ("c",)})))
    assert values["data"]["train"] == [["a", "b"]]
    assert values["data"]["test"] == {"news": ["c"]}
    names = {field.name for field in dataclasses.fields(Config)}
    assert values.keys() == names - {"init"}  # it is left out where training starts from random weights
    assert to_dict(Config(init=InitConfig(model="general"))).keys() == names
    assert values["model"].keys() == {field.name for field in dataclasses.fields(ModelConfig)}


def test_an_old_name_of_a_value_is_accepted() -> None:
    values = to_dict(Config())
    values["train"]["best_by"] = "bleu"
    assert from_dict(values, "models/old/config.json").train.best_by == "score"


def test_a_key_that_an_old_model_lacks_has_its_default() -> None:
    values = to_dict(Config())
    del values["model"]["attention_window"]
    assert from_dict(values, "models/old/config.json").model.attention_window == 0
