"""Lines that are not translations of each other, in a corpus that is mostly aligned: a hidden Markov model.

Each line is in one of four states: it is *aligned*, its source belongs with the target line *before* it or *after* it
(a slip: a line is missing on one side), or it belongs with *none* of them. The evidence for a state is the log-odds
that the two lines in question are translations (`line_pairs.py`). States last: lines that slipped come in runs, because
a missing line shifts all that follow, up to where another is missing on the other side. So a line within a run is found
even if it says little by itself, and a free translation between good ones is kept.

`forward × backward` over all lines gives the probability of each state. Lines are computed in segments side by side,
each with lines of its neighbours at both ends.
"""

import numpy as np
from numpy.typing import NDArray

ALIGNED, BEFORE, AFTER, NONE = 0, 1, 2, 3

_SEGMENT, _OVERLAP = 1024, 64
_SLIP_BEGINS = 0.0005  # probability, at an aligned line, that the next one slips
_SLIP_ENDS, _NONE_ENDS = 0.1, 0.6
# Probability, at an aligned line, that the next one is of none. It follows the share of noise from 14 to 20 %. Below,
# little of the noise would be found; above, good lines would be lost only because many others are bad.
_MIN_NONE_BEGINS, _MAX_NONE_BEGINS = 0.1, 0.15


def transitions(noise: float) -> NDArray[np.float64]:
    """Returns the probability of each state, given the one before, if this share of lines belongs with none."""
    none_begins = min(max(_MIN_NONE_BEGINS, _NONE_ENDS * noise / (1 - noise)), _MAX_NONE_BEGINS)
    return np.array(
        [
            [1 - 2 * _SLIP_BEGINS - none_begins, _SLIP_BEGINS, _SLIP_BEGINS, none_begins],
            [_SLIP_ENDS / 2, 1 - _SLIP_ENDS, 0.0, _SLIP_ENDS / 2],
            [_SLIP_ENDS / 2, 0.0, 1 - _SLIP_ENDS, _SLIP_ENDS / 2],
            [_NONE_ENDS - 2 * _SLIP_BEGINS, _SLIP_BEGINS, _SLIP_BEGINS, 1 - _NONE_ENDS],
        ]
    )


def state_probabilities(log_odds: NDArray[np.floating], noise: float) -> NDArray[np.float32]:
    """Returns the probability of each state of each line, (lines, 4).

    Args:
        log_odds: (3, lines): that source line i and target line i - 1, i, i + 1 are translations.
        noise: share of the lines that are no translations, as far as it is known.
    """
    num_lines, moves = log_odds.shape[1], transitions(noise)
    result = np.zeros((num_lines, 4), dtype=np.float32)
    group = _SEGMENT * 256  # lines that are computed at a time, to bound the memory
    for first in range(0, num_lines, group):
        low, high = max(0, first - _OVERLAP), min(num_lines, first + group + _OVERLAP)
        inner = _segments(log_odds[:, low:high], moves)
        result[first : first + group] = inner[first - low : first - low + group]
    return result


def _segments(log_odds: NDArray[np.floating], moves: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the probabilities of lines, computed in segments side by side."""
    before, here, after = log_odds.astype(np.float64)
    evidence = np.exp(np.stack([here, before, after, np.zeros_like(here)], axis=1))  # against no pair of them
    num_segments = -(-len(evidence) // _SEGMENT)
    padded = np.ones((num_segments * _SEGMENT + 2 * _OVERLAP, 4))
    padded[_OVERLAP : _OVERLAP + len(evidence)] = evidence
    starts = np.arange(num_segments) * _SEGMENT
    steps = _SEGMENT + 2 * _OVERLAP
    forward = np.empty((steps, num_segments, 4))
    # At first, each state is as probable as it is in the long run.
    state = np.tile(np.linalg.matrix_power(moves, 4096)[0], (num_segments, 1))
    for step in range(steps):
        state = (state @ moves if step else state) * padded[starts + step]
        state = state / state.sum(axis=1, keepdims=True)
        forward[step] = state
    state = np.ones((num_segments, 4))
    for step in range(steps - 1, -1, -1):
        forward[step] *= state
        state = (state * padded[starts + step]) @ moves.T
        state = state / state.sum(axis=1, keepdims=True)
    inner = forward[_OVERLAP : _OVERLAP + _SEGMENT].transpose(1, 0, 2).reshape(-1, 4)[: len(evidence)]
    return np.asarray(inner / inner.sum(axis=1, keepdims=True))
