"""Whether a line's translation depends on its neighbours: the same lines in other batches and another order.

    python benchmarks/invariance.py models/m30k --input test.en
    python benchmarks/invariance.py models/m30k --input test.en --systems ctranslate2:float32 ctranslate2:int8 torch

Translates the file in batches of 32, then in each of `--batch-sizes`, shuffled, and counts the lines that come out
otherwise. Those are listed with the scores that the engine gives to both outputs when it scores them by themselves:
where these differ by less than 1e-4 the two are tied, and rounding decides. With `--reference`, BLEU too.
"""

import argparse
import datetime
import json
import random
from pathlib import Path
from typing import Any

from transduce import Translator
from transduce.data.readers import read_lines
from transduce.decoding.scores import hypothesis
from transduce.evaluation import bleu

TIE = 1e-4


def compare(translator: Translator, lines: list[str], batch_sizes: list[int]) -> dict[str, Any]:
    """Returns how many lines come out otherwise in other batches, and each of these with its scores."""
    sources = translator.tokenizer.encode_batch(lines)
    options = translator.options
    expected = [best for [best] in translator.engine.translate(sources, translator.with_options(batch_size=32))]
    others = []
    for batch_size in batch_sizes:
        order = random.Random(batch_size).sample(range(len(lines)), len(lines))
        shuffled = [sources[place] for place in order]
        found = translator.engine.translate(shuffled, translator.with_options(batch_size=batch_size))
        for place, [best] in zip(order, found, strict=True):
            if best.ids != expected[place].ids:
                pair = [best.ids, expected[place].ids]
                totals = map(sum, translator.engine.score([sources[place]] * 2, pair))
                scores = [
                    hypothesis(ids, total, True, options.length_penalty).score
                    for ids, total in zip(pair, totals, strict=True)
                ]
                others.append({"line": place + 1, "batch_size": batch_size, "difference": abs(scores[0] - scores[1])})
    texts = translator.tokenizer.decode_batch([best.ids for best in expected])
    return {
        "lines": len(lines),
        "batch_sizes": batch_sizes,
        "differ": len(others),
        "of_these_ties": sum(other["difference"] < TIE for other in others),
        "which": others,
        "texts": texts,
    }


def main() -> None:
    """Reads the command line and runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--reference", type=Path)
    parser.add_argument("--systems", nargs="+", default=["ctranslate2:float32", "ctranslate2:int8"])
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=[1, 7, 64])
    parser.add_argument("--lines", type=int, default=1000, help="at most this many; default: %(default)s")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--output", type=Path, help="also write the result here, as JSON")
    args = parser.parse_args()
    lines = list(read_lines(args.input))[: args.lines]
    results = []
    for system in args.systems:
        engine, _, quantization = system.partition(":")
        translator = Translator.load(
            args.model, engine=engine, quantization=quantization or None, device="cpu", threads=args.threads
        )
        result = {"system": system} | compare(translator, lines, args.batch_sizes)
        texts = result.pop("texts")
        if args.reference:
            references = list(read_lines(args.reference))[: args.lines]
            result["bleu"] = round(bleu(texts, [references]).value, 2)
        print(json.dumps(result), flush=True)
        results.append(result)
    if args.output:
        header = {"date": datetime.date.today().isoformat(), "model": args.model.name, "input": args.input.name}
        args.output.write_text(json.dumps(header | {"results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
