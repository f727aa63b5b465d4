"""The service's page: tables whose columns are chosen, and documents that fail."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

from fake_service import read_documents_here
from opened_page import SECONDS, Opened, Pages
from transduce.serve.operations.keys import KeyRing, add_key
from transduce.translation.documents import FORMATS

pytestmark = pytest.mark.slow
TABLE = 'id;"a;name";text\n7;dog;A dog runs.\n8;cat;A cat runs.\n'


@pytest.fixture(autouse=True)
def read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    read_documents_here(monkeypatch)


def _sent(page: Opened, folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    page.page.set_input_files("#file", folder / name)


def _downloaded(page: Opened) -> str:
    with page.page.expect_download(timeout=SECONDS) as download:
        page.page.click("#jobs button:has-text('Download')")
    return Path(download.value.path()).read_text(encoding="utf-8")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_columns_of_a_table_are_chosen(page: Opened, tmp_path: Path, encoding: str) -> None:
    _sent(page, tmp_path, "goods.csv", TABLE.encode(encoding))
    page.text_of("#jobs", "Which columns are to be translated?")
    labels = page.page.locator("#jobs .columns [role=group] label").all_inner_texts()
    assert [each.strip() for each in labels] == ["id", "a;name", "text"]
    page.page.uncheck("#jobs .columns label:has-text('a;name') input")
    page.page.click("#jobs .columns button")
    page.text_of("#jobs", "Done.")
    with page.page.expect_download(timeout=SECONDS) as download:
        page.page.click("#jobs button:has-text('Download')")
    expected = TABLE.replace("A dog runs.", "Ein Hund rennt.").replace("A cat runs.", "Ein Katze rennt.")
    assert Path(download.value.path()).read_bytes().decode(encoding) == expected
    assert page.page.locator("#jobs .columns").count() == 0


def test_a_first_line_with_numbers_is_translated(page: Opened, tmp_path: Path) -> None:
    _sent(page, tmp_path, "goods.tsv", b"7\tA dog runs.\n8\tA cat runs.\n")
    assert not page.page.is_checked("#jobs .columns > label input")
    page.page.click("#jobs .columns button")
    page.text_of("#jobs", "Done.")
    assert _downloaded(page) == "7\tEin Hund rennt.\n8\tEin Katze rennt.\n"


def test_names_of_columns_are_not_broken_on_a_phone(pages: Pages, tmp_path: Path) -> None:
    with pages.opened(viewport={"width": 390, "height": 844}) as page:
        _sent(page, tmp_path, "goods.csv", b"id,name,description,price\n7,dog,A dog,3\n")
        page.text_of("#jobs", "Which columns are to be translated?")
        labels = page.page.locator("#jobs .columns [role=group] label").all()
        assert [each.bounding_box()["height"] for each in labels] == [36] * 4  # one line, as high as a button


def test_without_a_column_a_table_is_not_sent(page: Opened, tmp_path: Path) -> None:
    _sent(page, tmp_path, "goods.csv", b"text,text\nA dog,A cat\n")
    for index in range(2):
        page.page.locator("#jobs .columns [role=group] input").nth(index).uncheck()
    assert page.page.is_disabled("#jobs .columns button")
    page.page.click("#jobs button:has-text('Remove')")
    page.until("document.querySelector('#jobs').children.length === 0")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "old.xls",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
            "Failed: The file is from a version before 2007. Save it as .xlsx first.",
        ),
        ("none.docx", b"", "Failed: The file is empty."),
        ("scan.pdf", b"%PDF-1.7", "Failed: A PDF has to be converted first"),
    ],
)
def test_a_failure_looks_like_one(page: Opened, tmp_path: Path, name: str, content: bytes, message: str) -> None:
    _sent(page, tmp_path, name, content)
    page.text_of("#jobs .missed[role=alert]", message)
    assert page.page.inner_text("#jobs li").count(name) == 1


def test_a_document_that_comes_before_its_key_waits_for_it(pages: Pages, tmp_path: Path) -> None:
    secret = add_key(tmp_path / "keys.toml", "one")
    with pages.opened(keys=KeyRing(tmp_path / "keys.toml")) as page:
        page.page.select_option("#source", "en")
        page.page.select_option("#target", "de")
        _sent(page, tmp_path, "letter.txt", b"A dog runs.\n")
        page.text_of("#jobs", "A key is needed: enter it at the top of the page.")
        page.page.fill("#key", secret)
        page.page.keyboard.press("Enter")
        page.page.click("#jobs button:has-text('Try again')")
        page.text_of("#jobs", "Done.")
        assert _downloaded(page) == "Ein Hund rennt.\n"


def test_buttons_stay_where_they_are_beside_a_long_message(page: Opened, tmp_path: Path) -> None:
    page.service.warnings = ("This is a long remark about the text, which says much of what became of it. " * 5,)
    _sent(page, tmp_path, "short.docx", b"")
    _sent(page, tmp_path, "story.txt", b"A dog runs.")
    page.text_of("#jobs", "Done.")
    boxes = [each.bounding_box() for each in page.page.locator("#jobs button:has-text('Remove')").all()]
    assert boxes[0]["x"] == boxes[1]["x"]


def test_each_format_has_words() -> None:
    script = (files("transduce.serve.web") / "page" / "documents.js").read_text(encoding="utf-8")
    kinds = re.search(r"const KINDS = \[.*?^\];", script, re.DOTALL | re.MULTILINE)
    assert kinds is not None
    titles = {
        title
        for group in re.findall(r"\[([^\[\]]*)\]\]?,$", kinds[0], re.MULTILINE)
        for title in re.findall(r'"(.*?)"', group)
    }
    assert titles == {each.title for each in FORMATS.values()}
