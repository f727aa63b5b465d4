"""The grids that come with the package, by name."""

from pathlib import Path

from transduce.errors import ConfigError, suggestion
from transduce.experiments.ablation.grid import Grid, Row, load_grid, unchanging
from transduce.experiments.ablation.table3 import TABLE3


def _smoothing(epsilon: float, perplexity: float, bleu: float) -> Row:
    change = unchanging({"train": {"label_smoothing": epsilon}})
    return Row(f"smoothing-{epsilon}", change, {"perplexity": perplexity, "bleu": bleu})


LABEL_SMOOTHING = Grid(
    "label-smoothing", (_smoothing(0.0, 4.67, 25.3), _smoothing(0.1, 4.92, 25.8), _smoothing(0.2, 5.47, 25.7))
)

BUILT_IN = {grid.name: grid for grid in (TABLE3, LABEL_SMOOTHING)}


def find_grid(name: str) -> Grid:
    """Returns the built-in grid of that name, or that of the file, whose name ends in `.toml`.

    Raises:
        ConfigError: there is no such grid, or the file is not one.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name.endswith(".toml"):
        return load_grid(Path(name))
    known = ", ".join(BUILT_IN)
    raise ConfigError(f"no grid is called '{name}'.{suggestion(name, BUILT_IN)} There are {known}, and files (.toml).")
