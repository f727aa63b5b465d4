"""The report of teacher and student: ratios, intervals, and the way to JSON and back."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from transduce.augmentation import student_measurement as module
from transduce.augmentation.student_measurement import Comparison, Measure, SystemFigures, _System, compare, mean_of
from transduce.errors import DataError, EngineError
from transduce.translation.pipeline import TextOptions


def system(name: str, seconds: tuple[float, ...], bleu: float, size: int) -> SystemFigures:
    rate = mean_of([100 / each for each in seconds])
    return SystemFigures(
        name=name,
        parameters=1000 * size,
        bytes=size,
        bleu=Measure(bleu, 1.0),
        chrf=Measure(60.0, 1.0),
        lines_per_second=rate,
        cold_start=Measure(0.5, 0.01),
        seconds=seconds,
    )


COMPARISON = Comparison(
    num_lines=3000,
    num_timed=1000,
    signatures=("tok:13a", "nc:6"),
    teachers=(
        system("teacher, beam 4", (8.0, 10.0, 12.0), 40.0, 20_000_000),
        system("teacher, greedy", (5.0, 5.0, 5.0), 38.0, 20_000_000),
    ),
    students=(
        system("student, greedy", (2.0, 2.0, 2.0), 39.0, 5_000_000),
        system("student, beam 2", (4.0, 4.0, 4.0), 39.6, 5_000_000),
    ),
)


def test_an_interval_by_hand() -> None:
    found = mean_of([8.0, 10.0, 12.0])  # standard deviation 2, Student's t 4.303 for two degrees of freedom
    assert found.value == pytest.approx(10)
    assert found.half_width == pytest.approx(4.303 * 2 / 3**0.5)
    assert mean_of([3.0] * 5) == Measure(3.0, 0.0)


def test_the_ratio_is_the_mean_of_the_rounds() -> None:
    (beam, greedy), (student, _) = COMPARISON.teachers, COMPARISON.students
    assert COMPARISON.speed_ratio(beam, student).value == pytest.approx((4 + 5 + 6) / 3)
    assert COMPARISON.speed_ratio(beam, student).half_width == pytest.approx(4.303 / 3**0.5)
    assert COMPARISON.speed_ratio(greedy, student) == Measure(2.5, 0.0)


def test_the_report() -> None:
    report = COMPARISON.to_markdown()
    assert "| student, greedy | 39.00 ± 1.00 | 60.00 ± 1.00 | 50.00 ± 0.00 | 5.0 MB | 0.50 ± 0.01 s |" in report
    assert "| student, greedy, against teacher, greedy | 2.50 ± 0.00 | 102.6 % | +1.00 | 4.00 |" in report
    assert "| student, greedy, against teacher, beam 4 | 5.00 ± 2.48 | 97.5 % | -1.00 | 4.00 |" in report
    assert "| student, beam 2, against teacher, beam 4 | 2.50 ± 1.24 | 99.0 % | -0.40 | 4.00 |" in report
    assert "3,000 lines" in report
    nothing = replace(COMPARISON.teachers[0], bleu=Measure(0.0, 0.0))
    assert "| – |" in replace(COMPARISON, teachers=(nothing,)).to_markdown()


def test_the_comparison_comes_back_from_json() -> None:
    assert Comparison.from_dict(json.loads(json.dumps(asdict(COMPARISON)))) == COMPARISON


def bundle_of(path: Path) -> Any:
    """Returns as much of a model folder as a measurement needs; the teacher knows a domain."""
    domains = ("law",) if path.name == "teacher" else ()
    return SimpleNamespace(
        path=path, tokenizer=SimpleNamespace(domains=domains), config=SimpleNamespace(model=path.name)
    )


class Fake:
    """A translator that notes how it is loaded and asked."""

    def __init__(self, path: Path, options: dict[str, Any]) -> None:
        self.path, self.options, self.asked = path, options, list[Any]()

    def translate(self, lines: Any, **options: Any) -> list[str]:
        self.asked.append((len(lines), options))
        return [f"{self.path.name} {options['beam_size']}"] * len(lines)


@pytest.mark.parametrize(("num_pairs", "step"), [(3, 1), (1000, 1), (1001, 2), (1999, 2), (2001, 3)])
def test_four_systems_are_measured_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_pairs: int, step: int
) -> None:
    loaded: list[Fake] = []
    scored: list[Any] = []

    def load(path: Path, **options: Any) -> Fake:
        loaded.append(Fake(path, options))
        return loaded[-1]

    def scores(hypotheses: list[str], references: list[str]) -> Any:
        scored.append((set(hypotheses), len(hypotheses), references[-1]))
        number = len(scored)
        return [
            SimpleNamespace(value=value, confidence=0.5, signature=name)
            for value, name in ((number, "b"), (10 * number, "c"))
        ]

    monkeypatch.setattr(module.Bundle, "load", bundle_of)
    monkeypatch.setattr(module.Translator, "load", load)
    monkeypatch.setattr(module, "count_parameters", {"teacher": 7, "student": 3}.__getitem__)
    monkeypatch.setattr(module, "_scores", scores)
    monkeypatch.setattr(_System, "num_bytes", lambda self: 100 * self.beam_size)
    cold: list[tuple[str, str]] = []

    def start_cold(self: _System, line: str) -> float:
        cold.append((self.name, line))
        return float(self.beam_size)

    monkeypatch.setattr(_System, "start_cold", start_cold)
    pairs = [(f"s{i}", f"t{i}") for i in range(num_pairs)]
    empty = [("", "t"), ("s", " ")]
    found = compare(
        tmp_path / "teacher", tmp_path / "student", [*empty, *pairs], source="en", target="fr", domain="law"
    )

    always = {"engine": "ctranslate2", "device": "cpu", "threads": 1, "quantization": "int8"}
    assert [(each.path.name, each.options) for each in loaded] == [
        ("teacher", always | {"shortlist": "off"}),
        ("teacher", always | {"shortlist": "off"}),
        ("student", always | {"shortlist": "on"}),
        ("student", always | {"shortlist": "on"}),
    ]
    timed = len(range(0, num_pairs, step))
    calls = [(4, "en", "fr", "law"), (1, "en", "fr", "law"), (1, "", "", ""), (2, "", "", "")]
    for each, (beam, source, target, domain) in zip(loaded, calls, strict=True):
        texts = TextOptions(language=source, target=target, domain=domain)
        options = {"beam_size": beam, "batch_size": 32, "text_options": texts}
        assert each.asked == [(num_pairs, options)] + [(timed, options)] * 5  # all lines, and five rounds for the time
    assert scored == [
        ({f"{each.path.name} {beam}"}, num_pairs, f"t{num_pairs - 1}")
        for each, (beam, *_) in zip(loaded, calls, strict=True)
    ]
    names = ["teacher, beam 4", "teacher, greedy", "student, greedy", "student, beam 2"]
    assert cold == [(name, "s0") for name in names] * 5
    assert (found.num_lines, found.num_timed, found.signatures) == (num_pairs, timed, ("b", "c"))
    systems = [*found.teachers, *found.students]
    assert [each.name for each in systems] == names
    assert [len(found.teachers), len(found.students)] == [2, 2]
    assert [(each.parameters, each.bytes) for each in systems] == [(7, 400), (7, 100), (3, 100), (3, 200)]
    assert [(each.bleu, each.chrf) for each in systems] == [
        (Measure(n, 0.5), Measure(10 * n, 0.5)) for n in (1, 2, 3, 4)
    ]
    assert [each.cold_start for each in systems] == [Measure(beam, 0.0) for beam in (4, 1, 1, 2)]
    for each in systems:
        assert each.lines_per_second == mean_of([timed / seconds for seconds in each.seconds])
        assert len(each.seconds) == 5


def test_without_pairs_there_is_nothing_to_compare(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no pairs to compare teacher and student on"):
        compare(tmp_path, tmp_path, [("", "a"), ("b", " ")])


def test_a_cold_start_is_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Any] = []

    def run(command: list[str], **options: Any) -> Any:
        ran.append((command[1:], options["input"]))
        return SimpleNamespace(returncode=len(ran) - 1, stderr=" no model\n")

    times = iter([10.0, 12.5, 20.0])
    monkeypatch.setattr(module.subprocess, "run", run)
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(times))
    system = _System("student, beam 2", bundle_of(tmp_path), 2, "on", "en", "fr", "law")
    assert system.start_cold("a line") == 2.5
    options = "--quiet --engine ctranslate2 --quantization int8 --device cpu --threads 1 --beam-size 2 --shortlist on"
    direction = ["--source-language", "en", "--target", "fr", "--domain", "law"]
    command = ["-P", "-m", "transduce", "translate", str(tmp_path), *options.split(), *direction]
    assert ran == [(command, "a line\n")]
    with pytest.raises(EngineError, match="student, beam 2: the process that measures the cold start failed: no model"):
        system.start_cold("a line")


@pytest.mark.parametrize("shortlist", ["on", "off"])
def test_the_size_is_that_of_what_a_system_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shortlist: str
) -> None:
    folder = tmp_path / "converted"
    folder.mkdir()
    for name, size in (("model.bin", 1000), ("vmap.txt", 200)):
        (folder / name).write_bytes(b"x" * size)
    (tmp_path / "tokenizer.json").write_bytes(b"x" * 30)
    asked: list[Any] = []

    def converted(bundle: Any, quantization: str, *, shortlisted: bool) -> Path | None:
        asked.append((quantization, shortlisted))
        return folder if shortlisted else None

    monkeypatch.setattr(module, "converted", converted)
    assert _System("x", bundle_of(tmp_path), 1, shortlist).num_bytes() == (1230 if shortlist == "on" else 30)
    assert asked == [("int8", shortlist == "on")]


def test_numbers_are_shown_with_as_many_digits_as_say_something() -> None:
    shown = [str(Measure(value, 1.234)) for value in (99.994, 100.0, -100.0, 12345.6)]
    assert shown == ["99.99 ± 1.23", "100 ± 1", "-100 ± 1", "12,346 ± 1"]
