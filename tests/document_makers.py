"""Files of every format with the features of real ones, made from a seed.

Words that are to be translated are in lower case, and none occurs twice in a paragraph. What must stay as it is reads
"kept" with a number, or stands in markup.
"""

import random
from collections.abc import Callable, Mapping, Sequence

from made_documents import SLIDE_SPACE, WORD_SPACE, archive

# fmt: off
WORDS = (
    "dog", "cat", "man", "ball", "grass", "house", "river", "green", "small", "old", "bread", "apple", "water",
    "stone", "bridge", "garden", "winter", "summer", "morning", "letter", "paper", "window", "door", "chair",
    "street", "market", "doctor", "teacher", "music", "story", "island", "forest", "mountain", "silver", "copper",
    "half-dark", "don't", "engine", "wheel", "village", "harbour", "ship", "captain", "sailor", "cloud", "thunder",
    "rain", "snow", "light",
)
# fmt: on
_REL = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_TYPE = "application/vnd.openxmlformats-officedocument."
_W = f'xmlns:w="{WORD_SPACE}" xmlns:r="{_REL}"'
XML_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'


class Texts:
    """Texts of one document."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.number = 0
        self._left: list[str] = []

    def paragraph(self) -> None:
        """Begins a paragraph, in which no word occurs twice."""
        self._left = self.chance.sample(WORDS, len(WORDS))

    def words(self, most: int = 4) -> str:
        """Returns words that are translated."""
        if len(self._left) < most:
            self.paragraph()
        return " ".join(self._left.pop() for _ in range(self.chance.randint(1, most)))

    def kept(self) -> str:
        """Returns a word that must stay."""
        self.number += 1
        return f"kept{self.number}"

    def parts(self, features: Sequence[Callable[[], str]], num: int) -> list[str]:
        """Returns what some of the features make, each chosen at least now and then."""
        return [self.chance.choice(features)() for _ in range(num)]


# --- Office Open XML ----------------------------------------------------------------------------------------


def _part_types(parts: Mapping[str, tuple[str, str]]) -> str:
    overrides = "".join(f'<Override PartName="/{name}" ContentType="{kind}"/>' for name, (kind, _) in parts.items())
    rels = "application/vnd.openxmlformats-package.relationships+xml"
    return (
        f'{XML_HEAD}<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        f'<Default Extension="rels" ContentType="{rels}"/><Default Extension="xml" ContentType="application/xml"/>'
        f"{overrides}</Types>"
    )


def _relations(targets: Mapping[str, tuple[str, str]]) -> str:
    items = "".join(
        f'<Relationship Id="{name}" Type="{kind if "://" in kind else f"{_REL}/{kind}"}" Target="{target}"'
        f"{' TargetMode=' + chr(34) + 'External' + chr(34) if '://' in target else ''}/>"
        for name, (kind, target) in targets.items()
    )
    space = "http://schemas.openxmlformats.org/package/2006/relationships"
    return f'{XML_HEAD}<Relationships xmlns="{space}">{items}</Relationships>'


def docx(seed: int) -> bytes:
    """Returns a letter: tables, notes, headers, text boxes, links, changes, fields, comments, controls, smart tags."""
    texts = Texts(seed)

    def run(text: str, properties: str = "") -> str:
        inner = f"<w:rPr>{properties}</w:rPr>" if properties else ""
        return f'<w:r>{inner}<w:t xml:space="preserve">{text}</w:t></w:r>'

    def field(code: str, text: str) -> str:
        ends = [f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate", "end")]
        code = f'<w:r><w:instrText xml:space="preserve"> {code} </w:instrText></w:r>'
        return f"{ends[0]}{code}{ends[1]}{text}{ends[2]}"

    def changed(kind: str, inner: str) -> str:
        return f'<w:{kind} w:id="{texts.number + 900}" w:author="x" w:date="2020-01-01T00:00:00Z">{inner}</w:{kind}>'

    def words() -> str:
        return texts.words(3)

    inline: list[Callable[[], str]] = [
        lambda: run(words(), "<w:b/>"),
        lambda: run(words(), '<w:i/><w:color w:val="FF0000"/>'),
        lambda: run(words()),
        lambda: f'<w:hyperlink r:id="link">{run(words(), "<w:strike/>")}</w:hyperlink>',
        lambda: field(f'HYPERLINK "http://example.org/{texts.kept()}"', run(words(), "<w:b/>")),
        lambda: field("DATE", run(texts.kept())),
        lambda: f'<w:fldSimple w:instr=" PAGE ">{run(texts.kept())}</w:fldSimple>',
        lambda: changed("ins", run(words())),
        lambda: changed("del", f"<w:r><w:delText>{texts.kept()}</w:delText></w:r>"),
        lambda: f'<w:smartTag w:uri="urn:x" w:element="y">{run(words())}</w:smartTag>',
        lambda: control(),
        lambda: bookmark(),
        lambda: "<w:r><w:tab/></w:r>",
        lambda: "<w:r><w:br/></w:r>",
        lambda: '<w:proofErr w:type="spellStart"/>' + run(words(), '<w:lang w:val="en-GB"/>'),
        lambda: run("&amp; &lt;", "<w:b/>"),
    ]
    once: list[Callable[[], str]] = [  # in the body of the letter
        lambda: '<w:r><w:footnoteReference w:id="2"/></w:r>',
        lambda: (
            f'<w:commentRangeStart w:id="0"/>{run(words())}<w:commentRangeEnd w:id="0"/>'
            '<w:r><w:commentReference w:id="0"/></w:r>'
        ),
        lambda: box(),
    ]

    def control() -> str:
        """Returns a content control; LibreOffice 7 opens none in a comment."""
        inner = run(words())
        return f"<w:sdt><w:sdtPr/><w:sdtContent>{inner}</w:sdtContent></w:sdt>" if in_body else inner

    def bookmark() -> str:
        number = texts.number = texts.number + 1
        return f'<w:bookmarkStart w:id="{number}" w:name="name{number}"/><w:bookmarkEnd w:id="{number}"/>'

    def box() -> str:
        inner = f"<w:p>{run(texts.words(2))}</w:p>"
        return (
            '<w:r><w:pict><v:shape xmlns:v="urn:schemas-microsoft-com:vml" style="width:99pt;height:30pt"><v:textbox>'
            f"<w:txbxContent>{inner}</w:txbxContent></v:textbox></v:shape></w:pict></w:r>"
        )

    in_body = True

    def paragraph(properties: str = "") -> str:
        texts.paragraph()
        parts = texts.parts(inline, texts.chance.randint(0, 4))
        if once and in_body:
            parts.append(once.pop()())
        middle = run(" ").join(parts)
        return f"<w:p>{properties}{run(texts.words() + ' ')}{middle}{run(' ' + texts.words() + '.')}</w:p>"

    def table() -> str:
        cell = '<w:tc><w:tcPr><w:tcW w:w="2000" w:type="dxa"/></w:tcPr>{}</w:tc>'
        rows = "".join(f"<w:tr>{cell.format(paragraph())}{cell.format(paragraph())}</w:tr>" for _ in range(2))
        grid = '<w:tblGrid><w:gridCol w:w="2000"/><w:gridCol w:w="2000"/></w:tblGrid>'
        return f'<w:tbl><w:tblPr><w:tblW w:w="0" w:type="auto"/></w:tblPr>{grid}{rows}</w:tbl>{paragraph()}'

    blocks: list[Callable[[], str]] = [
        paragraph,
        table,
        lambda: paragraph('<w:pPr><w:jc w:val="center"/></w:pPr>'),
        lambda: f"<w:sdt><w:sdtPr/><w:sdtContent><w:p>{run(words())}</w:p></w:sdtContent></w:sdt>",
        lambda: "<w:p/>",
    ]
    body = paragraph() + "".join(texts.parts(blocks, 4))
    in_body = False
    end = (
        '<w:sectPr><w:headerReference w:type="default" r:id="header"/><w:footerReference w:type="default" '
        'r:id="footer"/></w:sectPr>'
    )
    kind = f"{_TYPE}wordprocessingml."
    notes = "".join(
        f'<w:footnote w:type="{name}" w:id="{i}"><w:p><w:r><w:{name}/></w:r></w:p></w:footnote>'
        for i, name in enumerate(("separator", "continuationSeparator"))
    )
    parts = {
        "word/document.xml": (
            f"{kind}document.main+xml",
            f"<w:document {_W}><w:body>{body}{end}</w:body></w:document>",
        ),
        "word/header1.xml": (f"{kind}header+xml", f"<w:hdr {_W}>{paragraph()}</w:hdr>"),
        "word/footer1.xml": (f"{kind}footer+xml", f"<w:ftr {_W}>{paragraph()}</w:ftr>"),
        "word/footnotes.xml": (
            f"{kind}footnotes+xml",
            f'<w:footnotes {_W}>{notes}<w:footnote w:id="2">{paragraph()}</w:footnote></w:footnotes>',
        ),
        "word/comments.xml": (
            f"{kind}comments+xml",
            f'<w:comments {_W}><w:comment w:id="0" w:author="kept" w:date="2020-01-01T00:00:00Z">{paragraph()}'
            "</w:comment></w:comments>",
        ),
        "word/styles.xml": (f"{kind}styles+xml", f"<w:styles {_W}/>"),
    }
    targets = {
        "link": ("hyperlink", "http://example.org/kept"),
        "header": ("header", "header1.xml"),
        "footer": ("footer", "footer1.xml"),
        **{name: (name, f"{name}.xml") for name in ("footnotes", "comments", "styles")},
    }
    return archive(
        {
            "[Content_Types].xml": _part_types(parts),
            "_rels/.rels": _relations({"r1": ("officeDocument", "word/document.xml")}),
            **{name: XML_HEAD + text for name, (_, text) in parts.items()},
            "word/_rels/document.xml.rels": _relations(targets),
            "customXml/item1.xml": "<kept>text of a program</kept>",
        }
    )


def slide_parts(seed: int) -> tuple[list[str], str]:
    """Returns shapes of a slide, as XML, and the paragraphs of its notes: tables, groups, links, fields, breaks."""
    texts = Texts(seed)

    def run(text: str, properties: str = "") -> str:
        return f'<a:r><a:rPr lang="en-US"{properties}/><a:t>{text}</a:t></a:r>'

    inline: list[Callable[[], str]] = [
        lambda: run(texts.words(3)),
        lambda: run(texts.words(3), ' b="1"'),
        lambda: run(texts.words(3), ' i="1" dirty="0"'),
        lambda: (
            f'<a:fld id="{{B6F15528-21DE-4FAA-801E-634DDDAF4B2B}}" type="slidenum"><a:t>{texts.kept()}</a:t></a:fld>'
        ),
        lambda: "<a:br/>",
        lambda: run("&amp; 12"),
        lambda: run(f"{texts.words(2)}\t{texts.words(2)}"),
    ]

    def paragraph() -> str:
        texts.paragraph()
        inner = run(" ").join(texts.parts(inline, texts.chance.randint(0, 4)))
        return f'<a:p><a:pPr lvl="{texts.chance.randint(0, 2)}"/>{run(texts.words() + " ")}{inner}{run(" end.")}</a:p>'

    def shape() -> str:
        number = texts.number = texts.number + 10
        return (
            f'<p:sp><p:nvSpPr><p:cNvPr id="{number}" name="kept {number}"/><p:cNvSpPr/><p:nvPr/></p:nvSpPr><p:spPr>'
            '<a:xfrm><a:off x="0" y="0"/><a:ext cx="3000000" cy="900000"/></a:xfrm><a:prstGeom prst="rect"><a:avLst/>'
            f"</a:prstGeom></p:spPr><p:txBody><a:bodyPr/><a:lstStyle/>{paragraph()}{paragraph()}</p:txBody></p:sp>"
        )

    def group() -> str:
        number = texts.number = texts.number + 10
        return (
            f'<p:grpSp><p:nvGrpSpPr><p:cNvPr id="{number}" name="kept"/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr>'
            f"<p:grpSpPr/>{shape()}{shape()}</p:grpSp>"
        )

    def table() -> str:
        number = texts.number = texts.number + 10
        cell = "<a:tc><a:txBody><a:bodyPr/><a:lstStyle/>{}</a:txBody><a:tcPr/></a:tc>"
        row = f'<a:tr h="370840">{cell.format(paragraph())}{cell.format(paragraph())}</a:tr>'
        grid = '<a:tblGrid><a:gridCol w="3000000"/><a:gridCol w="3000000"/></a:tblGrid>'
        uri = "http://schemas.openxmlformats.org/drawingml/2006/table"
        return (
            f'<p:graphicFrame><p:nvGraphicFramePr><p:cNvPr id="{number}" name="kept"/><p:cNvGraphicFramePr/><p:nvPr/>'
            '</p:nvGraphicFramePr><p:xfrm><a:off x="0" y="0"/><a:ext cx="6000000" cy="700000"/></p:xfrm><a:graphic>'
            f'<a:graphicData uri="{uri}"><a:tbl><a:tblPr/>{grid}{row}{row}</a:tbl></a:graphicData></a:graphic>'
            "</p:graphicFrame>"
        )

    return texts.parts([shape, group, table], 3), paragraph() + paragraph()


def chart(seed: int) -> str:
    """Returns a chart with a title."""
    texts = Texts(seed)
    texts.paragraph()
    return (
        f'{XML_HEAD}<c:chartSpace xmlns:a="{SLIDE_SPACE}" '
        'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart">'
        "<c:chart><c:title><c:tx><c:rich><a:bodyPr/><a:p><a:r><a:t>"
        f"{texts.words()}</a:t></a:r></a:p></c:rich></c:tx></c:title><c:plotArea/></c:chart></c:chartSpace>"
    )


def pptx(seed: int) -> bytes:
    """Returns the parts of a presentation that have text: a slide, its notes, and a chart."""
    shapes, notes = slide_parts(seed)
    space = (
        f'xmlns:a="{SLIDE_SPACE}" xmlns:r="{_REL}" xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
    )
    kind = f"{_TYPE}presentationml."
    parts = {
        "ppt/presentation.xml": (f"{kind}presentation.main+xml", f"<p:presentation {space}/>"),
        "ppt/slides/slide1.xml": (f"{kind}slide+xml", f"<p:sld {space}><p:spTree>{''.join(shapes)}</p:spTree></p:sld>"),
        "ppt/notesSlides/notesSlide1.xml": (f"{kind}notesSlide+xml", f"<p:notes {space}>{notes}</p:notes>"),
        "ppt/charts/chart1.xml": (f"{_TYPE}drawingml.chart+xml", chart(seed).removeprefix(XML_HEAD)),
    }
    return archive(
        {"[Content_Types].xml": _part_types(parts), **{name: XML_HEAD + text for name, (_, text) in parts.items()}}
    )
