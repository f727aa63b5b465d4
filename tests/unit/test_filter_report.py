"""What is known of each filtered pair: where it is, why it is dropped, and what the report counts."""

import json
import math
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from transduce.augmentation.filtering.judgement import RULE_NUMBERS, Judgement, judge
from transduce.augmentation.filtering.profile import CorpusProfile
from transduce.augmentation.filtering.report import make_report
from transduce.augmentation.filtering.slips import AFTER, ALIGNED, BEFORE, NONE
from transduce.augmentation.filtering.writing import Dropped, Examples, Writer
from transduce.config.filter_options import RULES, FilterOptions
from transduce.data.corpus import Part

PARTS = tuple(Part((Path("folder") / f"{name}.en", Path("folder") / f"{name}.de")) for name in "abc")
PROFILE = CorpusProfile(("", ""), 2.0, None, None, None, ("a note",))


def judgement(**changes: Any) -> Judgement:
    """Five pairs: two of the first part, none of the second, three of the third; the second and fourth are dropped."""
    values: dict[str, Any] = {
        "part_sizes": [2, 0, 3],
        "rules": np.array([0, RULE_NUMBERS["markup"], 0, RULE_NUMBERS["alignment"], 0], np.uint8),
        "ratios": np.array([0, 0, 9, 0, -9], np.float16),
        "log_odds": np.zeros((3, 0), np.float16),
        "states": np.zeros((0, 4), np.float16),
        "repeats": np.array([2, 4]),
        "repeated": np.array([1, 0]),
        "keys": np.zeros((0, 0), np.uint32),
    }
    return Judgement(**(values | changes))


def test_a_pair_is_located_in_its_own_file() -> None:
    found = [judgement().location(pair, PARTS) for pair in range(5)]
    assert found == ["a.en:1", "a.en:2", "c.en:1", "c.en:2", "c.en:3"]
    assert [judgement().original(pair) for pair in (2, 4)] == [1, 0]


def test_a_pair_is_dropped_by_the_first_rule_that_it_breaks() -> None:
    assert list(RULE_NUMBERS) == list(RULES)
    assert [*RULE_NUMBERS.values()] == list(range(1, len(RULES) + 1))
    judged = judgement()
    assert judged.kept.tolist() == [True, False, True, False, True]
    judged.drop(np.array([0, 1]), "duplicate")
    judged.drop(np.array([False, True, True, False, False]), "cross-entropy")
    names = ["duplicate", "markup", "cross-entropy", "alignment", ""]
    assert judged.rules.tolist() == [RULE_NUMBERS.get(name, 0) for name in names]


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (BEFORE, "the source is aligned with the previous target line"),
        (AFTER, "the source is aligned with the next target line"),
        (NONE, "the sides are not translations of each other"),
    ],
)
def test_a_misaligned_pair_says_where_its_source_belongs(state: int, reason: str) -> None:
    states = np.full((5, 4), 0.0, np.float16)
    states[:, ALIGNED] = 0.25
    states[3, state] = 0.75
    assert judgement(states=states).alignment_reason(3) == f"{reason} (probability of being aligned: 0.25)"


def test_the_report_counts_pairs_by_rule_and_by_part() -> None:
    report = make_report([["a"], ["b"], ["c"]], PROFILE, judgement(), Examples(), {"off": ["numbers", "junk"]})
    assert (report.num_pairs, report.num_kept, report.part_sizes, report.part_kept) == (5, 3, [2, 0, 3], [1, 0, 2])
    assert [*report.dropped] == [rule for rule in RULES if rule not in ("numbers", "junk", "cross-entropy")]
    assert {rule: count for rule, count in report.dropped.items() if count} == {"markup": 1, "alignment": 1}
    text = str(report)
    assert text.startswith("3 pairs kept of 5 (60.00%)\n")
    (row,) = [line for line in text.splitlines() if line.startswith("| markup")]
    assert [part.strip() for part in row.strip("|").split("|")] == ["markup", "tags and HTML entities", "1", "20.000%"]
    assert text.endswith("\nnote: a note")


def test_measures_are_shown_before_and_after() -> None:
    """Bins of the log-ratio are 3.2 / 48 wide, from -1.6 on: log 2 is in number 34. Those beyond are at the ends."""
    log_odds = np.array([[-8] * 5, [8, 0.1, 1.1, -7.9, 8], [-8] * 5], np.float16)
    scores = np.array([1, math.nan, 2, math.nan, math.nan], np.float32)
    judged = judgement(log_odds=log_odds, cross_entropy=scores)
    report = make_report([], PROFILE, judged, Examples(), {"off": []})
    ratio, alignment, entropy = report.distributions
    assert "cross-entropy" in report.dropped
    assert {i: n for i, n in enumerate(ratio.before) if n} == {0: 1, 34: 3, 47: 1}
    assert {i: n for i, n in enumerate(ratio.after) if n} == {0: 1, 34: 1, 47: 1}
    assert (ratio.edges[0], ratio.edges[24], ratio.edges[-1]) == (
        pytest.approx(math.exp(-1.6), abs=1e-4),
        1.0,
        pytest.approx(math.exp(1.6), abs=1e-4),
    )
    assert {i: n for i, n in enumerate(alignment.before) if n} == {0: 1, 24: 1, 27: 1, 47: 2}  # bins of a third
    assert {i: n for i, n in enumerate(alignment.after) if n} == {27: 1, 47: 2}
    assert (sum(entropy.before), sum(entropy.after), len(entropy.before), len(entropy.edges)) == (2, 2, 48, 49)
    judged.drop(np.array([2]), "cross-entropy")
    entropy = make_report([], PROFILE, judged, Examples(), {"off": []}).distributions[-1]
    assert (sum(entropy.before), sum(entropy.after)) == (2, 1)


def test_odds_of_alignment_are_those_of_each_part(tmp_path: Path) -> None:
    """A model that likes the pairs of the first part, and not those of the second."""
    parts = []
    for name, size in (("a", 30), ("b", 20)):
        path = tmp_path / f"{name}.tsv"
        path.write_text("".join(f"word {name} {i}\tWort {name} {i}\n" for i in range(size)))
        parts.append(Part((path,)))
    begun = []

    def log_odds(source: Any, target: Any, first_line: int) -> Any:
        begun.append((first_line, len(source.lengths)))
        return np.tile([[-5.0], [-5.0 if first_line else 5.0], [-5.0]], (1, len(source.lengths)))

    model: Any = SimpleNamespace(noise=0.2, log_odds=log_odds)
    profile = CorpusProfile(("", ""), 1.0, None, None, model, ())
    off = tuple(rule for rule in RULES if rule != "alignment")
    dropped = {}
    for least in (0.5, 1.0):
        judged = judge(parts, profile, FilterOptions(off=off, min_alignment=least), progress=False)
        dropped[least] = np.flatnonzero(judged.rules == RULE_NUMBERS["alignment"]).tolist()
    assert begun == [(0, 30), (30, 20)] * 2
    assert dropped == {0.5: list(range(30, 50)), 1.0: list(range(50))}


def test_what_is_kept_is_written_and_what_is_not_is_logged(tmp_path: Path) -> None:
    """A table of three columns, and two files."""
    long = ("On 3 May the house will vote on this good report again", "Am 3. Mai stimmt das Haus wieder darüber ab")
    rows = [(*long, "x"), ("the <b>dog</b>", "der Hund", "y"), ("a dog runs", "ein Hund rennt", "z")]
    pairs = [("a cat runs", "eine Katze rennt"), rows[2][:2], ("", "leer"), (long[0].upper(), long[1]), ("yes", "ja")]
    (tmp_path / "a.tsv").write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    for side, name in enumerate(("b.en", "b.de")):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    parts = (Part((tmp_path / "a.tsv",)), Part((tmp_path / "b.en", tmp_path / "b.de")))
    profile, options, folder = CorpusProfile(("", ""), 1.0, None, None, None, ()), FilterOptions(), tmp_path / "out"
    folder.mkdir()
    writer = Writer(parts, profile, options, judge(parts, profile, options, progress=False))
    examples = writer.run(folder, corpus=True, progress=False)
    assert (folder / "a.tsv").read_text(encoding="utf-8") == "".join("\t".join(rows[i]) + "\n" for i in (0, 2))
    assert (folder / "b.en").read_text(encoding="utf-8") == "a cat runs\nyes\n"
    assert (folder / "b.de").read_text(encoding="utf-8") == "eine Katze rennt\nja\n"
    log = [json.loads(line) for line in (folder / "dropped.jsonl").read_text(encoding="utf-8").splitlines()]
    expected = [
        ("a.tsv", 2, "markup", "the source has a tag: <b>", *rows[1][:2]),
        ("b.en", 2, "duplicate", "repeats a.tsv:3", *pairs[1]),
        ("b.en", 3, "empty", "the source is empty", *pairs[2]),
        ("b.en", 4, "near-duplicate", "100% of its words are those of a.tsv:1", *pairs[3]),
    ]
    assert [tuple(row.values()) for row in log] == expected
    assert [*log[0]] == ["file", "line", "rule", "reason", "source", "target"]
    for row in expected:
        (example,) = examples.of(row[2])
        assert (example.location, example.reason, example.source) == (f"{row[0]}:{row[1]}", row[3], row[4])


def test_examples_are_six_of_each_rule_from_all_over_the_corpus() -> None:
    examples = Examples()
    for pair in range(700):
        for rule in ("copy", "length"):
            examples.add(pair, Dropped(str(pair), rule, "", "", ""))
    assert examples.of("markup") == []
    expected = sorted(range(700), key=lambda pair: zlib.crc32(pair.to_bytes(8, "little")))[:6]
    for rule in ("copy", "length"):
        assert [int(each.location) for each in examples.of(rule)] == expected
        assert {each.rule for each in examples.of(rule)} == {rule}
    assert max(expected) - min(expected) > 100
