"""How much memory there is, how much was used at most, and which errors say that there was too little."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from transduce.engines.allocator import give_back_memory
from transduce.errors import NO_MEMORY_SAID, TrainingError

PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")
_KIB = 1024
# What a lack of memory may be raised as; `is_out_of_memory` distinguishes it from other errors of these classes.
MEMORY_ERRORS = (RuntimeError, MemoryError)


def is_out_of_memory(error: BaseException) -> bool:
    """Returns whether the error says that memory could not be allocated, on a GPU or on a CPU."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    # Only a GPU's allocator has an exception of its own.
    return isinstance(error, RuntimeError) and any(text in str(error) for text in NO_MEMORY_SAID)


@contextlib.contextmanager
def named_memory_error(where: str) -> Iterator[None]:
    """Turns a lack of memory inside into a TrainingError that begins with `where` and says what to do."""
    try:
        yield
    except MEMORY_ERRORS as error:
        if not is_out_of_memory(error):
            raise
        raise TrainingError(
            f"{where} ran out of memory. Continue from the last checkpoint with --resume and a lower "
            "train.micro_batch_tokens, such as --set train.micro_batch_tokens=4000."
        ) from error


def gibibytes(num_bytes: float) -> str:
    """Returns a size as text, such as "11.2 GiB"."""
    return f"{num_bytes / 2**30:.1f} GiB" if num_bytes >= 2**30 else f"{num_bytes / 2**20:.0f} MiB"


# --- how much there is -----------------------------------------------------------------------------------------------


def available_bytes(device: torch.device) -> int | None:
    """Returns how much more memory this process can use on `device`; None where that is unknown.

    On a CPU it is the least of what the system has available, what the control groups leave, and what the limit of the
    address space leaves. Processes of torchrun on one machine share it.
    """
    if device.type == "cuda":
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + held
    if device.type != "cpu":
        return None
    found = [_field(PROC / "meminfo", "MemAvailable:"), *_control_group_bytes(), _address_space_bytes()]
    known = [each for each in found if each is not None]
    return max(0, min(known)) // max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1"))) if known else None


def _control_group_bytes() -> Iterator[int]:
    """Yields what each limit of this process's control groups leaves, in version 1 and 2 of their interface.

    Memory of files that are not in use counts as used there, and is freed when it is needed.
    """
    names = (
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ("", "memory.max", "memory.current", "inactive_file"),
    )
    for line in _lines(PROC / "self" / "cgroup"):
        controllers, path = line.split(":", 2)[1:]
        if controllers not in ("", "memory"):
            continue
        folder, limit, usage, inactive = names[0 if controllers else 1]
        group = Path(path.lstrip("/"))
        for each in (group, *group.parents):
            at = CGROUPS / folder / each
            most, used = _number(at / limit), _number(at / usage)
            if most is not None and used is not None:
                yield most - used + (_field(at / "memory.stat", f"{inactive} ", unit=1) or 0)


def _address_space_bytes() -> int | None:
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    size = _field(PROC / "self" / "status", "VmSize:")
    return None if limit == resource.RLIM_INFINITY or size is None else limit - size


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []


def _field(path: Path, name: str, unit: int = _KIB) -> int | None:
    """Returns the number after `name` in a file of lines, in bytes; None if there is no such file or line."""
    found = [line for line in _lines(path) if line.startswith(name)]
    return int(found[0].removeprefix(name).split()[0]) * unit if found else None


def _number(path: Path) -> int | None:
    """Returns the number in a file; None if there is no file, or it says "max": no limit."""
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdigit() else None


# --- how much was used -----------------------------------------------------------------------------------------------


@dataclass
class Usage:
    """Memory in use, in bytes: before a piece of work, and at most during it; 0 where the system does not say."""

    before: int = 0
    peak: int = 0

    @property
    def growth(self) -> int:
        """What the work needed."""
        return max(0, self.peak - self.before)


@contextlib.contextmanager
def measured(device: torch.device) -> Iterator[Usage]:
    """Measures the memory that is used inside: of the process on a CPU (Linux only), of the device on a GPU.

    On a GPU the peak is what the allocator held, which is more than what the tensors needed.
    """
    return_freed_memory(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    counts = device.type == "cuda" or (device.type == "cpu" and _reset_peak())
    usage = Usage(used_bytes(device) if counts else 0)
    yield usage
    if device.type == "cuda":
        usage.peak = torch.cuda.max_memory_reserved(device)
    elif counts:
        usage.peak = _field(PROC / "self" / "status", "VmHWM:") or 0


def used_bytes(device: torch.device) -> int:
    """Returns the memory that this process uses on `device`, 0 where that is unknown."""
    if device.type == "cuda":
        return torch.cuda.memory_reserved(device)
    return (_field(PROC / "self" / "status", "VmRSS:") or 0) if device.type == "cpu" else 0


def return_freed_memory(device: torch.device) -> None:
    """Makes the allocator return freed memory to the system, so that memory in use can be measured."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    give_back_memory()


def _reset_peak() -> bool:
    """Makes Linux count the peak of this process's memory anew; returns whether it does."""
    try:
        (PROC / "self" / "clear_refs").write_text("5")
    except OSError:  # another system, or one that does not allow it
        return False
    return True
