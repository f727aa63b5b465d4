"""How restricted attention grows with the length: time and memory at r = 128, against full attention.

    python benchmarks/windowed_attention.py                               JSON lines on standard output
    python benchmarks/windowed_attention.py --lengths 1024,16384 --output result.json

One layer's attention (8 heads of 64, one sequence, float32), forward and backward, given queries, keys and values.
Every length is measured in a process of its own, whose greatest memory the operating system reports; `peak_mib` is
what PyTorch's allocator held at most beyond the inputs. With `--threads 1`, times are the processor's.
`times_linear` is the time a position, against that of the first length. Full attention is
`scaled_dot_product_attention`, and with `--materialised` eq. 1 as written, which holds n × n weights.
"""

import argparse
import datetime
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

HEADS, WIDTH = 8, 64
LENGTHS = [1024, 2048, 4096, 8192, 16384]


def measure(system: str, length: int, window: int, causal: bool, device: torch.device) -> dict[str, Any]:
    """Times and weighs one length in this process."""
    from transduce.engines.allocator import keep_memory
    from transduce.experiments.paper.measure import peak_bytes, shortest_seconds
    from transduce.model.attention import attend, attend_reference
    from transduce.model.windowed import windowed_attend

    keep_memory()  # as training does
    torch.manual_seed(0)
    inputs = [torch.randn(1, HEADS, length, WIDTH, device=device, requires_grad=True) for _ in range(3)]
    weights = torch.randn(1, HEADS, length, WIDTH, device=device)

    def attended() -> torch.Tensor:
        if system == "windowed":
            return windowed_attend(*inputs, window=window, causal=causal)
        return (attend if system == "full" else attend_reference)(*inputs, causal=causal)

    def forward() -> torch.Tensor:
        with torch.no_grad():
            return attended()

    def both() -> Any:
        return torch.autograd.grad((attended() * weights).sum(), inputs)

    row: dict[str, Any] = {"system": system, "n": length, "r": window if system == "windowed" else length}
    for name, run in (("forward", forward), ("forward_backward", both)):
        row[f"{name}_ms"] = round(shortest_seconds(run, device, budget_seconds=1.0, at_least=5) * 1e3, 2)
        row[f"{name}_peak_mib"] = round(peak_bytes(run, device) / 2**20, 1)
    row["process_peak_mib"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10, 1)
    return row


def main() -> None:
    """Reads the command line and runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=lambda text: [int(n) for n in text.split(",")], default=LENGTHS)
    parser.add_argument("--full-lengths", type=lambda text: [int(n) for n in text.split(",")], default=[1024, 4096])
    parser.add_argument("--window", type=int, default=128)
    parser.add_argument("--causal", action="store_true")
    parser.add_argument(
        "--materialised", action="store_true", help="also eq. 1 as written, at the lengths of --full-lengths"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0, help="0: PyTorch's default")
    parser.add_argument("--one", nargs=2, metavar=("SYSTEM", "N"), help="measure one in this process")
    parser.add_argument("--output", type=Path, help="also write the result here, as JSON")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    if args.one:
        row = measure(args.one[0], int(args.one[1]), args.window, args.causal, torch.device(args.device))
        print(json.dumps(row), flush=True)
        return
    cases = [("windowed", n) for n in args.lengths] + [("full", n) for n in args.full_lengths]
    cases += [("materialised", n) for n in args.full_lengths] if args.materialised else []
    rows: list[dict[str, Any]] = []
    for system, n in cases:
        command = [sys.executable, __file__, "--one", system, str(n), "--window", str(args.window)]
        command += ["--device", args.device, "--threads", str(args.threads)] + ["--causal"] * args.causal
        quiet = os.environ | {"KINETO_LOG_LEVEL": "99"}  # the profiler announces itself on standard error
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=quiet)
        row = json.loads(done.stdout)
        first = next((other for other in rows if other["system"] == system), row)
        for name in ("forward", "forward_backward"):
            growth = row[f"{name}_ms"] / first[f"{name}_ms"] / (n / first["n"])
            row[f"{name}_times_linear"] = round(growth, 3)
        rows.append(row)
        print(json.dumps(row), flush=True)
    if args.output:
        from transduce.reporting.machine import describe_machine

        result = {
            "date": datetime.date.today().isoformat(),
            "what": f"attention of one sequence, {HEADS} heads of {WIDTH}, float32, causal: {args.causal}",
            "machine": describe_machine(),
            "rows": rows,
        }
        args.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
