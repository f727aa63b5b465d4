"""Runs the command line on hostile input, many times, and judges each outcome.

A server process imports everything once and forks for each case, so that a case costs a fraction of a second and its
time and memory are its own. What is promised of each case:

- no traceback; an exit code of ours; where it fails, exactly one line that begins with "transduce …: error:";
- what must fail fails, and its line names what is at fault; what succeeds passes its own check;
- under 10 seconds and 2 GB.
"""

import contextlib
import gc
import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

MAX_SECONDS, MAX_BYTES = 10.0, 2_000_000_000
_HANGS_AFTER = 90.0  # seconds of the clock: other processes may want the same cores
_CRASHED = 70  # exit code of an exception that nobody caught
_ERROR_CODES = range(1, 8)  # see `transduce.errors`; 2 is argparse's too
_MAX_TEXT = 1_000_000


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    exit_code: int
    stdout: str
    stderr: str
    seconds: float  # of the clock or of CPU time, whichever is less: neither a sleep nor a busy machine counts
    peak_bytes: int


def accept(outcome: Outcome) -> str:
    """Finds nothing wrong with any outcome."""
    return ""


@dataclass(frozen=True)
class Case:
    """One command line, and what is hostile about it."""

    arguments: list[str]
    damage: str = ""  # the way in which the input is wrong, for counting
    lines: str = ""  # standard input
    cache: str = "cache"  # the user's cache, in the runner's folder
    must_fail: bool = False
    named: tuple[str, ...] = ()  # one of these stands in the error, if there is one
    prepare: Callable[[], str] | None = None  # called before; returns what it did
    check: Callable[[Outcome], str] = accept  # called after; returns what is wrong, or ""


@dataclass(frozen=True)
class Result:
    """What became of a case."""

    case: Case
    prepared: str
    outcome: Outcome
    faults: list[str]


class Runner:
    """Runs cases, one at a time, in a folder that relative paths refer to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._server = subprocess.Popen(
            [sys.executable, "-P", __file__],  # -P: the modules beside this one are no top-level ones
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
        )

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()  # ends it
        self._server.wait()
        self._server.stdout.close()

    def run(self, case: Case) -> Outcome:
        """Runs the case's command, without judging it."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        cache = str((self.folder / case.cache).resolve())
        request = {"arguments": case.arguments, "lines": case.lines, "cache": cache, "folder": str(self.folder)}
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        assert answer, "the server of the cases has ended"
        return Outcome(**json.loads(answer))

    def results(self, cases: Iterable[Case]) -> Iterator[Result]:
        """Prepares, runs and judges each case."""
        for case in cases:
            prepared = case.prepare() if case.prepare else ""
            outcome = self.run(case)
            yield Result(case, prepared, outcome, faults_of(case, outcome))


def faults_of(case: Case, outcome: Outcome) -> list[str]:
    """Returns all that is wrong with an outcome."""
    faults = []
    errors = [line for line in outcome.stderr.splitlines() if re.match(r"transduce[ \w-]*: error: ", line)]
    if "Traceback (most recent call last)" in outcome.stderr:
        faults.append("a traceback")
    if outcome.exit_code == 0:
        if case.must_fail:
            faults.append("exit code 0, and no result can be right")
    elif outcome.exit_code not in _ERROR_CODES:
        faults.append(f"exit code {outcome.exit_code}")
    elif len(errors) != 1:
        faults.append(f"{len(errors)} lines of error")
    elif case.named and not any(name in errors[0] for name in case.named):
        faults.append(f"names none of {', '.join(case.named)}")
    if outcome.seconds > MAX_SECONDS:
        faults.append(f"{outcome.seconds:.1f} seconds")
    if outcome.peak_bytes > MAX_BYTES:
        faults.append(f"{outcome.peak_bytes / 1e6:.0f} MB")
    wrong = case.check(outcome)
    return [*faults, wrong] if wrong else faults


# --- in the server --------------------------------------------------------------------------------------------


def _serve() -> None:
    """Runs the commands that standard input asks for, one a line, and answers each with its outcome."""
    _import_all()
    for line in sys.stdin:
        print(json.dumps(_outcome(json.loads(line))), flush=True)


def _import_all() -> None:
    """Imports what commands need: in a case it would count as the case's time, and be done again in each."""
    import ctranslate2  # noqa: F401
    import sacrebleu  # noqa: F401
    import sentencepiece  # noqa: F401
    import sentencex  # noqa: F401
    import torch._dynamo  # noqa: F401  what an optimiser imports
    import yaml  # noqa: F401

    import transduce.cli.main
    import transduce.engines.ctranslate2
    import transduce.engines.sinusoids
    import transduce.evaluation.bleu
    import transduce.export.imports
    import transduce.runs
    import transduce.training.event_file
    import transduce.translation.pipeline
    import transduce.translation.streams
    import transduce.translation.translator

    transduce.cli.main.build_parser()  # imports the commands
    gc.freeze()  # collections in the forked processes leave alone, and so share, what is here


def _outcome(request: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begun = time.monotonic()
        child = os.fork()
        if child == 0:
            _be_command(request, out, err)
        try:
            status, usage = _wait(child)
        except BaseException:
            os.kill(child, signal.SIGKILL)
            raise
        unit = 1 if sys.platform == "darwin" else 1024
        return {
            "exit_code": os.waitstatus_to_exitcode(status),
            "stdout": _text(out),
            "stderr": _text(err),
            "seconds": min(time.monotonic() - begun, usage.ru_utime + usage.ru_stime),
            "peak_bytes": usage.ru_maxrss * unit,
        }


def _wait(child: int) -> tuple[int, resource.struct_rusage]:
    """Waits until the process ends; ends it when it hangs, or before it takes the machine's memory."""
    memory = Path(f"/proc/{child}/statm")
    deadline = time.monotonic() + _HANGS_AFTER
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            return status, usage
        pages = int(memory.read_text().split()[1]) if memory.exists() else 0
        if time.monotonic() > deadline or pages * resource.getpagesize() > 2 * MAX_BYTES:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.005)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_MAX_TEXT).decode("utf-8", "backslashreplace")


def _be_command(request: dict[str, Any], out: IO[bytes], err: IO[bytes]) -> None:
    """Is the forked process, and ends it."""
    code = _CRASHED
    try:
        from transduce.cli.main import main

        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        os.chdir(request["folder"])
        os.environ["XDG_CACHE_HOME"] = request["cache"]
        sys.stdin = io.TextIOWrapper(io.BytesIO(request["lines"].encode()), encoding="utf-8")
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        code = main(request["arguments"])
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
