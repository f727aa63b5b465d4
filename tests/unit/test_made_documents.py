"""Made files of every format there and back: only text changes, and the owners of the formats open them."""

import io
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import document_makers
from document_makers import WORDS, docx, pptx
from document_makers_bilingual import po, tmx, xliff
from document_makers_open import odt
from document_makers_text import epub, html, markdown, srt, text, vtt
from made_documents import SLIDE_SPACE, WORD_SPACE, translated
from text_engine import same
from transduce.translation.documents import FORMATS, Languages

_MAKERS: dict[str, Callable[[int], bytes]] = {
    "docx": docx,
    "epub": epub,
    "html": html,
    "markdown": markdown,
    "odt": odt,
    "po": po,
    "pptx": pptx,
    "srt": srt,
    "text": text,
    "tmx": tmx,
    "vtt": vtt,
    "xliff": xliff,
}
MAKERS = {kind: cache(make) for kind, make in _MAKERS.items()}
NUM_FILES = 15
_NAMES = {"markdown": "a.md", "text": "a.txt", "xliff": "a.xlf"}
# Elements of runs, which are joined and cut anew; all others must be as they were.
_RUNS = {f"{{{WORD_SPACE}}}{name}" for name in ("r", "t", "rPr", "b", "i", "color", "lang", "strike", "proofErr")}
_RUNS |= {f"{{{SLIDE_SPACE}}}{name}" for name in ("r", "t", "rPr")}
_ARCHIVES = ("docx", "epub", "odt", "pptx")
_AROUND = ("html", "markdown", "srt", "text", "vtt")


@cache
def back(kind: str, data: bytes, function: Callable[[str], str] = str.upper) -> bytes:
    """Returns a document whose words were translated; several tests look at the same ones."""
    target = "en" if function is same and kind not in ("po", "tmx", "xliff") else "de"  # which HTML and DOCX name
    return translated(data, _NAMES.get(kind, f"a.{kind}"), function, languages=Languages("en", target))


def members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        assert file.testzip() is None
        return {each.filename: file.read(each) for each in file.infolist()}


def squeezed(words: str) -> str:
    """Returns a text in lower case without white space."""
    return "".join(words.split()).lower()


def untranslated(words: str) -> set[str]:
    """Returns the words that should have been translated."""
    return set(re.findall(r"[a-z][a-z'-]*(?!\d)", words)) & set(WORDS)


def skeleton(root: ET.Element) -> list[tuple[str, dict[str, str]]]:
    """Returns all elements but those of runs."""
    return [(each.tag, each.attrib) for each in root.iter() if each.tag not in _RUNS]


def test_there_is_a_maker_for_every_format() -> None:
    others = {"arb", "csv", "json", "strings", "xlsx", "yaml"}  # test_catalogue_documents.py, test_workbooks.py
    assert {*MAKERS} | others == {*FORMATS}
    assert len({MAKERS[kind](seed) for kind in MAKERS for seed in range(NUM_FILES)}) == len(MAKERS) * NUM_FILES


@pytest.mark.parametrize("kind", [kind for kind in MAKERS if kind not in ("po", "tmx", "xliff")])
def test_nothing_changes_if_the_model_changes_nothing(kind: str) -> None:
    for seed in range(NUM_FILES):
        given = MAKERS[kind](seed)
        assert back(kind, given, same) == given, seed


@pytest.mark.parametrize("kind", _ARCHIVES)
def test_archives(kind: str) -> None:
    for seed in range(NUM_FILES):
        before, after = members(MAKERS[kind](seed)), members(back(kind, MAKERS[kind](seed)))
        assert list(before) == list(after)
        changed = [name for name in before if before[name] != after[name]]
        assert changed
        for name in changed:
            one, other = (ET.fromstring(each[name]) for each in (before, after))
            if kind != "epub":  # whose attributes have text
                assert skeleton(one) == skeleton(other), (seed, name)
            assert [each.tag for each in one.iter() if each.tag not in _RUNS] == [
                each.tag for each in other.iter() if each.tag not in _RUNS
            ], (seed, name)
            words = ["".join(each.itertext()) for each in (one, other)]
            assert squeezed(words[0]) == squeezed(words[1]), (seed, name)
            assert not untranslated(words[1]), (seed, name)
            kept = [Counter(re.findall(r"kept\d*", each[name].decode())) for each in (before, after)]
            assert kept[0] == kept[1], (seed, name)


@pytest.mark.parametrize("kind", _AROUND)
def test_text_files(kind: str) -> None:
    for seed in range(NUM_FILES):
        given = MAKERS[kind](seed).decode()
        found = back(kind, given.encode()).decode()
        assert found.lower().split() == given.lower().split(), seed
        assert Counter(re.findall(r"kept\d*", found)) == Counter(re.findall(r"kept\d*", given)), seed
        assert not untranslated(found), seed
        assert ("\r\n" in found) == ("\r\n" in given), seed


def test_catalogues() -> None:
    polib = pytest.importorskip("polib", reason="polib is not installed: pip install '.[dev]'")
    for seed in range(NUM_FILES):
        given = po(seed).decode()
        before, after = polib.pofile(given), polib.pofile(back("po", given.encode()).decode())
        for one, other in zip(before, after, strict=True):
            assert (one.msgid, one.msgctxt, one.flags, one.obsolete) == (
                other.msgid,
                other.msgctxt,
                other.flags,
                other.obsolete,
            )
            if one.obsolete or (one.msgstr and not one.fuzzy):
                assert one.msgstr == other.msgstr
            elif one.msgid_plural:
                assert {i: form.lower() for i, form in other.msgstr_plural.items()} == {
                    0: one.msgid,
                    1: one.msgid_plural,
                }
            else:
                assert squeezed(other.msgstr) == squeezed(one.msgid)
                assert not untranslated(other.msgstr)


def _children(unit: ET.Element, name: str) -> Iterator[ET.Element]:
    return (each for each in unit.iter() if each.tag.rpartition("}")[2] == name)


@pytest.mark.parametrize("kind", ["tmx", "xliff"])
def test_texts_beside_their_sources(kind: str) -> None:
    names = {"tmx": ("tu", "seg"), "xliff": ("segment", "target")}
    num_new = 0
    for seed in range(NUM_FILES):
        given = MAKERS[kind](seed)
        one, other = ET.fromstring(given), ET.fromstring(back(kind, given))
        unit, target = names[kind]
        if kind == "xliff" and seed % 2 == 0:
            unit = "trans-unit"
        for before, after in zip(_children(one, unit), _children(other, unit), strict=True):
            new = list(_children(after, target))[len(list(_children(before, target))) if kind == "tmx" else 0 :]
            if (
                kind == "xliff"
                and [*_children(before, "target")]
                and not squeezed("".join(new[0].itertext())).isupper()
            ):
                assert [ET.tostring(each) for each in new] == [
                    ET.tostring(each) for each in _children(before, target)
                ] or (
                    squeezed("".join(new[0].itertext()))
                    == squeezed("".join(next(_children(after, "source")).itertext()))
                )
            for each in new:
                sources = [*_children(after, "seg" if kind == "tmx" else "source")]
                source = next((s for s in sources if untranslated("".join(s.itertext()))), None)
                if source is None:
                    continue
                num_new += 1
                assert squeezed("".join(each.itertext())) == squeezed("".join(source.itertext())), seed
                assert [(e.tag, e.attrib) for e in each.iter()][1:] == [(e.tag, e.attrib) for e in source.iter()][1:], (
                    seed
                )
                assert not untranslated("".join(each.itertext())), seed
    assert num_new > NUM_FILES


# --- the programs that own the formats -----------------------------------------------------------------------


def test_python_docx_opens_them() -> None:
    docx_library = pytest.importorskip("docx", reason="python-docx is not installed: pip install '.[dev]'")

    def texts(data: bytes) -> list[str]:
        document = docx_library.Document(io.BytesIO(data))
        section = document.sections[0]
        cells = [cell for each in document.tables for row in each.rows for cell in row.cells]
        stories = [document, section.header, section.footer, *cells]
        return [paragraph.text for story in stories for paragraph in story.paragraphs]

    for seed in range(NUM_FILES):
        before, after = texts(MAKERS["docx"](seed)), texts(back("docx", MAKERS["docx"](seed)))
        assert [*map(squeezed, before)] == [*map(squeezed, after)], seed
        assert any(after)
        assert not untranslated(" ".join(after)), seed


@cache
def presentation(seed: int) -> bytes:
    """Returns a presentation of python-pptx with made shapes and notes."""
    pptx_library = pytest.importorskip("pptx", reason="python-pptx is not installed: pip install '.[dev]'")
    from lxml import etree

    space = f'xmlns:a="{SLIDE_SPACE}" xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
    shapes, notes = document_makers.slide_parts(seed)
    made, file = pptx_library.Presentation(), io.BytesIO()
    slide = made.slides.add_slide(made.slide_layouts[5])
    for shape in etree.fromstring(f"<x {space}>{''.join(shapes)}</x>"):
        slide.shapes._spTree.append(shape)
    for paragraph in etree.fromstring(f"<x {space}>{notes}</x>"):
        slide.notes_slide.notes_text_frame._txBody.append(paragraph)
    made.save(file)
    return file.getvalue()


def test_python_pptx_opens_them() -> None:
    pptx_library = pytest.importorskip("pptx", reason="python-pptx is not installed: pip install '.[dev]'")

    def texts(data: bytes) -> list[str]:
        [slide] = pptx_library.Presentation(io.BytesIO(data)).slides
        return [
            *(each.text for each in slide.shapes._spTree.iter(f"{{{SLIDE_SPACE}}}p")),
            slide.notes_slide.notes_text_frame.text,
        ]

    for seed in range(NUM_FILES):
        given = presentation(seed)
        before, after = texts(given), texts(back("pptx", given))
        assert [*map(squeezed, before)] == [*map(squeezed, after)], seed
        assert not untranslated(" ".join(after)), seed


def test_odfpy_opens_them() -> None:
    pytest.importorskip("odf", reason="odfpy is not installed: pip install '.[dev]'")
    from odf import opendocument, teletype

    for seed in range(NUM_FILES):
        before, after = (
            teletype.extractText(opendocument.load(io.BytesIO(data)).text)
            for data in (MAKERS["odt"](seed), back("odt", MAKERS["odt"](seed)))
        )
        assert squeezed(before) == squeezed(after), seed
        assert not untranslated(after), seed


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["docx", "odt", "pptx"])
def test_libreoffice_opens_them(tmp_path: Path, kind: str) -> None:
    """What it reads of the translations is what it reads of the sources, but for the language."""
    office = shutil.which("soffice")
    if office is None:
        pytest.skip("LibreOffice is not installed: apt install libreoffice-writer-nogui libreoffice-impress-nogui")
    make = presentation if kind == "pptx" else MAKERS[kind]
    target = "odp" if kind == "pptx" else "txt"
    for seed in range(NUM_FILES):
        (tmp_path / f"{seed}-given.{kind}").write_bytes(make(seed))
        (tmp_path / f"{seed}-found.{kind}").write_bytes(back(kind, make(seed)))
    home = f"-env:UserInstallation={(tmp_path / 'home').as_uri()}"
    form = "txt:Text (encoded):UTF8" if target == "txt" else target
    files = [*map(str, sorted(tmp_path.glob(f"*.{kind}")))]
    command = [office, home, "--headless", "--convert-to", form, "--outdir", str(tmp_path / "out"), *files]
    subprocess.run(command, check=True, timeout=1200, capture_output=True)

    def read(path: Path) -> str:
        data = path.read_bytes()
        return "".join(ET.fromstring(members(data)["content.xml"]).itertext()) if target == "odp" else data.decode()

    for seed in range(NUM_FILES):
        before, after = (read(tmp_path / "out" / f"{seed}-{what}.{target}") for what in ("given", "found"))
        assert squeezed(before), seed
        assert squeezed(before) == squeezed(after), seed
        assert not untranslated(after), seed
