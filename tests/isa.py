"""Runs the tests that compute as other processors would: `make test-isa`.

PyTorch, oneDNN and CTranslate2 choose their kernels by the instructions of the processor. Environment variables lower
that choice, so that one machine rounds as several do. Each combination runs all tests marked `computes`.

    python tests/isa.py                       every combination that this processor can run
    python tests/isa.py --only 2,5            some of them
    python tests/isa.py -- tests/parity -x    other tests, and options of pytest
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parents[1]
_LEVELS = ("DEFAULT", "AVX2", "AVX512")


@dataclass(frozen=True)
class Combination:
    """What the libraries are told of the processor.

    Attributes:
        aten: the instructions of PyTorch's own kernels; bf16 is off below avx512.
        onednn: the newest instructions that oneDNN may use ("" for all).
        ctranslate2: the instructions of CTranslate2.
        mkl: whether CTranslate2 multiplies by MKL ("" for its own choice: on Intel it does).
        threads: threads of OpenMP in each process.
    """

    aten: str
    onednn: str
    ctranslate2: str
    mkl: str
    threads: int

    @property
    def environment(self) -> dict[str, str]:
        """The variables to set."""
        variables = {
            "ATEN_CPU_CAPABILITY": self.aten,
            "ONEDNN_MAX_CPU_ISA": self.onednn,
            "CT2_FORCE_CPU_ISA": self.ctranslate2,
            "CT2_USE_MKL": self.mkl,
            "OMP_NUM_THREADS": str(self.threads),
            "GOMP_SPINCOUNT": "5000" if self.threads > 1 else "",  # as the command line has it: waiting costs little
        }
        return {name: value for name, value in variables.items() if value}

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.environment.items())


# bf16 is on in 3 (in oneDNN's emulation) and 4 (by the processor's instructions), off in the others.
COMBINATIONS = (
    Combination("default", "SSE41", "GENERIC", "", 1),
    Combination("avx2", "AVX2", "AVX2", "", 1),
    Combination("avx512", "AVX512_CORE", "AVX512", "1", 2),
    Combination("avx512", "", "AVX512", "", 3),
    Combination("avx2", "AVX2_VNNI", "AVX", "1", 2),
    Combination("default", "", "AVX2", "0", 3),
)


def supported(combination: Combination, level: str) -> bool:
    """Returns whether a processor whose PyTorch calls its instructions `level` can run the combination."""
    if level not in _LEVELS:  # not x86
        return combination.aten == "default" and combination.ctranslate2 == "GENERIC"
    needed = {combination.aten.upper(), combination.ctranslate2.replace("GENERIC", "DEFAULT")} & set(_LEVELS)
    return all(_LEVELS.index(each) <= _LEVELS.index(level) for each in needed)


def processor_level() -> str:
    """Returns what PyTorch calls the instructions of this processor, asked in a process without our variables."""
    clean = {name: value for name, value in os.environ.items() if name != "ATEN_CPU_CAPABILITY"}
    code = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    return subprocess.run(
        [sys.executable, "-c", code], env=clean, check=True, capture_output=True, text=True
    ).stdout.strip()


def run_tests(combination: Combination, arguments: list[str]) -> tuple[int, str]:
    """Runs pytest under one combination and returns its exit code and its last line."""
    processes = max(1, (os.cpu_count() or 1) // combination.threads)
    command = [sys.executable, "-m", "pytest", "-q", "-m", "computes", "-p", "no:cacheprovider"]
    if processes > 1:
        command += ["--numprocesses", str(processes), "--dist", "loadfile"]
    command += arguments
    environment = {**os.environ, **combination.environment}
    last = ""
    with subprocess.Popen(command, cwd=_REPOSITORY, env=environment, stdout=subprocess.PIPE, text=True) as tests:
        assert tests.stdout is not None
        for line in tests.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    return tests.returncode, last


def main(arguments: list[str] | None = None) -> int:
    """Runs the combinations one after another, prints a table, and returns 1 if any of them failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="N,N", help="numbers of the combinations to run, from 1")
    parser.add_argument("pytest", nargs="*", help="files, and after -- options of pytest")
    given = parser.parse_args(arguments)
    try:
        numbers = [int(each) for each in given.only.split(",")] if given.only else range(1, len(COMBINATIONS) + 1)
        chosen = [(number, COMBINATIONS[number - 1]) for number in numbers if number >= 1 or parser.error("from 1")]
    except (ValueError, IndexError):
        parser.error(f"--only {given.only}: numbers from 1 to {len(COMBINATIONS)}, such as 1,3")

    level = processor_level()
    rows, failed = [], False
    for number, combination in chosen:
        title = f"{number}/{len(COMBINATIONS)}: {combination}"
        if not supported(combination, level):
            rows.append(f"{title}\n    not run: this processor has {level}")
            continue
        print(f"\n=== {title}", flush=True)
        began, cpu_began = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        code, last = run_tests(combination, given.pytest)
        cpu = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_seconds = cpu.ru_utime + cpu.ru_stime - cpu_began.ru_utime - cpu_began.ru_stime
        failed |= code != 0
        last = re.sub(r"^=+ | =+$", "", last)
        rows.append(
            f"{title}\n    {'failed' if code else 'passed'}: {last} "
            f"({time.monotonic() - began:.0f} s, {cpu_seconds:.0f} s of CPU)"
        )
    print(f"\n=== on a processor with {level}, {os.cpu_count()} cores")
    print("\n".join(rows))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
