"""The cores of a process, and what memory the libraries below PyTorch keep.

glibc keeps freed memory, oneDNN kernels for shapes that it has met.
"""

import contextlib
import ctypes
import os
import sys

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
_TOP_PAD_BYTES = 64 << 20


def num_cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def keep_memory() -> bool:
    """Makes malloc reuse freed memory instead of unmapping it; returns whether this system's malloc supports that.

    A training step frees and allocates the same hundreds of megabytes each time, a decoding step the same tens. By
    default glibc maps each big block anew and the kernel zeroes its pages. That takes 18 to 26 % of a training step,
    and 6 % of a decoding step (32 sentences, 4 beams). The price: the process keeps the memory of its peaks.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # a C library without mallopt: musl
        return False
    settings = ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, 2**31 - 1), (_M_TOP_PAD, _TOP_PAD_BYTES))
    return all(mallopt(parameter, value) == 1 for parameter, value in settings)


_in_command = False


def enter_command() -> None:
    """Records that this process is one of our commands, so that its allocator is ours to set."""
    global _in_command
    _in_command = True


def keep_memory_in_commands() -> None:
    """Calls `keep_memory` in our commands only; other programs can call it themselves."""
    if _in_command:
        keep_memory()


def give_back_memory() -> None:
    """Has malloc give the system all memory that was freed, where this system's malloc can.

    Without that, glibc may keep most of a model's: small blocks lie between the large ones.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):  # a C library without malloc_trim: musl, macOS
        ctypes.CDLL(None).malloc_trim(0)


def limit_kernel_caches() -> None:
    """Makes oneDNN keep few kernels; without effect where a bf16 product was already computed.

    In bf16 it makes a kernel for each shape of a product, and keeps 1024 of them: hundreds of megabytes. Nearly every
    batch of a training has shapes of its own, so kernels of earlier ones are not used again.
    """
    for name in ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"):  # PyTorch's and oneDNN's own
        os.environ.setdefault(name, "32")  # more than a layer needs, forward and backward
