"""Python's zstd module: a part of Python from 3.14 on, and a package before; only .zst files need it."""

import sys
from typing import TYPE_CHECKING, Any

from transduce.errors import MissingDependencyError


class _Zstd:
    """Python's zstd module, imported at first use."""

    def __getattr__(self, name: str) -> Any:
        try:
            if sys.version_info >= (3, 14):
                from compression import zstd
            else:
                from backports import zstd
        except ModuleNotFoundError:
            raise MissingDependencyError(
                "backports.zstd is not installed. A .zst file needs it: pip install backports.zstd"
            ) from None
        return getattr(zstd, name)


if TYPE_CHECKING:
    from backports import zstd as zstd
else:
    zstd = _Zstd()
