"""How likely two lines are translations of each other, by what a corpus itself shows: no other dictionary is needed.

There are three kinds of evidence, each weak alone. For a window of n lines a side, each gives a matrix of n × n scores,
source line i against target line j:

- *words*: how much likelier the words of j are given those of i than in general, by a dictionary that IBM model 1
  (Brown et al. 1993) learned from other windows;
- *spelling*: the cosine between the letters and letter trigrams of the two, with more weight for rare ones: numbers,
  names, punctuation, cognates;
- *length*: how close the ratio of the two lengths is to the median.

Rows and columns are centred, and each matrix is scaled to unit variance. A score is then in standard deviations from
random pairings of the same lines: about 0 for unrelated lines, 2 to 4 for translations.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]
Window = tuple[list[str], list[str]]  # consecutive lines of the source, and of the target
Vocabulary = dict[str, int]  # the number of each token

_MAX_TOKENS = 40  # used of a line, to bound the time
_MAX_CHARACTERS = 300
_NUM_EM_STEPS = 4
_MIN_PROBABILITY = 0.02  # of a translation in the dictionary
_SMOOTHING = 0.1  # weight of a word's overall frequency
_TRIGRAM_BITS = 12
_MIN_LINES = 8  # of a window; scores of fewer mean nothing

# Scripts without spaces between words: there, pairs of neighbouring characters replace words.
_UNSPACED = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_TOKEN = re.compile(f"[{_UNSPACED}]{{1,2}}|[^\\W{_UNSPACED}]+|[^\\w\\s]")


def tokens(line: str) -> list[str]:
    """Returns the distinct words and signs of a line, up to a limit."""
    return list(dict.fromkeys(_TOKEN.findall(line[:_MAX_CHARACTERS].lower())[:_MAX_TOKENS]))


def number_tokens(lines: Iterable[Sequence[str]]) -> Vocabulary:
    """Numbers the tokens of one side that occur at least twice: nothing can be learned from others."""
    counts = Counter(chain.from_iterable(lines))
    return {token: i for i, token in enumerate(t for t, count in counts.items() if count > 1)}


@dataclass(frozen=True)
class NumberedWindow:
    """A window as text, and as the numbers of its tokens."""

    text: Window
    source: list[list[int]]
    target: list[list[int]]


@dataclass(frozen=True)
class Dictionary:
    """P(target token | source token).

    Attributes:
        starts: the translations of source token s are at `starts[s]:starts[s + 1]` of the next two.
        targets: the target tokens.
        probabilities: their probabilities.
        shares: the frequency of each target token among all, as a share.
    """

    starts: NDArray[np.int64]
    targets: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    shares: NDArray[np.float64]


def learn(pairs: Sequence[tuple[list[int], list[int]]], sizes: tuple[int, int]) -> Dictionary:
    """Learns a dictionary from pairs of token numbers by IBM model 1; `sizes` are the sizes of the vocabularies."""
    num_sources, num_targets = sizes
    source_of, target_of, position_of = _cells(pairs)
    frequencies = np.bincount(target_of, minlength=num_targets) + 0.5
    shares: NDArray[np.float64] = np.asarray(frequencies / max(1.0, frequencies.sum()), dtype=np.float64)
    keys, entry_of = np.unique(source_of * num_targets + target_of, return_inverse=True)
    sources, targets = keys // max(1, num_targets), keys % max(1, num_targets)
    probabilities = np.ones(len(keys))
    for _ in range(_NUM_EM_STEPS):
        cells = probabilities[entry_of]
        # The last term is for target words that translate no source word.
        cells /= np.bincount(position_of, cells)[position_of] + shares[target_of]
        counts = np.bincount(entry_of, cells, minlength=len(keys))
        totals = np.bincount(sources, counts, minlength=num_sources)
        probabilities = counts / (totals[sources] + 1.0)  # + 1, since one or two occurrences prove little
    keep = probabilities > _MIN_PROBABILITY
    starts = np.searchsorted(sources[keep], np.arange(num_sources + 1))
    return Dictionary(starts, targets[keep], probabilities[keep], shares)


def _cells(pairs: Sequence[tuple[list[int], list[int]]]) -> tuple[NDArray[np.int64], ...]:
    """Returns all co-occurrences of two tokens in a pair: source token, target token, and the target token's position.

    Positions count all target tokens of all pairs. The co-occurrences of one position compete with each other.
    """
    sources, targets, positions = ([np.zeros(0, dtype=np.int64)] for _ in range(3))
    num_targets = 0
    for source, target in pairs:
        if source and target:
            sources.append(np.repeat(source, len(target)))
            targets.append(np.tile(target, len(source)))
            positions.append(np.tile(np.arange(num_targets, num_targets + len(target)), len(source)))
            num_targets += len(target)
    return np.concatenate(sources), np.concatenate(targets), np.concatenate(positions)


def similarity(window: NumberedWindow, dictionary: Dictionary, weights: NDArray[np.float64]) -> Scores:
    """Returns the score of each source line with each target line of a window; 0 for lines without text."""
    sources, targets = window.text
    usable = (_has_text(sources), _has_text(targets))
    if min(usable[0].sum(), usable[1].sum()) < _MIN_LINES:
        return np.zeros((len(sources), len(targets)))
    kinds = (_words(window, dictionary), _spelling(sources, targets, weights), _lengths(sources, targets))
    total = sum(_standardised(kind, *usable) for kind in kinds)
    return _standardised(np.asarray(total), *usable)


def _has_text(lines: Sequence[str]) -> NDArray[np.bool_]:
    return np.array([bool(line.strip()) for line in lines])


def _standardised(scores: Scores, rows: NDArray[np.bool_], columns: NDArray[np.bool_]) -> Scores:
    """Centres rows and columns and scales to unit variance, over the lines that have text; 0 elsewhere."""
    chosen = np.ix_(rows, columns)
    inner = scores[chosen]
    inner = inner - inner.mean(axis=1, keepdims=True)
    inner = inner - inner.mean(axis=0, keepdims=True)
    deviation = inner.std()
    result = np.zeros_like(scores)
    if deviation > 1e-9:
        result[chosen] = inner / deviation
    return result


def _words(window: NumberedWindow, dictionary: Dictionary) -> Scores:
    """Returns the mean log-likelihood ratio of the tokens of j given those of i."""
    present = sorted(set(chain.from_iterable(window.target)))
    column = np.full(len(dictionary.shares) + 1, -1)
    column[present] = np.arange(len(present))
    expected = np.zeros((len(window.source), len(present)))
    for row, line in enumerate(window.source):
        for token in line:
            start, end = dictionary.starts[token], dictionary.starts[token + 1]
            columns = column[dictionary.targets[start:end]]
            inside = columns >= 0
            expected[row, columns[inside]] += dictionary.probabilities[start:end][inside]
        expected[row] /= max(1, len(line))
    ratio = np.log(_SMOOTHING + expected / dictionary.shares[present])
    occurs = np.zeros((len(window.target), len(present)))
    for row, line in enumerate(window.target):
        occurs[row, column[line]] = 1.0 / max(1, len(line))
    return np.asarray(ratio @ occurs.T)


def spelling_weights(windows: Sequence[Window]) -> NDArray[np.float64]:
    """Returns the weight of each letter and trigram, by its hash: more for rare ones."""
    lines = [line for window in windows for side in window for line in side]
    seen = np.zeros(1 << _TRIGRAM_BITS)
    for line in lines:
        seen[_grams(line)] += 1
    return np.log((len(lines) + 1) / (seen + 1))


def _grams(line: str) -> NDArray[np.int64]:
    text = np.frombuffer(line[:_MAX_CHARACTERS].lower().encode(errors="replace"), dtype=np.uint8).astype(np.uint32)
    trigrams = text[:-2] << np.uint32(16) | text[1:-1] << np.uint32(8) | text[2:]
    hashes = (np.concatenate([text, trigrams]) * np.uint32(2654435761)) >> np.uint32(32 - _TRIGRAM_BITS)
    return np.unique(hashes).astype(np.int64)


def _spelling(sources: Sequence[str], targets: Sequence[str], weights: NDArray[np.float64]) -> Scores:
    sides = []
    for lines in (sources, targets):
        grams = np.zeros((len(lines), len(weights)), dtype=np.float32)
        for row, line in enumerate(lines):
            indices = _grams(line)
            grams[row, indices] = weights[indices]
        sides.append(grams / np.maximum(np.linalg.norm(grams, axis=1, keepdims=True), 1e-9))
    return np.asarray(sides[0] @ sides[1].T, dtype=np.float64)


def _lengths(sources: Sequence[str], targets: Sequence[str]) -> Scores:
    source, target = (np.log(np.array([len(line) for line in lines]) + 5.0) for lines in (sources, targets))
    stretch = np.median(target) - np.median(source)
    return np.asarray(-np.minimum(np.abs(target[None, :] - source[:, None] - stretch), 1.0), dtype=np.float64)
