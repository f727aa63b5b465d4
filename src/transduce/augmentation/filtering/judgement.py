"""Which pairs of a corpus are dropped, by which rule: the facts about each pair, in some 70 bytes of memory.

The corpus is read once to learn what is usual (`profile.py`), once to judge each pair, and once more to write what is
kept (`writing.py`). Between the last two, what depends on other pairs is decided: alignment and duplicates.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transduce.alignment.slips import AFTER, ALIGNED, BEFORE, state_probabilities
from transduce.augmentation.filtering.near_duplicates import band_keys
from transduce.augmentation.filtering.profile import CorpusProfile
from transduce.augmentation.filtering.text_rules import PairBlock, check_text
from transduce.config.filter_options import RULES, FilterOptions
from transduce.data.corpus import Part, Reader, read_chunks
from transduce.data.duplicates import find_repeats

KEPT = 0
RULE_NUMBERS = {rule: number for number, rule in enumerate(RULES, start=1)}  # in `Judgement.rules`; 0: kept
_ALIGNMENT_REASONS = {
    BEFORE: "the source is aligned with the previous target line",
    AFTER: "the source is aligned with the next target line",
}


@dataclass(eq=False)
class Judgement:
    """The facts about each of N pairs.

    Attributes:
        part_sizes: pairs in each part of the corpus.
        rules: number of the rule that drops each pair (`RULE_NUMBERS`), or 0, (N,).
        ratios: log of target length / source length, against what is usual, (N,).
        log_odds: that source line i and target line i - 1, i, i + 1 are translations, (3, N); N is 0 without a model.
        states: probabilities of the alignment states, (N, 4); N is 0 without a model.
        keys: what near-duplicates have in common (`near_duplicates.py`), (N, bands); N is 0 where the rule is off.
        repeats: indices of the exact duplicates, in order.
        repeated: the pair that each of them repeats.
        cross_entropy: dual conditional cross-entropy, (N,); NaN where it was not computed; N is 0 without models.
        readers: of each part that has pairs, by its index: they know where a pair is.
    """

    part_sizes: list[int]
    rules: NDArray[np.uint8]
    ratios: NDArray[np.float16]
    log_odds: NDArray[np.float16]
    states: NDArray[np.float16]
    keys: NDArray[np.uint32]
    repeats: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    repeated: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    cross_entropy: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    readers: dict[int, Reader] = field(default_factory=dict)

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which pairs no rule has dropped so far."""
        return np.asarray(self.rules == KEPT)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The index of the first pair of each part, and the number of all pairs."""
        return np.concatenate([[0], np.cumsum(self.part_sizes)]).astype(np.int64)

    def location(self, pair: int) -> str:
        """Returns `file:line` or `file: unit N` of a pair, without the folder."""
        part = int(np.searchsorted(self.starts, pair, side="right")) - 1
        location = self.readers[part].location(pair - int(self.starts[part]) + 1)
        return replace(location, files=(Path(location.files[0].name), Path(location.files[1].name))).shown(0)

    def drop(self, pairs: NDArray[np.int64] | NDArray[np.bool_], rule: str) -> None:
        """Drops pairs by a rule; those that are dropped already keep theirs."""
        chosen = np.zeros(len(self.rules), dtype=bool)
        chosen[pairs] = True
        self.rules[chosen & self.kept] = RULE_NUMBERS[rule]

    def alignment_reason(self, pair: int) -> str:
        """Returns why a pair is dropped as misaligned."""
        state = int(np.argmax(self.states[pair]))
        sure = f"probability of being aligned: {float(self.states[pair, ALIGNED]):.2f}"
        return f"{_ALIGNMENT_REASONS.get(state, 'the sides are not translations of each other')} ({sure})"

    def original(self, pair: int) -> int:
        """Returns the pair that an exact duplicate repeats."""
        return int(self.repeated[np.searchsorted(self.repeats, pair)])


def judge(parts: Sequence[Part], profile: CorpusProfile, options: FilterOptions, *, progress: bool) -> Judgement:
    """Reads the corpus, and returns which pairs are dropped, but for near-duplicates and what models decide."""
    part_sizes = [0] * len(parts)
    model = profile.alignment if options.applies("alignment") else None
    rules, ratios, hashes = [np.zeros(0, np.uint8)], [np.zeros(0, np.float16)], [np.zeros(0, np.int64)]
    odds, keys = [np.zeros((3, 0), np.float16)], []
    readers: dict[int, Reader] = {}
    for chunk in read_chunks(parts, "judging pairs", progress=progress):
        readers[chunk.part] = chunk.reader
        block = PairBlock(chunk.pairs, profile)
        part_sizes[chunk.part] += len(chunk.pairs)
        broken = np.zeros(len(chunk.pairs), dtype=np.uint8)
        for index, (rule, _) in check_text(block, options).items():
            broken[index] = RULE_NUMBERS[rule]
        rules.append(broken)
        ratios.append(block.ratios.astype(np.float16))
        if model is not None:
            odds.append(model.log_odds(*block.sides, chunk.start).astype(np.float16))
        if options.applies("duplicate"):
            hashes.append(np.fromiter(map(hash, chunk.pairs), dtype=np.int64, count=len(chunk.pairs)))
        if options.applies("near-duplicate"):
            keys.append(band_keys(block.sides[0].tokens, block.sides[1].tokens))
    log_odds = np.concatenate(odds, axis=1)
    states = np.zeros((0, 4), dtype=np.float16)
    if model is not None:
        by_part = np.split(log_odds, np.cumsum(part_sizes)[:-1], axis=1)
        states = np.concatenate([state_probabilities(each, model.noise) for each in by_part]).astype(np.float16)
    judgement = Judgement(
        part_sizes=part_sizes,
        rules=np.concatenate(rules),
        ratios=np.concatenate(ratios),
        log_odds=log_odds,
        states=states,
        keys=np.concatenate(keys) if keys else np.zeros((0, 0), dtype=np.uint32),
        readers=readers,
    )
    if model is not None:
        judgement.drop(states[:, ALIGNED] < options.min_alignment, "alignment")
    if options.applies("duplicate"):
        judgement.repeats, judgement.repeated = find_repeats(np.concatenate(hashes), judgement.kept)
        judgement.drop(judgement.repeats, "duplicate")
    return judgement
