"""Confidence intervals of means."""

import bisect

# Student's t for a two-sided 95 % interval, by degrees of freedom.
_FREEDOM = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 30, 60, 120)
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.179, 2.131, 2.086, 2.042, 2.0, 1.98)


def student_t(freedom: int) -> float:
    """Returns Student's t for a two-sided 95 % interval, for at least one degree of freedom.

    Between the numbers of the table, it is that of the next lower one, so an interval is never too narrow.
    """
    return _T[bisect.bisect_right(_FREEDOM, freedom) - 1]
