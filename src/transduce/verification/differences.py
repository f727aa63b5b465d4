"""Finding the greatest difference between two results, and where it is."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from transduce.verification.findings import Finding, Tie


class Differences:
    """Keeps the greatest difference seen and its place. What is not a number differs infinitely."""

    def __init__(self) -> None:
        self.worst = 0.0
        self.where = ""
        self.count = 0
        self.faults: list[str] = []
        self.ties: list[Tie] = []

    def add(self, value: float, where: str) -> None:
        """Takes one difference."""
        self.count += 1
        value = math.inf if math.isnan(value) else abs(value)
        if value > self.worst:
            self.worst, self.where = value, where

    def compare(self, ours: Tensor, theirs: Tensor, where: str | Sequence[str]) -> None:
        """Takes the difference of each pair of numbers.

        Args:
            ours: numbers.
            theirs: as many.
            where: names the places along the first axis: one for each, or all of them with "{}" for their number.
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
        place = int(difference.argmax())
        value = float(difference.flatten()[place])
        if value > self.worst:
            self.worst = value
            first = place // max(1, ours.numel() // ours.size(0))
            self.where = where.replace("{}", str(first + 1)) if isinstance(where, str) else where[first]

    def finding(self, compared: str, tolerance: float, note: str = "") -> Finding:
        """Returns what was found; nothing compared is a fault of the check, and fails it."""
        if not self.count and not self.faults:
            self.faults.append("nothing was compared: give more or longer sentences (--source FILE)")
        return Finding(compared, self.worst, tolerance, self.where, tuple(self.faults), tuple(self.ties), note=note)
