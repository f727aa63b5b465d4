"""Several processes as one: started by torchrun, each with its part of every global batch."""

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
    """This process among all of a training; alone, unless torchrun started it."""

    rank: int = 0
    world_size: int = 1

    @classmethod
    def join(cls, device: torch.device) -> "Ranks":
        """Joins the processes that torchrun started, or returns a world of one."""
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls()
        if device.type == "cuda" and device.index is not None:
            torch.cuda.set_device(device)  # NCCL works on the current device: without this, every process on the first
        if not dist.is_initialized():
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        return cls(dist.get_rank(), dist.get_world_size())

    @property
    def leads(self) -> bool:
        """Whether this process writes checkpoints and speaks to the user."""
        return self.rank == 0

    def sum(self, tensors: Iterable[Tensor]) -> None:
        """Replaces each tensor by its sum over all processes."""
        if self.world_size > 1:
            for tensor in tensors:
                dist.all_reduce(tensor)

    def agree(self, flag: bool, device: torch.device) -> bool:
        """Returns whether `flag` is set in any process, so that all act alike."""
        if self.world_size == 1:
            return flag
        votes = torch.tensor(float(flag), device=device)
        dist.all_reduce(votes)
        return bool(votes > 0)

    def of_leader(self, values: Sequence[float], device: torch.device) -> list[float]:
        """Returns the leading process's values, as many as here, so that all draw the same conclusions from them."""
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
        """The same where one process may take hours to come: a barrier would give up after minutes.

        Nobody waits in vain: torchrun ends all processes when one fails.
        """
        if self.world_size > 1:
            dist.new_group(backend="gloo", timeout=_LONG)  # waits, with this timeout, for all to ask for the group


def local_device(device: str) -> str:
    """Returns this process's own GPU where torchrun runs several on one machine."""
    local_rank = os.environ.get("LOCAL_RANK")
    if local_rank is not None and device in ("auto", "cuda") and torch.cuda.is_available():
        return f"cuda:{local_rank}"
    return device
