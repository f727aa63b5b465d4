"""How often the data doctor finds lines that went astray, how exactly it says where, and whether it cries wolf.

    python benchmarks/alignment_check.py --data FOLDER --output benchmarks/results/DATE-alignment-check.json

FOLDER holds parallel text as `NAME.en` and `NAME.de` or `NAME.fr` (`.zst` too), in folders or not. Each corpus is
checked as it is; then damaged in several ways, seeded, at random places, and checked again:

    missing   one line of the target is missing, and the last one of the source
    inserted  one line of the target stands twice, and the last one is missing
    stretch   one line of the target is missing, and one of the source further down
    shuffled  the target in random order
    swapped   source and target exchanged, beside parts that are as they should be
"""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

from transduce.config import DataConfig
from transduce.data.corpus import locate
from transduce.data.doctor import Findings, examine
from transduce.data.readers import read_pairs
from transduce.files import write_json
from transduce.reporting.machine import describe_machine

Sides = tuple[list[str], list[str]]
KINDS = ("missing", "inserted", "stretch", "shuffled")
SIZES = (1_000, 20_000, 10_000_000)  # pairs; the last: all, of which one try is made with a missing line


def corpora(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Yields the pairs of files in a folder, English first."""
    for source in sorted([*folder.rglob("*.en"), *folder.rglob("*.en.zst")]):
        for language in ("de", "fr"):
            suffix = f".{language}.zst" if source.suffix == ".zst" else f".{language}"
            target = source.with_name(source.name.removesuffix(".zst").removesuffix(".en") + suffix)
            if target.is_file():
                yield source, target


def check(folder: Path, train: tuple[Path, Path], held_out: tuple[Path, Path] | None = None) -> tuple[Findings, float]:
    """Returns what the doctor finds, and the seconds that all of its checks take."""
    names = tuple(str(path.absolute()) for path in train)
    others = {"clean": tuple(str(path.absolute()) for path in held_out)} if held_out else {}
    data = DataConfig(folder=str(folder), train=(names,), test=others)
    started = time.perf_counter()
    findings = examine(locate(data), data, progress=False).findings
    return findings, time.perf_counter() - started


def write(folder: Path, sides: Sides) -> tuple[Path, Path]:
    """Writes two files."""
    paths = folder / "damaged.s", folder / "damaged.t"
    for path, lines in zip(paths, sides, strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    return paths


def damage(kind: str, sides: Sides, chance: random.Random) -> tuple[Sides, int, int]:
    """Returns damaged sides, and the first line that is wrong (from 1) and the last."""
    source, target = list(sides[0]), list(sides[1])
    count = len(source)
    place = chance.randrange(count // 10, count * 9 // 10)
    end = count - 1
    if kind == "missing":
        del target[place], source[-1]
    elif kind == "inserted":
        target.insert(place, target[place])
        del target[-1]
        place, end = place + 1, count
    elif kind == "stretch":
        end = min(count - 2, place + count // 4)
        del target[place], source[end]
    elif kind == "shuffled":
        chance.shuffle(target)
        place, end = 0, count
    return (source, target), place + 1, end


def tries(pair: tuple[Path, Path], folder: Path, repeats: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yields the outcome of each try on one corpus."""
    chance = random.Random(f"{seed} {pair[0].name}")
    for size in SIZES:
        pairs = list(islice(read_pairs(pair), size))
        if size > SIZES[0] and len(pairs) < 2 * SIZES[0]:
            break
        sides = [source for source, _ in pairs], [target for _, target in pairs]
        whole = size == SIZES[-1]
        for kind in KINDS[:1] if whole else KINDS:
            for _ in range(1 if whole else repeats):
                damaged, first, last = damage(kind, sides, chance)
                findings, seconds = check(folder, write(folder, damaged))
                outcome = {"size": len(damaged[0]), "kind": kind, "seconds": round(seconds, 2)}
                found = [(finding.examples[0], finding.count) for finding in findings.misaligned.values()]
                outcome["found"] = len(found)
                if found:
                    line = int(found[0][0].rsplit(":", 1)[1])
                    outcome |= {"start_off_by": line - first, "end_off_by": line + found[0][1] - 1 - last}
                yield outcome
        if not whole:
            findings, seconds = check(folder, write(folder, (sides[1], sides[0])), held_out=pair)
            swapped = [fault for fault in findings.misaligned if "swapped" in fault]
            yield {"size": len(pairs), "kind": "swapped", "seconds": round(seconds, 2), "found": len(swapped)}


def summary(outcomes: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the share found, and how far off the lines were, by kind of damage."""
    table = {}
    for kind in dict.fromkeys(outcome["kind"] for outcome in outcomes):
        mine = [outcome for outcome in outcomes if outcome["kind"] == kind]
        off = sorted(abs(outcome["start_off_by"]) for outcome in mine if "start_off_by" in outcome)
        table[kind] = {"tries": len(mine), "found": sum(outcome["found"] > 0 for outcome in mine)}
        if off and kind != "shuffled":
            table[kind] |= {
                "within_2_lines": sum(n <= 2 for n in off),
                "median_off": off[len(off) // 2],
                "worst": off[-1],
            }
    return table


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=3, help="of each damage to each corpus and size")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    result: dict[str, Any] = {"date": date.today().isoformat(), "machine": describe_machine(), "seed": args.seed}
    clean, outcomes = [], []
    with tempfile.TemporaryDirectory() as name:
        for pair in corpora(args.data):
            label = str(pair[1].relative_to(args.data))
            findings, seconds = check(Path(name), pair)
            clean.append({"corpus": label, "alarms": list(findings.misaligned), "seconds": round(seconds, 2)})
            print(json.dumps(clean[-1]), flush=True)
            if not pair[0].name.startswith(("dev", "test", "val")):
                for outcome in tries(pair, Path(name), args.repeats, args.seed):
                    outcomes.append({"corpus": label} | outcome)
                    print(json.dumps(outcomes[-1]), flush=True)
    result |= {"false_alarms": sum(len(row["alarms"]) for row in clean), "damaged": summary(outcomes)}
    write_json(args.output, result | {"clean": clean, "tries": outcomes})
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
