"""Keys of clients: a TOML file with the hash of each.

    [[keys]]
    name = "weblate"
    sha256 = "5e88…"                  # of the secret; `transduce serve --add-key weblate` writes it
    characters_per_minute = 60000     # 0 or left out: no limit
    characters_per_day = 1000000
    priority = "bulk"                 # its requests wait for those of interactive keys

The secrets are made here: 192 random bits. So one round of SHA-256 protects them. A slow hash and a salt protect
passwords, which can be guessed from a list; nobody can try 2^192 secrets. A slow hash would cost every request time,
and would let anyone keep the service busy with wrong keys.
"""

import contextlib
import hashlib
import hmac
import json
import os
import re
import secrets
import stat
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from transduce.config.loading import convert
from transduce.errors import ConfigError, suggestion
from transduce.files import atomic_path, lock
from transduce.serve.requests import Priority

_SECRET_BYTES = 24
_MOST_CHARACTERS = 10**15
_POLL_SECONDS = 0.01
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")


@dataclass(frozen=True, slots=True)
class Key:
    """Who a client is, and what it may do."""

    name: str = ""  # "": a client without a key
    sha256: str = ""  # of the secret, in hexadecimal digits
    characters_per_minute: int = 0  # 0: no limit
    characters_per_day: int = 0
    priority: str = "interactive"

    def __post_init__(self) -> None:
        """Checks the values."""
        if (self.name or self.sha256) and not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"name = '{self.name[:100]}': must be letters, digits and ._@- of ASCII, at most 100, a letter or "
                "digit first."
            )
        if self.name and not _DIGEST.fullmatch(self.sha256):
            raise ConfigError("sha256: must be 64 hexadecimal digits in lower case, the SHA-256 of the secret.")
        for name in ("characters_per_minute", "characters_per_day"):
            if not 0 <= getattr(self, name) <= _MOST_CHARACTERS:
                raise ConfigError(f"{name}: must be from 0 (no limit) to {_MOST_CHARACTERS:,}.")
        if self.priority.upper() not in Priority.__members__:
            choices = ", ".join(f"'{each.name.lower()}'" for each in Priority)
            raise ConfigError(f"priority = '{self.priority[:100]}': must be one of {choices}.")

    @property
    def request_priority(self) -> Priority:
        """The priority of this key's requests."""
        return Priority[self.priority.upper()]


ANONYMOUS = Key()


class KeyRing:
    """The keys of a file; requests are answered from memory until `reload`."""

    def __init__(self, path: Path) -> None:
        """Reads the file.

        Raises:
            ConfigError: it is missing or malformed; the message names it.
        """
        self.path = path
        self._keys = read_keys(path)

    def __len__(self) -> int:
        return len(self._keys)

    def reload(self) -> None:
        """Reads the file again; where that raises ConfigError, the keys stay what they were."""
        self._keys = read_keys(self.path)

    def named(self, name: str) -> Key | None:
        """Returns the key of a name, or None."""
        return next((key for key in self._keys if key.name == name), None)

    def identify(self, secret: str) -> Key | None:
        """Returns the key of a secret, or None.

        The time it takes does not depend on the key, nor on how much of it was right: all are compared, each in
        constant time.
        """
        digest = digest_of(secret)
        found = None
        for key in self._keys:
            if hmac.compare_digest(key.sha256, digest):
                found = key
        return found


def digest_of(secret: str) -> str:
    """Returns the SHA-256 of a secret in hexadecimal digits."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def read_keys(path: Path) -> list[Key]:
    """Reads a file of keys.

    Raises:
        ConfigError: it is missing or not TOML, or an entry is wrong; the message names file and entry.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such file of keys. 'transduce serve --keys {path} --add-key NAME' makes it."
        ) from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise ConfigError(f"{path}: not a TOML file of keys: {error}") from None
    entries = values.pop("keys", [])
    if values:
        raise ConfigError(f"{path}: unknown key '{next(iter(values))}'. Each key is an entry [[keys]].")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigError(f"{path}: 'keys' must be a list of tables: write [[keys]] above each entry.")
    keys = [_key(entry, f"{path}, entry {number}") for number, entry in enumerate(entries, start=1)]
    _require_different(path, "name", [key.name for key in keys])
    _require_different(path, "sha256", [key.sha256 for key in keys])
    return keys


def _key(entry: dict[str, Any], where: str) -> Key:
    known = {field.name: field.type for field in fields(Key)}
    try:
        for name in entry:
            if name not in known:
                raise ConfigError(f"unknown key '{name}'.{suggestion(name, known)}")
        missing = [name for name in ("name", "sha256") if not entry.get(name)]
        if missing:
            raise ConfigError(f"'{missing[0]}' is missing.")
        return Key(**{name: convert(value, known[name], name) for name, value in entry.items()})
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _require_different(path: Path, name: str, values: Sequence[str]) -> None:
    seen: set[str] = set()
    for number, value in enumerate(values, start=1):
        if value in seen:
            raise ConfigError(f"{path}, entry {number}: another entry has the same {name} already.")
        seen.add(value)


def add_key(path: Path, key_name: str, *, per_minute: int = 0, per_day: int = 0, bulk: bool = False) -> str:
    """Adds a key to a file, and makes the file, for its owner only, where there is none; else it keeps its owner.

    Returns:
        The secret. It is written nowhere: whoever loses it needs a new key.

    Raises:
        ConfigError: the file is malformed, or has a key of this name.
    """
    path = path.resolve()  # a link stays one
    secret = secrets.token_hex(_SECRET_BYTES)
    key = Key(key_name, digest_of(secret), per_minute, per_day, "bulk" if bulk else "interactive")
    given = {name: value for name, value in asdict(key).items() if value != getattr(ANONYMOUS, name)}
    entry = "".join(f"{name} = {json.dumps(value)}\n" for name, value in given.items())  # TOML writes these alike
    with _alone_in(path.parent):
        before = ""
        if path.exists():
            if any(key.name == key_name for key in read_keys(path)):
                raise ConfigError(f"{path}: has a key '{key_name}' already. To replace it, delete its entry first.")
            before = path.read_text(encoding="utf-8")
        if before and not before.endswith("\n"):
            before += "\n"
        gap = "\n" if before else ""
        with atomic_path(path, private=True) as temporary:
            temporary.write_text(f"{before}{gap}[[keys]]\n{entry}", encoding="utf-8")
            if path.exists():  # the service may be another user than who adds the key
                found = path.stat()
                with contextlib.suppress(PermissionError):
                    os.chown(temporary, found.st_uid, found.st_gid)
                temporary.chmod(stat.S_IMODE(found.st_mode))
    return secret


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Waits until no other process adds a key to a file of this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)  # the file itself is replaced each time
    try:
        while not lock(descriptor, without_locks=True):
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)
