"""Documents that are damaged, encrypted, huge or no documents: a clear error, and nothing left behind."""

import io
import random
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fuzz_documents
from made_documents import archive, run, translated, word
from text_engine import text_translator
from transduce.errors import ConfigError, DataError, TransduceError
from transduce.serve.web import document_requests
from transduce.translation.documents import DocumentJob, formats, translate_document
from transduce.translation.documents import archive as archives
from transduce.translation.documents.xml_tree import MAX_DEPTH, XmlDocument

LETTER = word(f"<w:p>{run('A ')}{run('dog', '<w:b/>')}{run(' runs.')}</w:p>")
_ENTITIES = '<!DOCTYPE a [<!ENTITY b "dog"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>'


def with_text(text: str) -> bytes:
    """Returns a DOCX file whose main member is `text`."""
    members = {
        info.filename: zipfile.ZipFile(io.BytesIO(LETTER)).read(info)
        for info in zipfile.ZipFile(io.BytesIO(LETTER)).infolist()
    }
    return archive({**members, "word/document.xml": text})


def flagged(data: bytes) -> bytes:
    """Returns an archive whose members say that they are encrypted."""
    start = data.rindex(b"PK\x01\x02")
    return data[: start + 8] + b"\x01" + data[start + 9 :]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "is protected by a password, or from a version before 2007"),
        (b"%PDF-1.7 ...", "is a PDF file. Convert it to .docx first"),
        (b"{\\rtf1 dog}", "is an RTF file"),
        (b"", "is empty"),
        (b"A letter.", "is not DOCX, or is damaged"),
        (LETTER[: len(LETTER) // 2], "is damaged or incomplete"),
        (flagged(LETTER), "is encrypted. Save it without a password"),
        (archive({"a.txt": "dog"}), r"is not DOCX: it has no \[Content_Types\].xml"),
        (archive({"[Content_Types].xml": "<Types/>"}), "is not DOCX"),
        (with_text("<a>"), "word/document.xml: is damaged, or not XML"),
        (with_text(f"{_ENTITIES}<a>&c;</a>"), "declares entities or elements of its own"),
        (with_text("<a>" * 1_000_000 + "</a>" * 1_000_000), f"nested more than {MAX_DEPTH} deep"),
        (with_text("<?xml version='1.0' encoding='utf-99'?><a/>"), "encoding"),
    ],
)
def test_a_letter_that_is_none(data: bytes, message: str) -> None:
    with pytest.raises(DataError, match=rf"^letter\.docx.*{message}"):
        translated(data, "letter.docx")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", "<p>a {} dog</p>"),
        ("a.md", '[a dog](x.md "a {} dog")'),
        ("a.vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\na {} dog\n"),
        ("a.xlf", "<xliff><trans-unit><source>a {} dog</source></trans-unit></xliff>"),
    ],
)
def test_a_character_with_a_number_of_very_many_digits(name: str, text: str) -> None:
    with pytest.raises(DataError, match=rf"^{name}: has a reference to a character"):
        translated(text.format(f"&#{'0' * 5000}65;").encode(), name)
    assert b"DOG" in translated(text.format(f"&#{'0' * 50}65;").encode(), name)


def test_no_entity_reads_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("dog", encoding="utf-8")
    with pytest.raises(DataError, match="declares entities"):
        XmlDocument(f'<!DOCTYPE a [<!ENTITY b SYSTEM "{secret.as_uri()}">]><a>&b;</a>'.encode(), "a.xml")


def test_members_and_texts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = with_text(f"<a>{' ' * 3_000_000}</a>")
    assert len(bomb) < 60_000
    monkeypatch.setattr(archives, "MAX_MEMBER_BYTES", 2 << 20)
    with pytest.raises(DataError, match=r"word/document.xml: unpacked it is larger than 2 MB"):
        translated(bomb, "a.docx")
    monkeypatch.setattr(archives, "MAX_TEXT_BYTES", 100)
    with pytest.raises(DataError, match="larger than"):
        translated(LETTER, "a.docx")
    monkeypatch.setattr(archives, "MAX_MEMBERS", 2)
    with pytest.raises(DataError, match="more than 2 files"):
        translated(LETTER, "a.docx")
    monkeypatch.setattr(formats, "MAX_FILE_BYTES", 1 << 20)
    with pytest.raises(DataError, match=r"a\.html: is larger than 1 MB"):
        translated(b" " * (2 << 20), "a.html")


_BEFORE_2007 = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def test_pictures_may_unpack_to_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    assert archives.MAX_UNPACKED_BYTES == 512 << 20
    monkeypatch.setattr(archives, "MAX_UNPACKED_BYTES", 1 << 20)
    members = {
        info.filename: zipfile.ZipFile(io.BytesIO(LETTER)).read(info)
        for info in zipfile.ZipFile(io.BytesIO(LETTER)).infolist()
    }
    with pytest.raises(DataError, match=r"^a\.docx: unpacked it is larger than 1 MB.* such as word/media/1\.bmp"):
        translated(archive({**members, "word/media/1.bmp": bytes(2 << 20)}), "a.docx")
    photograph = random.Random(1).randbytes(2 << 20)  # which cannot be compressed
    assert len(translated(archive({**members, "word/media/1.jpg": photograph}), "a.docx")) > 2 << 20


@pytest.mark.parametrize("name", ["a.pdf", "a.txt", "a.docx", "a"])
@pytest.mark.parametrize("given", ["", "text", "docx"])
@pytest.mark.parametrize(
    ("content", "message", "advice"),
    [
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "is a PDF file. Convert it to .docx first, with Word", "with pdftotext"),
        (_BEFORE_2007, "is protected by a password, or from a version before 2007. Save it without", ""),
        (b"\x89PNG\r\n\x1a\n\x00", "is an image. Its text has to be recognised first", "tesseract"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF", "is an image", "tesseract"),
        (b"{\\rtf1 dog}", "is an RTF file. Save it as .docx first", ""),
    ],
)
def test_other_kinds_of_files_say_what_to_do(
    tmp_path: Path, name: str, given: str, content: bytes, message: str, advice: str
) -> None:
    """By the command line's way and the service's: whatever the name and the format that was given."""
    path = tmp_path / name
    path.write_bytes(content)
    for check in (
        lambda: formats.require_format(given, path, path),
        lambda: formats.require_format(given, path, content),
        lambda: document_requests.require_format(name, given, content),
    ):
        with pytest.raises(DataError, match=rf"{name}: .*{message}") as found:
            check()
        assert not any(each in str(found.value) for each in ("--", "tesseract", "pdftotext"))
        assert advice in found.value.advice
        assert "--format" not in found.value.advice


@pytest.mark.parametrize(("old", "new"), [(".doc", "docx"), (".XLS", "xlsx"), (".ppt", "pptx")])
def test_an_old_document_is_to_be_saved_as_its_own_kind(old: str, new: str) -> None:
    with pytest.raises(
        DataError, match=rf"^a{old}: is from a version before 2007\. Save it as \.{new} first\.$"
    ) as found:
        document_requests.require_format(f"a{old}", "", _BEFORE_2007)
    assert found.value.advice.endswith(f"soffice --convert-to {new}.")


def test_a_member_that_is_larger_than_it_says() -> None:
    data = bytearray(with_text(f"<a>{'dog ' * 100_000}</a>"))
    position = bytes(data).index(b"PK\x01\x02", bytes(data).rindex(b"word/document.xml") - 60)
    data[position + 24 : position + 28] = (1000).to_bytes(4, "little")
    with pytest.raises(DataError, match="damaged"):
        translated(bytes(data), "a.docx")


@pytest.mark.parametrize(
    ("name", "offset", "damage"),
    [
        ("word/document.xml", 0, b"NO"),  # no header
        ("word/document.xml", 30 + len("word/document.xml"), b"\xff" * 8),  # DEFLATE has no such blocks
        ("word/media/picture.png", 0, b"NO"),  # copied, not read
    ],
)
def test_a_damaged_member_is_named(name: str, offset: int, damage: bytes) -> None:
    data = bytearray(LETTER)
    start = LETTER.index(name.encode()) - 30 + offset  # a header has 30 bytes before the name
    data[start : start + len(damage)] = damage
    with pytest.raises(DataError, match=f"^a.docx, {name}: is damaged or incomplete"):
        translated(bytes(data), "a.docx")


@pytest.mark.parametrize("name", ["letter.xyz", "letter", ""])
def test_unknown_formats(name: str) -> None:
    with pytest.raises(ConfigError, match="Name one "):
        translated(b"a dog", name)


def test_a_wrong_name_of_a_format_suggests_the_right_one() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'docx'"):
        translated(b"a dog", "a", document_format="dox")
    assert translated(LETTER, "a.zip", document_format="docx") == translated(LETTER, "a.docx")


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """An error, or a job that its caller ends, leaves no file; what was there stays."""
    source, output = tmp_path / "a.docx", tmp_path / "out" / "b.docx"
    source.write_bytes(LETTER)
    output.parent.mkdir()

    def stop(done: int, total: int) -> None:
        assert 0 < done <= total
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        translate_document(text_translator(str.upper), source, output, DocumentJob(on_progress=stop))
    assert list(output.parent.iterdir()) == []
    source.write_bytes(LETTER[:-30])
    with pytest.raises(DataError):
        translate_document(text_translator(str.upper), source, output)
    assert list(output.parent.iterdir()) == []
    output.write_bytes(b"old")
    source.write_bytes(LETTER)
    with pytest.raises(DataError, match="exists already"):
        translate_document(text_translator(str.upper), source, output)
    assert output.read_bytes() == b"old"
    summary = translate_document(text_translator(str.upper), source, output, DocumentJob(overwrite=True))
    assert summary.num_segments == 1
    assert output.read_bytes() == translated(LETTER, "a.docx")
    with pytest.raises(DataError, match="there is no such file"):
        translate_document(text_translator(str.upper), tmp_path / "none.docx", output, DocumentJob(overwrite=True))


def test_progress_reaches_the_end() -> None:
    seen: list[tuple[int, int]] = []
    translated(b"<p>a dog</p>" * 3000, "a.html", on_progress=lambda done, total: seen.append((done, total)))
    assert len(seen) > 2
    assert seen == sorted(seen)
    assert seen[-1] == (36_000, 36_000)


@given(st.data())
def test_damaged_letters(data: st.DataObject) -> None:
    """Whatever happens to a file: an error of ours, or a file that can be opened."""
    damaged = bytearray(LETTER)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(damaged) - 1))
        damaged[start : start + data.draw(st.integers(0, 6))] = data.draw(st.binary(max_size=6))
    try:
        found = translated(bytes(damaged), "a.docx")
    except TransduceError:
        return
    assert zipfile.ZipFile(io.BytesIO(found)).infolist()


def test_damaged_documents_of_every_format() -> None:
    """A few of what benchmarks/fuzz_documents.py does by the thousand."""
    report = fuzz_documents.run(280, seed=7)
    assert report["faults"] == []
    endings = report["endings"].values()
    assert all(each.get("error", 0) + each.get("document", 0) == 20 for each in endings)
    assert sum(each.get("document", 0) for each in endings) > 60
    assert sum(each.get("error", 0) for each in endings) > 60
