"""What a shortlist costs in BLEU on a trained model, in each engine, and the CPU time with and without.

    transduce shortlist models/m30k --source train.en --target train.de --test-source val.en --test-reference val.de
    python benchmarks/shortlist.py models/m30k --source test.en --reference test.de --output result.json

The model has a shortlist already. BLEU is of the lines as they stand (no tokenizer), so give tokenised references to a
model of tokenised text. One thread; engines and precisions by turns.
"""

import argparse
import datetime
import json
import os
import platform
import time
from pathlib import Path
from typing import Any


def measure(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Translates with each engine and precision, with and without the shortlist."""
    import sacrebleu

    from transduce import Translator
    from transduce.data.readers import read_lines

    sources, references = list(read_lines(args.source)), list(read_lines(args.reference))
    rows = []
    for engine in args.engines:
        for quantization in args.quantization:
            plain: list[str] = []
            for shortlist in ("off", "on"):
                translator = Translator.load(
                    args.model, engine=engine, quantization=quantization, shortlist=shortlist, threads=1
                )
                start = time.process_time()
                found = translator.translate(sources, batch_size=args.batch_size)
                seconds = time.process_time() - start
                plain = plain or found
                row = {
                    "engine": engine,
                    "quantization": quantization,
                    "shortlist": shortlist,
                    "bleu": round(sacrebleu.corpus_bleu(found, [references], tokenize="none", force=True).score, 2),
                    "lines_other_than_without": sum(a != b for a, b in zip(found, plain, strict=True)),
                    "cpu_seconds": round(seconds, 2),
                    "load_average": round(os.getloadavg()[0], 2),
                }
                rows.append(row)
                print(json.dumps(row), flush=True)
    return rows


def main() -> None:
    """Reads the command line and runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--engines", nargs="+", default=["ctranslate2", "torch"])
    parser.add_argument("--quantization", nargs="+", default=["int8", "float32"])
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--output", type=Path, help="also write the result here, as JSON")
    args = parser.parse_args()
    from transduce.bundle import Bundle
    from transduce.engines.shortlist.table import load_shortlist

    shortlist = load_shortlist(Bundle.load(args.model)).facts
    rows = measure(args)
    if args.output:
        machine = {"python": platform.python_version(), "cores": os.cpu_count(), "threads": 1}
        result = {
            "date": datetime.date.today().isoformat(),
            "what": f"BLEU of {args.source.name} with and without a shortlist; batches of {args.batch_size}",
            "machine": machine,
            "shortlist": shortlist,
            "rows": rows,
        }
        args.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
