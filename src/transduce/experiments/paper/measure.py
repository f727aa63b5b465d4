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


def shortest_seconds(run: Run, device: torch.device, *, budget_seconds: float = 0.5, at_least: int = 3) -> float:
    """Returns the least time of several runs, in seconds: what else goes on in a machine only ever adds.

    The first run warms up and is not counted; then there are `at_least` runs, and more within the budget. On a CPU with
    one thread it is the processor's time: as long as a run takes on a machine that has nothing else to do.
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
    """Returns the most memory that `run` held at one time beyond what was there before it, its result included.

    On a CPU: the running sum of every block that PyTorch's allocator gave out and took back, as the profiler records
    them, temporaries inside of fused kernels among them. What libraries get from the system by themselves (scratch
    memory of oneDNN and MKL) is not in it. On CUDA: the allocator's own statistics.
    """
    run()  # what is made once and kept is not the run's
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
    """Returns the floating-point operations of the matrix products and convolutions of `run`, two a multiply-add.

    Softmax, activations and sums are not counted; nor is a fused LSTM, whose count is for the caller to know.
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

    A quantity that the samples do not vary, or of which there is too little to tell, has no exponent: it is left out.
    """
    varied = [name for name in by if len({sample[name] for sample in samples}) > 1]
    if len(samples) <= len(varied):
        return {}
    logs = np.array([[1.0, *(math.log(sample[name]) for name in varied)] for sample in samples])
    wanted = np.array([math.log(sample[of]) for sample in samples])
    solution, *_ = np.linalg.lstsq(logs, wanted, rcond=None)
    return dict(zip(varied, (float(value) for value in solution[1:]), strict=True))


def crossing(xs: Sequence[float], ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """Returns the x from which on `ours` is the greater, between samples by a straight line of logarithms.

    None where it is the greater nowhere at the last sample; the first x where it is so throughout.
    """
    gaps = [math.log(our / their) for our, their in zip(ours, theirs, strict=True)]
    if gaps[-1] <= 0:
        return None
    last = max((index for index, gap in enumerate(gaps) if gap <= 0), default=-1)
    if last < 0:
        return xs[0]
    (x0, x1), (gap0, gap1) = (math.log(xs[last]), math.log(xs[last + 1])), gaps[last : last + 2]
    return math.exp(x0 + (x1 - x0) * -gap0 / (gap1 - gap0))
