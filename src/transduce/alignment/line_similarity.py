"""How likely two lines are translations of each other, by what a corpus itself shows: no other dictionary is needed.

There are three kinds of evidence, each weak alone. For a window of n lines a side, each gives a matrix of n × n scores,
source line i against target line j:

- *words*: how much likelier the words of j are given those of i than in general, by a dictionary that was learned from
  other windows (`dictionary.py`);
- *spelling*: the cosine between the letters and letter trigrams of the two, with more weight for rare ones: numbers,
  names, punctuation, cognates;
- *length*: how close the ratio of the two lengths is to the median.

Rows and columns are centred, and each matrix is scaled to unit variance. A score is then in standard deviations from
random pairings of the same lines: about 0 for unrelated lines, 2 to 4 for translations.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from transduce.alignment.windows import Window

Scores = NDArray[np.float64]

MAX_CHARACTERS = 300  # used of a line, to bound the time

_TRIGRAM_BITS = 12
_MIN_LINES = 8  # of a window; scores of fewer mean nothing


def similarity(window: Window, words: Scores, weights: NDArray[np.float64]) -> Scores:
    """Returns the score of each source line with each target line of a window; 0 for lines without text.

    Args:
        window: the lines.
        words: how well the words of each two lines fit.
        weights: from `spelling_weights`.
    """
    sources, targets = window
    usable = (_has_text(sources), _has_text(targets))
    if min(usable[0].sum(), usable[1].sum()) < _MIN_LINES:
        return np.zeros((len(sources), len(targets)))
    kinds = (words, _spelling(sources, targets, weights), _lengths(sources, targets))
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


def spelling_weights(windows: Sequence[Window]) -> NDArray[np.float64]:
    """Returns the weight of each letter and trigram, by its hash: more for rare ones."""
    sides = [side for window in windows for side in window]
    seen = np.zeros(1 << _TRIGRAM_BITS)
    for lines in sides:
        seen += _grams(lines).sum(axis=0)
    return np.log((sum(map(len, sides)) + 1) / (seen + 1))


def _grams(lines: Sequence[str]) -> NDArray[np.bool_]:
    """Returns which letters and trigrams each line has, (lines, hashes)."""
    encoded = [line[:MAX_CHARACTERS].lower().encode(errors="replace") for line in lines]
    text = np.frombuffer(b"".join(encoded), dtype=np.uint8).astype(np.uint32)
    rows = np.repeat(np.arange(len(lines)), [len(line) for line in encoded])
    trigrams = text[:-2] << np.uint32(16) | text[1:-1] << np.uint32(8) | text[2:]
    within = rows[:-2] == rows[2:]
    hashes = (np.concatenate([text, trigrams[within]]) * np.uint32(2654435761)) >> np.uint32(32 - _TRIGRAM_BITS)
    grams = np.zeros((len(lines), 1 << _TRIGRAM_BITS), dtype=np.bool_)
    grams[np.concatenate([rows, rows[:-2][within]]), hashes] = True
    return grams


def _spelling(sources: Sequence[str], targets: Sequence[str], weights: NDArray[np.float64]) -> Scores:
    sides = []
    for lines in (sources, targets):
        grams = _grams(lines) * weights.astype(np.float32)
        sides.append(grams / np.maximum(np.linalg.norm(grams, axis=1, keepdims=True), 1e-9))
    return np.asarray(sides[0] @ sides[1].T, dtype=np.float64)


def _lengths(sources: Sequence[str], targets: Sequence[str]) -> Scores:
    source, target = (np.log(np.array([len(line) for line in lines]) + 5.0) for lines in (sources, targets))
    stretch = np.median(target) - np.median(source)
    return np.asarray(-np.minimum(np.abs(target[None, :] - source[:, None] - stretch), 1.0), dtype=np.float64)
