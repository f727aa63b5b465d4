"""All experiments by name: what `transduce paper NAME` runs."""

from collections.abc import Callable

from transduce.paper import positions, scaling, table1
from transduce.paper.experiment import Experiment

EXPERIMENTS: dict[str, Callable[[str], Experiment]] = {
    "table1": table1.experiment,
    "positions": positions.experiment,
    "scaling": scaling.experiment,
}
