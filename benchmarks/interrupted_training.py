"""Interrupts a training at random moments and compares its model with that of an uninterrupted one, byte for byte.

    OMP_NUM_THREADS=1 python benchmarks/interrupted_training.py > benchmarks/results/DATE-interrupted-training.json

A process is started, resumes, and is sent SIGKILL, SIGTERM or SIGINT; some while it starts, prepares or averages, most
while it trains. The last one is left alone. Ends with exit code 1 where a file differs.
"""

import argparse
import datetime
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

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
train = [["train.en", "train.de"]]
validation = ["dev.en", "dev.de"]

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
_EXACT = ("model.safetensors", "tokenizer.json", "config.json")
_TIMES = {"training_seconds", "training_flops_estimate", "training_flops_estimate_of"}
_STARTING_SHARE = 0.25  # of the signals: sent at any moment from the start of the process, not while it trains
_STARTING_SECONDS = 6.0
_STEP_SECONDS = 0.05  # the others come after a random number of steps, at a random moment of the next ones


def main() -> int:
    """Prints the result as JSON; returns 1 where the two models differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="SIGKILLs")
    parser.add_argument("--terminations", type=int, default=5, help="SIGTERMs")
    parser.add_argument("--interrupts", type=int, default=3, help="SIGINTs, as of Ctrl-C")
    parser.add_argument("--steps", type=int, default=303, help="length of the training")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(args, Path(folder))
    print(json.dumps(result, indent=2))
    return 0 if result["equal"] else 1


def measure(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Trains twice, and returns what was done and how the two models compare."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs, and their children, ignore it
    generator = random.Random(args.seed)
    recipe = write_corpus(folder, generator)
    command = [sys.executable, "-m", "transduce", "train", str(recipe), "--quiet", "--resume"]
    command += ["--set", f"train.max_steps={args.steps}"]
    whole, run = folder / "whole", folder / "run"
    subprocess.run([*command, "--output", str(whole)], check=True, stderr=subprocess.PIPE)
    signals = [signal.SIGKILL] * args.kills + [signal.SIGTERM] * args.terminations + [signal.SIGINT] * args.interrupts
    generator.shuffle(signals)
    most_steps = max(1, args.steps // len(signals))  # so that training does not end before the last signal
    sittings = [interrupt([*command, "--output", str(run)], run, each, most_steps, generator) for each in signals]
    subprocess.run([*command, "--output", str(run)], check=True, stderr=subprocess.PIPE)
    compared = compare(whole, run)
    return {
        "date": datetime.date.today().isoformat(),
        "what": "a training interrupted at random moments against the uninterrupted one: files of the model folder",
        "command": "interrupted_training.py " + " ".join(f"--{name} {value}" for name, value in vars(args).items()),
        "machine": {
            "python": platform.python_version(),
            "torch": version("torch"),
            "processor": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        },
        "equal": all(compared.values()),
        "compared": compared,
        "took_effect": sum(sitting["exit_code"] != 0 for sitting in sittings),
        "interruptions": sittings,
        "left_over": sorted(str(path.relative_to(run)) for path in run.rglob(".*") if path.name != ".lock"),
    }


def write_corpus(folder: Path, generator: random.Random) -> Path:
    """Writes a small parallel text and its recipe; returns the recipe."""
    for split, count in (("train", 300), ("dev", 20)):
        lines = [" ".join(generator.choices(_WORDS, k=generator.randint(2, 14))) + f" {n}" for n in range(count)]
        (folder / f"{split}.en").write_text("\n".join(lines) + "\n")
        (folder / f"{split}.de").write_text("\n".join(line.upper() for line in lines) + "\n")
    recipe = folder / "recipe.toml"
    recipe.write_text(_RECIPE)
    return recipe


def interrupt(
    command: list[str], run: Path, number: signal.Signals, most_steps: int, generator: random.Random
) -> dict[str, Any]:
    """Starts a sitting, sends it a signal at a random moment, and returns what became of it."""
    starting = generator.random() < _STARTING_SHARE
    seconds, steps = generator.uniform(0, _STARTING_SECONDS), generator.randint(1, most_steps)
    moment = generator.uniform(0, _STEP_SECONDS)
    last, seen = last_step(run), 0
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    started = time.monotonic()
    while process.poll() is None and seen < steps and not (starting and time.monotonic() - started > seconds):
        time.sleep(0.002)
        now = last_step(run)
        seen, last = seen + max(0, now - last), now  # what comes again after a kill was dropped first
    time.sleep(0 if starting else moment)
    process.send_signal(number)
    code = process.wait(timeout=300)
    found = sorted(path.name for path in (run / "checkpoints").glob("step-*"))
    return {
        "signal": number.name,
        "sent": "from the start" if starting else "while training",
        "seconds": round(time.monotonic() - started, 2),
        "exit_code": code,
        "last_step": last_step(run),
        "last_checkpoint": found[-1] if found else None,
    }


def last_step(run: Path) -> int:
    """Returns the last step that the training noted."""
    metrics = run / "metrics.jsonl"
    lines = metrics.read_text().splitlines() if metrics.is_file() else []
    for line in reversed(lines):
        if line.endswith("}"):  # whole
            return int(json.loads(line)["step"])
    return 0


def compare(whole: Path, run: Path) -> dict[str, bool]:
    """Returns for each file of the model folder whether both trainings wrote the same."""
    ours, theirs = run / "model", whole / "model"
    equal = {name: (ours / name).read_bytes() == (theirs / name).read_bytes() for name in _EXACT}
    metrics = [json.loads((folder / "metrics.json").read_text()) for folder in (ours, theirs)]
    first, second = ({key: value for key, value in each.items() if key not in _TIMES} for each in metrics)
    return equal | {"metrics.json, but for times": first == second}


if __name__ == "__main__":
    sys.exit(main())
