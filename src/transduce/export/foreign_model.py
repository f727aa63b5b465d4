"""Another system's model, read as one of ours."""

from collections.abc import Callable
from dataclasses import dataclass

from transduce.config import Config
from transduce.config.aligning_heads import AligningHeads
from transduce.config.terms import Terms
from transduce.engines.shortlist.table import Shortlist
from transduce.export.checkpoint_files import Arrays
from transduce.export.foreign_vocabulary import ForeignTokenizer
from transduce.export.system import System


@dataclass(frozen=True)
class ForeignModel:
    """Another system's model, read as one of ours.

    Attributes:
        config: the shape of the model, its languages, and how it searches.
        weights: by our names, float32.
        tokenizer: of both sides, and their id of each of our ids.
        system: loads the original in its own system, for a comparison; None where that is not installed.
        heads: those that align words; None: they are looked for.
        shortlist: what its outputs may consist of; None where it has none.
        terms: its licence files and its card; None: they are files of its folder.
    """

    config: Config
    weights: Arrays
    tokenizer: ForeignTokenizer
    system: Callable[[], System] | None = None
    heads: AligningHeads | None = None
    shortlist: Shortlist | None = None
    terms: Terms | None = None
