"""What stands around the prose of a document, read by parsers that the translation does not use.

A frame is a list in the order of the document. Prose is in it in lower case and without white space, so that two frames
are equal only if the same words are in the same elements; everything else is in it as it is.
"""

import html.parser
import io
import json
import re
import subprocess
import xml.parsers.expat
import zipfile
from collections import Counter
from typing import Any

_EMPTY = ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
_CODE = ("code", "kbd", "pre", "samp", "script", "style", "svg", "math", "textarea", "tt", "var")
_OF_PEOPLE = ("alt", "title", "placeholder", "aria-label", "content", "value")  # attributes that have prose
_DESCRIPTIONS = ("descr", "title")  # of pictures in DOCX and PPTX
_RUNS = re.compile(r"(?:w|a):(?:r|t|rPr|proofErr)|w:lastRenderedPageBreak")
Frame = list[Any]


def prose(text: str) -> str:
    """Returns prose in lower case, without white space."""
    return "".join(text.split()).lower()


class _Page(html.parser.HTMLParser):
    """Collects the frame of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.frame: Frame = []
        self.path: list[str] = []  # elements of code that are open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.frame.append((tag, [(name, prose(value or "") if name in _OF_PEOPLE else value) for name, value in attrs]))
        if tag in _CODE:
            self.path.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.frame.append(f"/{tag}")
        if self.path and self.path[-1] == tag:
            self.path.pop()

    def handle_data(self, data: str) -> None:
        if self.path:
            self.frame.append(("code", data))
        elif data.strip():
            self.frame.append(("text", prose(data)))

    def handle_comment(self, data: str) -> None:
        self.frame.append(("comment", data))

    def handle_decl(self, decl: str) -> None:
        self.frame.append(("declaration", decl))

    def handle_pi(self, data: str) -> None:
        self.frame.append(("instruction", data))


def page_frame(text: str) -> Frame:
    """Returns the frame of a page."""
    page = _Page()
    page.feed(text)
    page.close()
    return page.frame


def xml_frame(data: bytes, *, with_runs: bool = True) -> Frame:
    """Returns the frame of an XML document; without the runs of Word and PowerPoint, which are cut anew."""
    frame: Frame = []
    skipped = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal skipped
        is_run = not with_runs and _RUNS.fullmatch(name) is not None
        skipped += name.endswith(":rPr") or bool(skipped)
        if not is_run and not skipped:
            frame.append(
                (name, {key: prose(value) if key in _DESCRIPTIONS else value for key, value in attributes.items()})
            )

    def end(name: str) -> None:
        nonlocal skipped
        if not skipped and (with_runs or not _RUNS.fullmatch(name)):
            frame.append(f"/{name}")
        skipped = max(0, skipped - 1)

    def characters(text: str) -> None:
        if not text.strip() or skipped:
            return
        if frame and isinstance(frame[-1], list):
            frame[-1][0] += prose(text)
        else:
            frame.append([prose(text)])

    parser = xml.parsers.expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, characters
    if data:  # some members have only a name
        parser.Parse(data, True)
    return frame


def frame_of(name: str, data: bytes) -> Any:
    """Returns the frame of a document or of a member of an archive, by its name."""
    ending = name.rpartition(".")[2].lower()
    if ending in ("docx", "pptx", "odt", "ott", "odp", "epub"):
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            assert file.testzip() is None
            kind = "run.xml" if ending in ("docx", "pptx") else ".xml"
            return [
                (each.filename, frame_of(each.filename if each.filename.endswith("html") else kind, file.read(each)))
                if each.filename.endswith(("xml", "html", "ncx"))
                else (each.filename, file.read(each))
                for each in file.infolist()
            ]
    if ending in ("html", "xhtml"):
        return page_frame(data.decode())
    if ending == "xml":
        return xml_frame(data, with_runs=name != "run.xml")
    return prose(data.decode("utf-8-sig"))


READERS = {
    "docx": "docx", "odt": "odt", "epub": "epub", "html": "html", "xhtml": "html", "gfm": "gfm",
    "commonmark": "commonmark_x", "markdown": "markdown", "extra": "markdown_phpextra", "multi": "markdown_mmd",
    "rst": "gfm",
}  # fmt: skip
_COUNTED = (
    "Para", "Plain", "Header", "Link", "Image", "Note", "Cite", "Code", "CodeBlock", "Math", "Table", "BulletList",
    "OrderedList", "DefinitionList", "BlockQuote", "LineBreak", "Emph", "Strong", "Strikeout", "Superscript",
    "Subscript", "RawInline", "RawBlock", "Div",
)  # fmt: skip


def counted(reader: str, path: str) -> tuple[dict[str, int], Frame]:
    """Returns how many of each element pandoc reads in a document, and what they hold that is no prose.

    Raises:
        subprocess.SubprocessError: pandoc cannot read it.
    """
    done = subprocess.run(["pandoc", "-f", reader, "-t", "json", path], check=True, capture_output=True, timeout=300)
    counts: Counter[str] = Counter()
    held: Frame = []

    def walk(node: Any) -> None:
        if isinstance(node, list):
            for each in node:
                walk(each)
        elif isinstance(node, dict):
            kind = node.get("t")
            if kind in _COUNTED:
                counts[kind] += 1
            if kind in ("RawInline", "RawBlock") and "html" in node["c"][0]:
                held.append(page_frame(node["c"][1]))
            elif kind in ("Code", "CodeBlock", "Math", "RawInline", "RawBlock"):
                held.append(node["c"])
            elif kind in ("Link", "Image"):
                held.append([node["c"][2][0], prose(node["c"][2][1])])
            for each in node.values():
                walk(each)

    walk(json.loads(done.stdout)["blocks"])
    return dict(sorted(counts.items())), held
