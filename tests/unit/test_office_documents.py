"""DOCX and PPTX: runs keep their properties, everything but text stays byte for byte."""

import io
import re
import zipfile
from pathlib import Path

import pytest

from made_documents import SLIDE_SPACE, WORD_SPACE, archive, member, run, slides, translated, word
from text_engine import same
from transduce.translation.documents.formats import format_of
from transduce.translation.documents.recognition import format_by_content

BOLD, ITALIC = "<w:b/>", "<w:i/>"
LINK = (
    '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> HYPERLINK "x" </w:instrText></w:r>'
    '<w:r><w:fldChar w:fldCharType="separate"/></w:r>{}<w:r><w:fldChar w:fldCharType="end"/></w:r>'
)
PARAGRAPHS = {
    "one run": (run("A dog."), run("A DOG.")),
    "bold word": (
        run("A ") + run("dog", BOLD) + run(" runs."),
        run("A ") + run("DOG", BOLD) + run(" RUNS."),
    ),
    "more runs but less text in bold": (  # the spaces look like most of the text
        run("A ", BOLD) + run("dog runs over the grass ") + run("in ", BOLD) + run("Rome") + run(".", BOLD),
        run("A", BOLD) + run(" DOG RUNS OVER THE GRASS ") + run("IN", BOLD) + run(" ROME") + run(".", BOLD),
    ),
    "split word": (
        run("A d", BOLD) + "<w:proofErr/>" + run("og", BOLD + '<w:lang w:val="en"/>') + run(" runs over green grass."),
        run("A DOG", BOLD) + run(" RUNS OVER GREEN GRASS."),
    ),
    "properties of the paragraph": (
        "<w:pPr><w:rPr><w:b/></w:rPr></w:pPr><w:bookmarkStart/>" + run("dog") + "<w:bookmarkEnd/>",
        "<w:pPr><w:rPr><w:b/></w:rPr></w:pPr><w:bookmarkStart/>" + run("DOG") + "<w:bookmarkEnd/>",
    ),
    "link": (
        run("The ") + '<w:hyperlink r:id="r1">' + run("green dog", "<w:u/>") + "</w:hyperlink>" + run(" runs."),
        run("THE ") + '<w:hyperlink r:id="r1">' + run("GREEN DOG", "<w:u/>") + "</w:hyperlink>" + run(" RUNS."),
    ),
    "bold in a link": (
        '<w:hyperlink r:id="r1">' + run("green ", "<w:u/>") + run("dog", BOLD) + "</w:hyperlink>",
        '<w:hyperlink r:id="r1">' + run("GREEN ", "<w:u/>") + run("DOG", BOLD) + "</w:hyperlink>",
    ),
    "tab and break": (
        "<w:r><w:t>name</w:t><w:tab/><w:t>dog</w:t><w:br/><w:t>end</w:t></w:r>",
        '<w:r><w:t xml:space="preserve">NAME</w:t></w:r><w:r><w:tab/></w:r>'
        '<w:r><w:t xml:space="preserve">DOG</w:t></w:r>'
        '<w:r><w:br/></w:r><w:r><w:t xml:space="preserve">END</w:t></w:r>',
    ),
    "reference to a footnote": (
        run("A dog") + '<w:r><w:footnoteReference w:id="2"/></w:r>' + run(" runs."),
        run("A DOG") + '<w:r><w:footnoteReference w:id="2"/></w:r>' + run(" RUNS."),
    ),
    "field": (
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>DATE</w:instrText></w:r>'
        '<w:r><w:fldChar w:fldCharType="separate"/></w:r>'
        + run("Monday")
        + '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
        + run(" is a day."),
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>DATE</w:instrText></w:r>'
        '<w:r><w:fldChar w:fldCharType="separate"/></w:r>'
        + run("Monday")
        + '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
        + run(" IS A DAY."),
    ),
    "link as a field": (
        run("See ") + LINK.format(run("the dog", "<w:u/>")) + run(" now."),
        run("SEE ") + LINK.format(run("THE DOG", "<w:u/>")) + run(" NOW."),
    ),
    "field in one run": (
        '<w:r><w:fldChar w:fldCharType="begin"/><w:t>dog</w:t><w:fldChar w:fldCharType="end"/></w:r>' + run(" runs"),
        '<w:r><w:fldChar w:fldCharType="begin"/><w:t>dog</w:t><w:fldChar w:fldCharType="end"/></w:r>' + run(" RUNS"),
    ),
    "field in a link": (
        LINK.format(LINK.format(run("dog")).replace("HYPERLINK", "PAGE")) + run(" runs"),
        LINK.format(LINK.format(run("dog")).replace("HYPERLINK", "PAGE")) + run(" RUNS"),
    ),
    "simple field": (
        "<w:fldSimple>" + run("one") + "</w:fldSimple>" + run(" dog"),
        "<w:fldSimple>" + run("one") + "</w:fldSimple>" + run(" DOG"),
    ),
    "tracked changes": (
        run("A ")
        + "<w:del><w:r><w:delText>cat</w:delText></w:r></w:del><w:ins>"
        + run("dog")
        + "</w:ins>"
        + run(" ran."),
        run("A ")
        + "<w:del><w:r><w:delText>cat</w:delText></w:r></w:del><w:ins>"
        + run("DOG")
        + "</w:ins>"
        + run(" RAN."),
    ),
    "content control": (
        "<w:sdt><w:sdtPr><w:tag/></w:sdtPr><w:sdtContent>" + run("dog") + "</w:sdtContent></w:sdt>" + run(" runs"),
        "<w:sdt><w:sdtPr><w:tag/></w:sdtPr><w:sdtContent>" + run("DOG") + "</w:sdtContent></w:sdt>" + run(" RUNS"),
    ),
    "text box": (
        run("one")
        + "<w:r><w:drawing><w:txbxContent><w:p>"
        + run("in a box")
        + "</w:p></w:txbxContent></w:drawing></w:r>",
        run("ONE")
        + "<w:r><w:drawing><w:txbxContent><w:p>"
        + run("IN A BOX")
        + "</w:p></w:txbxContent></w:drawing></w:r>",
    ),
    "text box between words": (
        run("one ") + "<w:r><w:drawing><w:p>" + run("box") + "</w:p></w:drawing></w:r>" + run("two"),
        run("ONE ") + "<w:r><w:drawing><w:p>" + run("BOX") + "</w:p></w:drawing></w:r>" + run("TWO"),
    ),
    "entities": (run("dogs &amp; &lt;b&gt;"), run("DOGS &amp; &lt;B&gt;")),
    "white space": (run("  a dog "), run("  A DOG ")),
    "numbers": (run("1,234.50"), run("1,234.50")),
    "hyphens": (
        run("an e") + "<w:r><w:noBreakHyphen/></w:r>" + run("mail and a co") + "<w:r><w:softHyphen/></w:r>" + run("py"),
        run("AN E-MAIL AND A COPY"),
    ),
    "hyphen in a run": (
        "<w:r><w:t>e</w:t><w:noBreakHyphen/><w:t>mail</w:t></w:r>",
        '<w:r><w:t xml:space="preserve">E-MAIL</w:t></w:r>',
    ),
    "tab in a text": (run("name\tdog"), run("NAME") + run("\t") + run("DOG")),
    "end of a field in a tracked change": (
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>DATE</w:instrText></w:r><w:ins>'
        + run("one")
        + '<w:r><w:fldChar w:fldCharType="end"/></w:r></w:ins>'
        + run(" dog"),
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>DATE</w:instrText></w:r><w:ins>'
        + run("one")
        + '<w:r><w:fldChar w:fldCharType="end"/></w:r></w:ins>'
        + run(" DOG"),
    ),
    "link in a tracked change": (
        "<w:ins>" + run("see ") + LINK.format(run("the dog", "<w:u/>")) + "</w:ins>",
        "<w:ins>" + run("SEE ") + LINK.format(run("THE DOG", "<w:u/>")) + "</w:ins>",
    ),
    "text outside its element": (  # no program shows it; it is kept all the same, but white space
        f"<w:r><w:rPr>{BOLD}</w:rPr>\n one<w:t>a dog </w:t>two<w:t>runs</w:t>\n</w:r>",
        f"<w:r><w:rPr>{BOLD}</w:rPr>\n one</w:r>"
        f'<w:r><w:rPr>{BOLD}</w:rPr><w:t xml:space="preserve">A DOG </w:t></w:r><w:r><w:rPr>{BOLD}</w:rPr>two</w:r>'
        f'<w:r><w:rPr>{BOLD}</w:rPr><w:t xml:space="preserve">RUNS</w:t></w:r>',
    ),
    "empty": ("", ""),
}


@pytest.mark.parametrize("name", PARAGRAPHS)
def test_paragraphs_of_word(name: str) -> None:
    source, expected = (f"<w:p>{body}</w:p><w:sectPr/>" for body in PARAGRAPHS[name])
    given = word(source)
    assert member(translated(given, "a.docx"), "word/document.xml") == member(word(expected), "word/document.xml")
    assert translated(given, "a.docx", same) == given


def test_text_between_links_where_the_paragraph_has_no_other() -> None:
    link = f'<w:hyperlink r:id="r1">{run("dog", "<w:u/>")}</w:hyperlink>'
    found = translated(word(f"<w:p>{link}{link}</w:p>"), "a.docx", lambda text: f"x und y ({text}) z w")
    text = member(found, "word/document.xml")
    assert text.count("<w:hyperlink ") == 2
    assert "".join(re.findall(r"<w:t[^>]*>([^<]*)", text)).split() == ["x", "und", "y", "(dogdog)", "z", "w"]


def test_a_field_over_several_paragraphs_is_kept() -> None:
    begin, end = (f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "end"))
    body = f"<w:p>{begin}{run('contents')}</w:p><w:p>{run('page one')}{end}</w:p><w:p>{run('a dog')}</w:p>"
    found = member(translated(word(body), "a.docx"), "word/document.xml")
    assert re.findall(r">([^<>]+)</w:t>", found) == ["contents", "page one", "A DOG"]


def test_tables_headers_notes_and_comments_are_translated() -> None:
    table = f"<w:tbl><w:tr><w:tc><w:p>{run('cell')}</w:p></w:tc></w:tr></w:tbl>"
    parts = {name: f"<w:p>{run(name)}</w:p>" for name in ("header1", "footer2", "footnotes", "endnotes", "comments")}
    given = word(table, **parts, styles=f"<w:p>{run('styles')}</w:p>")
    found = translated(given, "a.docx")
    assert ">CELL<" in member(found, "word/document.xml")
    assert all(f">{name.upper()}<" in member(found, f"word/{name}.xml") for name in parts)
    assert ">styles<" in member(found, "word/styles.xml")
    assert translated(given, "a.docx", same) == given


def test_members_keep_order_dates_compression_and_bytes() -> None:
    given = word(f"<w:p>{run('a dog')}</w:p>")
    found = translated(given, "a.docx")
    before, after = (zipfile.ZipFile(io.BytesIO(data)) for data in (given, found))
    assert after.testzip() is None
    for one, other in zip(before.infolist(), after.infolist(), strict=True):
        for attribute in ("filename", "date_time", "compress_type", "external_attr", "create_system"):
            assert getattr(one, attribute) == getattr(other, attribute)
        assert (before.read(one) == after.read(other)) == (one.filename != "word/document.xml")


def test_other_prefixes_and_the_strict_namespace() -> None:
    document = (
        '<x:document xmlns:x="http://purl.oclc.org/ooxml/wordprocessingml/main"><x:body><x:p><x:r>'
        "<x:t>a dog</x:t></x:r></x:p></x:body></x:document>"
    )
    content_type = "application/vnd.ms-word.document.macroEnabled.main+xml"
    types = f'<Types><Override PartName="/d.xml" ContentType="{content_type}"/></Types>'
    given = archive({"[Content_Types].xml": types, "d.xml": document})
    found = member(translated(given, "a.docm"), "d.xml")
    assert found == document.replace("<x:t>a dog", '<x:t xml:space="preserve">A DOG')


def test_charts_and_diagrams() -> None:
    kind = "application/vnd.openxmlformats-officedocument."
    kinds = {
        "/word/document.xml": f"{kind}wordprocessingml.document.main+xml",
        "/word/charts/Chart1.xml": f"{kind}drawingml.chart+xml",  # names of parts ignore case
        "/word/diagrams/data1.xml": f"{kind}drawingml.diagramData+xml",
        "/word/diagrams/drawing1.xml": "application/vnd.ms-office.drawingml.diagramDrawing+xml",
    }
    overrides = "".join(f'<Override PartName="{name}" ContentType="{kind}"/>' for name, kind in kinds.items())
    text = (
        f'<c:x xmlns:a="{SLIDE_SPACE}" xmlns:c="urn:c"><a:p><a:r><a:t>a dog\tcat</a:t></a:r></a:p><c:v>keep</c:v></c:x>'
    )
    document = f'<w:document xmlns:w="{WORD_SPACE}"><w:p>{run("a dog")}</w:p></w:document>'
    names = ["word/charts/chart1.xml", "word/diagrams/data1.xml", "word/diagrams/drawing1.xml"]
    types = f"<Types>{overrides}</Types>"
    given = archive({"[Content_Types].xml": types, "word/document.xml": document, **dict.fromkeys(names, text)})
    found = translated(given, "a.docx")
    for name in names:
        texts = "<a:r><a:t>A DOG</a:t></a:r><a:r><a:t>\t</a:t></a:r><a:r><a:t>CAT</a:t></a:r>"
        assert f"<a:p>{texts}</a:p><c:v>keep</c:v>" in member(found, name)
    assert translated(given, "a.docx", same) == given


def test_slides_and_notes() -> None:
    link = '<a:r><a:rPr lang="en" dirty="0"/><a:t>a d</a:t></a:r><a:r><a:rPr lang="de" err="1"/><a:t>og </a:t></a:r>'
    body = f'<a:p><a:pPr lvl="1"/>{link}<a:r><a:rPr b="1"/><a:t>runs</a:t></a:r><a:br/><a:r><a:t>far</a:t></a:r>'
    body += '<a:fld type="slidenum"><a:t>one</a:t></a:fld><a:endParaRPr/></a:p>'
    given = slides(body, "<a:p><a:r><a:t>two</a:t></a:r></a:p>", notes="<a:p><a:r><a:t>say</a:t></a:r></a:p>")
    found = translated(given, "a.pptx")
    first = '<a:r><a:rPr lang="en" dirty="0"/><a:t>A DOG </a:t></a:r>'
    assert f'<a:p><a:pPr lvl="1"/>{first}<a:r><a:rPr b="1"/>' in member(found, "ppt/slides/slide1.xml")
    assert re.findall(r">([^<>]+)</a:t>", member(found, "ppt/slides/slide1.xml")) == ["A DOG ", "RUNS", "FAR", "one"]
    assert member(found, "ppt/slides/slide1.xml").endswith("<a:endParaRPr/></a:p></p:txBody></p:sp></p:sld>")
    assert "<a:t>TWO</a:t>" in member(found, "ppt/slides/slide2.xml")
    assert "<a:t>SAY</a:t>" in member(found, "ppt/notesSlides/notesSlide1.xml")
    assert SLIDE_SPACE in member(found, "ppt/slides/slide2.xml")
    assert translated(given, "a.pptx", same) == given


@pytest.mark.parametrize("style", ["VerbatimChar", "HTMLCode", "SourceText"])
def test_code_is_copied(style: str) -> None:
    """Styles of pandoc, Word and LibreOffice."""
    inline = run("a keep", f'<w:rStyle w:val="{style}"/><w:b/>')
    code = f'<w:p><w:pPr><w:pStyle w:val="SourceCode"/></w:pPr>{run("a keep")}</w:p>'
    given = word(f"<w:p>{run('Use ')}{inline}{run(' now.')}</w:p>{code}<w:p>{inline}</w:p>")
    found = member(translated(given, "a.docx"), "word/document.xml")
    assert f"<w:p>{run('USE ')}{inline}{run(' NOW.')}</w:p>{code}<w:p>{inline}</w:p></w:body>" in found
    assert translated(given, "a.docx", same) == given


_CONTAINERS = ["hyperlink", "ins", "moveTo", "smartTag", "customXml", "sdt", "sdtContent", "bdo", "dir"]
_BREAKS, _DROPPED = ["br", "cr", "ptab", "tab"], ["proofErr", "lastRenderedPageBreak", "softHyphen"]


@pytest.mark.parametrize(
    ("inner", "texts"),
    [
        *((f"{run('a ')}<w:{name}>{run('dog')}</w:{name}>{run(' runs')}", ["a dog runs"]) for name in _CONTAINERS),
        *((f"{run('a dog')}<w:r><w:{name}/></w:r>{run('two cats')}", ["a dog", "two cats"]) for name in _BREAKS),
        *((f"{run('a d')}<w:{name}/>{run('og')}", ["a dog"]) for name in _DROPPED[:1]),
        *((f"{run('a d')}<w:r><w:{name}/></w:r>{run('og')}", ["a dog"]) for name in _DROPPED[1:]),
        (f"{run('a')}<w:r><w:noBreakHyphen/></w:r>{run('dog')}", ["a-dog"]),
        (f"<w:sdt><w:sdtPr><w:id/></w:sdtPr>{run('a dog')}</w:sdt>", ["a dog"]),
        ("<w:r><w:t>a d<!-- two cats -->og<?x two?> runs</w:t></w:r>", ["a dog runs"]),
    ],
)
def test_what_the_elements_of_word_mean_for_its_texts(inner: str, texts: list[str]) -> None:
    seen: list[str] = []

    def noted(text: str) -> str:
        seen.append(text)
        return text.upper()

    found = member(translated(word(f"<w:p>{inner}</w:p>"), "a.docx", noted), "word/document.xml")
    assert seen == texts
    assert all(f"<w:{name}" in found for name in (*_CONTAINERS, *_BREAKS, "sdtPr") if f"<w:{name}" in inner)
    assert not any(f"<w:{name}" in found for name in _DROPPED)


@pytest.mark.parametrize(
    ("name", "extensions"),
    [
        ("docx", "docx docm dotx DOCX"),
        ("epub", "epub"),
        ("html", "html htm xhtml"),
        ("markdown", "md markdown mdx"),
        ("odt", "odt ott odp"),
        ("po", "po pot"),
        ("pptx", "pptx pptm ppsx"),
        ("srt", "srt"),
        ("text", "txt text"),
        ("tmx", "tmx"),
        ("vtt", "vtt"),
        ("xliff", "xlf xliff sdlxliff mqxliff mxliff"),
        ("", "doc pdf"),
    ],
)
def test_formats_by_extension(name: str, extensions: str) -> None:
    assert {format_of(Path(f"a.b.{extension}")) for extension in extensions.split()} == {name}


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"WEBVTT\n", "vtt"),
        (b"WEBVTTX\n", ""),
        (b"\xef\xbb\xbf1\r\n0:00:01.5 --> 00:00:02,000\r\n", "srt"),
        (b'# a\n\nmsgid ""\nmsgstr ""\n', "po"),
        (b"<?xml version='1.0'?><!-- a --><x:XLIFF>", "xliff"),
        (b'<!DOCTYPE tmx SYSTEM "a>b"><tmx>', "tmx"),
        (b"<HTML>", "html"),
        (b"<svg>", ""),
        ("\ufeff<html>".encode("utf-16-le"), "html"),
        ("\ufeff<html>".encode("utf-16-be"), "html"),
        (b"PK\x03\x04" + b"." * 26 + b"mimetypeapplication/epub+zip", "epub"),
        (b"PK\x03\x04" + b"." * 26 + b"mimetypeapplication/vnd.oasis.opendocument.text", "odt"),
        (b"PK\x03\x04", ""),
        (b"a dog", ""),
    ],
)
def test_formats_by_content(content: bytes, name: str) -> None:
    assert format_by_content(content) == name


def test_archives_by_their_main_members() -> None:
    assert format_by_content(archive({"a": "", "word/document.xml": ""})) == "docx"
    assert format_by_content(archive({"a": "", "ppt/presentation.xml": ""})) == "pptx"
    assert format_by_content(archive({"a": ""})) == ""


def test_descriptions_of_pictures_are_translated() -> None:
    picture = (
        '<w:drawing><wp:docPr id="1" name="the name" descr="a &quot;dog&quot;&#10;runs" title="its title"/></w:drawing>'
    )
    other = '<w:drawing><wp:docPr id="2" name="x" descr="C:\\a\\dog.png"/></w:drawing>'
    given = word(f"<w:p>{run('words ')}<w:r>{picture}</w:r><w:r>{other}</w:r></w:p>")
    found = member(translated(given, "a.docx"), "word/document.xml")
    assert 'name="the name" descr="A &quot;DOG&quot;&#10;RUNS" title="ITS TITLE"/>' in found
    assert other in found
    assert translated(given, "a.docx", same) == given
