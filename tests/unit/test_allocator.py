"""Memory that is kept is not faulted in again."""

import subprocess
import sys

import pytest

from transduce.config import ModelConfig
from transduce.engines import torch as torch_engine
from transduce.model import Transformer

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


def test_an_engine_on_a_cpu_keeps_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(torch_engine, "keep_memory", lambda: calls.append("kept") or True)
    torch_engine.TorchEngine(Transformer(ModelConfig(vocab_size=20, d_model=8, d_ff=8, num_heads=2, d_k=4, d_v=4)))
    assert calls == ["kept"]
