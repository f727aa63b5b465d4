"""What a student's teacher is asked for, which corpora the student then learns from, and when it is measured again."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from made_models import made_tagged_bundle
from text_engine import text_translator
from transduce.augmentation import student as students
from transduce.augmentation.made_corpus import MadeCorpus
from transduce.augmentation.student import StudentJob, make_student
from transduce.augmentation.student_measurement import Comparison
from transduce.config import Config, DataConfig, DecodeConfig
from transduce.config.corpora import CorpusConfig, HeldOutSetConfig
from transduce.data.corpus import Part
from transduce.training.outcome import End, Outcome
from transduce.training.progress import Progress
from transduce.translation.pipeline import TextOptions


def test_the_teacher_is_asked_as_the_job_says_and_the_student_gets_its_translations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{name}.{side}" for name in ("law", "web", "dev", "test") for side in ("en", "fr")]
    for name in names:
        (tmp_path / name).write_text("one line\n", encoding="utf-8")

    def corpora(*domains: str) -> tuple[CorpusConfig, ...]:
        law, web = domains
        french = CorpusConfig(source_language="en", target_language="fr")
        return (
            replace(french, files=("law.en", "law.fr"), name="law", weight=2.0, domain=law),
            replace(french, files=("web.en", "web.fr"), name="web", domain=web),
        )

    other = CorpusConfig(files=("x.en", "x.de"), source_language="en", target_language="de")
    teacher = made_tagged_bundle(tmp_path / "teacher", DataConfig(corpora=(*corpora("law", ""), other)))
    data = DataConfig(
        folder=str(tmp_path),
        corpora=corpora("law", "talk"),
        download="multi30k",
        validation_sets=(HeldOutSetConfig(files=("dev.en", "dev.fr"), name="dev", domain="law"),),
        test_sets=(HeldOutSetConfig(files=("test.en", "test.fr"), name="test", domain="law"),),
    )
    search = DecodeConfig(beam_size=7)
    job = StudentJob(
        teacher=teacher.path,
        config=Config(model=teacher.config.model, data=data),
        output=tmp_path / "out",
        search=search,
        nearest="chrf",
        warn=print,
    )
    asked: list[tuple[tuple[Path, ...], Path, dict[str, Any]]] = []
    trained: list[Config] = []

    def distill(_: object, paths: tuple[Path, ...], folder: Path, **options: Any) -> MadeCorpus:
        asked.append((paths, folder, options))
        return MadeCorpus(folder, 1, 1, {}, {})

    def train(_: StudentJob, config: Config) -> Outcome:
        trained.append(config)
        return Outcome(End.SIGNAL, Progress())

    monkeypatch.setattr(students, "distill", distill)
    monkeypatch.setattr(students, "_train", train)
    assert make_student(job, lambda: contextlib.nullcontext(text_translator(str.upper))).comparison is None

    made = [tmp_path / "out" / "distilled" / number for number in ("1", "2")]
    files = [(tmp_path / f"{name}.en", tmp_path / f"{name}.fr") for name in ("law", "web")]
    assert [each[:2] for each in asked] == list(zip(files, made, strict=True))
    wanted = {"nearest": "chrf", "options": search, "progress": False, "warn": print}
    for (_, _, options), domain in zip(asked, ("law", ""), strict=True):  # the teacher knows no talks
        assert options == wanted | {"text_options": TextOptions(guard=True, target="fr", domain=domain)}

    (found,) = [config.data for config in trained]
    assert (found.folder, found.download) == (str(tmp_path / "out"), "")
    given = [(each.name, each.weight, each.domain, each.files) for each in found.corpora]
    pairs = [(f"distilled/{number}/source.txt", f"distilled/{number}/target.txt") for number in (1, 2)]
    assert given == [("law", 2.0, "law", pairs[0]), ("web", 1.0, "talk", pairs[1])]
    sets = [(each.files, each.domain) for each in (*found.validation_sets, *found.test_sets)]
    assert sets == [
        (tuple(str(tmp_path / f"{name}.{side}") for side in ("en", "fr")), "law") for name in ("dev", "test")
    ]


def test_teacher_and_student_are_measured_again_where_a_text_or_the_search_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    languages = [CorpusConfig(files=("x",), source_language="en", target_language=code) for code in ("fr", "de")]
    teacher = made_tagged_bundle(tmp_path / "teacher", DataConfig(corpora=tuple(languages)))
    data = DataConfig(
        corpora=(replace(languages[0], domain="law"),), test_sets=(HeldOutSetConfig(files=("y",), domain="law"),)
    )
    config = Config(model=teacher.config.model, data=data)
    job = StudentJob(teacher=teacher.path, config=config, output=tmp_path / "out")
    job.output.mkdir()
    texts = []
    for name in ("a", "b"):
        path = tmp_path / f"{name}.tsv"
        path.write_text(f"{name}\t{name.upper()}\n", encoding="utf-8")
        texts.append(Part((path,)))
    measured: list[tuple[Path, Path, Sequence[tuple[str, str]], dict[str, str]]] = []

    def compare(teacher: Path, student: Path, pairs: Sequence[tuple[str, str]], **options: str) -> Comparison:
        measured.append((teacher, student, pairs, options))
        return Comparison(len(pairs), len(pairs), ("x", "y"), (), ())

    monkeypatch.setattr(students, "compare", compare)
    monkeypatch.setattr(Comparison, "to_markdown", lambda self: "table")
    for _ in range(2):
        found = students._compare(job, teacher, texts, {"student": "1"})
        assert found == Comparison(2, 2, ("x", "y"), (), ())
    student = job.output / "run" / "model"
    wanted = {"target": "fr", "domain": "law"}
    assert measured == [(job.teacher, student, [("a", "A"), ("b", "B")], wanted)]
    (tmp_path / "b.tsv").write_text("c\tC\n", encoding="utf-8")
    students._compare(job, teacher, texts, {"student": "1"})
    students._compare(job, teacher, texts, {"student": "2"})
    other = replace(teacher.config, decode=replace(teacher.config.decode, beam_size=9))
    searching = replace(teacher, config=other)
    students._compare(job, searching, texts, {"student": "2"})
    students._compare(job, searching, texts, {"student": "2"})
    assert len(measured) == 4
