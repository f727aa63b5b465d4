"""Measures how long an epoch of a mixture takes to plan, and the peak memory, for made sentence lengths.

    python benchmarks/mixture.py --pairs 36_000_000 > benchmarks/results/DATE-mixture.json

Each case is planned in a process of its own, which ends with its peak memory. The lengths look like those of sentences:
skewed, and the target correlated with the source.
"""

import argparse
import datetime
import json
import os
import platform
import resource
import subprocess
import sys
import time
from fractions import Fraction
from importlib.metadata import version
from typing import Any

import numpy as np

from transduce.data.batching import plan_epoch
from transduce.data.mixture import CorpusRows, Mixture, Phase

_SHARES = {"web": 0.8, "news": 0.15, "subtitles": 0.05}  # of the pairs
_CASES = {
    "all once": (1, 1, 1),
    "half of one corpus, others twice and three times": ("0.5", 2, 3),
    "a tenth of one corpus, others once and a half, and five times": ("0.1", "1.5", 5),
    "every corpus in part, more rows than pairs": ("1.1", "0.9", "2.7"),
}


def main() -> None:
    """Prints the result of all cases as JSON, or plans one case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=36_000_000)
    parser.add_argument("--budget", type=int, default=25_000, help="tokens of a batch, each side")
    parser.add_argument("--case", choices=_CASES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:
        print(json.dumps(plan(args.case, args.pairs, args.budget)))
        return
    runs = []
    for case in _CASES:
        command = [sys.executable, __file__, "--case", case, "--pairs", str(args.pairs), "--budget", str(args.budget)]
        runs.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    machine = {
        "cores": len(os.sched_getaffinity(0)),
        "processor": platform.machine(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "numpy": version("numpy"),
    }
    print(json.dumps({"date": datetime.date.today().isoformat(), "machine": machine, "runs": runs}, indent=2))


def plan(case: str, num_pairs: int, budget: int) -> dict[str, Any]:
    """Plans the second epoch of a case, whose rows do not begin where those of the first do."""
    source, target = lengths(num_pairs)
    sizes = [round(share * num_pairs) for share in _SHARES.values()]
    corpora = tuple(CorpusRows(name, size, 0, 0) for name, size in zip(_SHARES, sizes, strict=True))
    mixture = Mixture(corpora, (Phase(0, tuple(Fraction(weight) for weight in _CASES[case])),))
    started, started_cpu = time.perf_counter(), time.process_time()
    rows = mixture.rows(mixture.phases[0], seed=1, epoch=1)
    drawn_seconds = time.process_time() - started_cpu
    made = plan_epoch(source, target, source_budget=budget, target_budget=budget, seed=1, epoch=1, rows=rows)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - started_cpu
    return {
        "case": case,
        "pairs": num_pairs,
        "weights": dict(zip(_SHARES, map(str, _CASES[case]), strict=True)),
        "rows_of_the_epoch": len(made.rows),
        "batches": len(made),
        "padding_share": round(made.padding_share, 4),
        "seconds": round(seconds, 1),
        "processor_seconds": round(cpu_seconds, 1),
        "processor_seconds_for_drawing": round(drawn_seconds, 1),
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def lengths(num_pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns made lengths of both sides, made in parts to keep the peak memory that of planning."""
    generator = np.random.default_rng(7)
    source, target = (np.empty(num_pairs, dtype=np.int32) for _ in range(2))
    for start in range(0, num_pairs, 1_000_000):
        part = slice(start, min(start + 1_000_000, num_pairs))
        count = part.stop - part.start
        source[part] = np.clip(generator.gamma(3.0, 9.0, count), 2, 250)
        target[part] = np.clip(source[part] * generator.normal(1.1, 0.2, count), 2, 250)
    return source, target


if __name__ == "__main__":
    main()
