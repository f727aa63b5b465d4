"""The contents of a run folder that are read without torch: configuration and data.

config.json         the resolved configuration, and under "set" the values that --set gave
distilled/          with --blockwise: the model's own translations of the training sources
data/               prepared data, unless they are elsewhere
data.json           checksums of the data; where they are, unless that is RUN/data
micro_batches.json  how batches were split, from which step on
ancestor.json       which model training started from, if any: see `transduce.training.ancestor`
checkpoints/        the last ones: see `transduce.training.checkpoints`
best/               the checkpoint with the best validation score
metrics.jsonl       every logged step and validation; tensorboard/ has the same
quarantine.jsonl    batches whose loss was a spike or not finite, with their text
model/              the averaged model, written at the end

Each `.json` file has a checksum of itself; those that 0.1.0 wrote have none.
"""

import re
from pathlib import Path
from typing import Any

from transduce import files
from transduce.config import Config, from_dict
from transduce.config.checked_json import read_checked, write_checked
from transduce.data.prepared import Prepared, is_prepared, load_prepared
from transduce.errors import TrainingError

CONFIG, DATA, ANCESTOR, STATE = "config.json", "data.json", "ancestor.json", "state.json"
MICRO_BATCHES = "micro_batches.json"  # see `transduce.training.micro_batches`
QUARANTINE = "quarantine.jsonl"  # see `transduce.training.quarantine`
METRICS = "metrics.jsonl"  # see `transduce.training.log`
_CHECKPOINT = re.compile(r"step-\d{8,}")  # a checkpoint's name
_OWN = {
    *(CONFIG, DATA, ANCESTOR, MICRO_BATCHES, QUARANTINE, METRICS),
    *("distilled", "data", "checkpoints", "best", "tensorboard", "model"),
}
TERMS = "terms"  # folder of the ancestor's licence files and original card
ANCESTOR_HEAD = "guided_head"  # key of ancestor.json: the layer and the heads that align, if they were trained to
ANCESTOR_ROWS = "vocab_size"  # key of ancestor.json: the number of the ancestor's pieces, which come before new ones
_NOT_CONFIGURATION = ("transduce", "torch", "set")


def checkpoint_path(run: Path, step: int) -> Path:
    """Returns the folder of the checkpoint after `step` updates."""
    return run / "checkpoints" / f"step-{step:08d}"


def checkpoint_step(path: Path) -> int:
    """Returns after how many updates a checkpoint was written, by the name of its folder."""
    return int(path.name.removeprefix("step-"))


def checkpoints(run: Path) -> list[Path]:
    """Returns the run's checkpoints, oldest first."""
    found = (
        path
        for path in (run / "checkpoints").glob("step-*")
        if _CHECKPOINT.fullmatch(path.name) and any(path.glob("*"))  # one without its state is damaged
    )
    return sorted(found, key=checkpoint_step)


def remove_leftovers(run: Path) -> None:
    """Removes what killed processes left unfinished in a run folder; only while no other process trains there."""
    files.remove_leftovers(run, *_OWN)
    files.remove_leftovers(run / "data", "*.json", "*.jsonl", "*.arrow", "*.bin", "*.safetensors")
    files.remove_leftovers(run / "checkpoints", "step-*")
    for path in (run / "checkpoints").glob("step-*"):
        if _CHECKPOINT.fullmatch(path.name) and path.is_dir() and not any(path.iterdir()):  # left by version 0.1.0
            path.rmdir()


def require_run_folder(run: Path) -> None:
    """Raises TrainingError where a folder has files that are not a training's."""
    if not run.is_dir() or checkpoints(run) or (run / DATA).is_file():
        return
    others = sorted(path.name for path in run.iterdir() if not (path.name in _OWN or path.name.startswith(".")))
    if others:
        raise TrainingError(
            f"--output {run}: is not a run folder, and has other files ({', '.join(others[:3])}"
            f"{', …' if len(others) > 3 else ''}). Name a new folder, or an empty one."
        )


def load_run_config(run: Path) -> Config:
    """Returns the configuration of a run.

    Raises:
        TrainingError: `run` is not a run folder, or its configuration is damaged.
    """
    values = read_run_config(run)
    if (run / "model.safetensors").is_file():
        raise TrainingError(f"{run}: a model folder, not a run folder, which 'transduce train' makes.")
    return from_dict({k: v for k, v in values.items() if k not in _NOT_CONFIGURATION}, str(run / CONFIG))


def started_config(run: Path) -> Config | None:
    """Returns the configuration of a run that has a checkpoint; None where it has none, or there is no run.

    Raises:
        TrainingError: its configuration is damaged.
    """
    return load_run_config(run) if checkpoints(run) and (run / CONFIG).is_file() else None


def read_run_config(run: Path) -> dict[str, Any]:
    """Returns all that a run's `config.json` holds, as it is; raises what `load_run_config` does."""
    try:
        return _read(run / CONFIG)
    except OSError:
        raise TrainingError(f"{run}: not a run folder: it has no {CONFIG}. 'transduce train' makes one.") from None


def _read(path: Path) -> dict[str, Any]:
    """Returns the object in a file of a run folder; raises TrainingError where it is damaged. An OSError passes."""
    try:
        return read_checked(path)
    except ValueError as error:
        raise damaged(path, error) from None


def damaged(path: Path, reason: object) -> TrainingError:
    """Returns the error for a file of a run folder that cannot be read."""
    return TrainingError(f"{path}: damaged: {reason}. Put back a copy of it, or choose another --output.")


def run_settings(run: Path) -> list[str]:
    """Returns the settings, each `section.key=value`, that a run was started or resumed with, if there is a run.

    Raises:
        TrainingError: its configuration is damaged.
    """
    if not (run / CONFIG).is_file():
        return []
    settings = read_run_config(run).get("set", [])
    if not isinstance(settings, list) or not all(isinstance(setting, str) for setting in settings):
        raise damaged(run / CONFIG, "'set' is not a list of settings")
    return settings


def data_folder(run: Path) -> Path:
    """Returns the folder of the prepared data that a run trains on.

    Raises:
        TrainingError: data.json is damaged.
    """
    folder = _read_data(run).get("folder")
    if folder is not None and not isinstance(folder, str):
        raise damaged(run / DATA, f"'folder' is {folder!r}")
    return run / "data" if folder is None else Path(folder)


def load_run_data(run: Path, folder: Path | None = None, *, checksums: bool = True) -> Prepared:
    """Opens the prepared data of a run, in `folder` if they have moved there.

    Raises:
        TrainingError: they are not the data that the run was started with, or no file says which those were.
        DataError: they are damaged.
    """
    folder = folder or data_folder(run)
    if not is_prepared(folder):
        raise TrainingError(
            f"{folder}: has no manifest.json, which says whether it holds the data that {run} was started with. Put "
            "the file back, or prepare the same corpus in another folder and resume with --data FOLDER."
        )
    started_with = _read_data(run) if (run / DATA).is_file() else _identity(_own_data(run))
    if not isinstance(started_with.get("train_sha256"), str):
        raise damaged(run / DATA, "it has no 'train_sha256'")
    now = load_prepared(folder, checksums=checksums)
    if any(started_with.get(name, value) != value for name, value in _identity(now).items()):
        raise TrainingError(f"{run}: was started with other data than {folder}. Resume it with its own data.")
    return now


def _own_data(run: Path) -> Prepared:
    """Returns the data in the run folder: version 0.1.0 has no data.json unless the data lie elsewhere."""
    if not is_prepared(run / "data"):
        raise TrainingError(
            f"{run}: {DATA} and data/manifest.json are missing, which say what data it was started with. Put one back."
        )
    return load_prepared(run / "data", checksums=False)


def save_run_data(run: Path, prepared: Prepared) -> None:
    """Writes data.json: where the data of a run are, and their checksums."""
    folder = prepared.folder.resolve()
    elsewhere = {} if folder == (run / "data").resolve() else {"folder": str(folder)}
    write_checked(run / DATA, elsewhere | _identity(prepared))


def _identity(prepared: Prepared) -> dict[str, str | None]:
    listed = prepared.manifest["files"]
    return {
        "train_sha256": str(listed[prepared.train.name]["sha256"]),
        # Scores on other sentences cannot be compared with the best one so far. 0.1.0 did not note it.
        "validation_sha256": str(listed[prepared.validation.name]["sha256"]) if prepared.validation else None,
        "tokenizer_fingerprint": prepared.tokenizer_fingerprint,
    } | ({"aligner_sha256": str(listed[prepared.aligner.name]["sha256"])} if prepared.aligner else {})


def _read_data(run: Path) -> dict[str, Any]:
    return _read(run / DATA) if (run / DATA).is_file() else {}


def read_ancestor_record(run: Path) -> dict[str, Any]:
    """Returns the contents of RUN/ancestor.json; empty where there is none.

    Raises:
        TrainingError: the file is damaged.
    """
    return _read(run / ANCESTOR) if (run / ANCESTOR).is_file() else {}


def ancestor_metrics(run: Path) -> dict[str, Any]:
    """Returns a model's metrics about its ancestor; empty where training started from random weights."""
    record = read_ancestor_record(run)
    for key in (ANCESTOR_ROWS, ANCESTOR_HEAD):
        record.pop(key, None)
    return {"ancestor": record} if record else {}
