"""What pages print is what the commands print, where that is cheap to run."""

import re
from pathlib import Path

import pytest

from transduce.cli.main import main
from transduce.config import preset_names

_DOCS = Path(__file__).resolve().parents[2] / "docs"
_QUICKSTART = (_DOCS / "quickstart.md").read_text(encoding="utf-8")


def block(page: str, beginning: str) -> str:
    """Returns the fenced block of a page that begins so."""
    text = (_DOCS / page).read_text(encoding="utf-8")
    [found] = [body for body in re.findall(r"^```\w*\n(.*?)^```$", text, re.M | re.S) if body.startswith(beginning)]
    return str(found)


def test_the_quickstart_shows_what_init_prints_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for language, word in (("en", "house"), ("de", "Haus")):
        lines = "".join(f"{word} {number} .\n" for number in range(60_000))
        (tmp_path / f"train.{language}").write_text(lines, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--train", "train.en", "train.de", "--output", "mine.toml"]) == 0
    steps = re.compile(r"[\d,_]+ steps")  # these depend on the length of the lines
    printed = capfd.readouterr()
    assert steps.sub("N steps", block("quickstart.md", "mine.toml: ")) in steps.sub(
        "N steps", printed.out + printed.err
    )
    assert block("quickstart.md", 'preset = "tiny"') in (tmp_path / "mine.toml").read_text(encoding="utf-8")


def test_scores_of_the_demo_are_the_same_on_all_pages() -> None:
    scores = block("guides/evaluation.md", "BLEU, 13a")
    assert block("quickstart.md", "BLEU, 13a") == scores
    [exact] = re.findall(r"BLEU, 13a +([\d.]+)", scores)
    assert f"BLEU {float(exact):.1f} on 1,000 held-out lines" in _QUICKSTART


def test_the_guide_to_training_lists_every_preset() -> None:
    table = (_DOCS / "guides/training.md").read_text(encoding="utf-8").partition("| preset |")[2].partition("\n\n")[0]
    rows_of_table_3 = re.compile(r"(paper|t2t-2017)-([a-d]\d|e)")
    listed = set(re.findall(r"`([\w-]+)`", table))
    assert {name for name in preset_names() if not rows_of_table_3.fullmatch(name)} <= listed <= set(preset_names())


def test_info_prints_the_presets_that_there_are(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--presets"]) == 0
    printed = capfd.readouterr().out
    assert [line.split()[0] for line in printed.splitlines()] == preset_names()
    assert re.search(r"^paper-base +63,045,632 parameters$", printed, re.M)
