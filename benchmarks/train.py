"""How fast a model trains and how much memory that takes: ours, `torch.nn.Transformer`, Hugging Face's Marian class.

    python benchmarks/train.py --system ours --config base
    python benchmarks/train.py --system torch --config tiny --device cuda --precision bf16
    python benchmarks/train.py --system ours --config paper-big --device cuda --precision bf16 --peak 800
    python benchmarks/train.py --compare --config base --rounds 3 --peer-python .venv/bin/python --output result.json

All systems are post-norm, share one embedding table, drop out on residuals and embeddings only, smooth labels by 0.1
and use Adam; peers as they come ("stock"): float32, default Adam, default allocator. `--keep-memory` gives any system
our allocator setting, `--fused` any the fused Adam, `--precision bf16` any autocast. Random token ids, five batches
from the fifth parts of a pool of sentences sorted by length: lengths are log-normal with a mean of 25 (base, about 1000
target tokens a batch; paper-base and paper-big, 25 000) or 15 (tiny, 4096). `--peak` gives the rate of a product of
large matrices, in TFLOP/s, to relate the operations of all systems to: those that real tokens need, counted as our
trainer counts.
`--compare` alternates between the systems, each in a process of its own: ours as it comes, peers as they come, and all
in our settings, in each precision that is fast here. Only ratios within one run count.
"""

import argparse
import contextlib
import datetime
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAD, BOS, EOS, SMOOTHING, DROPOUT = 0, 1, 2, 0.1, 0.1


@dataclass(frozen=True)
class Shape:
    """A model and the batches that it is measured on."""

    layers: int
    d_model: int
    d_ff: int
    heads: int
    vocab_size: int
    target_tokens: int
    mean_length: int
    dropout: float = DROPOUT


SHAPES = {
    "base": Shape(6, 512, 2048, 8, 37_000, 1000, 25),
    "tiny": Shape(4, 128, 256, 4, 10_000, 4096, 15),
    "paper-base": Shape(6, 512, 2048, 8, 37_000, 25_000, 25),
    "paper-big": Shape(6, 1024, 4096, 16, 37_000, 25_000, 25, 0.3),
    "toy": Shape(1, 32, 64, 2, 500, 200, 6),  # to try the scripts
}

LossFunction = Callable[[Tensor, Tensor], Tensor]


def make_batches(shape: Shape, count: int = 5, seed: int = 1) -> list[tuple[Tensor, Tensor]]:
    """Returns padded (source, target) batches; both sides end in EOS, targets have no BOS."""
    random = np.random.default_rng(seed)
    pool = 20_000
    source_lengths = np.clip(random.lognormal(np.log(shape.mean_length) - 0.18, 0.6, pool).round().astype(int), 3, 120)
    target_lengths = np.clip((source_lengths * random.normal(1.0, 0.12, pool)).round().astype(int), 3, 130)
    order = np.lexsort((source_lengths, target_lengths))
    batches = []
    for part in range(count):
        first = int(pool * (part + 0.5) / count)
        rows = order[first : first + max(1, shape.target_tokens // int(target_lengths[order[first]] + 1))]
        source = np.full((len(rows), source_lengths[rows].max() + 1), PAD, np.int64)
        target = np.full((len(rows), target_lengths[rows].max() + 1), PAD, np.int64)
        for index, row in enumerate(rows):
            for ids, length in ((source, source_lengths[row]), (target, target_lengths[row])):
                ids[index, :length] = random.integers(4, shape.vocab_size, length)
                ids[index, length] = EOS
        batches.append((torch.from_numpy(source), torch.from_numpy(target)))
    return batches


def ours(shape: Shape, dtype: torch.dtype) -> tuple[nn.Module, LossFunction]:
    """The package's model and loss, as its trainer uses them."""
    from transduce.config import ModelConfig
    from transduce.model import Transformer
    from transduce.training.batch import Batch
    from transduce.training.device import Compute
    from transduce.training.loss import Smoothing
    from transduce.training.step import batch_loss

    model = Transformer(ModelConfig(**model_settings(shape)))
    smoothing = Smoothing.of(SMOOTHING, shape.vocab_size, "uniform")

    known: dict[
        int, list[Tensor]
    ] = {}  # a trainer has the lengths from its data, and does not count them on the device

    def loss(source: Tensor, target: Tensor) -> Tensor:
        if id(source) not in known:
            known[id(source)] = [(ids != PAD).sum(1).cpu() for ids in (source, target)]
        lengths = known[id(source)]
        batch = Batch(source, lengths[0], target, lengths[1])
        total, _ = batch_loss(model, batch, smoothing, Compute(source.device, dtype))
        return total / batch.num_target_tokens

    return model, loss


def model_settings(shape: Shape) -> dict[str, Any]:
    """Returns the shape as our configuration has it."""
    head = shape.d_model // shape.heads
    return {
        "vocab_size": shape.vocab_size,
        "num_encoder_layers": shape.layers,
        "num_decoder_layers": shape.layers,
        "d_model": shape.d_model,
        "d_ff": shape.d_ff,
        "num_heads": shape.heads,
        "d_k": head,
        "d_v": head,
        "dropout": shape.dropout,
        "attention_bias": True,  # as the peers have them
    }


def count_flops(shape: Shape, batches: list[tuple[Tensor, Tensor]]) -> int:
    """Returns the operations that the batches' real tokens need, whatever a system spends on padding."""
    from transduce.config import ModelConfig
    from transduce.model.flops import training_flops
    from transduce.training.batch import Batch

    config = ModelConfig(**model_settings(shape))
    whole = [Batch(s, (s != PAD).sum(1).cpu(), t, (t != PAD).sum(1).cpu()) for s, t in batches]
    return sum(training_flops(config, batch.sizes) for batch in whole)


class TorchTransformer(nn.Module):
    """`torch.nn.Transformer` with shared, scaled embeddings and sinusoids, as its documentation suggests."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.scale = math.sqrt(shape.d_model)
        self.embedding = nn.Embedding(shape.vocab_size, shape.d_model, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, 0.0, shape.d_model**-0.5)
        angle = torch.arange(512)[:, None] * torch.exp(
            torch.arange(0, shape.d_model, 2) * (-math.log(10_000.0) / shape.d_model)
        )
        self.register_buffer("positions", torch.stack([angle.sin(), angle.cos()], -1).flatten(1))
        self.transformer = nn.Transformer(
            shape.d_model, shape.heads, shape.layers, shape.layers, shape.d_ff, shape.dropout, batch_first=True
        )
        self.dropout = shape.dropout
        for layer in [*self.transformer.encoder.layers, *self.transformer.decoder.layers]:
            layer.dropout.p = layer.self_attn.dropout = 0.0
            if hasattr(layer, "multihead_attn"):
                layer.multihead_attn.dropout = 0.0

    def embed(self, ids: Tensor) -> Tensor:
        """Embeds token ids (B, T) at their positions."""
        return F.dropout(self.embedding(ids) * self.scale + self.positions[: ids.size(1)], self.dropout, self.training)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Returns logits (B, T, V)."""
        padding, length = source == PAD, target.size(1)
        future = torch.ones(length, length, dtype=torch.bool, device=target.device).triu(1)
        states = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=future,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return F.linear(states, self.embedding.weight)


def shifted(target: Tensor) -> Tensor:
    """The decoder's input: BOS, then all but the last token."""
    return torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], 1)


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """PyTorch's own smoothed cross-entropy."""
    return F.cross_entropy(logits.flatten(0, 1).float(), target.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING)


def torch_transformer(shape: Shape, dtype: torch.dtype) -> tuple[nn.Module, LossFunction]:
    """`torch.nn.Transformer`."""
    model = TorchTransformer(shape)
    return model, lambda source, target: cross_entropy(model(source, shifted(target)), target)


def huggingface(shape: Shape, dtype: torch.dtype) -> tuple[nn.Module, LossFunction]:
    """Hugging Face's Marian class."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=shape.vocab_size,
        d_model=shape.d_model,
        encoder_layers=shape.layers,
        decoder_layers=shape.layers,
        encoder_attention_heads=shape.heads,
        decoder_attention_heads=shape.heads,
        encoder_ffn_dim=shape.d_ff,
        decoder_ffn_dim=shape.d_ff,
        dropout=shape.dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation_function="relu",
        scale_embedding=True,
        static_position_embeddings=True,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
        max_position_embeddings=512,
    )
    model = MarianMTModel(config)

    def loss(source: Tensor, target: Tensor) -> Tensor:
        output = model(
            input_ids=source, attention_mask=source != PAD, decoder_input_ids=shifted(target), use_cache=False
        )
        return cross_entropy(output.logits, target)

    return model, loss


SYSTEMS = {"ours": ours, "torch": torch_transformer, "huggingface": huggingface}


def keep_memory() -> None:
    """The allocator setting of `transduce.engines.allocator`, also for environments without the package."""
    import ctypes

    mallopt = ctypes.CDLL(None).mallopt
    for parameter, value in ((-4, 0), (-1, 2**31 - 1), (-2, 64 << 20)):
        mallopt(parameter, value)


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Trains one system on the five batches, `--passes` times, and returns its figures."""
    torch.manual_seed(0)
    if args.threads:
        torch.set_num_threads(args.threads)
    if args.keep_memory:
        keep_memory()
    precision = args.precision
    if precision == "auto":
        precision = chosen_precision(args.device) if args.system == "ours" else "fp32"
    if precision == "tf32":
        torch.set_float32_matmul_precision("high")
    shape, device = SHAPES[args.config], torch.device(args.device)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    batches = [(source.to(device), target.to(device)) for source, target in make_batches(shape)]
    model, loss_of = SYSTEMS[args.system](shape, dtype)
    model.to(device).train()
    fused = {"fused": True} if args.fused else {}
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, **fused)
    autocast = contextlib.nullcontext() if dtype == torch.float32 else torch.autocast(device.type, dtype)

    def step(source: Tensor, target: Tensor) -> float:
        optimizer.zero_grad(set_to_none=True)
        with autocast if args.system != "ours" else contextlib.nullcontext():
            loss = loss_of(source, target)
        loss.backward()
        optimizer.step()
        return loss.item()

    for batch in batches if device.type == "cuda" else (batches[0], batches[-1]):  # on a GPU each shape is new once
        step(*batch)
    wall, cpu = [], []
    for _ in range(args.passes):
        started, cpu_started = time.perf_counter(), time.process_time()
        for batch in batches:
            step(*batch)
        wall.append(time.perf_counter() - started)
        cpu.append(time.process_time() - cpu_started)
    tokens = int(sum((target != PAD).sum() for _, target in batches))
    rate = {}
    if args.peak:
        flops = count_flops(shape, batches) / statistics.median(wall)
        rate = {"tflops_per_second": round(flops / 1e12, 2), "share_of_peak": round(flops / 1e12 / args.peak, 4)}
    return {
        "system": args.system,
        "config": args.config,
        "precision": precision,
        "fused_adam": args.fused,
        "keep_memory": args.keep_memory,
        "target_tokens_per_second": round(tokens / statistics.median(wall), 1),
        "best_target_tokens_per_second": round(tokens / min(wall), 1),
        **rate,
        "cpu_seconds_per_pass": round(statistics.median(cpu), 3),
        "parameters": sum(p.numel() for p in model.parameters()),
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        if device.type == "cpu"
        else round(torch.cuda.max_memory_allocated() / 2**20),
        "machine": machine(device),
    }


def machine(device: torch.device) -> dict[str, Any]:
    """Says what the figures were measured on."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else torch.backends.cpu.get_cpu_capability()
    return {
        "device": f"{device.type}: {name}",
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "load_1min": round(os.getloadavg()[0], 2),
    }


def compare(args: argparse.Namespace) -> dict[str, Any]:
    """Runs every variant by turns and returns all figures: ours as it comes, peers as they come and in our settings."""
    from transduce.training.device import Compute, device_capacity

    device, precisions = torch.device(args.device), ["fp32"]
    if chosen_precision(args.device) == "bf16":
        precisions.append("bf16")
    ours = ["--fused", "--keep-memory"]
    variants = {"ours": ["ours", *ours], "torch, stock": ["torch"], "huggingface, stock": ["huggingface"]}
    for precision in precisions:
        for system in SYSTEMS:
            variants[f"{system}, {precision}, our settings"] = [system, *ours, "--precision", precision]
    if not args.peer_python:
        variants = {name: variant for name, variant in variants.items() if variant[0] != "huggingface"}
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in variants}
    for _ in range(args.rounds):
        for name, (system, *options) in variants.items():
            python = args.peer_python if system == "huggingface" else sys.executable
            command = [python, __file__, "--system", system, "--config", args.config, "--passes", str(args.passes)]
            command += ["--device", args.device, "--threads", str(args.threads), *options]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            runs[name].append(json.loads(output.splitlines()[-1]))
            print(f"{name}: {runs[name][-1]['target_tokens_per_second']} tokens/s", file=sys.stderr, flush=True)
    speed = {n: statistics.median(r["target_tokens_per_second"] for r in rs) for n, rs in runs.items()}
    if args.threads:
        torch.set_num_threads(args.threads)
    computes = [Compute.of(args.device, precision) for precision in precisions]  # type: ignore[arg-type]
    peaks = {p: device_capacity(compute).flops_per_second for p, compute in zip(precisions, computes, strict=True)}
    batches = make_batches(SHAPES[args.config])
    flops_a_token = count_flops(SHAPES[args.config], batches) / sum(int((t != PAD).sum()) for _, t in batches)
    shares = {n: speed[n] * flops_a_token / peak for n, rs in runs.items() if (peak := peaks[rs[0]["precision"]])}
    return {
        "benchmark": "training speed and memory",
        "date": datetime.date.today().isoformat(),
        "config": args.config,
        "rounds": args.rounds,
        "machine": machine(device),
        "median_target_tokens_per_second": speed,
        "ours_to_it": {name: round(speed[_ours_like(name, speed)] / each, 3) for name, each in speed.items()},
        "peak_memory_mb": {n: max(r["peak_memory_mb"] for r in rs) for n, rs in runs.items()},
        "peak_tflops": {p: round(peak / 1e12, 3) for p, peak in peaks.items() if peak},
        "share_of_peak": {name: round(share, 3) for name, share in shares.items()},
        "runs": runs,
    }


def _ours_like(name: str, speed: dict[str, float]) -> str:
    """Returns which of ours is compared with a variant: the one in the same settings, or as it comes."""
    return same if (same := f"ours, {name.partition(', ')[2]}") in speed else "ours"


def chosen_precision(device: str) -> str:
    """Returns the precision that our trainer chooses on a device."""
    from transduce.training.device import Compute

    return "bf16" if Compute.of(device).dtype == torch.bfloat16 else "fp32"


def main() -> None:
    """Parses the command line, measures, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", choices=SYSTEMS, default="ours")
    parser.add_argument("--config", choices=SHAPES, default="base")
    parser.add_argument(
        "--precision",
        choices=["auto", "fp32", "tf32", "bf16"],
        default="auto",
        help="auto: ours chooses, peers use fp32",
    )
    parser.add_argument("--peak", type=float, default=0.0, help="measured TFLOP/s of large matrix products")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0, help="default: PyTorch's choice")
    parser.add_argument("--passes", type=int, default=2, help="passes over the five batches; the median counts")
    parser.add_argument("--fused", action="store_true", help="fused Adam")
    parser.add_argument("--keep-memory", action="store_true", help="keep malloc from returning memory")
    parser.add_argument("--compare", action="store_true", help="all systems by turns")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer-python", help="Python with transformers; without it, no Hugging Face")
    parser.add_argument("--output", type=Path, help="with --compare: file for the result")
    args = parser.parse_args()
    result = compare(args) if args.compare else measure(args)
    if args.output:
        args.output.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result if not args.compare else {k: result[k] for k in result if k != "runs"}))


if __name__ == "__main__":
    main()
