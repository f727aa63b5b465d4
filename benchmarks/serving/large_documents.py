"""Documents of very many paragraphs: how soon they are accepted, and read; what others feel of it."""

import asyncio
import io
import json
import time
import urllib.request
import uuid
import zipfile
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from serving.client import Call, Outcome, closed_loop
from serving.processes import HOST

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"


def text(paragraphs: Sequence[str]) -> bytes:
    """Returns plain text."""
    return "\n\n".join(paragraphs).encode()


def html(paragraphs: Sequence[str]) -> bytes:
    """Returns a web page."""
    return ("<!DOCTYPE html><title>x</title>" + "\n".join(f"<p>{escape(each)}</p>" for each in paragraphs)).encode()


def docx(paragraphs: Sequence[str]) -> bytes:
    """Returns a document of Word, the smallest that Word opens."""
    body = "".join(f"<w:p><w:r><w:t>{escape(each)}</w:t></w:r></w:p>" for each in paragraphs)
    types = f'<Override PartName="/word/document.xml" ContentType="{_TYPE}"/>'
    parts = {
        "[Content_Types].xml": f'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{types}</Types>',
        "word/document.xml": f'<w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>',
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


FORMATS: dict[str, Callable[[Sequence[str]], bytes]] = {"txt": text, "html": html, "docx": docx}


def measure(port: int, sentences: Sequence[str], calls: Sequence[Call], num_paragraphs: int) -> dict[str, Any]:
    """Sends a document of each format, and meanwhile one client's requests.

    Args:
        port: of the service.
        sentences: the paragraphs are these, in turn, each with its number.
        calls: requests of the other client.
        num_paragraphs: of each document.
    """
    lines = [f"{number}. {sentences[number % len(sentences)][:40]}" for number in range(num_paragraphs)]
    found: dict[str, Any] = {"alone": asyncio.run(_beside(port, calls, lambda: None)).summary()}
    for ending, made in FORMATS.items():
        content, figures = made(lines), {}

        def document(ending: str = ending, content: bytes = content, figures: dict[str, Any] = figures) -> None:
            figures |= _document(port, f"large.{ending}", content)

        beside = asyncio.run(_beside(port, calls, document))
        found[ending] = {"bytes": len(content), **figures, "other_client": beside.summary()}
        print(f"  {ending}: {json.dumps(found[ending])}", flush=True)
    return found


async def _beside(port: int, calls: Sequence[Call], work: Callable[[], None]) -> Outcome:
    """Sends requests one after the other until the work is done, 100 at least."""
    task, found = asyncio.create_task(asyncio.to_thread(work)), Outcome()
    while not task.done() or len(found.seconds) < 100:
        part = await closed_loop(HOST, port, list(calls[:10]), 1)
        found.seconds += part.seconds
        found.statuses += part.statuses
        found.wall_seconds += part.wall_seconds
    await task
    return found


def _document(port: int, name: str, content: bytes) -> dict[str, Any]:
    """Sends a document, waits until it is read, and deletes it."""
    boundary = uuid.uuid4().hex
    fields = [f'--{boundary}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n' for key, value in
              (("source", "en"), ("target", "de"))]  # fmt: skip
    file = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    body = "".join([*fields, file]).encode() + content + f"\r\n--{boundary}--\r\n".encode()
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    address = f"http://{HOST}:{port}/api/documents"
    begin = time.perf_counter()
    made = _json(urllib.request.Request(address, body, headers))
    accepted = time.perf_counter() - begin
    while made["state"] == "reading":
        time.sleep(0.2)
        made = _json(urllib.request.Request(f"{address}/{made['id']}"))
    read = time.perf_counter() - begin
    urllib.request.urlopen(urllib.request.Request(f"{address}/{made['id']}", method="DELETE")).close()
    return {
        "seconds_until_accepted": round(accepted, 2),
        "seconds_until_read": round(read, 2),
        "state": made["state"],
        "error": made["error"],
        "segments": made["segments"],
        "characters": made["characters"],
    }


def _json(request: urllib.request.Request) -> Any:
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)
