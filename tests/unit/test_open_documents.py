"""ODT and EPUB: paragraphs, notes, pages and contents are translated, everything else stays byte for byte."""

import io
import zipfile
from urllib.parse import quote

import pytest

from made_documents import archive, book, member, open_document, translated
from text_engine import same
from transduce.errors import DataError

PARAGRAPHS = {
    "spans": (
        '<text:p text:style-name="P1">A <text:span text:style-name="T1">dog</text:span> runs.</text:p>',
        '<text:p text:style-name="P1">A <text:span text:style-name="T1">DOG</text:span> RUNS.</text:p>',
    ),
    "heading and list": (
        "<text:h>One</text:h><text:list><text:list-item><text:p>two</text:p></text:list-item></text:list>",
        "<text:h>ONE</text:h><text:list><text:list-item><text:p>TWO</text:p></text:list-item></text:list>",
    ),
    "table": (
        "<table:table-cell><text:p>a &amp; b</text:p></table:table-cell>",
        "<table:table-cell><text:p>A &amp; B</text:p></table:table-cell>",
    ),
    "link": ("<text:p>a <text:a>dog</text:a></text:p>", "<text:p>A <text:a>DOG</text:a></text:p>"),
    "tab and break": (
        "<text:p>a<text:tab/>b<text:line-break/>c</text:p>",
        "<text:p>A<text:tab/>B<text:line-break/>C</text:p>",
    ),
    "fields": (
        "<text:p>on <text:date>Monday</text:date> a dog</text:p>",
        "<text:p>ON <text:date>Monday</text:date> A DOG</text:p>",
    ),
    "note": (
        "<text:p>a dog<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>a note</text:p>"
        "</text:note-body></text:note> runs</text:p>",
        "<text:p>A DOG<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>A NOTE</text:p>"
        "</text:note-body></text:note> RUNS</text:p>",
    ),
    "frame": (
        "<text:p><draw:frame><draw:text-box><text:p>box</text:p></draw:text-box></draw:frame></text:p>",
        "<text:p><draw:frame><draw:text-box><text:p>BOX</text:p></draw:text-box></draw:frame></text:p>",
    ),
    "white space": (
        "<text:p>\n  a\n  dog<text:s text:c='3'/> b</text:p>",
        "<text:p> A DOG<text:s text:c='3'/> B</text:p>",
    ),
    "empty": ("<text:p/><text:p></text:p><text:p>1</text:p>", "<text:p/><text:p></text:p><text:p>1</text:p>"),
}


@pytest.mark.parametrize("name", PARAGRAPHS)
def test_paragraphs(name: str) -> None:
    source, expected = PARAGRAPHS[name]
    given = open_document(source)
    assert member(translated(given, "a.odt"), "content.xml") == member(open_document(expected), "content.xml")
    assert translated(given, "a.odt", same) == given


def test_headers_are_translated_and_deleted_text_is_not() -> None:
    deleted = "<text:tracked-changes><text:deletion><text:p>gone</text:p></text:deletion></text:tracked-changes>"
    given = open_document("<text:p>dog</text:p>", "<style:header><text:p>top</text:p></style:header>", deleted)
    found = translated(given, "a.odt")
    assert ">gone<" in member(found, "content.xml")
    assert ">DOG<" in member(found, "content.xml")
    assert ">TOP<" in member(found, "styles.xml")
    assert translated(given, "a.odt", same) == given


@pytest.mark.parametrize("given", [open_document("<text:p>dog</text:p>"), book("<p>dog</p>")], ids=["odt", "epub"])
def test_the_type_stays_first_and_is_not_compressed(given: bytes) -> None:
    found = translated(given, "a.odt" if b"opendocument.text" in given else "a.epub")
    assert found[30:38] == b"mimetype"
    before, after = (zipfile.ZipFile(io.BytesIO(data)) for data in (given, found))
    assert after.testzip() is None
    assert after.infolist()[0].compress_type == zipfile.ZIP_STORED
    assert [each.filename for each in before.infolist()] == [each.filename for each in after.infolist()]
    assert [each.compress_type for each in before.infolist()] == [each.compress_type for each in after.infolist()]


def test_a_book() -> None:
    pages = [
        '<p>A <i>dog</i> runs.<br/>Far</p><p><a id="x"/>on</p>',
        "<h1>Two</h1><svg><text>keep</text></svg><p>a&nbsp;dog",
    ]
    given = book(*pages, contents='<nav><ol><li><a href="text/page%201.xhtml">One</a></li></ol></nav>')
    found = translated(given, "a.epub")
    assert '<p>A <i>DOG</i> RUNS.<br/>FAR</p><p><a id="x"/>ON</p>' in member(found, "OEBPS/text/page 1.xhtml")
    assert "<h1>TWO</h1><svg><text>keep</text></svg><p>A&#160;DOG" in member(found, "OEBPS/text/page 2.xhtml")
    assert '<a href="text/page%201.xhtml">ONE</a>' in member(found, "OEBPS/nav.xhtml")
    assert "<text>A DOG &amp; A CAT</text>" in member(found, "OEBPS/toc.ncx")
    for name in ("OEBPS/style.css", "OEBPS/content.opf", "mimetype"):
        assert member(found, name) == member(given, name)
    assert translated(given, "a.epub", same) == given


def test_protected_books_and_documents_are_refused() -> None:
    page = quote("OEBPS/text/page 1.xhtml")
    with pytest.raises(DataError, match=r"a\.epub: is protected against copying"):
        translated(book("<p>dog</p>", encrypted=page), "a.epub")
    fonts_only = book("<p>dog</p>", encrypted="OEBPS/font.otf")
    assert "DOG" in member(translated(fonts_only, "a.epub"), "OEBPS/text/page 1.xhtml")
    given = open_document("<text:p>dog</text:p>")
    manifest = member(given, "META-INF/manifest.xml").replace("</manifest:file-entry>", "")
    locked = archive(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": b"\x93\x01",
            "META-INF/manifest.xml": manifest.replace(
                "<manifest:file-entry", "<manifest:encryption-data/><manifest:file-entry"
            ),
        }
    )
    with pytest.raises(DataError, match=r"a\.odt: is encrypted\. Save it"):
        translated(locked, "a.odt")
    for name, data in (("a.odt", book("<p>dog</p>")), ("a.epub", given)):
        with pytest.raises(DataError, match=r"is not (ODT|EPUB)[.:]"):
            translated(data, name)


def test_a_number_between_two_equal_elements_stays_in_its_word() -> None:
    """LibreOffice puts each stretch of text into an element: "of H", "2" and "O"."""
    texts = "<s c='a'>takes 20 m</s><s c='b'>2</s><s c='a'> of H</s><s c='d'>2</s><s c='a'>O, {} {}</s>"
    page = book(f"<p>{texts.format('and', 'dog').replace('<s', '<span').replace('</s', '</span')}</p>")
    swap = lambda text: text.replace("and dog", "dog and")  # noqa: E731
    found = member(translated(page, "a.epub", swap), "OEBPS/text/page 1.xhtml")
    assert texts.format("dog", "and").replace("<s", "<span").replace("</s", "</span") in found
    assert translated(page, "a.epub", same) == page
    written = texts.replace("<s c", "<text:span text:style-name").replace("</s", "</text:span")
    letter = open_document(f"<text:p>{written.format('and', 'dog')}</text:p>")
    assert written.format("dog", "and") in member(translated(letter, "a.odt", swap), "content.xml")
    assert translated(letter, "a.odt", same) == letter


def test_labels_of_a_table_of_contents_keep_their_elements() -> None:
    given = book("<p>a</p>")
    with zipfile.ZipFile(io.BytesIO(given)) as source:
        members = {each.filename: source.read(each) for each in source.infolist()}
    members["OEBPS/toc.ncx"] = members["OEBPS/toc.ncx"].replace(b"A dog", b"A <x:i xmlns:x='urn:x'/>dog<!-- keep -->")
    found = member(translated(archive(members), "a.epub"), "OEBPS/toc.ncx")
    assert "<text>A <x:i xmlns:x='urn:x'/>DOG<!-- keep --> &amp; A CAT</text>" in found


def test_code_is_copied() -> None:
    """Styles of LibreOffice and pandoc, and an automatic style whose parent is one of them."""
    styles = '<style:style style:family="paragraph" style:parent-style-name="Preformatted_20_Text" style:name="P1"/>'
    code = '<text:p text:style-name="P1">a keep</text:p>'
    inline = '<text:span text:style-name="{}">a keep</text:span>'
    texts = [f"<text:p>{{}} {inline.format(name)} {{}}</text:p>" for name in ("Source_20_Text", "Source_Text")]
    given = open_document("".join(each.format("use", "now") for each in texts) + code, tracked=styles)
    found = member(translated(given, "a.odt"), "content.xml")
    assert "".join(each.format("USE", "NOW") for each in texts) + code + "</office:text>" in found
    assert translated(given, "a.odt", same) == given
