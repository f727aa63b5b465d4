"""Windows done by many workers: in order, only so far ahead, and with the bytes of one translator."""

import contextlib
import gzip
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from made_models import made_bundle
from text_engine import text_translator
from transduce.config import DecodeConfig
from transduce.engines.loading import checksums_of
from transduce.errors import ConfigError, DataError
from transduce.translation.constraints.line_constraints import Constraints
from transduce.translation.pipeline import Request, TextOptions
from transduce.translation.streams import Columns, FileJob, JsonLines, Layout, PlainLines, Summary, translate_file
from transduce.translation.streams.cluster import _common
from transduce.translation.streams.file_job import translate_window
from transduce.translation.streams.workers import FileRequest, JobFingerprint, Rows, fingerprint_of, in_order
from transduce.translation.translator import Translator
from transduce.translation.windows import Window

LINES = [f'{{"id": {number}, "text": "line {number} of\\tthe dog"}}\tcolumn {number}' for number in range(60)]


class Threads:
    """Workers of one process, that take different times: what Ray does, without Ray."""

    def __init__(self, count: int, *, ahead: int = 6) -> None:
        self.options = DecodeConfig(batch_size=4)
        self.ahead = ahead
        self._translators = [text_translator(str.upper) for _ in range(count)]
        self._lock = threading.Lock()
        self._chance = random.Random(1)
        self.executor = ThreadPoolExecutor(count)
        self.num_submitted = 0

    def fingerprint(self, request: FileRequest) -> JobFingerprint:
        return fingerprint_of(self._translators[0], request)

    def translate(self, windows: Iterable[Window], request: FileRequest) -> Iterator[tuple[Window, Rows]]:
        self.request = request
        return in_order(windows, self.submit, self.ahead)

    def submit(self, window: Window) -> Callable[[], Rows]:
        self.num_submitted += 1
        return self.executor.submit(self._work, window, self._chance.random() * 0.02).result

    def _work(self, window: Window, seconds: float) -> Rows:
        time.sleep(seconds)
        with self._lock:
            translator = self._translators.pop()
        try:
            return translate_window(translator, self.request, window)[1]
        finally:
            self._translators.append(translator)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("".join(line + "\n" for line in LINES), encoding="utf-8")
    return path


@contextlib.contextmanager
def threads(count: int = 3, *, ahead: int = 6) -> Iterator[Threads]:
    workers = Threads(count, ahead=ahead)
    with workers.executor:
        yield workers


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("layout", [PlainLines(), PlainLines(many=True, scores=True), Columns(2, replace=True)])
def test_the_bytes_are_those_of_one_translator(source: Path, tmp_path: Path, suffix: str, layout: Layout) -> None:
    one, many = tmp_path / f"one{suffix}", tmp_path / f"many{suffix}"
    said: list[str] = []
    job = FileJob(layout=layout, window=7, n_best=2, warn=said.append)
    translate_file(text_translator(str.upper), source, one, job)
    warnings_of_one = said.copy()
    said.clear()
    with threads() as workers:
        assert translate_file(workers, source, many, job) == Summary(60, 0)
    assert many.read_bytes() == one.read_bytes()
    assert said == warnings_of_one
    assert len(said) == (0 if isinstance(layout, Columns) else 2)  # the vocabulary has no tab: the first, and how many


def test_many_workers_resume_the_job_of_one_and_the_other_way_round(source: Path, tmp_path: Path) -> None:
    good = source.read_text()
    whole = tmp_path / "whole.gz"
    translate_file(text_translator(str.upper), source, whole, FileJob(layout=Columns(2), window=5))
    lines = good.split("\n")
    for begin_with_many in (True, False):
        output = tmp_path / f"out{begin_with_many}.gz"
        lines[33] = "no tab"
        source.write_text("\n".join(lines))
        with threads() as workers:
            first, second = (workers, text_translator(str.upper)) if begin_with_many else (None, workers)
            with pytest.raises(DataError, match=rf"{source.name}, line 34: has 1 column"):
                translate_file(
                    first or text_translator(str.upper), source, output, FileJob(layout=Columns(2), window=5)
                )
            source.write_text(good)
            summary = translate_file(second, source, output, FileJob(layout=Columns(2), window=5, resume=True))
        assert summary == Summary(60, 30)  # all windows before the bad line's were kept, and none was done again
        assert output.read_bytes() == whole.read_bytes()


def test_another_engine_cannot_resume(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source.write_text("a\tb\nc\n")
    with threads() as workers, pytest.raises(DataError, match="line 2"):
        translate_file(workers, source, tmp_path / "out", FileJob(layout=Columns(2), window=1))
    source.write_text("a\tb\nc\td\n")
    with threads() as workers:
        monkeypatch.setattr(workers, "fingerprint", lambda request: JobFingerprint({}, "another", None))
        with pytest.raises(ConfigError, match="engine = text, and now engine = another"):
            translate_file(workers, source, tmp_path / "out", FileJob(layout=Columns(2), window=1, resume=True))


def test_windows_are_read_only_so_far_ahead(tmp_path: Path) -> None:
    num_read = 0

    def windows() -> Iterator[Window]:
        nonlocal num_read
        for number in range(50):
            num_read += 1
            yield Window(number + 1, [f"line {number}"], None)

    request = FileRequest(Request(DecodeConfig()), PlainLines())
    with threads(ahead=4) as workers:
        for index, (window, rows) in enumerate(workers.translate(windows(), request)):
            assert window.first == index + 1
            assert rows.rows == [f"LINE {index}"]
            assert num_read <= index + 4
    assert num_read == workers.num_submitted == 50


def test_a_file_that_cannot_be_read_to_its_end_is_done_up_to_there(tmp_path: Path) -> None:
    """With windows read ahead, the failure comes before the rows of what was read."""
    source, output = tmp_path / "in.gz", tmp_path / "out"
    noise = random.Random(3)  # the reader hands out what it has unpacked, so the file must not pack well
    lines = ["".join(chr(97 + noise.randrange(26)) for _ in range(500)) for _ in range(700)]
    source.write_bytes(gzip.compress("".join(line + "\n" for line in lines).encode())[:-40_000])
    done = {}
    for name in ("one", "many"):
        output = tmp_path / name
        with threads() as workers, pytest.raises(DataError, match="damaged or cut short"):
            translate_file(
                workers if name == "many" else text_translator(str.upper), source, output, FileJob(window=100)
            )
        done[name] = output.with_name(name + ".partial").read_bytes()
    assert done["one"] == done["many"] != b""


def test_workers_must_have_the_model_that_is_here(tmp_path: Path) -> None:
    """Ray's workers open the folder where they run: an older model there would write the whole file unnoticed."""
    here, there = made_bundle(tmp_path / "here"), made_bundle(tmp_path / "there", seed=4)
    introduced = [
        ("elsewhere", "1", JobFingerprint({**checksums_of(there), "the shortlist": "12"}, "torch on cpu", None))
    ] * 2
    assert _common(introduced, there) == introduced[0][2]
    with pytest.raises(ConfigError, match="is not the same here and on elsewhere"):
        _common(introduced, here)


def test_constraints_travel_with_their_lines(source: Path) -> None:
    """The text engine takes no constraints: its TypeError shows that they arrive."""
    constraints = [Constraints(prefix=f"{number}") for number in range(60)]
    seen: list[Window] = []
    with threads() as workers:
        submit = workers.submit
        workers.submit = lambda window: (seen.append(window), submit(window))[1]  # type: ignore[method-assign]
        with pytest.raises(TypeError):
            translate_file(workers, source, source.with_name("out"), FileJob(window=7, constraints=constraints))
    assert [each.prefix for window in seen for each in window.constraints or ()] == [
        str(number) for window in seen for number in range(window.first - 1, window.first - 1 + len(window.lines))
    ]


def test_json_lines_keep_their_bytes(source: Path, tmp_path: Path) -> None:
    source.write_text('{"n": 1.50, "text": "a dog"}\n\n{"text": "runs"}\n')
    with threads() as workers:
        translate_file(workers, source, tmp_path / "out", FileJob(layout=JsonLines("text"), window=1))
    rows = (tmp_path / "out").read_text()
    assert rows == '{"n": 1.50, "text": "a dog", "translation": "A DOG"}\n\n{"text": "runs", "translation": "RUNS"}\n'


def test_a_job_with_markup_may_change_between_engines_that_place_tags_alike(tmp_path: Path) -> None:
    bundle = made_bundle(tmp_path / "model")
    found = {}
    for engine in ("auto", "ctranslate2", "torch"):
        translator = Translator.load(bundle.path, engine=engine, device="cpu")
        request = FileRequest(Request(translator.options, text_options=TextOptions(markup="html")), PlainLines())
        found[engine] = fingerprint_of(translator, request)
    assert found["auto"] == found["ctranslate2"]
    assert found["auto"] != found["torch"]
