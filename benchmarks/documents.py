"""What a document costs beside its plain text: time and peak memory of `transduce translate`.

Makes a book from the lines of a file, as DOCX, as EPUB and as plain lines, one sentence a line. A paragraph has four
sentences; of three paragraphs, one has three words in bold. Each is translated by the command in a process of its own,
from its start to its end, and with --service also by a service of its own: `seconds` are from sending the document to
the result, `seconds_with_start` include the start of the service.

    python benchmarks/documents.py MODEL --source train.en [--words N] [--output result.json] [OPTION …]

On a machine whose speed changes from minute to minute, give --together: each round runs all of them at the same time,
and their processor seconds can be compared, though not their seconds.

`plain_over_this_seconds` and the like are medians of the ratios within a round.

Further options are those of `transduce translate`; with --service, those that `transduce serve` has too. It has a guard
that `translate` has with --guard only: give that, where both are compared.
"""

import argparse
import html
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_WORD_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
_CHAPTER = 50  # paragraphs
_ROUNDS = 3
_FOR_LINES = ("--guard",)  # options that the service has no need of


def sentences(path: Path, num_words: int) -> list[str]:
    """Returns lines of a file with that many words in all."""
    chosen = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        if num_words <= 0:
            break
        chosen.append(line)
        num_words -= len(line.split())
    return chosen


def paragraphs(lines: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yields the text of each paragraph before, in and after its bold words."""
    chance = random.Random(1)
    for i in range(0, len(lines), 4):
        words = " ".join(lines[i : i + 4]).split(" ")
        start = chance.randrange(max(len(words) - 3, 1)) if i % 3 == 0 else len(words)
        yield " ".join(words[:start]), " ".join(words[start : start + 3]), " ".join(words[start + 3 :])


def write_docx(path: Path, lines: list[str]) -> None:
    """Writes a DOCX file."""

    def run(text: str, properties: str = "") -> str:
        written = f'<w:t xml:space="preserve">{html.escape(text, quote=False)}</w:t>'
        return f"<w:r>{properties}{written}</w:r>" if text.strip() else ""

    bold = "<w:rPr><w:b/></w:rPr>"
    body = "".join(
        f"<w:p>{run(before + ' ')}{run(inside, bold)}{run(' ' + after)}</w:p>"
        for before, inside, after in paragraphs(lines)
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(
            "[Content_Types].xml",
            f'<Types><Override PartName="/word/document.xml" ContentType="{_WORD_TYPE}"/></Types>',
        )
        file.writestr("word/document.xml", f'<w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>')


def write_epub(path: Path, lines: list[str]) -> None:
    """Writes an EPUB file with chapters."""
    texts = [
        f"<p>{html.escape(before)} <b>{html.escape(inside)}</b> {html.escape(after)}</p>"
        if inside
        else f"<p>{html.escape(before)}</p>"
        for before, inside, after in paragraphs(lines)
    ]
    chapters = ["".join(texts[i : i + _CHAPTER]) for i in range(0, len(texts), _CHAPTER)]
    items = "".join(f'<item href="{i}.xhtml" media-type="application/xhtml+xml"/>' for i in range(len(chapters)))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        file.writestr("META-INF/container.xml", '<container><rootfile full-path="book.opf"/></container>')
        file.writestr("book.opf", f"<package><manifest>{items}</manifest></package>")
        for i, chapter in enumerate(chapters):
            file.writestr(f"{i}.xhtml", f"<html><head><title/></head><body>{chapter}</body></html>")


def measured(command: list[str]) -> dict[str, Any]:
    """Runs a command; returns its seconds, by the clock and of the processor, and its peak memory."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"failed: {' '.join(command)}")
    return {
        "seconds": round(time.perf_counter() - start, 2),
        "processor_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_mb": round(usage.ru_maxrss / 1024),
    }


def measured_service(model: Path, document: Path, output: Path, options: list[str]) -> dict[str, Any]:
    """Starts a service, lets it translate a document, and returns the same as `measured`."""
    command = [sys.executable, "-m", "transduce", "serve", str(model), "--port", "0", *options]
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        with subprocess.Popen(
            [*command, "--state", f"{folder}/serve.db"], stderr=subprocess.PIPE, text=True, encoding="utf-8"
        ) as process:
            assert process.stderr is not None
            found = next(filter(None, (re.search(r"serving (\w+)→(\w+) at (\S+),", line) for line in process.stderr)))
            threading.Thread(target=process.stderr.read, daemon=True).start()  # the access log
            # Language detection is loaded in the background. This request is answered when that is done.
            body, headers = json.dumps({"q": "a"}).encode(), {"Content-Type": "application/json"}
            detection = urllib.request.Request(f"{found[3]}/detect", body, headers)
            urllib.request.urlopen(detection, timeout=120).close()
            process_folder = Path("/proc", str(process.pid))
            ready, ticks = time.perf_counter(), _ticks(process_folder)
            output.write_bytes(translated(found[3], document, found[1], found[2]))
            end, ticks = time.perf_counter(), _ticks(process_folder) - ticks
            peak = re.search(r"VmHWM:\s+(\d+) kB", (process_folder / "status").read_text())
            assert peak is not None
            process.terminate()
    return {
        "seconds": round(end - ready, 2),
        "seconds_with_start": round(end - start, 2),
        "processor_seconds": round(ticks / os.sysconf("SC_CLK_TCK"), 2),
        "peak_mb": round(int(peak[1]) / 1024),
    }


def _ticks(process_folder: Path) -> int:
    """Returns the clock ticks of a process and of its children that have ended."""
    return sum(map(int, (process_folder / "stat").read_text().rpartition(")")[2].split()[11:15]))


def translated(address: str, document: Path, source: str, target: str) -> bytes:
    """Sends a document to a service, and returns the result."""
    boundary = "a-boundary-that-no-document-has"
    parts = [f'name="{name}"\r\n\r\n{value}'.encode() for name, value in (("source", source), ("target", target))]
    parts.append(f'name="file"; filename="{document.name}"\r\n\r\n'.encode() + document.read_bytes())
    body = b"".join(f"--{boundary}\r\nContent-Disposition: form-data; ".encode() + part + b"\r\n" for part in parts)
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    sent = urllib.request.Request(
        f"{address}/api/documents", body + f"--{boundary}--\r\n".encode(), headers, method="POST"
    )
    with urllib.request.urlopen(sent, timeout=120) as answer:
        found = json.load(answer)
    while found["state"] not in ("done", "failed"):
        time.sleep(0.2)
        with urllib.request.urlopen(f"{address}/api/documents/{found['id']}", timeout=120) as answer:
            found = json.load(answer)
    if found["error"]:
        raise SystemExit(found["error"])
    with urllib.request.urlopen(f"{address}/api/documents/{found['id']}/result", timeout=120) as answer:
        result: bytes = answer.read()
        return result


def main() -> None:
    """Measures, and prints or writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--words", type=int, default=100_000)
    parser.add_argument("--service", action="store_true", help="translate the documents by a service, too")
    parser.add_argument("--together", action="store_true", help="run all of a round at the same time")
    parser.add_argument("--output", type=Path)
    args, options = parser.parse_known_args()  # further options are those of `transduce translate`
    lines = sentences(args.source, args.words)
    command = [sys.executable, "-m", "transduce", "translate", str(args.model)]
    with tempfile.TemporaryDirectory() as folder:
        docx, epub, plain = (Path(folder, name) for name in ("a.docx", "a.epub", "a.txt"))
        write_docx(docx, lines)
        write_epub(epub, lines)
        plain.write_text("".join(line + "\n" for line in lines), encoding="utf-8")

        def translate(row: str) -> dict[str, Any]:
            """Translates what a row is about."""
            document = {"docx": docx, "epub": epub}.get(row[:4], plain)
            output = Path(folder, row + document.suffix)
            if row.endswith("service"):
                shared = [option for option in options if option not in _FOR_LINES]
                return measured_service(args.model, document, output, shared)
            given = [str(document)] if document != plain else ["--source", str(plain)]
            return measured([*command, *given, "--output", str(output), "--overwrite", "--quiet", *options])

        names = ["plain lines", "docx", "epub"]
        names += ["docx through the service", "epub through the service"] if args.service else []
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        with ThreadPoolExecutor(len(names) if args.together else 1) as threads:
            for _ in range(_ROUNDS):
                for name, found in zip(names, threads.map(translate, names), strict=True):
                    runs[name].append(found)
                    print(name, found, file=sys.stderr)
    rows = {
        name: {key: min(run[key] for run in found) for key in found[0] if key != "peak_mb"}
        | {"peak_mb": max(run["peak_mb"] for run in found)}
        for name, found in runs.items()
    }
    for name, row in rows.items():
        for key in [key for key in row if key != "peak_mb"]:
            of_plain = "processor_seconds" if key == "processor_seconds" else "seconds"
            ratios = [
                plain_lines[of_plain] / this[key]
                for plain_lines, this in zip(runs["plain lines"], runs[name], strict=True)
            ]
            row[f"plain_over_this_{key}"] = round(statistics.median(ratios), 3)
    result = {
        "date": date.today().isoformat(),
        "model": args.model.name,
        "options": options,
        "together": args.together,
        "words": sum(len(line.split()) for line in lines),
        "sentences": len(lines),
        "rows": rows,
        "rounds": runs,
    }
    text = json.dumps(result, indent=2) + "\n"
    if args.output is None:
        print(text)
    else:
        args.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
