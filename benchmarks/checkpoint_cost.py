"""What a checkpoint costs training: written in the background, as training does it, and while training waits.

    python benchmarks/checkpoint_cost.py > benchmarks/results/DATE-checkpoint-cost.json

Trains `paper-base` on random ids, and alternates in one process between stretches of steps: with no checkpoint, with
one in the background from the first step on, and with one that is waited for. `waited_seconds` is how long training
stood still. `extra_share` compares whole stretches: it includes what the writing thread takes from the processor, and
means something on a quiet machine only. `writing` is what the thread needs while nothing is trained.
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from transduce.config import preset
from transduce.data.store import ParallelStore, StoreWriter
from transduce.engines.allocator import enter_command
from transduce.training.device import Compute
from transduce.training.progress import CheckpointKind
from transduce.training.run_folder import checkpoint_path, checkpoints
from transduce.training.trainable import new_model
from transduce.training.trainer import Trainer

_KINDS = ("none", "background", "waited for")
_DEFAULT_SECONDS = 600.0  # between checkpoints, by train.checkpoint_minutes


def main() -> int:
    """Prints the result as JSON."""
    enter_command()  # its allocator is set as that of a command
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="paper-base")
    parser.add_argument("--batch-tokens", type=int, default=1000, help="target tokens of a step")
    parser.add_argument("--steps", type=int, default=6, help="of a stretch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where checkpoints are written; default: a temporary folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        print(json.dumps(measure(args, Path(folder)), indent=2))
    return 0


def measure(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Returns seconds of the stretches of each kind, and what they say of the cost of a checkpoint."""
    trainer = make_trainer(args, folder)
    rows = trainer.order.plan(0, 0).batch(0)
    seconds: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    waited: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    for number in range(-1, args.rounds):  # the first one is not counted: memory is asked for
        for kind in _KINDS:
            started = time.perf_counter()
            stood = stretch(trainer, rows, args.steps, kind)
            if number >= 0:
                seconds[kind].append(time.perf_counter() - started)
                waited[kind].append(stood)
            trainer.writer.wait()
            print(f"round {number + 1}, {kind}: waited {stood:.2f} s", file=sys.stderr, flush=True)
    size = sum(path.stat().st_size for path in checkpoints(folder)[-1].glob("*"))
    writing = [write_alone(trainer) for _ in range(args.rounds)]
    processor = statistics.median(each["processor_seconds"] for each in writing)
    cost = statistics.median(waited["background"]) + processor / (os.cpu_count() or 1)
    shares = {
        kind: statistics.median(ours / none - 1 for ours, none in zip(seconds[kind], seconds["none"], strict=True))
        for kind in _KINDS[1:]
    }
    return {
        "date": datetime.date.today().isoformat(),
        "what": "seconds of stretches of training steps, without a checkpoint and with one",
        "command": f"checkpoint_cost.py {' '.join(sys.argv[1:])}".strip(),
        "machine": {
            "python": platform.python_version(),
            "torch": version("torch"),
            "processor": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "load": os.getloadavg()[0],
        },
        "parameters": trainer.model.num_parameters,
        "checkpoint_bytes": size,
        "steps_of_a_stretch": args.steps,
        "seconds": {kind: [round(value, 3) for value in values] for kind, values in seconds.items()},
        "waited_seconds": {kind: [round(value, 3) for value in values] for kind, values in waited.items()},
        "median_waited_seconds": {kind: round(statistics.median(waited[kind]), 3) for kind in _KINDS[1:]},
        "writing": writing,
        "extra_share": {kind: round(share, 4) for kind, share in shares.items()},
        "cost_of_a_checkpoint_every_10_minutes": {
            "waited for": round(statistics.median(waited["waited for"]) / _DEFAULT_SECONDS, 5),
            "background, with the thread's share of all cores": round(cost / _DEFAULT_SECONDS, 5),
        },
    }


def make_trainer(args: argparse.Namespace, folder: Path) -> Trainer:
    """Returns a trainer on random ids, lengths as in `train.py`."""
    config, generator = preset(args.preset), np.random.default_rng(1)
    limits = {"source_batch_tokens": args.batch_tokens, "target_batch_tokens": args.batch_tokens}
    config = replace(config, train=replace(config.train, **limits, keep_checkpoints=5))
    size = config.model.vocab_size
    with StoreWriter.open(folder / "train.arrow", tokenizer_fingerprint="none", vocab_size=size) as writer:
        rows = [generator.integers(4, size, 25).tolist() for _ in range(args.batch_tokens // 25)]
        writer.write(rows, rows)
    compute = Compute.of(config.train.device, config.train.precision)
    store = ParallelStore.open(folder / "train.arrow")
    return Trainer(new_model(config, compute), config, folder, store, compute=compute, show_progress=False)


def stretch(trainer: Trainer, rows: np.ndarray, steps: int, kind: str) -> float:
    """Makes steps, with a checkpoint after the first of them; returns how long training waited for it."""
    waited = 0.0
    for number in range(steps):
        trainer.train_step(rows)
        trainer.progress.step += 1
        if number == 0 and kind != "none":
            started = time.perf_counter()
            path = checkpoint_path(trainer.run, trainer.progress.step)
            trainer.writer.save(path, trainer.progress, CheckpointKind.REGULAR)
            if kind == "waited for":
                trainer.writer.wait()
            waited = time.perf_counter() - started
    return waited


def write_alone(trainer: Trainer) -> dict[str, float]:
    """Writes a checkpoint while nothing else is done; returns what that takes, the copy not counted."""
    trainer.progress.step += 1
    trainer.writer.save(checkpoint_path(trainer.run, trainer.progress.step), trainer.progress, CheckpointKind.REGULAR)
    started, processor = time.perf_counter(), time.process_time()
    trainer.writer.wait()
    return {
        "seconds": round(time.perf_counter() - started, 3),
        "processor_seconds": round(time.process_time() - processor, 3),
    }


if __name__ == "__main__":
    sys.exit(main())
