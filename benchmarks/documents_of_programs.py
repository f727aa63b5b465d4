"""Documents that other programs make: translated, compared with the originals, and opened again by the programs.

    python benchmarks/documents_of_programs.py --folder build/documents --output benchmarks/results/DATE-….json

LibreOffice, pandoc, Sphinx, MkDocs, gettext, Babel, translate-toolkit, OmegaT and FFmpeg make documents of what is in
`benchmarks/programs/texts.py`; files of programs with windows (Trados, memoQ, Phrase, Poedit) are written after their
formats. A model that writes words in capitals translates each. Measured for each document:

same    byte for byte as it was, if the model changes nothing (not for PO, XLIFF, TMX, which are filled)
around  whether all that is no prose is as it was: each tag, attribute, address, code, member of an archive, and each
        word in the element that it was in (`programs/frames.py`, by parsers that the translation does not use)
counts  whether pandoc counts the same paragraphs, links, pictures, notes, tables, … as before
left    words of prose that were not translated
opened  whether its program reads the same words from it (soffice, pandoc, msgfmt, mkdocs, xliff2po, ffmpeg)

A program that is not installed is named, and what it makes is missing: the exit code is then 1, as it is for any fault.
"""

import argparse
import datetime
import io
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from programs import checks  # noqa: E402
from programs.frames import READERS  # noqa: E402
from programs.recipes import make  # noqa: E402
from text_engine import text_translator  # noqa: E402  # of the tests
from transduce.reporting.machine import describe_machine  # noqa: E402
from transduce.translation.documents import DocumentJob, Languages, translate_document  # noqa: E402
from transduce.translation.pipeline import TextOptions  # noqa: E402

_WORD = re.compile(r"(?<![^\s(\"'“‘—–/-])[^\W\d_]+(?:['’][a-z]+)?(?=[\s.,;:!?)\"'”’…—–/-]|\Z)")
_FILLED = (".po", ".pot", ".tmx", ".xlf", ".sdlxliff", ".mqxliff", ".mxliff")


def in_capitals(text: str) -> str:
    """Returns a text with its words in capitals; names and what is joined to signs stay, as a model would copy them."""
    return _WORD.sub(lambda match: match[0] if match[0].startswith("keep") else match[0].upper(), text)


def main() -> int:
    """Makes, translates and compares; returns 1 where something is at fault or a program is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where the documents are kept; made again only if it is empty")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--only", default="", help="documents whose names hold this")
    parser.add_argument("--unopened", action="store_true", help="do not open the translations")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        record = folder / "made.json"
        if not record.exists():
            made = [{"program": each.program, "made": each.made, "failure": why} for each, why in make(folder)]
            record.write_text(json.dumps(made, indent=2))
        made = json.loads(record.read_text())
        documents = {name: each["program"] for each in made for name in each["made"] if (folder / name).is_file()}
        rows = {name: translated(folder, name) for name in documents if args.only in name}
        failures = [f"{each['program']}: {each['failure']}" for each in made if each["failure"]]
        if not args.unopened:
            files = [folder / name for name in rows]
            wrong = checks.opened(files, [_beside(path) for path in files])
            for name, path in zip(rows, files, strict=True):
                rows[name]["opened"] = wrong.get(path.name, "")
                rows[name]["faults"] += [wrong[path.name]] if path.name in wrong else []
    report = {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "command": "python benchmarks/documents_of_programs.py",
        "machine": describe_machine(),
        "documents": len(rows),
        "not_made": failures,
        "faults": sum(bool(row["faults"]) for row in rows.values()),
        "rows": [{"document": name, "program": documents[name], **row} for name, row in rows.items()],
    }
    text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    if args.output:
        args.output.write_text(text, encoding="utf-8")
    for row in report["rows"]:
        print(f"{row['document']}: {'; '.join(row['faults']) or 'as it was'}; left: {' '.join(row['left'])}")
    for failure in failures:
        print(f"NOT MADE: {failure}")
    return int(bool(report["faults"] or failures))


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.stem}.translated{path.suffix}")


def translated(folder: Path, name: str) -> dict[str, Any]:
    """Translates a document into a file beside it; returns what was measured."""
    data = (folder / name).read_bytes()
    said: list[str] = []
    output = io.BytesIO()
    # Into the same language, so that the document names it as before; files that are filled need another one.
    languages = Languages("en", "de" if name.endswith(_FILLED) else "en")
    job = DocumentJob(name=Path(name).name, languages=languages, text_options=TextOptions(), warn=said.append)
    summary = translate_document(_MODELS[True], data, output, job)
    found = output.getvalue()
    _beside(folder / name).write_bytes(found)
    try:
        faults = checks.around(name, data, found)
    except (subprocess.CalledProcessError, ValueError) as error:
        faults = [f"{error} {getattr(error, 'stderr', '')}"]
    if not name.endswith(_FILLED):
        same = io.BytesIO()
        translate_document(_MODELS[False], data, same, replace(job, warn=None))
        faults += ["changed, though the model changes nothing"] if same.getvalue() != data else []
    counts: dict[str, int] = {}
    kind = Path(name).stem.rpartition("-")[2]
    # What MkDocs and MDX add to Markdown is code for pandoc.
    if Path(name).suffix[1:] in READERS or (name.endswith(".md") and not name.startswith("mkdocs")):
        counts, wrong = checks.lost(kind, folder / name, _beside(folder / name))
        faults += wrong
    return {
        "texts": summary.num_segments,
        "warnings": said,
        "counts": counts,
        "left": checks.untranslated(name, found),
        "faults": faults,
    }


_MODELS = {True: text_translator(in_capitals), False: text_translator()}


if __name__ == "__main__":
    sys.exit(main())
