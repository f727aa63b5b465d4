"""Reads a translation memory: megabytes and pairs a second, peak memory; and two aligned files of the same pairs.

    python benchmarks/translation_memory.py --train train-00.en.zst train-00.fr.zst --corpus europarl-v7-en-fr \
        --megabytes 350 > benchmarks/results/DATE-translation-memory.json

A memory of at least so many megabytes is made of the pairs, repeated if there are too few: with properties, a third
language in every tenth unit, and only one language in every hundredth. A tenth of it shows whether memory grows with
the file. Each case is read in a process of its own, `--rounds` times; the times are processor seconds, and the median
counts. The corpus is named in the result; its place on this machine is not.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from html import escape
from itertools import cycle
from pathlib import Path
from typing import Any

from transduce.data.compression import zstd
from transduce.data.readers import PairReader, read_pairs
from transduce.reporting.machine import describe_machine

_HEADER = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">\n'
    '<header creationtool="made" segtype="sentence" o-tmf="made" adminlang="en" srclang="en" datatype="plaintext"/>\n'
    "<body>\n"
)
_END = "</body>\n</tmx>\n"
_CODES = ("en-GB", "fr-FR")


def main() -> None:
    """Prints the result, or with --read one measurement, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", nargs=2, type=Path, metavar="FILE", help="two aligned files")
    parser.add_argument("--corpus", help="name for the result")
    parser.add_argument("--megabytes", type=int, default=350)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--read", nargs="+", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.read:
        print(json.dumps(read(args.read)))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(args, Path(folder)), indent=1))


def read(paths: Sequence[Path]) -> dict[str, Any]:
    """Reads all pairs, and returns what that took."""
    started = time.process_time()
    reader = PairReader(paths, languages=("en", "fr"))
    num_pairs = sum(1 for _ in reader)
    seconds = time.process_time() - started
    status = Path("/proc/self/status").read_text(encoding="utf-8")  # getrusage counts the parent's memory at the fork
    peak = int(status.split("VmHWM:")[1].split()[0]) << 10
    return {"pairs": num_pairs, "skipped": reader.skipped[0], "cpu_seconds": seconds, "peak_memory_bytes": peak}


def measure(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Makes the files, and reads each several times, in alternation."""
    memory, small = folder / "memory.tmx", folder / "small.tmx"
    num_pairs = make_memory(args.train, memory, args.megabytes * 10**6)
    make_memory(args.train, small, args.megabytes * 10**5)
    sides = [folder / "pairs.en", folder / "pairs.fr"]
    with sides[0].open("w", encoding="utf-8") as source, sides[1].open("w", encoding="utf-8") as target:
        for pair in read_pairs([memory], languages=("en", "fr")):
            source.write(f"{pair[0]}\n")
            target.write(f"{pair[1]}\n")
    (folder / "memory.tmx.zst").write_bytes(zstd.compress(memory.read_bytes()))
    cases = {
        "two files": sides,
        "memory": [memory],
        "memory, a tenth": [small],
        "memory, .zst": [folder / "memory.tmx.zst"],
    }
    load_before, found = os.getloadavg()[0], {name: list[dict[str, Any]]() for name in cases}
    for _ in range(args.rounds):
        for name, paths in cases.items():
            command = [sys.executable, __file__, "--read", *map(str, paths)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found[name].append(json.loads(done.stdout))
    return {
        "date": datetime.date.today().isoformat(),
        "corpus": args.corpus,
        "machine": describe_machine(),
        "load_before": load_before,
        "load_after": os.getloadavg()[0],
        "units": num_pairs,
        "cases": {name: summary(found[name], paths) for name, paths in cases.items()},
    }


def summary(rounds: list[dict[str, Any]], paths: Sequence[Path]) -> dict[str, Any]:
    """Returns the speed and the memory of a case."""
    size, seconds = (
        sum(path.stat().st_size for path in paths),
        statistics.median(each["cpu_seconds"] for each in rounds),
    )
    return {
        "bytes": size,
        "pairs": rounds[0]["pairs"],
        "skipped": rounds[0]["skipped"],
        "cpu_seconds": [round(each["cpu_seconds"], 2) for each in rounds],
        "megabytes_per_second": round(size / 1e6 / seconds, 1),
        "pairs_per_second": round(rounds[0]["pairs"] / seconds),
        "peak_memory_mb": round(max(each["peak_memory_bytes"] for each in rounds) / 1e6, 1),
    }


def make_memory(corpus: Sequence[Path], path: Path, num_bytes: int) -> int:
    """Writes a memory of at least `num_bytes` bytes, and returns its number of units."""
    pairs = list(read_pairs(corpus))
    number = 0
    with path.open("w", encoding="utf-8") as file:
        file.write(_HEADER)
        for number, pair in enumerate(cycle(pairs), start=1):
            codes = _CODES[:1] if number % 100 == 0 else _CODES
            variants = [_variant(code, text) for code, text in zip(codes, pair, strict=False)]
            variants += [_variant("de-DE", "Noch ein Satz.")] if number % 10 == 0 else []
            head = f'<tu tuid="{number}" creationdate="20260101T000000Z" creationid="ana">\n'
            file.write(f'{head}<prop type="x-domain">made</prop>\n{"".join(variants)}</tu>\n')
            if number % 1000 == 0 and file.tell() >= num_bytes:
                break
        file.write(_END)
    return number


def _variant(code: str, text: str) -> str:
    return f'  <tuv xml:lang="{code}">\n    <seg>{escape(text, quote=False)}</seg>\n  </tuv>\n'


if __name__ == "__main__":
    main()
