"""The stream of segments: windows over all parts, each text once, translations that cannot be used."""

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_documents import WORD_SPACE, archive, book, member, open_document, run, slides, translated, word
from text_engine import same, text_translator
from transduce.config import DecodeConfig
from transduce.errors import ConfigError, DataError
from transduce.translation.directions import Directions
from transduce.translation.documents import (
    FORMATS,
    DocumentJob,
    Languages,
    format_of,
    parts,
    recognised_format,
    translate_document,
)
from transduce.translation.documents.segments import items_of, keeps_tags, markup_of
from transduce.translation.pipeline import TextOptions
from transduce.translation.result import Translation
from transduce.translation.translator import Translator


def translation(text: str, *, truncated: bool = False, warnings: tuple[str, ...] = ()) -> Translation:
    return Translation(text, 0.0, 0.0, (), finished=True, source_truncated=truncated, warnings=warnings)


WORDS = {"en": "a dog", "es": "un perro"}


def texts_of(document: bytes, name: str, **job: Any) -> list[str]:
    """Returns the texts that are translated, with their tags."""
    found: list[str] = []

    def noted(texts: Sequence[str]) -> list[Translation]:
        found.extend(texts)
        return [translation(text) for text in texts]

    translate_document(noted, document, io.BytesIO(), DocumentJob(name=name, **job))
    return found


@pytest.mark.parametrize(
    ("inner", "text"),
    [
        ("one <g id='1'>dog</g>", "one <x1>dog</x1>"),
        ("one <bpt id='1' rid='7'>b</bpt>dog<ept id='2' rid='7'>e</ept>", "one <x1>dog</x1>"),
        ("one <bpt id='1' rid='7'>b</bpt>dog<ept id='1' rid='8'>e</ept> on", "one <x1>dog<x2/> on"),
        ("one <bx id='1' rid='7'/>dog<ex id='2' rid='7'/>", "one <x1>dog</x1>"),
        ("one <sc id='1'/>dog<ec id='2' startRef='1'/>", "one <x1>dog</x1>"),
        ("one <sm id='1'/>dog<em startRef='1'/>", "one <x1>dog</x1>"),
        ("one <bpt i='1' id='3'>b</bpt>dog<ept i='1' id='4'>e</ept>", "one <x1>dog</x1>"),
        ("one <mrk>dog</mrk> <mrk translate='no'>cat</mrk> on", "one <x1>dog</x1> <x2/> on"),
        ("one <pc><x/></pc>dog<g/> on", "one <x1><x2/></x1>dog<x3/> on"),
    ],
)
def test_the_two_ends_of_an_element_are_found_by_what_they_have_in_common(inner: str, text: str) -> None:
    unit = f'<trans-unit id="1"><source>{inner}</source></trans-unit>'
    assert texts_of(f'<xliff version="1.2"><file>{unit}</file></xliff>'.encode(), "a.xlf") == [text]


def test_the_text_without_a_tag_has_the_properties_of_most_characters() -> None:
    """Of one two three and "a", 12 characters, against "dogs", 4, though the last of each counts 1 and 4."""
    bold = run("dogs", "<w:b/>")
    assert texts_of(word(f"<w:p>{run('one two three ')}{bold}{run(' a')}</w:p>"), "a.docx") == [
        "one two three <x1>dogs</x1> a"
    ]
    assert texts_of(word(f"<w:p>{run('on ')}{bold}{run(' a')}</w:p>"), "a.docx") == ["<x1>on </x1>dogs<x2> a</x2>"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a _dog_ runs", "a <x1>dog</x1> runs"),
        ("a _dog_s runs", "a _dog_s runs"),
        ("a x_dog_ runs", "a x_dog_ runs"),
        ("a *dog*s runs", "a <x1>dog</x1>s runs"),
        ("a * dog* runs", "a * dog* runs"),
        ("a [dog](x) `b` ![cat](y) <z@a.de> on", "a <x1>dog</x1> <x2/> <x3/> <x4/> on"),
        ("a <b>dog</b> <br> on", "a <x1>dog</x1> <br x2/> on"),
        ("a <b>dog on", "a <x1/>dog on"),
        ("a [^1] $x$ {{y}} on", "a <x1/> <x2/> {{y}} on"),
    ],
)
def test_what_is_an_element_in_a_paragraph_of_markdown(text: str, expected: str) -> None:
    assert texts_of(f"{text}\n".encode(), "a.md")[0] == expected


@pytest.mark.parametrize(
    ("number", "is_joined"),
    [("2", True), ("12 345", True), ("1" * 60, True), ("1" * 61, False), ("b", False), (" 2", False)],
)
def test_a_number_without_letters_of_up_to_sixty_characters_stays_in_its_word(number: str, is_joined: bool) -> None:
    page = f"<p><s>of H</s><sub>{number}</sub><s>O, on</s></p>"
    joined, cut = f"of H<x2>{number}</x2>O, on", f"<x1>of H</x1><x2>{number}</x2><x3>O, on</x3>"
    assert texts_of(page.encode(), "a.html") == [joined if is_joined else cut]


def test_windows_reach_over_the_parts_of_a_book(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function in place of a translator gets full windows, and each text once in a window."""
    monkeypatch.setattr(parts, "WINDOW_SEGMENTS", 30)
    pages = [f"<p>page {chr(97 + i)} has a dog</p><p>again</p><p>{i}</p>" for i in range(26)]
    windows: list[Sequence[str]] = []

    def upper(texts: Sequence[str]) -> list[Translation]:
        windows.append(texts)
        return [translation(text.upper()) for text in texts]

    output = io.BytesIO()
    summary = translate_document(upper, book(*pages), output, DocumentJob(name="a.epub"))
    assert [len(texts) for texts in windows] == [len(set(texts)) for texts in windows]
    assert len(windows) < 10
    assert summary.num_segments == 26 * 3 + 2  # with the titles, the page of contents and the other contents
    for i in range(26):
        assert f"<p>PAGE {chr(65 + i)} HAS A DOG</p><p>AGAIN</p>" in member(
            output.getvalue(), f"OEBPS/text/page {i + 1}.xhtml"
        )


@pytest.mark.parametrize(
    ("found", "warning"),
    [
        (translation("der Hund"), "markup would not survive"),
        (translation("</x1>der<x1> Hund"), "markup would not survive"),
        (translation("<x1>der</x1> <x1>Hund</x1>"), "markup would not survive"),
        (translation("<x1>der</x1> <x2/>Hund"), "markup would not survive"),
        (translation("<x1>der</x1> Hund", truncated=True), "longer than the model reads"),
        (translation(""), "markup would not survive"),
        (translation("<x1> </x1>"), ""),
    ],
)
def test_translations_that_cannot_be_used_leave_the_text_as_it_was(found: Translation, warning: str) -> None:
    page, output = b"<p>a <b>dog</b> runs</p>", io.BytesIO()
    warnings: list[str] = []
    summary = translate_document(
        lambda texts: [found] * len(texts), page, output, DocumentJob(name="a.html", warn=warnings.append)
    )
    assert output.getvalue() == page
    assert [warning in message and message.startswith("a.html: 'a dog runs': ") for message in warnings] == [
        True
    ] * bool(warning)
    assert summary.num_warnings == len(warnings)


def test_characters_that_no_document_may_hold_are_left_out() -> None:
    found = translated(word(f"<w:p>{run('dog')}</w:p>"), "a.docx", lambda _: "a\x00b\x08c\ufffed")
    assert ">abcd</w:t>" in member(found, "word/document.xml")


def test_paragraphs_are_split_unless_told_otherwise() -> None:
    output = io.BytesIO()
    two = b"<p>A dog runs. Two dogs run.</p>"
    translator = text_translator(lambda text: f"[{text}]")
    translate_document(translator, two, output, DocumentJob(name="a.html"))
    assert output.getvalue() == b"<p>[A dog runs.] [Two dogs run.]</p>"
    output = io.BytesIO()
    translate_document(translator, two, output, DocumentJob(name="a.html", text_options=TextOptions(split="never")))
    assert output.getvalue() == b"<p>[A dog runs. Two dogs run.]</p>"


def test_formats_by_extension() -> None:
    extensions = [extension for each in FORMATS.values() for extension in each.extensions]
    assert len(extensions) == len(set(extensions))
    assert {format_of(Path(f"A.B{extension.upper()}")) for extension in extensions} == set(FORMATS)
    assert list(FORMATS) == sorted(FORMATS)


_XLIFF = '<xliff version="1.2"><file><trans-unit id="1"><source>a dog</source></trans-unit></file></xliff>'
BY_CONTENT: dict[str, tuple[str, bytes]] = {
    "of Trados": ("xliff", f'\ufeff<?xml version="1.0" encoding="utf-8"?>\n<!-- a -->{_XLIFF}'.encode()),
    "in UTF-16": ("xliff", _XLIFF.encode("utf-16")),
    "with a prefix": ("xliff", b'<x:xliff xmlns:x="urn:oasis:names:tc:xliff:document:1.2"><x:file/></x:xliff>'),
    "a memory": ("tmx", b'<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "a>b"><tmx version="1.4"><body/></tmx>'),
    "a page": ("html", b"<!DOCTYPE html>\n<html><p>a dog</p></html>"),
    "a catalogue": ("po", b'# a\n\n#, fuzzy\nmsgid ""\nmsgstr ""\n\nmsgid "a dog"\nmsgstr ""\n'),
    "subtitles": ("srt", b"1\r\n00:00:01,000 --> 00:00:02,000\r\na dog\r\n"),
    "subtitles of the web": ("vtt", b"WEBVTT - x\n\n00:01.000 --> 00:02.000\na dog\n"),
    "a letter": ("docx", word(f"<w:p>{run('a dog')}</w:p>")),
    "slides": ("pptx", slides("<a:p><a:r><a:t>a dog</a:t></a:r></a:p>")),
    "a letter of LibreOffice": ("odt", open_document("<text:p>a dog</text:p>")),
    "a book": ("epub", book("<p>a dog</p>")),
}


@pytest.mark.parametrize("name", BY_CONTENT)
def test_a_format_is_recognised_by_content(name: str, tmp_path: Path) -> None:
    """The ending of no program that we know is translated as if the file had a usual one, and never copied."""
    kind, data = BY_CONTENT[name]
    (file := tmp_path / "a.sdlxliff.bak").write_bytes(data)
    assert recognised_format(file, file) == recognised_format(None, data) == kind
    languages = Languages("en", "de")
    given = translated(data, f"a{FORMATS[kind].extensions[0]}", languages=languages)
    assert translated(data, "a.odd", languages=languages) == given
    if kind != "html":  # plain text may begin with a tag
        with pytest.raises(
            ConfigError, match=r"a\.txt: its extension stands for plain text, .*Change its ext"
        ) as found:
            translated(data, "a.txt", languages=languages)
        assert found.value.advice == f"With --format {kind}, or --format text."


@pytest.mark.parametrize(
    "data", [b"a dog", b"", b"<a>a dog</a>", archive({"a.txt": "dog"}), b"PK\x03\x04", b"# msgid\n\na dog\n"]
)
def test_what_no_format_shows_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigError, match=r"a\.odd: its extension stands for no known format, nor does its content"):
        translated(data, "a.odd")


@pytest.mark.parametrize("ending", FORMATS["xliff"].extensions)
def test_any_ending_of_xliff_needs_xliff(ending: str) -> None:
    assert b">A DOG</target>" in translated(_XLIFF.encode(), f"a{ending}")
    for other in (b"<html><p>a dog</p></html>", b"<y:xliff xmlns:y='urn:y'/>", b"<txliff><source>a</source></txliff>"):
        with pytest.raises(DataError, match=rf"a\{ending}: is not XLIFF: its first element is <"):
            translated(other, f"a{ending}")
    with pytest.raises(DataError, match=r"a\.tmx: is not TMX: its first element is <tm/>"):
        translated(b"<tm/>", "a.tmx", languages=Languages("en", "de"))


def test_the_languages_of_a_document_are_those_of_the_translator(monkeypatch: pytest.MonkeyPatch) -> None:
    upper = text_translator(str.upper)
    monkeypatch.setattr(Translator, "directions", Directions((("en", "de"),), (), ()))
    unit = '<tu><tuv xml:lang="en"><seg>a dog</seg></tuv></tu>'
    memory = f'<tmx version="1.4"><header srclang="*all*"/><body>{unit}</body></tmx>'
    output = io.BytesIO()
    translate_document(upper, memory.encode(), output, DocumentJob(name="a.tmx"))
    assert b'<tuv xml:lang="de"><seg>A DOG</seg></tuv>' in output.getvalue()


def test_the_languages_of_a_document_are_those_that_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = (("en", "de"), ("en", "fr"), ("es", "fr"))
    monkeypatch.setattr(Translator, "directions", Directions(pairs, ("de", "fr"), ()))
    monkeypatch.setattr(Translator, "stream", lambda _, texts, **__: iter([[translation(text)] for text in texts]))
    units = "".join(f'<tu><tuv xml:lang="{code}"><seg>{word}</seg></tuv></tu>' for code, word in WORDS.items())
    memory = f'<tmx version="1.4"><header srclang="*all*"/><body>{units}</body></tmx>'
    for options, language, count in (
        (TextOptions(), "de", 1),
        (TextOptions(target="fr"), "fr", 1),
        (TextOptions(language="es", target="fr"), "fr", 2),
    ):
        output = io.BytesIO()
        translate_document(text_translator(), memory.encode(), output, DocumentJob(name="a.tmx", text_options=options))
        found = output.getvalue().decode()
        assert re.findall(r'<tuv xml:lang="(..)"><seg>(\w+ \w+)</seg></tuv></tu>', found)[count - 1][0] == language
        assert found.count("<tuv") == 3


def test_a_document_without_text_is_named() -> None:
    said: list[str] = []
    for data in (b'{"a": 1}', b"", b"1.\n"):
        assert translated(data, "a.srt", warn=said.append) == data
    assert said == ["a.srt: has no text that is to be translated: copied as it is."] * 3


@given(st.text(max_size=40))
def test_any_text_as_markup(text: str) -> None:
    kept = re.sub("[\u00ad\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]", "", text)
    assert "".join(str(item) for item in items_of(markup_of([text]))) == kept


def test_tags() -> None:
    source = items_of("<x1>a</x1> <x2/>b<br x3/>")
    assert keeps_tags(source, items_of("<br x3/><x2/><x1>A</x1>"))
    assert not keeps_tags(source, items_of("<x1>A</x1><x2/>"))
    assert not keeps_tags(source, items_of("</x1>A<x1><x2/><br x3/>"))
    assert keeps_tags(items_of("</x1>a<x2>"), items_of("<x2>A</x1>"))


# --- any XML ----------------------------------------------------------------------------------------------

_TEXTS = st.sampled_from(
    ["a dog", " runs ", "12", "&amp;", "<!-- x -->", "<![CDATA[a <b]]>", "\n  ", ".", "<?x y?>", "{name}"]
)


def trees(names: list[str], empty: list[str]) -> st.SearchStrategy[str]:
    """Returns any well-formed content made of these elements."""
    leaves = st.one_of(_TEXTS, st.sampled_from([f"<{name}/>" for name in empty]))
    return st.recursive(
        leaves,
        lambda inner: st.builds(
            lambda name, children: f"<{name}>{''.join(children)}</{name}>",
            st.sampled_from(names),
            st.lists(inner, max_size=4),
        ),
        max_leaves=12,
    )


_WORDS = trees(
    [
        "w:p",
        "w:r",
        "w:r",
        "w:t",
        "w:t",
        "w:rPr",
        "w:hyperlink",
        "w:sdt",
        "w:sdtPr",
        "w:sdtContent",
        "w:del",
        "w:ins",
        "w:drawing",
    ],
    [
        "w:tab",
        "w:br",
        "w:b",
        "w:proofErr",
        'w:fldChar w:fldCharType="begin"',
        'w:fldChar w:fldCharType="end"',
        "w:t",
        "w:r",
        "w:p",
    ],
)
_OPEN = trees(
    ["text:p", "text:p", "text:span", "text:a", "text:note", "draw:frame"],
    ["text:s", "text:tab", "text:p", "text:span"],
)


@settings(max_examples=50)
@given(st.lists(_WORDS, max_size=4).map("".join))
def test_any_paragraph_of_word(body: str) -> None:
    given = word(f"<w:p>{body}</w:p>")
    assert translated(given, "a.docx", same) == given
    found = ET.fromstring(member(translated(given, "a.docx"), "word/document.xml"))
    before = ET.fromstring(member(given, "word/document.xml"))
    for kept in ("tab", "br", "drawing", "del", "hyperlink", "fldChar", "sdtPr", "p"):
        assert len([*found.iter(f"{{{WORD_SPACE}}}{kept}")]) == len([*before.iter(f"{{{WORD_SPACE}}}{kept}")])


@settings(max_examples=50)
@given(st.lists(_OPEN, max_size=4).map("".join))
def test_any_paragraph_of_open_document(body: str) -> None:
    given = open_document(f"<text:p>{body}</text:p>")
    assert translated(given, "a.odt", same) == given
    found, before = (ET.fromstring(member(data, "content.xml")) for data in (translated(given, "a.odt"), given))
    assert sorted(each.tag for each in found.iter()) == sorted(each.tag for each in before.iter())


def test_progress_is_that_of_all_parts_and_never_goes_back() -> None:
    """Parts of 30 and 70 bytes: what is read of one, in characters, counts up to its size."""
    calls: list[tuple[int, int]] = []
    progress = parts.Progress(100, lambda done, total: calls.append((done, total)), print)
    for size, steps in ((30, (10, 50)), (70, (0, 60, 100))):
        progress.begin(parts.Part("a", size, parts.Content(str.encode, [])))
        for progress.within in steps:
            progress.report()
    assert calls == [(10, 100), (30, 100), (30, 100), (90, 100), (100, 100)]


def test_what_a_document_is_translated_with(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []

    def stream(_: Translator, texts: list[str], **given: object) -> Iterator[list[Translation]]:
        asked.append((texts, given))
        return iter([[translation(text.upper(), warnings=("v", "w"))] for text in texts])

    monkeypatch.setattr(Translator, "stream", stream)
    page, output, calls = b"<p>a dog</p><p>12</p><p>two</p>", io.BytesIO(), []
    warnings: list[str] = []
    options, glossary = DecodeConfig(beam_size=1), {"dog": "HUND"}
    summary = translate_document(
        text_translator(),
        page,
        output,
        DocumentJob(
            name="a.html",
            options=options,
            text_options=TextOptions(guard=True, markup="none"),
            glossary=glossary,
            warn=warnings.append,
            on_progress=lambda *numbers: calls.append(numbers),
        ),
    )
    texts = TextOptions(guard=True, markup="html", split="always")
    given = {"options": options, "text_options": texts, "glossary": glossary, "window": 2}
    assert asked == [(["a dog", "two"], given)]
    assert output.getvalue() == b"<p>A DOG</p><p>12</p><p>TWO</p>"
    assert calls == [(len(page), len(page))]
    assert warnings == [f"a.html: '{text}': {warning}" for text in ("a dog", "two") for warning in "vw"]
    assert (summary.num_segments, summary.num_warnings) == (2, 4)


def test_progress_within_an_archive_is_in_bytes_of_its_texts() -> None:
    calls: list[tuple[int, int]] = []
    data = word(f"<w:p>{run('a dog')}</w:p>")
    translated(data, "a.docx", on_progress=lambda *numbers: calls.append(numbers))
    size = len(member(data, "word/document.xml"))
    assert calls[-1] == (size, size)


def test_windows_end_at_a_number_of_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tag has three characters, or four at the end, and each text nine."""
    monkeypatch.setattr(parts, "WINDOW_CHARACTERS", 12)
    windows: list[Sequence[str]] = []

    def noted(texts: Sequence[str]) -> list[Translation]:
        windows.append(texts)
        return [translation(text) for text in texts]

    translate_document(noted, b"<p>aaaa bbbb</p><p>cccc dddd</p>", io.BytesIO(), DocumentJob(name="a.html"))
    assert windows == [["aaaa bbbb"], ["cccc dddd"]]


def test_what_the_model_is_not_to_see() -> None:
    assert markup_of(["5\u202fkm\u2007a\u00a0b"]) == "5&#8239;km&#8199;a&#160;b"
    assert markup_of(["Do\u00adg"]) == "Dog"
    assert translated(b'msgid "12 %"\nmsgstr ""\n', "a.po", lambda _: "x") == b'msgid "12 %"\nmsgstr "12 %"\n'


def test_capitals_signs_and_loops_are_handled_by_default() -> None:
    given, warnings, output = "THE DOG RUNS “OVER”.\n", list[str](), io.BytesIO()
    translator = text_translator()
    translate_document(translator, given.encode(), output, DocumentJob(name="a.txt"))
    assert translator.engine.seen == ['The dog runs "over".']  # type: ignore[attr-defined]
    assert output.getvalue().decode() == 'THE DOG RUNS "OVER".\n'
    looping = text_translator(lambda _: "run run run run run")
    translate_document(looping, b"A dog runs.", io.BytesIO(), DocumentJob(name="a.txt", warn=warnings.append))
    assert len(warnings) == 1
    assert "repeats itself" in warnings[0]
    plain = DocumentJob(name="a.txt", text_options=TextOptions(), warn=warnings.append)
    translate_document(looping, given.encode(), io.BytesIO(), plain)
    assert len(warnings) == 1
