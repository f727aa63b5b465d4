"""The model that training starts from: its folder, and what a recipe inherits from it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from transduce.config.checked_json import read_or_empty
from transduce.config.home import expanded
from transduce.config.schema import Config
from transduce.errors import ConfigError

WEIGHTS, CONFIG = "model.safetensors", "config.json"


def ancestor_folder(name: str) -> Path:
    """Returns the model folder that `init.model` names: the folder itself, or the model in a run folder.

    Raises:
        ConfigError: there is no model folder; the message says what is there, and what to do.
    """
    path = expanded(name)
    if not path.is_dir():
        more = " An ensemble has no weights of its own: name one of its models." if "," in name else ""
        raise _refused(name, f"no such folder. Name a model folder or a run folder.{more}")
    if "model_type" in read_or_empty(path / CONFIG):
        raise _refused(name, f"a Hugging Face model. Import it first: transduce import {name} --output MODEL")
    if (path / WEIGHTS).is_file() and (path / CONFIG).is_file():
        return path
    if (path / "model" / CONFIG).is_file():
        return path / "model"
    if (path / "checkpoints").is_dir():
        advice = f"Make one of its checkpoints: transduce average {name} --output MODEL"
        raise _refused(name, f"a run folder without a model. {advice}")
    for file, system in (("model.bin", "CTranslate2"), ("encoder.onnx", "ONNX")):
        if (path / file).is_file():
            advice = "They are rounded or rearranged: start from the model folder that was exported."
            raise _refused(name, f"it has weights for {system} only. {advice}")
    models = sorted(each.parent.name for each in path.glob(f"*/{WEIGHTS}"))
    if models:
        raise _refused(name, f"it holds several models ({', '.join(models[:5])}). Name one of them.")
    raise _refused(name, f"not a model folder: it has no {WEIGHTS}.")


def read_ancestor(name: str) -> tuple[dict[str, Any], str]:
    """Returns the configuration in the folder that `init.model` names, as plain values, and the name of its file.

    Raises:
        ConfigError: as `ancestor_folder` does; or the file is damaged.
    """
    folder = ancestor_folder(name)
    config = read_or_empty(folder / CONFIG).get("config")
    if not isinstance(config, dict):
        raise _refused(name, f"{folder / CONFIG} is not the configuration of a model. The file is damaged.")
    return config, str(folder / CONFIG)


def inherited(start: Config, ancestor: Config) -> Config:
    """Returns `start` with what a model determines: its shape, its subwords, its kind of text, and its search."""
    data = replace(
        start.data,
        format=ancestor.data.format,
        rare_words=ancestor.data.rare_words,
        source_language=ancestor.data.source_language,
        target_language=ancestor.data.target_language,
        language_tags=ancestor.data.language_tags,
    )
    return replace(start, model=ancestor.model, text=ancestor.text, data=data, decode=ancestor.decode)


def _refused(name: str, reason: str) -> ConfigError:
    return ConfigError(f"init.model = {json.dumps(name, ensure_ascii=False)}: {reason}")
