"""What a job on a file depends on, and what it counts and warns of."""

import gzip
import json
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from text_engine import text_translator
from transduce.config import Config, DecodeConfig, TrainConfig
from transduce.config.modifiers import ModifierConfig
from transduce.data.compression import zstd
from transduce.errors import ConfigError, DataError
from transduce.translation.constraints.glossary import Glossary
from transduce.translation.constraints.line_constraints import Constraints
from transduce.translation.pipeline import Request, TextOptions, run_pipeline
from transduce.translation.pipeline.many_sentences import (
    MANY_SENTENCES,
    lines_of_many_sentences,
    many_sentences_warning,
)
from transduce.translation.pipeline.text_options import Markup
from transduce.translation.result import Translation
from transduce.translation.streams import Columns, PlainLines, Summary, translate_file
from transduce.translation.streams.cluster import _common
from transduce.translation.streams.file_job import FileJob, _description, _Tally, translate_window
from transduce.translation.streams.output import open_stream
from transduce.translation.streams.remarks import CAPITALS, LOOPS, MANY, SIGNS, remarks_on
from transduce.translation.streams.workers import FileRequest, JobFingerprint, Rows, fingerprint_of
from transduce.translation.windows import Window

FINGERPRINT = JobFingerprint({"the model": "12"}, "torch on cpu", None)


def described(
    request: FileRequest | None = None, fingerprint: JobFingerprint = FINGERPRINT, window: int | None = None
) -> str:
    request = request or FileRequest(Request(DecodeConfig()), PlainLines())
    return json.dumps(_description(fingerprint, request, window), sort_keys=True)


def request_of(**values: Any) -> FileRequest:
    return FileRequest(Request(DecodeConfig(), text_options=TextOptions(**values)), PlainLines())


def test_a_job_is_another_one_where_anything_differs_that_its_rows_depend_on() -> None:
    found = [
        described(),
        described(FileRequest(Request(DecodeConfig(beam_size=2)), PlainLines())),
        described(FileRequest(Request(DecodeConfig(length_penalty=0.1)), PlainLines())),
        described(FileRequest(Request(DecodeConfig(), n_best=2), PlainLines())),
        described(FileRequest(Request(DecodeConfig()), PlainLines(scores=True))),
        described(FileRequest(Request(DecodeConfig()), Columns(2))),
        described(FileRequest(Request(DecodeConfig()), PlainLines(), inline_terms=True)),
        *(described(request_of(**{name: True})) for name in ("guard", "capitals", "signs", "confidence", "alignment")),
        described(request_of(split="always")),
        described(request_of(markup="html")),
        *(described(request_of(**{name: "xx"})) for name in ("language", "target", "domain")),
        described(fingerprint=JobFingerprint({"the model": "13"}, "torch on cpu", None)),
        described(fingerprint=JobFingerprint({"the model": "12", "the shortlist": "1"}, "torch on cpu", None)),
        described(fingerprint=JobFingerprint({"the model": "12"}, "ctranslate2 on cpu", None)),
        described(fingerprint=JobFingerprint({"the model": "12"}, "torch on cpu", "fitted")),
    ]
    assert len(set(found)) == len(found)
    for later in ("capitals", "signs"):
        assert later not in str(described())  # a job begun before there was the option goes on


def test_batches_are_part_of_a_job_only_where_its_rows_depend_on_them() -> None:
    batches = FileRequest(Request(DecodeConfig(batch_size=7)), PlainLines())
    assert described(batches) == described(window=3) == described()
    together = JobFingerprint({"the model": "12"}, "torch on cpu", None, independent_lines=False)
    found = [described(fingerprint=together), described(batches, together), described(fingerprint=together, window=3)]
    assert len({*found, described()}) == 4


def test_counts_and_warnings_are_those_of_all_windows() -> None:
    warned: list[str] = []
    tally = _Tally(Path("in.txt"), warned.append)
    tally.add(Rows(["A"], ["a"], 3, 2, 1, {MANY: [4, 6]}))
    tally.add(Rows(["B"], ["b"], 4, 1, 2, {MANY: [9], LOOPS: [8]}))
    tally.end()
    assert (tally.num_terms, tally.num_honoured, tally.num_forced) == (7, 3, 3)
    assert warned == [
        "a",
        f"in.txt, line 4: {MANY_SENTENCES} --split-sentences always translates each by itself.",
        "b",
        "in.txt, line 8: the translation repeats itself: --guard searches again.",
        "in.txt: 3 lines in all have more sentences than the model was trained on.",
    ]
    warned.clear()
    tally = _Tally(Path("in.txt"), warned.append)
    tally.add(Rows(["A"], [], remarks={MANY: [4]}))
    tally.end()
    assert len(warned) == 1


@pytest.mark.parametrize(
    ("text", "markup", "num_parts", "known", "is_named"),
    [
        ("A dog runs. A man sits.", "none", 1, 1, True),
        ("A dog runs. A man sits.", "none", 1, 2, False),
        ("A dog runs. A man sits.", "none", 2, 1, False),  # it was split
        ("A dog runs. A man sits.", "none", 1, None, False),
        ("<p>A dog runs.</p><p>A man sits.</p>", "html", 1, 1, False),
        ("<p>A dog runs.</p><p>A man sits. It sleeps.</p>", "html", 1, 1, True),
    ],
)
def test_lines_of_more_sentences_than_the_training_had(
    text: str, markup: Markup, num_parts: int, known: int | None, is_named: bool
) -> None:
    model = cast(Any, SimpleNamespace(bundle=SimpleNamespace(metrics={"sentences_per_line": known})))
    best = Translation("", 0.0, 0.0, (), finished=True, source_truncated=False, num_parts=num_parts)
    options = TextOptions(markup=markup, language="en")
    assert lines_of_many_sentences(model, ["A dog.", text], [[best]] * 2, options) == [1] * is_named
    assert lines_of_many_sentences(model, [text], [[best]], TextOptions(split="always", language="en")) == []


_ODD = [
    "A dog runs.",
    "A DOG RUNS AWAY",  # in capitals
    "A Dog Runs Away",  # a title
    "A dog “runs”",  # signs that the vocabulary lacks
    "a man with a ball a ball a ball",  # the source repeats itself too
]


def test_what_an_option_could_make_better_is_said_of_its_lines() -> None:
    model = text_translator(lambda text: "run run run run run" if "runs" in text else text)
    window = Window(5, _ODD, None, "in.txt, ")
    found = run_pipeline(model, window, Request(model.options))
    expected = {SIGNS: [8], CAPITALS: [6, 7], LOOPS: [5, 8]}
    assert remarks_on(model, window, found, TextOptions()) == expected
    for remark, options in (
        (SIGNS, TextOptions(signs=True)),
        (CAPITALS, TextOptions(capitals=True)),
        (LOOPS, TextOptions(guard=True)),
    ):
        without = {each: numbers for each, numbers in expected.items() if each is not remark}
        assert remarks_on(model, window, found, options) == without


def test_a_model_that_learned_capitals_needs_no_option_for_them(tmp_path: Path) -> None:
    model = text_translator()
    found = run_pipeline(model, Window(1, _ODD), Request(model.options))
    for name, known in (("upper_case", True), ("title_case", True), ("typos", False)):
        train = TrainConfig(modifiers=(ModifierConfig(name=name, probability=0.1),))
        model.bundle = cast(Any, SimpleNamespace(config=Config(train=train), metrics={}))
        assert (CAPITALS not in remarks_on(model, Window(1, _ODD), found, TextOptions())) is known


def test_lines_with_a_prefix_get_no_advice_that_does_not_go_with_it() -> None:
    model = text_translator(lambda text: "run run run run run")
    window = Window(1, ["A DOG RUNS AWAY"] * 2, [Constraints(prefix="run"), Constraints()])
    found = [[Translation("run run run run run", 0.0, 0.0, (), finished=True, source_truncated=False)]] * 2
    assert remarks_on(model, window, found, TextOptions()) == {CAPITALS: [2], LOOPS: [2]}


def test_a_fingerprint_is_that_of_model_engine_and_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    model = text_translator()
    model.checksums = {"the model": "12"}
    place = "transduce.translation.pipeline.calibration.load_calibration"
    monkeypatch.setattr(place, lambda bundle: ("fit of", bundle))
    model.bundle = cast(Any, "a folder")
    for independent, confidence, calibration in ((True, False, None), (False, True, "('fit of', 'a folder')")):
        model.engine.independent_lines = independent
        request = request_of(confidence=confidence)
        assert fingerprint_of(model, request) == JobFingerprint({"the model": "12"}, "text", calibration, independent)


def test_the_first_of_these_lines_is_named() -> None:
    assert many_sentences_warning([3]).startswith(f"line 4: {MANY_SENTENCES}")
    assert many_sentences_warning([3, 8, 9]).startswith("line 4 (and 2 more): ")


@pytest.mark.parametrize(
    ("version", "fingerprint", "message"),
    [
        ("2", FINGERPRINT, "the version of Transduce is not the same on a and c: 1 and 2"),
        ("1", JobFingerprint({"the model": "12"}, "other", None), "the engine is not the same on a and c: torch on"),
        ("1", JobFingerprint({"the model": "13"}, "torch on cpu", None), "the model in here is not the same on a and"),
        ("1", JobFingerprint({"the model": "12"}, "torch on cpu", "fit"), "the calibration is not the same on a and c"),
    ],
)
def test_every_worker_must_be_like_the_first(version: str, fingerprint: JobFingerprint, message: str) -> None:
    introduced = [("a", "1", FINGERPRINT), ("b", "1", FINGERPRINT), ("c", version, fingerprint)]
    with pytest.raises(ConfigError, match=message):
        _common(introduced, cast(Any, SimpleNamespace(path="here")))


class Told:
    """Workers that return what they are told for each window, and note the windows."""

    def __init__(self, *rows: Rows) -> None:
        self.options = DecodeConfig(batch_size=2)
        self.rows = list(rows)
        self.seen: list[Window] = []
        self.requests: list[FileRequest] = []

    def fingerprint(self, request: FileRequest) -> JobFingerprint:
        self.requests.append(request)
        return FINGERPRINT

    def translate(self, windows: Iterable[Window], request: FileRequest) -> Iterator[tuple[Window, Rows]]:
        for window in windows:
            self.seen.append(window)
            yield window, self.rows.pop(0)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("a\nb\nc\n")
    return path


def test_a_job_counts_what_its_windows_say_and_may_be_silent_about_lines(source: Path, tmp_path: Path) -> None:
    for warns in (True, False):
        warned: list[str] = []
        workers = Told(
            Rows(["A", "B"], ["w", "v"], 3, 1, 1, {MANY: [2]}), Rows(["C"], ["u"], 4, 2, 1, {MANY: [3], LOOPS: [3]})
        )
        output = tmp_path / f"out{warns}"
        found = translate_file(workers, source, output, FileJob(window=2, warn=warned.append, warn_of_lines=warns))
        assert found == Summary(num_lines=3, num_resumed=0, num_terms=7, num_honoured=3, num_forced=2)
        assert output.read_text() == "A\nB\nC\n"
        many = [f"in.txt, line 2: {MANY_SENTENCES} --split-sentences always translates each by itself."]
        loop = ["in.txt, line 3: the translation repeats itself: --guard searches again."]
        lines = ["w", "v", *many, "u", *loop] if warns else many
        assert warned == [
            *(each.replace("in.txt", str(source)) for each in lines),
            f"{source}: 2 lines in all have more sentences than the model was trained on.",
        ]


def test_a_job_is_resumed_with_the_terms_of_its_glossary(source: Path, tmp_path: Path) -> None:
    output, terms = tmp_path / "out", {"dog": "Hund", "a": ["A", "B"]}
    with pytest.raises(IndexError):  # the second window
        translate_file(Told(Rows(["A"], [])), source, output, FileJob(window=1, glossary=terms))
    for others in ({**terms, "dog": "Hunde"}, None):
        with pytest.raises(ConfigError, match="was begun with glossary = "):
            translate_file(Told(), source, output, FileJob(window=1, glossary=others, resume=True))
    again = FileJob(window=1, glossary=Glossary(dict(reversed(terms.items()))), resume=True)
    assert translate_file(Told(Rows(["B"], []), Rows(["C"], [])), source, output, again) == Summary(3, 1)
    named = FileJob(glossary=terms, constraints_name="c", overwrite=True)
    translate_file(Told(Rows(["A"], [])), source, output, named)
    translate_file(Told(), source, output, replace(named, glossary={"x": "y"}, overwrite=False, resume=True))


def test_lines_keep_numbers_and_constraints_in_a_job_that_is_resumed(source: Path, tmp_path: Path) -> None:
    output, warned = tmp_path / "out", list[str]()
    constraints = [Constraints(prefix=text) for text in "xyz"]
    begun = FileJob(window=1, warn=warned.append, to_continue="Go on.", constraints_name="c")

    def job(of_lines: list[Constraints] | None = None, **changes: Any) -> FileJob:
        return replace(begun, constraints=iter(constraints if of_lines is None else of_lines), **changes)

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(IndexError):  # the second window
        translate_file(Told(Rows(["A"], [])), source, output, job())
    assert warned == [f"{output}: stopped; 1 line is done and kept. Go on."]
    workers = Told(Rows(["B"], []), Rows(["C"], []))
    with pytest.raises(KeyboardInterrupt):
        translate_file(workers, source, output, job(check_end=stop, resume=True))
    assert [(each.first, each.lines, each.constraints, each.origin) for each in workers.seen] == [
        (2, ["b"], constraints[1:2], f"{source}, "),
        (3, ["c"], constraints[2:], f"{source}, "),
    ]
    assert warned[1:] == [f"{output}: stopped; 3 lines are done and kept. Go on."]
    others = [*constraints[:2], Constraints(prefix="other")]
    with pytest.raises(DataError, match="was made from another input"):
        translate_file(Told(), source, output, job(others, resume=True))
    with pytest.raises(ConfigError, match="was begun with constraints = c, and now constraints = d"):
        translate_file(Told(), source, output, FileJob(resume=True, constraints_name="d", window=1))
    found = translate_file(Told(), source, output, job(resume=True))
    assert found == Summary(3, 3)
    found = translate_file(Told(), source, output, job(resume=True))
    assert found == Summary(3, 3, was_finished=True)
    source.write_text("a\nb\nc\nd\n")
    for given in (constraints, [*constraints, Constraints()]):
        with pytest.raises(DataError, match="all of its 3 lines are done, and this input has more"):
            translate_file(Told(), source, output, job(given, resume=True))


def test_progress_counts_the_lines_that_were_done_before(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bars: list[Any] = []

    def bar(label: str, total: int | None, *, unit: str, shown: bool) -> Any:
        bars.append(SimpleNamespace(asked=(label, total, unit, shown), updates=[], initial=0, n=0))
        bars[-1].update = bars[-1].updates.append
        return nullcontext(bars[-1])

    monkeypatch.setattr("transduce.translation.streams.file_job.progress_bar", bar)
    with pytest.raises(IndexError):
        translate_file(Told(Rows(["A"], [])), source, tmp_path / "out", FileJob(window=1))
    told = Told(Rows(["B"], []), Rows(["C"], []))
    translate_file(told, source, tmp_path / "out", FileJob(window=1, resume=True, progress=True))
    first, resumed = bars
    assert (first.asked, first.updates) == (("translating", None, " lines", False), [1])
    assert (resumed.asked, resumed.updates) == (("translating", 3, " lines", True), [1, 1])
    assert (resumed.initial, resumed.n) == (1, 1)


def test_options_of_a_job_are_those_given_or_those_of_the_workers(source: Path, tmp_path: Path) -> None:
    def asked(**given: Any) -> tuple[FileRequest, list[int]]:
        workers = Told(*[Rows(["A"], [])] * 3)
        translate_file(workers, source, tmp_path / "out", FileJob(overwrite=True, **given))
        [request] = workers.requests
        return request, [len(each.lines) for each in workers.seen]

    request, sizes = asked()
    assert (request.translation, request.layout) == (Request(DecodeConfig(batch_size=2)), PlainLines())
    assert (request.inline_terms, sizes) == (False, [3])
    own = DecodeConfig(beam_size=3, batch_size=1)
    request, sizes = asked(
        options=own, n_best=2, text_options=TextOptions(confidence=True, target="de", domain="law"),
        layout=Columns(1), inline_terms=True, glossary={"dog": "Hund"}, window=2,
    )  # fmt: skip
    translation = request.translation
    assert (translation.options, translation.n_best, request.layout, request.inline_terms) == (own, 2, Columns(1), True)
    assert translation.text_options == TextOptions(confidence=True, target="de", domain="law")
    assert translation.glossary is not None
    assert translation.glossary.required_in("a dog") == (("Hund",),)
    assert sizes == [2, 1]
    workers = Told(Rows(["A"], []), Rows(["B"], []))
    translate_file(workers, source, tmp_path / "out2", FileJob(options=own, lines=["d"] * 40))
    assert [len(each.lines) for each in workers.seen] == [32, 8]  # 32 batches of one line
    with pytest.raises(ConfigError, match="guard does not go with"):
        asked(inline_terms=True, text_options=TextOptions(guard=True))


def test_rows_and_warnings_of_a_window_have_the_numbers_of_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.translation.streams.remarks.lines_of_many_sentences", lambda *_: [0, 2])
    engine = text_translator(str.upper, max_source_tokens=3)
    window = Window(7, ["a", "Two dogs run over the green grass", "b"], None, "in.txt, ")
    request = FileRequest(Request(engine.options, 2, TextOptions(split="never")), PlainLines(many=True))
    same, rows = translate_window(engine, request, window)
    assert same is window
    assert [row.split("\t")[0] for row in rows.rows] == ["7", "7", "8", "8", "9", "9"]
    assert rows.warnings == [
        "in.txt, line 8: longer than the 3 tokens that the model reads; only its beginning is translated."
    ]
    assert (rows.num_terms, rows.num_honoured, rows.num_forced, rows.remarks) == (0, 0, 0, {MANY: [7, 9]})


def test_terms_of_a_window_are_counted_in_the_best_translations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of five terms of the best, three came out, one of them forced."""
    best = Translation(
        "A", 0.0, 0.0, (), True, False, required=((("x",), True), (("y",), False), (("z",), True)), forced=(("z",),),
        warnings=("w", "v"),
    )  # fmt: skip
    other = replace(best, required=((("x",), True), (("y",), False)), forced=(), warnings=())
    asked: list[Window] = []

    def run(model: Any, window: Window, request: Request, *, progress: bool) -> list[list[Translation]]:
        asked.append(window)
        return [[best, other], [other, best]]

    monkeypatch.setattr("transduce.translation.streams.file_job.run_pipeline", run)
    request = FileRequest(Request(DecodeConfig()), PlainLines(), inline_terms=True)
    lines = ['a <term to="x|y">b</term>', "c"]
    window = Window(1, lines, [Constraints(required=(("z",),)), Constraints(prefix="p")])
    _, rows = translate_window(text_translator(), request, window)
    assert (rows.num_terms, rows.num_honoured, rows.num_forced) == (5, 2, 1)
    assert rows.warnings == ["line 1: w", "line 1: v"]
    assert list(asked[0].lines) == ["a b", "c"]
    assert asked[0].constraints == [Constraints(required=(("z",), ("x", "y"))), Constraints(prefix="p")]


@pytest.mark.parametrize("lines", [[], ["a", "b"]])
def test_packed_outputs_do_not_depend_on_the_time_and_have_checksums(tmp_path: Path, lines: list[str]) -> None:
    data = {}
    for suffix in ("gz", "zst"):
        path = tmp_path / f"out.{suffix}"
        with open_stream(path, {}, resume=False) as output:
            for line in lines:
                output.write([line], [line])
        data[suffix] = path.read_bytes()
    assert (
        gzip.decompress(data["gz"]) == zstd.decompress(data["zst"]) == "".join(f"{line}\n" for line in lines).encode()
    )
    assert data["gz"][4:8] == bytes(4)  # no time of change (RFC 1952)
    assert data["zst"][4] & 0b100  # the flag of the checksum (RFC 8878)
