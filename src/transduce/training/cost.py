"""What a training cost: the operations counted, and the paper's estimate of them (§6.1, Table 2).

The paper did not count. It multiplied the time of training, the number of GPUs and "an estimate of the sustained
single-precision floating-point capacity of each GPU". An account has both: the counted operations, and the time on each
kind of device with its capacity. Their ratio is the share of the capacity that training used.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from transduce.reporting.tables import counted

_TERA = 1e12

# The paper's figures: sustained float32 operations a second (footnote to §6.1).
PAPER_DEVICES = {
    "K80": 2.8 * _TERA,
    "K40": 3.7 * _TERA,
    "M40": 6.0 * _TERA,
    "P100": 9.5 * _TERA,
}

# Peak operations a second by the makers' data sheets: float32 without tensor cores, PyTorch's default, and dense bf16
# with float32 sums. No training sustains them: an estimate from these is an upper bound. Keys are regular expressions
# for the device's name; variants of a chip have figures of their own.
PEAK_DEVICES = {
    r"V100-SXM2": {"fp32": 15.7 * _TERA},
    r"V100-PCIE": {"fp32": 14.0 * _TERA},
    r"T4$": {"fp32": 8.1 * _TERA},
    r"A10$": {"fp32": 31.2 * _TERA, "bf16": 125 * _TERA},
    r"A100\b": {"fp32": 19.5 * _TERA, "bf16": 312 * _TERA},
    r"L4$": {"fp32": 30.3 * _TERA, "bf16": 121 * _TERA},
    r"L40S$": {"fp32": 91.6 * _TERA, "bf16": 362 * _TERA},
    r"RTX 3090$": {"fp32": 35.6 * _TERA, "bf16": 71 * _TERA},
    r"RTX 4090$": {"fp32": 82.6 * _TERA, "bf16": 165 * _TERA},
    r"H100 PCIe$": {"fp32": 51 * _TERA, "bf16": 756 * _TERA},
    r"H100 80GB HBM3$": {"fp32": 67 * _TERA, "bf16": 989 * _TERA},
    r"H200$": {"fp32": 67 * _TERA, "bf16": 989 * _TERA},
    r"B200$": {"fp32": 75 * _TERA, "bf16": 2250 * _TERA},
}

_BASES = {
    "paper": "sustained, as the paper estimates",
    "peak": "peak by its data sheet",
    "measured": "measured on products of large matrices",
    "unknown": "capacity unknown",
}


@dataclass(frozen=True)
class Capacity:
    """Operations a second of one device, for the estimate; None if unknown."""

    flops_per_second: float | None
    basis: str  # a key of `_BASES`


UNKNOWN = Capacity(None, "unknown")


def gpu_capacity(name: str, precision: str) -> Capacity:
    """Returns the capacity of the GPU that calls itself `name`, in "fp32" or "bf16"."""
    for chip, sustained in PAPER_DEVICES.items():
        if precision == "fp32" and re.search(rf"\b{chip}[cmt]?\b", name):  # K40c, K40m and K40t are one chip
            return Capacity(sustained, "paper")
    for pattern, peaks in PEAK_DEVICES.items():
        if precision in peaks and re.search(rf"\b{pattern}", name):
            return Capacity(peaks[precision], "peak")
    return UNKNOWN


@dataclass
class DeviceTime:
    """Time spent on one kind of device."""

    seconds: float  # of training, times the number of devices at work
    capacity: float | None  # operations a second, of one device
    basis: str

    @property
    def estimate(self) -> float | None:
        """Seconds × devices × capacity."""
        return None if self.capacity is None else self.seconds * self.capacity


@dataclass
class CostAccount:
    """The cost of a training, added up over all sessions and devices; saved with each checkpoint."""

    flops: int = 0  # counted: see `transduce.model.flops`
    steps: int = 0  # that were counted: fewer than all if an old version, which did not count, began the training
    devices: dict[str, DeviceTime] = field(default_factory=dict)  # by name

    def add(self, flops: int, seconds: float, device: str, capacity: Capacity, num_devices: int) -> None:
        """Adds one step."""
        self.flops += flops
        self.steps += 1
        entry = self.devices.setdefault(device, DeviceTime(0.0, None, "unknown"))
        entry.seconds += seconds * num_devices
        entry.capacity, entry.basis = capacity.flops_per_second, capacity.basis

    @property
    def estimate(self) -> float | None:
        """The paper's estimate: seconds × devices × capacity, summed; None where a capacity is unknown."""
        estimates = [entry.estimate for entry in self.devices.values()]
        known = [estimate for estimate in estimates if estimate is not None]
        return sum(known) if known and len(known) == len(estimates) else None

    def metrics(self) -> dict[str, Any]:
        """Returns what a model folder's `metrics.json` says of the cost; empty if nothing was counted."""
        if not self.steps:
            return {}
        values: dict[str, Any] = {"training_flops": self.flops, "training_flops_steps": self.steps}
        if self.estimate is not None:
            values["training_flops_estimate"] = self.estimate
        return values | {"training_flops_estimate_of": self._terms()}

    def summary(self) -> str:
        """Returns the account as a line to read."""
        if not self.steps:
            return "cost: not counted"
        cost = f"cost: {self.flops:.2e} FLOPs counted over {counted(self.steps, 'step')}"
        if self.estimate is None:
            return f"{cost}; the paper's estimate: unknown ({self._terms()})"
        share = self.flops / self.estimate if self.estimate else 0.0
        return f"{cost}; the paper's estimate {self.estimate:.2e} = {self._terms()}; {share:.0%} used"

    def _terms(self) -> str:
        terms = []
        for name, entry in self.devices.items():
            rate = "? FLOP/s" if entry.capacity is None else f"{entry.capacity / _TERA:.3g} TFLOP/s"
            terms.append(f"{counted(round(entry.seconds), 'device second')} × {rate} ({name}: {_BASES[entry.basis]})")
        return " + ".join(terms)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "CostAccount":
        """Rebuilds an account from what `dataclasses.asdict` returned."""
        devices = {
            name.replace(", 1 threads,", ", 1 thread,"): DeviceTime(**entry)  # 0.1.0 did not know the singular
            for name, entry in values["devices"].items()
        }
        return cls(values["flops"], values["steps"], devices)
