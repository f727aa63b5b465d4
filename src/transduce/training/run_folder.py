"""What a run folder says of its training: the configuration, what was set by hand, and which data it was begun with.

config.json   the resolved configuration, and under "set" the settings that were laid over the recipe
data.json     checksums of the data; where they lie, unless that is RUN/data
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from transduce import files
from transduce.__about__ import __version__
from transduce.config import Config, to_dict
from transduce.data.prepared import Prepared, is_prepared, load_prepared
from transduce.errors import TrainingError
from transduce.training.history import CONFIG, checkpoints, damaged, load_run_config, read_run_config

DATA = "data.json"

# What may differ between a run's own configuration and the one it is resumed with: nothing that changes an update.
_FREE_ON_RESUME = {
    "train.max_steps", "train.max_minutes", "train.device", "train.compile", "train.log_steps",
    "train.checkpoint_steps", "train.checkpoint_minutes", "train.keep_checkpoints", "train.average_last",
    "train.validate_steps", "train.validate_bleu", "train.validate_bleu_sentences", "train.validate_beam_size",
    "train.early_stopping", "train.best_by",
    "train.micro_batch_tokens",  # as the number of processes: rounding, and which numbers dropout draws
    "name", "data.folder", "data.download", "data.source_language", "data.target_language", "data.test",
    "decode.beam_size", "decode.length_penalty", "decode.max_extra_tokens", "decode.batch_size",
}  # fmt: skip
# These change updates, and are what a training that diverged needs: only where they are set, not by an edited recipe.
_FREE_IF_SET = {"train.learning_rate_factor", "train.max_gradient_norm"}


def run_settings(run: Path) -> list[str]:
    """Returns the settings, each `section.key=value`, that a run was begun or resumed with; none where there is no run.

    Raises:
        TrainingError: its configuration is damaged.
    """
    if not (run / CONFIG).is_file():
        return []
    settings = read_run_config(run).get("set", [])
    if not isinstance(settings, list) or not all(isinstance(setting, str) for setting in settings):
        raise damaged(run / CONFIG, "'set' is not a list of settings")
    return settings


def laid_over(before: Sequence[str], settings: Sequence[str]) -> list[str]:
    """Returns the settings of before, with those of now in their place where both set the same key."""
    return [*{_key(setting): setting for setting in (*before, *settings)}.values()]


def _key(setting: str) -> str:
    return setting.partition("=")[0].strip()


def save_run_config(run: Path, config: Config, settings: Sequence[str]) -> None:
    """Writes the configuration of a run, and what of it was set by hand."""
    made_by = {"transduce": __version__, "torch": torch.__version__}
    files.write_json(run / CONFIG, made_by | ({"set": [*settings]} if settings else {}) | to_dict(config))


def changes_on_resume(run: Path, config: Config, settings: Sequence[str]) -> list[str]:
    """Returns how `config` differs from the run's own, a line for each key.

    Raises:
        TrainingError: a difference would make another training of it, or what the run was begun with is not known.
    """
    if not checkpoints(run):  # nothing is trained yet
        return []
    if not (run / CONFIG).is_file():
        raise TrainingError(
            f"{run / CONFIG}: missing, so that nothing says what this training was begun with. Put it back, or choose "
            "another --output."
        )
    before, now = _flat(to_dict(load_run_config(run))), _flat(to_dict(config))
    free = _FREE_ON_RESUME | (_FREE_IF_SET & {_key(setting) for setting in settings})
    if config.train.cooldown_steps:
        free -= {"train.max_steps"}  # the rate depends on where it ends
    changed = {
        key: f"{key}: was {_shown(before.get(key))}, now {_shown(now.get(key))}"
        for key in sorted((before.keys() | now.keys()) - {"model.vocab_size"})
        if before.get(key) != now.get(key)
    }
    refused = [f"  {line}" for key, line in changed.items() if key not in free and not key.startswith("data.test.")]
    if refused:
        raise TrainingError(
            f"{run}: cannot be resumed with another configuration than it was begun with:\n" + "\n".join(refused)
        )
    return [*changed.values()]


def _shown(value: Any) -> str:
    return "not set" if value is None else repr(value)


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def data_folder(run: Path) -> Path:
    """Returns the folder of the prepared data that a run trains on.

    Raises:
        TrainingError: what says where they are is damaged.
    """
    folder = _read_data(run).get("folder")
    if folder is not None and not isinstance(folder, str):
        raise damaged(run / DATA, f"'folder' is {folder!r}")
    return run / "data" if folder is None else Path(folder)


def load_run_data(run: Path, folder: Path | None = None, *, checksums: bool = True) -> Prepared:
    """Opens the prepared data of a run that has begun, in `folder` where they have moved to.

    Raises:
        TrainingError: they are not those that the run was begun with, or nothing says which those were.
        DataError: they are damaged.
    """
    folder = folder or data_folder(run)
    if not is_prepared(folder):
        raise TrainingError(
            f"{folder}: has no manifest.json, so that nothing says whether it holds the data that {run} was begun "
            "with. Put the file back, or prepare the same corpus in another folder and resume with --data FOLDER."
        )
    begun_with = _read_data(run) if (run / DATA).is_file() else _identity(_own_data(run))
    if not isinstance(begun_with.get("train_sha256"), str):
        raise damaged(run / DATA, "it has no 'train_sha256'")
    now = load_prepared(folder, checksums=checksums)
    if any(begun_with.get(name, value) != value for name, value in _identity(now).items()):
        raise TrainingError(f"{run}: was begun with other data than {folder}; it can be resumed with its own only.")
    return now


def _own_data(run: Path) -> Prepared:
    """Returns the data in the run folder, which is what a run of version 0.1.0 was begun with if it noted no other."""
    if not is_prepared(run / "data"):
        raise TrainingError(
            f"{run}: nothing says with what data it was begun: {DATA} and data/manifest.json are missing. Put one back."
        )
    return load_prepared(run / "data", checksums=False)


def save_run_data(run: Path, prepared: Prepared) -> None:
    """Notes where the data of a run are, and which they are."""
    folder = prepared.folder.resolve()
    elsewhere = {} if folder == (run / "data").resolve() else {"folder": str(folder)}
    files.write_json(run / DATA, elsewhere | _identity(prepared))


def has_data_elsewhere(run: Path) -> bool:
    """Returns whether the run's data lie outside it."""
    return "folder" in _read_data(run)


def _identity(prepared: Prepared) -> dict[str, str | None]:
    listed = prepared.manifest["files"]
    return {
        "train_sha256": str(listed[prepared.train.name]["sha256"]),
        # Scores on other sentences cannot be compared with the best one so far. 0.1.0 did not note it.
        "validation_sha256": str(listed[prepared.validation.name]["sha256"]) if prepared.validation else None,
        "tokenizer_fingerprint": prepared.tokenizer_fingerprint,
    }


def _read_data(run: Path) -> dict[str, Any]:
    if not (run / DATA).is_file():
        return {}
    try:
        return files.read_json_object(run / DATA)
    except ValueError as error:
        raise damaged(run / DATA, error) from None
