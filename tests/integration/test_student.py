"""`transduce student`: from a teacher to a student with its report, stage by stage, stopped and continued."""

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_models import made_bundle
from small_recipe import RECIPE, lines
from text_engine import text_translator
from transduce.augmentation import student as students
from transduce.augmentation import student_measurement
from transduce.augmentation.distilled_data import with_distilled_data
from transduce.augmentation.student import Student, StudentJob, make_student, student_config
from transduce.augmentation.student_measurement import Comparison
from transduce.bundle import Bundle
from transduce.cli import student as command
from transduce.cli.main import main
from transduce.config import apply_settings
from transduce.config.corpora import CorpusConfig
from transduce.engines.shortlist import has_shortlist
from transduce.errors import ConfigError, DataError, TrainingError
from transduce.export.certificate import Certificate
from transduce.training.trainer import End, Trainer
from transduce.translation.translator import Translator

pytestmark = pytest.mark.computes

_SETTINGS = ["model.num_encoder_layers=2", "model.num_decoder_layers=1", "train.max_steps=4"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a recipe, its corpus and a teacher."""
    folder = tmp_path_factory.mktemp("student")
    for name, count, seed in (("train", 60, 1), ("dev", 12, 2), ("test", 12, 3)):
        for language in ("en", "de"):
            (folder / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines(count, seed)))
    test = 'test = { news = ["test.en", "test.de"] }\n'
    (folder / "recipe.toml").write_text(RECIPE.replace("max_tokens = 1000\n", f"max_tokens = 1000\n{test}"))
    made_bundle(folder / "teacher")
    (folder / "teacher" / "LICENSE").write_text("the teacher's terms\n")
    return folder


def job_of(folder: Path, output: Path, **others: Any) -> StudentJob:
    """Returns a job whose student has the shape of the recipe, which is small."""
    settings = [*_SETTINGS, "model.d_model=16", "model.d_ff=32", "model.num_heads=2", "model.d_k=8", "model.d_v=8"]
    config = student_config(folder / "recipe.toml", settings)
    return StudentJob(teacher=str(folder / "teacher"), config=config, output=str(output), **others)


def backwards(text: str) -> str:
    """Returns the text from its last character to the first: no copy of the source, as the guard would find."""
    return text[::-1]


def teacher() -> "contextlib.AbstractContextManager[Translator]":
    """Returns a teacher that writes backwards, instead of the one in the folder, which writes noise."""
    return contextlib.nullcontext(text_translator(backwards))


@pytest.fixture(scope="module", autouse=True)
def few_rounds() -> Iterator[None]:
    """Measures speed in two rounds: each starts a process for each system."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(student_measurement, "_ROUNDS", 2)
        yield


@pytest.fixture(scope="module")
def made(folder: Path) -> Student:
    return make_student(job_of(folder, folder / "made"), teacher)


def refuse(*_: Any, **__: Any) -> Any:
    """Takes the place of a stage that must not run."""
    raise AssertionError("this stage is done")


def test_it_makes_a_student_from_the_teachers_translations(folder: Path, made: Student) -> None:
    targets = (folder / "made" / "distilled" / "1" / "target.txt").read_text().splitlines()
    assert targets == [backwards(line) for line in (folder / "train.en").read_text().splitlines()]
    bundle = Bundle.load(made.model)
    assert bundle.config.model.num_encoder_layers == 2
    assert bundle.config.decode.beam_size == 1
    assert bundle.tokenizer.fingerprint == Bundle.load(folder / "teacher").tokenizer.fingerprint
    assert bundle.config.data.train == (("distilled/1/source.txt", "distilled/1/target.txt"),)
    assert bundle.config.data.validation == (str(folder / "dev.en"), str(folder / "dev.de"))
    assert has_shortlist(bundle)
    assert {"model.bin", "vmap.txt", "tokenizer.json", "certificate.json"} <= {p.name for p in made.exported.iterdir()}
    assert all((each / "LICENSE").read_text() == "the teacher's terms\n" for each in (made.model, made.exported))


def test_the_report_has_teacher_and_student_side_by_side(folder: Path, made: Student) -> None:
    comparison = made.comparison
    assert comparison is not None
    systems = (*comparison.teachers, *comparison.students)
    names = ["teacher, beam 4", "teacher, greedy", "student, greedy", "student, beam 2"]
    assert [each.name for each in systems] == names
    assert comparison.num_lines == 12
    assert systems[-1].parameters < systems[0].parameters
    assert all(each.bytes > 0 and each.lines_per_second.value > 0 and each.cold_start.value > 0 for each in systems)
    report = (folder / "made" / "report.md").read_text()
    assert report == comparison.to_markdown()
    assert "| student, beam 2, against teacher, beam 4 |" in report
    stored = json.loads((folder / "made" / "report.json").read_text())
    assert students.Comparison.from_dict(stored) == comparison


def test_what_is_done_is_not_done_again(folder: Path, made: Student, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("train", "export_model", "compare", "save_shortlist"):
        monkeypatch.setattr(students, name, refuse)
    (made.model / "LICENSE").unlink()  # as after a crash right after the training
    translator = text_translator(backwards)
    again = make_student(job_of(folder, folder / "made"), lambda: contextlib.nullcontext(translator))
    assert (made.model / "LICENSE").is_file()
    assert translator.engine.seen == []  # type: ignore[attr-defined]
    assert again.comparison == made.comparison
    assert again.outcome is None


def test_damaged_records_of_stages_are_made_again(
    folder: Path, made: Student, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(folder / "made", tmp_path / "made")
    monkeypatch.setattr(students, "train", refuse)
    monkeypatch.setattr(students, "compare", lambda *_, **__: made.comparison)
    for name in ("report.json", "stages.json"):
        (tmp_path / "made" / name).write_text('{"num_lines": ')
        assert make_student(job_of(folder, tmp_path / "made"), teacher).comparison == made.comparison
        assert (tmp_path / "made" / name).read_bytes() == (folder / "made" / name).read_bytes()


def test_an_output_that_is_something_else_is_left_alone(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    with pytest.raises(DataError, match="it is not the folder of a student"):
        make_student(job_of(folder, tmp_path / "mine"), refuse)
    with pytest.raises(DataError, match=r"thesis\.txt: is a file"):
        make_student(job_of(folder, tmp_path / "mine" / "thesis.txt"), refuse)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("stage", ["prepare", "train", "save_shortlist", "export_model", "compare"])
def test_a_stopped_job_continues_with_its_stage(folder: Path, made: Student, stage: str, tmp_path: Path) -> None:
    def stop(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    job = job_of(folder, tmp_path / "made")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(students, stage, stop)
        patched.setattr(students, "compare", stop if stage == "compare" else students.compare)
        with pytest.raises(KeyboardInterrupt):
            make_student(job, teacher)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(students, "compare", lambda *_, **__: made.comparison)  # it takes longest, and is tested above
        continued = make_student(job, teacher)
    weights = [(each.model / "model.safetensors").read_bytes() for each in (made, continued)]
    assert weights[0] == weights[1]
    assert continued.comparison is made.comparison


def test_another_shortlist_is_exported_and_measured(
    folder: Path, made: Student, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a copy of the folder, at another place: what was trained there is not trained again."""
    shutil.copytree(folder / "made", tmp_path / "made")
    measured = []
    monkeypatch.setattr(students, "train", refuse)
    monkeypatch.setattr(students, "compare", lambda *given, **_: measured.append(given) or made.comparison)
    job = job_of(folder, tmp_path / "made", candidates=2)
    student = make_student(job, teacher)
    assert (student.exported / "vmap.txt").read_bytes() != (made.exported / "vmap.txt").read_bytes()
    make_student(job, teacher)
    assert len(measured) == 1


def test_another_teacher_or_recipe_is_refused(folder: Path, made: Student) -> None:
    output = folder / "made"
    with pytest.raises(DataError, match="was prepared differently"):
        make_student(job_of(folder, output, own_vocabulary=True), teacher)
    with pytest.raises(ConfigError, match="layout"):
        make_student(job_of(folder, output, nearest="chrf"), teacher)
    job = job_of(folder, output)
    wider = student_config(folder / "recipe.toml", [*_SETTINGS, "model.d_model=32"])
    with pytest.raises(TrainingError, match=r"model\.d_model"):
        make_student(StudentJob(teacher=job.teacher, config=wider, output=output, warn=print), teacher)


def test_what_cannot_be_compared_at_the_end_is_refused_at_the_beginning(folder: Path, tmp_path: Path) -> None:
    job = job_of(folder, tmp_path / "out")
    nothing = replace(job.config, data=replace(job.config.data, test={}, validation=()))
    with pytest.raises(DataError, match="no text to compare"):
        make_student(replace(job, config=nothing), refuse)
    windowed = replace(job.config, model=replace(job.config.model, attention_window=4))
    with pytest.raises(ConfigError, match="attention_window"):
        make_student(replace(job, config=windowed), refuse)
    assert not (tmp_path / "out").exists()


def test_several_corpora_and_a_vocabulary_of_its_own(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [f"{line}\t{line}\n" for line in lines(40, 5)]
    (folder / "more.tsv").write_text("".join(pairs))
    job = job_of(folder, tmp_path / "out", own_vocabulary=True)
    data = replace(job.config.data, train=(("train.en", "train.de"), ("more.tsv",)), repeat=(1, 2))
    monkeypatch.setattr(students, "compare", lambda *_, **__: Comparison(0, 0, ("", ""), (), ()))
    monkeypatch.setattr(Comparison, "to_markdown", lambda _: "")
    monkeypatch.setattr(Certificate, "require", lambda *_: None)  # of 4 steps: on some processors int8 costs more
    made = make_student(replace(job, config=replace(job.config, data=data)), teacher)
    bundle = Bundle.load(made.model)
    assert bundle.tokenizer.fingerprint != Bundle.load(folder / "teacher").tokenizer.fingerprint
    second = tmp_path / "out" / "distilled" / "2"
    assert (second / "source.txt").read_text().splitlines() == lines(40, 5)
    assert (second / "target.txt").read_text().splitlines() == [backwards(line) for line in lines(40, 5)]
    assert bundle.config.data.repeat == (1, 2)


def test_corpora_keep_their_names_and_weights(folder: Path) -> None:
    job = job_of(folder, folder / "unused")
    corpora = (
        CorpusConfig(files=("train.en", "train.de"), weight=0.5),
        CorpusConfig(files=("dev.en", "dev.de"), name="b"),
    )
    job = replace(job, config=replace(job.config, data=replace(job.config.data, train=(), corpora=corpora)))
    found = with_distilled_data(job.config, Path(job.output)).data.corpora
    assert [(each.name, each.weight) for each in found] == [("train", 0.5), ("b", 1.0)]
    files = [tuple(f"distilled/{number}/{side}.txt" for side in ("source", "target")) for number in (1, 2)]
    assert [each.files for each in found] == files


def test_a_signal_ends_the_job_after_a_checkpoint(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, calls = Trainer.train_step, iter(range(100))

    def stopped(self: Trainer, *given: Any) -> Any:
        if next(calls) == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, *given)

    monkeypatch.setattr(Trainer, "train_step", stopped)
    made = make_student(job_of(folder, tmp_path / "out"), teacher)
    assert made.comparison is None
    assert made.outcome is not None
    assert made.outcome.end == End.SIGNAL
    assert not made.exported.exists()
    assert not made.model.exists()  # else the next call would find the training finished


# --- the shape --------------------------------------------------------------------------------------------------


def test_the_shape_is_a_presets_unless_the_recipe_starts_from_a_student(folder: Path, tmp_path: Path) -> None:
    plain = student_config(folder / "recipe.toml")
    assert (plain.model.num_encoder_layers, plain.model.num_decoder_layers) == (6, 2)
    assert plain.decode.beam_size == 1
    assert plain.train.max_steps == 12
    assert student_config(folder / "recipe.toml", shape="student-6-1").model.num_decoder_layers == 1
    assert student_config(folder / "recipe.toml", ["model.d_model=64"], "student-6-1").model.d_model == 64
    assert plain.model.d_model == 192
    own = tmp_path / "own.toml"
    own.write_text('preset = "student-6-1"\n[model]\nd_model = 48\nnum_heads = 3\n[decode]\nbeam_size = 2\n')
    assert student_config(own).model.d_model == 48
    assert student_config(own).decode.beam_size == 2
    assert student_config(own, shape="student-tiny").model.d_model == 128
    with pytest.raises(ConfigError, match="No preset is called 'student-7'"):
        student_config(own, shape="student-7")
    # The recipe of a teacher that was fine-tuned: a student of another shape cannot start from the same model.
    own.write_text(f'[init]\nmodel = "{folder / "teacher"}"\n[data]\ntrain = [["a.tsv"]]\n')
    assert student_config(own).init.model == ""
    wide = student_config(own, from_teacher=folder / "teacher")
    theirs = Bundle.load(folder / "teacher").config.model
    assert wide.init.model == str(folder / "teacher")
    assert (wide.model.d_model, wide.model.num_encoder_layers) == (theirs.d_model, theirs.num_encoder_layers)
    own.write_text('[data]\nformat = "trees"\n')
    with pytest.raises(ConfigError, match="a student must be a translator"):
        student_config(own)


def test_it_may_start_from_the_teachers_layers(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Comparison(0, 0, ("", ""), (), ())
    monkeypatch.setattr(students, "compare", lambda *_, **__: measured)
    monkeypatch.setattr(Comparison, "to_markdown", lambda _: "")
    theirs = Bundle.load(folder / "teacher")
    config = student_config(folder / "recipe.toml", _SETTINGS[:-1], from_teacher=folder / "teacher")
    settings = ["model.num_decoder_layers=1", "train.max_steps=2", "train.warmup_steps=1", "init.learning_rate=1e-9"]
    config = apply_settings(config, settings)
    job = StudentJob(teacher=folder / "teacher", config=config, output=tmp_path / "out")
    student = Bundle.load(make_student(job, teacher).model)
    assert student.config.model == replace(theirs.config.model, num_decoder_layers=1)
    assert student.metrics["ancestor"]["layers"] == {"decoder": [0]}
    before, after = theirs.weights(), student.weights()
    assert set(after) < set(before)
    for name, weight in after.items():  # the rate is too small to move them
        np.testing.assert_allclose(weight, before[name], atol=1e-6)
    with pytest.raises(ConfigError, match="has the teacher's vocabulary"):
        make_student(replace(job, own_vocabulary=True), refuse)


def test_languages_must_be_the_teachers(folder: Path, tmp_path: Path) -> None:
    made_bundle(tmp_path / "teacher")
    path = tmp_path / "teacher" / "config.json"
    values = json.loads(path.read_text())
    values["config"]["data"] |= {"source_language": "en", "target_language": "de"}
    del values["config_sha256"]
    path.write_text(json.dumps(values))
    config = student_config(folder / "recipe.toml", ["data.source_language=en", "data.target_language=fr"])
    with pytest.raises(ConfigError, match=r"train: is en → fr, but the teacher in .* translates en → de\."):
        make_student(StudentJob(teacher=tmp_path / "teacher", config=config, output=tmp_path / "out"), teacher)
    sets = 'data.test_sets=[{files=["test.en", "test.de"], source_language="fr", target_language="de"}]'
    both = ["data.source_language=en", "data.target_language=de"]
    config = student_config(folder / "recipe.toml", [*both, "data.test={}", sets])
    with pytest.raises(ConfigError, match=r"is fr → de, but the student translates en → de\. Leave this set out"):
        make_student(StudentJob(teacher=tmp_path / "teacher", config=config, output=tmp_path / "out"), teacher)
    law, news = (f'{{files=["test.en", "test.de"], name="{domain}", domain="{domain}"}}' for domain in ("law", "news"))
    corpora = "data.corpora=[" + ", ".join(
        f'{{files=["train.en", "train.de"], name="{domain}", domain="{domain}"}}' for domain in ("law", "news")
    )
    sets = [*both, "data.train=[]", f"{corpora}]", "data.test={}", f"data.test_sets=[{law}, {news}]"]
    config = student_config(folder / "recipe.toml", sets)
    with pytest.raises(ConfigError, match=r"have the domains 'law', 'news'\. Name sets of one domain"):
        make_student(StudentJob(teacher=tmp_path / "teacher", config=config, output=tmp_path / "out"), teacher)
    assert not (tmp_path / "out").exists()


# --- the command --------------------------------------------------------------------------------------------------


def test_the_command_prints_the_report(
    folder: Path, made: Student, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "loaded_workers", lambda *_: teacher())
    monkeypatch.setattr(students, "compare", lambda *_, **__: made.comparison)
    output = folder / "by command"
    given = [
        word
        for setting in (*_SETTINGS, "model.d_model=16", "model.num_heads=2", "model.d_k=8")
        for word in ("--set", setting)
    ]
    arguments = ["student", str(folder / "teacher"), str(folder / "recipe.toml"), "--output", str(output), *given]
    assert main([*arguments, "--quiet"]) == 0
    shown = capsys.readouterr()
    assert "# Teacher and student" in shown.out
    assert str(output / "ctranslate2-int8") in shown.err
    assert main([*arguments, "--quiet", "--nearest-reference", "bleu"]) == ConfigError.exit_code
    assert main(["student", str(folder / "none"), str(folder / "recipe.toml"), "--output", str(output)]) == 4
