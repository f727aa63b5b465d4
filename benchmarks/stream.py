"""Whether memory stays flat: a file of many lines through `translate_file`, with an engine that does next to nothing.

Each size runs in a process of its own; what is reported is the peak of its resident memory, the input's size, and the
lines that went through in a second (reading, subwords, windows, writing, journal: what surrounds a search).

    python benchmarks/stream.py [--lines 100000 1000000] [--suffix .gz] [--output result.json]
    python benchmarks/stream.py --model models/m30k --engine ctranslate2 --source test.en --lines 20000 200000

With `--model` a real one translates, greedily; with `--source`, the lines of a file, over and over.
"""

import argparse
import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from transduce.config import DecodeConfig
from transduce.decoding.scores import Hypothesis
from transduce.text import SubwordTokenizer
from transduce.translation.streams import FileJob, translate_file
from transduce.translation.translator import Translator

LINE = "Two young men in blue shirts are playing football in the park, line {}.\n"


class SameEngine:
    """Returns its sources."""

    name, max_source_tokens, independent_lines = "same", 1024, True

    def translate(
        self, sources: Sequence[Sequence[int]], options: DecodeConfig, n_best: int = 1
    ) -> list[list[Hypothesis]]:
        """Returns each source as its own translation."""
        return [[Hypothesis(list(source), 0.0, 0.0, True)] for source in sources]

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Returns zeros."""
        return [[0.0] * (len(target) + 1) for target in targets]


def load(args: argparse.Namespace) -> Translator:
    """Returns the model that is named, or one that does nothing."""
    if args.model is not None:
        return Translator.load(args.model, engine=args.engine, quantization=args.quantization, device="cpu")
    tokenizer = SubwordTokenizer.train([LINE.format(n) for n in range(50)], algorithm="bpe", vocab_size=400)
    return Translator(SameEngine(), tokenizer, DecodeConfig())


def one(args: argparse.Namespace, num_lines: int) -> None:
    """Translates one file and prints what it took."""
    translator, suffix = load(args), args.suffix
    given = args.source.read_text(encoding="utf-8").splitlines(keepends=True) if args.source else [LINE]
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / "in.txt", Path(folder) / f"out.txt{suffix}"
        with source.open("w", encoding="utf-8") as file:
            file.writelines(given[n % len(given)].replace("{}", str(n)) for n in range(num_lines))
        start = time.perf_counter()
        summary = translate_file(translator, source, output, FileJob(options=translator.with_options(beam_size=1)))
        seconds = time.perf_counter() - start
        assert summary.num_lines == num_lines
        print(
            json.dumps(
                {
                    "lines": num_lines,
                    "input_bytes": source.stat().st_size,
                    "seconds": round(seconds, 1),
                    "lines_per_second": round(num_lines / seconds),
                    "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
                }
            )
        )


def main() -> None:
    """Runs each size, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--suffix", default="", choices=["", ".gz", ".zst"])
    parser.add_argument("--model", help="a model folder; default: an engine that returns its sources")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--quantization")
    parser.add_argument("--source", type=Path, help="a text whose lines are taken in turn")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        one(args, args.lines[0])
        return
    runs = []
    for count in args.lines:
        command = [sys.executable, __file__, "--one", *sys.argv[1:], "--lines", str(count)]  # the last counts
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        runs.append(json.loads(done.stdout))
        print(done.stdout, end="")
    if args.output is not None:
        engine = "none" if args.model is None else f"{args.engine} {args.quantization or 'float32'}, greedy"
        result = {
            "date": date.today().isoformat(),
            "python": platform.python_version(),
            "engine": engine,
            "runs": runs,
        }
        args.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
