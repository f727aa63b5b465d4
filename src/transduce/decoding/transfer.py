"""What a search sends from the device to the host: the steps of one synchronisation, in one piece.

Double holds float32 and every id exactly.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class BeamStep:
    """One step of a beam search: its candidates, best first, and the open beams that were kept of them."""

    scores_BC: Tensor  # log-probabilities
    beams_BC: Tensor
    tokens_BC: Tensor
    open_scores_BK: Tensor
    parents_BK: Tensor  # the beam that each open beam continues
    open_tokens_BK: Tensor
    bonus_BK: Tensor | None = None  # of the beams that were continued

    def parts(self) -> list[Tensor]:
        """Returns the tensors, in order."""
        return [part for part in vars(self).values() if part is not None]


def beams_on_host(steps: Sequence[BeamStep]) -> list[BeamStep]:
    """Returns the steps on the host."""
    if steps[0].scores_BC.device.type == "cpu":
        return list(steps)
    return unpack(pack(steps).cpu(), steps[0])


def pack(steps: Sequence[BeamStep]) -> Tensor:
    """Returns all of the steps as one tensor: a matrix each, the parts side by side."""
    return torch.stack([torch.cat([part.double() for part in step.parts()], dim=1) for step in steps])


def unpack(packed: Tensor, like: BeamStep) -> list[BeamStep]:
    """Undoes `pack`; `like` is one of the steps."""
    parts = like.parts()
    columns_of = (matrix.split([part.size(1) for part in parts], dim=1) for matrix in packed)
    return [BeamStep(*(x.to(part.dtype) for x, part in zip(columns, parts, strict=True))) for columns in columns_of]


def rows_on_host(steps: Sequence[tuple[Tensor, Tensor]]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Returns the token of each row and its log-probability, step by step."""
    tokens_NR, gains_NR = torch.stack([torch.stack(each).double() for each in zip(*steps, strict=True)]).cpu().numpy()
    return zip(tokens_NR.astype(np.int64), gains_NR.astype(np.float32), strict=True)
