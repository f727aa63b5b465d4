"""A prepared folder: its manifest, whether it is intact, and whether it was prepared as required.

    tokenizer.json   train.arrow   lines.bin   validation.arrow   aligner.safetensors   dropped.jsonl   report.json
    manifest.json

The manifest is written last and removed first: a folder without one is not prepared, whatever else it has.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.config import Config, DataConfig
from transduce.config.checked_json import format_problem, read_checked, read_or_empty
from transduce.config.corpora import CorpusConfig, HeldOutSetConfig
from transduce.config.differences import describe, differences
from transduce.data.corpus_tags import CorpusTags
from transduce.data.mixture import CorpusRows
from transduce.data.tmx import is_tmx
from transduce.errors import DataError, require_resources
from transduce.files import sha256
from transduce.reporting.tables import counted

if TYPE_CHECKING:
    from transduce.data.corpus import CorpusFiles  # imports the treebank code, which opening a folder does not need

FORMAT_VERSION = 1
MANIFEST, REPORT, TOKENIZER = "manifest.json", "report.json", "tokenizer.json"
TRAIN, VALIDATION = "train.arrow", "validation.arrow"
LINES = "lines.bin"  # see `transduce.data.origins`
ALIGNER = "aligner.safetensors"  # see `transduce.data.word_links`

# Where the corpus is and what it is called: the prepared files do not depend on these, but for `_languages`.
_IRRELEVANT = {"folder", "download", "source_language", "target_language", "allow_misaligned"}
# How often pairs are seen is decided when an epoch is planned. Corpora and test sets are under "train" and "test", as
# in the short form.
_IRRELEVANT |= {"repeat", "corpora", "temperature", "test_sets"}
_TARGETS = "target_languages"


@dataclass(frozen=True)
class Prepared:
    """A prepared folder that is intact.

    Attributes:
        folder: the folder.
        tokenizer: path of its tokenizer.
        train: path of the store of training pairs.
        validation: path of the store of validation pairs; None if there are none.
        aligner: path of what links words; None where nothing needs it.
        tokenizer_fingerprint: fingerprint of the tokenizer that made the stores.
        vocab_size: its vocabulary size.
        manifest: the contents of `manifest.json`.
        corpora: which rows of the training pairs belong to which corpus; empty in folders of earlier versions.
        validation_sets: likewise for the validation pairs.
    """

    folder: Path
    tokenizer: Path
    train: Path
    validation: Path | None
    aligner: Path | None
    tokenizer_fingerprint: str
    vocab_size: int
    manifest: dict[str, Any]
    corpora: tuple[CorpusRows, ...]
    validation_sets: tuple[CorpusRows, ...]


def is_prepared(folder: Path) -> bool:
    """Returns whether `prepare` has finished with the folder. `load_prepared` checks that it is still intact."""
    return (folder / MANIFEST).is_file()


def load_prepared(folder: Path, *, checksums: bool = True) -> Prepared:
    """Opens a folder that `prepare` made, after checking its files against the manifest.

    Args:
        folder: the folder.
        checksums: whether to compare checksums, which reads all files; otherwise only sizes are compared.

    Raises:
        DataError: the folder is not prepared, or a file is missing or has changed.
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
                f"{path}: has changed: its {'checksum' if same else 'size'} differs from the manifest. "
                "Run 'transduce prepare' again with --overwrite."
            )
    return Prepared(
        folder=folder,
        tokenizer=folder / TOKENIZER,
        train=folder / TRAIN,
        validation=folder / VALIDATION if VALIDATION in manifest["files"] else None,
        aligner=folder / ALIGNER if ALIGNER in manifest["files"] else None,
        tokenizer_fingerprint=manifest["tokenizer_fingerprint"],
        vocab_size=manifest["vocab_size"],
        manifest=manifest,
        corpora=_rows(manifest, "corpora"),
        validation_sets=_rows(manifest, "validation_sets"),
    )


def require_aligner(folder: Path) -> Path:
    """Returns the path of what links words; raises DataError where the prepared folder has none."""
    if not (folder / ALIGNER).is_file():
        raise DataError(
            f"{folder}: was prepared without {ALIGNER}, which train.guided_attention or train.modifiers need. "
            f"Name another folder, or prepare this one again: transduce prepare RECIPE --output {folder} --overwrite"
        )
    return folder / ALIGNER


def _rows(manifest: dict[str, Any], key: str) -> tuple[CorpusRows, ...]:
    return tuple(CorpusRows(**corpus) for corpus in manifest.get(key, ()))


def prepared_facts(folder: Path) -> dict[str, Any]:
    """Returns the size of vocabulary, parts and epoch of a prepared folder, by its manifest and report.

    Raises:
        DataError: as `load_prepared` does.
    """
    manifest = load_prepared(folder, checksums=False).manifest
    report = read_or_empty(folder / REPORT)  # it is for people; the manifest suffices
    parts = {
        name: {"pairs": num_pairs}
        | {key: report[name][key] for key in ("source_tokens", "target_tokens") if key in (report.get(name) or {})}
        for name, num_pairs in manifest["num_pairs"].items()
    }
    for kind, corpora in (("train", _rows(manifest, "corpora")), ("validation", _rows(manifest, "validation_sets"))):
        for corpus in corpora if len(corpora) > 1 else ():
            counts = {"source_tokens": corpus.source_tokens, "target_tokens": corpus.target_tokens}
            parts[f"{kind}: {corpus.name}"] = {"pairs": corpus.num_pairs} | counts
    batches = report.get("epoch", {}).get("num_batches")
    return {"vocab_size": manifest["vocab_size"], "parts": parts, "batches_in_an_epoch": batches}


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
        manifest = read_checked(path)
        problem = format_problem(manifest, FORMAT_VERSION, key="format_version")
        if not problem:
            _require_valid(manifest)
    except KeyError as error:
        raise DataError(f"{path}: damaged: it has no {error}. {advice}") from None
    except (OSError, ValueError, TypeError) as error:
        require_resources(error, path)
        raise DataError(f"{path}: damaged: {error}. {advice}") from None
    if problem:
        raise DataError(f"{path}: {problem}. {advice}")
    return manifest


def _require_valid(manifest: dict[str, Any]) -> None:
    """Raises KeyError, TypeError or ValueError if a manifest lacks a value that is used."""
    if type(manifest["vocab_size"]) is not int or not isinstance(manifest["tokenizer_fingerprint"], str):
        raise ValueError("'vocab_size' is not a whole number, or 'tokenizer_fingerprint' is not a string")
    for name in (TOKENIZER, TRAIN):
        manifest["files"][name]
    for name, expected in manifest["files"].items():
        if Path(name).name != name or type(expected["bytes"]) is not int or not isinstance(expected["sha256"], str):
            raise ValueError(f"'files' has a wrong entry for {name!r}")
    for corpus in (*_rows(manifest, "corpora"), *_rows(manifest, "validation_sets")):
        if not all(type(count) is int for count in (corpus.num_pairs, corpus.source_tokens, corpus.target_tokens)):
            raise ValueError(f"'corpora' or 'validation_sets' has a wrong entry: {corpus}")
    found = manifest["identity"]
    if not all(isinstance(found[section], dict) for section in ("text", "data")):
        raise ValueError("'identity' has no sections 'text' and 'data'")
    for item in found["inputs"]:
        item["path"], item["bytes"], item["mtime_ns"], item["sha256"]


def identity(
    config: Config, files: "CorpusFiles", tokenizer_fingerprint: str | None, tagged: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns everything the prepared files depend on: configuration, input files, and the tokenizer if one is given.

    A given tokenizer replaces the `text` section. The words that the corpus adds to it depend on the corpus. Where it
    has tags for languages, `tagged`, a single target language has one, too.
    """
    given: dict[str, Any] = {"text": {"tokenizer": tokenizer_fingerprint}} if tokenizer_fingerprint else {}
    if config.init.new_words:
        sampled = {"min_frequency": config.text.min_frequency, "sample_pairs": config.text.sample_pairs}
        given["text"] |= {"new_words": config.init.new_words} | sampled
    if tagged:
        given["text"] |= {_TARGETS: _target_languages(config.data)}
    return _settings(config) | given | {"inputs": [_status(path) for path in files.all()]}


def _target_languages(data: DataConfig) -> list[str]:
    """Returns the target language of each set that is encoded."""
    sets: list[CorpusConfig | HeldOutSetConfig] = [*data.training_corpora, *data.validation_corpora]
    return [each.target_language for each in sets]


def _settings(config: Config) -> dict[str, Any]:
    data = {key: value for key, value in asdict(config.data).items() if key not in _IRRELEVANT}
    data["train"] = [corpus.files for corpus in config.data.training_corpora]
    data["validation_sets"] = [each.files for each in config.data.validation_sets]
    data["test"] = {each.name: each.files for each in config.data.test_corpora}
    data["languages"] = _languages(config.data)
    tags = CorpusTags.of(config.data)
    data["tags"] = {"train": tags.train, "validation": tags.validation} if tags.all else {}
    plain: dict[str, Any] = json.loads(json.dumps({"text": asdict(config.text), "data": data}))
    return plain


def _languages(data: DataConfig) -> list[tuple[str, str]]:
    """Returns the languages on which the files depend.

    Those of a translation memory choose its pairs. Of several target languages, all count, also those of held-out sets:
    which training pairs leak depends on them.
    """
    sets: list[CorpusConfig | HeldOutSetConfig] = [*data.training_corpora, *data.validation_corpora]
    sets += data.test_corpora
    chosen = [each for each in sets if data.tagged_languages or is_tmx(Path(each.files[0]))]
    return [(each.source_language, each.target_language) for each in chosen]


def _status(path: Path) -> dict[str, Any]:
    status = path.stat()
    return {"path": str(path), "bytes": status.st_size, "mtime_ns": status.st_mtime_ns}


def with_checksums(inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the inputs of an identity, with a checksum for each.

    Raises:
        DataError: a file has changed since.
    """
    for item in inputs:
        if _status(Path(item["path"])) != item:
            raise DataError(f"{item['path']}: changed during preparation. Prepare again.")
    return [item | {"sha256": sha256(Path(item["path"]))} for item in inputs]


def difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Returns the first differences between two identities, in words; empty if there are none.

    A file whose path or time differs is compared by checksum.
    """
    if changed := _changed_settings(old, new):
        return changed
    if len(old["inputs"]) != len(new["inputs"]):
        return f"the corpus had {counted(len(old['inputs']), 'file')}, now {len(new['inputs'])}"
    for before, now in zip(old["inputs"], new["inputs"], strict=True):
        if before["bytes"] != now["bytes"]:
            return f"{now['path']} had {before['bytes']} bytes, now {now['bytes']}"
        unmoved = before["path"] == now["path"] and before["mtime_ns"] == now["mtime_ns"]
        if not unmoved and sha256(Path(now["path"])) != before["sha256"]:
            return f"{now['path']} has different contents"
    return ""


def difference_from(config: Config, prepared: Prepared) -> str:
    """Returns the first differences between `config` and how a folder was prepared, in words; empty if there are none.

    The location of the files is no difference, nor is a tokenizer that was given.
    """
    old, new = prepared.manifest["identity"], _settings(config)
    if "tokenizer" in old["text"]:
        new["text"] = old["text"] | {_TARGETS: _target_languages(config.data)}
    return _changed_settings(old, new)


def _changed_settings(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Compares the settings. A key of `data` that did not exist when the folder was prepared counts as its default."""
    before = {"text": old["text"], "data": _settings(Config())["data"] | old["data"]}
    if not before["data"].get("repeat"):  # earlier versions repeated pairs in the store, and noted how often
        before["data"].pop("repeat", None)
    text = dict(new["text"])
    if _TARGETS not in old["text"]:  # the tokenizer has no tags for languages, or an earlier version did not note them
        text.pop(_TARGETS, None)
    found = describe(differences(before, {"text": text, "data": new["data"]}))
    found = found.replace(f"text.{_TARGETS} was", "the target languages of corpora and sets were")  # no key of a recipe
    return found.replace("data.languages was", "the languages of corpora and sets were")  # likewise
