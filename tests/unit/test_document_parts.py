"""What readers of documents are made of, by hand: trimmed texts, words that tags cut, cues, trees of XML."""

import io
import itertools
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from made_documents import archive, run, translated, word
from transduce.errors import DataError
from transduce.translation.documents import (
    DocumentJob,
    Languages,
    require_format,
    subtitles,
    translate_document,
    xml_tree,
)
from transduce.translation.documents import archive as archives
from transduce.translation.documents.gettext_catalogues import _unescaped
from transduce.translation.documents.segments import Item, SegmentError, Tag, _trimmed
from transduce.translation.documents.text_encoding import decode
from transduce.translation.documents.xml_tree import Node, XmlDocument, attributes_of
from transduce.translation.pipeline.markup import MarkedText, read_markup
from transduce.translation.pipeline.restoring import LEFT_AS_IT_WAS
from transduce.translation.pipeline.whole_words import _has_reference, words_of
from transduce.translation.result import Translation

ITALIC, BOLD, END_ITALIC, END_BOLD = Tag("open", 1), Tag("open", 2), Tag("close", 1), Tag("close", 2)


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([ITALIC, BOLD, "a dog", END_BOLD, END_ITALIC], (2, 3, [1, 2])),  # the outermost first
        ([ITALIC, " ", END_ITALIC, "a"], (3, 4, [])),
        (["a", ITALIC, " ", END_ITALIC], (0, 1, [])),
        ([Tag("point", 1), " ", "a", " "], (2, 3, [])),
        ([ITALIC, "a", END_ITALIC, "b"], (0, 4, [])),
        ([END_ITALIC, "a", BOLD], (1, 2, [])),  # their partners are elsewhere
        ([ITALIC, "a", END_ITALIC, BOLD, "b", END_BOLD], (0, 6, [])),
    ],
)
def test_what_is_around_a_text(items: list[Item], expected: tuple[int, int, list[int]]) -> None:
    assert _trimmed(items) == expected


def test_so_many_different_words_that_tags_cut_are_put_back() -> None:
    names = ["".join(pair) for pair in itertools.product("abcdefgh", repeat=2)]
    for count, expected in ((50, 50), (51, 0)):
        text = " ".join(names[:count])
        written = {(text.index(name), text.index(name) + len(name)): f"<b>{name}</b>" for name in names[:count]}
        assert len(words_of(text, written)) == expected


def test_references_at_a_word() -> None:
    pairs = [("dog1", "dog"), ("1dog", "dog"), ("dog12.3", "dog"), ("do1g", "dog"), ("m2", "m"), ("km2", "km")]
    assert [_has_reference(*pair) for pair in pairs] == [True] * 3 + [False] * 3
    for unit in ("cm", "dm", "ft", "ha", "km", "mi", "mm", "nm", "yd"):
        assert not _has_reference(f"{unit}2", unit)
    for formula in ("NaHCO", "KMnOHC"):  # of up to five elements
        assert not _has_reference(f"{formula}3", formula)
    assert all(_has_reference(f"{word}3", word) for word in ("ABCDEF", "kg", "Dog", "Go2d"[:2] + "od"))


def test_only_a_short_number_between_tags_is_read_without_them() -> None:
    for length, kinds in ((60, []), (61, ["open", "close"])):
        [text] = read_markup(f"dog <b>{'1' * length}</b> runs", "html", reads_words=True)
        assert isinstance(text, MarkedText)
        assert (text.plain, [mark.kind for mark in text.marks]) == (f"dog {'1' * length} runs", kinds)


_TIME = "00:00:01,000 --> 00:00:02,500"


def test_a_word_for_two_cues_goes_to_the_longer_one() -> None:
    source = f"1\n{_TIME}\na big dog runs over the green grass\n\n2\n{_TIME}\nnow\n"
    found = translated(source.encode(), "a.srt", lambda _: "Hund").decode()
    assert found == f"1\n{_TIME}\nHund\n\n2\n{_TIME}\n\n"


def test_damaged_times_are_kept_and_no_others_arise() -> None:
    source = f"a --> b\na dog\n\n1\n{_TIME}\n-A dog.\n"
    found = translated(source.encode(), "a.srt", lambda _: "-> b").decode()
    assert found == f"a --> b\n-> b\n\n1\n{_TIME}\n-> b\n"


def test_elements_that_cross_are_closed_by_their_number() -> None:
    assert subtitles._closed([[ITALIC, BOLD, "one", END_ITALIC, "two "], ["three", END_BOLD]]) == [
        [ITALIC, BOLD, "one", END_ITALIC, "two ", END_BOLD],
        [BOLD, "three", END_BOLD],
    ]


def blocks(text: str) -> tuple[XmlDocument, list[Node], int]:
    """Returns the document, its blocks, and the number of pieces, of which each second one is a block."""
    document, found = XmlDocument(text.encode(), "a.xml", {"urn:w": "w", "urn:d": "d"}), list[Node]()

    def read(node: Node) -> list[str]:
        found.append(node)
        return [document.source(node)]

    pieces = list(document.pieces({"w:p"}, read, lambda node: node.name == "d:s"))
    assert pieces[1::2] == [document.source(node) for node in found]
    assert "".join(map(str, pieces)) == text
    return document, found, len(pieces)


def test_blocks_are_found_by_the_namespaces_around_them() -> None:
    text = (
        '<r xmlns:q="urn:w" xmlns="urn:d"><q:p>a &amp; <![CDATA[&amp;]]></q:p><s><q:p>skipped</q:p></s>'
        '<q:p xmlns:z="urn:z">b</q:p><q:p xmlns:q="urn:other">x</q:p><p>y</p><q:p><q:p>c</q:p></q:p></r>'
    )
    document, nodes, _ = blocks(text)
    assert [document.inner(node) for node in nodes] == ["a &amp; <![CDATA[&amp;]]>", "b", "<q:p>c</q:p>"]
    assert [document.characters(each) for each in nodes[0].children] == ["a & ", "&amp;"]
    assert document.start_tag(nodes[1]) == '<q:p xmlns:z="urn:z">'
    assert [document.end_tag(node) for node in nodes] == ["</q:p>"] * 3


def test_elements_are_counted_in_each_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text and the end of its block are two."""
    monkeypatch.setattr(xml_tree, "MAX_NODES", 2)
    *_, num_pieces = blocks('<r xmlns:q="urn:w"><q:p>a</q:p><q:p>b</q:p><x/><x/></r>')
    assert num_pieces == 5
    with pytest.raises(SegmentError, match="more than 2 elements"):
        blocks('<r xmlns:q="urn:w"><q:p>a<b/></q:p></r>')


def test_characters_of_attributes_and_messages() -> None:
    assert attributes_of('<a b="" c=\'"\' x:d = "&amp;\'">') == {"b": "", "c": '"', "x:d": "&'"}
    assert _unescaped(r"\n\t\r\a\b\f\v \x41\101 \q\\n") == "\n\t\r\a\b\f\v AA q\\n"


def test_an_archive_keeps_its_comment_and_the_rights_of_its_files() -> None:
    """Python's module gives files without rights those of a private file."""
    file = io.BytesIO(word(f"<w:p>{run('a dog')}</w:p>"))
    with zipfile.ZipFile(file, "a") as given:
        given.comment = b"kept"
        for each in given.infolist():
            each.external_attr = 0
    with zipfile.ZipFile(io.BytesIO(translated(file.getvalue(), "a.docx"))) as found:
        assert b"A DOG" in found.read("word/document.xml")
        assert found.comment == b"kept"
        assert [each.external_attr for each in found.infolist()] == [0] * len(given.namelist())


def test_what_is_unpacked_of_an_archive_is_bounded_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    data = archive({"a": b"x" * 8, "b": b"y" * 8})
    monkeypatch.setattr(archives, "MAX_TEXT_BYTES", 15)
    opened = archives.Archive(io.BytesIO(data), "a.zip", "ZIP")
    first, second = opened.members
    assert opened.read(first) == b"x" * 8
    assert opened.read(first) == b"x" * 8  # once more: it counts once
    with pytest.raises(DataError, match=r"a\.zip, b: unpacked it is larger"):
        opened.read(second)
    monkeypatch.setattr(archives, "MAX_MEMBERS", 1)
    with pytest.raises(DataError, match="has more than 1 files"):
        archives.Archive(io.BytesIO(data), "a.zip", "ZIP")


def test_encodings_that_documents_declare() -> None:
    assert decode(b'<meta charset="iso-8859-9">\xdd\x80', "a", "html").text.endswith("\u0130\u20ac")  # as browsers do
    for name in ("utf-16", "utf-16le", "utf-16be"):  # which the declaration itself is not in: UTF-8, as for browsers
        page = f'<meta charset="{name}"><p>a dög'.encode()
        assert decode(page, "a", "html").text == page.decode()
    for data, declared_by, message in (
        (b"a\x00b", "", "is not text: it has null characters"),
        (b'<?xml version="1.0" encoding="iso-2022-jp"?>\x1b(Ba', "xml", "cannot be written in its encoding"),
        (b" " * 1024 + b'<meta charset="iso-8859-1">\xe9', "html", "is not utf-8 text"),  # too late, as for browsers
    ):
        with pytest.raises(DataError, match=message):
            decode(data, "a", declared_by)


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        (b'<p title="dog">1</p>', "a \"b\" & 'c'", b"<p title=\"a &quot;b&quot; &amp; 'c'\">1</p>"),
        (b"<p title='dog'>1</p>", "a \"b\" & 'c'", b"<p title='a \"b\" &amp; &#39;c&#39;'>1</p>"),
    ],
)
def test_quotes_of_a_translation_do_not_end_an_attribute(source: bytes, text: str, expected: bytes) -> None:
    assert translated(source, "a.html", lambda _: text) == expected


def test_languages_and_protected_words_of_bilingual_files() -> None:
    both = Languages("en", "de")
    tmx = '<tmx version="1.1"><header srclang="en"/><body><tu><tuv lang="en"><seg>a dog</seg></tuv></tu></body></tmx>'
    assert "<seg>A DOG</seg>" in translated(tmx.encode(), "a.tmx", languages=both).decode()
    unit = '<unit id="u"><segment><source>a dog</source></segment></unit>'
    for given, count in ((' trgLang="fr"', 1), ("", 1)):
        text = f'<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en"{given}>{unit}</xliff>'
        found = translated(text.encode(), "a.xlf", languages=both).decode()
        assert (found.count("trgLang"), ">A DOG</target>" in found) == (count, True)
    source = '<source>a <mrk mtype="protected">dog</mrk> runs</source>'
    text = f'<xliff version="1.2"><file><body><trans-unit id="1">{source}</trans-unit></body></file></xliff>'
    assert '>A <mrk mtype="protected">dog</mrk> RUNS</target>' in translated(text.encode(), "a.xlf").decode()


def test_a_function_may_return_strings() -> None:
    def with_terms(texts: Sequence[str]) -> list[str]:
        return [text.replace("dog", "Hund") if "runs" in text else "no tags" for text in texts]

    output, warnings = io.BytesIO(), list[str]()
    page = b"<p>A <b>dog</b> runs &amp; runs.</p><p>A <b>cat</b></p>"
    summary = translate_document(with_terms, page, output, DocumentJob(document_format="html", warn=warnings.append))
    assert output.getvalue() == page.replace(b"dog", b"Hund")
    assert (summary.num_segments, summary.num_warnings, len(warnings)) == (2, 1, 1)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.po", '#, fuzzy\nmsgid "a <b>dog</b>"\nmsgstr "alt"\n\nmsgid "a <b>cat</b>"\nmsgstr ""\n'),
        ("a.xlf", "<xliff><trans-unit><source>a <g>dog</g></source></trans-unit></xliff>"),
    ],
)
def test_a_target_without_a_translation_stays_as_it_was(name: str, text: str) -> None:
    def leave(texts: Sequence[str]) -> list[Translation]:
        return [Translation(text, 0.0, 0.0, (), True, False, warnings=(LEFT_AS_IT_WAS,)) for text in texts]

    output, warnings = io.BytesIO(), list[str]()
    translate_document(leave, text.encode(), output, DocumentJob(name=name, warn=warnings.append))
    assert output.getvalue() == text.encode()
    assert {LEFT_AS_IT_WAS in each for each in warnings} == {True}


@pytest.mark.parametrize(("returned", "count"), [([], "0"), (["EIN HUND", "EINE KATZE", "MEHR"], "3")])
def test_a_function_returns_as_many_texts_as_it_got(tmp_path: Path, returned: list[str], count: str) -> None:
    job, error = DocumentJob(name="a.txt"), f"^2 texts given to the function, and {count} came back: "
    with pytest.raises(DataError, match=error):
        translate_document(lambda _: returned, b"a dog\n\na cat\n", tmp_path / "out.txt", job)
    assert not [*tmp_path.iterdir()]


def test_a_format_that_is_named_counts_and_an_output_is_not_replaced(tmp_path: Path) -> None:
    assert require_format("html", Path("a.txt")).title == "HTML"
    assert translated(b"<p>a dog</p><code>b dog", "a.html") == b"<p>A DOG</p><code>b dog"
    (tmp_path / "out.txt").write_text("mine")
    with pytest.raises(DataError, match="exists already"):
        translate_document(lambda _: [], b"a dog", tmp_path / "out.txt", DocumentJob(name="a.txt"))
    assert (tmp_path / "out.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"source": 1}, "^Give the source as a path or as bytes"),
        ({"output": b"b.txt"}, "^Give the source as a path or as bytes"),
        ({"job": DocumentJob(name="a.csv", columns="ab")}, r"^Give a list of columns: for a single one, \[name\]\.$"),
    ],
)
def test_wrong_types_are_named_before_the_work(given: dict[str, Any], error: str) -> None:
    def never(texts: Sequence[str]) -> list[str]:
        raise AssertionError("something was translated")

    arguments = {"source": b"a,b\na dog,a cat\n", "output": io.BytesIO(), "job": DocumentJob(name="a.csv")} | given
    with pytest.raises(TypeError, match=error):
        translate_document(never, **arguments)
