"""Where files are kept that can be made again: the user's cache, and folders of others that may be read-only."""

import os
from pathlib import Path


def user_cache(kind: str) -> Path | None:
    """Returns the folder of this user's files of a kind, such as "ctranslate2", or None if the user has no home."""
    if cache := os.environ.get("XDG_CACHE_HOME"):
        return Path(cache) / "transduce" / kind
    try:
        return Path.home() / ".cache" / "transduce" / kind
    except RuntimeError:
        return None


def is_writable(folder: Path) -> bool:
    """Makes a folder if necessary, and returns whether files can be made in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # read-only, or somebody else's
        return False
    # A link in a model folder from elsewhere could lead to any place: nothing may be written or deleted there.
    return os.access(folder, os.W_OK | os.X_OK) and not folder.is_symlink()
