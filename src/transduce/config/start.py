"""The section `[init]`: the model that training starts from, and what becomes of its words and weights."""

from dataclasses import dataclass, fields

from transduce.config.quantities import CountOrNone, Fraction, refused
from transduce.config.ranges import check_ranges


@dataclass(frozen=True, kw_only=True)
class InitConfig:
    """The model that training starts from, instead of random weights: docs/guides/fine-tuning.md.

    Its tokeniser, its shape and its search settings are inherited. A recipe may set dropout and the search anew.
    """

    model: str = ""  # model folder or run folder; in a recipe: relative to the recipe file; empty: random weights
    words: tuple[str, ...] = ()  # words that become pieces of the vocabulary
    words_file: str = ""  # file of such words, one a line; relative as `model`
    new_words: CountOrNone = 0  # number of frequent words of the corpus to add; only words that are cut into pieces
    learning_rate: Fraction = 3e-4  # highest rate, after train.warmup_steps; replaces eq. 3
    freeze: tuple[str, ...] = ()  # parts that are not trained: "encoder", "decoder.0", "embeddings", …

    def __post_init__(self) -> None:
        check_ranges("init", self)
        for each in fields(self):
            if not self.model and getattr(self, each.name) != each.default:
                raise refused(self, f"init.{each.name}", "left out where init.model names no model to start from")
