"""From a preset, a recipe file and `--set` to a `Config`, and back to TOML and JSON.

Precedence, later wins: the preset that the recipe names → what is inherited from the model of `[init]` → the recipe's
sections → each `--set section.key=value`.
"""

import dataclasses
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from transduce.config.ancestor import inherited, read_ancestor
from transduce.config.home import expanded
from transduce.config.presets import preset
from transduce.config.ranges import require_text, shown, word_or_value
from transduce.config.schema import SECTIONS, Config, DecodeConfig
from transduce.config.start import InitConfig
from transduce.errors import ConfigError, suggestion

_RECIPE_KEYS = ("preset", "name", *SECTIONS)


def load_recipe(path: str | Path, settings: Sequence[str] = (), *, started: Config | None = None) -> Config:
    """Reads a TOML recipe, applies `settings` (each `section.key=value`), and returns the whole configuration.

    Args:
        path: the recipe.
        settings: they override the recipe.
        started: the configuration of the run to resume. A recipe with `[init]` then inherits from it, because the
            model that it started from may be gone.

    Raises:
        ConfigError: the file is missing or not TOML, a key is unknown, a value has the wrong type or range, or
            `init.model` names no model.
    """
    path = Path(path)
    values = _read_recipe(path)
    try:
        start = _start(path, values, settings, started)
        config = apply(start, {key: value for key, value in values.items() if key != "preset"})
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    return apply_settings(_relative_to(path.parent, config), settings)


def recipe_start(path: Path, settings: Sequence[str] = ()) -> tuple[str, Config]:
    """Returns the preset that a recipe starts from: its name, or "" and the defaults where it names none.

    What a recipe inherits from the model of `[init]` is included.
    """
    values = _read_recipe(path)
    return str(values.get("preset", "")), _start(path, values, settings)


def _start(path: Path, values: dict[str, Any], settings: Sequence[str] = (), started: Config | None = None) -> Config:
    """Returns the preset, or the defaults, with what is inherited from the model of `[init]`."""
    start = preset(convert(values["preset"], str, "preset")) if "preset" in values else Config()
    name = _named_model(path, values, settings)
    if not name:
        return start
    if started is None:
        started = from_dict(*read_ancestor(name))
    return dataclasses.replace(inherited(start, started), init=InitConfig(model=name))


def _named_model(path: Path, values: dict[str, Any], settings: Sequence[str]) -> str:
    """Returns `init.model` as the settings have it, else as the recipe has it; empty if there is none."""
    for setting in reversed(settings):
        key, _, text = setting.partition("=")
        if key.strip() == "init.model":
            return str(convert(_parse_value(text.strip()), str, "init.model"))
    section = values.get("init")
    name = section.get("model", "") if isinstance(section, dict) else ""
    return _located(path.parent, convert(name, str, "init.model"))


def _relative_to(folder: Path, config: Config) -> Config:
    """Returns `config` with the paths that are relative to the recipe's folder."""
    data = dataclasses.replace(config.data, folder=_located(folder, config.data.folder))
    model, words = (_located(folder, name) for name in (config.init.model, config.init.words_file))
    return dataclasses.replace(config, data=data, init=dataclasses.replace(config.init, model=model, words_file=words))


def _located(folder: Path, name: str) -> str:
    return str(Path(folder, expanded(name))) if name else name


def _read_recipe(path: Path) -> dict[str, Any]:
    return read_toml(path, "recipe", "A recipe is a TOML file; see the folder recipes/ for examples.")


def read_toml(path: Path, kind: str, hint: str = "") -> dict[str, Any]:
    """Returns the values of a TOML file.

    Raises:
        ConfigError: there is no such file, which `kind` names and `hint` explains, or it is not TOML.
    """
    if not path.is_file():
        raise ConfigError(f"{path}: no such {kind}. {hint}".rstrip())
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))  # some editors put a byte order mark in front
    except ValueError as error:  # also of text that is not UTF-8, and of numbers of thousands of digits
        raise ConfigError(f"{path}: not a TOML file: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: not a {kind}: its values are nested too deeply.") from None
    return values


def apply_settings(config: Config, settings: Sequence[str]) -> Config:
    """Returns `config` with each `section.key=value` applied; values are TOML, and bare words are strings.

    All settings are applied at once, and the result is validated as a whole. Where two set the same key, the later one
    wins. `data.test.NAME=[…]` sets one entry of a table; `data.test={…}` sets the whole table.
    """
    changes: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        parts = key.strip().split(".")
        if not equals or not all(parts) or (len(parts) < 2 and key.strip() != "name"):
            raise ConfigError(
                f"--set {_cut(setting)}: write section.key=value, for example --set train.max_steps=2000."
            )
        _set(changes, config, parts, _parse_value(text.strip()))
    try:
        return apply(config, changes)
    except ConfigError as error:
        raise ConfigError(f"--set {' --set '.join(_cut(each) for each in settings)}: {error}") from None


def merge_settings(before: Sequence[str], settings: Sequence[str]) -> list[str]:
    """Returns `before` and `settings`, each `section.key=value`; of two with the same key, the later one."""
    return [*{setting_key(setting): setting for setting in (*before, *settings)}.values()]


def setting_key(setting: str) -> str:
    """Returns the key of `section.key=value`."""
    return setting.partition("=")[0].strip()


def with_decode_options(options: DecodeConfig, changes: Mapping[str, Any]) -> DecodeConfig:
    """Returns `options` with the changes that are not None; a wrong key or value is a ConfigError."""
    changes = {key: value for key, value in changes.items() if value is not None}
    return apply(Config(decode=options), {"decode": changes}).decode


def _cut(setting: str) -> str:
    return setting if len(setting) <= _LONGEST_SHOWN else f"{setting[:_LONGEST_SHOWN]} …"


def _set(changes: dict[str, Any], config: Config, parts: list[str], value: Any) -> None:
    """Enters into `changes` that the key `parts` becomes `value`."""
    if len(parts) == 1:
        changes[parts[0]] = value
        return
    name, key, *entry = parts
    before = changes.get(name)
    section: dict[str, Any] = before if isinstance(before, dict) else {}
    for part in reversed(entry[1:]):
        value = {part: value}
    if entry:  # the other entries of the table stay
        table = section.get(key, getattr(getattr(config, name, None), key, None))
        value = {**(table if isinstance(table, dict) else {}), entry[0]: value}
    changes[name] = section | {key: value}


def _parse_value(text: str) -> Any:
    try:
        values = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return values["value"] if len(values) == 1 else text  # a line break in it would begin another key


def apply(config: Config, values: dict[str, Any]) -> Config:
    """Returns `config` with the values of the sections in `values`."""
    changes: dict[str, Any] = {}
    for key, value in values.items():
        if key not in _RECIPE_KEYS:
            raise ConfigError(f"unknown key '{key}'.{suggestion(key, _RECIPE_KEYS)}")
        if key == "preset":
            raise ConfigError("'preset' can be set in a recipe only, at its top.")
        if key == "name":
            changes[key] = convert(value, str, "name")
        else:
            changes[key] = apply_section(getattr(config, key), value, key)
    return dataclasses.replace(config, **changes)


def apply_section(section: Any, values: Any, name: str) -> Any:
    """Returns a section with `values` in place of its own; `name` is the prefix of the keys in errors.

    Raises:
        ConfigError: they are no table, a key is unknown, or a value has the wrong type or range.
    """
    if not isinstance(values, dict):
        raise ConfigError(f"'{name}' is a section: write [{name}] and its keys below.")
    hints = get_type_hints(type(section))
    for key in values:
        if key not in hints:
            raise ConfigError(f"unknown key '{name}.{key}'.{_written_too_late(key, name) or suggestion(key, hints)}")
    return dataclasses.replace(
        section, **{key: convert(value, hints[key], f"{name}.{key}") for key, value in values.items()}
    )


def _written_too_late(key: str, name: str) -> str:
    """Returns advice if `key` is one of a whole section, but follows an entry of a list such as [[data.corpora]]."""
    entry, bracket, _ = name.partition("[")
    section = entry.partition(".")[0]
    if not bracket or section not in SECTIONS or key not in get_type_hints(SECTIONS[section]):
        return ""
    return f" A key of [{section}] is written above the first [[{entry}]]."


def convert(value: Any, hint: Any, key: str) -> Any:
    """Returns `value` if it fits the annotation `hint`; integers become floats, and lists become tuples."""
    words, hint = word_or_value(hint)
    if words and isinstance(value, str):
        if value in words:
            return value
        raise ConfigError(f"{key} = {shown(value)}: must be {' or '.join(map(repr, words))}, or {_TYPE_NAMES[hint]}.")
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        if isinstance(value, str):
            value = _RENAMED_VALUES.get(key, {}).get(value, value)
        if isinstance(value, str) and value in arguments:
            return value
        choices = ", ".join(repr(a) for a in arguments)
        near = suggestion(value[:100], map(str, arguments)) if isinstance(value, str) else ""
        raise ConfigError(f"{key} = {shown(value)}: must be one of {choices}.{near}")
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(convert(item, arguments[0], f"{key}[{index}]") for index, item in enumerate(value))
    if dataclasses.is_dataclass(hint) and isinstance(hint, type) and isinstance(value, dict | hint):
        return apply_section(hint(), value, key) if isinstance(value, dict) else value
    if origin is dict and isinstance(value, dict):
        return {require_text(k, key): convert(item, arguments[1], f"{key}.{k}") for k, item in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value) if abs(value) < _LARGEST else math.inf  # which no range allows
    if hint is str and isinstance(value, str):
        return require_text(value, key)
    if isinstance(hint, type) and isinstance(value, hint) and isinstance(value, bool) == (hint is bool):
        return value
    example = next((f" Write {text}." for name, text in _EXAMPLES.items() if key.startswith(name)), "")
    raise ConfigError(f"{key} = {shown(value)}: must be {_TYPE_NAMES.get(origin or hint, 'a table')}.{example}")


_LONGEST_SHOWN = 300  # characters of a setting, in errors
_LARGEST = 10**300  # integers below become floats as they are
# Old names of values: key, then old and new name.
_RENAMED_VALUES = {"train.best_by": {"bleu": "score"}}

# Examples of keys whose type does not show their shape.
_EXAMPLES = {
    "data.corpora": '[[data.corpora]] and below it files = ["train.en", "train.de"]',
    "data.validation_sets": '[[data.validation_sets]] and below it files = ["dev.en", "dev.de"]',
    "data.test_sets": '[[data.test_sets]] and below it files = ["test.en", "test.de"]',
    "train.phases": "[[train.phases]] and below it from_step = 5000 and weights = { web = 0.5 }",
    "train.modifiers": '[[train.modifiers]] and below it name = "upper_case" and probability = 0.07',
    "data.train": 'train = [["train.en", "train.de"]]: a list of pairs of files',
    "data.validation": 'validation = ["dev.en", "dev.de"]',
    "data.test": 'test = { news = ["news.en", "news.de"] }',
}

_TYPE_NAMES: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text in quotes",
    tuple: "a list",
    dict: "a table",
}


def to_dict(config: Config) -> dict[str, Any]:
    """Returns the configuration as plain dicts, lists and scalars; without `init` where training starts anew."""
    plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config)))
    if config.init == InitConfig():
        del plain["init"]
    return plain


def from_dict(values: dict[str, Any], where: str) -> Config:
    """Rebuilds a configuration that `to_dict` made; `where` names its file in errors."""
    try:
        return apply(Config(), values)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
