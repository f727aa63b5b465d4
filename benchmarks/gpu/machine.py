"""Says what a machine is, and how fast it multiplies large matrices: what the other figures are related to.

python benchmarks/gpu/machine.py --device cuda        one line of JSON
"""

import argparse
import importlib.metadata
import json
import platform
import shutil
import statistics
import subprocess
import time
from typing import Any

import torch

PACKAGES = ("transformers", "ctranslate2", "tokenizers", "pyarrow", "sacrebleu", "numpy", "safetensors")


def describe(device: torch.device) -> dict[str, Any]:
    """Returns names and versions."""
    said: dict[str, Any] = {
        "device": str(device),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        said |= {"gpu": torch.cuda.get_device_name(device), "gpu_memory_bytes": properties.total_memory}
        said |= {"compute_capability": list(torch.cuda.get_device_capability(device)), "driver": driver()}
    for package in PACKAGES:
        try:
            said[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            said[package] = None
    return said


def driver() -> str | None:
    """Returns the version of NVIDIA's driver, or None where nothing says it."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.splitlines()[0].strip() if done.returncode == 0 and done.stdout.strip() else None


def peak(device: torch.device, precision: str, size: int, repeats: int = 10) -> float:
    """Returns the TFLOP/s of products of two square matrices: the median of `repeats`."""
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    seconds = []
    for repeat in range(repeats + 3):
        started = time.perf_counter()
        torch.mm(left, right)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        if repeat >= 3:
            seconds.append(time.perf_counter() - started)
    torch.set_float32_matmul_precision("highest")
    return 2 * size**3 / statistics.median(seconds) / 1e12


def main() -> None:
    """Prints the description."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--size", type=int, default=8192, help="rows and columns; default: %(default)s")
    args = parser.parse_args()
    device = torch.device(args.device)
    peaks = {name: round(peak(device, name, args.size), 4) for name in ("bf16", "tf32", "fp32")}
    print(json.dumps({**describe(device), "matrix_size": args.size, "peak_tflops": peaks}))


if __name__ == "__main__":
    main()
