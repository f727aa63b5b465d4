"""A prepared folder: its manifest, and whether it is whole and the one that is wanted.

    tokenizer.json   train.arrow   validation.arrow   report.json   manifest.json

The manifest is written last and removed first, so a folder without one is not prepared, whatever else is in it.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.config import Config, DataConfig
from transduce.errors import DataError
from transduce.files import read_json_object, sha256
from transduce.reporting.tables import counted

if TYPE_CHECKING:
    from transduce.data.corpus import CorpusFiles  # which knows trees: whoever opens a folder need not

FORMAT_VERSION = 1
MANIFEST, REPORT, TOKENIZER = "manifest.json", "report.json", "tokenizer.json"
TRAIN, VALIDATION = "train.arrow", "validation.arrow"

# These say where a corpus is or what it is called; what it becomes does not depend on them.
_IRRELEVANT = {"folder", "download", "source_language", "target_language", "allow_misaligned"}


@dataclass(frozen=True)
class Prepared:
    """A prepared folder that is whole.

    Attributes:
        folder: the folder.
        tokenizer: path of its tokenizer.
        train: the store of the training pairs.
        validation: that of the validation pairs; None if there are none.
        tokenizer_fingerprint: of the tokenizer that made the stores.
        vocab_size: of that tokenizer.
        manifest: all that `manifest.json` says.
    """

    folder: Path
    tokenizer: Path
    train: Path
    validation: Path | None
    tokenizer_fingerprint: str
    vocab_size: int
    manifest: dict[str, Any]


def is_prepared(folder: Path) -> bool:
    """Tells whether `prepare` has finished with the folder; whether it is whole still, `load_prepared` says."""
    return (folder / MANIFEST).is_file()


def load_prepared(folder: Path, *, checksums: bool = True) -> Prepared:
    """Opens a folder that `prepare` made, after checking its files against the manifest.

    Args:
        folder: the folder.
        checksums: whether to read all files for it; otherwise only their sizes are compared.

    Raises:
        DataError: the folder is not prepared, or a file is missing or not the one that was written.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        raise DataError(
            f"{folder}: not a prepared folder: it has no {MANIFEST}. Run 'transduce prepare RECIPE --output {folder}'."
        )
    for name, expected in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            raise DataError(f"{path}: missing. Run 'transduce prepare' again with --overwrite.")
        same = path.stat().st_size == expected["bytes"]
        if not same or (checksums and sha256(path) != expected["sha256"]):
            raise DataError(
                f"{path}: not the file that was prepared (its {'checksum' if same else 'size'} differs from the "
                f"manifest's). Run 'transduce prepare' again with --overwrite."
            )
    return Prepared(
        folder=folder,
        tokenizer=folder / TOKENIZER,
        train=folder / TRAIN,
        validation=folder / VALIDATION if VALIDATION in manifest["files"] else None,
        tokenizer_fingerprint=manifest["tokenizer_fingerprint"],
        vocab_size=manifest["vocab_size"],
        manifest=manifest,
    )


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Returns the manifest of a prepared folder, or None if there is none.

    Raises:
        DataError: it cannot be read.
    """
    path = folder / MANIFEST
    if not path.is_file():
        return None
    advice = "Run 'transduce prepare' again with --overwrite."
    try:
        manifest = read_json_object(path)
        version = manifest["format_version"]
        if version == FORMAT_VERSION:
            _require_sound(manifest)
    except KeyError as error:
        raise DataError(f"{path}: damaged: it has no {error}. {advice}") from None
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{path}: damaged: {error}. {advice}") from None
    if version != FORMAT_VERSION:
        raise DataError(f"{path}: format {version}; this version of Transduce reads format {FORMAT_VERSION}. {advice}")
    return manifest


def _require_sound(manifest: dict[str, Any]) -> None:
    """Raises KeyError, TypeError or ValueError where a manifest lacks what is read of it."""
    if type(manifest["vocab_size"]) is not int or not isinstance(manifest["tokenizer_fingerprint"], str):
        raise ValueError("'vocab_size' is not a whole number, or 'tokenizer_fingerprint' not a text")
    for name in (TOKENIZER, TRAIN):
        manifest["files"][name]
    for name, expected in manifest["files"].items():
        if Path(name).name != name or type(expected["bytes"]) is not int or not isinstance(expected["sha256"], str):
            raise ValueError(f"'files' says of {name!r} what cannot be")
    found = manifest["identity"]
    if not all(isinstance(found[section], dict) for section in ("text", "data")):
        raise ValueError("'identity' has no sections 'text' and 'data'")
    for item in found["inputs"]:
        item["path"], item["bytes"], item["mtime_ns"], item["sha256"]


def identity(config: Config, files: "CorpusFiles", tokenizer_fingerprint: str | None) -> dict[str, Any]:
    """Returns all that the prepared files depend on: configuration, input files, and a tokenizer given.

    A given tokenizer takes the place of the `text` section.
    """
    given = {"text": {"tokenizer": tokenizer_fingerprint}} if tokenizer_fingerprint else {}
    return _settings(config) | given | {"inputs": [_status(path) for path in files.all()]}


def _settings(config: Config) -> dict[str, Any]:
    data = {key: value for key, value in asdict(config.data).items() if key not in _IRRELEVANT}
    plain: dict[str, Any] = json.loads(json.dumps({"text": asdict(config.text), "data": data}))
    return plain


def _status(path: Path) -> dict[str, Any]:
    status = path.stat()
    return {"path": str(path), "bytes": status.st_size, "mtime_ns": status.st_mtime_ns}


def with_checksums(inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the inputs of an identity with the checksum of each.

    Raises:
        DataError: a file is no longer the one that the identity describes.
    """
    for item in inputs:
        if _status(Path(item["path"])) != item:
            raise DataError(f"{item['path']}: changed while it was being prepared. Prepare again.")
    return [item | {"sha256": sha256(Path(item["path"]))} for item in inputs]


def difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Returns how two identities differ, in words; empty if they do not.

    A file that was moved or touched is compared by checksum.
    """
    if differs := _difference_of_settings(old, new):
        return differs
    if len(old["inputs"]) != len(new["inputs"]):
        return f"the corpus has {counted(len(new['inputs']), 'file')}, and had {len(old['inputs'])}"
    for before, now in zip(old["inputs"], new["inputs"], strict=True):
        if before["bytes"] != now["bytes"]:
            return f"{now['path']} has {now['bytes']} bytes, and had {before['bytes']}"
        unmoved = before["path"] == now["path"] and before["mtime_ns"] == now["mtime_ns"]
        if not unmoved and sha256(Path(now["path"])) != before["sha256"]:
            return f"{now['path']} has other contents than before"
    return ""


def difference_from(config: Config, prepared: Prepared) -> str:
    """Returns how a folder was prepared otherwise than `config` would have it, in words; empty if it was not.

    Where the files were is no difference, nor is a tokenizer that was given.
    """
    old, new = prepared.manifest["identity"], _settings(config)
    return _difference_of_settings(old, new | {"text": old["text"]} if "tokenizer" in old["text"] else new)


def _difference_of_settings(old: dict[str, Any], new: dict[str, Any]) -> str:
    """A key of `data` that did not exist when the folder was prepared had its default's effect."""
    defaults: dict[str, Any] = json.loads(json.dumps({"text": {}, "data": asdict(DataConfig())}))
    for section in ("text", "data"):
        for key in [*new[section], *(key for key in old[section] if key not in new[section])]:
            before, now = old[section].get(key, defaults[section].get(key)), new[section].get(key)
            if before != now:
                return f"{section}.{key} was {_show(before)}, and is {_show(now)}"
    return ""


def _show(value: Any) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)
