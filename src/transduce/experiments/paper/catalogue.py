"""All experiments by name: what `transduce paper NAME` runs."""

from collections.abc import Callable

from transduce.experiments.paper import figures, positions, scaling, table1, table2, table3, table4
from transduce.experiments.paper.experiment import Experiment

# Each is given the scale; those that train or look into models, `output` and what their options say as well.
EXPERIMENTS: dict[str, Callable[..., Experiment]] = {
    "table1": table1.experiment,
    "table2": table2.experiment,
    "table3": table3.experiment,
    "table4": table4.experiment,
    "figures": figures.experiment,
    "positions": positions.experiment,
    "scaling": scaling.experiment,
}
