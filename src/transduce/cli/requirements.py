"""Checks that the extra that a command needs is installed."""

from collections.abc import Sequence
from importlib.util import find_spec

from transduce.errors import MissingDependencyError, install_command


def require(extra: str, modules: Sequence[str]) -> None:
    """Raises MissingDependencyError, naming the extra to install, if one of `modules` is not installed."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise MissingDependencyError(
            f"{', '.join(missing)} not installed. This command needs: {install_command(extra)}"
        )


def require_training() -> None:
    """Raises MissingDependencyError if the extra for training is not installed."""
    require("train", ["torch", "pyarrow"])
