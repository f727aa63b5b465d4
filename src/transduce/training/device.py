"""The device and precision to compute with."""

import contextlib
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch

from transduce.model.device import choose_device
from transduce.reporting.tables import counted
from transduce.training.cost import UNKNOWN, Capacity, gpu_capacity


@dataclass(frozen=True)
class Compute:
    """A device and the type of its matrix products; weights and optimiser stay in float32."""

    device: torch.device
    dtype: torch.dtype

    @classmethod
    def of(cls, device: str = "auto", precision: Literal["auto", "fp32", "bf16"] = "auto") -> "Compute":
        """Resolves `auto`: CUDA if there is one, bf16 if the device has instructions for it.

        DEVIATION: the paper trained in float32; `auto` multiplies matrices in bf16 where that is faster.

        Raises:
            ConfigError: the device does not exist here.
        """
        resolved = choose_device(device, "train.device")
        bf16 = computes_bf16(resolved) if precision == "auto" else precision == "bf16"
        return cls(resolved, torch.bfloat16 if bf16 else torch.float32)

    def autocast(self) -> contextlib.AbstractContextManager[None]:
        """Returns the context in which a forward pass runs."""
        if self.dtype != torch.bfloat16:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, self.dtype)

    def __str__(self) -> str:
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "CPU"
        threads = f", {counted(torch.get_num_threads(), 'thread')}" if self.device.type == "cpu" else ""
        return f"{name}{threads}, {'bf16' if self.dtype == torch.bfloat16 else 'fp32'}"


def computes_bf16(device: torch.device) -> bool:
    """Returns whether `device` has instructions that multiply bf16 matrices faster than fp32 ones."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type == "cpu":
        # Without AVX-512 BF16 or AMX, PyTorch emulates bf16, ten times slower than fp32. It also does
        # so where ATEN_CPU_CAPABILITY disables AVX-512, on any processor.
        has_instructions = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        return bool(has_instructions and torch.backends.cpu.get_cpu_capability() == "AVX512")
    return False


def device_capacity(compute: Compute) -> Capacity:
    """Returns the capacity of this device: from the tables for a GPU, measured for a CPU."""
    if compute.device.type == "cpu":
        return Capacity(_measured_cpu(torch.get_num_threads(), compute.dtype), "measured")
    if compute.device.type == "cuda":
        precision = "bf16" if compute.dtype == torch.bfloat16 else "fp32"
        return gpu_capacity(torch.cuda.get_device_name(compute.device), precision)
    return UNKNOWN


@lru_cache
def _measured_cpu(num_threads: int, dtype: torch.dtype) -> float:
    """Returns the speed of matrix products that take at least 10 ms; measured once a process."""
    size = 512
    while (seconds := min(_product_seconds(size, dtype) for _ in range(3))) < 0.01 and size < 4096:
        size *= 2
    return 2 * size**3 / seconds


def _product_seconds(size: int, dtype: torch.dtype) -> float:
    left, right = torch.ones(size, size, dtype=dtype), torch.ones(size, size, dtype=dtype)
    started = time.perf_counter()
    torch.mm(left, right)
    return time.perf_counter() - started
