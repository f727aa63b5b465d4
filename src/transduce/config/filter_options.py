"""The rules of the corpus filter, and the options that set them."""

from dataclasses import dataclass
from typing import Annotated

from transduce.config.ranges import Flag, Range, check_ranges
from transduce.errors import ConfigError, suggestion

# What each rule drops. They are applied in this order: a pair is dropped by the first rule that it breaks.
RULES = {
    "empty": "a side without text",
    "encoding": "bytes that are not UTF-8, text in a wrong encoding, letters lost to '?', hidden line breaks",
    "markup": "tags and HTML entities",
    "length": "a side with too many words",
    "junk": "a side of random letters, or of signs only",
    "repetition": "a side that repeats a phrase at once, where the other does not",
    "ratio": "sides of very different length",
    "copy": "a target that repeats its source",
    "swapped": "source and target swapped",
    "language": "a side in another language",
    "truncated": "a side that ends within a sentence, and is short",
    "numbers": "sides with different numbers",
    "alignment": "sides that are not translations of each other",
    "duplicate": "a pair that repeats an earlier one",
    "cross-entropy": "a pair that two models score as improbable",
    "near-duplicate": "a pair that repeats an earlier one except for case, punctuation, numbers and small edits",
}


@dataclass(frozen=True, kw_only=True)
class FilterOptions:
    """What the filter drops.

    Attributes:
        off: names of `RULES` that are not applied.
    """

    off: tuple[str, ...] = ()
    max_words: Annotated[int, Range(1, 100_000), Flag("rules", "N", "length: largest number of words of a side")] = 200
    max_ratio: Annotated[
        float,
        Range(1, 1000, above=True),
        Flag("rules", "R", "ratio: greatest factor between a pair's length ratio and the usual one of the corpus"),
    ] = 3.0
    max_copied: Annotated[
        float,
        Range(0, 1, above=True),
        Flag(
            "rules", "S", "copy: share of the target's words that are also in the source, from which a pair is dropped"
        ),
    ] = 0.8
    min_alignment: Annotated[
        float, Range(0, 1), Flag("rules", "P", "alignment: smallest probability that the pair is aligned")
    ] = 0.5
    max_cross_entropy: Annotated[
        float,
        Range(0, 1000),
        Flag(
            "rules", "X", "cross-entropy: largest dual conditional cross-entropy; 0: four deviations above the median"
        ),
    ] = 0.0
    min_similarity: Annotated[
        float,
        Range(0.5, 1),
        Flag("rules", "S", "near-duplicate: share of words in common, from which a pair is dropped"),
    ] = 0.8

    def __post_init__(self) -> None:
        check_ranges("filter", self)
        for name in self.off:
            if name not in RULES:
                raise ConfigError(
                    f"There is no rule '{name}'.{suggestion(name, RULES)} Use some of: {', '.join(RULES)}."
                )

    def applies(self, rule: str) -> bool:
        """Returns whether a rule is applied."""
        return rule not in self.off
