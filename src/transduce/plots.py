"""Pictures by matplotlib, which is an extra: without a screen, and written whole or not at all."""

from pathlib import Path
from typing import Any

from transduce.errors import MissingDependencyError
from transduce.files import atomic_path


def new_figure(width_inches: float, height_inches: float) -> Any:
    """Returns an empty matplotlib figure.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise MissingDependencyError(
            "Pictures need matplotlib, which is not installed: pip install 'transduce[figures]'"
        ) from None
    return Figure(figsize=(width_inches, height_inches), layout="constrained")


def save_figure(figure: Any, path: Path) -> None:
    """Writes a figure, in the format that the file's name ends in, atomically."""
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], dpi=150)
