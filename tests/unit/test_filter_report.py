"""What is known of each filtered pair: where it is, why it is dropped, and what the report counts."""

import json
import math
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from transduce.alignment.slips import AFTER, ALIGNED, BEFORE, NONE
from transduce.alignment.vocabulary import Vocabulary
from transduce.augmentation.filtering.cross_entropy import score_corpus
from transduce.augmentation.filtering.judgement import RULE_NUMBERS, Judgement, judge
from transduce.augmentation.filtering.profile import CorpusProfile
from transduce.augmentation.filtering.report import make_report
from transduce.augmentation.filtering.text_rules import PairBlock, check_text
from transduce.augmentation.filtering.writing import Examples, Writer
from transduce.config.filter_options import RULES, FilterOptions
from transduce.data.corpus import Part
from transduce.data.dropped import Dropped
from transduce.data.readers import PairReader
from transduce.translation.forced_scores import TargetScore

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


def test_a_pair_is_located_in_its_own_file(tmp_path: Path) -> None:
    """In the third part, a translation memory, units 2 and 4 have one language only."""
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text("a\nb\n")
    units = ('<tu><tuv lang="en"><seg>a</seg></tuv>', '<tuv lang="de"><seg>b</seg></tuv></tu>', "</tu>")
    both, single = units[0] + units[1], units[0] + units[2]
    (tmp_path / "c.tmx").write_text(f'<tmx><header srclang="en"/>{both}{single}{both}{single}{both}</tmx>')
    readers = {0: PairReader([tmp_path / "a.en", tmp_path / "a.de"]), 2: PairReader([tmp_path / "c.tmx"])}
    assert [len(list(reader)) for reader in readers.values()] == [2, 3]
    judged = judgement(readers=readers)
    found = [judged.location(pair) for pair in range(5)]
    assert found == ["a.en:1", "a.en:2", "c.tmx: unit 1", "c.tmx: unit 3", "c.tmx: unit 5"]
    report = make_report([["a.en", "a.de"], ["b"], ["c.tmx"]], PROFILE, judged, Examples(), {"off": ()})
    place = f"{tmp_path / 'c.tmx'}: unit 2"
    assert report.notes == ["a note", f"2 units without a text in both languages skipped, the first is {place}"]
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
    assert (entropy.edges[0], entropy.edges[-1]) == (
        0,
        pytest.approx(1.05 * 1.999, abs=1e-4),
    )  # all but one in a thousand
    assert [each.name for each in report.distributions] == [
        "length ratio, target to source",
        "alignment, log-odds of a translation",
        "dual conditional cross-entropy",
    ]
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


def test_a_pair_repeats_only_one_that_is_kept(tmp_path: Path) -> None:
    """The same pair four times: the first does not fit its partner, so the second is kept, and two repeat it."""
    (tmp_path / "a.tsv").write_text("word\tWort\n" * 4)
    model: Any = SimpleNamespace(noise=0.2, log_odds=lambda *_: np.array([[-8.0] * 4, [-8, 8, 8, 8], [-8] * 4]))
    profile = CorpusProfile(("", ""), 1.0, None, None, model, ())
    judged = judge([Part((tmp_path / "a.tsv",))], profile, FilterOptions(min_alignment=0.5), progress=False)
    names = ["alignment", "", "duplicate", "duplicate"]
    assert judged.rules.tolist() == [RULE_NUMBERS.get(name, 0) for name in names]
    assert [judged.original(pair) for pair in (2, 3)] == [1, 1]


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


@pytest.mark.parametrize(
    ("source", "target", "options", "reason"),
    [
        ("a b c", "d e f", {"max_words": 3}, ""),
        ("a b", "d e f g", {"max_words": 3}, "the target has 4 words"),
        ("ab " * 400, "Wort " * 200, {}, "the source has about 400 words"),  # by the first 1000 characters of 1200
        ("a dog runs over the green grass today", "ja", {}, "the target is 3.9 times as short as usual"),  # 47 to 12
        ("yes", "ein Hund rennt heute über das grüne Gras", {}, "the target is 3.8 times as long as usual"),
        ("On 3 May 1995", "Am 3. Mai 1959", {}, "the source has 1995, the target 1959"),
        ("the dog runs", "the dog runs ", {}, "source and target are the same"),
        ("the big dog runs", "the big dog runs fast", {}, "80% of the target's words are also in the source"),
        ("a <i>dog</i>", "ein Hund", {}, "the source has a tag: <i>"),
        ("a dog", "ein \ufffdHund", {}, "the target has U+FFFD, bytes that are not UTF-8"),
        ("a dog", "?!", {}, "the target has no words"),
        ("the dog runs home", "le chien va le chien va", {}, "the target repeats 3 words at once, the source does not"),
        ("The dog runs to the house of its friend.", "Der Hund rennt zum", {}, "the target is short, and ends within"),
        ("Der Hund rennt zum", "The dog runs to the house of its friend.", {}, "the source is short, and ends within"),
    ],
)
def test_a_reason_is_in_words(source: str, target: str, options: dict[str, Any], reason: str) -> None:
    profile = CorpusProfile(("", ""), 1.0, None, None, None, ())
    found = check_text(PairBlock([("yes", "ja"), (source, target)], profile), FilterOptions(**options))
    assert [*found] == [1] * bool(reason)
    assert not reason or found[1][1].startswith(reason)


@pytest.mark.parametrize(
    ("lines", "foreign", "reason"),
    [
        (("der Hund und die Katze", "x"), (True, False), "the source is in another language (probably de)"),
        (("the dog and the cat of ours", "x"), (True, False), "the source is in another language"),  # its own, it seems
        (("x", "the dog and the cat of ours"), (False, True), "the target is in another language (probably en)"),
        (("x", "der die the of"), (False, True), "the target is in another language"),  # one as well as the other
        (("x", "the cat"), (False, True), "the target is in another language"),  # one word says nothing
        (("der Hund und die Katze", "the cat"), (True, True), "the source is in another language (probably de)"),
    ],
)
def test_another_language_is_named_where_words_tell_it(
    lines: tuple[str, str], foreign: tuple[bool, bool], reason: str
) -> None:
    block = PairBlock([lines], CorpusProfile(("en", "fr"), 1.0, None, None, None, ()))
    block.__dict__["foreign"] = tuple(np.array([each]) for each in foreign)
    off = tuple(rule for rule in RULES if rule != "language")
    assert check_text(block, FilterOptions(off=off)) == {0: ("language", reason)}


def test_pairs_are_scored_by_their_place_in_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.data.corpus.CHUNK_PAIRS", 2)
    parts = []
    for name, numbers in (("a", "123"), ("b", "45")):
        path = tmp_path / f"{name}.tsv"
        path.write_text("".join(f"s{number}\t{number}\n" for number in numbers))
        parts.append(Part((path,)))

    def score(sources: Any, targets: Any) -> list[TargetScore]:
        """Returns for each of two pieces minus the digit of the line."""
        return [TargetScore(("x", "y"), (-int(line.strip("s")),) * 2, 0.0, False) for line in sources]

    models: Any = (SimpleNamespace(score=score),) * 2
    chosen = np.array([False, True, True, False, True])
    found = score_corpus(parts, chosen, models, progress=False)
    assert found[chosen].tolist() == [2, 3, 5]
    assert np.isnan(found[~chosen]).all()


def test_of_two_words_in_one_slot_the_more_frequent_is_known() -> None:
    words = np.array([5 << 42 | 1, 5 << 42 | 2, 6 << 42], np.uint64)
    assert Vocabulary(words, np.array([0.5, 0.3, 0.2])).ids(words).tolist() == [0, -1, 2]


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
