"""Texts that nobody means well with, through a model: as many lines out as in, or an error that says where it lies.

Each text is a file: NULs and other control characters, every separator of Unicode, marks by the thousand, bidirectional
controls, emoji sequences, words of 40 000 letters, byte order marks, lone surrogates, bytes that are not UTF-8, other
encodings, nothing at all. Both engines translate it.
"""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from fuzzing.runner import Case, Outcome, Runner

_FIXTURES = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "0.1.0"
_MODELS = ("model", "model-learned")  # of 1024 and of 64 positions
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


def wrong_output(data: bytes, output: bytes) -> str:
    """Returns what is wrong with the translation of a text; "" where nothing is."""
    num_lines, wrong = expected(data)
    if wrong is not None:
        return f"line {wrong} is not UTF-8, and nothing was said"
    output.decode()
    found = output.count(b"\n")
    return "" if found == num_lines and (not output or output.endswith(b"\n")) else f"{num_lines} in, {found} out"


def text_cases(runner: Runner, count: int, seed: int) -> Iterator[Case]:
    """Yields cases: each of `count` texts through each engine."""
    for name in _MODELS:
        shutil.copytree(_FIXTURES / name, runner.folder / name)
    source, output = runner.folder / "in.txt", runner.folder / "out.txt"
    chance = random.Random(seed)
    for number in range(count):
        kind, data = make_text(chance)
        model = str(runner.folder / _MODELS[number % len(_MODELS)])
        _, wrong = expected(data)
        for engine in ENGINES:
            yield Case(
                ["translate", model, "--source", str(source), "--output", str(output), "--engine", engine],
                damage=kind,
                must_fail=wrong is not None,
                named=(f"{source}, line {wrong}:",),
                prepare=_written(source, output, data),
                check=_translates(data, output),
            )


def _written(source: Path, output: Path, data: bytes) -> Callable[[], str]:
    def write() -> str:
        for old in output.parent.glob(f"*{output.name}*"):
            old.unlink()
        source.write_bytes(data)
        return f"{len(data)} bytes"

    return write


def _translates(data: bytes, output: Path) -> Callable[[Outcome], str]:
    def check(outcome: Outcome) -> str:
        if outcome.exit_code:
            return "an output in spite of the error" if output.exists() else ""
        return wrong_output(data, output.read_bytes())

    return check
