"""Documents made on the spot, and translations of them by a function on text."""

import io
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

from text_engine import same, text_translator
from transduce.translation.documents import DocumentJob, translate_document
from transduce.translation.pipeline import TextOptions

WORD_SPACE = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SLIDE_SPACE = "http://schemas.openxmlformats.org/drawingml/2006/main"
_TYPE = "application/vnd.openxmlformats-officedocument."
_TRANSLATORS = {function: text_translator(function) for function in (same, str.upper)}


def translated(data: bytes, name: str, function: Callable[[str], str] = str.upper, **job: Any) -> bytes:
    """Returns a document, of the format of `name`, with the function's value of each sentence.

    Capitals, rare signs and loops of the text are left as they are, unless `text_options` are given.
    """
    if function not in _TRANSLATORS:
        _TRANSLATORS[function] = text_translator(function)
    output = io.BytesIO()
    translate_document(
        _TRANSLATORS[function], data, output, DocumentJob(**{"name": name, "text_options": TextOptions(), **job})
    )
    return output.getvalue()


def archive(members: Mapping[str, str | bytes], *, stored: tuple[str, ...] = ()) -> bytes:
    """Returns a ZIP archive; the members named in `stored` are not compressed."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, (2020, 2, 29, 12, 30, 8))
            info.external_attr = 0o644 << 16
            target.writestr(info, content, zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED)
    return file.getvalue()


def member(data: bytes, name: str) -> str:
    """Returns a member of an archive as text."""
    with zipfile.ZipFile(io.BytesIO(data)) as source:
        return source.read(name).decode()


def run(text: str, properties: str = "") -> str:
    """Returns a run of Word."""
    inner = f"<w:rPr>{properties}</w:rPr>" if properties else ""
    return f'<w:r w:rsidR="00A1">{inner}<w:t xml:space="preserve">{text}</w:t></w:r>'


def word(body: str, **others: str) -> bytes:
    """Returns a DOCX file; `others` are further members such as `footnotes`."""
    kinds = {"document": "document.main", **{name: name.rstrip("0123456789") for name in others}}
    overrides = "".join(
        f'<Override PartName="/word/{name}.xml" ContentType="{_TYPE}wordprocessingml.{kind}+xml"/>'
        for name, kind in kinds.items()
    )
    texts = {"document": f"<w:body>{body}</w:body>", **others}
    parts = {
        f"word/{name}.xml": f'<?xml version="1.0" encoding="UTF-8"?>\r\n<w:{name} xmlns:w="{WORD_SPACE}" '
        f'xmlns:r="urn:r">{text}</w:{name}>'
        for name, text in texts.items()
    }
    relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    return archive(
        {
            "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Default Extension="png" ContentType="image/png"/>{overrides}</Types>',
            "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
            f'<Relationship Id="r1" Type="{relation}" Target="word/document.xml"/></Relationships>',
            **parts,
            "word/media/picture.png": b"\x89PNG" + bytes(range(256)) * 40,
            "word/vbaProject.bin": b"Sub AutoOpen()",
        }
    )


def slides(*bodies: str, notes: str = "") -> bytes:
    """Returns the parts of a PPTX file that matter here: slides with paragraphs, and notes of the first."""
    shape = "<p:sp><p:txBody>{}</p:txBody></p:sp>"
    start = f'<?xml version="1.0"?><p:sld xmlns:a="{SLIDE_SPACE}" xmlns:p="urn:p">'
    names = {f"ppt/slides/slide{i}.xml": ("slide", body) for i, body in enumerate(bodies, 1)}
    if notes:
        names["ppt/notesSlides/notesSlide1.xml"] = ("notesSlide", notes)
    overrides = "".join(
        f'<Override PartName="/{name}" ContentType="{_TYPE}presentationml.{kind}+xml"/>'
        for name, (kind, _) in {"ppt/presentation.xml": ("presentation.main", ""), **names}.items()
    )
    return archive(
        {
            "[Content_Types].xml": f"<Types>{overrides}</Types>",
            "ppt/presentation.xml": '<p:presentation xmlns:p="urn:p"/>',
            **{name: f"{start}{shape.format(body)}</p:sld>" for name, (_, body) in names.items()},
        }
    )


def open_document(body: str, styles: str = "", tracked: str = "") -> bytes:
    """Returns an ODT file."""
    names = ("office", "text", "table", "draw", "style")
    spaces = " ".join(f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in names)
    content = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<office:document-content {spaces} office:version="1.3"><office:body>'
        f"<office:text>{tracked}{body}</office:text></office:body></office:document-content>"
    )
    kind = "application/vnd.oasis.opendocument.text"
    return archive(
        {
            "mimetype": kind,
            "content.xml": content,
            "styles.xml": f"<office:document-styles {spaces}><office:master-styles>{styles}</office:master-styles>"
            "</office:document-styles>",
            "META-INF/manifest.xml": "<manifest:manifest "
            'xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
            f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{kind}"/>'
            '<manifest:file-entry manifest:full-path="content.xml" manifest:media-type="text/xml"/>'
            '<manifest:file-entry manifest:full-path="styles.xml" manifest:media-type="text/xml"/></manifest:manifest>',
        },
        stored=("mimetype",),
    )


def book(*pages: str, contents: str = "<p>Contents</p>", encrypted: str = "") -> bytes:
    """Returns an EPUB file with a page for each text."""
    kind = "application/xhtml+xml"
    numbers = range(1, len(pages) + 1)
    items = "".join(f'<item id="p{i}" href="text/page%20{i}.xhtml" media-type="{kind}"/>' for i in numbers)
    start = '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>\n<html xmlns="http://www.w3.org/1999/xhtml"><head>'
    members: dict[str, str | bytes] = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OEBPS/content.opf" media-type="application/oebps-package+xml"/></rootfiles></container>',
        "OEBPS/content.opf": '<package xmlns="http://www.idpf.org/2007/opf"><metadata/><manifest>'
        f'{items}<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
        '<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
        '<item id="css" href="style.css" media-type="text/css"/></manifest><spine/></package>',
        **{
            f"OEBPS/text/page {i}.xhtml": f"{start}<title>x</title></head><body>{page}</body></html>"
            for i, page in enumerate(pages, 1)
        },
        "OEBPS/nav.xhtml": f"{start}</head><body>{contents}</body></html>",
        "OEBPS/toc.ncx": '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navLabel><text>A dog &amp; a cat</text>'
        "</navLabel></ncx>",
        "OEBPS/style.css": "p {color: red}",
    }
    if encrypted:
        members["META-INF/encryption.xml"] = (
            f'<encryption xmlns:enc="urn:e"><enc:CipherReference URI="{encrypted}"/></encryption>'
        )
    return archive(members, stored=("mimetype",))
