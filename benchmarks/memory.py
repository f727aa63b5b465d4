"""The memory of an update: what is predicted before training, and what updates then take.

    python benchmarks/memory.py --preset paper-big --output result.json
    python benchmarks/memory.py --preset paper-base --precision fp32 --available-mib 6000

Made pairs of realistic lengths (log-normal, 25 tokens on average, and some of up to 256) in batches of 25 000 source
and 25 000 target tokens. `Trainer.fit_memory` decides how batches are split, and predicts the peak. Then the trainer
makes `--updates` updates: first one on a few short pairs, after which the optimiser has its moments, then one on the
batch that needs the most memory by the formula, then others. The measured peak is the process's, of these updates (of
a GPU: what its allocator held). `--limit-gib` limits the address space, to try it with less memory. No check passes or
fails here; `tests/integration/test_memory.py` has the bounds.
"""

import argparse
import dataclasses
import datetime
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from transduce.config import Config, preset
from transduce.config.weights import count_parameters
from transduce.data.store import ParallelStore, StoreWriter
from transduce.engines.allocator import enter_command
from transduce.reporting.machine import describe_machine
from transduce.training import memory_trial
from transduce.training.device import Compute
from transduce.training.memory import measured, return_freed_memory, used_bytes
from transduce.training.trainable import new_model
from transduce.training.trainer import Trainer


def make_store(path: Path, vocab_size: int, num_pairs: int, seed: int = 1) -> ParallelStore:
    """Writes made pairs: random ids, lengths as text has them."""
    random = np.random.default_rng(seed)
    source = np.clip(random.lognormal(np.log(25) - 0.18, 0.6, num_pairs).round().astype(int), 2, 255)
    target = np.clip((source * random.normal(1.0, 0.12, num_pairs)).round().astype(int), 2, 255)
    with StoreWriter.open(path, tokenizer_fingerprint="none", vocab_size=vocab_size) as writer:
        writer.write(*([random.integers(4, vocab_size, length) for length in lengths] for lengths in (source, target)))
    return ParallelStore.open(path)


def configured(args: argparse.Namespace) -> Config:
    """Returns the preset with the precision and the settings of the command line."""
    config = preset(args.preset)
    changes: dict[str, Any] = {"precision": args.precision, "device": args.device}
    if args.activation_checkpointing != "auto":
        changes["activation_checkpointing"] = args.activation_checkpointing == "true"
    if args.batch_tokens:
        changes |= {"source_batch_tokens": args.batch_tokens, "target_batch_tokens": args.batch_tokens}
    return dataclasses.replace(config, train=dataclasses.replace(config.train, **changes))


def measure(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Returns the prediction and the measured peak."""
    config = configured(args)
    store = make_store(folder / "train.arrow", config.model.vocab_size, args.pairs)
    compute = Compute.of(config.train.device, config.train.precision)
    trainer = Trainer(new_model(config, compute), config, folder, store, compute=compute, show_progress=True)
    if args.available_mib:
        memory_trial.available_bytes = lambda device: args.available_mib << 20  # type: ignore[assignment]
    return_freed_memory(compute.device)
    used, available = used_bytes(compute.device), memory_trial.available_bytes(compute.device)
    started = time.perf_counter()
    trainer.fit_memory()
    fit_seconds = time.perf_counter() - started
    split = trainer.splits.entries[-1]
    plan = trainer.order.plan(0, 0)
    shortest = np.argsort(store.target_lengths, kind="stable")[:8]
    worst = max(range(len(plan)), key=lambda index: _squares(store, plan.batch(index)))
    batches = [shortest, plan.batch(worst), *(plan.batch(index) for index in range(args.updates - 2))]
    trainer.train_step(batches[0])  # the optimiser makes its moments
    trainer.progress.step += 1
    seconds = []
    with measured(compute.device) as usage:
        for rows in batches[1 : args.updates]:
            started = time.perf_counter()
            result = trainer.train_step(rows)
            trainer.progress.step += 1
            seconds.append(round(time.perf_counter() - started, 1))
            print(f"update of {result.target_tokens} target tokens: {seconds[-1]} s", file=sys.stderr, flush=True)
    return {
        "preset": args.preset,
        "precision": str(compute),
        "parameters": count_parameters(config.model),
        "available_bytes": available,
        "micro_batch_tokens": split.target_tokens[0],
        "activation_checkpointing": trainer.model.checkpointing,
        "predicted_bytes": split.peak_bytes,
        "grown_bytes": usage.peak - used,
        "measured_bytes": usage.peak,
        "measured_over_predicted": round(usage.peak / split.peak_bytes, 4) if split.peak_bytes else None,
        "memory_ran_out": len(trainer.splits.entries) > 1,
        "fit_seconds": round(fit_seconds, 1),
        "update_seconds": seconds,
    }


def _squares(store: ParallelStore, rows: np.ndarray) -> int:
    """Returns a measure of the memory of a batch: rows times the square of the longest target."""
    return len(rows) * int(store.target_lengths[rows].max()) ** 2


def main() -> None:
    """Parses the command line, measures, prints JSON."""
    enter_command()  # its allocator is set as that of a command
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="paper-base")
    parser.add_argument("--precision", choices=["auto", "fp32", "bf16"], default="auto")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch-tokens", type=int, default=0, help="other budgets than the preset's")
    parser.add_argument("--activation-checkpointing", choices=["auto", "true", "false"], default="auto")
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--updates", type=int, default=2, help="the first is small and not measured")
    parser.add_argument("--available-mib", type=int, default=0, help="0: what there is")
    parser.add_argument("--threads", type=int, default=0, help="default: PyTorch's choice")
    parser.add_argument("--output", type=Path, help="file for the result; a list, to which the result is added")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as folder:
        result = measure(args, Path(folder))
    print(json.dumps(result))
    if args.output:
        empty = {"benchmark": "memory of an update", "date": "", "machine": {}, "rows": []}
        whole = json.loads(args.output.read_text()) if args.output.is_file() else empty
        whole |= {"date": datetime.date.today().isoformat(), "machine": describe_machine()}
        whole["rows"].append(result)
        args.output.write_text(json.dumps(whole, indent=2) + "\n")


if __name__ == "__main__":
    main()
