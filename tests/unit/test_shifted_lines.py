"""The parts of the search for shifted lines, by figures worked out by hand."""

import numpy as np
import pytest

from transduce.alignment.line_scorer import UNRELATED
from transduce.data.shifted_lines import _difference

LARGEST = 32  # half a window of 64 lines


@pytest.mark.parametrize(
    ("offsets", "difference"),
    [((0, 3), 30), ((3, 0), -30), ((-2, 0), 20), ((-2, 5), 70), ((0, UNRELATED), 1.5), ((UNRELATED, -1), -11.5)],
)
def test_a_window_votes_for_one_of_two_offsets(offsets: tuple[int, int], difference: float) -> None:
    """The mean score at offset d is 10 d; the score of unrelated lines is taken to be 1.5."""
    means = 10.0 * np.arange(-LARGEST, LARGEST + 1)
    assert _difference(means, offsets) == difference
