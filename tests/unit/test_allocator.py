"""Memory that is kept is not faulted in again."""

import os
import subprocess
import sys

import pytest
import torch

from transduce.cli.main import main
from transduce.config import ModelConfig
from transduce.engines import allocator
from transduce.engines import torch as torch_engine
from transduce.engines.allocator import limit_kernel_caches
from transduce.model import Transformer
from transduce.training.device import computes_bf16

_FAULTS = """
import ctypes, resource, sys
from transduce.engines.allocator import keep_memory

if sys.argv[1] == "kept" and not keep_memory():
    sys.exit(3)
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes, libc.memset.argtypes = [ctypes.c_void_p], [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]

def use(size):
    block = libc.malloc(size)
    libc.memset(block, 1, size)
    libc.free(block)

use(40_000_000)  # more than glibc ever keeps by itself
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    use(40_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(setting: str) -> int:
    done = subprocess.run([sys.executable, "-c", _FAULTS, setting], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == 3:
        pytest.skip("this system's malloc cannot be told to keep memory")
    assert done.returncode == 0
    return int(done.stdout)


def test_big_temporaries_are_not_faulted_in_again() -> None:
    assert _faults("kept") < _faults("as it comes") / 4


def test_an_engine_on_a_cpu_keeps_memory_in_a_command_and_not_in_other_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []
    monkeypatch.setattr(allocator, "keep_memory", lambda: calls.append("kept") or True)
    monkeypatch.setattr(allocator, "_in_command", False)
    model = Transformer(ModelConfig(vocab_size=20, d_model=8, d_ff=8, num_heads=2, d_k=4, d_v=4))
    torch_engine.TorchEngine(model)
    assert calls == []
    assert main(["info", "--presets"]) == 0
    torch_engine.TorchEngine(model)
    assert calls == ["kept"]


_KERNELS = """
import ctypes, sys
import torch
from transduce.engines.allocator import limit_kernel_caches

class Usage(ctypes.Structure):
    _fields_ = [(f"field_{index}", ctypes.c_size_t) for index in range(10)]

def in_use():
    usage = libc.mallinfo2()
    return usage.field_7 + usage.field_4  # small blocks, and those that are mapped

libc = ctypes.CDLL(None)
if not hasattr(libc, "mallinfo2"):
    sys.exit(3)
libc.mallinfo2.restype = Usage
if sys.argv[1] == "limited":
    limit_kernel_caches()
weight = torch.ones(256, 256, dtype=torch.bfloat16)
torch.ones(8, 256, dtype=torch.bfloat16) @ weight
before = in_use()
for rows in range(100, 600):
    torch.ones(rows, 256, dtype=torch.bfloat16) @ weight
print(in_use() - before)
"""


@pytest.mark.skipif(not computes_bf16(torch.device("cpu")), reason="bf16 is emulated here, by other kernels")
def test_kernels_of_many_shapes_are_not_kept() -> None:
    kept = {}
    for setting in ("limited", "as it comes"):
        command = [sys.executable, "-c", _KERNELS, setting]
        environment = {name: value for name, value in os.environ.items() if not name.endswith("_CACHE_CAPACITY")}
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=environment)
        if done.returncode == 3:
            pytest.skip("this system's malloc does not tell what is in use")
        assert done.returncode == 0
        kept[setting] = int(done.stdout)
    assert kept["limited"] < kept["as it comes"] / 3


def test_limits_that_were_set_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LRU_CACHE_CAPACITY", "7")
    monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", raising=False)
    limit_kernel_caches()
    assert [os.environ[name] for name in ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")] == ["7", "32"]


_GIVEN_BACK = """
import ctypes
from pathlib import Path
from transduce.engines.allocator import give_back_memory, keep_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

keep_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes, libc.memset.argtypes = [ctypes.c_void_p], [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
blocks = [libc.malloc(40_000_000) for _ in range(4)]
for block in blocks:
    libc.memset(block, 1, 40_000_000)
between = libc.malloc(100)  # the heap cannot shrink below it
for block in blocks:
    libc.free(block)
before = resident()
give_back_memory()
print(before - resident())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_freed_memory_is_given_back() -> None:
    """Of 160 MB, which a small block behind them would keep in the process."""
    found = subprocess.run([sys.executable, "-c", _GIVEN_BACK], capture_output=True, text=True, check=True)
    assert int(found.stdout) > 150_000_000
