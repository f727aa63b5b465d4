"""Damaged folders: a command must answer with the right result, or with one line that says what is wrong.

    python benchmarks/fuzz_folders.py --cases 300 --seed 1 --output result.json

Each case copies a sound folder, damages it as its number says (bits flipped, files cut, swapped, missing, JSON values
of odd types and sizes, headers that lie, conversions made elsewhere) and runs one command on it. A fault is a
traceback, exit code 0 with another result than that of the sound folder, an error without a line of ours, more than
10 seconds of CPU time or 2 GB. Commands run in processes forked from one that has imported everything, so that a case
costs a fraction of a second. Another kind of folder is another `Subject`.
"""

import argparse
import contextlib
import datetime
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from folder_damage import MODEL_DAMAGES, Damage

_FIXTURES = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "0.1.0"
MAX_SECONDS, MAX_BYTES = 10.0, 2_000_000_000
_HANGS_AFTER = 90  # of the clock, on a machine that has other things to do
_CRASHED = 70  # exit code of an exception that nobody caught
_OUR_EXIT_CODES = range(1, 8)


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    exit_code: int
    stdout: str
    stderr: str
    seconds: float  # of CPU time
    peak_bytes: int


@dataclass(frozen=True)
class Subject:
    """A kind of folder: how a sound one is made, what may happen to it, and what is run on it."""

    prepare: Callable[[Path], None]  # fills an empty folder
    damages: Sequence[Damage]
    commands: dict[str, Callable[[Path], list[str]]]  # by name: arguments of `transduce`, given the folder
    results: frozenset[str]  # the commands whose output is a result: the same whenever the exit code is 0
    lines: str = ""  # standard input


def prepare_models(root: Path) -> None:
    """Writes a model, with shortlist and conversions, beside another that files can be swapped with."""
    from transduce.bundle import Bundle, save_bundle
    from transduce.cli.main import main

    for name in ("model", "model-learned"):
        old = Bundle.load(_FIXTURES / name)
        folder = root / {"model": "model", "model-learned": "other"}[name]
        save_bundle(folder, old.config, old.weights(), old.tokenizer, old.metrics)
        corpus = [str(_FIXTURES / "corpus" / f"train.{language}") for language in ("en", "de")]
        main(["shortlist", str(folder), "--source", corpus[0], "--target", corpus[1]])


def _translate(*options: str) -> Callable[[Path], list[str]]:
    return lambda root: ["translate", str(root / "model"), "--device", "cpu", "--threads", "1", *options]


MODELS = Subject(
    prepare=prepare_models,
    damages=MODEL_DAMAGES,
    commands={
        "torch": _translate("--engine", "torch"),
        "torch, shortlist": _translate("--engine", "torch", "--shortlist", "on"),
        "ctranslate2": _translate("--engine", "ctranslate2"),
        "ctranslate2, int8": _translate("--engine", "ctranslate2", "--quantization", "int8"),
        "ctranslate2, shortlist": _translate("--engine", "ctranslate2", "--shortlist", "on"),
        "info": lambda root: ["info", str(root / "model")],
    },
    results=frozenset({"torch", "torch, shortlist", "ctranslate2", "ctranslate2, int8", "ctranslate2, shortlist"}),
    lines="The date is the third of May .\nIt costs 5 euros .\n",
)
SUBJECTS = {"models": MODELS}


def run_command(arguments: Sequence[str], lines: str, cache: Path) -> Outcome:
    """Runs `transduce` in a forked process."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _be_command(arguments, lines, cache, out.fileno(), err.fileno())
        deadline = time.monotonic() + _HANGS_AFTER
        while True:
            done, status, usage = os.wait4(child, os.WNOHANG)
            if done:
                break
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.005)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    seconds = usage.ru_utime + usage.ru_stime
    return Outcome(os.waitstatus_to_exitcode(status), *texts, seconds, usage.ru_maxrss * 1024)


def _be_command(arguments: Sequence[str], lines: str, cache: Path, out: int, err: int) -> None:
    """Is the forked process, and ends it."""
    code = _CRASHED
    try:
        from transduce.cli.main import main

        os.dup2(out, 1)
        os.dup2(err, 2)
        os.environ["XDG_CACHE_HOME"] = str(cache)
        sys.stdin = io.TextIOWrapper(io.BytesIO(lines.encode()), encoding="utf-8")
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2 * MAX_BYTES, used + 2 * MAX_BYTES))  # spares the machine
        code = main(arguments)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def fault_of(outcome: Outcome, expected: str | None, *, must_fail: bool) -> str | None:
    """Returns what is wrong with an outcome, or None; `expected` is the result that exit code 0 must have."""
    errors = outcome.stderr.splitlines()
    if outcome.exit_code == 0:
        if must_fail:
            return "exit code 0 though the folder cannot be right"
        if expected is not None and outcome.stdout != expected:
            return f"exit code 0 with another result: {outcome.stdout[:200]!r}"
    elif outcome.exit_code not in _OUR_EXIT_CODES:
        return f"exit code {outcome.exit_code}: {outcome.stderr[-600:]}"
    elif not any(line.startswith("transduce: error: ") for line in errors):
        return f"no line of ours: {outcome.stderr[-600:]}"
    elif not re.search(r"[/.]\w", "".join(line for line in errors if line.startswith("transduce: error: "))):
        return f"names no file or key: {outcome.stderr[-600:]}"
    if "Traceback" in outcome.stderr:
        return f"a traceback: {outcome.stderr[-600:]}"
    if outcome.seconds > MAX_SECONDS:
        return f"{outcome.seconds:.1f} seconds"
    return f"{outcome.peak_bytes / 1e6:.0f} MB" if outcome.peak_bytes > MAX_BYTES else None


def run_cases(subject: Subject, seed: int, num_cases: int, folder: Path) -> list[dict[str, Any]]:
    """Runs cases, and returns what each did."""
    sound = folder / "sound"
    sound.mkdir()
    preparing = os.fork()
    if preparing == 0:  # what threads this begins, stay with it
        try:
            subject.prepare(sound)
        except BaseException:
            traceback.print_exc()
            os._exit(_CRASHED)
        os._exit(0)
    if os.waitpid(preparing, 0)[1]:
        raise SystemExit("the sound folder could not be made")
    expected = {}
    for name, command in subject.commands.items():
        found = run_command(command(sound), subject.lines, sound / "cache")
        if found.exit_code:
            raise SystemExit(f"{name}, on the sound folder: {found.stderr}")
        expected[name] = found.stdout
    cases = []
    names = list(subject.commands)
    for number in range(num_cases):
        generator = random.Random(f"{seed}:{number}")
        root = folder / "case"
        shutil.copytree(sound, root, symlinks=True)
        damage, name = subject.damages[number % len(subject.damages)], generator.choice(names)
        what = damage.make(generator, root)
        outcome = run_command(subject.commands[name](root), subject.lines, root / "cache")
        wanted = expected[name] if name in subject.results and not damage.makes_another else None
        fault = fault_of(outcome, wanted, must_fail=damage.must_fail and name in subject.results)
        last = outcome.stderr.strip().splitlines()[-1:] or [""]
        cases.append(
            {"number": number, "damage": damage.name, "what": what, "command": name, "exit_code": outcome.exit_code}
            | {"seconds": round(outcome.seconds, 2), "peak_mb": round(outcome.peak_bytes / 1e6), "fault": fault}
            | {"message": last[0].replace(str(root), "ROOT")[:300]}
        )
        shutil.rmtree(root)
    return cases


def summary(cases: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the figures of all cases."""
    return {
        "cases": len(cases),
        "faults": sum(case["fault"] is not None for case in cases),
        "exit_codes": dict(sorted(Counter(str(case["exit_code"]) for case in cases).items())),
        "damages": dict(sorted(Counter(case["damage"] for case in cases).items())),
        "most_seconds": max(case["seconds"] for case in cases),
        "most_mb": max(case["peak_mb"] for case in cases),
    }


def main() -> int:
    """Reads the command line and runs; the exit code says whether there was a fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subject", choices=SUBJECTS, default="models")
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="also write the result here, as JSON")
    args = parser.parse_args()
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
    import ctranslate2  # noqa: F401  imported once, for all that is forked from here
    import torch  # noqa: F401

    import transduce.cli.main
    import transduce.engines.ctranslate2
    import transduce.engines.ctranslate2_model
    import transduce.engines.torch
    import transduce.shortlist.table  # noqa: F401

    with tempfile.TemporaryDirectory() as folder:
        cases = run_cases(SUBJECTS[args.subject], args.seed, args.cases, Path(folder))
    figures = summary(cases)
    print(json.dumps(figures, indent=2))
    for case in cases:
        if case["fault"]:
            print(json.dumps(case, indent=2))
    if args.output:
        result = {
            "date": datetime.date.today().isoformat(),
            "what": f"damaged {args.subject}: commands on folders damaged at random; see benchmarks/fuzz_folders.py",
            "seed": args.seed,
            "machine": {"python": sys.version.split()[0], "cores": os.cpu_count()},
            "summary": figures,
            "cases": cases,
        }
        args.output.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if figures["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
