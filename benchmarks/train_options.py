"""Measures what each training option gains or costs, by alternating updates with the option off and on.

    python benchmarks/train_options.py --device cuda --precision bf16
    python benchmarks/train_options.py --option compile --device cuda --precision bf16 --preset paper-big
    python benchmarks/train_options.py --device cpu --toy
    python benchmarks/train_options.py --option modifiers --preset tiny --data prepared/m30k --batch-tokens 2048

The data are made: pairs of realistic lengths, in batches of the preset's size. --data names a prepared folder instead,
which `modifiers` and `guided-attention` need: they read text. For each option, two trainers make the
same `--updates` updates, one with the option off and one with it on. They alternate for `--rounds` rounds, after one
warm-up round. Compare ratios within one run only.

    prefetch        the first batch of an update is made while the device computes the update before
    pinned          indices and masks are copied from pinned memory
    blocked-loss    the loss holds a block of logits, and never those of all tokens
    cudnn-attention PyTorch's own choice of kernels for attention, which prefers cuDNN's on some GPUs
    rounded-shapes  train.rounded_shapes
    compile         train.compile
    modifiers       train.modifiers, all of them, each as often as usual
    guided-attention    train.guided_attention of a translator

Each option prints one line of JSON: tokens of both sides per second (padding not counted) and the ratio of the medians.
With --cpu-seconds, the seconds are those that the process computed, which others on the machine do not change much. On
a GPU, the line also has the peak memory and the number of memory allocations. `first_seconds` is the time of the
warm-up round, which for `compile` is mostly compilation, and in which `cudnn-attention` plans for each shape.
"""

import argparse
import contextlib
import dataclasses
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from memory import make_store
from transduce.config import Config, preset
from transduce.config.modifiers import MODIFIERS, ModifierConfig
from transduce.data.modifiers import modified
from transduce.data.prepared import TRAIN, load_prepared
from transduce.data.store import ParallelStore
from transduce.engines.allocator import enter_command
from transduce.model import attention
from transduce.model import device as device_module
from transduce.text import load_tokenizer
from transduce.training import loss
from transduce.training.device import Compute
from transduce.training.guidance import guidance_of
from transduce.training.trainable import new_model
from transduce.training.trainer import Trainer

MODIFIED, GUIDED = OF_TEXT = ("modifiers", "guided-attention")
OPTIONS = ("prefetch", "pinned", "blocked-loss", "cudnn-attention", "rounded-shapes", "compile", *OF_TEXT)
_ALL_MODIFIERS = tuple(ModifierConfig(name=name, probability=kind.usual) for name, kind in MODIFIERS.items())
# Keys of train, and their values with the option off and on.
_CONFIGURED: dict[str, tuple[str, Any, Any]] = {
    "rounded-shapes": ("rounded_shapes", False, True),
    "compile": ("compile", False, True),
    MODIFIED: ("modifiers", (), _ALL_MODIFIERS),
    GUIDED: ("guided_attention", 0.0, 0.2),
}
_ALL_LOGITS = 1 << 60


def configured(args: argparse.Namespace) -> Config:
    """Returns the preset with what the command line says."""
    config = preset(args.preset)
    changes: dict[str, Any] = {"precision": args.precision, "device": args.device, "micro_batch_tokens": 0}
    if args.toy:
        shape = {"num_encoder_layers": 1, "num_decoder_layers": 1, "d_model": 16, "d_ff": 32, "num_heads": 2}
        model = dataclasses.replace(config.model, vocab_size=300, d_k=8, d_v=8, **shape)
        config = dataclasses.replace(config, model=model)
        changes |= {"source_batch_tokens": 400, "target_batch_tokens": 400}
    if args.batch_tokens:
        changes |= {"source_batch_tokens": args.batch_tokens, "target_batch_tokens": args.batch_tokens}
    return dataclasses.replace(config, train=dataclasses.replace(config.train, **changes))


@contextlib.contextmanager
def switched(option: str, on: bool, trainer: Trainer) -> Iterator[None]:
    """Turns on or off, within the context, an option that is not a key of the configuration."""
    enabled, pinning, blocks = trainer.prefetch.enabled, set(device_module.PINNING), dict(loss._CHUNK_BYTES)
    without_cudnn = attention.fused_attention
    if option == "prefetch":
        trainer.prefetch.enabled = on
    if option == "pinned" and not on:
        device_module.PINNING.clear()
    if option == "blocked-loss" and not on:
        loss._CHUNK_BYTES.update(dict.fromkeys(blocks, _ALL_LOGITS))
    if option == "cudnn-attention" and on:
        attention.fused_attention = torch.nn.functional.scaled_dot_product_attention
    try:
        yield
    finally:
        trainer.prefetch.enabled = enabled
        device_module.PINNING |= pinning
        loss._CHUNK_BYTES.update(blocks)
        attention.fused_attention = without_cudnn


def make_updates(trainer: Trainer, count: int, clock: Callable[[], float]) -> tuple[float, float]:
    """Makes the first updates of an epoch; returns source and target tokens a second, and the seconds."""
    device, tokens = trainer.compute.device, 0
    trainer.progress.epoch = trainer.progress.batch = 0
    _wait(device)
    started = clock()
    for _ in range(count):
        result = trainer.train_step(trainer.order.next_rows(trainer.progress))
        tokens += result.source_tokens + result.target_tokens
        trainer.order.advance(trainer.progress)
    _wait(device)
    seconds = clock() - started
    return tokens / seconds, seconds


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _allocator(device: torch.device) -> dict[str, int]:
    """Returns the allocator's counters and resets its peak; zeros on a CPU."""
    names = ("num_device_alloc", "allocated_bytes.all.peak")
    if device.type != "cuda":
        return dict.fromkeys(names, 0)
    found = torch.cuda.memory_stats(device)
    torch.cuda.reset_peak_memory_stats(device)
    return {name: found.get(name, 0) for name in names}


def measure(option: str, args: argparse.Namespace, store: ParallelStore, folder: Path) -> dict[str, Any]:
    """Measures one option, and returns its figures."""
    trainers: dict[bool, Trainer] = {}
    rates: dict[bool, list[float]] = {False: [], True: []}
    warm_up, peak_mib, allocations = {False: 0.0, True: 0.0}, {False: 0, True: 0}, {False: 0, True: 0}
    for on in (False, True):
        config = configured(args)
        config = dataclasses.replace(config, model=dataclasses.replace(config.model, vocab_size=store.vocab_size))
        if option in _CONFIGURED:
            key, *values = _CONFIGURED[option]
            config = dataclasses.replace(config, train=dataclasses.replace(config.train, **{key: values[on]}))
        compute = Compute.of(config.train.device, config.train.precision)
        run = folder / f"{option}-{on}"
        run.mkdir()
        torch.manual_seed(1)
        model = new_model(config, compute)
        guidance = None
        if option == GUIDED:
            prepared = load_prepared(args.data)
            guidance = guidance_of(config, prepared, load_tokenizer(prepared.tokenizer))
        if guidance is not None:
            guidance.watch(model)
        trainers[on] = Trainer(model, config, run, store, guidance=guidance, compute=compute, show_progress=False)
    for turn in range(args.rounds + 1):
        for on, trainer in trainers.items():
            before = _allocator(trainer.compute.device)
            with switched(option, on, trainer):
                clock = time.process_time if args.cpu_seconds else time.perf_counter
                rate, seconds = make_updates(trainer, args.updates, clock)
            after = _allocator(trainer.compute.device)
            allocations[on] += after["num_device_alloc"] - before["num_device_alloc"]
            peak_mib[on] = max(peak_mib[on], after["allocated_bytes.all.peak"] >> 20)
            if turn == 0:
                warm_up[on] = round(seconds, 2)
            else:
                rates[on].append(round(rate, 1))
    return {
        "option": option,
        "threads": torch.get_num_threads(),
        "preset": args.preset,
        "compute": str(trainers[True].compute),
        "updates": args.updates,
        "clock": "CPU seconds" if args.cpu_seconds else "seconds",
        "off_tokens_per_second": rates[False],
        "on_tokens_per_second": rates[True],
        "on_over_off": round(statistics.median(rates[True]) / statistics.median(rates[False]), 4),
        "first_seconds": [warm_up[False], warm_up[True]],
        "peak_mib": [peak_mib[False], peak_mib[True]],
        "device_allocations": [allocations[False], allocations[True]],
    }


def main() -> None:
    """Parses the command line, measures, prints a line of JSON for each option."""
    enter_command()  # its allocator is set as that of a command
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--option", choices=OPTIONS, action="append", help="may be repeated; default: all")
    parser.add_argument("--preset", default="paper-base")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--updates", type=int, default=20, help="of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=40_000)
    parser.add_argument("--batch-tokens", type=int, default=0, help="of each side; default: as the preset says")
    parser.add_argument("--data", type=Path, help="a prepared folder, whose pairs are trained on")
    parser.add_argument("--cpu-seconds", action="store_true", help="count CPU seconds; for one thread, on a CPU")
    parser.add_argument(
        "--long-epoch", action="store_true", help="plan modified lines as in a long epoch: by estimates"
    )
    parser.add_argument("--toy", action="store_true", help="a small model: to try the script")
    args = parser.parse_args()
    modified._EXACT_LINES = 0 if args.long_epoch else modified._EXACT_LINES
    with tempfile.TemporaryDirectory() as name:
        if args.data is None:
            store = make_store(Path(name) / "train.arrow", configured(args).model.vocab_size, args.pairs)
        else:
            store = ParallelStore.open(args.data / TRAIN)
        for option in args.option or [each for each in OPTIONS if each not in OF_TEXT or args.data]:
            print(json.dumps(measure(option, args, store, Path(name))), flush=True)


if __name__ == "__main__":
    main()
