"""Damaged documents of every format: each ends in an error of ours or in a document, soon, and leaves nothing behind.

    python benchmarks/fuzz_documents.py --cases 20000 --seed 1 --output benchmarks/results/DATE-fuzz-documents.json

Takes made documents (`tests/document_makers*.py`) and damages them: bytes are lost, doubled, replaced or inserted, in
archives also within a member, which is then packed again. A fault is any other exception, a document that is changed
though the model changes nothing, an archive or XML that cannot be read, a file that is left behind, or more than 10
seconds.
"""

import argparse
import io
import json
import random
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
import zipfile
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from document_makers import docx, pptx  # noqa: E402  # of the tests
from document_makers_bilingual import po, tmx, xliff  # noqa: E402
from document_makers_open import odt  # noqa: E402
from document_makers_text import epub, html, markdown, srt, text, vtt  # noqa: E402
from text_engine import text_translator  # noqa: E402
from transduce.errors import TransduceError  # noqa: E402
from transduce.reporting.machine import describe_machine  # noqa: E402
from transduce.translation.documents import Languages, translate_document  # noqa: E402

MAKERS = {
    ".docx": docx, ".epub": epub, ".html": html, ".md": markdown, ".odt": odt, ".po": po, ".pptx": pptx, ".srt": srt,
    ".txt": text, ".tmx": tmx, ".vtt": vtt, ".xlf": xliff,
}  # fmt: skip
ARCHIVES = (".docx", ".epub", ".odt", ".pptx")
FILLED = (".po", ".tmx", ".xlf")  # in which translations are added
SIGNS = (
    b"<", b">", b"&", b'"', b"'", b"/", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3", b"\r", b"\n", b"\t", b"]]>",
    b"<!--", b"<![CDATA[", b"<?x", b"&#0;", b"&#xD800;", b"&lt;", b"</", b"<!DOCTYPE a [", b"PK\x03\x04", b"-->",
    b"```",
    b"| |", b"[", b"](", b"00:00:00,000 --> 00:00:01,000", b"msgid ", b"<x1>", b"</x1>", b"\xed\xa0\x80", b" " * 500,
)  # fmt: skip
_MOST_SECONDS = 10.0


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Returns data with some damage."""
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(data) + 1)
        end = min(len(data), start + int(chance.paretovariate(0.7)))
        new = chance.choice((b"", data[start:end] * 2, chance.choice(SIGNS), chance.randbytes(end - start)))
        data = data[:start] + new + data[chance.choice((start, end)) :]
    return data if chance.random() > 0.02 else data[: chance.randrange(len(data) + 1)]


def made(extension: str, chance: random.Random) -> bytes:
    """Returns a damaged document."""
    data = MAKERS[extension](chance.randrange(1000))
    if extension not in ARCHIVES or chance.random() < 0.3:
        return damaged(data, chance)
    with zipfile.ZipFile(io.BytesIO(data)) as source:
        members = {each.filename: source.read(each) for each in source.infolist()}
    name = chance.choice(list(members))
    members[name] = damaged(members[name], chance)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as target:
        for each, content in members.items():
            target.writestr(each, content)
    return file.getvalue()


def faults(extension: str, data: bytes, folder: Path, translator: Any, *, changes: bool) -> tuple[str, list[str]]:
    """Translates a document; returns how it ended, and what is wrong with that."""
    output, wrong = folder / f"output{extension}", []
    start = time.perf_counter()
    try:
        translate_document(
            translator, data, output, name=f"a{extension}", languages=Languages("en", "de"), overwrite=True
        )
        ending, found = "document", output.read_bytes()
        output.unlink()
        if not changes and extension not in FILLED and found != data:
            wrong.append("changed, though the model changes nothing")
        if not unreadable(extension, data):
            wrong += unreadable(extension, found)
    except TransduceError as error:
        ending = "error"
        if not str(error).startswith(f"a{extension}"):
            wrong.append(f"does not name the document: {error}")
    except Exception as error:  # what is looked for
        ending = "fault"
        wrong.append(f"{type(error).__name__}: {error}")
    if time.perf_counter() - start > _MOST_SECONDS:
        wrong.append("takes long")
    if left := [each.name for each in folder.iterdir()]:
        wrong.append(f"leaves {left}")
        for each in folder.iterdir():
            each.unlink()
    return ending, wrong


def unreadable(extension: str, found: bytes) -> list[str]:
    """Returns what is wrong with a translation that should be readable."""
    try:
        if extension in ARCHIVES:
            with zipfile.ZipFile(io.BytesIO(found)) as file:
                file.infolist()
        elif extension in (".tmx", ".xlf"):
            ET.fromstring(found)
    except (zipfile.BadZipFile, ET.ParseError) as error:
        return [f"cannot be read: {error}"]
    return []


def run(cases: int, seed: int) -> dict[str, Any]:
    """Returns how so many damaged documents ended."""
    endings: dict[str, Counter[str]] = {extension: Counter() for extension in MAKERS}
    found: list[dict[str, Any]] = []
    translators = {True: text_translator(str.upper), False: text_translator()}
    slowest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for case in range(cases):
            extension = list(MAKERS)[case % len(MAKERS)]
            chance = random.Random(f"{seed} {case}")
            data, changes = made(extension, chance), chance.random() < 0.5
            start = time.perf_counter()
            ending, wrong = faults(extension, data, Path(folder), translators[changes], changes=changes)
            slowest = max(slowest, time.perf_counter() - start)
            endings[extension][ending] += 1
            if wrong:
                found.append({"case": case, "format": extension, "faults": wrong})
    return {
        "documents": cases,
        "endings": {name: dict(sorted(each.items())) for name, each in endings.items()},
        "most_seconds": round(slowest, 2),
        "faults": found,
    }


def main() -> int:
    """Runs the cases, writes the report, and returns 1 where one is at fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    report = {
        "date": date.today().isoformat(),
        "command": f"python benchmarks/fuzz_documents.py --cases {args.cases} --seed {args.seed}",
        "machine": describe_machine(),
        **run(args.cases, args.seed),
    }
    written = json.dumps(report, indent=2) + "\n"
    print(written)
    if args.output:
        args.output.write_text(written, encoding="utf-8")
    return int(bool(report["faults"]))


if __name__ == "__main__":
    sys.exit(main())
