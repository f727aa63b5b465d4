"""Stops and signals one process of a training of several, and checks what the others say and how all of them end.

    OMP_NUM_THREADS=1 python benchmarks/signalled_ranks.py > benchmarks/results/DATE-signalled-ranks.json

stops          SIGSTOP to one process while it trains. The others must name it within 20 seconds, once; after SIGCONT
               they must say once that it answers again, and the training must end as if nothing had happened.
late signals   SIGTERM or SIGINT to one process, at a random moment after the last step was logged: while the last
               checkpoint and the model are written. The training is done, or it says that it was stopped or which
               process it lost; "done" is said once or not at all; there is no traceback and no broken pipe. If it is
               not done, it must be done after --resume.

Ends with exit code 1 where one of these did not come true.
"""

import argparse
import datetime
import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from interrupted_training import Processes, describe, write_corpus
from transduce.errors import TrainingError

_STEPS = 60
_MOST_SECONDS = 300.0  # until something is said, or all processes have ended
_NAMED_SECONDS = 20.0
_LATE_SECONDS = 2.0  # after the last step was logged


def main() -> int:
    """Prints the result as JSON; returns 1 where something did not come true."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--stops", type=int, default=4)
    parser.add_argument("--late-signals", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs, and their children, ignore it
    generator, stops, late = random.Random(args.seed), [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = ["train", str(write_corpus(folder, generator)), "--quiet"]
        for number in range(args.stops):
            stops.append(stop(args.ranks, command, folder / f"stop-{number}", number % args.ranks))
            print(stops[-1], file=sys.stderr, flush=True)
        for number in range(args.late_signals):
            kind = (signal.SIGTERM, signal.SIGINT)[number // args.ranks % 2]
            at = generator.uniform(0, _LATE_SECONDS)
            late.append(signal_late(args.ranks, command, folder / f"late-{number}", number % args.ranks, kind, at))
            print(late[-1], file=sys.stderr, flush=True)
    result = {
        "date": datetime.date.today().isoformat(),
        "what": "one process of several is stopped (SIGSTOP), or gets a signal after the last step",
        "command": f"signalled_ranks.py {' '.join(sys.argv[1:])}".rstrip(),
        "machine": describe(),
        "load_average": os.getloadavg(),
        "ranks": args.ranks,
        "as_expected": all(each["as_expected"] for each in (*stops, *late)),
        "most_seconds_until_named": max((each["seconds_until_named"] for each in stops), default=None),
        "stops": stops,
        "late_signals": late,
    }
    print(json.dumps(result, indent=2))
    return 0 if result["as_expected"] else 1


def stop(ranks: int, command: list[str], run: Path, rank: int) -> dict[str, Any]:
    """Stops one process while it trains, lets it go on, and returns what was said."""
    run.mkdir()
    processes = Processes(ranks, [*command, "--output", str(run / "run"), *_steps(1000)], run)
    wait_until(processes, lambda: last_step(run / "run") >= 3)
    processes.send(signal.SIGSTOP, [rank])
    started = time.monotonic()
    wait_until(processes, lambda: count_lines(processes, f"rank {rank} ", "does not answer") > 0)
    seconds = time.monotonic() - started
    time.sleep(5)  # it is not named again
    processes.send(signal.SIGCONT, [rank])
    wait_until(processes, lambda: count_lines(processes, f"rank {rank} ", "answers again") > 0)
    processes.send(signal.SIGTERM, [0])
    processes.wait()
    counts = {words: count_lines(processes, f"rank {rank} ", words) for words in ("does not answer", "answers again")}
    others = ranks - 1 if rank == 0 else 1  # the main process knows all, the others know the main one
    expected = seconds <= _NAMED_SECONDS and [*counts.values()] == [others] * 2 and is_clean(processes)
    expected = (
        expected
        and processes.exit_codes == [128 + signal.SIGTERM] * ranks
        and count_lines(processes, "stopped by") == 1
    )
    return {
        "rank": rank,
        "seconds_until_named": round(seconds, 2),
        **counts,
        "exit_codes": processes.exit_codes,
        "as_expected": expected,
        "messages": [] if expected else processes.messages().splitlines(),
    }


def signal_late(
    ranks: int, command: list[str], run: Path, rank: int, kind: signal.Signals, seconds: float
) -> dict[str, Any]:
    """Sends a signal to one process after the last step; returns how the training ended."""
    run.mkdir()
    arguments = [*command, "--output", str(run / "run"), *_steps(_STEPS)]
    processes = Processes(ranks, arguments, run)
    wait_until(processes, lambda: last_step(run / "run") >= _STEPS)
    time.sleep(seconds)
    was_running = processes.is_running()
    processes.send(kind, [rank])
    processes.wait()
    done, codes = count_lines(processes, "done after step"), processes.exit_codes
    ends = {0, 128 + kind, -kind}  # of the process itself: it was done, stopped, or killed by the signal
    expected = is_clean(processes) and codes[rank] in ends and done == (codes[0] == 0)
    expected = expected and all(
        code in (0, 128 + signal.SIGTERM, 128 + kind)
        or (code == TrainingError.exit_code and count_lines(processes, f"rank {rank} "))
        for other, code in enumerate(codes)
        if other != rank
    )
    messages = processes.messages()
    if codes[0]:
        again = Processes(ranks, [*arguments, "--resume"], run)
        again.wait()
        expected = expected and not any(again.exit_codes) and count_lines(again, "done after step") == 1
        messages += f"--resume\n{again.messages()}"
    return {
        "rank": rank,
        "signal": kind.name,
        "seconds_after_the_last_step": round(seconds, 2),
        "was_running": was_running,
        "exit_codes": codes,
        "done_said": done,
        "as_expected": bool(expected),
        "messages": messages.replace(f"{run}/", "").splitlines(),
    }


def _steps(count: int) -> list[str]:
    return ["--set", f"train.max_steps={count}"]


def is_clean(processes: Processes) -> bool:
    """Returns whether nothing was printed that no user should see."""
    return not any(words in processes.messages() for words in ("Traceback", "Broken pipe", "terminate called"))


def count_lines(processes: Processes, *words: str) -> int:
    """Returns how many lines with all of these words were printed."""
    return sum(all(word in line for word in words) for line in processes.messages().splitlines())


def last_step(run: Path) -> int:
    """Returns the last step that the log of a run has; 0 if there is none."""
    path = run / "metrics.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.is_file() else []
    return max((json.loads(line).get("step", 0) for line in lines if line.endswith("\n")), default=0)


def wait_until(processes: Processes, is_so: Any) -> None:
    """Waits; ends this program where it takes too long, or the processes have ended before."""
    deadline = time.monotonic() + _MOST_SECONDS
    while not is_so():
        if time.monotonic() > deadline or (not processes.is_running() and not is_so()):
            processes.send(signal.SIGKILL, range(len(processes.ids)))
            raise SystemExit(f"the training did not get that far:\n{processes.messages()}")
        time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main())
