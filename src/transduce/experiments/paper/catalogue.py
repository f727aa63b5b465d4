"""All experiments by name: what `transduce paper NAME` runs."""

from collections.abc import Callable
from typing import Any

from transduce.experiments.paper import figures, positions, scaling, table1, table2, table3, table4
from transduce.experiments.paper.experiment import Experiment, Options

# What makes each experiment, and the class of the options that it takes.
EXPERIMENTS: dict[str, tuple[Callable[[Any], Experiment], type[Options]]] = {
    "table1": (table1.experiment, Options),
    "table2": (table2.experiment, table2.Table2Options),
    "table3": (table3.experiment, table3.Table3Options),
    "table4": (table4.experiment, table4.Table4Options),
    "figures": (figures.experiment, figures.FiguresOptions),
    "positions": (positions.experiment, Options),
    "scaling": (scaling.experiment, Options),
}
