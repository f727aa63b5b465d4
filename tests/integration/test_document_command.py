"""`transduce translate MODEL DOCUMENT` on a tiny model with random weights: what it says is noise, how is not."""

import re
from pathlib import Path

import pytest

from made_documents import member, run, word
from made_models import untied_folder
from transduce.cli import main as command_line
from transduce.errors import DataError, naming

pytestmark = [pytest.mark.computes, pytest.mark.usefixtures("only_translate")]

LETTER = word(f"<w:p>{run('Two ')}{run('dogs', '<w:b/>')}{run(' run.')}</w:p><w:p>{run('1.5')}</w:p>")


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untied_folder(tmp_path_factory.mktemp("models") / "tiny")


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_letter(model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str) -> None:
    source, output = tmp_path / "letter.docx", tmp_path / "brief.docx"
    source.write_bytes(LETTER)
    arguments = [
        "translate",
        str(model_folder),
        str(source),
        "--output",
        str(output),
        "--engine",
        engine,
        "--device",
        "cpu",
    ]
    assert command_line.main(arguments) == 0
    assert f"{output}: 1 text translated." in capsys.readouterr().err
    before, after = (member(path.read_bytes(), "word/document.xml") for path in (source, output))
    assert after != before
    assert "".join(re.findall(r"<w:t[^>]*>([^<]+)", after)) != "Two dogs run.1.5"
    assert after.count("<w:b/>") == 1
    assert after.endswith(before[before.index("</w:p><w:p>") :])
    assert command_line.main(arguments) == 3
    assert "exists already. Add --overwrite" in capsys.readouterr().err
    assert command_line.main([*arguments, "--overwrite", "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["brief.docx", "letter.docx"]


def test_a_glossary(model_folder: Path, tmp_path: Path) -> None:
    source, output, glossary = tmp_path / "page.html", tmp_path / "seite.html", tmp_path / "terms.tsv"
    source.write_text("<ul><li>Two dogs run.</li><li>A man.</li></ul>", encoding="utf-8")
    glossary.write_text("dogs\tHunde\n", encoding="utf-8")
    arguments = ["translate", str(model_folder), str(source), "--output", str(output), "--glossary", str(glossary)]
    assert command_line.main([*arguments, "--device", "cpu", "--beam-size", "4"]) == 0
    first, second = re.findall(r"<li>(.*?)</li>", output.read_text(encoding="utf-8"))
    assert "Hunde" in first
    assert "Hunde" not in second


def test_the_command_line_adds_its_own_advice(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, content, advice in (
        ("a.pdf", b"%PDF-1.7", "with Word or LibreOffice. Or to text, with pdftotext.\n"),
        ("a.docx", b"a dog", "give it the extension of that format. Or name the format: --format.\n"),
    ):
        (tmp_path / name).write_bytes(content)
        arguments = ["translate", str(model_folder), str(tmp_path / name), "--output", str(tmp_path / "out")]
        assert command_line.main(arguments) == 3
        assert capsys.readouterr().err.endswith(advice)


def test_an_error_that_is_named_keeps_its_advice() -> None:
    with pytest.raises(DataError, match=r"^a: b$") as found, naming("a"):
        raise DataError("b").with_advice("--c")
    assert found.value.advice == "--c"


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["letter.docx"], 2, "A document is written to a file: name it with --output"),
        (["letter.docx", "--output", "o.docx", "--n-best", "2"], 2, "--n-best is for lines"),
        (["letter.docx", "--output", "o.docx", "--alignment"], 2, "--alignment is for lines"),
        (
            ["letter.docx", "--output", "o.docx.gz"],
            2,
            "--output o.docx.gz: a document is not compressed: leave out .gz.",
        ),
        (["letter.docx", "--output", "o.docx", "--columns", " ,"], 2, "--columns names no column: give names"),
        (["letter.docx", "--output", "o.docx", "--columns", ""], 2, "--columns names no column: give names"),
        (["letter.docx", "--output", "o.docx", "--target-language", 'D "E'], 2, "'D \"E' is not a language code"),
        (["letter.docx", "--output", "o.docx", "--source", "letter.docx"], 2, "--source is for lines"),
        (["letter.docx", "--output", "o.docx", "--format", "dox"], 2, "Did you mean 'docx'"),
        (["letter.odd", "--output", "o.docx"], 2, "letter.odd: its extension stands for no known format"),
        (["letter.odd", "--output", "o.docx"], 2, "To translate a file line by line: --source letter.odd."),
        (["letter.odd"], 2, "To translate a file line by line: --source letter.odd."),
        (["leter.docx", "--output", "o.docx"], 3, "letter.docx"),
        (["letter.docx", "--output", "letter.docx", "--overwrite"], 3, "is an input of this command"),
        (["--source", "letter.docx", "--format", "docx"], 2, "--format is for documents"),
    ],
)
def test_wrong_options(
    model_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("letter.docx").write_bytes(LETTER)
    assert command_line.main(["translate", str(model_folder), *options]) == code
    assert message in capsys.readouterr().err
    assert Path("letter.docx").read_bytes() == LETTER
    assert len(list(tmp_path.iterdir())) == 1
