"""Training in several processes, which torchrun starts: each computes its part of every global batch."""

import atexit
import contextlib
import datetime
import importlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from transduce.errors import LostPeerError, TrainingError
from transduce.training.peers import Peers

_BUCKET_BYTES = 32 << 20  # of tensors that are summed together: a collective waits for the network at least once
_LONG = datetime.timedelta(days=7)
# How long a process may go on after another has failed. Collectives of NCCL then wait for ever, and torchrun kills it
# after 30 seconds. Those of gloo fail at once, unless a machine is lost, and a part of a step may take minutes there.
_GRACE_SECONDS = {"cuda": 25.0, "cpu": 600.0}
_peers: Peers | None = None  # of this process, as the process group of torch.distributed is


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
            # Functions of this module have the group that exists at its import as a default argument. Optimizers
            # import it. If they did so after the group was made, its threads would not end with the group.
            importlib.import_module("torch.distributed.nn.functional")
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
            if device.type != "cuda":
                # A thread of gloo that frees a tensor while the interpreter ends would abort the process.
                atexit.register(dist.destroy_process_group)
        return cls(dist.get_rank(), dist.get_world_size())

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    @contextlib.contextmanager
    def watched(self, device: torch.device) -> Iterator[None]:
        """Within it, a process that fails is named by all others; see `transduce.training.peers`."""
        global _peers
        if self.world_size == 1:
            yield
            return
        address = os.environ["MASTER_ADDR"]
        grace = _GRACE_SECONDS["cuda" if device.type == "cuda" else "cpu"]
        main = Peers(0, address, grace_seconds=grace) if self.is_main else None
        port, token = self.broadcast([main.port, main.token] if main else [0.0, 0.0], device)
        try:
            _peers = main or Peers(self.rank, address, int(port), int(token), grace_seconds=grace)
        except OSError as error:
            message = f"warning: rank {self.rank} cannot connect to {address}, port {int(port)} ({error})"
            print(f"{message}: where a process fails, this one may learn it late.", file=sys.stderr, flush=True)
        try:
            with _peers or contextlib.nullcontext():
                yield
        finally:
            _peers = None

    def finish(self) -> None:
        """Records that this process has made its last collective: the end of another one no longer matters to it.

        Only the main process still works, on the model; the others wait for it where they leave `watched`. That is no
        collective: one that a process still waits for fails where another, which is through with it, has ended.
        """
        if _peers is not None:
            _peers.finish()

    def check(self) -> None:
        """Raises LostPeerError if another process is known to have failed."""
        if _peers is not None:
            _peers.check()

    def sum(self, tensors: Iterable[Tensor]) -> None:
        """Replaces each tensor by its sum over all processes; small ones travel together.

        Raises:
            LostPeerError: another process has failed; as all methods below do.
        """
        if self.world_size > 1:
            with _named_peer():
                for together in _buckets(tensors):
                    _sum_together(together)

    def any_rank(self, flag: bool, device: torch.device) -> bool:
        """Returns whether `flag` is set in any process; all get the same answer."""
        if self.world_size == 1:
            return flag
        votes = torch.tensor(float(flag), device=device)
        self.sum([votes])
        return bool(votes > 0)

    def broadcast(self, values: Sequence[float], device: torch.device) -> list[float]:
        """Returns the main process's values, as many as here."""
        if self.world_size == 1:
            return list(values)
        shared = torch.tensor(values, dtype=torch.float64, device=device)
        with _named_peer():
            dist.broadcast(shared, src=0)
        return [float(value) for value in shared.tolist()]

    def gather(self, own: Sequence[Sequence[int]], count: int) -> list[list[int]]:
        """Returns `count` sequences, of which this process has every n-th, from number `rank` on; all get all."""
        if self.world_size == 1:
            return [list(each) for each in own]
        device = torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")
        lengths = torch.zeros(count, dtype=torch.int64, device=device)
        lengths[self.rank :: self.world_size] = torch.tensor([len(each) for each in own], device=device)
        self.sum([lengths])
        padded = torch.zeros(count, int(lengths.max()), dtype=torch.int64, device=device)
        for number, each in zip(range(self.rank, count, self.world_size), own, strict=True):
            padded[number, : len(each)] = torch.tensor(each, device=device)
        self.sum([padded])
        return [row[:length] for row, length in zip(padded.tolist(), lengths.tolist(), strict=True)]

    def with_flag(self, flag: bool) -> list[int]:
        """Returns the processes in which `flag` is set; all get the same answer."""
        return [rank for rank, flags in enumerate(self.gather([[int(flag)]], self.world_size)) if flags[0]]

    def require_same(self, numbers: Sequence[int], what: str) -> None:
        """Raises TrainingError unless all processes have the same numbers; `what` they are is for the message."""
        found = self.gather([numbers], self.world_size)
        if rank := next((rank for rank, each in enumerate(found) if each != found[0]), None):
            raise TrainingError(
                f"{what}: rank 0 sees {found[0]}, and rank {rank} {found[rank]}. All must see the same."
            )

    def wait(self) -> None:
        """Waits until every process is here."""
        if self.world_size > 1:
            with _named_peer():
                dist.barrier()

    def wait_for_long_work(self) -> None:
        """Does the same where one process may take hours: a barrier times out after minutes.

        If a process fails, the others end instead of waiting forever.
        """
        if self.world_size > 1:
            with _named_peer():
                dist.new_group(backend="gloo", timeout=_LONG)  # waits, with this timeout, for all to ask for the group


ALONE = Ranks()


def _buckets(tensors: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """Yields tensors of one type that follow each other, at most `_BUCKET_BYTES`, or a single larger one."""
    bucket: list[Tensor] = []
    for tensor in tensors:
        is_full = sum(each.nbytes for each in bucket) + tensor.nbytes > _BUCKET_BYTES
        if bucket and (is_full or tensor.dtype != bucket[0].dtype):
            yield bucket
            bucket = []
        bucket.append(tensor)
    if bucket:
        yield bucket


def _sum_together(tensors: list[Tensor]) -> None:
    """Sums tensors over all processes, in place, with one collective."""
    if len(tensors) == 1 and tensors[0].is_contiguous():
        dist.all_reduce(tensors[0])
        return
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    dist.all_reduce(flat)
    for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
        tensor.copy_(part.view_as(tensor))


@contextlib.contextmanager
def _named_peer() -> Iterator[None]:
    """Raises LostPeerError where a collective fails: the backends' own errors do not say which process, and why."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        cause = str(error).partition("\n")[0]
        if _peers is None:
            raise LostPeerError(f"the connection to another process of this training was lost: {cause}.") from error
        raise _peers.error(cause) from error


def local_device(device: str) -> str:
    """Returns this process's own GPU where torchrun runs several on one machine."""
    local_rank = os.environ.get("LOCAL_RANK")
    if local_rank is not None and device in ("auto", "cuda") and torch.cuda.is_available():
        return f"cuda:{local_rank}"
    return device
