"""Training in several processes, which torchrun starts: each computes its part of every global batch."""

import datetime
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

_LONG = datetime.timedelta(days=7)


@dataclass(frozen=True)
class Ranks:
    """The number of this process and of all; one alone unless torchrun started it."""

    rank: int = 0
    world_size: int = 1

    @classmethod
    def join(cls, device: torch.device) -> "Ranks":
        """Joins the processes that torchrun started; one alone if it did not."""
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls()
        if device.type == "cuda" and device.index is not None:
            torch.cuda.set_device(device)  # NCCL works on the current device: without this, every process on the first
        if not dist.is_initialized():
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        return cls(dist.get_rank(), dist.get_world_size())

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def sum(self, tensors: Iterable[Tensor]) -> None:
        """Replaces each tensor by its sum over all processes."""
        if self.world_size > 1:
            for tensor in tensors:
                dist.all_reduce(tensor)

    def any_rank(self, flag: bool, device: torch.device) -> bool:
        """Returns whether `flag` is set in any process; all get the same answer."""
        if self.world_size == 1:
            return flag
        votes = torch.tensor(float(flag), device=device)
        dist.all_reduce(votes)
        return bool(votes > 0)

    def broadcast(self, values: Sequence[float], device: torch.device) -> list[float]:
        """Returns the main process's values, as many as here."""
        if self.world_size == 1:
            return list(values)
        shared = torch.tensor(values, dtype=torch.float64, device=device)
        dist.broadcast(shared, src=0)
        return [float(value) for value in shared.tolist()]

    def wait(self) -> None:
        """Waits until every process is here."""
        if self.world_size > 1:
            dist.barrier()

    def wait_for_long_work(self) -> None:
        """Does the same where one process may take hours: a barrier gives up after minutes.

        Nothing waits for ever: torchrun ends all processes when one fails.
        """
        if self.world_size > 1:
            dist.new_group(backend="gloo", timeout=_LONG)  # waits, with this timeout, for all to ask for the group


def local_device(device: str) -> str:
    """Returns this process's own GPU where torchrun runs several on one machine."""
    local_rank = os.environ.get("LOCAL_RANK")
    if local_rank is not None and device in ("auto", "cuda") and torch.cuda.is_available():
        return f"cuda:{local_rank}"
    return device
