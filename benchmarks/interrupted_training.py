"""Interrupts a training at random moments and compares its model with that of an uninterrupted one, byte for byte.

    OMP_NUM_THREADS=1 python benchmarks/interrupted_training.py > benchmarks/results/DATE-interrupted-training.json
    OMP_NUM_THREADS=1 python benchmarks/interrupted_training.py --ranks 2 --dead-ranks 14 > …-two-ranks.json
    OMP_NUM_THREADS=1 python benchmarks/interrupted_training.py --ranks 2 --ends 50 > …-ends.json
    OMP_NUM_THREADS=1 python benchmarks/interrupted_training.py --modifiers > …-modifiers.json

    kills           SIGKILL to all processes
    dead ranks      SIGKILL to one process of several; the others must name it and end by themselves
    terminations    SIGTERM to one process, as of a scheduler
    interrupts      SIGINT to one process, as of Ctrl-C
    full disks      the main process may write no file above some kilobytes
    nan batches     the loss of some steps is NaN; the uninterrupted training is told to leave these steps out

The training has a mixture of corpora with tags, two target languages among them, and weights that change by phases.
With --modifiers, all modifiers change its text, each in a fifth of the lines. The training is started, resumes, and is
interrupted; some while it starts, prepares or averages, most while it trains. The last start is left alone. Processes
are forked, so that a start costs little. Ends with exit code 1 where a file differs, a batch is missing in
quarantine.jsonl or is there twice, or a process does not end.

With --ends, nothing is interrupted: a training is resumed that many times for one more step and a new model. Each
process is late by a random time before and after its last collective, threads switch every microsecond, and two other
processes keep the machine busy. Ends with exit code 1 where one of these ends is not a success.
"""

import argparse
import datetime
import json
import math
import os
import platform
import random
import resource
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch._dynamo  # noqa: F401  what a training imports sooner or later: once, before the processes are forked

import transduce.runs
import transduce.training.event_file  # noqa: F401
from transduce.cli.main import main as command_line
from transduce.config.modifiers import MODIFIERS
from transduce.config.tensors import read_weights
from transduce.training import step as step_module
from transduce.training.distributed import Ranks
from transduce.training.trainer import Trainer

_RECIPE = """
name = "interrupted"

[model]
num_encoder_layers = 1
num_decoder_layers = 1
d_model = 32
d_ff = 64
num_heads = 2
d_k = 16
d_v = 16
dropout = 0.1

[text]
vocab_size = 300

[data]
folder = "."
source_language = "en"
target_language = "de"
validation = ["dev.en", "dev.de"]

[decode]
max_extra_tokens = 5

[[data.corpora]]
name = "first"
files = ["first.en", "first.de"]
source_language = "en"
target_language = "de"

[[data.corpora]]
name = "second"
files = ["second.en", "second.de"]
weight = 0.5
source_language = "en"
target_language = "fr"
tag = "bt"

[[train.phases]]
from_step = 20
weights = { first = 0.3, second = 1.0 }

[[train.phases]]
from_step = 45
weights = { first = 1.0, second = 2.0 }

[train]
source_batch_tokens = 400
target_batch_tokens = 400
warmup_steps = 40
device = "cpu"
precision = "fp32"
checkpoint_minutes = 0.0
checkpoint_steps = 5
keep_checkpoints = 5
average_last = 5
validate_steps = 25
log_steps = 1
"""
_WORDS = ["red", "blue", "dog", "man", "runs", "sits", "on", "a", "the", "hill", "under", "green", "tree"]
_TIMES = {"training_seconds", "training_flops_estimate", "training_flops_estimate_of"}
_COUNTS = {"target_tokens_seen", "training_flops"}  # of steps that were left out because their loss was NaN
_STARTING_SHARE = 0.2  # of the interruptions: at any moment from the start of the process, not while it trains
_STARTING_SECONDS = 1.5
_STEP_SECONDS = 0.05  # the others come after a random number of steps, at a random moment of the next ones
_PATIENCE_SECONDS = 15.0  # until the others of a dead rank have ended by themselves
_MOST_SECONDS = 300.0  # until all processes have ended
_DISK_BYTES = (4_000, 60_000)  # a checkpoint's larger file has about 200 000


def main() -> int:
    """Prints the result as JSON; returns 1 where the two trainings differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--dead-ranks", type=int, default=0)
    parser.add_argument("--terminations", type=int, default=5)
    parser.add_argument("--interrupts", type=int, default=3)
    parser.add_argument("--full-disks", type=int, default=4)
    parser.add_argument("--nan-batches", type=int, default=8)
    parser.add_argument("--ends", type=int, default=0, help="test these many ends, and nothing else")
    parser.add_argument("--modifiers", action="store_true", help="change the text by all modifiers")
    parser.add_argument("--ranks", type=int, default=1, help="processes that train together")
    parser.add_argument("--steps", type=int, default=303, help="length of the training")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--recipe", type=Path, help="another recipe than the one in this file; with a corpus of its own"
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = (measure_ends if args.ends else measure)(args, Path(folder))
    print(json.dumps(result, indent=2))
    return 0 if result["equal"] else 1


def measure(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Trains twice, and returns what was done and how the two models compare."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs, and their children, ignore it
    generator = random.Random(args.seed)
    recipe = args.recipe.resolve() if args.recipe else write_corpus(folder, generator)
    nan_steps = sorted(generator.sample(range(2, args.steps), args.nan_batches))
    whole, run = folder / "whole", folder / "run"
    command = ["train", str(recipe), "--quiet", "--resume", "--set", f"train.max_steps={args.steps}"]
    if args.modifiers:
        entries = ", ".join(f'{{name = "{name}", probability = 0.2}}' for name in MODIFIERS)
        command += ["--set", f"train.modifiers=[{entries}]"]
    told = Processes(args.ranks, [*command, "--output", str(whole), "--set", f"train.skip_steps={nan_steps}"], folder)
    require_success(told)
    kinds = ["SIGKILL"] * args.kills + ["dead rank"] * args.dead_ranks + ["SIGTERM"] * args.terminations
    kinds += ["SIGINT"] * args.interrupts + ["full disk"] * args.full_disks
    generator.shuffle(kinds)
    most_steps = max(1, args.steps // max(1, len(kinds)))  # so that training does not end before the last one
    arguments = [*command, "--output", str(run)]
    interruptions = []
    for number, kind in enumerate(kinds, 1):
        interruptions.append(interrupt(kind, Options(args.ranks, arguments, nan_steps), run, most_steps, generator))
        print(f"{number}/{len(kinds)} {interruptions[-1]}", file=sys.stderr, flush=True)
    require_success(Processes(args.ranks, arguments, folder, nan_steps))
    compared = compare(whole, run, nan_steps)
    dead = [each for each in interruptions if each["kind"] == "dead rank" and each["sent"] == "while training"]
    counts = {kind: kinds.count(kind) for kind in sorted(set(kinds))} | {"NaN batch": len(nan_steps)}
    return {
        "date": datetime.date.today().isoformat(),
        "what": "a training interrupted at random moments against the uninterrupted one: files of the model folder",
        "command": f"interrupted_training.py {' '.join(sys.argv[1:])}",
        "machine": describe(),
        "ranks": args.ranks,
        "equal": all(compared.values()),
        "compared": compared,
        "counts": counts,
        "in_all": sum(counts.values()),
        "took_effect": sum(any(each["exit_codes"]) for each in interruptions),
        "dead_ranks_while_training": {
            "number": len(dead),
            "named_by_the_others": sum(each["names_the_rank"] for each in dead),
            "most_seconds_until_the_others_ended": max((each["seconds_to_end"] for each in dead), default=None),
        },
        "interruptions": interruptions,
        "left_over": sorted(str(path.relative_to(run)) for path in run.rglob(".*") if path.name != ".lock"),
    }


def measure_ends(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Ends a training again and again, on a busy machine; returns which ends failed."""
    generator = random.Random(args.seed)
    recipe = write_corpus(folder, generator)
    command = ["train", str(recipe), "--quiet", "--resume", "--output", str(folder / "run")]
    command += ["--set", "train.validate_steps=0", "--set", "train.average_last=1", "--set"]
    require_success(Processes(args.ranks, [*command, "train.max_steps=2"], folder))
    fit, finish, failed = Trainer.fit, Ranks.finish, []

    def late(wrapped: Any) -> Any:
        def call(of: Any) -> Any:
            result = wrapped(of)
            time.sleep(random.Random(os.getpid()).choice([0, 0, 0.01, 0.1, 0.5]))
            return result

        return call

    Trainer.fit, Ranks.finish = late(fit), late(finish)  # type: ignore[method-assign]
    sys.setswitchinterval(1e-6)
    busy = [Busy() for _ in range(2)]
    for number in range(1, args.ends + 1):
        processes = Processes(args.ranks, [*command, f"train.max_steps={2 + number}"], folder)
        processes.wait(interrupted=False)
        if any(processes.exit_codes) or processes.messages().count(f"done after step {2 + number}.") != 1:
            failed.append({"exit_codes": processes.exit_codes, "messages": processes.messages()})
        print(f"{number}/{args.ends} {processes.exit_codes}", file=sys.stderr, flush=True)
    for each in busy:
        each.end()
    return {
        "date": datetime.date.today().isoformat(),
        "what": "ends of a training in several processes, on a busy machine",
        "command": f"interrupted_training.py {' '.join(sys.argv[1:])}",
        "machine": describe(),
        "load_average": os.getloadavg(),
        "ranks": args.ranks,
        "ends": args.ends,
        "failed": failed,
        "equal": not failed,
    }


class Busy:
    """A process that only takes time from others."""

    def __init__(self) -> None:
        self._id = os.fork()
        while self._id == 0:
            pass

    def end(self) -> None:
        """Ends it."""
        os.kill(self._id, signal.SIGKILL)
        os.waitpid(self._id, 0)


def describe() -> dict[str, Any]:
    """Returns what a result says of the machine."""
    return {
        "python": platform.python_version(),
        "torch": version("torch"),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
    }


def write_corpus(folder: Path, generator: random.Random) -> Path:
    """Writes a small parallel text and its recipe; returns the recipe."""
    for split, count in (("first", 200), ("second", 100), ("dev", 20)):
        lines = [" ".join(generator.choices(_WORDS, k=generator.randint(2, 14))) + f" {n}" for n in range(count)]
        (folder / f"{split}.en").write_text("\n".join(lines) + "\n")
        (folder / f"{split}.de").write_text("\n".join(line.upper() for line in lines) + "\n")
    recipe = folder / "recipe.toml"
    recipe.write_text(_RECIPE)
    return recipe


class Processes:
    """The processes of one start of a training."""

    def __init__(
        self, ranks: int, arguments: list[str], folder: Path, nan_steps: Sequence[int] = (), disk_bytes: int = 0
    ) -> None:
        self.log = folder / "messages"
        self.log.write_bytes(b"")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        world = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        self.exit_codes: list[int | None] = [None] * ranks
        self.ids = [
            self._fork(arguments, world | {"RANK": str(rank), "LOCAL_RANK": str(rank)}, nan_steps, disk_bytes)
            for rank in range(ranks)
        ]

    def _fork(self, arguments: list[str], world: dict[str, str], nan_steps: Sequence[int], disk_bytes: int) -> int:
        # Python ignores what is raised between a fork and its return.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        number = os.fork()
        if number:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            return number
        code = 70  # of an exception that is no error of ours
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            with self.log.open("ab", buffering=0) as log:
                os.dup2(log.fileno(), 2)
            os.environ |= world if world["WORLD_SIZE"] != "1" else {}
            if disk_bytes and world["RANK"] == "0":
                resource.setrlimit(resource.RLIMIT_FSIZE, (disk_bytes, disk_bytes))  # stands for a full disk
            spoil(nan_steps)
            code = command_line(arguments)
        finally:
            os._exit(code)

    def is_running(self) -> bool:
        """Returns whether a process has not ended."""
        for rank, number in enumerate(self.ids):
            if self.exit_codes[rank] is None:
                ended, status = os.waitpid(number, os.WNOHANG)
                if ended:
                    self.exit_codes[rank] = os.waitstatus_to_exitcode(status)
        return None in self.exit_codes

    def send(self, number: signal.Signals, ranks: Sequence[int]) -> None:
        """Sends a signal to those of the processes that still run."""
        for rank in ranks:
            if self.is_running() and self.exit_codes[rank] is None:
                os.kill(self.ids[rank], number)

    def wait(self, *, interrupted: bool = True) -> float:
        """Waits until all have ended; returns the seconds that it took."""
        started, is_told = time.monotonic(), False
        while self.is_running():
            if interrupted and not is_told and time.monotonic() - started > _PATIENCE_SECONDS:
                is_told = True  # as torchrun does at once: before they have met, they cannot know of each other
                self.send(signal.SIGTERM, range(len(self.ids)))
            if interrupted and time.monotonic() - started > _MOST_SECONDS:
                self.send(signal.SIGKILL, range(len(self.ids)))
                raise SystemExit(f"a process did not end:\n{self.messages()}")
            time.sleep(0.01)
        return round(time.monotonic() - started, 2)

    def messages(self) -> str:
        """Returns what the processes printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")


def spoil(steps: Sequence[int]) -> None:
    """Makes the loss of these steps NaN in this process."""
    projected_loss, train_step = step_module.projected_loss, Trainer.train_step
    now = 0

    def counted(trainer: Trainer, rows: np.ndarray) -> Any:
        nonlocal now
        now = trainer.progress.step + 1
        try:
            return train_step(trainer, rows)
        finally:
            now = 0

    def spoiled(*arguments: Any) -> Any:
        loss, nll = projected_loss(*arguments)
        return (loss * math.nan if now in steps else loss), nll

    Trainer.train_step, step_module.projected_loss = counted, spoiled  # type: ignore[method-assign, assignment]


def require_success(processes: Processes) -> None:
    """Waits for a training that nobody interrupts."""
    processes.wait(interrupted=False)
    if any(processes.exit_codes):
        raise SystemExit(f"a training ended with {processes.exit_codes}:\n{processes.messages()}")


class Options:
    """What all interruptions of the interrupted training have in common."""

    def __init__(self, ranks: int, arguments: list[str], nan_steps: Sequence[int]) -> None:
        self.ranks, self.arguments, self.nan_steps = ranks, arguments, nan_steps


def interrupt(kind: str, options: Options, run: Path, most_steps: int, generator: random.Random) -> dict[str, Any]:
    """Starts the training, interrupts it at a random moment, and returns how it ended."""
    starting = generator.random() < _STARTING_SHARE
    seconds, steps = generator.uniform(0, _STARTING_SECONDS), generator.randint(1, most_steps)
    moment, rank = generator.uniform(0, _STEP_SECONDS), generator.randrange(options.ranks)
    disk_bytes = generator.randint(*_DISK_BYTES) if kind == "full disk" else 0
    last, seen = last_step(run), 0
    started = time.monotonic()
    processes = Processes(options.ranks, options.arguments, run.parent, options.nan_steps, disk_bytes)
    if kind != "full disk":
        while processes.is_running() and seen < steps and not (starting and time.monotonic() - started > seconds):
            time.sleep(0.01)
            now = last_step(run)
            seen, last = seen + max(0, now - last), now  # what comes again after a kill was dropped first
        time.sleep(0 if starting else moment)
        number = signal.Signals[kind] if kind.startswith("SIG") else signal.SIGKILL
        processes.send(number, range(options.ranks) if kind == "SIGKILL" else [rank])
    seconds_to_end = processes.wait()
    found = sorted(path.name for path in (run / "checkpoints").glob("step-*"))
    return {
        "kind": kind,
        "rank": "all" if kind == "SIGKILL" else 0 if kind == "full disk" else rank,
        "sent": "from the start" if starting else "while training",
        "seconds": round(time.monotonic() - started, 2),
        "seconds_to_end": seconds_to_end,
        "exit_codes": processes.exit_codes,
        "names_the_rank": f"rank {rank} (on " in processes.messages() if kind == "dead rank" else None,
        "last_step": last_step(run),
        "last_checkpoint": found[-1] if found else None,
    }


def last_step(run: Path) -> int:
    """Returns the last step that the training noted."""
    try:
        lines = (run / "metrics.jsonl").read_text().splitlines()
    except FileNotFoundError:  # not yet begun, or at this moment being cut for a training that goes on
        return 0
    for line in reversed(lines):
        if line.endswith("}"):  # whole
            return int(json.loads(line)["step"])
    return 0


def compare(whole: Path, run: Path, nan_steps: Sequence[int]) -> dict[str, bool]:
    """Returns for each file of the two trainings whether it is the same, and whether the quarantine is complete."""
    ours, theirs = run / "model", whole / "model"
    names = ("model.safetensors", "tokenizer.json", *(() if nan_steps else ("config.json",)))
    equal = {f"model/{name}": (ours / name).read_bytes() == (theirs / name).read_bytes() for name in names}
    best, expected = (read_weights(folder / "best" / "model.safetensors") for folder in (run, whole))
    equal["best/"] = all(np.array_equal(best[name], expected[name]) for name in expected)
    metrics = [json.loads((folder / "metrics.json").read_text()) for folder in (ours, theirs)]
    left_out = _TIMES | (_COUNTS if nan_steps else set())
    first, second = ({key: value for key, value in each.items() if key not in left_out} for each in metrics)
    equal["model/metrics.json, but for times and what was computed in vain"] = first == second
    path = run / "quarantine.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    equal["quarantine.jsonl: each batch once"] = [line["step"] for line in lines] == list(nan_steps)
    return equal


if __name__ == "__main__":
    sys.exit(main())
