"""Names that mean something in documents, one by one: elements and attributes of HTML, styles, states, encodings."""

import codecs
import io
import zipfile

import pytest

from made_documents import archive, member, open_document, run, translated, word
from transduce.errors import DataError
from transduce.translation.documents.archive import Archive
from transduce.translation.documents.html_pages import is_copied
from transduce.translation.documents.text_encoding import decode
from transduce.translation.pipeline.tags import is_block_tag, is_html_tag, is_void

# As HTML has them: void elements, those that are no phrasing content, and those that are.
VOID = "area base br col embed hr img input link meta param source track wbr"
BLOCKS = (
    "address article aside blockquote body br caption center col colgroup dd details dialog div dl dt fieldset "
    "figcaption figure footer form h1 h2 h3 h4 h5 h6 head header hr html legend li main menu meta nav ol optgroup "
    "option p pre section select summary table tbody td tfoot th thead title tr ul"
)
INLINE = (
    "a abbr b bdi bdo big cite code data del dfn em font i img input ins kbd label mark q s samp small span strike "
    "strong sub sup time tt u var wbr"
)


@pytest.mark.parametrize("name", BLOCKS.split())
def test_elements_that_separate_texts(name: str) -> None:
    assert is_block_tag(name)
    assert is_block_tag(name.upper())
    assert is_html_tag(name)


@pytest.mark.parametrize("name", INLINE.split())
def test_elements_within_texts(name: str) -> None:
    assert not is_block_tag(name)
    assert is_html_tag(name)


def test_names_that_are_longer_or_none_of_html() -> None:
    assert not any(is_html_tag(name) for name in ("", "h7", "px", "pp", "formal", "bb", "x-p"))


@pytest.mark.parametrize("name", VOID.split())
def test_elements_without_content(name: str) -> None:
    assert is_void(f"<{name} a='b'>")
    assert not is_copied(f"<{name} translate='no'>", name)  # there is no end to copy up to
    assert translated(f"<p>a <{name} translate='no'> dog</p>".encode(), "a.html").decode().endswith(" DOG</p>")


@pytest.mark.parametrize(
    "name", ["code", "kbd", "math", "pre", "samp", "script", "style", "svg", "template", "textarea", "tt", "var"]
)
def test_elements_that_are_copied(name: str) -> None:
    page = f"<p>a</p><{name}>dog</{name}><p>b</p><{name.upper()} x='y'>cat</{name.upper()}>"
    assert translated(page.encode(), "a.html").decode() == page.replace("a</p>", "A</p>").replace("b</p>", "B</p>")


@pytest.mark.parametrize("name", ["script", "style", "textarea"])
def test_elements_in_which_tags_mean_nothing(name: str) -> None:
    page = f"<{name}>a <{name}> dog</{name}> b"
    assert translated(page.encode(), "a.html").decode() == f"<{name}>a <{name}> dog</{name}> B"


@pytest.mark.parametrize(
    "attributes",
    [
        "translate=no", "translate='no'", 'TRANSLATE = "No"', "class='notranslate'", "class='x notranslate y'",
        "epub:type='noteref'", 'role="doc-noteref"', "epub:type='x noteref'",
    ],
)  # fmt: skip
def test_attributes_of_what_is_copied(attributes: str) -> None:
    assert is_copied(f"<span {attributes}>", "span")


@pytest.mark.parametrize(
    "attributes",
    [
        "translate=yes", "class='notranslated'", "class='x-notranslate'", "data-x='noteref'", "role='note'",
        "title='a'", "data-translate='no'", "ng:translate=no", "data-class='notranslate'",
    ],
)  # fmt: skip
def test_attributes_of_what_is_not(attributes: str) -> None:
    assert not is_copied(f"<span {attributes}>", "span")
    assert not is_copied("</span translate=no>", "span")
    assert not is_copied("<span translate=no />", "span")


@pytest.mark.parametrize(
    ("tag", "is_translated"),
    [
        *((f"<img {name}='dog'>", True) for name in ("alt", "aria-label", "placeholder", "title", "ALT")),
        *((f"<img {name}='dog'>", False) for name in ("name", "src", "value", "content", "data-title", "id")),
        *((f"<input type={kind} value='dog'>", True) for kind in ("button", "reset", "submit", "'Submit'")),
        *((f"<input type={kind} value='dog'>", False) for kind in ("text", "hidden", "checkbox", "buttons")),
        *((f"<{name} label='dog'>", True) for name in ("optgroup", "option", "track")),
        ("<menuitem label='dog'>", False),
        ("<button value='dog'>", False),
        ("<meta name=description content='dog'>", True),
        ("<meta name='keywords' content='dog'>", False),
        ("<a name=description content='dog'>", False),
    ],
)
def test_attributes_that_people_read(tag: str, is_translated: bool) -> None:
    assert ("DOG" in translated(f"<p>{tag}a</p>".encode(), "a.html").decode()) is is_translated


@pytest.mark.parametrize(
    "style",
    [
        *("HTMLCode", "HTMLKeyboard", "HTMLPreformatted", "HTMLSample", "HTMLTypewriter"),
        *("SourceCode", "VerbatimChar", "PreformattedText", "SourceText", "Teletype", "UserEntry"),
    ],
)
def test_styles_of_code_in_word(style: str) -> None:
    inline = run("keep", f'<w:rStyle w:val="{style}"/>')
    block = f"<w:p><w:pPr><w:pStyle w:val='{style}'/></w:pPr>{run('keep')}</w:p>"
    found = member(translated(word(f"<w:p>{run('use ')}{inline}</w:p>{block}"), "a.docx"), "word/document.xml")
    assert (found.count(">keep<"), ">USE " in found) == (2, True)
    other = member(translated(word(block.replace(style, f"X{style}")), "a.docx"), "word/document.xml")
    assert ">KEEP<" in other


@pytest.mark.parametrize(
    "style",
    ["Preformatted_20_Text", "Preformatted_Text", "Source_20_Text", "Source_Text", "Teletype", "User_20_Entry"],
)
def test_styles_of_code_in_open_document(style: str) -> None:
    inline = f'<text:span text:style-name="{style}">keep</text:span>'
    text = f'<text:p text:style-name="{style}">keep</text:p><text:p>a {inline}</text:p>'
    found = member(translated(open_document(text), "a.odt"), "content.xml")
    assert (found.count(">keep<"), ">A <" in found) == (2, True)


@pytest.mark.parametrize(
    ("state", "is_filled"),
    [
        *((state, True) for state in ("new", "needs-translation")),
        *((state, False) for state in ("", "final", "needs-adaptation", "needs-review-translation", "translated")),
        *((state, False) for state in ("needs-l10n", "needs-review-adaptation", "needs-review-l10n", "signed-off")),
    ],
)
def test_states_of_targets_that_are_filled_anew(state: str, is_filled: bool) -> None:
    target = f"<target state='{state}'>Hund</target>" if state else "<target>Hund</target>"
    unit = f"<trans-unit id='1'><source>dog</source>{target}</trans-unit>"
    found = translated(f"<xliff version='1.2'><file>{unit}</file></xliff>".encode(), "a.xlf").decode()
    assert (">DOG</target>" in found, ">Hund</target>" in found) == (is_filled, not is_filled)


def test_an_old_state_is_replaced_with_its_qualifier() -> None:
    """Twice the same attribute is no XML."""
    target = "<target state='new' xml:lang='de' state-qualifier = \"exact-match\"></target>"
    unit = f"<trans-unit id='1'><source>dog</source>{target}</trans-unit>"
    found = translated(f"<xliff version='1.2'><file>{unit}</file></xliff>".encode(), "a.xlf").decode()
    new = '<target xml:lang=\'de\' state="needs-review-translation" state-qualifier="leveraged-mt">DOG</target>'
    assert f"<source>dog</source>{new}</trans-unit>" in found


@pytest.mark.parametrize(
    ("declared", "read", "characters"),
    [
        ("us-ascii", "windows-1252", "€é"),
        ("iso-8859-1", "windows-1252", "€é"),
        ("latin1", "windows-1252", "“"),
        ("iso-8859-9", "windows-1254", "€ğ"),
        ("gb2312", "gb18030", "镕€"),
        ("gbk", "gb18030", "㐀"),
        ("shift_jis", "cp932", "①"),
        ("euc-kr", "cp949", "똠"),
        ("tis-620", "cp874", "€ก"),
    ],
)
def test_encodings_that_browsers_read_as_larger_ones(declared: str, read: str, characters: str) -> None:
    """By the Encoding Standard; a document that is no page has the encoding that it declares."""
    data = f'<meta charset="{declared}">'.encode() + characters.encode(read)
    found = decode(data, "a", "html")
    assert found.text.endswith(characters)
    assert codecs.lookup(found.encoding).name == codecs.lookup(read).name
    assert found.encode(found.text) == data
    xml = f'<?xml version="1.0" encoding="{declared}"?><a/>'.encode()
    assert codecs.lookup(decode(xml, "a", "xml").encoding).name == codecs.lookup(declared).name


@pytest.mark.parametrize("name", ["idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape", "utf-7"])
def test_encodings_that_no_document_has(name: str) -> None:
    with pytest.raises(DataError, match=f"^a: is not {name} text"):
        decode(f'<meta charset="{name}">a'.encode(), "a", "html")


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is protected by a password, or from a version before 2007"),
        (b"%PDF-1.7", "is a PDF file"),
        (b"{\\rtf1", "is an RTF file"),
        (b"<html>", "is not ODT, or is damaged"),
        (b"", "is empty"),
        (b"PK\x03\x04", "is damaged or incomplete"),
    ],
)
def test_files_that_are_no_archive(head: bytes, message: str) -> None:
    with pytest.raises(DataError, match=f"^a: {message}"):
        Archive(io.BytesIO(head), "a", "ODT")


def test_members_that_are_encrypted_or_compressed_otherwise() -> None:
    data = archive({"a": b"a dog", "b": b"b"})
    opened = Archive(io.BytesIO(data), "x", "ODT")
    first = opened.member("a")
    assert first is not None
    assert (opened.member("c"), opened.name_of(first), opened.require_text("b")) == (None, "x, a", b"b")
    with pytest.raises(DataError, match=r"^x: is not ODT: it has no c"):
        opened.require_text("c")
    first.compress_type = zipfile.ZIP_LZMA
    with pytest.raises(DataError, match=r"^x, a: its compression is not that of ODT"):
        opened.read(first)
    for place in (6, data.index(b"PK\x01\x02") + 8):  # the flag of encryption, in front of the member and behind all
        data = data[:place] + bytes([data[place] | 1]) + data[place + 1 :]
    with pytest.raises(DataError, match=r"^x: is encrypted"):
        Archive(io.BytesIO(data), "x", "ODT")
