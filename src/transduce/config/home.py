"""The user's folder in names of files, which may begin with "~"."""

import contextlib
from pathlib import Path


def expanded(name: str) -> Path:
    """Returns the path with the user's folder in place of "~"; "~$old.txt" is no user's, and stays as it is."""
    path = Path(name)
    with contextlib.suppress(RuntimeError):  # there is no such user
        path = path.expanduser()
    return path
