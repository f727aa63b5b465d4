"""Whether translations depend on batch size, order or neighbours: every sentence of a file, in every way, compared.

    python benchmarks/batch_invariance.py models/m30k --sentences test.en --output result.json
    python benchmarks/batch_invariance.py models/m30k --sentences test.en --engine ctranslate2 --quantization int8

`--shortlist on` compares searches in the model's shortlist.

The sentences are translated at batch sizes 64, 1 and 7, and shuffled at 7 and 64. Outputs are compared token by
token with those at 64. Where two differ, both are scored as given translations, in one batch: less than 1e-4 apart
they are a tie, which is listed; else a fault. It is a check of `transduce verify`, made on all sentences of a file.
"""

import argparse
import datetime
import json
import os
import platform
import time
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from transduce.bundle import Bundle
from transduce.config import DecodeConfig
from transduce.data.readers import read_lines
from transduce.engines.capabilities import ENGINES
from transduce.engines.interface import Engine
from transduce.engines.loading import EngineChoice, load_engine
from transduce.verification import Settings
from transduce.verification.engines import THRESHOLDS
from transduce.verification.search import Search, batches

BATCH_SIZES = (1, 7, 64)
TIE = 1e-4


def load(bundle: Bundle, args: argparse.Namespace) -> Engine:
    """Returns the engine that is asked for."""
    choice = EngineChoice(args.engine)
    common = {"device": args.device, "threads": args.threads, "quantization": args.quantization}
    return load_engine(bundle, choice, **common, shortlist=args.shortlist)


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Translates in all ways and returns what came out."""
    bundle = Bundle.load(args.model)
    engine = load(bundle, args)
    lines = [(number, line) for number, line in enumerate(read_lines(args.sentences), start=1) if line.strip()]
    lines = lines[: args.count]
    own = bundle.config.decode
    options = DecodeConfig(
        beam_size=args.beam_size or own.beam_size,
        length_penalty=own.length_penalty,
        max_extra_tokens=own.max_extra_tokens,
    )
    search = Search(
        engine=engine,
        names=tuple(f"line {number}" for number, _ in lines),
        sources=bundle.tokenizer.encode_batch([line for _, line in lines]),
        options=options,
        tokenizer=bundle.tokenizer,
        settings=Settings(batch_sizes=BATCH_SIZES, tie=TIE),
        tolerance=THRESHOLDS[args.quantization].batch,
    )
    start = time.perf_counter()
    with torch.inference_mode():
        found = batches(search)
    return {
        "date": datetime.date.today().isoformat(),
        "engine": engine.name,
        "model": bundle.config.name,
        "shortlist": args.shortlist,
        "sentences": len(lines),
        "search": {"beam_size": options.beam_size, "length_penalty": options.length_penalty},
        "batch_sizes": BATCH_SIZES,
        "outcome": found.outcome,
        "result": found.note,
        "greatest_difference_of_a_log_probability": found.worst,
        "ties": [asdict(tie) for tie in found.ties],
        "faults": found.faults,
        "seconds": round(time.perf_counter() - start, 1),
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
        "versions": {name: version(name) for name in ("torch", *args.versions)},
    }


def main() -> None:
    """Reads the arguments, measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--sentences", type=Path, required=True)
    parser.add_argument("--count", type=int, default=None, help="the first so many sentences; default: all")
    parser.add_argument("--engine", choices=tuple(ENGINES), default="torch")
    parser.add_argument("--quantization", choices=tuple(THRESHOLDS), default="float32")
    parser.add_argument("--shortlist", choices=("off", "on"), default="off")
    parser.add_argument("--beam-size", type=int, default=None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--output", type=Path, default=None, help="default: standard output")
    args = parser.parse_args()
    args.versions = () if args.engine == "torch" else (args.engine,)
    text = json.dumps(measure(args), indent=2, ensure_ascii=False) + "\n"
    if args.output is None:
        print(text, end="")
    else:
        args.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
