"""What a training step costs over r and n: time and memory; writes JSON.

    python cost.py RECIPE OUTPUT.json [--length N …] [--rounds N]

A step is forward, loss, backward and update of the recipe's model, on pairs of n random subwords on both sides: as many
pairs as make 2000 subwords, at least one. All kinds of attention take their turns in each round; figures are medians
over rounds, and ratios are taken within a round. Seconds are the processor's, of one thread. Memory is what PyTorch's
allocator holds at most in a step beyond parameters and moments. "eq. 1 as written" is full attention by PyTorch's
`math` kernel, which holds n × n weights; up to n = 256 it is the same as "full".
"""

import argparse
import dataclasses
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from transduce.config import Config, load_recipe
from transduce.engines.allocator import keep_memory
from transduce.experiments.paper.measure import peak_bytes
from transduce.files import atomic_path
from transduce.model import Transformer
from transduce.reporting.machine import describe_machine
from transduce.training.batch import Batch
from transduce.training.device import Compute
from transduce.training.loss import Smoothing
from transduce.training.optimizer import make_optimizer
from transduce.training.step import batch_loss

WINDOWS = (0, 8, 16, 32, 64)
WRITTEN = "eq. 1 as written"
KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]  # PyTorch chooses
TOKENS = 2000  # of each side in a batch


def make_step(config: Config, window: int, length: int) -> Callable[[], None]:
    """Returns a function that makes one update on pairs of `length` subwords."""
    torch.manual_seed(1)
    model_config = dataclasses.replace(config.model, attention_window=window, vocab_size=config.text.vocab_size)
    model = Transformer(model_config).train()
    optimizer = make_optimizer(model.parameters(), config.train)
    smoothing = Smoothing.of(config.train.label_smoothing, model_config.vocab_size, config.train.smoothing)
    pairs = max(1, TOKENS // length)
    ids = torch.randint(4, model_config.vocab_size, (pairs, length))
    lengths = torch.full((pairs,), length)
    batch, compute = Batch(ids, lengths, ids, lengths), Compute.of("cpu", "fp32")

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        (batch_loss(model, batch, smoothing, compute)[0] / batch.num_target_tokens).backward()
        optimizer.step()

    return step


def measure(config: Config, length: int, rounds: int) -> list[dict[str, Any]]:
    """Returns a row for each kind of self-attention at one length."""
    steps = {f"r = {window}" if window else "full": make_step(config, window, length) for window in WINDOWS}
    steps[WRITTEN] = make_step(config, 0, length)
    seconds: dict[str, list[float]] = {kind: [] for kind in steps}
    peaks = {}
    for number in range(rounds + 1):  # the first warms up
        for kind, step in steps.items():
            with sdpa_kernel([SDPBackend.MATH] if kind == WRITTEN else KERNELS):
                started = time.process_time()
                step()
                seconds[kind] += [time.process_time() - started] if number else []
                if number == rounds:
                    peaks[kind] = peak_bytes(step, torch.device("cpu"))
    tokens = max(1, TOKENS // length) * length
    return [
        {
            "n": length,
            "attention": kind,
            "milliseconds_per_1000_tokens": round(1e6 * statistics.median(taken) / tokens, 1),
            "of_full": round(statistics.median(a / b for a, b in zip(taken, seconds["full"], strict=True)), 3),
            "peak_mib": round(peaks[kind] / 2**20, 1),
        }
        for kind, taken in seconds.items()
    ]


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--length", type=int, nargs="+", default=[40, 250, 1000, 2000])
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    torch.set_num_threads(1)
    keep_memory()  # as training does
    config, rows = load_recipe(args.recipe), []
    for length in args.length:
        rows += measure(config, length, args.rounds)
        for row in rows[-len(WINDOWS) - 1 :]:
            print(json.dumps(row), flush=True)
    values = {"rounds": args.rounds, "machine": describe_machine(), "rows": rows}
    with atomic_path(args.output) as temporary:
        temporary.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
