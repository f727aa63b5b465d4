"""How much noise and damage `transduce filter` finds, and how many clean lines it drops, by share of noise.

    python benchmarks/filter_noise.py --corpus train.en train.fr --output benchmarks/results/DATE-filter-noise-NAME.json

Noise, each kind a quarter of the share:

    unrelated   two targets of the same length, from anywhere, are exchanged
    misplaced   two targets, 3 to 29 lines from each other, are exchanged
    neighbours  the targets of two lines in a row are exchanged
    slip        runs of 5 to 50 lines in which the target is shifted by one line; the last has the target of the first

Damage, in a corpus without noise: the changes of `DAMAGE` to a target. Every other line counts as clean, although a
real corpus has faults of its own. Exact repeats are not dropped. Each run is written to the file once it is done;
what is there already is not run again.
"""

import argparse
import json
import random
import re
import string
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from transduce.augmentation.filtering import FilterOptions, filter_corpus
from transduce.config import DataConfig
from transduce.data.readers import read_pairs
from transduce.files import write_json
from transduce.reporting.machine import describe_machine

Pair = tuple[str, str]
NOISE = ("unrelated", "misplaced", "neighbours", "slip")
SLIP_LENGTHS = (5, 10, 20, 50)
DAMAGED_LINES = 300  # of each kind


def tagged(text: str, chance: random.Random) -> str:
    """Puts a tag around a word."""
    words = text.split()
    i = chance.randrange(len(words))
    words[i] = chance.choice(["<b>{}</b>", '<a href="x.html">{}</a>', "{}<br/>"]).format(words[i])
    return " ".join(words)


def looping(text: str, chance: random.Random) -> str:
    """Repeats a phrase of up to four words three to eight times, and drops what follows."""
    words = text.split()
    size = chance.randint(1, min(4, len(words)))
    end = chance.randint(size, len(words))
    return " ".join(words[:end] + words[end - size : end] * chance.randint(3, 8))


def half(text: str, chance: random.Random) -> str:
    """Keeps the first 30 to 70 % of the words."""
    words = text.split()
    return " ".join(words[: max(1, int(len(words) * chance.uniform(0.3, 0.7)))])


def renumbered(text: str, chance: random.Random) -> str:
    """Changes the digits of a number."""
    numbers = list(re.finditer(r"\d+", text))
    if not numbers:
        return text
    found = chance.choice(numbers)
    new = found[0]
    while new == found[0]:
        new = chance.choice("123456789") + "".join(chance.choice(string.digits) for _ in found[0][1:])
    return text[: found.start()] + new + text[found.end() :]


def random_letters(text: str, chance: random.Random) -> str:
    """Replaces each letter by a random one."""
    return re.sub(r"[^\W\d_]", lambda _: chance.choice(string.ascii_lowercase), text)


DAMAGE: dict[str, Callable[[str, random.Random], str]] = {
    "tag": tagged,
    "loop": looping,
    "twice": lambda text, _: f"{text} {text}",
    "half": half,
    "accents lost to ?": lambda text, _: re.sub(r"[^\x00-\x7f]", "?", text),
    "changed number": renumbered,
    "random letters": random_letters,
    "signs": lambda text, chance: "".join(chance.choice("#*-=_.!~") for _ in text),
}


def with_noise(pairs: list[Pair], share: float, chance: random.Random) -> tuple[list[Pair], dict[int, str]]:
    """Returns the pairs with noise, and its kind by line."""
    targets, kinds = [target for _, target in pairs], dict[int, str]()
    count = int(len(pairs) * share / len(NOISE))

    def free(*lines: int) -> bool:
        return not any(line in kinds for line in lines) and lines[-1] < len(pairs)

    def move(kind: str, lines: list[int]) -> None:
        kinds.update(dict.fromkeys(lines, kind))
        for line, other in zip(lines, [*lines[1:], lines[0]], strict=True):
            targets[line] = pairs[other][1]

    planted: Counter[str] = Counter()
    while planted["slip"] < count:
        start, length = chance.randrange(len(pairs)), min(max(3, count - planted["slip"]), chance.choice(SLIP_LENGTHS))
        lines = list(range(start, start + length))
        if free(max(0, start - 1), *lines, start + length):
            move("slip", lines)
            planted["slip"] += length
    for kind, distances in (("neighbours", (1, 1)), ("misplaced", (3, 29))):
        while planted[kind] < count:
            start = chance.randrange(len(pairs))
            other = start + chance.randint(*distances)
            if free(start, other):
                move(kind, [start, other])
                planted[kind] += 2
    rest = chance.sample([line for line in range(len(pairs)) if line not in kinds], count)
    rest.sort(key=lambda line: (len(targets[line]), chance.random()))
    for first, second in zip(rest[::2], rest[1::2], strict=False):
        move("unrelated", [first, second])
    changed = [(source, target) for (source, _), target in zip(pairs, targets, strict=True)]
    return changed, {line: kind for line, kind in kinds.items() if targets[line] != pairs[line][1]}


def with_damage(pairs: list[Pair], chance: random.Random) -> tuple[list[Pair], dict[int, str]]:
    """Returns the pairs with damage, and its kind by line."""
    changed, kinds = list(pairs), dict[int, str]()
    for kind, change in DAMAGE.items():
        count = 0
        for line in chance.sample(range(len(pairs)), len(pairs)):
            source, target = pairs[line]
            if count == DAMAGED_LINES or line in kinds or not target.strip():
                continue
            damaged = change(target, chance)
            if damaged != target:
                changed[line], kinds[line] = (source, damaged), kind
                count += 1
    return changed, kinds


def measure(pairs: list[Pair], kinds: dict[int, str]) -> dict[str, Any]:
    """Filters the pairs; returns what share of each kind was found, by which rules, and what clean lines cost."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for side in (0, 1):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / f"corpus.{side}").write_text(text, encoding="utf-8")
        data = DataConfig(train=((str(folder / "corpus.0"), str(folder / "corpus.1")),))
        started = time.process_time()
        options = FilterOptions(off=("duplicate", "near-duplicate"))
        filter_corpus(data, folder / "clean", options, dry_run=True)
        seconds = time.process_time() - started
        rows = [json.loads(row) for row in (folder / "clean" / "dropped.jsonl").open(encoding="utf-8")]
    sizes, clean = Counter(kinds.values()), Counter[str]()
    found: dict[str, Counter[str]] = {kind: Counter() for kind in sizes}
    for row in rows:
        kind = kinds.get(row["line"] - 1)
        (found[kind] if kind else clean)[row["rule"]] += 1
    num_clean = len(pairs) - len(kinds)
    return {
        "planted": {
            kind: {"lines": size, "found": round(found[kind].total() / size, 4), "by": dict(found[kind].most_common())}
            for kind, size in sizes.items()
        },
        "clean": {
            "lines": num_clean,
            "dropped": round(clean.total() / num_clean, 5),
            "by": {rule: round(count / num_clean, 5) for rule, count in clean.most_common()},
        },
        "processor_seconds": round(seconds, 1),
    }


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, nargs=2, required=True, help="two aligned files")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=10**9, help="at most")
    parser.add_argument("--skip", type=int, default=0, help="pairs at the beginning, after --shuffle")
    parser.add_argument("--shuffle", action="store_true", help="the order of the lines, before the noise is planted")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.02, 0.15, 0.3], help="0: damage")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="damage: the first only")
    args = parser.parse_args()
    pairs = list(read_pairs(tuple(args.corpus)))
    if args.shuffle:
        random.Random(0).shuffle(pairs)
    pairs = pairs[args.skip :][: args.pairs]
    result: dict[str, Any] = json.loads(args.output.read_text()) if args.output.exists() else {}
    names = [path.name for path in args.corpus]
    result |= {"date": date.today().isoformat(), "machine": describe_machine(), "corpus": names, "pairs": len(pairs)}
    result |= {"shuffled": args.shuffle, "skipped": args.skip}
    runs: dict[str, Any] = result.setdefault("runs", {})
    for seed in args.seeds:
        for share in args.shares:
            name = f"noise {share:.0%}, seed {seed}" if share else f"damage, seed {seed}"
            if name in runs or (not share and seed != args.seeds[0]):
                continue
            chance = random.Random(seed)
            runs[name] = measure(*(with_noise(pairs, share, chance) if share else with_damage(pairs, chance)))
            write_json(args.output, result)
            print(name, json.dumps(runs[name]), flush=True)


if __name__ == "__main__":
    main()
