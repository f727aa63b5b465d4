"""How fast a paper-base model translates from text to text, against bare CTranslate2 fed with ready tokens.

    python benchmarks/decode_text.py --output result.json
    python benchmarks/decode_text.py --quantization int8 --cases 4x32 --rounds 10

Both run the same converted model of random weights (`ending_models.py`), in one process, by turns: sources of 25
positions, outputs that end of themselves after 30 steps. Ours is `Translator.translate`, lines to lines; bare
CTranslate2 is its `translate_batch` from lists of tokens to lists of tokens. `--torch` adds our torch engine, in the
same numbers. `--shortlist N` adds our engines with a shortlist: random weights have no lexicon, so each source piece
has as many random candidates as make the union of a batch of 32 about N pieces. docs/guides/shortlist.md says what N is
in a real corpus. Cases are beam size x batch size; `--batches` of each are given at once, but single sentences one at a
time. Tokens are steps x sentences: beams do not count.

Bare CTranslate2 is run with all threads for each batch ("bare"), with batches side by side on one thread each ("bare
side by side"), and for single sentences on one thread ("bare one thread"). The fastest of them is its best. Ours
chooses for itself.
"""

import argparse
import datetime
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ending_models import STEPS, made_lines, make_model

CASES = ["4x32", "4x1", "1x32", "1x1"]
LENGTH_PENALTY = 0.6
_WAYS = ("bare", "bare side by side", "bare one thread")  # of CTranslate2


def systems(
    model: Path, lines: list[str], beam_size: int, batch_size: int, args: argparse.Namespace
) -> dict[str, Callable[[], object]]:
    """Returns functions that translate the lines once, each tried before: all outputs must take the same steps."""
    import ctranslate2

    from transduce import Translator
    from transduce.bundle import Bundle
    from transduce.engines.allocator import enter_command
    from transduce.engines.ctranslate2_cache import converted

    enter_command()  # its allocator is set as that of a command
    options = {"beam_size": beam_size, "length_penalty": LENGTH_PENALTY}
    found: dict[str, Callable[[], object]] = {}

    def text_to_text(translator: Translator) -> Callable[[], object]:
        results = translator.translate_n_best(lines, 1, **options, batch_size=batch_size)
        require_steps({len(best.tokens) + best.finished for [best] in results})
        return lambda: translator.translate(lines, **options, batch_size=batch_size)

    def token_to_token(bare: Any, tokens: list[list[str]]) -> Callable[[], object]:
        results = bare.translate_batch(tokens, **options, max_batch_size=batch_size)
        require_steps({len(result.hypotheses[0]) + 1 for result in results})
        return lambda: bare.translate_batch(tokens, **options, max_batch_size=batch_size)

    bundle = Bundle.load(model)
    names = bundle.tokenizer.tokens()
    tokens = [[names[index] for index in ids] for ids in bundle.tokenizer.encode_batch(lines)]
    common = {"device": args.device}
    for quantization in args.quantization:
        found[f"ours {quantization}"] = text_to_text(
            Translator.load(model, engine="ctranslate2", quantization=quantization, threads=args.threads, **common)
        )
        compute_type = "int8_float32" if quantization == "int8" else quantization
        folder = str(converted(bundle, quantization))
        shares = {"bare": (1, args.threads)}
        if args.threads > 1:  # one thread for each batch, if there are enough batches for all threads
            enough = len(lines) >= args.threads * batch_size
            shares["bare side by side" if enough else "bare one thread"] = (args.threads if enough else 1, 1)
        for name, (inter, intra) in shares.items():
            bare = ctranslate2.Translator(
                folder, compute_type=compute_type, inter_threads=inter, intra_threads=intra, **common
            )
            found[f"{name} {quantization}"] = token_to_token(bare, tokens)
    common |= {"threads": args.threads}
    for quantization in args.quantization if args.torch else ():
        for shortlist in ("off", "on") if args.shortlist else ("off",):
            found[f"torch {quantization}{' shortlist' if shortlist == 'on' else ''}"] = text_to_text(
                Translator.load(model, engine="torch", quantization=quantization, shortlist=shortlist, **common)
            )
    for quantization in args.quantization if args.shortlist else ():
        found[f"ours {quantization} shortlist"] = text_to_text(
            Translator.load(model, engine="ctranslate2", quantization=quantization, shortlist="on", **common)
        )
    return found


def add_shortlist(model: Path, batch_ids: int) -> dict[str, float]:
    """Writes a made-up shortlist whose union over 32 lines is about `batch_ids`; returns what it came to."""
    import numpy as np

    from transduce.bundle import Bundle
    from transduce.engines.shortlist.table import Shortlist, save_shortlist

    bundle = Bundle.load(model)
    sources = bundle.tokenizer.encode_batch(made_lines(model, 32))
    generator, vocab_size = np.random.default_rng(0), bundle.tokenizer.vocab_size
    # A hundred are always there; lines are of random words, whose candidates seldom coincide.
    width = max(1, round((batch_ids - 100) / len({index for source in sources for index in source})) - 1)
    candidates = generator.integers(4, vocab_size, size=(vocab_size, width + 1)).astype(np.int32)
    candidates[:, 0] = np.arange(vocab_size)
    shortlist = Shortlist(candidates, np.arange(4, 104, dtype=np.int32), {"made up": width}, vocab_size)
    save_shortlist(bundle, shortlist)
    allowed = shortlist.allowed(sources)
    return {"ids_of_a_batch": int(allowed.any(axis=0).sum()), "ids_of_a_line": float(allowed.sum(axis=1).mean())}


def require_steps(lengths: set[int]) -> None:
    """Ends the program where outputs did not take the steps that they should."""
    if lengths != {STEPS}:
        raise SystemExit(f"outputs took {sorted(lengths)} steps, not {STEPS}: the comparison is void.")


def measure(model: Path, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Times all systems by turns; the order turns round with each round."""
    rows = []
    for case in args.cases:
        beam_size, batch_size = (int(number) for number in case.split("x"))
        batches = args.batches if batch_size > 1 else 1
        lines = made_lines(model, batch_size * batches)
        runs = systems(model, lines, beam_size, batch_size, args)
        for run in runs.values():
            run()
        repeats = 1 if batch_size > 8 else 4
        for turn in range(args.rounds):
            for name, run in list(runs.items())[:: 1 if turn % 2 == 0 else -1]:
                start, cpu_start = time.perf_counter(), time.process_time()
                for _ in range(repeats):
                    run()
                seconds = (time.perf_counter() - start) / repeats
                row = {
                    "case": case,
                    "system": name,
                    "round": turn,
                    "seconds_per_batch": round(seconds / batches, 4),
                }
                cpu_seconds = (time.process_time() - cpu_start) / repeats
                row |= {"cpu_seconds_per_batch": round(cpu_seconds / batches, 4)}
                row |= {"tokens_per_second": round(len(lines) * STEPS / seconds, 1)}
                rows.append(row | {"load_average": round(os.getloadavg()[0], 2)})
                print(json.dumps(rows[-1]), flush=True)
    return rows


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the median speed of each system in each case, and how many times as fast as a peer's best ours is.

    The quotient is of the medians; of processor time, of the least. Where other programs share the cores, trust that.
    """
    medians: dict[str, dict[str, float]] = {}
    ratios: dict[str, dict[str, dict[str, float]]] = {"tokens_per_second": {}, "cpu_time": {}}
    for case in dict.fromkeys(row["case"] for row in rows):
        of_case = [row for row in rows if row["case"] == case]
        names = list(dict.fromkeys(row["system"] for row in of_case))
        speeds = {
            name: statistics.median(row["tokens_per_second"] for row in of_case if row["system"] == name)
            for name in names
        }
        cpu = {name: min(row["cpu_seconds_per_batch"] for row in of_case if row["system"] == name) for name in names}
        medians[case] = {name: round(speed, 1) for name, speed in speeds.items()}
        ratios["tokens_per_second"][case], ratios["cpu_time"][case] = {}, {}
        for name in (name for name in names if name.startswith("ours")):
            kind = name.removeprefix("ours ")
            ways = [f"{way} {kind.removesuffix(' shortlist')}" for way in _WAYS]
            peers = [way for way in ways if way in speeds]
            best = max(peers, key=lambda way: speeds[way])
            medians[case][f"bare, best {kind}"] = medians[case][best]
            ratios["tokens_per_second"][case][kind] = round(speeds[name] / speeds[best], 3)
            ratios["cpu_time"][case][kind] = round(min(cpu[way] for way in peers) / cpu[name], 3)
        for name in (name for name in names if name.endswith(" shortlist")):
            without = name.removesuffix(" shortlist")
            ratios["cpu_time"][case][f"{name}, over without"] = round(cpu[without] / cpu[name], 3)
    return {"tokens_per_second": medians, "ours_over_bare_best": ratios}


def main() -> None:
    """Reads the command line and runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="paper-base", help="paper-base or tiny; default: %(default)s")
    parser.add_argument("--quantization", nargs="+", default=["int8", "float32"], metavar="TYPE")
    parser.add_argument("--cases", type=lambda text: text.split(","), default=CASES, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each system; default: %(default)s")
    parser.add_argument("--batches", type=int, default=8, help="given at once; default: %(default)s")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--torch", action="store_true", help="the torch engine too")
    parser.add_argument("--shortlist", type=int, metavar="N", help="with a shortlist of N pieces for a batch, too")
    parser.add_argument("--output", type=Path, help="also write the result here, as JSON")
    args = parser.parse_args()
    import ctranslate2

    from transduce.reporting.machine import describe_machine

    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder, "model"), args.shape)
        made_up = {"shortlist": add_shortlist(Path(folder, "model"), args.shortlist)} if args.shortlist else {}
        rows = measure(Path(folder, "model"), args)
    summary = summarise(rows)
    print(json.dumps(summary, indent=2))
    if args.output:
        result = {
            "date": datetime.date.today().isoformat(),
            "what": f"{args.shape} shape, random weights, 25 source positions, 30 steps, cases are beam size x batch "
            "size; ours: Translator.translate, text to text; bare: CTranslate2's translate_batch, tokens to tokens; "
            "by turns",
            "machine": describe_machine()
            | {
                "ctranslate2": ctranslate2.__version__,
                "threads": args.threads,
                "batches": args.batches,
                "device": args.device,
                "load_average": round(os.getloadavg()[0], 2),
            },
            **made_up,
            **summary,
            "rows": rows,
        }
        args.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
