"""Where the time of a training step goes: shares of processor time by kind of operation, and of the matmul peak.

    python benchmarks/train_profile.py --config base --precision bf16 --threads 1 --output result.json

The batches and models are those of `train.py`. Shares are of the time that PyTorch's profiler gives to each operation
by itself. The peak is the rate of a product of large matrices, measured in the same process.
"""

import argparse
import datetime
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

import train

KINDS = {
    "matrix products": ("mm", "addmm", "addmm_", "bmm", "baddbmm"),
    "copies and conversions": ("copy_", "cat", "index_copy", "index_select", "gather", "clone"),
    "optimiser": ("_fused_adam_",),
    "softmax": ("_softmax", "_softmax_backward_data", "amax", "logsumexp"),
    "dropout": ("random_", "bernoulli_", "ge", "_CpuDropout", "lt"),
    "layer norm": ("native_layer_norm", "native_layer_norm_backward"),
    "zeros": ("fill_", "zero_"),
    "sums": ("sum", "add_", "add"),
}


def shares(events: Any) -> dict[str, float]:
    """Returns the share of processor time of each kind; `other` is the rest."""
    kind_of = {name: kind for kind, names in KINDS.items() for name in names}
    seconds = dict.fromkeys([*KINDS, "other"], 0.0)
    for event in events:
        seconds[kind_of.get(event.key.removeprefix("aten::"), "other")] += event.self_cpu_time_total
    total = sum(seconds.values())
    return {kind: round(each / total, 4) for kind, each in seconds.items()}


def main() -> None:
    """Trains on the five batches, first timed, then profiled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", choices=train.SHAPES, default="base")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    from transduce.training.device import Compute, device_capacity

    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    train.keep_memory()
    compute, shape = Compute.of("cpu", args.precision), train.SHAPES[args.config]
    batches = train.make_batches(shape)
    model, loss_of = train.ours(shape, compute.dtype)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def one_pass() -> float:
        started = time.perf_counter()
        for source, target in batches:
            optimizer.zero_grad(set_to_none=True)
            loss_of(source, target).backward()
            optimizer.step()
        return time.perf_counter() - started

    one_pass()
    seconds = min(one_pass() for _ in range(2))
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        one_pass()
    rate, peak = train.count_flops(shape, batches) / seconds, device_capacity(compute).flops_per_second or float("nan")
    result = {
        "benchmark": "where a training step's time goes",
        "date": datetime.date.today().isoformat(),
        "config": args.config,
        "precision": args.precision,
        "target_tokens_per_second": round(sum(int((target != train.PAD).sum()) for _, target in batches) / seconds),
        "tflops_per_second": round(rate / 1e12, 3),
        "peak_tflops": round(peak / 1e12, 3),
        "share_of_peak": round(rate / peak, 3),
        "shares": shares(profiled.key_averages()),
        "machine": train.machine(torch.device("cpu")),
    }
    if args.output:
        args.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
