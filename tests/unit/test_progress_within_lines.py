"""Progress within very long lines: their sentences are counted."""

import io
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

from text_engine import text_translator
from transduce.config import DecodeConfig
from transduce.data import progress as progress_module
from transduce.translation.pipeline import Request, TextOptions, run_pipeline
from transduce.translation.pipeline import pipeline as pipeline_module
from transduce.translation.result import Translation
from transduce.translation.streams import FileJob, translate_file
from transduce.translation.windows import Window

SENTENCES = [f"A {'big ' * (number % 7)}dog runs {number}." for number in range(300)]
EACH = TextOptions(split="always")


class Bar:
    """Notes what would be shown."""

    shown: ClassVar[list["Bar"]] = []

    def __init__(self, label: str, total: int | None, *, unit: str, shown: bool) -> None:
        self.label, self.total, self.unit, self.updates = label, total, unit, list[int]()
        if shown:
            Bar.shown.append(self)

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, count: int) -> None:
        self.updates.append(count)


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[Bar]:
    monkeypatch.setattr(pipeline_module, "progress_bar", Bar)
    monkeypatch.setattr(Bar, "shown", [])
    return Bar.shown


def translate(
    lines: list[str], *, independent: bool = True, progress: bool, n_best: int = 1
) -> tuple[list[str], list[int]]:
    """Returns the translations, with batches of 4, and the numbers of sentences of each call of the engine."""
    translator = text_translator(str.upper)
    calls, original = list[int](), translator.engine.translate

    def counted(sources: Any, options: DecodeConfig, n_best: int = 1) -> Any:
        calls.append(len(sources))
        return original(sources, options, n_best)

    translator.engine.translate = counted  # type: ignore[method-assign,assignment]
    translator.engine.independent_lines = independent
    found: list[list[Translation]] = run_pipeline(
        translator, Window(1, lines), Request(translator.options, n_best, EACH), progress=progress
    )
    assert [len(each) for each in found] == [n_best] * len(lines)
    return [best.text for best, *_ in found], calls


def test_sentences_of_a_long_line_are_counted(bars: list[Bar]) -> None:
    """32 batches of 4 sentences at a time."""
    line = " ".join(SENTENCES)
    assert translate([line], progress=True, n_best=2) == ([line.upper()], [128, 128, 44])
    (bar,) = bars
    assert (bar.label, bar.total, bar.unit, bar.updates) == ("sentences", 300, " sentences", [128, 128, 44])


@pytest.mark.parametrize(
    ("count", "independent", "progress"),
    [(128, True, True), (300, False, True), (300, True, False)],
    ids=["few", "translations depend on their neighbours", "not wanted"],
)
def test_otherwise_all_are_translated_at_once(bars: list[Bar], count: int, independent: bool, progress: bool) -> None:
    line = " ".join(SENTENCES[:count])
    assert translate([line], independent=independent, progress=progress) == ([line.upper()], [count])
    assert not bars


class Terminal(io.StringIO):
    """A terminal that keeps what it shows."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("progress", [True, False])
def test_both_bars_of_a_file_of_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, progress: bool) -> None:
    (tmp_path / "book.txt").write_text(" ".join(SENTENCES) + "\n", encoding="utf-8")
    monkeypatch.setattr(progress_module, "_DELAY_SECONDS", 0.0)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    translate_file(
        text_translator(str.upper),
        tmp_path / "book.txt",
        tmp_path / "out.txt",
        FileJob(text_options=EACH, progress=progress),
    )
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == " ".join(SENTENCES).upper() + "\n"
    said = terminal.getvalue()
    if progress:
        assert "translating:   0%" in said
        assert "sentences:   0%" in said
        assert "0/300" in said
    else:
        assert not said
