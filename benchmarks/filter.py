"""How much of what is planted in a corpus `transduce filter` finds, and how many clean lines it drops.

    python benchmarks/filter.py --corpus europarl-en-fr --foreign news.de tatoeba.de \
        --output benchmarks/results/DATE-filter.json

The corpus is a folder with pairs of files `train-*.en*` and `train-*.fr*` (or other languages: --languages). The same
number of lines of each kind is planted, seeded, at random places:

    slip        runs of 5 to 50 lines in which the target is shifted by one line; the last has the target of the first
    swapped     source and target are exchanged
    copy        the target is the source; in every second one, one word of it is missing
    language    the target is a line of a third language, from the files given by --foreign
    near        an earlier pair again, with a change of case, punctuation or digits, or (8 words and more) one word
                missing or misspelt on one side

The command runs in a process of its own. Its time is given as processor seconds too, which a busy machine changes
little. Every other line counts as clean, although a real corpus has faults of its own.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

from transduce.data.compression import zstd
from transduce.data.readers import read_lines, read_pairs
from transduce.files import write_json
from transduce.reporting.machine import describe_machine

KINDS = ("slip", "swapped", "copy", "language", "near")
SLIP_LENGTHS = (5, 10, 20, 50)
MIN_EDITED_WORDS = 8
ORIGINAL_EVERY = 150  # lines; of these, near-duplicates are made
Pair = tuple[str, str]


def parts_of(folder: Path, languages: tuple[str, str]) -> list[tuple[Path, Path]]:
    """Returns the pairs of training files in a folder."""
    pairs = []
    for source in sorted(folder.glob(f"train-*.{languages[0]}*")):
        target = source.with_name(source.name.replace(f".{languages[0]}", f".{languages[1]}"))
        if target.is_file():
            pairs.append((source, target))
    return pairs


def changed(pair: Pair, chance: random.Random) -> Pair:
    """Returns a pair that is nearly the same."""
    kinds = ["case", "punctuation"]
    if any(character.isdigit() for side in pair for character in side):
        kinds.append("digits")
    if min(len(side.split()) for side in pair) >= MIN_EDITED_WORDS:
        kinds += ["missing", "misspelt"]
    kind = chance.choice(kinds)
    if kind == "case":
        return pair[0].upper(), pair[1].upper()
    if kind == "punctuation":
        return tuple(re.sub(r"[.,;:!?]+", "", side) + chance.choice(["!", "...", " ;"]) for side in pair)  # type: ignore[return-value]
    if kind == "digits":
        return tuple(re.sub(r"\d", lambda _: str(chance.randrange(10)), side) for side in pair)  # type: ignore[return-value]
    side = chance.randrange(2)
    words = pair[side].split()
    place = chance.randrange(len(words))
    words[place : place + 1] = [] if kind == "missing" else [words[place] + chance.choice("aeinst")]
    edited = " ".join(words)
    return (edited, pair[1]) if side == 0 else (pair[0], edited)


def places(num_pairs: int, count: int, chance: random.Random) -> dict[int, tuple[str, int]]:
    """Returns the kind and the length of what is planted, by the line where it begins; nothing overlaps."""
    wanted = [(kind, 1) for kind in KINDS[1:] for _ in range(count)]
    left = count
    while left:
        length = min(left, chance.choice(SLIP_LENGTHS))
        if left - length in (1, 2, 3, 4):
            length = left
        wanted.append(("slip", length))
        left -= length
    chance.shuffle(wanted)
    found: dict[int, tuple[str, int]] = {}
    taken: set[int] = set()
    for kind, length in wanted:
        while True:
            start = chance.randrange(num_pairs // 100 if kind == "near" else 0, num_pairs - length)
            lines = range(start - 1, start + length + 1)
            if taken.isdisjoint(lines):
                break
        taken.update(lines)
        found[start] = (kind, length)
    return found


def planted(
    pairs: Iterator[Pair], where: dict[int, tuple[str, int]], foreign: list[str], chance: random.Random
) -> Iterator[tuple[Pair, str]]:
    """Yields each pair with the kind of fault planted in it, or ""."""
    earlier: list[Pair] = []  # originals of near-duplicates
    number = 0
    for pair in pairs:
        kind, length = where.get(number, ("", 1))
        run = [pair, *islice(pairs, length - 1)]
        number += length
        if kind == "slip":
            targets = [target for _, target in run]
            run = [(source, target) for (source, _), target in zip(run, [*targets[1:], targets[0]], strict=True)]
        elif kind == "swapped":
            run = [(pair[1], pair[0])]
        elif kind == "copy":
            words = pair[0].split()
            if len(words) > MIN_EDITED_WORDS and chance.random() < 0.5:
                del words[chance.randrange(len(words))]
            run = [(pair[0], " ".join(words))]
        elif kind == "language":
            run = [(pair[0], chance.choice(foreign))]
        elif kind == "near":
            run = [changed(chance.choice(earlier), chance)]
        elif not kind and number % ORIGINAL_EVERY == 0:
            earlier.append(pair)
        for each in run:
            yield each, kind


def write_corpus(
    parts: list[tuple[Path, Path]], folder: Path, args: argparse.Namespace
) -> tuple[list[tuple[Path, Path]], dict[tuple[str, int], str], int]:
    """Writes the corpus with its faults; returns the files, the kind of each planted line, and the number of pairs."""
    chance = random.Random(args.seed)
    foreign = [line for path in args.foreign for line in read_lines(path) if len(line.split()) >= 2]
    written, kinds, total = [], {}, 0
    for part in parts:
        num_pairs = min(args.pairs, sum(1 for _ in read_lines(part[0])))
        where = places(num_pairs, args.planted // len(parts), chance)
        names = [folder / f"{path.name.removesuffix('.zst').removesuffix('.gz')}.zst" for path in part]
        with (
            zstd.open(names[0], "wt", encoding="utf-8", newline="\n") as source,
            zstd.open(names[1], "wt", encoding="utf-8", newline="\n") as target,
        ):
            pairs = islice(read_pairs(part), num_pairs)
            for line, (pair, kind) in enumerate(planted(pairs, where, foreign, chance), start=1):
                source.write(f"{pair[0]}\n")
                target.write(f"{pair[1]}\n")
                if kind:
                    kinds[names[0].name, line] = kind
        written.append((names[0], names[1]))
        total += num_pairs
    rows = [[file, line, kind] for (file, line), kind in kinds.items()]
    write_json(folder / "planted.json", rows)
    return written, kinds, total


def run_filter(parts: list[tuple[Path, Path]], output: Path, options: list[str]) -> dict[str, float]:
    """Runs the command, and returns what it took."""
    command = [sys.executable, "-m", "transduce", "filter", "--output", str(output), "--quiet", *options]
    for part in parts:
        command += ["--train", *map(str, part)]
    started = time.perf_counter()
    process = subprocess.Popen(command, env={"OMP_NUM_THREADS": "1"} | os.environ)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(process.returncode)
    return {
        "seconds": round(time.perf_counter() - started, 1),
        "processor_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_mib": round(usage.ru_maxrss / 1024, 1),
    }


def score(log: Path, kinds: dict[tuple[str, int], str], num_pairs: int) -> dict[str, Any]:
    """Returns what was found of each kind, by which rule, and which rules dropped clean lines."""
    found: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    clean: Counter[str] = Counter()
    for line in log.open(encoding="utf-8"):
        row = json.loads(line)
        kind = kinds.get((row["file"], row["line"]))
        (found[kind] if kind else clean)[row["rule"]] += 1
    sizes = Counter(kinds.values())
    num_clean = num_pairs - len(kinds)
    repeats = clean["duplicate"] + clean["near-duplicate"]
    return {
        "planted": {
            kind: {
                "lines": sizes[kind],
                "found": round(found[kind].total() / max(1, sizes[kind]), 4),
                "by": found[kind],
            }
            for kind in KINDS
        },
        "clean": {
            "lines": num_clean,
            "dropped": round(clean.total() / num_clean, 5),
            "dropped_but_for_repeats": round((clean.total() - repeats) / num_clean, 5),
            "by": dict(clean.most_common()),
        },
    }


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder with train-* files")
    parser.add_argument("--languages", nargs=2, default=("en", "fr"))
    parser.add_argument("--foreign", type=Path, nargs="+", required=True, help="text in a third language")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=10**9, help="at most, of each pair of files")
    parser.add_argument("--planted", type=int, default=2000, help="lines of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where to keep corpus and output; default: nowhere")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = args.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        parts, kinds, num_pairs = write_corpus(parts_of(args.corpus, tuple(args.languages)), folder, args)
        cost = run_filter(parts, folder / "clean", ["--overwrite"])
        result = {
            "date": date.today().isoformat(),
            "machine": describe_machine(),
            "pairs": num_pairs,
            "seed": args.seed,
        }
        result |= {"cost": cost} | score(folder / "clean" / "dropped.jsonl", kinds, num_pairs)
    write_json(args.output, result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
