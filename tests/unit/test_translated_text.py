"""What a job of translating a text is given, and what its folder says of it."""

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from made_memories import write_memory
from text_engine import text_translator
from transduce.augmentation import CorpusJob
from transduce.augmentation import translated_text as module
from transduce.augmentation.made_corpus import RECORDS
from transduce.augmentation.translated_text import back_translate, distill, forward_translate
from transduce.augmentation.translation_records import TranslationRecords
from transduce.config import DecodeConfig
from transduce.errors import ConfigError, DataError
from transduce.translation.directions import Directions
from transduce.translation.pipeline import TextOptions
from transduce.translation.streams.file_job import FileJob
from transduce.translation.translator import Translator

COUNTS = {"lines": 9, "pairs": 7, "left_out": {"empty line": 2}}


@dataclass
class Job:
    """What was asked for; `done` is what an earlier run had finished."""

    translated: list[Any]
    written: list[Any]
    done: dict[str, Any] | None = None


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Job:
    job = Job([], [])

    def translate_file(translator: Any, source: Path, output: Path, job_of_file: FileJob) -> Any:
        options = {name: getattr(job_of_file, name) for name in [*DEFAULTS, "layout"]}
        lines = job_of_file.lines
        job.translated.append((source, output, None if lines is None else [*lines], options))
        return SimpleNamespace(was_finished=job.done is not None, num_resumed=4)

    def write_corpus(folder: Path, made_by: Any, **options: Any) -> dict[str, Any]:
        job.written.append((folder, made_by, options))
        return {"counts": COUNTS}

    monkeypatch.setattr(module, "translate_file", translate_file)
    monkeypatch.setattr(module, "write_corpus", write_corpus)
    monkeypatch.setattr(module, "finished_journal", lambda path: f"journal of {path.name}")
    monkeypatch.setattr(module, "read_journal", lambda path: {"read_sha256": f"sum in the {path}", "job": {"a": 1}})
    monkeypatch.setattr(module, "complete", lambda folder: job.done)
    return job


TRANSLATOR = text_translator(str.upper)
ALWAYS = {"warn_of_lines": False, "to_continue": "The same command continues."}
DEFAULTS = {
    "options": None,
    "n_best": 1,
    "text_options": TextOptions(guard=True),
    "window": None,
    "resume": True,
    "overwrite": False,
    "progress": False,
    "warn": None,
    **ALWAYS,
}


@pytest.mark.parametrize(
    ("make", "kind", "is_target"),
    [(back_translate, "back-translate", True), (forward_translate, "forward-translate", False)],
)
def test_a_text_is_translated_and_becomes_one_side(
    tmp_path: Path, job: Job, make: Any, kind: str, is_target: bool
) -> None:
    text, output = tmp_path / "mono.de", tmp_path / "out"
    text.write_text("ein Hund\neine Katze\n")
    made = make(TRANSLATOR, text, output)
    layout = TranslationRecords(kind, guard=True)
    assert job.translated == [(text, output / RECORDS, ["ein Hund", "eine Katze"], {**DEFAULTS, "layout": layout})]
    read = {"files": [str(text)], "sha256_of_lines": f"sum in the journal of {RECORDS}"}
    made_by = {"command": kind, "input": read, "job": {"a": 1}}
    assert job.written == [(output, made_by, {"text_is_target": is_target})]
    assert (made.folder, made.num_lines, made.num_pairs, made.left_out) == (output, 9, 7, {"empty line": 2})
    assert (made.num_resumed, made.was_finished) == (4, False)


def test_the_options_of_a_job_are_passed_on(tmp_path: Path, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Translator, "directions", Directions((("en", "fr"),), (), ()))
    options, texts = DecodeConfig(beam_size=3), TextOptions(guard=False, target="fr")
    given = {"options": options, "window": 7, "progress": True, "warn": print, "overwrite": True}
    (tmp_path / "a").touch()
    back_translate(TRANSLATOR, tmp_path / "a", tmp_path / "out", CorpusJob(text_options=texts, **given))  # type: ignore[arg-type]
    [(*_, found)] = job.translated
    layout = TranslationRecords("back-translate", guard=False)
    expected = {**given, "text_options": texts, "n_best": 1, "resume": False, "layout": layout, **ALWAYS}
    assert found == expected


def test_a_finished_job_is_not_written_again(tmp_path: Path, job: Job) -> None:
    job.done = {"counts": COUNTS | {"lines": 11}}
    (tmp_path / "a").touch()
    made = forward_translate(TRANSLATOR, tmp_path / "a", tmp_path / "out")
    assert job.written == []
    assert (made.num_lines, made.was_finished, made.manifest) == (11, True, job.done)


@pytest.fixture
def corpus(tmp_path: Path) -> tuple[Path, Path]:
    paths = (tmp_path / "a.en", tmp_path / "a.de")
    for path, text in zip(paths, ("a dog\na cat\n", "ein Hund\neine Katze\n"), strict=True):
        path.write_text(text)
    return paths


def test_a_teacher_translates_the_sources(tmp_path: Path, job: Job, corpus: tuple[Path, Path]) -> None:
    distill(TRANSLATOR, corpus[0], tmp_path / "one")
    distill(TRANSLATOR, corpus, tmp_path / "two")
    assert [each[:3] for each in job.translated] == [
        (corpus[0], tmp_path / "one" / RECORDS, ["a dog", "a cat"]),
        (corpus[0], tmp_path / "two" / RECORDS, ["a dog", "a cat"]),
    ]
    assert {each[3]["n_best"] for each in job.translated} == {1}
    assert {each[3]["layout"] for each in job.translated} == {TranslationRecords("distill")}
    assert [each[1]["input"]["files"] for each in job.written] == [[str(corpus[0])], [*map(str, corpus)]]
    assert {each[2]["text_is_target"] for each in job.written} == {False}


def test_a_teacher_translates_the_sources_of_a_memory(tmp_path: Path, job: Job) -> None:
    """Which of its languages they are is the caller's to say: the header names the other one."""
    units = [{"de": "ein Hund", "en": "a dog"}, {"de": "nur hier"}, {"en": "a cat", "de": "eine Katze"}]
    memory = write_memory(tmp_path / "a.tmx", units, source="de")
    distill(TRANSLATOR, memory, tmp_path / "one", languages=("en", "de"))
    distill(TRANSLATOR, [memory], tmp_path / "two", nearest="chrf", languages=("en", "de"))
    distill(TRANSLATOR, memory, tmp_path / "three")
    plain, nearest, turned = [[*lines] for _, _, lines, _ in job.translated]
    assert (plain, turned) == (["a dog", "a cat"], ["ein Hund", "eine Katze"])
    assert [json.loads(line) for line in nearest] == [["a dog", "ein Hund"], ["a cat", "eine Katze"]]


@pytest.mark.parametrize(
    ("given", "n_best"),
    [
        ({}, TRANSLATOR.options.beam_size),
        ({"options": DecodeConfig(beam_size=9)}, 9),
        ({"options": DecodeConfig(beam_size=9), "n_best": 3}, 3),
    ],
)
def test_of_as_many_translations_as_the_beam_has_the_nearest_is_taken(
    tmp_path: Path, job: Job, corpus: tuple[Path, Path], given: dict[str, Any], n_best: int
) -> None:
    job_of_corpus = CorpusJob(options=given["options"]) if "options" in given else None
    distill(TRANSLATOR, corpus, tmp_path / "out", job_of_corpus, nearest="chrf", n_best=given.get("n_best"))
    [(source, _, lines, options)] = job.translated
    assert (source, options["n_best"], options["options"]) == (corpus[0], n_best, given.get("options"))
    assert options["layout"] == TranslationRecords("distill", "chrf")
    assert [json.loads(line) for line in lines] == [["a dog", "ein Hund"], ["a cat", "eine Katze"]]
    assert job.written[0][1]["input"]["files"] == [*map(str, corpus)]


@pytest.mark.parametrize("make", [back_translate, forward_translate, distill])
@pytest.mark.parametrize(("content", "error"), [(None, "no such file"), (b"\xff\n", "line 1: not UTF-8")])
def test_an_input_that_cannot_be_read_leaves_no_folder(
    tmp_path: Path, make: Any, content: bytes | None, error: str
) -> None:
    if content is not None:
        (tmp_path / "mono.xx").write_bytes(content)
    with pytest.raises(DataError, match=error):
        make(TRANSLATOR, tmp_path / "mono.xx", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_a_teacher_cannot_do(tmp_path: Path, job: Job, corpus: tuple[Path, Path]) -> None:
    with pytest.raises(ConfigError, match="n_best is for choosing among translations"):
        distill(TRANSLATOR, corpus, tmp_path / "out", n_best=4)
    with pytest.raises(ConfigError, match=r"a\.en: has no references"):
        distill(TRANSLATOR, corpus[0], tmp_path / "out", nearest="bleu")
    corpus[1].write_text("ein Hund\n")
    with pytest.raises(DataError, match=r"a\.de has 1"):
        distill(TRANSLATOR, corpus, tmp_path / "out")
    assert job.translated == []
