"""Finding the greatest difference between two results, and where it is."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from transduce.verification.findings import Finding, Tie


class Differences:
    """Keeps the greatest difference and where it was. NaN counts as an infinite difference."""

    def __init__(self) -> None:
        self.worst = 0.0
        self.where = ""
        self.count = 0
        self.faults: list[str] = []
        self.ties: list[Tie] = []

    def add(self, value: float, where: str) -> None:
        """Adds one difference."""
        self.count += 1
        value = math.inf if math.isnan(value) else abs(value)
        if value > self.worst:
            self.worst, self.where = value, where

    def compare(self, ours: Tensor, theirs: Tensor, where: str | Sequence[str]) -> None:
        """Adds the difference of each pair of numbers.

        Args:
            ours: numbers.
            theirs: as many.
            where: names along the first axis: one for each index, or one for all with "{}" for the number.
        """
        if ours.shape != theirs.shape:
            name = where if isinstance(where, str) else where[0]
            self.faults.append(f"{name}: {tuple(ours.shape)} numbers against {tuple(theirs.shape)}")
            return
        self.count += ours.numel()
        if not ours.numel():
            return
        difference = (ours - theirs).abs()
        difference = torch.where(torch.isnan(difference), torch.inf, difference)
        difference = torch.where(ours == theirs, 0.0, difference)  # two equal infinities, too
        index = int(difference.argmax())
        value = float(difference.flatten()[index])
        if value > self.worst:
            self.worst = value
            first = index // max(1, ours.numel() // ours.size(0))
            self.where = where.replace("{}", str(first + 1)) if isinstance(where, str) else where[first]

    def compare_sentences(self, names: Sequence[str], ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> None:
        """Adds the differences between two results of each sentence, which have a row for each of its positions."""
        for name, one_TV, two_TV in zip(names, ours, theirs, strict=True):
            self.compare(one_TV, two_TV, f"{name}, position {{}}")

    def finding(self, compared: str, tolerance: float, note: str = "") -> Finding:
        """Returns what was found; a check that compared nothing fails."""
        if not self.count and not self.faults:
            self.faults.append("nothing was compared: give more or longer sentences (--source FILE)")
        return Finding(compared, self.worst, tolerance, self.where, tuple(self.faults), tuple(self.ties), note=note)
