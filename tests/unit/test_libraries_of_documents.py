"""The libraries that own the formats open what was translated; those that are not installed are skipped."""

import io
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from made_documents import open_document, run, translated, word
from text_engine import same


def test_a_letter_of_python_docx() -> None:
    docx = pytest.importorskip("docx", reason="python-docx is not installed: pip install '.[dev]'")
    given, made = io.BytesIO(), docx.Document()
    made.add_heading("A letter", 1)
    paragraph = made.add_paragraph("A ")
    paragraph.add_run("dog").bold = True
    paragraph.add_run(" runs.")
    made.add_table(1, 2).cell(0, 1).text = "cell"
    made.sections[0].header.paragraphs[0].text = "top"
    made.save(given)
    found = docx.Document(io.BytesIO(translated(given.getvalue(), "a.docx")))
    assert [each.text for each in found.paragraphs] == ["A LETTER", "A DOG RUNS."]
    assert [(each.text, each.bold) for each in found.paragraphs[1].runs] == [
        ("A ", None),
        ("DOG", True),
        (" RUNS.", None),
    ]
    assert found.tables[0].cell(0, 1).text == "CELL"
    assert found.sections[0].header.paragraphs[0].text == "TOP"
    assert translated(given.getvalue(), "a.docx", same) == given.getvalue()


def presentation() -> bytes:
    """Returns a presentation of python-pptx."""
    pptx = pytest.importorskip("pptx", reason="python-pptx is not installed: pip install '.[dev]'")
    file, made = io.BytesIO(), pptx.Presentation()
    for title in ("A dog", "Two dogs"):
        slide = made.slides.add_slide(made.slide_layouts[1])
        slide.shapes.title.text = title
        paragraph = slide.placeholders[1].text_frame.paragraphs[0]
        for text, bold in (("A ", None), ("man", True), (" runs", None)):
            paragraph.add_run().text = text
            paragraph.runs[-1].font.bold = bold
        slide.notes_slide.notes_text_frame.text = "say it"
    made.save(file)
    return file.getvalue()


def test_slides_of_python_pptx() -> None:
    pptx = pytest.importorskip("pptx", reason="python-pptx is not installed: pip install '.[dev]'")
    given = presentation()
    found = pptx.Presentation(io.BytesIO(translated(given, "a.pptx")))
    assert [slide.shapes.title.text for slide in found.slides] == ["A DOG", "TWO DOGS"]
    [runs] = {
        tuple((r.text, r.font.bold) for r in s.placeholders[1].text_frame.paragraphs[0].runs) for s in found.slides
    }
    assert runs == (("A ", None), ("MAN", True), (" RUNS", None))
    assert {slide.notes_slide.notes_text_frame.text for slide in found.slides} == {"SAY IT"}
    assert translated(given, "a.pptx", same) == given


def test_a_text_of_odfpy() -> None:
    pytest.importorskip("odf", reason="odfpy is not installed: pip install '.[dev]'")
    from odf import opendocument, teletype, text

    given, made = io.BytesIO(), opendocument.OpenDocumentText()
    made.text.addElement(text.H(outlinelevel=1, text="A dog"))
    paragraph = text.P(text="A ")
    paragraph.addElement(text.Span(text="man"))
    paragraph.addText(" runs.")
    made.text.addElement(paragraph)
    made.write(given)
    found = opendocument.load(io.BytesIO(translated(given.getvalue(), "a.odt")))
    assert [teletype.extractText(each) for each in found.text.childNodes] == ["A DOG", "A MAN RUNS."]
    assert [teletype.extractText(each) for each in found.getElementsByType(text.Span)] == ["MAN"]
    assert translated(given.getvalue(), "a.odt", same) == given.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.docx", "a.odt", "a.pptx"])
def test_libreoffice_opens_it(tmp_path: Path, name: str) -> None:
    office = shutil.which("soffice")
    if office is None:
        pytest.skip("LibreOffice is not installed: apt install libreoffice-writer-nogui libreoffice-impress-nogui")
    makers: dict[str, Callable[[], bytes]] = {
        "a.docx": lambda: word(f"<w:p>{run('A ')}{run('dog', '<w:b/>')}</w:p>"),
        "a.odt": lambda: open_document("<text:p>A <text:span>dog</text:span></text:p>"),
        "a.pptx": presentation,
    }
    (tmp_path / name).write_bytes(translated(makers[name](), name))
    home = f"-env:UserInstallation={(tmp_path / 'home').as_uri()}"
    command = [office, home, "--headless", "--convert-to", "pdf", "--outdir", str(tmp_path), str(tmp_path / name)]
    subprocess.run(command, check=True, timeout=300, capture_output=True)
    assert (tmp_path / name).with_suffix(".pdf").read_bytes().startswith(b"%PDF")
