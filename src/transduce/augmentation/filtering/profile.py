"""What the filter learns about a corpus from a sample, before it judges any pair."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.alignment.line_pairs import MIN_PAIRS, AlignmentModel, Side
from transduce.alignment.vocabulary import Vocabulary
from transduce.alignment.windows import WindowSampler
from transduce.alignment.words import joined, tokens_of
from transduce.augmentation.filtering.damaged_text import LetterOrder, ends_open
from transduce.augmentation.filtering.unfamiliar_words import UnfamiliarWords
from transduce.data.corpus import CorpusFiles, Part, read_chunks
from transduce.data.progress import elapsed_time
from transduce.data.swapped_sides import compare_sides
from transduce.data.wrong_language import SideLanguages
from transduce.errors import ConfigError, DataError

LENGTH_SLACK = 10.0  # characters added to both lengths of a ratio, since short lines vary more
_MAX_WINDOWS = 2048
_MAX_OPEN = 0.05  # share of lines that end openly although the other side does not
_MAX_WORDS = 50_000  # of a vocabulary


@dataclass(frozen=True, eq=False)
class CorpusProfile:
    """A corpus as its sample shows it.

    Attributes:
        codes: the languages of the two sides; "" where unknown.
        usual_ratio: the median of target length / source length, in characters.
        languages: what the letters of the two sides look like; None if they cannot be distinguished.
        unfamiliar: which words each side uses; None if there are too few pairs.
        alignment: which words translate which; None if there are too few pairs, or they do not fit at all.
        notes: what could not be learned, in words.
        letters: which letters follow each other on each side; None if there are too few pairs.
        closes: whether each side ends its lines as the other does, as a rule.
    """

    codes: tuple[str, str]
    usual_ratio: float
    languages: SideLanguages | None
    unfamiliar: tuple[UnfamiliarWords, UnfamiliarWords] | None
    alignment: AlignmentModel | None
    notes: tuple[str, ...]
    letters: tuple[LetterOrder, LetterOrder] | None = None
    closes: tuple[bool, bool] = (True, True)


def side_of(lines: Sequence[str]) -> Side:
    """Returns lines as the alignment model reads them."""
    return Side(tokens_of(lines), np.fromiter(map(len, lines), dtype=np.int64, count=len(lines)))


def learn_profile(parts: Sequence[Part], *, progress: bool) -> CorpusProfile:
    """Reads the whole corpus once, and learns from windows of it.

    Raises:
        ConfigError: the parts have several pairs of languages.
        DataError: a file is damaged, two files differ in their number of lines, or the sides of a part are swapped.
    """
    codes = require_one_pair(parts)
    sides = compare_sides(CorpusFiles(tuple(parts), {}, {}))[codes]
    if sides.faults:
        raise DataError(f"{'; '.join(sides.faults.values())}. Name the files of each part in the order source, target.")
    sampler = WindowSampler(_MAX_WINDOWS)
    for chunk in read_chunks(parts, "reading a sample", progress=progress):
        sampler.add(chunk.pairs)
    with elapsed_time("learning which words translate which", shown=progress):
        return _learn(sampler, sides.languages, codes)


def require_one_pair(parts: Sequence[Part]) -> tuple[str, str]:
    """Returns the languages of the parts, "" where they are unknown.

    Raises:
        ConfigError: there are several pairs of languages.
    """
    pairs = list(dict.fromkeys(part.languages for part in parts))
    if len(pairs) > 1:
        names = ", ".join("-".join(code or "?" for code in pair) for pair in pairs)
        raise ConfigError(
            f"The corpora have several pairs of languages: {names}. What is usual is learned for one pair at a time: "
            "choose it with --languages SOURCE TARGET."
        )
    return pairs[0]


def _learn(sampler: WindowSampler, languages: SideLanguages | None, codes: tuple[str, str]) -> CorpusProfile:
    windows = [(side_of(source), side_of(target)) for source, target in sampler.windows.values()]
    notes = (
        [] if languages else ["the letters of the two sides are too similar, or too few, to distinguish the languages"]
    )
    lines = [[line for window in sampler.windows.values() for line in window[side]] for side in (0, 1)]
    ends = [ends_open(each) for each in lines]
    closes = (_closes(ends[0], ends[1]), _closes(ends[1], ends[0]))
    lengths = [np.concatenate([np.zeros(0), *(window[side].lengths for window in windows)]) for side in (0, 1)]
    ratios = (lengths[1] + LENGTH_SLACK) / (lengths[0] + LENGTH_SLACK)
    usual = float(np.median(ratios)) if len(ratios) else 1.0
    if len(ratios) < MIN_PAIRS:
        notes.append(f"fewer than {MIN_PAIRS:,} pairs: alignment and third languages are not checked")
        return CorpusProfile(codes, usual, languages, None, None, tuple(notes), closes=closes)
    texts = [joined([window[side].tokens for window in windows]) for side in (0, 1)]
    words = [Vocabulary.of(text, _MAX_WORDS) for text in texts]
    unfamiliar = (UnfamiliarWords.learn(words[0], *texts), UnfamiliarWords.learn(words[1], *texts[::-1]))
    letters = (LetterOrder.learn(lines[0]), LetterOrder.learn(lines[1]))
    alignment = AlignmentModel.learn(windows, sampler.stride)
    if alignment is None:
        notes.append(
            "lines fit their partners no better than lines from elsewhere: alignment is not checked. Is the corpus "
            "aligned at all? 'transduce prepare --check-only' examines that"
        )
    return CorpusProfile(codes, usual, languages, unfamiliar, alignment, tuple(notes), letters, closes)


def _closes(own: NDArray[np.int8], other: NDArray[np.int8]) -> bool:
    """Returns whether a side ends its lines as the other does, as a rule; `ends_open` says how each line ends."""
    return not len(own) or float(np.mean((own == 1) & (other == -1))) <= _MAX_OPEN
