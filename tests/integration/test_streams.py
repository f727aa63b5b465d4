"""Files through a translator: every layout and compression, killed and resumed, and in bounded memory."""

import gc
import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from made_models import made_bundle
from text_engine import TextEngine, text_translator
from transduce.config import DecodeConfig
from transduce.data.compression import zstd
from transduce.decoding.scores import Hypothesis
from transduce.engines.interface import TokenConstraints
from transduce.errors import ConfigError, DataError
from transduce.translation.constraints.line_constraints import Constraints
from transduce.translation.pipeline import TextOptions, calibration
from transduce.translation.pipeline.calibration import Calibration
from transduce.translation.streams import Columns, FileJob, JsonLines, PlainLines, Summary, translate_file
from transduce.translation.translator import Translator

_TESTS = Path(__file__).resolve().parents[1]
LINES = [f"line {number} of the dog" for number in range(80)]

# A job that takes its time; run again and again, and killed each time but the last.
_SLOW = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from text_engine import text_translator
from transduce.translation.streams import FileJob, translate_file

def slowly(text):
    time.sleep(0.02)
    return text.upper()

translate_file(text_translator(slowly), Path(sys.argv[2]), Path(sys.argv[3]), FileJob(window=3, resume=True))
"""


class Bound(TextEngine):
    """Takes conditions, and keeps none."""

    def translate(  # type: ignore[override]
        self,
        sources: Sequence[Sequence[int]],
        options: DecodeConfig,
        n_best: int = 1,
        conditions: Sequence[TokenConstraints] | None = None,
    ) -> list[list[Hypothesis]]:
        return super().translate(sources, options, n_best)


@pytest.fixture(scope="module")
def upper() -> Translator:
    return text_translator(str.upper)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("".join(line + "\n" for line in LINES), encoding="utf-8")
    return path


def read(path: Path) -> str:
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    if path.suffix == ".zst":
        data = zstd.decompress(data)
    return data.decode("utf-8")


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_what_is_written_can_be_read_again(upper: Translator, source: Path, tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"
    assert translate_file(upper, source, first, FileJob(window=7)) == Summary(num_lines=80, num_resumed=0)
    assert read(first).split("\n") == [*(line.upper() for line in LINES), ""]
    with pytest.warns(UserWarning, match="in capitals"):
        translate_file(text_translator(str.lower), first, second, FileJob(window=20))
    assert read(second) == source.read_text(encoding="utf-8")


def test_killed_at_any_time_and_resumed(upper: Translator, source: Path, tmp_path: Path) -> None:
    output, whole = tmp_path / "out.gz", tmp_path / "whole.gz"
    translate_file(upper, source, whole, FileJob(window=3))
    command = [sys.executable, "-c", _SLOW, str(_TESTS), str(source), str(output)]
    chance = random.Random(7)
    for _ in range(3):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        before = journal_lines(output)
        while process.poll() is None and journal_lines(output) == before:  # not before it has done something
            time.sleep(0.01)
        time.sleep(chance.random() * 0.03)
        process.send_signal(signal.SIGKILL)
        _, errors = process.communicate()
        assert process.returncode == -signal.SIGKILL, errors.decode()
    assert not output.exists()
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert output.read_bytes() == whole.read_bytes()
    assert not list(tmp_path.glob("*.partial*"))
    assert list(tmp_path.glob(".out*")) == [tmp_path / ".out.gz.journal.json"]


def journal_lines(output: Path) -> int:
    """Returns how many lines the journal of `output` says are done; 0 without one."""
    try:
        return int(json.loads(output.with_name(output.name + ".partial.json").read_text())["lines"])
    except FileNotFoundError:
        return 0


def test_a_corrected_line_lets_the_job_resume(upper: Translator, source: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    with pytest.raises(DataError, match="column 2 is to be translated"):
        translate_file(upper, source, output, FileJob(layout=Columns(2)))
    assert not list(tmp_path.glob("out*"))  # nothing was done, nothing is left
    lines = [f'{{"text": "{line}"}}' for line in LINES]
    source.write_text("\n".join([*lines[:40], "broken", *lines[41:]]) + "\n")
    with pytest.raises(DataError, match=r"in\.txt, line 41, column 1: not JSON"):
        translate_file(upper, source, output, FileJob(layout=JsonLines("text"), window=10))
    source.write_text("\n".join(lines) + "\n")
    summary = translate_file(upper, source, output, FileJob(layout=JsonLines("text"), window=10, resume=True))
    assert summary == Summary(num_lines=80, num_resumed=40)
    rows = [json.loads(row) for row in output.read_text().splitlines()]
    assert rows == [{"text": line, "translation": line.upper()} for line in LINES]


def test_lines_of_many_sentences_are_reported_once(tmp_path: Path) -> None:
    translator = text_translator(str.upper)
    translator.bundle = made_bundle(tmp_path / "model")
    lines = ["A dog.", "", "A dog. A man.", "Mr. Smith has a dog", "A cat. A bird. A cow", "A dog! A man?"]
    (tmp_path / "in").write_text("".join(line + "\n" for line in lines))
    said: list[str] = []

    def job(name: str, *, known: object, **options: Any) -> list[str]:
        metrics = {} if known is None else {"sentences_per_line": known}
        (tmp_path / "model" / "metrics.json").write_text(json.dumps(metrics))
        said.clear()
        translate_file(translator, tmp_path / "in", tmp_path / name, FileJob(warn=said.append, window=2, **options))
        return said

    for known in (None, 3, 0, "1"):  # what older folders lack, and what no training writes
        assert job(f"{known}", known=known) == []
    first, count = job("one", known=1)
    assert first.startswith(f"{tmp_path / 'in'}, line 3: has more sentences than")
    assert "--split-sentences always" in first
    assert count.startswith(f"{tmp_path / 'in'}: 3 lines in all have more sentences than")
    assert job("always", known=1, text_options=TextOptions(split="always")) == []
    short = text_translator(str.upper, max_source_tokens=9)  # which cuts longer lines, each sentence by itself
    short.bundle, translator = translator.bundle, short
    assert job("short", known=1)[1].startswith(f"{tmp_path / 'in'}: 2 lines in all")  # without the longest
    translator = text_translator(str.upper)
    translator.bundle = short.bundle
    blocks = ["<p>A dog.</p><p>A man.</p>", "A <b>dog.</b> A man.", "A dog."]
    (tmp_path / "in").write_text("".join(line + "\n" for line in blocks))
    [only] = job("html", known=1, text_options=TextOptions(markup="html"))
    assert only.startswith(f"{tmp_path / 'in'}, line 2: has more")


def test_python_warns_once_a_call_of_lines_with_many_sentences(tmp_path: Path) -> None:
    translator = text_translator(str.upper)
    translator.bundle = made_bundle(tmp_path / "model")
    (tmp_path / "model" / "metrics.json").write_text('{"sentences_per_line": 1}')
    one, two = "A dog.", "A dog. A man."
    for lines, named in (([one, two], "line 2: has"), ([two, one, two, two], r"line 1 \(and 2 more\): has")):
        with pytest.warns(UserWarning, match=named) as caught:
            assert translator.translate(lines) == [line.upper() for line in lines]
        [warning] = caught
        assert "--split-sentences always" in str(warning.message)
        assert warning.filename == __file__
        with pytest.warns(UserWarning, match=named) as caught:
            translator.translate_n_best(lines, 1)
        assert [warning.filename for warning in caught] == [__file__]
    translator.translate([one])
    translator.translate([two], text_options=TextOptions(split="always"))


def test_columns_and_json(upper: Translator, tmp_path: Path) -> None:
    table, objects = tmp_path / "in.tsv", tmp_path / "in.jsonl"
    table.write_text("1\tA dog.\tx\n\n2\t\ty\n", encoding="utf-8")
    translate_file(upper, table, tmp_path / "out.tsv", FileJob(layout=Columns(2)))
    assert read(tmp_path / "out.tsv") == "1\tA dog.\tx\tA DOG.\n\n2\t\ty\t\n"
    translate_file(upper, table, tmp_path / "replaced.tsv.zst", FileJob(layout=Columns(2, replace=True)))
    assert read(tmp_path / "replaced.tsv.zst") == "1\tA DOG.\tx\n\n2\t\ty\n"
    objects.write_text('{"id": 1.0, "text": "A\\ndog."}\n\n', encoding="utf-8")
    text_options = TextOptions(split="always")
    translate_file(
        upper, objects, tmp_path / "out.jsonl", FileJob(layout=JsonLines("text", "de"), text_options=text_options)
    )
    assert read(tmp_path / "out.jsonl") == '{"id": 1.0, "text": "A\\ndog.", "de": "A\\nDOG."}\n\n'


def test_lines_keep_their_numbers_when_a_job_is_resumed(upper: Translator, tmp_path: Path) -> None:
    source, whole, output = tmp_path / "in.jsonl", tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(f"{line}\n" for line in LINES))
    options: dict[str, Any] = {"layout": PlainLines(many=True), "n_best": 2, "window": 10}
    translate_file(upper, source, whole, FileJob(**options))
    broken = text_translator(failing_at(LINES[25]))
    with pytest.raises(RuntimeError, match="stopped"):
        translate_file(broken, source, output, FileJob(**options))
    assert translate_file(upper, source, output, FileJob(resume=True, **options)).num_resumed == 20
    assert output.read_text() == whole.read_text()


def failing_at(line: str) -> Callable[[str], str]:
    """Returns a model that stops at a line."""

    def function(text: str) -> str:
        if text == line:
            raise RuntimeError("stopped")
        return text.upper()

    return function


def test_a_stopped_job_needs_resume_and_its_own_options(upper: Translator, tmp_path: Path) -> None:
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    lines = [json.dumps({"text": line}) for line in LINES]
    source.write_text("\n".join([*lines[:20], "{}"]) + "\n")
    with pytest.raises(DataError, match="line 21: has no field 'text'"):
        translate_file(upper, source, output, FileJob(layout=JsonLines("text"), window=10))
    source.write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match="--resume"):
        translate_file(upper, source, output, FileJob(layout=JsonLines("text"), window=10))
    for change, name in (
        ({"options": upper.with_options(beam_size=1)}, "beam_size = 4, and now beam_size = 1"),
        ({"text_options": TextOptions(markup="html")}, "markup = none, and now markup = html"),
        ({"layout": JsonLines("text", "de")}, "layout = "),
        ({"n_best": 2}, "n_best = 1, and now n_best = 2"),
    ):
        arguments = {"layout": JsonLines("text"), "window": 10, "resume": True} | change
        with pytest.raises(ConfigError, match=name):
            translate_file(upper, source, output, FileJob(**arguments))  # type: ignore[arg-type]
    fewer = upper.with_options(batch_size=1)  # as after memory ran out: it changes no translation
    summary = translate_file(
        upper, source, output, FileJob(layout=JsonLines("text"), options=fewer, window=7, resume=True)
    )
    assert summary.num_resumed == 20


def test_other_models_beside_the_first_are_another_job(upper: Translator, source: Path, tmp_path: Path) -> None:
    class Stopped(Exception):
        pass

    def stop(text: str) -> str:
        if text == LINES[40]:
            raise Stopped
        return text.upper()

    def job(function: Callable[[str], str], checksums: dict[str, str], **options: Any) -> None:
        translator = text_translator(function)
        translator.checksums = checksums
        translate_file(translator, source, tmp_path / "out", FileJob(window=10, **options))

    begun = {"the model's model.safetensors": "a", "the model.safetensors of model 2": "b"}
    with pytest.raises(Stopped):
        job(stop, begun)
    for now, named in (
        (begun | {"the model.safetensors of model 2": "c"}, "sha256 of the model.safetensors of model 2 = b, and now"),
        (
            {"the model's model.safetensors": "a"},
            "of model 2 = b, and now .* = nothing",
        ),
        (begun | {"the model's shortlist": "d"}, "sha256 of the model's shortlist = nothing, and now"),
    ):
        with pytest.raises(ConfigError, match=named):
            job(str.upper, now, resume=True)
    job(str.upper, begun, resume=True)
    assert read(tmp_path / "out") == read(source).upper()


def test_probabilities_of_another_calibration_are_another_job(
    upper: Translator, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def job(constant: float | None, *, resume: bool = True) -> Summary:
        fit = Calibration(60.0, (constant, 1.0, 0.0, 0.0), 50, 0.5, 0.0, 0.1) if constant is not None else None
        monkeypatch.setattr(calibration, "load_calibration", lambda bundle: fit)
        options = TextOptions(confidence=True)
        return translate_file(upper, source, tmp_path / "out", FileJob(text_options=options, resume=resume))

    job(0.25, resume=False)
    assert job(0.25).was_finished
    for other in (0.5, None):
        with pytest.raises(ConfigError, match="was made with calibration = "):
            job(other)


def test_a_finished_job_says_so_and_another_is_refused(upper: Translator, source: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    translate_file(upper, source, output)
    assert translate_file(upper, source, output, FileJob(resume=True)) == Summary(80, 80, was_finished=True)
    for change, named in (
        ({"options": upper.with_options(beam_size=1)}, "out: was made with beam_size = 4, and now beam_size = 1"),
        ({"n_best": 2}, "out: was made with n_best = 1, and now n_best = 2"),
        ({"text_options": TextOptions(split="always")}, "out: was made with split = auto, and now split = always"),
    ):
        with pytest.raises(ConfigError, match=named):
            translate_file(upper, source, output, FileJob(resume=True, **change))  # type: ignore[arg-type]
    other = text_translator(str.upper)
    other.checksums = {"the model's model.safetensors": "a"}
    with pytest.raises(ConfigError, match=r"with sha256 of the model's model\.safetensors = nothing, and now"):
        translate_file(other, source, output, FileJob(resume=True))
    source.write_text(source.read_text() + "one more\n")
    said: list[str] = []
    with pytest.raises(DataError, match=r"out: was made from another input: all of its 80 lines .* has more"):
        translate_file(upper, source, output, FileJob(resume=True, warn=said.append))
    assert said == []  # nothing was stopped that could go on
    with pytest.raises(DataError, match=r"out: exists already\. Add --overwrite"):
        translate_file(upper, source, output)
    assert read(output) == "".join(line.upper() + "\n" for line in LINES)
    assert translate_file(upper, source, output, FileJob(overwrite=True)) == Summary(81, 0)


def test_constraints_of_lines_that_are_not_done_may_be_changed(source: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"

    def job(prefixes: list[str], *, resume: bool) -> Summary:
        def constraints() -> Iterator[Constraints]:
            yield from map(Constraints, prefixes)
            raise DataError("prefixes: has fewer lines than the input")

        def check_end() -> None:
            if len(prefixes) > len(LINES):
                raise DataError("prefixes: has more lines than the input")

        translator = text_translator(str.upper)
        translator.engine = Bound(translator.tokenizer, str.upper, 1024)
        options = {"constraints": constraints(), "check_end": check_end, "window": 10, "resume": resume}
        return translate_file(translator, source, output, FileJob(**options))  # type: ignore[arg-type]

    with pytest.raises(DataError, match="fewer"):
        job([""] * 43, resume=False)
    with pytest.raises(DataError, match="was made from another input: 40 lines of it"):
        job(["A"] + [""] * 79, resume=True)  # this one was used
    with pytest.raises(DataError, match="more"):
        job([""] * 81, resume=True)
    assert job([""] * 80, resume=True) == Summary(80, 80)  # nothing is left but to find that they end together
    assert read(output) == read(source).upper()


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_no_lines_make_a_whole_file(upper: Translator, tmp_path: Path, suffix: str) -> None:
    (tmp_path / "in").write_text("")
    output = tmp_path / f"out{suffix}"
    assert translate_file(upper, tmp_path / "in", output) == Summary(0, 0)
    assert read(output) == ""
    assert (output.stat().st_size > 0) == bool(suffix)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f".{output.name}.journal.json", "in", output.name]
    assert translate_file(upper, tmp_path / "in", output, FileJob(resume=True)) == Summary(0, 0, was_finished=True)


def test_an_output_is_as_private_as_new_files_are(source: Path, tmp_path: Path) -> None:
    code = "\n".join(
        [
            "import os, sys",
            "os.umask(0o077)",
            "from pathlib import Path",
            "from text_engine import text_translator",
            "from transduce import files",
            "from transduce.translation.streams import translate_file",
            "translate_file(text_translator(), Path(sys.argv[1]), Path(sys.argv[2]))",
            "files.write_text(Path(sys.argv[3]), 'A')",
        ]
    )
    paths = [tmp_path / "out", tmp_path / "text"]
    environment = {**os.environ, "PYTHONPATH": str(_TESTS)}
    subprocess.run([sys.executable, "-c", code, source, *paths], check=True, env=environment)
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o600, 0o600]


def test_a_partial_file_of_nobody_is_left_alone(upper: Translator, source: Path, tmp_path: Path) -> None:
    output, partial = tmp_path / "out", tmp_path / "out.partial"
    partial.write_text("mine\n")
    for resume in (False, True):
        with pytest.raises(DataError, match=r"out\.partial: is not empty, and its journal .*json, .* is missing"):
            translate_file(upper, source, output, FileJob(resume=resume))
        assert partial.read_text() == "mine\n"
    partial.write_text("")  # what a process leaves that is killed as it begins
    translate_file(upper, source, output)
    assert read(output) == read(source).upper()


@pytest.fixture
def usual_collections() -> Iterator[None]:
    """Collects garbage as often as Python does by itself: the other tests let more of it lie about."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("usual_collections")
def test_memory_does_not_grow_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.data.readers._BLOCK_BYTES", 1 << 14)  # what is read at once: less than either file
    peaks = []
    for count in (3_000, 18_000):
        source = tmp_path / f"in{count}.txt"
        source.write_text("a man with a ball\n" * count)
        translator = text_translator()
        assert isinstance(translator.engine, TextEngine)
        translator.engine.seen = _Forgetful()
        tracemalloc.start()
        translate_file(translator, source, tmp_path / f"out{count}.txt.gz", FileJob(window=100))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.6 * peaks[0]  # 2.6 if lines were held; the same work varies by 1.35


class _Forgetful(list[str]):
    def append(self, item: str) -> None:
        """Keeps nothing."""
