"""How many changed copies of test pairs in a training corpus `transduce prepare` finds, and what it finds without them.

    python benchmarks/leaked_copies.py --train train.en train.de --test test.en test.de \
        --output benchmarks/results/DATE-leaked-copies-NAME.json

Test pairs, at most 900, are put into the training corpus at random places. Both sides of each are changed:

    case            upper case
    punctuation     other signs, or none; two spaces, or a no-break space, between words
    Unicode form    decomposed letters, or full-width ones where nothing can be decomposed
    near-copy       a word is dropped, added, replaced, or exchanged with the next one

A third has each of the first two; of the rest, every other pair is a near-copy. A copy is *dropped* if `prepare` leaves
it out as it comes, *shown* if it is counted among the near-copies, else *passed*. What is found among the other pairs
is counted too: that are leaks of the corpus itself, and false alarms.
"""

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import unicodedata
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from transduce.config import DataConfig
from transduce.data.corpus import locate
from transduce.data.doctor import examine
from transduce.data.readers import read_pairs
from transduce.files import write_json
from transduce.reporting.machine import describe_machine
from transduce.text.known_lines import MIN_NEAR_WORDS

Pair = tuple[str, str]
COPIES = 900
KINDS = ("case", "punctuation", "Unicode form", "near-copy")


def punctuated(line: str, chance: random.Random) -> str:
    """Changes the signs of a line, and the spaces."""
    signs = chance.choice([{"": ""}, {".": "!", ",": ";", '"': "”", "'": "’", "-": "‑"}, {".": " ...", ",": " ,"}])
    line = "".join(signs.get(character, character) for character in line)
    if signs == {"": ""}:
        line = re.sub(r"[.,;:!?\"„“]", "", line)
    return line.replace(" ", chance.choice(["  ", "\u00a0"]))


def recoded(line: str, _: random.Random) -> str:
    """Returns a line in another Unicode form."""
    decomposed = unicodedata.normalize("NFD", line)
    return decomposed if decomposed != line else re.sub("[!-~]", lambda found: chr(ord(found[0]) + 0xFEE0), line)


def edited(line: str, chance: random.Random) -> str:
    """Changes one word."""
    words = line.split()
    place = chance.randrange(max(1, len(words) - 1))
    change = chance.choice(["drop", "add", "replace", "exchange"])
    if change == "exchange":
        words[place : place + 2] = words[place : place + 2][::-1]
    else:
        words[place : place + (change != "add")] = [] if change == "drop" else [chance.choice(["really", "neue", "X1"])]
    return " ".join(words)


def copies_of(pairs: list[Pair], chance: random.Random) -> tuple[list[Pair], list[str]]:
    """Returns changed copies of pairs, and the kind of each."""
    changes = (lambda line, _: line.upper(), punctuated, recoded, edited)
    third = len(pairs) // 3
    numbers = [min(i // third, 2) if i < 2 * third else 2 + i % 2 for i in range(len(pairs))]
    copies = [
        (changes[k](source, chance), changes[k](target, chance))
        for k, (source, target) in zip(numbers, pairs, strict=True)
    ]
    return copies, [KINDS[k] for k in numbers]


def with_copies(train: list[Pair], test: list[Pair], chance: random.Random) -> tuple[list[Pair], dict[int, str]]:
    """Returns the corpus with changed copies of test pairs, and the kind of each by its line."""
    copies, kinds = copies_of(chance.sample(test, min(COPIES, len(test))), chance)
    lines = sorted(chance.sample(range(len(train) + len(copies)), len(copies)))
    mixed, rest = dict(zip(lines, copies, strict=True)), iter(train)
    whole = [mixed[i] if i in mixed else next(rest) for i in range(len(train) + len(copies))]
    return whole, dict(zip(lines, kinds, strict=True))


def write_pairs(folder: Path, name: str, pairs: list[Pair]) -> tuple[str, str]:
    """Writes two files, and returns their names."""
    paths = folder / f"{name}.source", folder / f"{name}.target"
    for side, path in enumerate(paths):
        path.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8", newline="\n")
    return str(paths[0]), str(paths[1])


def measure(train: list[Pair], test: list[Pair], seed: int) -> dict[str, Any]:
    """Plants copies, checks the corpus, and counts what is found."""
    whole, kinds = with_copies(train, test, random.Random(seed))
    long = {line for line in kinds if min(len(side.split()) for side in whole[line]) > MIN_NEAR_WORDS}
    with tempfile.TemporaryDirectory() as name:
        files = write_pairs(Path(name), "train", whole), write_pairs(Path(name), "test", test)
        settings = {"train": (files[0],), "test": {"set": files[1]}}
        kept = []
        for near_too in (False, True):
            data = DataConfig(**settings, drop_near_copies=near_too)
            kept.append(examine(locate(data), data, progress=False).kept)
        command = [sys.executable, "-m", "transduce", "prepare", "--check-only", "--quiet", "--train", *files[0]]
        command += ["--set", f"data.test={{set={json.dumps(files[1])}}}"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    verdicts = np.where(~kept[0], "dropped", np.where(~kept[1], "shown", "passed"))
    counts = {kind: Counter(str(verdicts[line]) for line in kinds if kinds[line] == kind) for kind in KINDS}
    longer = Counter(str(verdicts[line]) for line in long if kinds[line] == "near-copy")
    others = Counter(np.delete(verdicts, list(kinds)).tolist())
    return {
        "copies": {kind: dict(found) for kind, found in counts.items()},
        f"near-copies of more than {MIN_NEAR_WORDS} words": dict(longer),
        "other pairs": {**others, "passed": others["passed"]},
        "prepare --check-only": [line.replace(f"{name}/", "") for line in said.splitlines()],
    }


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, nargs=2, required=True)
    parser.add_argument("--test", type=Path, nargs=2, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    train, test = (list(read_pairs(tuple(paths))) for paths in (args.train, args.test))
    result = {"date": date.today().isoformat(), "machine": describe_machine(), "seed": args.seed}
    result |= {"train": [path.name for path in args.train], "test": [path.name for path in args.test]}
    result |= {"pairs": len(train), "test_pairs": len(test)} | measure(train, test, args.seed)
    write_json(args.output, result)
    print(json.dumps(result, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
