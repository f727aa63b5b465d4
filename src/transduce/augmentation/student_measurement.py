"""What a student gains and costs: BLEU, chrF, speed, size and cold start of teacher and student, side by side.

All run in CTranslate2 with int8 weights on one CPU thread, as on a small server: the teacher with a beam of 4 and with
greedy search, the student with its shortlist, with greedy search and with a beam of 2. Rounds of the systems take
turns, so that other load on the machine affects all of them.
"""

import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.bundle import Bundle
from transduce.config.weights import count_parameters
from transduce.engines.ctranslate2_cache import converted
from transduce.errors import DataError, EngineError
from transduce.evaluation.bleu import Score, bleu, chrf
from transduce.reporting.intervals import student_t
from transduce.reporting.tables import table
from transduce.translation.pipeline import TextOptions
from transduce.translation.translator import Translator

_ENGINE, _QUANTIZATION, _BATCH_SIZE = "ctranslate2", "int8", 32
_BEAM_SIZE, _STUDENT_BEAM_SIZE = 4, 2
_ROUNDS = 5
_TIMED_LINES = 1000


@dataclass(frozen=True)
class Measure:
    """A value with half the width of its 95 % interval."""

    value: float
    half_width: float

    def __str__(self) -> str:
        digits = 0 if abs(self.value) >= 100 else 2
        return f"{self.value:,.{digits}f} ± {self.half_width:,.{digits}f}"


@dataclass(frozen=True, kw_only=True)
class SystemFigures:
    """What was measured of one system."""

    name: str
    parameters: int
    bytes: int  # of the converted model, its shortlist and the tokeniser
    bleu: Measure
    chrf: Measure
    lines_per_second: Measure
    cold_start: Measure  # seconds of a process that loads the model, translates one line and ends
    seconds: tuple[float, ...]  # of each round


@dataclass(frozen=True)
class Comparison:
    """The figures of teacher and student on the same lines."""

    num_lines: int  # for BLEU and chrF
    num_timed: int  # for the speed
    signatures: tuple[str, str]  # of BLEU and chrF
    teachers: tuple[SystemFigures, ...]
    students: tuple[SystemFigures, ...]

    @staticmethod
    def speed_ratio(teacher: SystemFigures, student: SystemFigures) -> Measure:
        """Returns how many times as fast the student is: the mean of the rounds' ratios."""
        return mean_of([theirs / ours for theirs, ours in zip(teacher.seconds, student.seconds, strict=True)])

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Comparison":
        """Returns what `dataclasses.asdict` and JSON made values of."""
        measures = ("bleu", "chrf", "lines_per_second", "cold_start")

        def systems(side: str) -> tuple[SystemFigures, ...]:
            return tuple(
                SystemFigures(
                    **each | {name: Measure(**each[name]) for name in measures} | {"seconds": tuple(each["seconds"])}
                )
                for each in values[side]
            )

        sides = {side: systems(side) for side in ("teachers", "students")}
        return cls(**{**values, "signatures": tuple(values["signatures"]), **sides})

    def to_markdown(self) -> str:
        """Returns the report."""
        rows = [
            [
                each.name,
                str(each.bleu),
                str(each.chrf),
                str(each.lines_per_second),
                f"{each.bytes / 1e6:.1f} MB",
                f"{each.cold_start} s",
                f"{each.parameters:,}",
            ]
            for each in (*self.teachers, *self.students)
        ]
        gains = [
            [
                f"{ours.name}, against {theirs.name}",
                str(self.speed_ratio(theirs, ours)),
                f"{100 * ours.bleu.value / theirs.bleu.value:.1f} %" if theirs.bleu.value else "–",
                f"{ours.bleu.value - theirs.bleu.value:+.2f}",
                f"{theirs.bytes / ours.bytes:.2f}",
            ]
            for ours in self.students
            for theirs in self.teachers
        ]
        header = ["", "BLEU", "chrF", "lines per second", "size", "cold start", "parameters"]
        return "\n".join(
            [
                "# Teacher and student",
                "",
                table(header, rows),
                "",
                table(["", "times as fast", "share of BLEU", "BLEU", "times as small"], gains),
                "",
                f"CTranslate2, int8, one CPU thread, batches of {_BATCH_SIZE} lines. BLEU and chrF of "
                f"{self.num_lines:,} lines, with 95 % intervals by bootstrap. Speed of {self.num_timed:,} "
                f"lines, text to text, in {_ROUNDS} rounds in which the systems take turns. "
                "Cold start: the time of a process that loads the model, translates one line and exits.",
                "",
                "In 8 bits, and more often with a shortlist in CTranslate2, a translation can depend on the other "
                "lines of its batch.",
                "",
                *(f"- `{signature}`" for signature in self.signatures),
                "",
            ]
        )


@dataclass(frozen=True)
class _System:
    """A model and how it searches."""

    name: str
    bundle: Bundle
    beam_size: int
    shortlist: str  # "on" or "off"
    source: str = ""  # the languages to ask for, of a model of several
    target: str = ""
    domain: str = ""  # likewise

    def load(self) -> Translator:
        """Loads it into one thread."""
        return Translator.load(
            self.bundle.path,
            engine=_ENGINE,
            device="cpu",
            threads=1,
            quantization=_QUANTIZATION,
            shortlist=self.shortlist,
        )

    def translate(self, translator: Translator, lines: Sequence[str]) -> list[str]:
        """Translates lines as it does."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about single lines, which are the same for all systems
            texts = TextOptions(language=self.source, target=self.target, domain=self.domain)
            return translator.translate(lines, text_options=texts, beam_size=self.beam_size, batch_size=_BATCH_SIZE)

    def time_lines(self, translator: Translator, lines: Sequence[str]) -> float:
        """Returns the seconds in which it translates lines."""
        started = time.perf_counter()
        self.translate(translator, lines)
        return time.perf_counter() - started

    def start_cold(self, line: str) -> float:
        """Returns the seconds of a process that loads the model and translates one line."""
        command = [sys.executable, "-P", "-m", "transduce", "translate", str(self.bundle.path), "--quiet"]
        command += ["--engine", _ENGINE, "--quantization", _QUANTIZATION, "--device", "cpu", "--threads", "1"]
        command += ["--beam-size", str(self.beam_size), "--shortlist", self.shortlist]
        command += ["--source-language", self.source, "--target", self.target, "--domain", self.domain]
        started = time.perf_counter()
        done = subprocess.run(command, input=line + "\n", capture_output=True, text=True, encoding="utf-8", check=False)
        if done.returncode:
            raise EngineError(f"{self.name}: the process that measures the cold start failed: {done.stderr.strip()}")
        return time.perf_counter() - started

    def num_bytes(self) -> int:
        """Returns the size of what this system reads."""
        folder = converted(self.bundle, _QUANTIZATION, shortlisted=self.shortlist == "on")
        read = [*folder.iterdir()] if folder is not None else []
        return sum(path.stat().st_size for path in [*read, self.bundle.path / "tokenizer.json"])


def compare(
    teacher: Path,
    student: Path,
    pairs: Sequence[tuple[str, str]],
    *,
    source: str = "",
    target: str = "",
    domain: str = "",
) -> Comparison:
    """Measures teacher and student on pairs of sources and references.

    `source` and `target` are the languages to ask the teacher for, if it has several. Models with the tag of `domain`
    get that tag.

    Raises:
        DataError: there are no pairs.
        BundleError: a folder is incomplete or damaged, or the student's has no shortlist.
    """
    kept = [pair for pair in pairs if pair[0].strip() and pair[1].strip()]
    if not kept:
        raise DataError("There are no pairs to compare teacher and student on: name data.test or data.validation.")
    sources, references = (list(side) for side in zip(*kept, strict=True))
    theirs, ours = Bundle.load(teacher), Bundle.load(student)
    their_domain, our_domain = (domain if domain in each.tokenizer.domains else "" for each in (theirs, ours))
    systems = [
        _System(f"teacher, beam {_BEAM_SIZE}", theirs, _BEAM_SIZE, "off", source, target, their_domain),
        _System("teacher, greedy", theirs, 1, "off", source, target, their_domain),
        _System("student, greedy", ours, 1, "on", domain=our_domain),
        _System(f"student, beam {_STUDENT_BEAM_SIZE}", ours, _STUDENT_BEAM_SIZE, "on", domain=our_domain),
    ]
    loaded = [system.load() for system in systems]
    scores = [
        _scores(system.translate(model, sources), references) for system, model in zip(systems, loaded, strict=True)
    ]
    step = -(-len(sources) // _TIMED_LINES)
    timed = sources[::step]
    rounds = [
        [system.time_lines(model, timed) for system, model in zip(systems, loaded, strict=True)] for _ in range(_ROUNDS)
    ]
    cold = [[system.start_cold(timed[0]) for system in systems] for _ in range(_ROUNDS)]
    measured = zip(systems, scores, zip(*rounds, strict=True), zip(*cold, strict=True), strict=True)
    figures = tuple(
        SystemFigures(
            name=system.name,
            parameters=count_parameters(system.bundle.config.model),
            bytes=system.num_bytes(),
            bleu=_measure(found[0]),
            chrf=_measure(found[1]),
            lines_per_second=mean_of([len(timed) / each for each in seconds]),
            cold_start=mean_of(starts),
            seconds=seconds,
        )
        for system, found, seconds, starts in measured
    )
    signatures = (scores[0][0].signature, scores[0][1].signature)
    return Comparison(len(sources), len(timed), signatures, figures[:2], figures[2:])


def _scores(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[Score, Score]:
    return bleu(hypotheses, [references], confidence=True), chrf(hypotheses, [references], confidence=True)


def _measure(score: Score) -> Measure:
    return Measure(round(score.value, 4), round(score.confidence or 0.0, 4))


def mean_of(values: Sequence[float]) -> Measure:
    """Returns the mean of at least two values, with its 95 % interval by Student's t."""
    spread = statistics.stdev(values) / len(values) ** 0.5
    return Measure(statistics.fmean(values), student_t(len(values) - 1) * spread)
