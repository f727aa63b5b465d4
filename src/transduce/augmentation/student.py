"""A student: a smaller and faster model that learns from the translations of a teacher.

    OUTPUT/
        distilled/NUMBER/   the teacher's translations of each training corpus: see `made_corpus`
        data/               prepared from them
        run/                the training, and in run/model the student with its shortlist
        ctranslate2-int8/   the student for CTranslate2, in 8 bits, with its shortlist
        report.md, .json    quality, speed and size of teacher and student
        stages.json         what the last two were made from

A stage that is done is skipped; one that is not is continued or repeated.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from transduce.augmentation.distilled_data import DISTILLED, distill_parts, with_distilled_data
from transduce.augmentation.made_corpus import require_own
from transduce.augmentation.student_config import (
    DEFAULT_SHAPE,
    TUNING_KEY,
    larger_than_teacher,
    require_fit,
    student_config,
    teacher_languages,
    usual_tuning_steps,
)
from transduce.augmentation.student_measurement import Comparison, compare
from transduce.augmentation.translated_text import CorpusJob
from transduce.augmentation.translation_records import Nearness
from transduce.bundle import Bundle
from transduce.config import Config, DecodeConfig
from transduce.config.checked_json import digest
from transduce.config.loading import setting_key
from transduce.config.terms import terms_of, write_terms
from transduce.data.corpus import Part, locate
from transduce.data.prepare import prepare
from transduce.data.prepared import load_prepared
from transduce.engines.shortlist import FILE as SHORTLIST
from transduce.engines.shortlist import learning
from transduce.engines.shortlist.table import save_shortlist, shortlist_facts
from transduce.errors import ConfigError, DataError
from transduce.export.exports import export_model
from transduce.files import read_json_object, sha256, write_json, write_text
from transduce.runs import train, with_vocabulary
from transduce.text import load_tokenizer
from transduce.training.ancestor import require_ancestor
from transduce.training.outcome import End, Outcome
from transduce.training.run_folder import checkpoints, load_run_config, started_config
from transduce.translation.streams.workers import Workers
from transduce.translation.translator import Translator

__all__ = ["DEFAULT_SHAPE", "Student", "StudentJob", "make_student", "student_config"]

_DATA, _RUN, _EXPORT, _REPORT = "data", "run", "ctranslate2-int8", "report"
_STAGES = "stages.json"
_MAX_SHORTLIST_PAIRS, _SHORTLIST_ITERATIONS = 500_000, 5

OpenTeacher = Callable[[], AbstractContextManager[Translator | Workers]]


@dataclass(frozen=True, kw_only=True)
class StudentJob:
    """What is to be made."""

    teacher: str | Path  # a model folder
    config: Config  # the student's: see `student_config`
    output: str | Path
    settings: Sequence[str] = ()  # of these, what --set gave
    search: DecodeConfig | None = None  # of the teacher's translations; None: the teacher's own
    nearest: Nearness | None = None  # whether the translation nearest to the reference is taken: see `distill`
    own_vocabulary: bool = False  # whether the student learns a tokeniser; else it has the teacher's
    candidates: int = 50  # of the shortlist, for each piece
    frequent: int = 100  # pieces in the shortlist of every sentence
    progress: bool = False
    warn: Callable[[str], None] | None = None  # None issues Python's warnings


@dataclass(frozen=True)
class Student:
    """How a job ended.

    Attributes:
        model: the student's model folder.
        exported: the folder for CTranslate2.
        comparison: what was measured; None where a signal stopped the training.
        outcome: how the training ended; None where it had ended before.
    """

    model: Path
    exported: Path
    comparison: Comparison | None
    outcome: Outcome | None


def make_student(job: StudentJob, open_teacher: OpenTeacher) -> Student:
    """Makes a student, or continues where an earlier call was stopped.

    Args:
        job: what is to be made.
        open_teacher: returns a context manager that yields the teacher, or workers that have it. It is called if there
            is something to translate, or to find finished.

    Raises:
        ConfigError: teacher and recipe do not fit, or the job was begun with other options.
        DataError: a file cannot be read or used, or the output is not the folder of a student.
        TrainingError: the training in the folder is another one.
        ExportError: the student in 8 bits differs too much from the student.
    """
    require_own(Path(job.output), "the folder of a student", ours=Path(job.output, DISTILLED).is_dir())
    if job.own_vocabulary and job.config.init.model:
        raise ConfigError(
            "A student that starts from its teacher's weights has the teacher's vocabulary. Leave out --own-vocabulary "
            "or --from-teacher."
        )
    teacher = Bundle.load(job.teacher)
    require_fit(teacher, job.config)
    if warning := larger_than_teacher(teacher, job.config, own_vocabulary=job.own_vocabulary):
        (job.warn or warnings.warn)(warning)
    require_ancestor(Path(job.output, _RUN), job.config)
    files = locate(job.config.data, progress=job.progress)
    texts = [*files.test.values()] or [*files.validation.values()]
    if not texts:
        raise DataError("There is no text to compare teacher and student on: name a data.test or data.validation.")
    _distill(job, teacher, files.train, open_teacher)
    outcome = _train(job, with_distilled_data(job.config, Path(job.output)))
    model, exported = Path(job.output, _RUN, "model"), Path(job.output, _EXPORT)
    if outcome is not None and outcome.end == End.SIGNAL:
        return Student(model, exported, None, outcome)
    write_terms(terms_of(teacher.path), model)  # also where an earlier call ended right after the training
    _learn_shortlist(job, model)
    made_from = {"student": Bundle.load(model).checksums, "shortlist": sha256(model / SHORTLIST)}
    if not _is_done(job.output, _EXPORT, made_from) or not exported.is_dir():
        export_model(model, exported, "ctranslate2", quantization="int8", shortlist=True, overwrite=True)
        _done(job.output, _EXPORT, made_from)
    return Student(model, exported, _compare(job, teacher, texts, made_from), outcome)


def _distill(job: StudentJob, teacher: Bundle, parts: Sequence[Part], open_teacher: OpenTeacher) -> None:
    """Translates the sources of each training corpus."""
    how = CorpusJob(options=job.search, progress=job.progress, warn=job.warn)
    with open_teacher() as translator:
        distill_parts(translator, teacher, job.config, parts, Path(job.output), how, job.nearest)


def _train(job: StudentJob, config: Config) -> Outcome | None:
    """Trains the student, or returns None if that is done."""
    data, run = Path(job.output, _DATA), Path(job.output, _RUN)
    config = _tuned_as_begun(job, config)
    inherits = bool(config.init.model)  # the tokeniser too
    tokenizer = None if job.own_vocabulary or inherits else Path(job.teacher, "tokenizer.json")
    prepare(config, data, tokenizer=tokenizer, progress=job.progress)
    wanted = with_vocabulary(config, load_tokenizer(load_prepared(data).tokenizer))
    # `prepare` has compared the data, wherever the folder is by now.
    if (run / "model").is_dir() and replace(load_run_config(run), data=wanted.data) == wanted:
        return None
    resume = bool(checkpoints(run))
    return train(config, run, resume=resume, data=data, settings=job.settings, show_progress=job.progress)


def _tuned_as_begun(job: StudentJob, config: Config) -> Config:
    """Returns `config` without the usual tuning for int8 where the training was begun without: by version 0.2, say."""
    begun, usual = started_config(Path(job.output, _RUN)), usual_tuning_steps(config.train)
    is_set = TUNING_KEY in map(setting_key, job.settings)
    if begun is None or begun.train.int8_tuning_steps or config.train.int8_tuning_steps != usual or is_set:
        return config
    return replace(config, train=replace(config.train, int8_tuning_steps=0))


def _learn_shortlist(job: StudentJob, model: Path) -> None:
    """Learns the shortlist from the data that the student has learned from, unless it is there."""
    bundle = Bundle.load(model)
    facts = shortlist_facts(bundle) or {}
    if (facts.get("candidates"), facts.get("frequent")) == (job.candidates, job.frequent):
        return
    pairs, held_out = learning.read_prepared(Path(job.output, _DATA), bundle.tokenizer, _MAX_SHORTLIST_PAIRS)
    if not len(held_out):
        pairs, held_out = learning.hold_out(pairs)
    size, same = bundle.tokenizer.target.vocab_size, learning.same_pieces(bundle.tokenizer)
    learned = learning.learn(pairs, size, same, iterations=_SHORTLIST_ITERATIONS, progress=job.progress)
    shortlist, _ = learning.learn_shortlist(learned, held_out, num_candidates=job.candidates, num_frequent=job.frequent)
    save_shortlist(bundle, shortlist)


def _compare(job: StudentJob, teacher: Bundle, texts: Sequence[Part], made_from: Mapping[str, Any]) -> Comparison:
    """Measures teacher and student on all pairs of `texts`, unless that is done, and writes the report."""
    path = Path(job.output, f"{_REPORT}.json")
    read = {str(path): sha256(path) for part in texts for path in part.paths}
    made_from = {**made_from, "teacher": teacher.checksums, "texts": read, "search": asdict(teacher.config.decode)}
    if _is_done(job.output, _REPORT, made_from) and (measured := _read_comparison(path)) is not None:
        return measured
    pairs = [pair for part in texts for pair in part.open()]
    domain = (job.config.data.test_corpora or job.config.data.validation_corpora)[0].domain
    source, target = teacher_languages(teacher, job.config.data.training_corpora[0])
    student = Path(job.output, _RUN, "model")
    comparison = compare(teacher.path, student, pairs, source=source, target=target, domain=domain)
    write_json(path, asdict(comparison))
    write_text(path.with_suffix(".md"), comparison.to_markdown())
    _done(job.output, _REPORT, made_from)
    return comparison


def _read_comparison(path: Path) -> Comparison | None:
    """Returns what was measured; None where the report is missing or damaged: it is measured again."""
    try:
        return Comparison.from_dict(read_json_object(path))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _is_done(output: str | Path, stage: str, made_from: Mapping[str, Any]) -> bool:
    """Whether a stage was done with the same inputs."""
    return _stages(output).get(stage) == digest(made_from)


def _done(output: str | Path, stage: str, made_from: Mapping[str, Any]) -> None:
    write_json(Path(output, _STAGES), _stages(output) | {stage: digest(made_from)})


def _stages(output: str | Path) -> dict[str, Any]:
    """Returns the digests of the stages that are done; none where the file is missing or damaged."""
    try:
        return read_json_object(Path(output, _STAGES))
    except (FileNotFoundError, ValueError):
        return {}
