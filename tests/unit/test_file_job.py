"""What a job on a file depends on, and what it counts and warns of."""

import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from transduce.config import DecodeConfig
from transduce.errors import ConfigError
from transduce.files import zstd
from transduce.translation.pipeline import Request, TextOptions
from transduce.translation.pipeline.many_sentences import (
    MANY_SENTENCES,
    lines_of_many_sentences,
    many_sentences_warning,
)
from transduce.translation.pipeline.text_options import Markup
from transduce.translation.result import Translation
from transduce.translation.streams import Columns, PlainLines
from transduce.translation.streams.cluster import _common
from transduce.translation.streams.file_job import _description, _Tally
from transduce.translation.streams.output import open_stream
from transduce.translation.streams.workers import FileRequest, JobFingerprint, Rows

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
        *(described(request_of(**{name: True})) for name in ("guard", "confidence", "alignment")),
        described(request_of(split="always")),
        described(request_of(markup="html")),
        *(described(request_of(**{name: "xx"})) for name in ("language", "target", "domain")),
        described(fingerprint=JobFingerprint({"the model": "13"}, "torch on cpu", None)),
        described(fingerprint=JobFingerprint({"the model": "12", "the shortlist": "1"}, "torch on cpu", None)),
        described(fingerprint=JobFingerprint({"the model": "12"}, "ctranslate2 on cpu", None)),
        described(fingerprint=JobFingerprint({"the model": "12"}, "torch on cpu", "fitted")),
    ]
    assert len(set(found)) == len(found)


def test_batches_are_part_of_a_job_only_where_its_rows_depend_on_them() -> None:
    batches = FileRequest(Request(DecodeConfig(batch_size=7)), PlainLines())
    assert described(batches) == described(window=3) == described()
    together = JobFingerprint({"the model": "12"}, "torch on cpu", None, independent_lines=False)
    found = [described(fingerprint=together), described(batches, together), described(fingerprint=together, window=3)]
    assert len({*found, described()}) == 4


def test_counts_and_warnings_are_those_of_all_windows() -> None:
    warned: list[str] = []
    tally = _Tally(Path("in.txt"), warned.append)
    tally.add(Rows(["A"], ["a"], 3, 2, 1, [4, 6]))
    tally.add(Rows(["B"], ["b"], 4, 1, 2, [9]))
    tally.end()
    assert (tally.num_terms, tally.num_honoured, tally.num_forced) == (7, 3, 3)
    assert warned == [
        "a",
        f"in.txt, line 4: {MANY_SENTENCES} --split-sentences always translates each by itself.",
        "b",
        "in.txt: 3 lines in all have more sentences than the model was trained on.",
    ]
    warned.clear()
    tally = _Tally(Path("in.txt"), warned.append)
    tally.add(Rows(["A"], [], of_many_sentences=[4]))
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
