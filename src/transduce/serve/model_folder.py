"""A folder whose models are all served: model folders of Transduce, and packages of other systems.

A package is imported once. Its import is found again as long as all files of the package have the same checksums:

    DIR/.transduce/3f2a91c04d5e6b78/NAME/                          the model folder made from DIR/NAME
    ~/.cache/transduce/imports/DIR-8ac1…/3f2a91c04d5e6b78/NAME/    if DIR is read-only, or may be Argos Translate's own

Argos Translate and LibreTranslate take each folder in theirs for a package, and do not start if one is none.

An import of another version of Transduce is made again: a later one may read more. Imports of packages that are gone
are deleted, and those of other versions, unless a service is running that has found them.
"""

import contextlib
import hashlib
import json
import logging
import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from transduce import files
from transduce.__about__ import __version__
from transduce.bundle import Bundle
from transduce.config.checked_json import read_or_empty
from transduce.engines.cache_folders import is_writable, user_cache
from transduce.errors import BundleError, ConfigError, TransduceError
from transduce.serve.config import FolderConfig
from transduce.serve.package_import import find_package, import_package

_IMPORTS = ".transduce"
_ARCHIVES = (".argosmodel",)  # packages that are one file; others are folders
_KEY = re.compile(r"[0-9a-f]{16}")
_log = logging.getLogger(__name__)
_in_use: dict[Path, int] = {}  # folders of imports, open and locked as long as this process may load the models


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model in the folder."""

    path: Path  # what is there: a model folder, or a package
    model: Path  # the model folder: the same, or the import


@dataclass(frozen=True, slots=True)
class _Package:
    path: Path
    format: str
    key: str  # of its import

    @property
    def name(self) -> str:
        """Of its import, by which the log and the metrics call it: of `translate-en_de/model`, "translate-en_de"."""
        own = self.path.stem if self.path.suffix in _ARCHIVES else self.path.name
        return self.path.parent.name if own == "model" else own


def find_models(config: FolderConfig) -> list[FoundModel]:
    """Returns the models of a folder, directly in it or one level down, sorted; imports what is not imported yet.

    What cannot be used is left out, with a line in the log.

    Raises:
        ConfigError: there is no such folder.
    """
    folder = Path(config.path)
    if not _is_readable(folder):
        raise ConfigError(f"{folder}: no such folder of models, or it cannot be read.")
    found, packages, unread = [], [], set[str]()
    for path, format_ in _contents(folder):
        if not format_:
            found.append(FoundModel(path, path))
            continue
        try:
            if isinstance(format_, OSError):
                raise format_
            packages.append(_Package(path, format_, _key(path)))
        except OSError as error:
            leave_out(path, error)
            unread.add(_Package(path, "", "").name)
    roots = _roots(folder, packages)
    for root in roots:
        _delete_stale(root, {package.key for package in packages}, unread)
    known = {package: _find_import(package, roots) for package in packages}
    found += [FoundModel(package.path, model) for package, model in known.items() if model is not None]
    missing = [package for package, model in known.items() if model is None]
    for number, package in enumerate(missing, 1):
        try:
            found.append(FoundModel(package.path, _import(package, roots, config, f"{number} of {len(missing)}")))
        except TransduceError as error:
            leave_out(package.path, error)
    return sorted(found, key=lambda each: each.path)


def leave_out(path: Path, error: Exception) -> None:
    """Says in one line why a model is not served."""
    message = " ".join(str(error).split())
    _log.warning("left out: %s", message if str(path) in message else f"{path}: {message}")


def by_preference(path: Path) -> list[int | str]:
    """Returns what sorts names as people do: `translate-en_de-1_10` comes after `translate-en_de-1_9`."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", path.name)]


def _contents(folder: Path, *, deeper: bool = True) -> Iterator[tuple[Path, str | OSError]]:
    """Yields what may be served, and its format: "" for a model folder of ours, the error where it cannot be read."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not (path.is_dir() or path.suffix in _ARCHIVES):
            continue
        settings = read_or_empty(path / "config.json")
        if "transduce" in settings and "model_type" not in settings:
            yield path, ""
            continue
        try:
            format_ = find_package(path)
        except OSError as error:
            yield path, error
        except TransduceError as error:
            inside = list(_contents(path, deeper=False)) if deeper and _is_readable(path) else []
            yield from inside
            if deeper and not inside:
                leave_out(path, error)
        else:
            yield path, format_


def _is_readable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.R_OK | os.X_OK)


# --- imports --------------------------------------------------------------------------------------------------


def _key(package: Path) -> str:
    """Returns a hash of all that an import is made from."""
    paths = [package] if package.is_file() else sorted(path for path in package.rglob("*") if path.is_file())
    parts = [(str(path.relative_to(package)), files.cached_sha256(path)) for path in paths]
    return hashlib.sha256(json.dumps([__version__, parts]).encode()).hexdigest()[:16]


def _roots(folder: Path, packages: list[_Package]) -> list[Path]:
    """Returns where imports may be, the preferred root first."""
    path, cache = folder.resolve(), user_cache("imports")
    ours = [] if cache is None else [cache / f"{path.name}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}"]
    is_of_argos = any(package.format == "argos" and package.path.parent == folder for package in packages)
    return ours if is_of_argos else [folder / _IMPORTS, *ours]


def _find_import(package: _Package, roots: list[Path]) -> Path | None:
    for root in roots:
        model = root / package.key / package.name
        _keep(model.parent)
        with contextlib.suppress(TransduceError):
            Bundle.load(model)
            return model
    return None


def _import(package: _Package, roots: list[Path], config: FolderConfig, which: str) -> Path:
    """Imports a package, and returns the model folder.

    Raises:
        BundleError: it cannot be imported or run, or no root can be written to.
    """
    root = next((root for root in roots if is_writable(root)), None)
    if root is None:
        raise BundleError(
            f"{package.path}: {' and '.join(map(str, roots)) or 'the cache of this user'}: cannot be written to. Set "
            "XDG_CACHE_HOME to a folder that can be."
        )
    model = root / package.key / package.name
    with files.in_turn(root):  # replicas that start together share its imports
        model.parent.mkdir(exist_ok=True)
        if _find_import(package, [root]) is not None:
            return model
        _log.info("importing %s (%s) into %s", package.path, which, root)
        begin = time.monotonic()
        shutil.rmtree(model, ignore_errors=True)  # damaged, or else it would have been found
        try:
            import_package(package.path, model, config)
        except BaseException:
            shutil.rmtree(model, ignore_errors=True)
            with contextlib.suppress(OSError):  # next to it may be that of a package with the same contents
                model.parent.rmdir()
            raise
    _log.info("imported %s in %.1f s", package.name, time.monotonic() - begin)
    return model


def _delete_stale(root: Path, current: set[str], unread: set[str]) -> None:
    """Deletes the imports of packages that are gone or have changed; not of those that cannot be read for a moment."""
    for folder in root.iterdir() if root.is_dir() and not root.is_symlink() else ():
        is_ours = _KEY.fullmatch(folder.name) is not None and folder.is_dir() and not folder.is_symlink()
        if is_ours and folder.name not in current and not any((folder / name).exists() for name in unread):
            if folder in _in_use:
                os.close(_in_use.pop(folder))
            with contextlib.suppress(OSError):  # another process may delete it at the same time
                descriptor = os.open(folder, os.O_RDONLY)
                if files.lock(descriptor, without_locks=True):
                    shutil.rmtree(folder, ignore_errors=True)
                os.close(descriptor)


def _keep(folder: Path) -> None:
    """Keeps other processes from deleting the folder of an import as long as this one runs."""
    with contextlib.suppress(OSError):  # there is none, or it cannot be read
        descriptor = os.open(folder, os.O_RDONLY)
        files.lock(descriptor, without_locks=True, shared=True)
        before, _in_use[folder] = _in_use.pop(folder, None), descriptor
        if before is not None:  # perhaps of a folder that was replaced
            os.close(before)
