"""Documents that would take quadratic time or much memory: all end soon, with a right result or a clear error."""

import io
import re
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable

import pytest

from made_documents import archive, book, member, open_document, run, slides, translated, word
from text_engine import same
from transduce.errors import DataError
from transduce.translation.documents import Languages, markdown_inline

_N = 100_000  # characters: in quadratic time each of these takes half a minute or more
_SPACE = " " * _N
SLOW: dict[str, Callable[[], tuple[str, bytes]]] = {
    "space in a tag": lambda: ("a.docx", word(f"<w:p{_SPACE * 20}>{run('dog')}</w:p>")),
    "a long name": lambda: ("a.xlf", f"<xliff version='1.2'><{'a' * _N}/></xliff>".encode()),
    "space in a source": lambda: (
        "a.xlf",
        f"<xliff version='1.2'><trans-unit><source{_SPACE} x='1'>a dog</source><target{_SPACE}x='1'/>"
        "</trans-unit></xliff>".encode(),
    ),
    "space in properties": lambda: (
        "a.pptx",
        slides(f"<a:p><a:r><a:rPr{_SPACE} b='1'/><a:t>dog</a:t></a:r></a:p>"),
    ),
    "space in a page": lambda: ("a.html", f"<p>a{_SPACE}dog{_SPACE}b</p>".encode()),
    "space in a heading": lambda: ("a.md", f"# a{_SPACE}dog\n".encode()),
    "space before cells": lambda: ("a.md", f"a | b\n{_SPACE}x|\n".encode()),
    "space behind cells": lambda: ("a.md", f"a | b\n-{_SPACE}x|\n".encode()),
    "space in a link": lambda: ("a.md", f"[a]({_SPACE}x y\n".encode()),
    "space in a paragraph": lambda: ("a.md", f"a dog{_SPACE}b\n".encode()),
    "brackets": lambda: ("a.md", f"{'[' * (_N // 4)}a{']' * (_N // 4)}".encode()),
    "comments": lambda: ("a.md", b"a <!--" * 5_000),
    "space before a speaker": lambda: ("a.srt", f"1\n00:00:01,000 --> 00:00:02,000\n{_SPACE}dog\n".encode()),
    "long addresses": lambda: (
        "a.srt",
        ("1\n00:00:01,000 --> 00:00:02,000\n" + " ".join(f"http://{c * _N}" for c in "ab") + "\nhttp://cd dog\n")
        .encode(),
    ),
    "a message of many lines": lambda: ("a.po", b'msgid ""\n' + b'"1 "\n' * 150_000 + b'msgstr ""\n'),
    "comments of a catalogue": lambda: ("a.po", b"# a\n" * 150_000),
    "many words that tags cut": lambda: (
        "a.html",
        b"<p>" + b" ".join(b"a%d<b>%d</b>" % (i, i) for i in range(900)) + b"<br>" + b"1 " * (_N // 2) + b"</p>",
    ),
    "empty elements behind a text": lambda: (
        "a.html",
        b"<p><b>x" + b"y<wbr>" * 17_500 + b"</b>" + b"<i></i>" * 17_500,
    ),
    "runs in many containers": lambda: (
        "a.docx",
        word("<w:p>" + "<w:ins>" * 150 + run("dog") * 10_000 + "</w:ins>" * 150 + "</w:p>"),
    ),
    "a description like a path": lambda: (
        "a.docx",
        word(f'<w:p>{run("dog")}<w:r><w:drawing><wp:docPr descr="{"/" * _N} x"/></w:drawing></w:r></w:p>'),
    ),
    "tags in a comment of a workbook": lambda: (
        "a.xlsx",
        archive(
            {
                "[Content_Types].xml": "<a><Override PartName='/a' ContentType='spreadsheetml.sheet.main+xml'/>"
                "<Override PartName='/b' ContentType='spreadsheetml.worksheet+xml'/></a>",
                "b": f"<a><!-- {'<filter ' * _N}{'<f ' * _N}/> --></a>",
            }
        ),
    ),
    "tags in a comment of ODT": lambda: ("a.odt", open_document(f"<!-- {'<style:style ' * _N}' -->")),
    "tags in a comment of XLIFF": lambda: (
        "a.xlf",
        f"<xliff version='1.2'><!-- {'<file ' * _N}' --></xliff>".encode(),
    ),
    "pages that nothing ends": lambda: ("a.html", b"<html " * _N),
    "comments that nothing ends": lambda: ("a.md", b"<!-- a\n\n" * 25_000),
    "comments at the beginning": lambda: ("a.md", b"<!-- a -->\n" * 50 + b"# a dog\n"),
    "a code before a word": lambda: ("a.csv", b"1" * _N + b" a dog\n"),
}  # fmt: skip


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SLOW)
def test_these_end_soon(name: str) -> None:
    title, data = SLOW[name]()
    before = time.process_time()
    if title == "a.xlf" and "source" in name:
        found = translated(data, title, same, languages=Languages("en", "de")).decode()
        assert "needs-review-translation" in found
        assert ">a dog</target>" in found
    elif title == "a.po" and "message" in name:
        assert translated(data, title, same) == data.replace(b'msgstr ""', b'msgstr "' + b"1 " * 150_000 + b'"')
    else:
        assert translated(data, title, same) == data
    assert time.process_time() - before < 15, "processor seconds: the machine may be busy"


@pytest.mark.timeout(300)
def test_very_many_signs_are_written_soon() -> None:
    text = "a, " * 2 * _N
    assert markdown_inline._spelled_as([markdown_inline._Token("text", text)], str)(text) == text


def test_very_many_prefixes_are_refused() -> None:
    """Each element that declares one would copy those of all elements around it."""
    prefixes = " ".join(f"xmlns:p{i}='a'" for i in range(1100))
    with pytest.raises(DataError, match=r"document\.xml: declares more than 1,000 prefixes"):
        translated(word(f"<w:p {prefixes}>{run('a dog')}</w:p>"), "a.docx")


# How each is made, what is said of it, and the megabytes that it may take.
HUGE: dict[str, tuple[str, str, str, int]] = {
    "elements of a paragraph": (
        "a.docx",
        'word("<w:p>" + "<w:r/>" * 250_000 + "</w:p>")',
        "than 200,000 elements",
        200,
    ),
    "tags of a paragraph": (
        "a.html",
        'b"<p>a " + b"<b></b>" * 250_000 + b"dog"',
        "more than 400,000 tags and texts",
        200,
    ),
    "lines of Markdown": ("a.md", 'b"\\n" * 1_000_000', "more than 500,000 lines", 40),  # 72 without the limit
    "lines of a text": ("a.txt", 'b"1\\n" * 200_000', "", 8),  # 15 without the limit
    "lines of subtitles": ("a.srt", 'b"1\\n" * 500_000', "", 20),
    "lines of a cue": ("a.srt", 'b"00:00:01,000 --> 00:00:02,000\\n" + b"1\\n" * 50_000', "", 10),
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("name", HUGE)
def test_memory_is_bounded(name: str) -> None:
    """Each took many times as much.

    The peak is that of /proc: to the one of `getrusage`, a process adds that of the process that started it.
    """
    title, made, message, most = HUGE[name]
    code = (
        "from pathlib import Path; from made_documents import translated, word; from text_engine import same\n"
        "from transduce.errors import DataError\n"
        "def peak(): return int(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])\n"
        f"data, said = {made}, ''\n"
        "before = peak()\n"
        f"try: assert translated(data, {title!r}, same) == data\n"
        "except DataError as error: said = str(error)\n"
        "print((peak() - before) // 1024, said)"
    )
    path = [*map(str, sys.path)]
    found = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    megabytes, said = found.stdout.split(" ", 1)
    assert int(megabytes) < most
    assert message in said
    assert bool(said.strip()) == bool(message)


def test_an_unusual_compression_is_refused() -> None:
    """A block of bzip2 that is a kilobyte may unpack to a gigabyte at once."""
    letter = word(f"<w:p>{run('a dog')}</w:p>")
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(letter)) as source, zipfile.ZipFile(file, "w") as target:
        for info in source.infolist():
            kind = zipfile.ZIP_BZIP2 if info.filename == "word/document.xml" else zipfile.ZIP_DEFLATED
            target.writestr(info.filename, source.read(info), kind)
    with pytest.raises(DataError, match=r"word/document\.xml: its compression is not that of DOCX"):
        translated(file.getvalue(), "a.docx")


def test_members_that_overlap_are_refused() -> None:
    """A directory that names the same bytes many times would become a file of terabytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as target:
        target.writestr("[Content_Types].xml", "<Types/>")
        target.writestr("a.bin", bytes(1_000_000))
        for i in range(50):
            again = zipfile.ZipInfo(f"{i}.bin")
            first = target.getinfo("a.bin")
            again.header_offset, again.CRC = first.header_offset, first.CRC
            again.compress_size = again.file_size = first.file_size
            target.filelist.append(again)
    with pytest.raises(DataError, match=r"a\.docx: is damaged: its files overlap"):
        translated(file.getvalue(), "a.docx")


def test_a_name_that_occurs_twice_is_refused() -> None:
    letter = word(f"<w:p>{run('a dog')}</w:p>")
    file = io.BytesIO(letter)
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(file, "a") as target:
        target.writestr("word/document.xml", "<a/>")
    with pytest.raises(DataError, match=r"a\.docx: has more than one word/document\.xml"):
        translated(file.getvalue(), "a.docx")


def test_a_size_that_is_not_true() -> None:
    letter = word(f"<w:p>{run('a dog ' * 5000)}</w:p>")
    size = zipfile.ZipFile(io.BytesIO(letter)).getinfo("word/document.xml").file_size
    lying = letter.replace(struct.pack("<I", size), struct.pack("<I", 100))
    assert lying != letter
    with pytest.raises(DataError, match="is damaged or incomplete"):
        translated(lying, "a.docx")


@pytest.mark.parametrize("name", ["../../evil.txt", "/etc/passwd", "C:\\x", "word/../../x", "a\nb"])
def test_names_that_lead_elsewhere_are_only_names(name: str) -> None:
    letter = word(f"<w:p>{run('a dog')}</w:p>")
    with zipfile.ZipFile(io.BytesIO(letter)) as source:
        given = archive({**{each.filename: source.read(each) for each in source.infolist()}, name: b"dog"})
    found = translated(given, "a.docx")
    assert member(found, name) == "dog"
    assert "A DOG" in member(found, "word/document.xml")


def without_flags(data: bytes) -> bytes:
    """Returns an archive that does not say that its names are UTF-8."""
    changed = bytearray(data)
    for mark, offset in ((b"PK\x03\x04", 7), (b"PK\x01\x02", 9)):
        for match in re.finditer(re.escape(mark), data):
            changed[match.start() + offset] &= ~0x08
    return bytes(changed)


def test_names_in_utf_8_that_do_not_say_so() -> None:
    """Many programs leave out the flag; then the pages of a book must be found and keep their names."""
    with zipfile.ZipFile(io.BytesIO(book("<p>a dog</p>"))) as source:
        members = {each.filename.replace("page 1", "p\u00e4ge1"): source.read(each) for each in source.infolist()}
    members["OEBPS/content.opf"] = members["OEBPS/content.opf"].replace(b"page%201", b"p%C3%A4ge1")
    given = without_flags(archive(members, stored=("mimetype",)))
    assert "OEBPS/text/p\u251c\u00f1ge1.xhtml" in zipfile.ZipFile(io.BytesIO(given)).namelist()
    found = translated(given, "a.epub")
    assert "<p>A DOG</p>" in member(found, "OEBPS/text/p\u00e4ge1.xhtml")
    latin = given.replace("p\u00e4ge1".encode(), b"p\xe4gex1")  # no UTF-8: read as the ZIP format says
    assert "OEBPS/text/p\u03a3gex1.xhtml" in zipfile.ZipFile(io.BytesIO(translated(latin, "a.epub"))).namelist()
