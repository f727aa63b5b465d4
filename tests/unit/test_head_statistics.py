"""The statistics of heads against numbers worked out by hand."""

import math

import numpy as np
import pytest

from transduce.inspection import HeadStatistics, Unit, View, head_statistics


def statistics_of(*heads: list[list[float]]) -> HeadStatistics:
    """Returns the statistics of one layer with these heads."""
    weights = np.array([heads], np.float32)
    units = [tuple(Unit(str(i), i) for i in range(size)) for size in weights.shape[-2:]]
    return head_statistics(View("cross", weights, *units))


def test_heads_on_the_diagonal_everywhere_and_one_before() -> None:
    third = 1 / 3
    found = statistics_of(
        [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        [[third] * 3] * 3,
        [[1, 0, 0], [1, 0, 0], [0, 1, 0]],
    )
    # Everywhere: rows look (0+1+2)/3, (1+0+1)/3 and (2+1+0)/3 far.
    np.testing.assert_allclose(found.distance, [[0, 8 / 9, 2 / 3]], rtol=1e-6)
    np.testing.assert_allclose(found.entropy, [[0, math.log2(3), 0]], rtol=1e-6)
    np.testing.assert_allclose(found.peak, [[1, third, 1]], rtol=1e-6)
    np.testing.assert_allclose(found.diagonal, [[1, third, third]], rtol=1e-6)
    np.testing.assert_allclose(found.previous, [[0, third, 1]], rtol=1e-6)  # the first row has nothing before it
    np.testing.assert_allclose(found.next, [[0, third, 0]], rtol=1e-6)


def test_where_source_and_target_differ_in_length_the_diagonal_is_the_straight_line() -> None:
    # Two rows, five columns: the first row's place is column 0, the second's column 4.
    found = statistics_of([[0.5, 0.5, 0, 0, 0], [0, 0, 0, 1, 0]])
    assert found.distance.item() == pytest.approx((0.5 + 1) / 2)
    assert found.diagonal.item() == pytest.approx((0.5 + 0) / 2)
    assert found.previous.item() == pytest.approx(1)  # of the second row alone
    assert found.next.item() == pytest.approx(0.5)  # of the first row alone
    assert found.entropy.item() == pytest.approx((1 + 0) / 2)
    assert found.peak.item() == pytest.approx((0.5 + 1) / 2)


def test_one_row_and_one_column() -> None:
    single = statistics_of([[1.0]])
    assert (single.distance.item(), single.diagonal.item(), single.previous.item(), single.next.item()) == (0, 1, 0, 0)
    assert math.copysign(1, single.entropy.item()) == 1  # not "-0.00" on the page
    assert statistics_of([[0.25, 0.75]]).distance.item() == pytest.approx(0.75)
