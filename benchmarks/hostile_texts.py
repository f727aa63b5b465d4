"""Texts that nobody means well with, through a model: as many lines out as in, or an error that says where it lies.

    python benchmarks/hostile_texts.py MODEL --count 500 --output benchmarks/results/DATE-hostile-texts.json

Each text is a file: NULs and other control characters, every separator of Unicode, marks by the thousand, bidirectional
controls, emoji sequences, words of 40 000 letters, byte order marks, lone surrogates, bytes that are not UTF-8, other
encodings, nothing at all. Both engines translate it as `transduce translate` does.
"""

import argparse
import datetime
import json
import random
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transduce.errors import DataError
from transduce.paper.machine import describe_machine
from transduce.streams import translate_file
from transduce.translator import Translator

ENGINES = ("torch", "ctranslate2")
SEPARATORS = "\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\u00a0\u1680\u2000\u2007\u200b\u2028\u2029\u202f\u205f\u2060\u3000\ufeff"
BIDI = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u061c"
WORDS = (
    *("A", "dog", "runs", "over", "the", "grass", "with", "a", "ball", ".", ",", "!", "?"),
    *("<s>", "</s>", "<unk>", "{0}", "%s", "&amp;", "&#0;", "<b>", "</i>", "http://x"),
)
ENCODINGS = ("utf-16", "utf-16-be", "utf-32", "latin-1", "cp1252", "shift_jis", "koi8-r")

Make = Callable[[random.Random], str]


def _some(chance: random.Random, characters: str, most: int) -> str:
    return "".join(chance.choices(characters, k=chance.randrange(1, most)))


def _sentence(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randrange(1, 15)))


def _any_characters(chance: random.Random) -> str:
    """Returns characters of all planes but surrogates and line feeds."""
    found = (chr(chance.randrange(0x110000)) for _ in range(chance.randrange(1, 300)))
    return "".join(character for character in found if not "\ud800" <= character <= "\udfff" and character != "\n")


LINES: dict[str, Make] = {
    "words": _sentence,
    "nothing": lambda _: "",
    "spaces": lambda chance: _some(chance, " \t\u00a0\u3000", 300),
    "nul": lambda chance: _some(chance, "\x00a ", 300),
    "control": lambda chance: _some(chance, "".join(map(chr, [*range(1, 10), *range(11, 32), *range(127, 160)])), 300),
    "separators": lambda chance: "".join(word + chance.choice(SEPARATORS) for word in _sentence(chance).split()),
    "marks": lambda chance: "e" + chance.choice("\u0301\u0489\u20dd\u0e34\ufe0f") * chance.randrange(1000, 9000),
    "bidi": lambda chance: "".join(word + chance.choice(BIDI) for word in [*_sentence(chance), "שלום", "مرحبا"]),
    "emoji": lambda chance: _some(chance, "👩👨👧🏽🇩🇪🏴\u200d\ufe0f\U000e0067\U000e007f", 2000),
    "long word": lambda chance: chance.choice(["x", "Ab", "9", ".", "_", "<", "я", "\U00010400"]) * 20_000,
    "no spaces": lambda chance: _some(chance, "没有空格的文字ไม่มีช่องว่าง", 3000),
    "long line": lambda chance: " ".join(_sentence(chance) for _ in range(200)),
    "markup": lambda chance: "<" * chance.randrange(1, 2000) + "{" * chance.randrange(1, 2000) + "&" * 100,
    "marks of order": lambda chance: "\ufeff" * chance.randrange(1, 50) + _sentence(chance) + "\ufffe\uffff",
    "any": _any_characters,
}


def make_text(chance: random.Random) -> tuple[str, bytes]:
    """Returns what a text is made of, and its bytes."""
    kinds = chance.choices(list(LINES), k=chance.randrange(1, 5))
    end = chance.choice(["\n", "\n", "\r\n"])
    text = end.join(LINES[kind](chance) for kind in kinds) + chance.choice([end, ""])
    data, damage = text.encode(), chance.random()
    if damage < 0.08:
        place = chance.randrange(len(data) + 1)
        bad = chance.choice([b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe4\xbd", b"\x80"])
        return "+".join([*kinds, "bad bytes"]), data[:place] + bad + data[place:]
    if damage < 0.14:
        encoding = chance.choice(ENCODINGS)
        return "+".join([*kinds, encoding]), text.encode(encoding, errors="replace") + chance.choice([b"", data])
    if damage < 0.18:
        return "+".join([*kinds, "surrogates"]), data + "\udc80a\ud800\n".encode("utf-8", "surrogatepass")
    if damage < 0.2:
        return "noise", chance.randbytes(chance.randrange(1, 5000))
    return "+".join(kinds), data


def expected(data: bytes) -> tuple[int, int | None]:
    """Returns how many lines a text has, and which is the first that is not UTF-8, from 1."""
    text = data.removeprefix(b"\xef\xbb\xbf")
    wrong = None
    try:
        text.decode()
    except UnicodeDecodeError as error:
        wrong = text.count(b"\n", 0, error.start) + 1
    return text.count(b"\n") + (not text.endswith(b"\n") and text != b""), wrong


def judge(translator: Translator, data: bytes, folder: Path) -> str:
    """Translates a text and returns what is wrong with the outcome; nothing: "" ."""
    source, output = folder / "in.txt", folder / "out.txt"
    source.write_bytes(data)
    for old in folder.glob("*out.txt*"):
        old.unlink()
    num_lines, wrong = expected(data)
    try:
        translate_file(translator, source, output, warn=lambda _: None)
    except DataError as error:
        named = wrong is not None and f"{source}, line {wrong}:" in str(error)
        return "" if named and not output.exists() else f"{type(error).__name__}: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if wrong is not None:
        return f"line {wrong} is not UTF-8, and nothing was said"
    written = output.read_bytes()
    written.decode()
    found = written.count(b"\n")
    return "" if found == num_lines and (not written or written.endswith(b"\n")) else f"{num_lines} in, {found} out"


def run(translators: dict[str, Translator], seed: int, count: int, folder: Path) -> list[dict[str, Any]]:
    """Returns of each text and engine what it was made of, how long it took, and what went wrong."""
    chance = random.Random(seed)
    outcomes = []
    for number in range(count):
        kind, data = make_text(chance)
        for name, translator in translators.items():
            started = time.perf_counter()
            wrong = judge(translator, data, folder)
            seconds = round(time.perf_counter() - started, 3)
            outcomes.append({"text": number, "kind": kind, "bytes": len(data), "engine": name, "seconds": seconds})
            if wrong:
                outcomes[-1]["wrong"] = wrong
    return outcomes


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        translators = {name: Translator.load(args.model, engine=name) for name in ENGINES}
        outcomes = run(translators, args.seed, args.count, Path(folder))
    slowest = sorted(outcomes, key=lambda outcome: -outcome["seconds"])[:5]
    result = {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "machine": describe_machine(),
        "seed": args.seed,
        "texts": args.count,
        "engines": ENGINES,
        "bytes": sum(outcome["bytes"] for outcome in outcomes) // len(ENGINES),
        "wrong": [outcome for outcome in outcomes if "wrong" in outcome],
        "slowest": slowest,
        "peak_mebibytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }
    text = json.dumps(result, indent=2, ensure_ascii=True)
    args.output.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
