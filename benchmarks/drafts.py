"""What drafts are worth: greedy search with them against greedy search, and whether the outputs are the same.

Every way of proposing tokens alternates with the same engine's greedy search, and with CTranslate2's, chunk after chunk
of the same sentences. Times are processor time of one thread. Outputs are compared with those of greedy search for
each sentence alone; each that differs is listed, with how far the two best tokens were apart where the outputs part.

    python benchmarks/drafts.py MODEL test.en [--lines 3000] [--drafts self blockwise STUDENT] [--most 1 2 4 7] \\
        [--always] [--prefixes] [--beams 4] [--quantizations float32 int8] [--batch-sizes 1 8 32] \\
        [--reference test.de] [--output result.json]

With --always, every search has drafts, and every pass as many proposals as it may: what they are worth, and not what
the engine makes of them. With --prefixes, the first half of greedy search's output is given, as on the service's page.
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
from transduce.decoding.drafting import DraftCounts
from transduce.engines.interface import Engine, TokenConstraints
from transduce.engines.loading import EngineChoice, load_engine
from transduce.engines.torch import TorchEngine
from transduce.evaluation import bleu
from transduce.verification.drafts import propose_always

CHUNK = 96  # sentences between turns
WARM_UP = 16
GREEDY = "greedy"
CTRANSLATE2 = "ctranslate2 greedy"


class Way:
    """One way to search, the seconds that it took, and what it wrote."""

    def __init__(self, name: str, engine: Engine, beam_size: int = 1) -> None:
        self.name, self.engine, self.beam_size = name, engine, beam_size
        self.seconds, self.ids = 0.0, []  # type: float, list[list[int]]

    def translate(
        self, sources: list[list[int]], batch_size: int, constraints: list[TokenConstraints] | None = None
    ) -> None:
        options = DecodeConfig(beam_size=self.beam_size, batch_size=batch_size)
        begin = time.process_time()
        found = self.engine.translate(sources, options, constraints=constraints)
        self.seconds += time.process_time() - begin
        self.ids += [list(best.ids) for best, *_ in found]


def ways_of(bundle: Bundle, quantization: str, args: argparse.Namespace) -> list[Way]:
    """Returns greedy search, CTranslate2's, beam search, and greedy search with each draft and number of proposals."""

    def engine(name: str, draft: str = "") -> Engine:
        return load_engine(bundle, EngineChoice(name), device="cpu", threads=1, quantization=quantization, draft=draft)

    ways = [Way(GREEDY, engine("torch"))]
    if quantization != "bfloat16":
        ways.append(Way(CTRANSLATE2, engine("ctranslate2")))
    ways += [
        Way(way.name.replace(GREEDY, f"beam {size}"), way.engine, size) for way in list(ways) for size in args.beams
    ]
    for draft, most in itertools.product(args.drafts, args.most or [None]):
        found = engine("torch", draft)
        assert isinstance(found, TorchEngine)
        assert found.drafts is not None
        if most is not None:
            found.drafts.most = min(most, found.drafts.most)
        if args.always:
            propose_always(found.drafts)
        ways.append(Way(draft if most is None else f"{draft}, {most} proposals", found))
    return ways


def different(ways: list[Way], expected: list[list[int]], sources: list[list[int]]) -> dict[str, list[dict[str, Any]]]:
    """Returns for each greedy search of torch which sentences differ, where, and how far apart the tokens were."""
    greedy, found = ways[0].engine, {}
    for way in ways:
        if way.beam_size > 1 or not isinstance(way.engine, TorchEngine):
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


def measure(bundle: Bundle, sources: list[list[int]], quantization: str, args: Any) -> list[dict[str, Any]]:
    """Returns the figures of one precision, for each batch size."""
    results, alone = [], None
    for batch_size in args.batch_sizes:
        ways = timed_ways(bundle, sources, quantization, batch_size, args)
        if alone is None:
            alone = ways[0].ids
            if batch_size > 1:
                found = ways[0].engine.translate(sources, DecodeConfig(beam_size=1, batch_size=1))
                alone = [list(best.ids) for [best] in found]
        figures = figures_of(ways, different(ways, alone, sources), bundle, quantization, args)
        results.append({"quantization": quantization, "batch_size": batch_size, "ways": figures})
    return results


def timed_ways(bundle: Bundle, sources: list[list[int]], quantization: str, batch_size: int, args: Any) -> list[Way]:
    """Returns all ways, which have translated all sources.

    They warm up with sources back to front, which teach drafts nothing of those that are measured.
    """
    ways = ways_of(bundle, quantization, args)
    for way in ways:
        way.translate([source[::-1] for source in sources[:WARM_UP]], batch_size)
        way.seconds, way.ids = 0.0, []
        if isinstance(way.engine, TorchEngine) and way.engine.drafts is not None:
            way.engine.drafts.counts = DraftCounts()
    constraints = None
    if args.prefixes:
        found = ways[0].engine.translate(sources, DecodeConfig(beam_size=1, batch_size=batch_size))
        constraints = [TokenConstraints(prefix=tuple(best.ids[: len(best.ids) // 2])) for [best] in found]
    for number, start in enumerate(range(0, len(sources), CHUNK)):
        chunk = slice(start, start + CHUNK)
        for turn in range(len(ways)):  # another order each time
            way = ways[(turn + number) % len(ways)]
            way.translate(sources[chunk], batch_size, constraints and constraints[chunk])
    return ways


def figures_of(
    ways: list[Way], differ: dict[str, list[dict[str, Any]]], bundle: Bundle, quantization: str, args: Any
) -> dict[str, Any]:
    """Returns the figures of each way, and prints them."""
    of_ways = {}
    for way in ways:
        found: dict[str, Any] = {"seconds": round(way.seconds, 3), "sentences_a_second": len(way.ids) / way.seconds}
        found["times_greedy"] = ways[0].seconds / way.seconds
        if isinstance(way.engine, TorchEngine) and (drafts := way.engine.drafts) is not None:
            counts = drafts.counts
            found |= {
                "tokens_a_pass": counts.tokens_a_pass,
                "proposed_a_pass": counts.proposed / max(1, counts.sentence_passes),
            }
            found |= {"repeated_steps": counts.repeated, "tokens": counts.tokens}
        if way.name in differ:
            found["different"] = differ[way.name]
        if args.reference is not None:
            found["bleu"] = bleu(bundle.tokenizer.target.decode_batch(way.ids), [args.references]).value
        of_ways[way.name] = found
        shown = {name: value for name, value in found.items() if name != "different"}
        print(quantization, way.name, json.dumps(shown), len(found.get("different", [])), "differ", flush=True)
    return of_ways


def main() -> None:
    """Measures, and prints or writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("--lines", type=int, default=3000)
    parser.add_argument("--drafts", nargs="+", default=["self"])
    parser.add_argument("--most", nargs="+", type=int, default=[])
    parser.add_argument("--always", action="store_true")
    parser.add_argument("--prefixes", action="store_true")
    parser.add_argument("--beams", nargs="+", type=int, default=[], help="also measure beam search of these widths")
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
    results = [each for quantization in args.quantizations for each in measure(bundle, sources, quantization, args)]
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
