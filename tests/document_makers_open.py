"""OpenDocument texts, made from a seed (see `document_makers`)."""

from collections.abc import Callable

from document_makers import XML_HEAD, Texts
from made_documents import archive

_ODF = "urn:oasis:names:tc:opendocument:xmlns:"
_ODF_SPACES = " ".join(
    f'xmlns:{name}="{_ODF}{space}:1.0"'
    for name, space in {
        **{name: name for name in ("office", "text", "table", "style", "manifest")},
        "draw": "drawing",
        "svg": "svg-compatible",
        "fo": "xsl-fo-compatible",
    }.items()
)
_ODF_SPACES += ' xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:dc="http://purl.org/dc/elements/1.1/"'


def odt(seed: int) -> bytes:
    """Returns a text: frames, lists, tables, notes, comments, links, fields, tabs, tracked deletions, headers."""
    texts = Texts(seed)
    inline: list[Callable[[], str]] = [
        lambda: texts.words(3),
        lambda: f'<text:span text:style-name="T1">{texts.words(3)}</text:span>',
        lambda: f'<text:span text:style-name="T1">{texts.words(2)} <text:span>{texts.words(2)}</text:span></text:span>',
        lambda: f'<text:a xlink:type="simple" xlink:href="http://example.org/kept">{texts.words(3)}</text:a>',
        lambda: f"<text:date>{texts.kept()}</text:date>",
        lambda: "<text:line-break/>",
        lambda: "<text:tab/>",
        lambda: '<text:s text:c="3"/>',
        lambda: '<text:bookmark text:name="kept"/>',
        lambda: "&amp; 12",
    ]
    in_body: list[Callable[[], str]] = [lambda: note(), lambda: annotation(), lambda: frame()]

    def inner(words: str) -> str:
        return f"<text:p>{words}</text:p>"

    def note() -> str:
        number = texts.number = texts.number + 1
        return (
            f'<text:note text:id="n{number}" text:note-class="footnote"><text:note-citation>{number}'
            f"</text:note-citation><text:note-body>{inner(texts.words(2))}</text:note-body></text:note>"
        )

    def annotation() -> str:
        return (
            f"<office:annotation><dc:creator>{texts.kept()}</dc:creator><dc:date>2020-01-01T00:00:00</dc:date>"
            f"{inner(texts.words(2))}</office:annotation>"
        )

    def frame() -> str:
        return (
            '<draw:frame draw:name="kept" text:anchor-type="as-char" svg:width="5cm"><draw:text-box>'
            f"{inner(texts.words(2))}</draw:text-box></draw:frame>"
        )

    def paragraph(name: str = "p") -> str:
        texts.paragraph()
        middle = " ".join(texts.parts([*inline, *in_body], texts.chance.randint(0, 4)))
        level = ' text:outline-level="1"' if name == "h" else ""
        return f"<text:{name}{level}>{texts.words()} {middle} {texts.words()}.</text:{name}>"

    def items() -> str:
        return f"<text:list>{''.join(f'<text:list-item>{paragraph()}</text:list-item>' for _ in range(3))}</text:list>"

    def table() -> str:
        number = texts.number = texts.number + 1
        row = "".join(f"<table:table-cell>{paragraph()}</table:table-cell>" for _ in range(2))
        columns = '<table:table-column table:number-columns-repeated="2"/>'
        return f'<table:table table:name="t{number}">{columns}<table:table-row>{row}</table:table-row></table:table>'

    blocks: list[Callable[[], str]] = [paragraph, items, table, lambda: paragraph("h"), lambda: "<text:p/>"]
    body = "".join(texts.parts(blocks, 4))
    in_body.clear()
    kind = "application/vnd.oasis.opendocument.text"
    changes = (
        f'<text:tracked-changes><text:changed-region text:id="c1"><text:deletion><office:change-info><dc:creator>kept'
        f"</dc:creator><dc:date>2020-01-01T00:00:00</dc:date></office:change-info>{inner(texts.kept())}</text:deletion>"
        "</text:changed-region></text:tracked-changes>"
    )
    page = (
        '<office:automatic-styles><style:page-layout style:name="pm"><style:header-style/></style:page-layout>'
        '</office:automatic-styles><office:master-styles><style:master-page style:name="Standard" '
        f'style:page-layout-name="pm"><style:header>{paragraph()}</style:header></style:master-page>'
        "</office:master-styles>"
    )
    files = "".join(
        f'<manifest:file-entry manifest:full-path="{name}" manifest:media-type="{media}"/>'
        for name, media in (("/", kind), ("content.xml", "text/xml"), ("styles.xml", "text/xml"))
    )
    version = 'office:version="1.2"'
    return archive(
        {
            "mimetype": kind,
            "content.xml": f"{XML_HEAD}<office:document-content {_ODF_SPACES} {version}><office:automatic-styles>"
            '<style:style style:name="T1" style:family="text"><style:text-properties fo:font-weight="bold"/>'
            f"</style:style></office:automatic-styles><office:body><office:text>{changes}{body}</office:text>"
            "</office:body></office:document-content>",
            "styles.xml": f"{XML_HEAD}<office:document-styles {_ODF_SPACES} {version}>{page}</office:document-styles>",
            "META-INF/manifest.xml": f'{XML_HEAD}<manifest:manifest {_ODF_SPACES} manifest:version="1.2">{files}'
            "</manifest:manifest>",
        },
        stored=("mimetype",),
    )
