"""What a user asks for around the search."""

from dataclasses import dataclass, replace
from typing import Literal, Self, get_args

from transduce.errors import ConfigError, suggestion

Split = Literal["auto", "always", "never"]
Markup = Literal["none", "html", "placeholders"]
SPLIT_KINDS: tuple[Split, ...] = get_args(Split)
MARKUP_KINDS: tuple[Markup, ...] = get_args(Markup)


@dataclass(frozen=True, kw_only=True)
class Handling:
    """How lines are handled that are more than a sentence of plain text."""

    split: Split = "auto"  # into sentences: those longer than the model reads, all, or none (they are cut short)
    markup: Markup = "none"  # what is kept as it is: nothing, tags and entities and placeholders, or placeholders only
    guard: bool = False  # whether an output that loops or copies the source is searched for again
    confidence: bool = False  # whether translations carry a confidence and the probability of each word
    language: str = ""  # code of the source language, for the sentence splitter; "": the model's

    def __post_init__(self) -> None:
        for key, value, known in (("split", self.split, SPLIT_KINDS), ("markup", self.markup, MARKUP_KINDS)):
            if value not in known:
                raise ConfigError(f"{key} = '{value}': must be {', '.join(known)}.{suggestion(value, known)}")

    @property
    def is_of_every_line(self) -> bool:
        """Whether it may take any line apart or search for it again, and not just those that are too long."""
        return self.markup != "none" or self.guard or self.split == "always"

    def of_whole_lines(self) -> Self:
        """Returns what is left of it where each line is one search, with a prefix or terms of its own: nothing is cut.

        Raises:
            ConfigError: it asks for what works on parts of lines, or searches again.
        """
        asked = {"markup": self.markup != "none", "guard": self.guard, "split = 'always'": self.split == "always"}
        for name in (name for name, is_asked in asked.items() if is_asked):
            raise ConfigError(f"{name} does not go with prefixes or required terms by line, which are of whole lines.")
        return replace(self, split="never")
