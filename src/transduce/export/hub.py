"""Models of the Hugging Face Hub: from the local cache where it has them, else downloaded; checked in both cases.

All files of a model come from one commit. The package `huggingface_hub` downloads them, resumes and keeps the cache.
It is imported where a name of the hub is given, and nothing else here goes to the network.
"""

import contextlib
import hashlib
import logging
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce import files
from transduce.__about__ import __version__
from transduce.errors import BundleError, DownloadError, MissingDependencyError, install_command

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoSibling

_log = logging.getLogger(__name__)

_NAME = re.compile(r"(?P<name>(?!\S*(?:--|\.\.))\w[\w.-]*/\w[\w.-]*)(?:@(?P<revision>\S+))?", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHARD = re.compile(r".+-of-(?P<count>[0-9]{1,6})\.[a-z]+")
_GIT_DIGEST = _COMMIT  # of small files, by which the cache names them
_SHA256 = re.compile(r"[0-9a-f]{64}")
_CONFIG = "config.json"
_VOCABULARIES = ("vocab.*", "*_vocab.json", "*_vocabulary.*", "tokenizer.json", "*.spm", "*.model")
_SMALL_FILES = (
    _CONFIG,
    *("generation_config.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vmap.txt"),
    *_VOCABULARIES,
    "tokenization_*.py",  # not run: a model that needs it is refused
    *("README*", "LICEN[CS]E*", "NOTICE*", "COPYING*"),
)
# The same weights in several forms: the first that a repository has is read, and no other.
_WEIGHTS = (
    ("model.safetensors",),
    ("model.safetensors.index.json", "model-*-of-*.safetensors"),
    ("pytorch_model.bin",),
    ("pytorch_model.bin.index.json", "pytorch_model-*-of-*.bin"),
    ("model.bin",),  # of CTranslate2
)


@dataclass(frozen=True)
class Origin:
    """What an import reads, and what the model folder says of it.

    Attributes:
        path: a file or folder; of a model of the hub, its folder in the local cache.
        repository: a model's name on the hub, `owner/name`; "" for a path, which has none of what follows.
        revision: the commit, 40 hexadecimal digits.
        url: the page of the repository at this commit.
        sha256: of each file that an import uses.
    """

    path: Path
    repository: str = ""
    revision: str = ""
    url: str = ""
    sha256: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.repository.rpartition("/")[2] or self.path.resolve().name

    @property
    def recorded(self) -> str | dict[str, Any]:
        """What `metrics.json` says of it."""
        if not self.repository:
            return str(self.path)
        keys = {"repository": self.repository, "revision": self.revision, "url": self.url}
        return keys | {"sha256": dict(self.sha256)}


@dataclass(frozen=True)
class _Request:
    """A model that is wanted.

    Attributes:
        name: `owner/name`.
        revision: a branch, tag or commit; "" is the branch `main`, also as the cache last saw it.
    """

    name: str
    revision: str

    @property
    def accepts_cache(self) -> bool:
        """Whether the cache can answer without a request: a branch that is named may have moved."""
        return not self.revision or _COMMIT.fullmatch(self.revision) is not None


def find_origin(origin: str | Path | Origin) -> Origin:
    """Returns what `origin` names: a path that exists, or a model of the hub, which is fetched.

    Args:
        origin: a path, or `owner/name`, or `owner/name@revision`. A model that the cache has is taken from there; its
            newest commit is looked up only if the revision is a branch or a tag.

    Raises:
        BundleError: it is neither.
        DownloadError: the hub refuses or cannot be reached, or a file is damaged; the message says what to do.
        MissingDependencyError: `huggingface_hub` is not installed.
    """
    if isinstance(origin, Origin):
        return origin
    if os.path.lexists(origin):
        return Origin(Path(origin))
    named = _NAME.fullmatch(str(origin))
    if named is None:
        raise BundleError(
            f"{origin}: no such file or folder, and no name of a model on the Hugging Face Hub, which is OWNER/NAME "
            "or OWNER/NAME@REVISION."
        )
    if find_spec("huggingface_hub") is None:
        raise MissingDependencyError(
            f"{origin}: no such file or folder. To download a model of this name: {install_command('hub')}"
        )
    return _fetch(_Request(named["name"], named["revision"] or ""))


def needed_files(names: Iterable[str]) -> list[str]:
    """Returns what an import needs of a repository, its weights last and in one form; empty if it has no weights."""
    top = sorted(name for name in names if "/" not in name and "\\" not in name)
    small = [name for name in top if any(fnmatchcase(name, each) for each in _SMALL_FILES)]
    for form in _WEIGHTS:
        if form[0] in top:
            return small + [name for name in top if any(fnmatchcase(name, each) for each in form)]
    return []


def _fetch(wanted: _Request) -> Origin:
    # Without this, the library looks up a list of programs that may have called it. Read when it is imported.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub import constants

    listed: dict[str, RepoSibling] = {}
    folder = _cached(wanted)
    has_card = folder is not None and (folder / "README.md").exists()
    if folder is not None and has_card and wanted.accepts_cache:
        _log.warning("transduce: %s: from the cache, commit %s", wanted.name, folder.name)
    else:
        try:
            commit, listed = _list(wanted)
        except DownloadError:
            if folder is None:
                raise
            lack = "" if has_card else ", without the README.md that has its licence"
            _log.warning(
                "transduce: %s: the hub did not answer: from the cache, commit %s%s", wanted.name, folder.name, lack
            )
        else:
            folder = _download(wanted, commit, listed)
    names = needed_files(each.name for each in folder.iterdir())
    sums = {name: _require_whole(wanted, folder / name, listed.get(name)) for name in names}
    url = f"{constants.ENDPOINT}/{wanted.name}/tree/{folder.name}"
    return Origin(folder, wanted.name, folder.name, url, sums)


def _cached(wanted: _Request) -> Path | None:
    """Returns the model's folder in the cache, if it has what an import cannot do without."""
    config = _cached_file(wanted, _CONFIG, wanted.revision or None)
    if config is None:
        return None
    names = needed_files(each.name for each in config.parent.iterdir() if each.is_file())
    has_vocabulary = any(fnmatchcase(name, each) for each in _VOCABULARIES for name in names)
    shards = [found for name in names if (found := _SHARD.fullmatch(name))]
    has_shards = all(len(shards) == int(each["count"]) for each in shards)
    return config.parent if names and has_vocabulary and has_shards else None


def _cached_file(wanted: _Request, name: str, revision: str | None) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    with _explained(wanted):
        found = try_to_load_from_cache(wanted.name, name, revision=revision)
    return Path(found) if isinstance(found, str) else None


def _list(wanted: _Request) -> tuple[str, dict[str, "RepoSibling"]]:
    """Returns the commit of a revision, and its files by name, in one request."""
    from huggingface_hub.constants import HF_HUB_ETAG_TIMEOUT as SECONDS

    with _explained(wanted):
        found = _api().model_info(wanted.name, revision=wanted.revision or None, files_metadata=True, timeout=SECONDS)
    listed = {each.rfilename: each for each in found.siblings or ()}
    if found.sha is None or not _COMMIT.fullmatch(found.sha) or _CONFIG not in needed_files(listed):
        raise DownloadError(
            f"{wanted.name}: has no {_CONFIG} with model.safetensors, pytorch_model.bin or model.bin, which an import "
            f"reads. It has {', '.join(sorted(listed)[:8]) or 'no files'}."
        )
    return found.sha, listed


def _download(wanted: _Request, commit: str, listed: Mapping[str, "RepoSibling"]) -> Path:
    """Downloads what the cache lacks of a commit, and returns its folder in the cache."""
    api, names = _api(), needed_files(listed)
    lacking = [name for name in names if _cached_file(wanted, name, commit) is None]
    if lacking:
        _require_space(wanted, sum(listed[name].size or 0 for name in lacking), len(lacking))
    with _explained(wanted):
        paths = [api.hf_hub_download(wanted.name, name, revision=commit) for name in names]
        if not _COMMIT.fullmatch(wanted.revision):  # the cache notes which commit the branch has
            api.hf_hub_download(wanted.name, _CONFIG, revision=wanted.revision or None)
    return Path(paths[0]).parent


def _api() -> "HfApi":
    from huggingface_hub import HfApi

    return HfApi(library_name="transduce", library_version=__version__)


def _require_space(wanted: _Request, num_bytes: int, num_files: int) -> None:
    """Logs how much will be downloaded; raises DownloadError where the disk of the cache has no space for it."""
    from huggingface_hub import constants

    cache = existing = Path(constants.HF_HUB_CACHE)
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    if num_bytes > free:
        raise DownloadError(
            f"{wanted.name}: {_megabytes(num_bytes)} to download, but {cache} has {_megabytes(free)} free. Make room, "
            "or set HF_HOME to a folder on another disk."
        )
    _log.warning(
        "transduce: %s: downloading %d files, %s, from %s to %s",
        *(wanted.name, num_files, _megabytes(num_bytes), constants.ENDPOINT, cache),
    )


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.1f} MB"


def _require_whole(wanted: _Request, path: Path, listed: "RepoSibling | None") -> str:
    """Returns the SHA-256 of a file in the cache; removes the file, and raises, where it is damaged.

    Args:
        wanted: the model that it belongs to.
        path: the file. In most caches it is a link, and large files are named by their SHA-256.
        listed: its digest as the hub gave it; None if no request was made. The library compares sizes.
    """
    target = path.readlink() if path.is_symlink() else path
    digest = target.name if _SHA256.fullmatch(target.name) or _GIT_DIGEST.fullmatch(target.name) else None
    if listed is not None:
        digest = listed.lfs.sha256 if listed.lfs is not None else listed.blob_id
    sha256 = files.sha256(path)
    found = sha256 if digest is None or _SHA256.fullmatch(digest) else _git_digest(path)
    if digest in (None, found):
        return sha256
    for each in (path.resolve(), path.parent / target, path, path.parent / _CONFIG):  # `_cached` needs the last
        each.unlink(missing_ok=True)
    raise DownloadError(
        f"{wanted.name}: {path.name} is damaged: its checksum is not that of the hub. It was removed from the cache; "
        "run the command again."
    )


def _git_digest(path: Path) -> str:
    """Returns the SHA-1 by which Git names a file, as the hub does those that are small."""
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@contextlib.contextmanager
def _explained(wanted: _Request) -> Iterator[None]:
    """Turns the library's errors into a DownloadError that says in one line what to do."""
    from huggingface_hub import constants, errors

    try:
        yield
    # HTTPError is that of `httpx`, whose name depends on the version; `hf_xet` raises RuntimeError.
    except (errors.HTTPError, OSError, ValueError, KeyError, TypeError, RuntimeError) as error:  # type: ignore[attr-defined]
        cause: BaseException = error
        while isinstance(cause, errors.LocalEntryNotFoundError) and cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(cause, OSError) and cause.errno is not None and not isinstance(cause, errors.HfHubHTTPError):
            raise  # a full disk, a cache that may not be written to
        raise DownloadError(_explanation(wanted, cause, constants.ENDPOINT, constants.HF_HUB_CACHE)) from None


def _explanation(wanted: _Request, cause: BaseException, endpoint: str, cache: str) -> str:
    from huggingface_hub import errors

    name, page = wanted.name, f"{endpoint}/{wanted.name}"
    status = cause.response.status_code if isinstance(cause, errors.HfHubHTTPError) else 0
    if isinstance(cause, errors.GatedRepoError):
        return f"{name}: gated. Accept its terms at {page}, and set HF_TOKEN to a token of your account."
    if isinstance(cause, errors.RevisionNotFoundError):
        return f"{name}: has no revision '{wanted.revision or 'main'}'. {page}/tree/main shows those it has."
    if isinstance(cause, errors.RepositoryNotFoundError) or status == 404:
        return (
            f"{name}: no such file or folder here, and {endpoint} has no model of this name. Check the spelling; for a "
            "private one, set HF_TOKEN."
        )
    if status in (401, 403):
        return f"{name}: {endpoint} refuses access ({status}). Set HF_TOKEN to a token that may read {page}."
    if status:
        return f"{name}: {endpoint} answered {status}. Try again later; what is complete stays in {cache}."
    if isinstance(cause, errors.OfflineModeIsEnabled):
        return f"{name}: no such file or folder, not complete in {cache}, and HF_HUB_OFFLINE forbids requests."
    reason = str(cause).strip().partition("\n")[0] or type(cause).__name__
    return (
        f"{name}: no such file or folder, not complete in {cache}, and {endpoint} could not be read: {reason}. "
        "Run the command again; what is complete stays in the cache."
    )
