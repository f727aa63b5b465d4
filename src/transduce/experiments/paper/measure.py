"""Time, floating-point operations and memory of a function, and the powers that they grow by."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.autograd.profiler import profile
from torch.utils.flop_counter import FlopCounterMode

Run = Callable[[], object]


def shortest_seconds(run: Run, device: torch.device, *, budget_seconds: float, at_least: int = 3) -> float:
    """Returns the shortest time of several runs, in seconds: other load on the machine can only make a run longer.

    The first run warms up and does not count; then there are `at_least` runs, and more within the budget. On a CPU with
    one thread, processor time is taken, which other processes do not change.
    """
    alone = device.type == "cpu" and torch.get_num_threads() == 1
    clock = time.process_time if alone else time.perf_counter

    def once() -> float:
        _wait(device)
        started = clock()
        run()
        _wait(device)
        return clock() - started

    once()
    times: list[float] = []
    while len(times) < at_least or (sum(times) < budget_seconds and len(times) < 100):
        times.append(once())
    return min(times)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_bytes(run: Run, device: torch.device) -> int:
    """Returns the peak memory of `run` above what was allocated before it, its result included.

    On a CPU, the profiler records every block that PyTorch's allocator gives out and takes back, temporaries of fused
    kernels too; memory that libraries get from the system (oneDNN's and MKL's) is not in it. On CUDA, the allocator has
    the figure.
    """
    run()  # what is allocated once and kept does not count
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        return torch.cuda.max_memory_allocated(device) - before
    with profile(profile_memory=True) as profiler:
        result = run()
    del result
    events = profiler.kineto_results.events()
    changes = sorted((event for event in events if event.name() == "[memory]"), key=lambda event: event.start_ns())
    return max(0, int(np.cumsum([0, *(event.nbytes() for event in changes)]).max()))


def count_flops(run: Run) -> int:
    """Returns the floating-point operations of the matrix products and convolutions of `run`, two per multiply-add.

    Softmax, activations and sums are not counted. Nor is a fused LSTM: see `recurrent_flops`.
    """
    fused_on_cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    counter = FlopCounterMode(display=False, custom_mapping={fused_on_cpu: _attention_flops})
    with counter:
        run()
    return int(counter.get_total_flops())


def _attention_flops(query: Sequence[int], key: Sequence[int], value: Sequence[int], *_: Any, **__: Any) -> int:
    batch, heads, queries, width = query
    return 2 * batch * heads * queries * key[-2] * (width + value[-1])


def exponents(samples: Sequence[Mapping[str, float]], of: str, by: Sequence[str]) -> dict[str, float]:
    """Fits log `of` = c + Σ a · log `by` by least squares and returns each a: 2 says "quadratic in".

    A quantity with one value in all samples has no exponent, nor has any where there are too few samples.
    """
    varied = [name for name in by if len({sample[name] for sample in samples}) > 1]
    if len(samples) <= len(varied):
        return {}
    logs = np.array([[1.0, *(math.log(sample[name]) for name in varied)] for sample in samples])
    wanted = np.array([math.log(sample[of]) for sample in samples])
    solution, *_ = np.linalg.lstsq(logs, wanted, rcond=None)
    return dict(zip(varied, (float(value) for value in solution[1:]), strict=True))


def crossing(xs: Sequence[float], ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """Returns the x from which on `ours` is greater, interpolated between samples on logarithmic axes.

    None where it is not greater at the last sample; the first x where it is greater at all.
    """
    gaps = [math.log(our / their) for our, their in zip(ours, theirs, strict=True)]
    if gaps[-1] <= 0:
        return None
    last = max((index for index, gap in enumerate(gaps) if gap <= 0), default=-1)
    if last < 0:
        return xs[0]
    (x0, x1), (gap0, gap1) = (math.log(xs[last]), math.log(xs[last + 1])), gaps[last : last + 2]
    return math.exp(x0 + (x1 - x0) * -gap0 / (gap1 - gap0))
