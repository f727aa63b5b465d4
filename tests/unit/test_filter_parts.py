"""The parts of the corpus filter that decide about one line or one pair, at their limits."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import made_parallel
from transduce.alignment.line_pairs import AlignmentModel
from transduce.alignment.vocabulary import Vocabulary
from transduce.alignment.windows import WindowSampler
from transduce.alignment.words import tokens_of
from transduce.augmentation.filtering import corpus_filter, profile
from transduce.augmentation.filtering.damaged_text import (
    LetterOrder,
    differing_numbers,
    ends_open,
    is_invisible,
    repeated_phrases,
)
from transduce.augmentation.filtering.near_duplicates import NearDuplicates, _similarity
from transduce.augmentation.filtering.profile import CorpusProfile, require_one_pair
from transduce.augmentation.filtering.text_rules import PairBlock, check_text
from transduce.augmentation.filtering.unfamiliar_words import UnfamiliarWords, single_words
from transduce.config import DataConfig
from transduce.config.filter_options import RULES, FilterOptions
from transduce.data.corpus import Part
from transduce.errors import ConfigError, DataError

# --- text rules -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "junk"),
    [
        ("aa bb xx yy", True),  # half of the words are not known
        ("aa bb cc xx", False),
        ("aa bb cc xx yy", False),
        ("aa xx yy", True),
        ("aa bb xx yy 12 13 14", True),  # numbers do not count
        ("aa bb cc xx yy zz dd", False),  # "zz" is in the source, too
        ("aa bb cc", False),
    ],
)
@pytest.mark.parametrize("side", [0, 1])
def test_half_of_the_words_must_be_unknown_for_letters_to_be_judged(line: str, junk: bool, side: int) -> None:
    known = tokens_of(["aa bb cc dd"]).hashes
    vocabulary = SimpleNamespace(ids=lambda hashes: np.where(np.isin(hashes, known), 0, -1))
    random, ordered = (SimpleNamespace(is_random=lambda _, answer=answer: answer) for answer in (True, False))
    words: Any = (SimpleNamespace(vocabulary=vocabulary),) * 2
    letters: Any = (random, ordered) if side == 0 else (ordered, random)
    found = CorpusProfile(("", ""), 1.0, None, words, None, (), letters)
    pair = (line, "zz")[:: 1 if side == 0 else -1]
    off = tuple(rule for rule in RULES if rule != "junk")
    reason = f"the {('source', 'target')[side]} has letters in an order that its language hardly ever uses"
    assert check_text(PairBlock([("zz", "zz"), pair], found), FilterOptions(off=off)) == (  # type: ignore[arg-type]
        {1: ("junk", reason)} if junk else {}
    )


def rule_of(source: str, target: str, found: CorpusProfile | None = None, **options: Any) -> str:
    """Returns the rule that the second of two pairs breaks, or ""."""
    found = found or CorpusProfile(("", ""), 1.0, None, None, None, ())
    broken = check_text(PairBlock([("yes", "ja"), (source, target)], found), FilterOptions(**options))
    return broken.get(1, ("", ""))[0]


@pytest.mark.parametrize(("length", "broken"), [(19, True), (20, False), (21, False)])
@pytest.mark.parametrize("side", [0, 1])
def test_a_side_that_ends_openly_is_short_below_three_quarters(length: int, broken: bool, side: int) -> None:
    """Ten characters are added to both: 30 and 10 against 20 and 10. A side whose lines never end in a sign may."""
    pair = ["x" * 15 + " " + "y" * 13 + ".", ("v" * 9 + " " + "w" * length)[:length]]
    source, target = pair if side else pair[::-1]
    assert rule_of(source, target) == ("truncated" if broken else "")
    closes = (bool(side), not side)
    other = CorpusProfile(("", ""), 1.0, None, None, None, (), closes=closes)
    assert rule_of(source, target, other) == ""
    usual = CorpusProfile(("", ""), 0.5 if side else 2.0, None, None, None, ())  # this side is shorter as a rule
    assert rule_of(source, target, usual) == ""


@pytest.mark.parametrize(
    ("target", "rule"),
    [
        ("big dogs the run", "copy"),
        ("big dogs the", ""),  # of less than four words only the same text is a copy
        ("dogs run", ""),
        ("the big dogs run!", "copy"),
        ("the big dogs run home", "copy"),  # four of five
        ("the big dogs run home now", ""),  # four of six
        ("the 12 13 14 big dogs run", "copy"),  # numbers are no words
    ],
)
def test_how_many_words_a_copy_has(target: str, rule: str) -> None:
    assert rule_of("the big dogs run 12 13 14", target) == rule


@pytest.mark.parametrize(("target", "broken"), [(80, False), (81, True), (10 * 2 - 3, False)])
def test_three_times_the_usual_length_is_too_much(target: int, broken: bool) -> None:
    """20 and 10 against 80 and 10 characters are one to three."""
    assert (rule_of("s" * 20, "t" * target, off=("junk",)) == "ratio") == broken


@pytest.mark.parametrize(
    ("source", "target", "differ"),
    [
        ("8", "20", False),  # hours
        ("11", "23", False),
        ("12", "24", True),
        ("5", "18", True),
        ("90", "1990", False),
        ("99", "2099", False),
        ("90", "190", True),
        ("5", "1005", True),  # no year of a century that is written in two digits
        ("5", "1105", False),
        ("1.5", "1 500 000", False),
        ("3", "three", False),
        ("1,000", "1.000", False),
        ("1000", "1 000", False),
        ("1'000'000", "1\u202f000\u202f000", False),
        ("12 and 13", "13 und 12", False),
        ("12 and 13", "13 und 14", True),
        ("0", "7", False),  # a zero says nothing
        ("٣", "3", False),
        ("8 and 9", "20 und 10", True),
        (
            "On 5 June, 1.2 million people",
            "6月5日，120万人",
            False,
        ),  # 1.2 and 120 are the same digits
        ("12 billion won in October", "10 월 120억 원", False),
        ("On 5 June, 1.2 million people", "6月5日，130万人", True),
        ("after 5 months", "6个月后", True),
        ("2023", "พ.ศ. 2566", False),
        ("2023", "พ.ศ. 2565", True),
        ("500", "1043", True),
        ("1998", "平成10年", False),
        ("1998", "平成11年", True),
        ("2024", "民國113年", False),
    ],
)
def test_which_numbers_differ(source: str, target: str, differ: bool) -> None:
    assert (differing_numbers(source, target) is not None) == differ
    assert (differing_numbers(target, source) is not None) == differ


def test_the_first_number_of_each_side_that_differs_is_named() -> None:
    assert differing_numbers("from 3 to 14 to 15", "von 3 bis 19 bis 20") == ("14", "19")
    assert differing_numbers("it is " + "31" * 2500, "es ist 4") == ("31" * 500, "4")  # the first 1000 digits


@pytest.mark.parametrize(
    ("line", "end"),
    [
        *[("a dog", 1), ("in 1999", 1), ("a dog.", -1), ("a dog!", -1), ("a dog?", -1), ("a dog…", -1), ("犬。", -1)],
        *[("犬！", -1), ("犬？", -1), ("هل؟", -1), ("है।", -1), ("a dog,", 0), ("a dog)", 0), ("", 0), ("a dog:", 0)],
        *[("“a dog.” ", -1), ("»a dog« x", 1), ('a dog."', -1), ("a dog.’", -1), ("a dog.»", -1), ("a dog.›", -1)],
    ],
)
def test_how_a_line_ends(line: str, end: int) -> None:
    assert ends_open(["x.", line]).tolist() == [-1, end]


def test_what_cannot_be_seen() -> None:
    assert all(map(is_invisible, ["", " \t", "\u200b\ufeff", "\u115f\u1160\u2800\u3164\uffa0", "\x00\x85\u2028"]))
    assert not any(map(is_invisible, ["a", ".", " \u0301", "\u200ba"]))


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("x a b c a b c", 3),
        ("a b c d a b c d", 4),
        ("a b c, a b c!", 3),  # signs do not count
        ("a a a a", 1),  # three words in a row occur twice
        ("a a a", None),
        ("a b a b a", 2),
        ("a b a b", None),
        ("a b c x a b c", None),  # not at once
        ("a b c d a b c", None),  # the line ends before
    ],
)
def test_phrases_that_are_repeated_at_once(line: str, count: int | None) -> None:
    """The next line begins with a word that would make more of them a repetition."""
    assert repeated_phrases(tokens_of(["one line", line, "d a b"])) == ({} if count is None else {1: count})


def test_letters_of_a_side() -> None:
    """Random letters are found from six trigrams on; a word with a letter that the side does not have says nothing."""
    order = LetterOrder.learn(["the dog runs home and the cat sees the house"] * 3000 + ["x" * 9])
    for word, random in (("tgs", False), ("hdtsgmnc", True), ("hdtsgmn", False), ("the dog runs home", False)):
        assert order.is_random(word) == random, word
    assert not order.is_random("hdtsgмnc")
    assert order.is_random("HDTSGMNC")
    assert {chr(code) for code in order.numbers} == set("thedogrunshomeandcatseeshouse") | {"x"}


def test_each_side_of_a_profile_is_learned_from_its_own_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AlignmentModel, "learn", lambda *_: None)
    sampler = WindowSampler(64)
    sampler.add([(source, target[:-1]) for source, target in made_parallel.pairs(2500)])
    learned = profile._learn(sampler, None, ("en", "fr"))
    assert learned.unfamiliar is not None
    assert learned.letters is not None
    lines = [[line for window in sampler.windows.values() for line in window[side]] for side in (0, 1)]
    assert learned.closes == (True, False)  # the targets have no full stops
    for side in (0, 1):
        letters = {letter for letter in "".join(lines[side]).lower() if letter.isalpha()}
        assert {chr(code) for code in learned.letters[side].numbers} == letters
        own, other = (learned.unfamiliar[side].vocabulary.ids(tokens_of(lines[i]).hashes) for i in (side, 1 - side))
        assert (own >= 0).mean() > 0.95
        assert (other >= 0).mean() < 0.2
        fits = learned.unfamiliar[side].fits(tokens_of([lines[side][0] * 2, lines[1 - side][0] * 2]))
        assert fits.tolist() == [True, False]
    assert learned.notes == (
        "the letters of the two sides are too similar, or too few, to distinguish the languages",
        "lines fit their partners no better than lines from elsewhere: alignment is not checked. Is the corpus "
        "aligned at all? 'transduce prepare --check-only' examines that",
    )


def test_a_small_corpus_says_what_is_not_checked() -> None:
    sampler = WindowSampler(64)
    sampler.add([("a dog runs", "ein Hund rennt")] * 1999)
    learned = profile._learn(sampler, None, ("", ""))
    assert (learned.unfamiliar, learned.letters, learned.alignment) == (None, None, None)
    assert learned.notes[1] == "fewer than 2,000 pairs: alignment and third languages are not checked"


def test_words_that_one_side_alone_has() -> None:
    source, target = tokens_of(["Paris is big", "x y 12", "z"]), tokens_of(["paris est grand, big", "y 12 x", ""])
    found = single_words(source, target)
    assert found[0].tolist() == [False, True, False, False, False, False, True]
    assert found[1].tolist() == [False, True, True, False, False, False, False, False]


def test_how_much_a_word_says_is_learned_by_its_frequency() -> None:
    """A side of one frequent word and a hundred that come once; on the other side those of the first do not occur."""
    own = tokens_of(["dog"] * 900 + [f"rare{i}" for i in range(100)])
    other = tokens_of(["chien"] * 1000)
    vocabulary = Vocabulary.of(own, 10)
    learned = UnfamiliarWords.learn(vocabulary, own, other)
    # Own words: 100 unknown, 900 in the class of the most frequent; other words: 1000 unknown. 20 are added to each.
    shares = [(100 + 20) / (1000 + 140), (1000 + 20) / (1000 + 140)]
    assert learned.evidence[0] == pytest.approx(np.log(shares[0] / shares[1]))
    assert learned.evidence[6] == pytest.approx(np.log(920 / 20))
    assert learned.evidence[1:6] == pytest.approx(0)


# --- near-duplicates --------------------------------------------------------------------------------------------------


def test_a_pair_is_compared_with_the_three_that_have_most_in_common() -> None:
    """Pair 5 has one key in common with pairs 0 and 3 each, two with pair 1, and three with pair 2."""
    keys = np.arange(1, 49, dtype=np.uint32).reshape(6, 8)
    for band, earlier in enumerate([0, 1, 1, 2, 2, 2, 3]):
        keys[5, band] = keys[earlier, band]
    keys[4, 7] = keys[0, 7] = 0  # a pair without words
    found = NearDuplicates.among(keys, np.ones(6, dtype=bool), 0.8)
    assert found.later.tolist() == [5, 5, 5]
    assert found.earlier.tolist() == [2, 1, 0]
    assert found.needed(0, 6) == [0, 1, 2, 5]
    assert found.needed(1, 4) == [1, 2]
    kept = np.array([True, True, False, True, True, True])
    assert NearDuplicates.among(keys, kept, 0.8).earlier.tolist() == [1, 0, 3]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1, 2, 3], [2, 3, 4], 2 / 4),
        ([1, 2], [1, 2, 3, 4], 2 / 4),
        ([1], [1, 2, 3], 0),
        ([], [], 0),
        ([7, 9], [7, 9], 1),
    ],
)
def test_similarity(first: list[int], second: list[int], expected: float) -> None:
    arrays = [np.array(each, dtype=np.uint32) for each in (first, second)]
    assert _similarity(*arrays) == _similarity(*arrays[::-1]) == expected


# --- the whole filter -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "limit", "dropped"), [(0.0, 2.0, [3]), (1.5, 1.5, [2, 3]), (1.0, 1.0, [0, 2, 3])])
def test_pairs_beyond_the_limit_of_cross_entropy_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: float, limit: float, dropped: list[int]
) -> None:
    """The fifth pair is a copy: the models are not asked for it."""
    scores = np.array([1.25, 1.0, 2.0, 5.0, np.nan], np.float32)
    chosen: list[list[bool]] = []

    def score_corpus(_: Any, kept: Any, *__: Any, **___: Any) -> Any:
        chosen.append(kept.tolist())
        return scores

    monkeypatch.setattr(corpus_filter, "score_corpus", score_corpus)
    monkeypatch.setattr(corpus_filter, "usual_limit", lambda _: 2.0)
    pairs = ["a dog\tein Hund", "a cat\teine Katze", "my house\tmein Haus", "good day\tguten Tag", "the same\tthe same"]
    (tmp_path / "a.tsv").write_text("".join(f"{pair}\n" for pair in pairs))
    models: Any = (None, None)
    data, options = DataConfig(train=((str(tmp_path / "a.tsv"),),)), FilterOptions(max_cross_entropy=given)
    report = corpus_filter.filter_corpus(data, None, options, models=models)
    assert chosen == [[True] * 4 + [False]]
    assert report.settings["max_cross_entropy"] == limit
    assert {rule: count for rule, count in report.dropped.items() if count} == {
        "copy": 1,
        "cross-entropy": len(dropped),
    }
    found = [(each.location, each.reason) for each in report.examples["cross-entropy"]]
    expected = [(f"a.tsv:{i + 1}", f"dual conditional cross-entropy {scores[i]:.2f}") for i in dropped]
    assert sorted(found) == expected
    assert report.distributions[-1].name == "dual conditional cross-entropy"


def test_the_folder_of_the_corpus_is_never_written_to(tmp_path: Path) -> None:
    """Neither where its files are named, nor where they really are."""
    real, links, other = (tmp_path / name for name in ("real", "links", "other"))
    for folder in (real / "deep", links, other):
        folder.mkdir(parents=True)
    (real / "deep/a.tsv").touch()
    (links / "a.tsv").symlink_to(real / "deep/a.tsv")
    parts = (Part((links / "a.tsv",)),)
    for folder in (links, real / "deep", real, tmp_path):
        for overwrite in (False, True):
            with pytest.raises(DataError, match="contains files that are to be filtered"):
                corpus_filter._require_output(folder, parts, overwrite=overwrite)
    corpus_filter._require_output(tmp_path / "new", parts, overwrite=False)
    (other / "report.json").touch()
    with pytest.raises(DataError):
        corpus_filter._require_output(other, parts, overwrite=False)
    corpus_filter._require_output(other, parts, overwrite=True)
    (other / "report.json").rename(other / "mine.json")
    with pytest.raises(DataError, match="no filter has written it"):
        corpus_filter._require_output(other, parts, overwrite=True)


def test_each_part_is_filtered_once_and_bytes_that_are_not_utf_8_are_an_error_without_their_rule(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.tsv").write_bytes(b"one dog\tein Hund\n")
    (tmp_path / "b.tsv").write_bytes(b"a cat\teine Katze\nthe \xff\tdas\n")
    data = DataConfig(folder=str(tmp_path), train=(("a.tsv",), ("b.tsv",), ("a.tsv",)))
    report = corpus_filter.filter_corpus(data, None)
    assert (report.files, report.part_sizes, report.dropped["encoding"]) == ([["a.tsv"], ["b.tsv"]], [1, 2], 1)
    with pytest.raises(DataError, match=r"b\.tsv, line 2: not UTF-8"):
        corpus_filter.filter_corpus(data, None, FilterOptions(off=("encoding",)))


def test_one_pair_of_languages_at_a_time() -> None:
    german, french, unknown = (Part((Path("a"),), languages=pair) for pair in (("en", "de"), ("en", "fr"), ("", "")))
    assert require_one_pair([german, german]) == ("en", "de")
    with pytest.raises(ConfigError, match=r"several pairs of languages: en-de, en-fr, \?-\?\. "):
        require_one_pair([german, french, unknown])
