"""Text files of every format with the features of real ones, and e-books, made from a seed (see `document_makers`)."""

from collections.abc import Callable

from document_makers import Texts
from made_documents import archive

Features = list[Callable[[], str]]


def _html_body(texts: Texts, num_blocks: int = 5) -> str:
    inline: Features = [
        lambda: f"<b>{texts.words(3)}</b>",
        lambda: f"<i>{texts.words(2)} <b>{texts.words(2)}</b></i>",
        lambda: f'<a href="{texts.kept()}.html?x=1&amp;y" title="{texts.words(2)}">{texts.words(2)}</a>',
        lambda: f"<code>{texts.kept()} &lt; b</code>",
        lambda: f'<img src="{texts.kept()}.png" alt="{texts.words(2)}"/>',
        lambda: f'<span translate="no">{texts.kept()}</span>',
        lambda: f"<!-- {texts.kept()} > -->",
        lambda: "<br/>",
        lambda: "&amp; 12",
        lambda: texts.words(3),
    ]

    def paragraph(tag: str = "p") -> str:
        texts.paragraph()
        middle = " ".join(texts.parts(inline, texts.chance.randint(0, 4)))
        return f'<{tag} class="kept">\n  {texts.words()} {middle} {texts.words()}.\n</{tag}>\n'

    blocks: Features = [
        paragraph,
        lambda: paragraph("h2"),
        lambda: f"<ul>{paragraph('li')}{paragraph('li')}</ul>\n",
        lambda: f"<table><tr>{paragraph('td')}<td>12</td></tr></table>\n",
        lambda: f"<pre>{texts.kept()}\n   {texts.kept()}</pre>\n",
        lambda: f"<script>if (a &lt; b) {texts.kept()}('p');</script>\n",
        lambda: f"<blockquote>{paragraph()}</blockquote>\n",
        lambda: "<hr/>\n",
    ]
    return "".join(texts.parts(blocks, num_blocks))


def html(seed: int) -> bytes:
    """Returns a page: script, style, preformatted text, attributes, entities, comments, tables, lists."""
    texts = Texts(seed)
    texts.paragraph()
    head = f'<title>{texts.words()}</title><meta name="description" content="{texts.words()}">'
    style = "<style>p > a { color: red }</style>"
    return f"<!DOCTYPE html>\n<html><head>{head}{style}</head><body>\n{_html_body(texts)}</body></html>\n".encode()


def epub(seed: int) -> bytes:
    """Returns a book, of EPUB 2 or 3: pages, contents of both kinds, metadata, a style sheet."""
    texts = Texts(seed)
    version = 2 + seed % 2
    start = '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>\n<html xmlns="http://www.w3.org/1999/xhtml"><head>'
    pages = {f"text/page{i}.xhtml": _html_body(texts, 3) for i in range(3)}
    texts.paragraph()
    points = "".join(
        f'<navPoint id="n{i}" playOrder="{i + 1}"><navLabel><text>{texts.words(2)}</text></navLabel>'
        f'<content src="{name}"/>'
        "</navPoint>"
        for i, name in enumerate(pages)
    )
    links = "".join(f'<li><a href="{name}">{texts.words(2)}</a></li>' for name in pages)
    nav = f'<nav epub:type="toc" xmlns:epub="http://www.idpf.org/2007/ops"><ol>{links}</ol></nav>'
    items = "".join(
        f'<item id="p{i}" href="{name}" media-type="application/xhtml+xml"/>' for i, name in enumerate(pages)
    )
    if version == 3:
        items += '<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
    return archive(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
            '<rootfiles><rootfile full-path="OPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles>'
            "</container>",
            "OPS/book.opf": f'<package xmlns="http://www.idpf.org/2007/opf" version="{version}.0">'
            '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>kept title</dc:title>'
            '<dc:identifier id="i">kept</dc:identifier><dc:language>la</dc:language></metadata>'
            f'<manifest>{items}<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
            '<item id="css" href="style.css" media-type="text/css"/></manifest><spine toc="ncx">'
            f"{''.join(f'<itemref idref={chr(34)}p{i}{chr(34)}/>' for i in range(3))}</spine></package>",
            **{
                f"OPS/{name}": f"{start}<title>12</title></head><body>{page}</body></html>"
                for name, page in pages.items()
            },
            "OPS/nav.xhtml": f"{start}</head><body>{nav}</body></html>",
            "OPS/toc.ncx": '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/" version="2005-1"><navMap>'
            f"{points}</navMap></ncx>",
            "OPS/style.css": "p { color: kept }",
        },
        stored=("mimetype",),
    )


def markdown(seed: int) -> bytes:
    """Returns a page: tables, code, links, front matter, lists, quotations, notes, formulas, HTML."""
    texts = Texts(seed)
    inline: Features = [
        lambda: f"**{texts.words(3)}**",
        lambda: f"*{texts.words(3)}*",
        lambda: f"`{texts.kept()} b`",
        lambda: f'[{texts.words(2)}]({texts.kept()}.md "12")',
        lambda: f"![{texts.words(2)}]({texts.kept()}.png)",
        lambda: f"<https://example.org/{texts.kept()}>",
        lambda: f"${texts.kept()}_1$",
        lambda: f"<kbd>{texts.kept()}</kbd>",
        lambda: "[^kept]",
        lambda: texts.words(3),
    ]

    def line() -> str:
        texts.paragraph()
        middle = " ".join(texts.parts(inline, texts.chance.randint(0, 4)))
        return f"{texts.words()} {middle} {texts.words()}."

    def table() -> str:
        texts.paragraph()
        rows = [f"| {texts.words(2)} | {texts.words(2)} |" for _ in range(3)]
        return "\n".join([rows[0], "|---|:-:|", *rows[1:]])

    blocks: Features = [
        line,
        lambda: f"# {line()}",
        lambda: f"- {line()}\n- [ ] {line()}\n  1. {line()}",
        lambda: f"> {line()}",
        table,
        lambda: f"```sh\n{texts.kept()} | x\n```",
        lambda: f"{line()}\n\n    {texts.kept()}",
        lambda: f"[^kept]: {line()}",
        lambda: f"<!-- {texts.kept()} -->",
        lambda: f"[{texts.kept()}]: kept.md '34'",
        lambda: f"$$\n{texts.kept()}\n$$",
        lambda: "---",
    ]
    front = "---\nauthor: kept\n---\n\n" if seed % 2 else ""
    newline = "\r\n" if seed % 3 == 0 else "\n"
    return (front + "\n\n".join(texts.parts(blocks, 7)) + "\n").replace("\n", newline).encode()


def text(seed: int) -> bytes:
    """Returns lines, items, columns and empty lines, with and without a byte order mark."""
    texts = Texts(seed)

    def line() -> str:
        texts.paragraph()
        return f"{texts.words()}, {texts.words()} 12."

    kinds: Features = [line, lambda: f"- {line()}", lambda: f"   {line()}", lambda: f"{line()}\t{line()}", str]
    newline = "\r\n" if seed % 3 == 0 else "\n"
    mark = b"\xef\xbb\xbf" if seed % 5 == 0 else b""
    return mark + newline.join(texts.parts(kinds, 9)).encode()


def _cues(seed: int, point: str) -> list[str]:
    texts = Texts(seed)
    inline: Features = [
        lambda: f"<i>{texts.words(2)}</i>",
        lambda: f"<b>{texts.words(2)}</b>",
        lambda: texts.words(2),
        lambda: texts.words(2) + "\n" + texts.words(2),
    ]
    cues = []
    for i in range(8):
        if i % 2 == 0:
            texts.paragraph()
        end = texts.chance.choice(["", "."]) if i % 2 == 0 else "."
        spoken = " ".join(texts.parts(inline, texts.chance.randint(1, 3)))
        position = texts.chance.choice(["", " X1:40 Y1:20"] if point == "," else ["", " align:start position:10%"])
        cues.append(f"{i + 1}\n00:00:{i:02}{point}000 --> 00:00:{i:02}{point}900{position}\n{spoken}{end}\n")
    return cues


def srt(seed: int) -> bytes:
    """Returns subtitles: sentences over two cues, two lines, styles, positions."""
    newline = "\r\n" if seed % 3 == 0 else "\n"
    return "\n".join(_cues(seed, ",")).replace("\n", newline).encode()


def vtt(seed: int) -> bytes:
    """Returns the same as WebVTT, with a style sheet and a note."""
    head = "WEBVTT kept\n\nSTYLE\n::cue { color: red }\n\nNOTE kept\n\n"
    return (head + "\n".join(_cues(seed, "."))).encode()
