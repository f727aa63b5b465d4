"""The section `[init]`: the model that training starts from, and what becomes of its words and weights."""

from dataclasses import dataclass, fields
from typing import Annotated

from transduce.config.ranges import Range, check_ranges, shown
from transduce.errors import ConfigError

Words = Annotated[int, Range(0, 1_000_000_000)]
LearningRate = Annotated[float, Range(0, 1, above=True)]


@dataclass(frozen=True, kw_only=True)
class InitConfig:
    """The model that training starts from, instead of random weights: docs/guides/fine-tuning.md.

    Its tokeniser, its shape and its search settings are inherited. A recipe may set dropout and the search anew.
    """

    model: str = ""  # model folder or run folder; in a recipe: relative to the recipe file; empty: random weights
    words: tuple[str, ...] = ()  # words that become pieces of the vocabulary
    words_file: str = ""  # file of such words, one a line; relative as `model`
    new_words: Words = 0  # number of frequent words of the corpus to add; only words that are cut into pieces
    learning_rate: LearningRate = 3e-4  # highest rate, after train.warmup_steps; replaces eq. 3
    freeze: tuple[str, ...] = ()  # parts that are not trained: "encoder", "decoder.0", "embeddings", …

    def __post_init__(self) -> None:
        check_ranges("init", self)
        for each in fields(self):
            value = getattr(self, each.name)
            if not self.model and value != each.default:
                written = shown([*value] if isinstance(value, tuple) else value)
                demand = "left out where init.model names no model to start from"
                raise ConfigError(f"init.{each.name} = {written}: must be {demand}.")
