"""Keeps converted models: in the model folder, or in the user's cache if that folder is read-only.

    MODEL/ctranslate2/int8-1f0c…/                                  the model in int8, with a hash of its weights
    MODEL/ctranslate2/int8-shortlist-7e1b…/                        with its shortlist, which is hashed too
    ~/.cache/transduce/ctranslate2/NAME-8ac1…/int8-1f0c…/          if MODEL is read-only
    ~/.cache/transduce/ctranslate2/records/int8-1f0c….json         the conversions of this user: sizes and checksums

A conversion is used only if this user's cache has a record of it and all of its files match the record. Everything else
is converted again: conversions that came with a model folder (their origin is unknown), damaged ones, and those of
another version or of another source of the model (`model_source`). Only the user's cache is trusted: whoever can write
there can do anything as that user.

What is computed with is hashed at every load. The model's own weights, which are not read where a conversion is used,
are hashed again only when the file's `stamp` is not the recorded one: an error there could change no translation.

If neither folder can be written to, as in a read-only container, each start converts the model in memory.

A folder appears only when it is complete. If several processes convert the same model at once, the last one's stays.
"""

import contextlib
import hashlib
import json
import logging
import os
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from transduce import files
from transduce.bundle import ALIGNMENT, CHECKED, WEIGHTS, Bundle
from transduce.config.checked_json import read_or_empty
from transduce.engines import model_source
from transduce.engines.cache_folders import is_writable, user_cache
from transduce.engines.ctranslate2_limits import QUANTIZATIONS, VERSION, require_convertible
from transduce.engines.shortlist import FILE as SHORTLIST_FILE
from transduce.engines.shortlist import has_shortlist, require_shortlist

_DIGITS = 16
_log = logging.getLogger(__name__)  # of progress messages, which `--quiet` silences


def converted(bundle: Bundle, quantization: str, *, shortlisted: bool = False) -> Path | None:
    """Returns the folder of the converted model, and makes it if necessary, with a line in the log.

    Returns None, with a warning on standard error, if it cannot be written anywhere.

    Conversions of other weights or another shortlist in the same folder are deleted.

    Args:
        bundle: a model folder.
        quantization: how numbers are stored.
        shortlisted: whether the model folder's shortlist is to be used. CTranslate2 always reads the map in a folder,
            which takes a while, so a model without one has a folder of its own.

    Raises:
        ConfigError: there is no such quantization, or the model cannot be converted.
        BundleError: the model folder is damaged, or has no shortlist.
    """
    require_convertible(bundle.config.model, quantization)
    if shortlisted:
        require_shortlist(bundle)
    digest = _digest(bundle, shortlisted=shortlisted)
    kind = f"{quantization}-shortlist" if shortlisted else quantization
    name = f"{kind}-{digest[:_DIGITS]}"
    cache = user_cache("ctranslate2")
    record = cache / "records" / f"{name}.json" if cache is not None else None
    roots = [bundle.path / "ctranslate2"]
    if cache is not None:
        path = bundle.path.resolve()
        roots.append(cache / f"{path.name}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}")
    known = {} if record is None else read_or_empty(record)
    for root in roots:
        if _is_as_recorded(root / name, known, digest):
            _require_same_weights(bundle, record, known)
            return root / name
    for root in roots:
        if is_writable(root) and _convert(bundle, root / name, quantization, shortlisted=shortlisted):
            _write_record(record, root / name, digest, bundle)
            current = [_digest(bundle, shortlisted=True)] if has_shortlist(bundle) else []
            _delete_stale(root, {each[:_DIGITS] for each in (_digest(bundle), *current)})
            return root / name
    print(
        f"transduce: warning: {' and '.join(map(str, roots))}: cannot be written to, so each start converts the model "
        "for CTranslate2, in memory. Set XDG_CACHE_HOME to a folder that can be written to.",
        file=sys.stderr,
    )
    return None


def _convert(bundle: Bundle, folder: Path, quantization: str, *, shortlisted: bool) -> bool:
    """Writes the converted model; returns False if it cannot be written, as on a full disk."""
    from transduce.engines.ctranslate2_model import convert  # NumPy is slow to import, and seldom needed
    from transduce.engines.shortlist.table import load_shortlist

    shortlist = load_shortlist(bundle) if shortlisted else None
    again = "again: what is there was not made here, or is damaged" if folder.exists() else "this once"
    _log.warning("transduce: converting for CTranslate2, %s: %s", again, folder)
    files.remove_leftovers(folder.parent, *(f"{name}-*" for name in QUANTIZATIONS))
    try:
        convert(bundle, folder, quantization, shortlist)
    except OSError:
        return False
    return True


def _digest(bundle: Bundle, *, shortlisted: bool = False) -> str:
    """Returns a hash of everything that a conversion is made from, with or without the shortlist."""
    parts = [VERSION, model_source.SYNTAX, asdict(bundle.config.model)]
    parts += [bundle.checksum(name) for name in CHECKED]
    parts.append(bundle.checksums.get(ALIGNMENT))
    if shortlisted:
        parts.append(files.sha256(bundle.path / SHORTLIST_FILE))
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


# --- records of conversions -----------------------------------------------------------------------------------


def _write_record(record: Path | None, folder: Path, digest: str, bundle: Bundle) -> None:
    """Records the conversion; warns if that is impossible, because it will not be used again."""
    values = {"digest": digest, "files": _contents(folder), "weights": files.file_state(bundle.path / WEIGHTS)}
    try:
        if record is None:
            raise OSError("the user has no home")
        files.write_json(record, values)
    except OSError as error:
        print(
            f"transduce: warning: no record of the conversion can be kept ({error}), so the next start converts again. "
            "Set XDG_CACHE_HOME to a folder that can be written to.",
            file=sys.stderr,
        )


def _contents(folder: Path) -> dict[str, Any]:
    """Returns the size and the checksum of each file in a folder; None for an entry that is no file."""
    return {
        path.name: {"bytes": path.stat().st_size, "sha256": files.sha256(path)} if path.is_file() else None
        for path in folder.iterdir()
    }


def _is_as_recorded(folder: Path, record: dict[str, Any], digest: str) -> bool:
    """Returns whether the conversion exists and has exactly the files of the record."""
    try:
        return record.get("digest") == digest and record.get("files") == _contents(folder)
    except OSError:
        return False


def _require_same_weights(bundle: Bundle, record: Path | None, known: dict[str, Any]) -> None:
    """Compares the model's weights with their checksum, unless the file is unchanged since that was last done.

    Raises:
        BundleError: they differ.
    """
    stamp = files.file_state(bundle.path / WEIGHTS)
    if stamp is not None and known.get("weights") == list(stamp):
        return
    bundle.check_checksum(WEIGHTS)
    if record is not None and stamp is not None:
        with contextlib.suppress(OSError):  # without a record, the next load compares again
            files.write_json(record, known | {"weights": stamp})


def _delete_stale(root: Path, current: set[str]) -> None:
    """Deletes conversions of weights and shortlists that the model folder no longer has."""
    for folder in root.iterdir():
        kind, _, digits = folder.name.rpartition("-")
        is_ours = kind.removesuffix("-shortlist") in QUANTIZATIONS and len(digits) == _DIGITS
        if is_ours and folder.is_dir() and not folder.is_symlink() and digits not in current:
            shutil.rmtree(folder, ignore_errors=True)  # another process may delete it at the same time
