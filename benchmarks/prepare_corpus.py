"""Measures `transduce prepare` on a corpus: pairs per second, peak memory of all its processes, padding.

    python benchmarks/prepare_corpus.py --corpus europarl-v7-en-fr --vocab-size 32000 \
        --train train-00.en.zst train-00.fr.zst --train train-01.en.zst train-01.fr.zst \
        --validation dev.en dev.fr --budget 25000 > benchmarks/results/DATE-prepare-europarl.json

The corpus is named in the result; its place on this machine is not.
"""

import argparse
import datetime
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

_SAMPLE_SECONDS = 0.05


def main() -> None:
    """Prepares into a temporary folder and prints the result as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True, help="name for the result")
    parser.add_argument("--train", nargs="+", action="append", required=True, metavar="FILE")
    parser.add_argument("--validation", nargs="+", default=[], metavar="FILE")
    parser.add_argument("--vocab-size", type=int, default=32000)
    parser.add_argument("--algorithm", choices=("bpe", "wordpiece"), default="bpe")
    parser.add_argument("--budget", type=int, default=25_000, help="tokens of a batch, each side")
    parser.add_argument("--workers", type=int)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(args, Path(folder) / "prepared"), indent=2))


def measure(args: argparse.Namespace, output: Path) -> dict[str, Any]:
    """Runs the command and returns what it took."""
    command = [sys.executable, "-m", "transduce.cli.main", "prepare", "--output", str(output)]
    for names in args.train:
        command += ["--train", *names]
    command += ["--validation", *args.validation] if args.validation else []
    command += ["--threads", str(args.workers)] if args.workers else []
    for setting in (
        f"text.vocab_size={args.vocab_size}",
        f"text.algorithm={args.algorithm}",
        f"train.source_batch_tokens={args.budget}",
        f"train.target_batch_tokens={args.budget}",
    ):
        command += ["--set", setting]
    load_before = os.getloadavg()[0]
    seconds, peak_bytes = run_and_watch(command)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    report = json.loads((output / "report.json").read_text())
    num_pairs = report["train"]["num_read"]
    return {
        "date": datetime.date.today().isoformat(),
        "corpus": args.corpus,
        "machine": {
            "cores": len(os.sched_getaffinity(0)),
            "processor": platform.machine(),
            "load_before": load_before,
            "load_after": os.getloadavg()[0],
            "python": platform.python_version(),
            "tokenizers": version("tokenizers"),
        },
        "algorithm": args.algorithm,
        "vocab_size": report["tokenizer"]["vocab_size"],
        "num_pairs": num_pairs,
        "num_pairs_kept": report["train"]["num_kept"],
        "seconds": round(seconds, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "pairs_per_second": round(num_pairs / seconds),
        "peak_memory_bytes": peak_bytes,
        "stage_seconds": report["seconds"],
        "mean_source_tokens": report["train"]["source_tokens"] / report["train"]["num_kept"],
        "mean_target_tokens": report["train"]["target_tokens"] / report["train"]["num_kept"],
        "epoch": report["epoch"],
    }


def run_and_watch(command: list[str]) -> tuple[float, int]:
    """Runs a command; returns its seconds and the largest memory that it and its children held at once."""
    start = time.perf_counter()
    peak = 0
    with subprocess.Popen(command, stdout=sys.stderr) as process:
        while process.poll() is None:
            peak = max(peak, tree_memory(process.pid))
            time.sleep(_SAMPLE_SECONDS)
    if process.returncode:
        sys.exit(process.returncode)
    return time.perf_counter() - start, peak


def tree_memory(pid: int) -> int:
    """Returns the resident bytes of a process and all its descendants (Linux)."""
    total, waiting = 0, [pid]
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    while waiting:
        folder = Path(f"/proc/{waiting.pop()}")
        try:
            total += int((folder / "statm").read_text().split()[1]) * page_bytes
            for task in (folder / "task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
    return total


if __name__ == "__main__":
    main()
