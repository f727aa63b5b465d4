"""Damaged documents of every format: each ends in an error of ours or in a document, soon, and leaves nothing behind.

    python benchmarks/fuzz_documents.py --cases 20000 --seed 1 --output benchmarks/results/DATE-fuzz-documents.json
    python benchmarks/fuzz_documents.py --minutes 10 --kinds .md .xlf

Takes made documents (`tests/document_makers*.py`, and XLIFF as Trados writes it) and damages them
(`fuzzing/document_damage.py`): bytes are lost, doubled, replaced or inserted; elements of XML are lost, doubled, moved
or nested; members of archives are lost, renamed or packed in another way; constructs of Markdown are inserted, whole or
cut off. `--minutes` are by the clock, for each kind. A fault is

- any other exception, an error that does not name the document, or more than 10 seconds of processor time;
- a document that is changed though the model changes nothing;
- where the model writes capitals, a document that has other characters than before, but for their case: text or markup
  is lost or doubled (tags may move with their words);
- an archive or XML that cannot be read, or a file that is left behind.
"""

import argparse
import html
import io
import json
import random
import re
import signal
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from document_makers import Texts, docx, pptx  # noqa: E402  # of the tests
from document_makers_bilingual import po, tmx, xliff  # noqa: E402
from document_makers_open import odt  # noqa: E402
from document_makers_text import epub, markdown, srt, text, vtt  # noqa: E402
from document_makers_text import html as page  # noqa: E402
from fuzzing.document_damage import ARCHIVES, damages  # noqa: E402
from programs.bilingual import TRADOS  # noqa: E402
from programs.frames import Frame, xml_frame  # noqa: E402
from programs.texts import MDX  # noqa: E402
from text_engine import text_translator  # noqa: E402
from transduce.errors import TransduceError  # noqa: E402
from transduce.reporting.machine import describe_machine  # noqa: E402
from transduce.translation.documents import DocumentJob, Languages, translate_document  # noqa: E402
from transduce.translation.documents.archive import DAMAGE  # noqa: E402
from transduce.translation.pipeline import TextOptions  # noqa: E402


def trados(seed: int) -> bytes:
    """Returns a file of segments, as Trados writes it."""
    texts = Texts(seed)
    texts.paragraph()
    return re.sub("dog|cat|line|boat", lambda _: texts.words(2), TRADOS).encode()


def mdx(seed: int) -> bytes:
    """Returns a page of MDX."""
    return MDX.encode() + markdown(seed).removeprefix(b"---")


MAKERS = {
    ".docx": docx, ".epub": epub, ".html": page, ".md": markdown, ".mdx": mdx, ".odt": odt, ".po": po, ".pptx": pptx,
    ".sdlxliff": trados, ".srt": srt, ".txt": text, ".tmx": tmx, ".vtt": vtt, ".xlf": xliff,
}  # fmt: skip
FILLED = (".po", ".tmx", ".xlf", ".sdlxliff")  # in which translations are added
_MOST_SECONDS = 10
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\xad\ud800-\udfff\ufffe\uffff]")
_TARGET = re.compile(r"<target\b[^>]*/>|<target\b[^>]*(?<!/)>.*?</target>|<tuv xml:lang=\"de\">.*?</tuv>", re.DOTALL)
_STATE = re.compile(r"\sstate(?:-qualifier)?=(?:\"[^\"]*\"|'[^']*')|\strgLang=\"de\"")

_SIDE = re.compile(r"<(?P<end>/?)(?:[\w.-]+:)?(?P<name>source|seg-source|target)\b[^>]*?(?P<point>/?)>")
_LABEL = re.compile(r"\[([^\[\]]+)\](?:\[\1\])+")


class Slow(BaseException):
    """A case that takes too long; nothing but the benchmark may catch it."""


def made(extension: str, chance: random.Random) -> bytes:
    """Returns a damaged document."""
    damage = chance.choice(damages(extension))
    return damage(MAKERS[extension](chance.randrange(1000)), chance)


def faults(extension: str, data: bytes, folder: Path, translator: Any, *, changes: bool) -> tuple[str, list[str]]:
    """Translates a document; returns how it ended, and what is wrong with that."""
    output, wrong = folder / f"output{extension}", []
    signal.setitimer(signal.ITIMER_PROF, _MOST_SECONDS)
    try:
        # Into the same language, as the name of the language would be a change.
        languages = Languages("en", "de" if changes or extension in FILLED else "en")
        # The stages that repair text would change it, though the model does not.
        job = DocumentJob(name=f"a{extension}", languages=languages, overwrite=True, text_options=TextOptions())
        translate_document(translator, data, output, job)
        signal.setitimer(signal.ITIMER_PROF, 0)
        ending, found = "document", output.read_bytes()
        output.unlink()
        if not changes and extension not in FILLED and found != data:
            wrong.append("changed, though the model changes nothing")
        if not unreadable(extension, data):
            wrong += unreadable(extension, found)
        if changes and not wrong:
            wrong += list(lost(extension, data, found))[:1]
    except TransduceError as error:
        ending = "error"
        if not str(error).startswith(f"a{extension}"):
            wrong.append(f"does not name the document: {error}")
    except Slow:
        ending = "fault"
        wrong.append("takes long")
    except Exception as error:  # what is looked for
        ending = "fault"
        wrong.append(f"{type(error).__name__}: {error}")
    signal.setitimer(signal.ITIMER_PROF, 0)
    if left := [each.name for each in folder.iterdir()]:
        wrong.append(f"leaves {left}")
        for each in folder.iterdir():
            each.unlink()
    return ending, wrong


def lost(extension: str, given: bytes, found: bytes) -> Iterator[str]:
    """Yields where a translation has other characters than its source, but for case and white space."""
    if extension in FILLED and nested(given.decode("utf-8", "replace")):
        return  # such damage looks like a new target here
    if extension not in ARCHIVES:
        sides = [folded(extension, each) for each in (given, found)]
        if Counter(sides[0]) != Counter(sides[1]):
            place = next((i for i, (a, b) in enumerate(zip(*sides, strict=False)) if a != b), min(map(len, sides)))
            yield f"not only letters: {' → '.join(repr(each[max(0, place - 30) : place + 30]) for each in sides)}"
        return
    with zipfile.ZipFile(io.BytesIO(given)) as one, zipfile.ZipFile(io.BytesIO(found)) as other:
        if one.namelist() != other.namelist():
            yield "other members"
        for before, after in zip(one.infolist(), other.infolist(), strict=False):
            try:
                content = one.read(before)
            except DAMAGE:
                continue  # damage to what has no text is copied
            if (translated := other.read(after)) == content:
                continue
            if before.filename.endswith("html"):
                counts = [Counter(folded(".html", each)) for each in (content, translated)]
            else:
                with_runs = extension not in (".docx", ".pptx")
                counts = [counted(xml_frame(each, with_runs=with_runs)) for each in (content, translated)]
            if counts[0] != counts[1]:
                differing = [*(counts[0] - counts[1]), "→", *(counts[1] - counts[0])]
                yield f"{before.filename}: not only letters: {' '.join(differing)[:200]}"


def counted(frame: Frame) -> Counter[str]:
    """Returns how often XML has each tag and each character, but for their case."""
    # Not each text: a word that reaches over the end of an element goes into one of the elements as a whole.
    texts = "".join(each[0] for each in frame if isinstance(each, list))
    tags = (str(each) for each in frame if not isinstance(each, list))
    return Counter(texts.upper().lower()) + Counter(each.upper().lower() for each in tags)


def nested(text: str) -> bool:
    """Returns whether a target is in a source, or in another target."""
    depth = 0
    for match in _SIDE.finditer(text):
        if depth and match["name"] == "target" and not match["end"]:
            return True
        depth += -1 if match["end"] else not match["point"]
    return False


def folded(extension: str, data: bytes) -> str:
    """Returns what a translation in capitals has in common with its source."""
    text = data.decode("utf-8", "replace")
    if extension == ".po":  # a single return ends a line; a text goes on after empty lines
        text = re.sub(r"\r\n?", "\n", text.replace("charset=CHARSET", "charset=UTF-8"))
        return re.sub(r"^msgstr.*(?:\n\s*\".*)*", "", text, flags=re.MULTILINE)
    if extension in FILLED:
        return "".join(_STATE.sub("", _TARGET.sub("", text)).split())
    for _ in range(2):  # without what no document may hold, "&\x05amp;" is an entity too
        text = html.unescape(_FORBIDDEN.sub("", text))
    text = _FORBIDDEN.sub("", text)
    if extension in (".md", ".mdx", ".txt"):
        text = re.sub(r"[\\>|]", "", text)  # escapes, and marks of lines that were wrapped again
    text = "".join(text.split()).upper().lower()
    return _LABEL.sub(r"[\1]", text) if extension in (".md", ".mdx") else text  # "[dog]" becomes "[HUND][dog]"


def unreadable(extension: str, found: bytes) -> list[str]:
    """Returns what is wrong with a translation that should be readable."""
    try:
        if extension in ARCHIVES:
            with zipfile.ZipFile(io.BytesIO(found)) as file:
                file.infolist()
        elif extension in (".tmx", ".xlf", ".sdlxliff"):
            ET.fromstring(found)
    except (zipfile.BadZipFile, ET.ParseError) as error:
        return [f"cannot be read: {error}"]
    return []


def _too_slow(*_: object) -> None:
    raise Slow


def run(cases: int, seed: int, minutes: float = 0, kinds: Sequence[str] = tuple(MAKERS)) -> dict[str, Any]:
    """Returns how so many damaged documents ended, or as many of each kind as `minutes` allow."""
    endings: dict[str, Counter[str]] = {extension: Counter() for extension in kinds}
    found: list[dict[str, Any]] = []
    translators = {True: text_translator(str.upper), False: text_translator()}
    slowest = 0.0
    before = signal.signal(signal.SIGPROF, _too_slow)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for case in _cases(cases, minutes, len(kinds)):
            extension = kinds[case % len(kinds)]
            chance = random.Random(f"{seed} {extension} {case // len(kinds)}")
            data, changes = made(extension, chance), chance.random() < 0.5
            begun = time.process_time()
            ending, wrong = faults(extension, data, Path(folder), translators[changes], changes=changes)
            slowest = max(slowest, time.process_time() - begun)
            endings[extension][ending] += 1
            if wrong:
                found.append({"case": case // len(kinds), "format": extension, "faults": wrong})
    signal.signal(signal.SIGPROF, before)
    return {
        "documents": sum(map(sum, (each.values() for each in endings.values()))),
        "minutes_a_kind": round((time.perf_counter() - start) / 60 / len(kinds), 1),
        "processor_seconds": round(time.process_time()),
        "endings": {name: dict(sorted(each.items())) for name, each in endings.items()},
        "most_seconds": round(slowest, 2),
        "faults": found,
    }


def _cases(cases: int, minutes: float, num_kinds: int) -> Iterator[int]:
    """Yields the numbers of cases, all kinds in turn, until the time of all is over."""
    end = time.perf_counter() + 60 * minutes * num_kinds
    case = 0
    while case < cases if not minutes else time.perf_counter() < end:
        yield case
        case += 1


def main() -> int:
    """Runs the cases, writes the report, and returns 1 where one is at fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--minutes", type=float, default=0, help="for each kind, by the clock, in place of --cases")
    parser.add_argument("--kinds", nargs="+", choices=MAKERS, default=list(MAKERS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    amount = f"--minutes {args.minutes:g}" if args.minutes else f"--cases {args.cases}"
    kinds = "" if args.kinds == list(MAKERS) else f" --kinds {' '.join(args.kinds)}"
    report = {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "command": f"python benchmarks/fuzz_documents.py {amount} --seed {args.seed}{kinds}",
        "machine": describe_machine(),
        **run(args.cases, args.seed, args.minutes, args.kinds),
    }
    written = json.dumps(report, indent=2) + "\n"
    print(written)
    if args.output:
        args.output.write_text(written, encoding="utf-8")
    return int(bool(report["faults"]))


if __name__ == "__main__":
    sys.exit(main())
