"""Where converted models lie: beside the model's files, or in the user's cache where that folder is read-only.

    MODEL/ctranslate2/int8-1f0c…/                                  the model in int8; the digits stand for its weights
    MODEL/ctranslate2/int8-shortlist-7e1b…/                        and with its shortlist, for which they stand too
    ~/.cache/transduce/ctranslate2/NAME-8ac1…/int8-1f0c…/          where MODEL cannot be written to

A folder appears when it is whole. Processes that convert the same model at once write it each, and the last's stays.
"""

import contextlib
import hashlib
import json
import os
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from transduce import files
from transduce.bundle import Bundle
from transduce.engines.ctranslate2_limits import VERSION, require_convertible, require_quantization
from transduce.errors import BundleError
from transduce.shortlist import FILE as SHORTLIST_FILE
from transduce.shortlist import has_shortlist

if TYPE_CHECKING:
    from transduce.shortlist.table import Shortlist

_DIGITS = 16


def converted(bundle: Bundle, quantization: str, shortlist: "Shortlist | None" = None) -> Path:
    """Returns the folder of the model for CTranslate2, which is made where there is none; standard error says so.

    Conversions of other weights or another shortlist that lay in its place are deleted.

    Args:
        bundle: a model folder.
        quantization: how numbers are stored.
        shortlist: that of the model folder, where it is to be used. CTranslate2 reads the map whenever it lies there,
            which takes a while: so a model without one has a folder of its own.

    Raises:
        ConfigError: there is no such quantization, or the model cannot be converted.
        BundleError: the model folder is damaged, or there is no place to write to.
    """
    require_quantization(quantization)
    require_convertible(bundle.config.model)
    checksum = _checksum(bundle, shortlisted=shortlist is not None)
    name = f"{quantization}-{checksum}" if shortlist is None else f"{quantization}-shortlist-{checksum}"
    places = (bundle.path / "ctranslate2", _user_place(bundle.path))
    for place in places:
        if _is_current(place / name, bundle):
            return place / name
    for place in places:
        if _writable(place):
            print(f"transduce: converting for CTranslate2, this once: {place / name}", file=sys.stderr)
            bundle.verify()  # the name vouches for the weights
            from transduce.engines.ctranslate2_model import convert

            convert(bundle, place / name, quantization, shortlist)
            current = [_checksum(bundle, shortlisted=True)] if has_shortlist(bundle) else []
            _delete_stale(place, {_checksum(bundle), *current})
            return place / name
    raise BundleError(
        f"{places[0]}: cannot be written to, nor can {places[1]}: there is no place for the converted model. "
        "Set XDG_CACHE_HOME to a folder that can be written to."
    )


def _checksum(bundle: Bundle, *, shortlisted: bool = False) -> str:
    """Returns the digits that stand for all that a conversion comes from, with the shortlist or without."""
    names = ("model.safetensors", "tokenizer.json")
    parts = [VERSION, asdict(bundle.config.model)]
    parts += [bundle.checksums.get(name) or files.sha256(bundle.path / name) for name in names]
    if shortlisted:
        parts.append(files.sha256(bundle.path / SHORTLIST_FILE))
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:_DIGITS]


def _user_place(model_folder: Path) -> Path:
    cache = os.environ.get("XDG_CACHE_HOME")
    path = model_folder.resolve()
    digits = hashlib.sha256(os.fsencode(path)).hexdigest()[:8]
    root = Path(cache) if cache else Path.home() / ".cache"
    return root / "transduce" / "ctranslate2" / f"{path.name}-{digits}"


def _is_current(folder: Path, bundle: Bundle) -> bool:
    """Says whether the conversion is there; weights that changed after it must be what the checksums say.

    Raises:
        BundleError: they are not.
    """
    arrays, weights = folder / "model.bin", bundle.path / "model.safetensors"
    if not arrays.is_file():
        return False
    if weights.stat().st_mtime_ns > arrays.stat().st_mtime_ns:
        bundle.verify()
        with contextlib.suppress(OSError):  # where it is read-only, the next load looks again
            os.utime(arrays)
    return True


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # read-only, or somebody else's
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def _delete_stale(place: Path, current: set[str]) -> None:
    for folder in place.iterdir():
        _, _, digits = folder.name.rpartition("-")
        if folder.is_dir() and len(digits) == _DIGITS and digits not in current and not folder.name.startswith("."):
            shutil.rmtree(folder, ignore_errors=True)  # another process may be at the same
