"""What training may change in pairs of the corpus as batches are made: `[[train.modifiers]]`.

[[train.modifiers]]
name = "upper_case"
probability = 0.07
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from transduce.config.ranges import Range, require_within, shown
from transduce.errors import ConfigError, suggestion

_PROBABILITIES = Range(0, 1, above=True)


@dataclass(frozen=True)
class ModifierKind:
    """What is known of a modifier.

    Attributes:
        usual: the usual probability: the published one where there is one.
        effect: what a pair becomes.
        aligned: whether it needs to know which words translate which.
    """

    usual: float
    effect: str
    aligned: bool = False


# In the order in which they are applied to a line. The functions are in `transduce.data.modifiers`.
MODIFIERS: dict[str, ModifierKind] = {
    "merge": ModifierKind(0.03, "2 to 4 pairs become one line"),
    "copies": ModifierKind(0.01, "the source becomes a copy of the target"),
    "noise": ModifierKind(0.0005, "both sides become the same random strings"),
    "upper_case": ModifierKind(0.07, "both sides in capitals, if the script has them"),
    "title_case": ModifierKind(0.05, "each word of both sides begins with a capital"),
    "terms": ModifierKind(0.1, "words of the source are followed by their translations", aligned=True),
    "inline_tags": ModifierKind(0.005, "the same tags or placeholder at a phrase and its translation", aligned=True),
    "items": ModifierKind(0.02, "a number, code, address or emoji is added to both sides"),
    "punctuation": ModifierKind(0.2, "no final sign; or other quotes, dashes, spaces in the source"),
    "typos": ModifierKind(0.05, "the source is misspelled, in nine ways"),
}


@dataclass(frozen=True, kw_only=True)
class ModifierConfig:
    """A change of training pairs: an entry of `[[train.modifiers]]`."""

    name: str = ""  # what is changed: see docs/guides/robustness.md
    probability: Annotated[float, _PROBABILITIES] = 0.0  # of each line in each epoch; it must be given


def require_modifiers(modifiers: Sequence[ModifierConfig]) -> None:
    """Raises ConfigError where a modifier is unknown, occurs twice, or has no probability."""
    names = [each.name for each in modifiers]
    for name in names:
        if name not in MODIFIERS:
            problem = f"unknown modifier '{name}'.{suggestion(name, MODIFIERS)}" if name else "an entry has no name."
            raise ConfigError(f"train.modifiers: {problem} There are: {', '.join(MODIFIERS)}.")
        if names.count(name) > 1:
            raise ConfigError(f"train.modifiers: '{name}' occurs twice. Leave out one of them.")
    for each in modifiers:
        key = f"train.modifiers: {each.name}: probability"
        if each.probability == 0:
            usual = MODIFIERS[each.name].usual
            raise ConfigError(f"{key} = {shown(each.probability)}: must be {_PROBABILITIES}; usual is {usual:g}.")
        require_within(each.probability, key, float, _PROBABILITIES)
