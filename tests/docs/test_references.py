"""The references that are written into pages say what the code says."""

from pathlib import Path

import pytest

import references
from transduce.cli.main import COMMANDS

_DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_pages_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert references.main(["--check"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        (
            "guides/configuration.md",
            ["| `model.d_v` | `64` | whole number, from 1 to 1,000,000 | width of a head's values |"],
        ),
        ("reference/command-line.md", [f"## {name}" for name in COMMANDS]),
        (
            "reference/http.md",
            ["### `POST /api/translate`", "| `n_best` | integer from 1 | Translations of each text. Default: `1`. |"],
        ),
        (
            "reference/python.md",
            [
                "## `transduce.config`",
                "### `Translator`",
                "    def input_pieces(self) -> tuple[str, ...]: ...",
            ],
        ),
    ],
)
def test_a_page_has_its_reference_in_plain_markdown(page: str, lines: list[str]) -> None:
    text = (_DOCS / page).read_text(encoding="utf-8")
    assert not [line for line in lines if line not in text.splitlines()]
    assert "{.entries}" not in text
    assert "eval-rst" not in text


def test_an_old_page_is_noticed_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Keys\n\nHead.\n\n<!-- site: configuration -->\nold\n<!-- end -->\n\nTail.\n", encoding="utf-8")
    monkeypatch.setattr(references, "_DOCS", tmp_path)
    monkeypatch.setattr(references, "PAGES", ("page.md",))
    assert references.main(["--check"]) == 1
    assert "old\n" in page.read_text(encoding="utf-8")
    assert "docs/page.md: not up to date: make reference" in capsys.readouterr().err
    assert references.main([]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Keys\n\nHead.\n\n<!-- site: configuration -->\n\n## `[model]`\n")
    assert text.endswith("\n<!-- end -->\n\nTail.\n")
    assert "old\n" not in text
    assert references.main(["--check"]) == 0


def test_the_site_makes_it_with_classes_and_directives() -> None:
    text = references.made_for_site((_DOCS / "reference/python.md").read_text(encoding="utf-8"))
    assert "```{eval-rst}\n.. autoclass:: transduce.Attention\n" in text
    assert "### `Attention`" not in text
