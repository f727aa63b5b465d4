"""Progress bars: when they appear, what they count, and that reading a corpus fills them."""

import io
import re
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tqdm

from transduce.data import corpus, progress
from transduce.data.corpus import Part, read_chunks
from transduce.data.progress import elapsed_time, progress_bar


@pytest.mark.parametrize(("total", "scaled"), [(None, True), (999, False), (1000, True)])
@pytest.mark.parametrize("terminal", [False, True])
def test_a_bar_appears_after_two_seconds(
    monkeypatch: pytest.MonkeyPatch, total: int | None, scaled: bool, terminal: bool
) -> None:
    monkeypatch.setattr(tqdm, "tqdm", lambda **options: options)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert progress_bar("reading", total, unit="B", shown=True) == {
        "desc": "reading",
        "total": total,
        "unit": "B",
        "unit_scale": scaled,
        "dynamic_ncols": True,
        "leave": None,
        "delay": 2.0,
        "mininterval": 0.2 if terminal else 10.0,
    }


def test_a_bar_that_is_not_shown_counts_all_the_same() -> None:
    with progress_bar("reading", 9, unit="B", shown=False) as bar:
        bar.update(3)
        bar.update()
        bar.set_postfix_str("x")
        assert (bar.initial, bar.n, bar.total) == (0, 4, 9)


@pytest.mark.parametrize("shown", [False, True])
def test_the_time_of_a_block_is_shown_by_a_thread_that_ends_with_it(
    monkeypatch: pytest.MonkeyPatch, shown: bool
) -> None:
    monkeypatch.setattr(progress, "_DELAY_SECONDS", 0.01)
    monkeypatch.setattr(sys, "stderr", io.StringIO())

    def running() -> bool:
        return "progress" in {thread.name for thread in threading.enumerate()}

    begun = threading.Event()
    real = tqdm.tqdm

    def bar(**options: Any) -> Any:
        assert options["desc"] == "learning"
        begun.set()
        return real(**options, file=io.StringIO())

    monkeypatch.setattr(tqdm, "tqdm", bar)
    with elapsed_time("learning", shown=shown):
        assert running() == shown
        assert not shown or begun.wait(60)
    assert not running()
    assert begun.is_set() == shown


def test_the_time_counts_from_the_start_of_the_block(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_DELAY_SECONDS", 0.01)
    monkeypatch.setattr(progress, "time", SimpleNamespace(time=lambda: time.time() - 65), raising=False)
    shown = threading.Event()
    refresh = tqdm.tqdm.refresh
    monkeypatch.setattr(tqdm.tqdm, "refresh", lambda bar: (refresh(bar), shown.set()))
    with elapsed_time("learning", shown=True):
        assert shown.wait(60)
    assert re.findall(r"\d\d:\d\d", capsys.readouterr().err)[0] == "01:05"


def test_reading_a_corpus_fills_its_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the bytes of all files; after a chunk it is no farther than what was read."""
    monkeypatch.setattr(corpus, "CHUNK_PAIRS", 2)
    parts = []
    for name, lines in (("a", 5), ("b", 3)):
        paths = (tmp_path / f"{name}.en", tmp_path / f"{name}.de")
        for path in paths:
            path.write_text("".join(f"{path.name} {i}\n" for i in range(lines)))
        parts.append(Part(paths))
    sizes = [sum(path.stat().st_size for path in part.paths) for part in parts]
    asked: list[Any] = []

    def bar(label: str, total: int, *, unit: str, shown: bool) -> Any:
        asked.append((label, total, unit, shown, progress_bar(label, total, unit=unit, shown=False)))
        return asked[-1][-1]

    monkeypatch.setattr(corpus, "progress_bar", bar)
    seen = [
        (chunk.part, chunk.start, chunk.line, len(chunk.pairs), asked[0][-1].n)
        for chunk in read_chunks(parts, "reading", progress=True)
    ]
    assert [each[:4] for each in seen] == [(0, 0, 1, 2), (0, 2, 3, 2), (0, 4, 5, 1), (1, 5, 1, 2), (1, 7, 3, 1)]
    assert [each[4] for each in seen] == [0, sizes[0], sizes[0], sizes[0], sum(sizes)]  # a small file is read at once
    assert asked[0][:4] == ("reading", sum(sizes), "B", True)
    assert asked[0][-1].n == sum(sizes)
