"""What drafts are worth: greedy search with them against greedy search, and whether the outputs are the same.

Every way of proposing tokens alternates with the same engine's greedy search, and with CTranslate2's, chunk after chunk
of the same sentences. Times are processor time of one thread. Outputs are compared with those of greedy search for
each sentence alone; each that differs is listed, with how far the two best tokens were apart where the outputs part.

    python benchmarks/drafts.py MODEL test.en [--lines 3000] [--drafts self blockwise STUDENT] [--most 1 2 4 7] \\
        [--quantizations float32 int8] [--batch-sizes 1 8 32] [--reference test.de] [--output result.json]
"""

import argparse
import itertools
import json
import time
from datetime import date
from pathlib import Path
from typing import Any

import torch

from transduce.bundle import Bundle
from transduce.config import DecodeConfig
from transduce.data.readers import read_lines
from transduce.engines.interface import Engine
from transduce.engines.loading import EngineChoice, load_engine
from transduce.engines.torch import TorchEngine
from transduce.evaluation import bleu

CHUNK = 96  # sentences between turns
WARM_UP = 16
GREEDY = "greedy"
CTRANSLATE2 = "ctranslate2 greedy"


class Way:
    """One way to search, the seconds that it took, and what it wrote."""

    def __init__(self, name: str, engine: Engine) -> None:
        self.name, self.engine = name, engine
        self.seconds, self.ids = 0.0, []  # type: float, list[list[int]]

    def translate(self, sources: list[list[int]], batch_size: int) -> None:
        begin = time.process_time()
        found = self.engine.translate(sources, DecodeConfig(beam_size=1, batch_size=batch_size))
        self.seconds += time.process_time() - begin
        self.ids += [list(best.ids) for [best] in found]


def ways_of(bundle: Bundle, quantization: str, args: argparse.Namespace) -> list[Way]:
    """Returns greedy search, CTranslate2's, and that with each draft, for each greatest number of proposals."""

    def engine(name: str, draft: str = "") -> Engine:
        return load_engine(bundle, EngineChoice(name), device="cpu", threads=1, quantization=quantization, draft=draft)

    ways = [Way(GREEDY, engine("torch"))]
    if quantization != "bfloat16":
        ways.append(Way(CTRANSLATE2, engine("ctranslate2")))
    for draft, most in itertools.product(args.drafts, args.most or [None]):
        found = engine("torch", draft)
        assert isinstance(found, TorchEngine)
        assert found.drafts is not None
        if most is not None:
            found.drafts.most = min(most, found.drafts.most)
        ways.append(Way(draft if most is None else f"{draft}, {most} proposals", found))
    return ways


def different(ways: list[Way], expected: list[list[int]], sources: list[list[int]]) -> dict[str, list[dict[str, Any]]]:
    """Returns for each way with drafts which sentences differ, where, and how far the tokens were apart there."""
    greedy, found = ways[0].engine, {}
    for way in ways[1:]:
        if way.name == CTRANSLATE2:
            continue
        found[way.name] = [
            {"sentence": number, **_parted(greedy, sources[number], one, two)}
            for number, (one, two) in enumerate(zip(expected, way.ids, strict=True))
            if one != two
        ]
    return found


def _parted(engine: Engine, source: list[int], one: list[int], two: list[int]) -> dict[str, Any]:
    parted = next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    a, b = (each[parted] for each in engine.score([source] * 2, [one[: parted + 1], two[: parted + 1]]))
    return {"token": parted, "margin": abs(a - b)}


def measure(bundle: Bundle, sources: list[list[int]], quantization: str, batch_size: int, args: Any) -> dict[str, Any]:
    """Returns the figures of one precision and batch size."""
    ways = ways_of(bundle, quantization, args)
    for way in ways:
        way.engine.translate(sources[:WARM_UP], DecodeConfig(beam_size=1, batch_size=batch_size))
    chunks = [sources[start : start + CHUNK] for start in range(0, len(sources), CHUNK)]
    for number, chunk in enumerate(chunks):
        for turn in range(len(ways)):  # another order each time
            ways[(turn + number) % len(ways)].translate(chunk, batch_size)
    expected = ways[0].ids
    if batch_size > 1:
        alone = ways[0].engine.translate(sources, DecodeConfig(beam_size=1, batch_size=1))
        expected = [list(best.ids) for [best] in alone]
    differ = different(ways, expected, sources)
    of_ways = {}
    for way in ways:
        found: dict[str, Any] = {"seconds": round(way.seconds, 3), "sentences_a_second": len(sources) / way.seconds}
        found["times_greedy"] = ways[0].seconds / way.seconds
        if isinstance(way.engine, TorchEngine) and (drafts := way.engine.drafts) is not None:
            counts = drafts.counts
            found |= {
                "tokens_a_pass": counts.tokens_a_pass,
                "proposed_a_pass": counts.proposed / max(1, counts.sentence_passes),
            }
            found |= {"repeated_steps": counts.repeated, "tokens": counts.tokens, "different": differ[way.name]}
        if args.reference is not None:
            found["bleu"] = bleu(bundle.tokenizer.target.decode_batch(way.ids), [args.references]).value
        of_ways[way.name] = found
        shown = {name: value for name, value in found.items() if name != "different"}
        print(
            quantization, batch_size, way.name, json.dumps(shown), len(found.get("different", [])), "differ", flush=True
        )
    return {"quantization": quantization, "batch_size": batch_size, "ways": of_ways}


def main() -> None:
    """Measures, and prints or writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("--lines", type=int, default=3000)
    parser.add_argument("--drafts", nargs="+", default=["self"])
    parser.add_argument("--most", nargs="+", type=int, default=[])
    parser.add_argument("--quantizations", nargs="+", default=["float32"])
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=[1])
    parser.add_argument("--reference", type=Path)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    bundle = Bundle.load(args.model)
    lines = list(itertools.islice(read_lines(args.source), args.lines))
    if args.reference is not None:
        args.references = list(itertools.islice(read_lines(args.reference), args.lines))
    sources = bundle.tokenizer.encode_batch(lines)
    results = [
        measure(bundle, sources, quantization, batch_size, args)
        for quantization, batch_size in itertools.product(args.quantizations, args.batch_sizes)
    ]
    result = {
        "date": date.today().isoformat(),
        "model": vars(bundle.config.model) if hasattr(bundle.config.model, "__dict__") else str(bundle.config.model),
        "sentences": len(lines),
        "tokens": sum(map(len, sources)),
        "threads": 1,
        "torch": torch.__version__,
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "results": results,
    }
    if args.output is not None:
        args.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
