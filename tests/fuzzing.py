"""Runs the command line on hostile input, many times, and judges what came of it.

A worker process runs one case after another, so that torch is imported once; it is started anew after a case that dies,
hangs or takes too much memory. What is promised of each case:

- no traceback: one line that begins with "error:" after the command's name, and an exit code of ours;
- what must fail fails, and its line names what is at fault; what succeeds passes its own check;
- under 10 seconds and 2 GB.
"""

import contextlib
import json
import os
import random
import re
import resource
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

MOST_SECONDS, MOST_BYTES = 10.0, 2 * 1024**3
CODES = {0, 1, 2, 3, 4, 5, 6, 7, 8}  # see `transduce.errors`; 2 is argparse's too
_PATIENCE = 60.0  # seconds until a worker is killed; what takes over 10 has failed anyway


@dataclass(frozen=True)
class Case:
    """One command line."""

    arguments: list[str]
    must_fail: bool = False
    named: tuple[str, ...] = ()  # one of these stands in the error, where it must fail
    prepare: Callable[[], None] | None = None  # called before
    check: Callable[[str], str] | None = None  # called with what was said, after success; returns what is wrong, or ""


@dataclass
class Outcome:
    """What came of a case."""

    arguments: list[str]
    code: int | None
    seconds: float
    said: str
    bytes: int = 0
    faults: list[str] = field(default_factory=list)


class Worker:
    """A process that runs command lines, in a folder of its own."""

    def __init__(self, folder: str) -> None:
        self._folder = folder  # for files of odd names, which are relative ones
        self._process: subprocess.Popen[str] | None = None

    def run(self, arguments: list[str]) -> dict[str, Any]:
        """Runs one command line; "died" stands in the result where the process did not survive it."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=self._folder
            )
            self._read(120.0)  # that it is ready
        assert self._process.stdin is not None
        begun = time.perf_counter()
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        line = self._read(_PATIENCE)
        if not line:
            self.close()
            return {"died": True, "code": None, "seconds": time.perf_counter() - begun, "said": "", "bytes": 0}
        found: dict[str, Any] = json.loads(line)
        if found["bytes"] > MOST_BYTES:
            self.close()  # else every later case would show this peak
        return found

    def _read(self, seconds: float) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        return self._process.stdout.readline() if ready else ""

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                assert stream is not None
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
            self._process = None


def run_cases(cases: Iterable[Case]) -> list[Outcome]:
    """Runs and judges each case."""
    folder, outcomes = tempfile.TemporaryDirectory(), []
    worker = Worker(folder.name)
    try:
        for case in cases:
            if case.prepare is not None:
                case.prepare()
            found = worker.run(case.arguments)
            outcome = Outcome(case.arguments, found["code"], found["seconds"], found["said"], found["bytes"])
            outcome.faults = _faults(case, outcome, found)
            outcomes.append(outcome)
    finally:
        worker.close()
        folder.cleanup()
    return outcomes


def _faults(case: Case, outcome: Outcome, found: dict[str, Any]) -> list[str]:
    faults = []
    if found.get("died"):
        faults.append("the process died or hung")
    if "Traceback (most recent call last)" in outcome.said:
        faults.append("a traceback")
    if outcome.code not in CODES:
        faults.append(f"exit code {outcome.code}")
    if outcome.seconds > MOST_SECONDS:
        faults.append(f"{outcome.seconds:.1f} seconds")
    if outcome.bytes > MOST_BYTES:
        faults.append(f"{outcome.bytes / 1e9:.1f} GB")
    errors = [line for line in outcome.said.splitlines() if re.match(r"transduce[ \w-]*: error: ", line)]
    if outcome.code and len(errors) != 1:
        faults.append(f"{len(errors)} lines of error")
    if case.must_fail:
        if outcome.code == 0:
            faults.append("exit code 0")
        elif case.named and not any(name in "".join(errors) for name in case.named):
            faults.append(f"names none of {', '.join(case.named)}")
    if outcome.code == 0 and case.check is not None and (wrong := case.check(outcome.said)):
        faults.append(wrong)
    return faults


def chosen(cases: list[Case], count: int, seed: int) -> list[Case]:
    """Returns `count` of the cases, as the seed has it; all where there are fewer."""
    return random.Random(seed).sample(cases, min(count, len(cases)))


def _serve() -> None:
    """Runs the command lines that standard input names, one a line, each with standard streams of its own."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    import torch  # noqa: F401  # its import is no part of a case's time

    from transduce.cli.main import main

    answers.write("ready\n")
    answers.flush()
    for line in requests:
        with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as wrote:
            os.dup2(said.fileno(), 2)
            os.dup2(wrote.fileno(), 1)
            begun, worked = time.perf_counter(), time.process_time()
            code = _code_of(partial(main, json.loads(line)))
            # Where other processes want the same cores, the clock on the wall says nothing about this one.
            seconds = min(time.perf_counter() - begun, time.process_time() - worked)
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
            said.seek(0)
            text = said.read(1_000_000).decode("utf-8", "backslashreplace")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        answers.write(json.dumps({"code": code, "seconds": seconds, "said": text, "bytes": peak}) + "\n")
        answers.flush()


def _code_of(run: Callable[[], int]) -> int:
    import traceback

    try:
        return run()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 99


def write_report(path: Path, what: str, seed: int, outcomes: list[Outcome]) -> None:
    """Writes what came of the cases as JSON, with each that is at fault."""
    codes: dict[str, int] = {}
    for each in outcomes:
        codes[str(each.code)] = codes.get(str(each.code), 0) + 1
    from transduce.paper.machine import describe_machine

    report = {
        "what": what,
        "machine": describe_machine(),
        "seed": seed,
        "cases": len(outcomes),
        "exit_codes": dict(sorted(codes.items())),
        "most_seconds": round(max(each.seconds for each in outcomes), 2),
        "most_bytes": max(each.bytes for each in outcomes),
        "faults": [
            {"arguments": [cut[:200] for cut in each.arguments], "faults": each.faults, "said": each.said[-1000:]}
            for each in outcomes
            if each.faults
        ],
    }
    path.write_text(json.dumps(report, indent=2, ensure_ascii=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _serve()
