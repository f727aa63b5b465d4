"""What the doctor counts and drops, on corpora small enough to count by hand."""

import unicodedata
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from transduce.config import DataConfig
from transduce.config.corpora import CorpusConfig, HeldOutSetConfig
from transduce.data import corpus as corpus_module
from transduce.data.corpus import locate
from transduce.data.doctor import Examination, examine
from transduce.data.duplicates import find_repeats
from transduce.data.encoding import exceeds
from transduce.data.prepare_report import describe_left_out, describe_near_copies

LONG = "This line is long enough to tell."
LONG_DE = "Diese Zeile ist lang genug."


@pytest.fixture(autouse=True, params=[2, 4096])
def _chunk_pairs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings must not depend on how the corpus is cut into chunks."""
    monkeypatch.setattr(corpus_module, "CHUNK_PAIRS", request.param)


def check(folder: Path, *parts: list[tuple[str, str]], **settings: Any) -> Examination:
    """Examines training parts, written as TSV files `train-0.tsv` and so on."""
    splits: dict[str, Any] = {"train": parts}
    splits |= {name: settings.pop(name) for name in ("validation", "test") if name in settings}
    for i, part in enumerate(parts):
        write(folder / f"train-{i}.tsv", part)
    config: dict[str, Any] = {"folder": str(folder), "train": tuple((f"train-{i}.tsv",) for i in range(len(parts)))}
    if "validation" in splits:
        write(folder / "validation.tsv", splits["validation"])
        config["validation"] = ("validation.tsv",)
    if "test" in splits:
        write(folder / "test.tsv", splits["test"])
        config["test"] = {"news": ("test.tsv",)}
    data = DataConfig(**config, **settings)
    return examine(locate(data), data, progress=False)


def write(path: Path, pairs: list[tuple[str, str]]) -> None:
    path.write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs), encoding="utf-8", newline="\n")


def test_what_is_found_in_a_target_is_located_in_its_file(tmp_path: Path) -> None:
    files = {
        "train.en": ["a", LONG, "b\x0b"],
        "train.de": ["x\u2028", "other text", LONG_DE],
        "dev.en": [LONG, "c", "d"],
        "dev.de": ["y", "z", LONG_DE],
    }
    for name, lines in files.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    data = DataConfig(folder=str(tmp_path), train=(("train.en", "train.de"),), validation=("dev.en", "dev.de"))
    found = examine(locate(data), data, progress=False).findings
    breaks = {name: finding.examples for name, finding in found.hidden_breaks.items()}
    assert breaks == {
        "U+000B line tabulation": [f"{tmp_path}/train.en:3"],
        "U+2028 line separator": [f"{tmp_path}/train.de:1"],
    }
    assert found.leaked_sources.examples == [f"{tmp_path}/train.en:2"]
    assert found.leaked_targets.examples == [f"{tmp_path}/train.de:3"]


def test_the_size_of_each_part_is_that_of_its_targets(tmp_path: Path) -> None:
    examination = check(tmp_path, [("a", "bcd"), ("long", ""), ("e", "fg")], [("hi", "jklm")])
    assert (examination.part_sizes, examination.part_characters) == ([3, 1], [5, 4])


def test_empty_sides_are_dropped(tmp_path: Path) -> None:
    examination = check(tmp_path, [("a", "b"), ("", "b"), ("a", " \u3000")], [("", ""), ("c", "d")])
    assert examination.kept.tolist() == [True, False, False, False, True]
    assert examination.findings.empty.count == 3
    assert examination.findings.empty.examples == [
        f"{tmp_path}/train-0.tsv:2",
        f"{tmp_path}/train-0.tsv:3",
        f"{tmp_path}/train-1.tsv:1",
    ]


def test_hidden_line_breaks_are_counted_by_kind_in_all_splits(tmp_path: Path) -> None:
    train = [("a\u2028b", "c"), ("d", "e\x85f"), ("g\x1d", "h\u2028"), ("i\rj", "k")]
    examination = check(tmp_path, train, validation=[("x\u2028", "y")])
    breaks = examination.findings.hidden_breaks
    assert {name: finding.count for name, finding in breaks.items()} == {
        "U+2028 line separator": 3,
        "U+0085 next line": 1,
        "U+001D separator": 1,
        "U+000D carriage return": 1,
    }
    assert breaks["U+0085 next line"].examples == [f"{tmp_path}/train-0.tsv:2"]
    assert examination.kept.all()


ENGLISH = "the dog cat house man woman street green small runs sees buys with under over from and that which never"
GERMAN = "der hund katze haus mann frau straße grün klein läuft sieht kauft mit unter über von und dass welche nie"


def sentences(count: int, words: str, seed: int) -> list[str]:
    random = Random(seed)
    return [" ".join(random.choices(words.split(), k=12)).capitalize() + "." for _ in range(count)]


def test_lines_in_the_language_of_the_other_side(tmp_path: Path) -> None:
    english, german = sentences(600, ENGLISH, 1), sentences(600, GERMAN, 2)
    pairs = list(zip(english, german, strict=True))
    pairs[500] = pairs[500][::-1]  # swapped
    pairs[501] = (pairs[501][0], english[3])  # not translated
    pairs[502] = (german[7], pairs[502][1])
    pairs[503] = ("The dog.", "The dog.")  # too short to judge
    held_out = [(sentences(1, ENGLISH, 3)[0], "Ein Mann."), tuple(sentences(2, GERMAN, 4))]
    examination = check(tmp_path, pairs, validation=held_out)
    findings = examination.findings
    file = tmp_path / "train-0.tsv"
    assert findings.wrong_language_sources.examples == [f"{file}:501", f"{file}:503"]
    assert findings.wrong_language_targets.examples == [f"{file}:501", f"{file}:502"]
    assert findings.held_out_wrong_language.examples == [f"{tmp_path}/validation.tsv:2"]
    assert (findings.wrong_language_sources.count, findings.wrong_language_targets.count) == (2, 2)
    assert examination.kept.all()
    dropped = check(tmp_path, pairs, validation=held_out, drop_wrong_language=True)
    assert np.flatnonzero(~dropped.kept).tolist() == [500, 501, 502]
    assert dropped.findings.wrong_language_dropped.count == 3


def test_a_part_that_is_in_the_wrong_language_as_a_whole_is_dropped_where_asked(tmp_path: Path) -> None:
    """The targets of the second part are English. Its pairs are counted as one fault, unless they are dropped."""
    english, german = sentences(600, ENGLISH, 1), sentences(600, GERMAN, 2)
    parts = [list(zip(english, german, strict=True)), list(zip(english[:300], english[300:], strict=True))]
    counted = check(tmp_path, *parts)
    assert [finding.count for finding in counted.findings.misaligned.values()] == [300]
    assert counted.findings.wrong_language_targets.count == 0
    assert counted.kept.all()
    dropped = check(tmp_path, *parts, drop_wrong_language=True)
    assert (dropped.findings.wrong_language_targets.count, dropped.findings.wrong_language_dropped.count) == (300, 300)
    assert dropped.kept.tolist() == [True] * 600 + [False] * 300


def test_a_held_out_pair_in_the_wrong_language_is_located_by_its_wrong_side(tmp_path: Path) -> None:
    """By its source, if both sides are wrong."""
    english, german = sentences(600, ENGLISH, 1), sentences(600, GERMAN, 2)
    held_out = [(english[0], german[0]), (german[1], german[2]), (english[1], english[2]), (german[3], english[3])]
    held_out += list(zip(english[10:20], german[10:20], strict=True))
    for side, language in enumerate(("en", "de")):
        for name, pairs in (("train", list(zip(english, german, strict=True))[20:]), ("dev", held_out)):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (tmp_path / f"{name}.{language}").write_text(text, encoding="utf-8")
    data = DataConfig(folder=str(tmp_path), train=(("train.en", "train.de"),), validation=("dev.en", "dev.de"))
    found = examine(locate(data), data, progress=False).findings.held_out_wrong_language
    assert found.examples == [f"{tmp_path}/dev.{name}" for name in ("en:2", "de:3", "en:4")]


def test_sides_in_one_language_are_not_compared(tmp_path: Path) -> None:
    pairs = list(zip(sentences(600, ENGLISH, 1), sentences(600, ENGLISH, 2), strict=True))
    findings = check(tmp_path, pairs).findings
    assert findings.wrong_language_sources.count == findings.wrong_language_targets.count == 0


def test_copies_and_duplicates(tmp_path: Path) -> None:
    pairs = [("a", "b"), ("c", "c"), ("a", "b"), ("a", "c"), ("a", "b"), ("", ""), ("", "")]
    examination = check(tmp_path, pairs)
    assert examination.findings.copies.count == 1
    assert examination.findings.duplicates.count == 2
    assert examination.findings.duplicates.examples == [f"{tmp_path}/train-0.tsv:3", f"{tmp_path}/train-0.tsv:5"]
    assert examination.kept.tolist() == [True] * 5 + [False] * 2
    dropped = check(tmp_path, pairs, drop_duplicates=True)
    assert dropped.kept.tolist() == [True, True, False, True, False, False, False]


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ([{}, {}], [True, True, False, True]),
        ([{}, {"target_language": "fr"}], [True] * 4),  # the tag of another language
        ([{}, {"domain": "law"}], [True] * 4),
        ([{}, {"source_language": "nl"}], [True, True, False, True]),  # no tag: the model reads the same
    ],
)
def test_a_pair_with_another_tag_repeats_nothing(
    tmp_path: Path, settings: list[dict[str, str]], kept: list[bool]
) -> None:
    write(tmp_path / "a.tsv", [("Taxi", "Taxi"), ("a dog", "ein Hund")])
    write(tmp_path / "b.tsv", [("Taxi", "Taxi"), ("a cat", "chat")])
    given = [{"source_language": "en", "target_language": "de", **each} for each in settings]
    corpora = [CorpusConfig(files=(f"{name}.tsv",), **each) for name, each in zip("ab", given, strict=True)]
    data = DataConfig(folder=str(tmp_path), corpora=tuple(corpora), drop_duplicates=True)
    examination = examine(locate(data), data, progress=False)
    assert examination.kept.tolist() == kept
    assert examination.findings.duplicates.count == kept.count(False)


def test_a_duplicate_in_another_part_is_located_there(tmp_path: Path) -> None:
    parts = [[("a", "b"), ("c", "d"), ("e", "f")], [("g", "h"), ("i", "j"), ("c", "d")], [("g", "h")]]
    examples = check(tmp_path, *parts).findings.duplicates.examples
    assert examples == [f"{tmp_path}/train-1.tsv:3", f"{tmp_path}/train-2.tsv:1"]


def test_repeats_are_found_among_the_marked_pairs() -> None:
    hashes = np.array([5, -3, 5, 7, -3, 5, 9], dtype=np.int64)
    among = np.array([False, True, True, True, True, True, True])
    later, first = find_repeats(hashes, among)
    assert later.tolist() == [4, 5]
    assert first.tolist() == [1, 2]
    assert [side.tolist() for side in find_repeats(hashes, np.zeros(7, dtype=bool))] == [[], []]


def test_leaks_are_counted_by_side_and_dropped(tmp_path: Path) -> None:
    train = [
        (LONG, LONG_DE),  # 0: leaks whole
        (f" {LONG} ", "anders"),  # 1: by its source, white space aside
        ("else", LONG_DE),  # 2: by its target
        ("Thanks.", "Vielen Dank."),  # 3: by a source too short to tell
        ("Thanks.", "Danke."),  # 4: short, but leaks whole
        ("fine", "gut"),  # 5
    ]
    held_out = [(LONG, LONG_DE), ("Thanks.", "Danke.")]
    for split in ("validation", "test"):
        examination = check(tmp_path, train, **{split: held_out})
        findings = examination.findings
        assert examination.kept.tolist() == [False, False, False, True, False, True], split
        assert findings.leaked_sources.count == 4
        assert findings.leaked_targets.count == 3
        assert findings.leaked_pairs.count == 2
        assert findings.leaks_dropped.count == 4
        file = "validation.tsv" if split == "validation" else "test.tsv"
        assert findings.leaks_kept.examples == [f"{tmp_path}/train-0.tsv:4 is {tmp_path}/{file}:2"]
        assert (
            describe_left_out(findings) == "4 pairs that are also in validation or test (2 as a whole, 2 on one side)"
        )
    kept = check(tmp_path, train, test=held_out, drop_leaked=False)
    assert kept.kept.all()
    assert kept.findings.leaked_pairs.count == 2
    assert kept.findings.leaks_dropped.count == 0
    assert kept.findings.leaks_kept.count == 5
    assert describe_left_out(kept.findings) == ""


def test_leaks_with_other_case_punctuation_or_unicode_form(tmp_path: Path) -> None:
    train = [
        ("THIS LINE IS LONG ENOUGH TO TELL", "anders"),
        ("else", "\u201eDiese Zeile\u201c \u2013 ist lang genug!"),
        ("thanks", "danke"),  # short, but held out as a whole
        ("thanks", "anders"),
        ("else", unicodedata.normalize("NFD", "Über zwölf böse Wölfe.")),
    ]
    held_out = [(LONG, LONG_DE), ("Thanks.", "Danke."), ("Wolves.", "Über zwölf böse Wölfe!")]
    examination = check(tmp_path, train, test=held_out)
    assert examination.kept.tolist() == [False, False, False, True, False]
    findings = examination.findings
    assert (findings.leaked_sources.count, findings.leaked_targets.count, findings.leaked_pairs.count) == (3, 3, 1)
    assert findings.leaks_dropped.examples[:2] == [
        f"{tmp_path}/train-0.tsv:{line} is {tmp_path}/test.tsv:1" for line in (1, 2)
    ]
    overlap = check(tmp_path, [("a", "b")], validation=held_out, test=[(LONG.lower(), "x"), ("y", "z")])
    assert overlap.findings.held_out_overlap["test.news"].count == 1


def test_near_copies_are_shown_with_the_line_that_they_resemble(tmp_path: Path) -> None:
    train = [
        ("fine", "gut"),
        ("this line is quite long enough to tell us", "anders"),  # a word changed
        ("else", "Diese Zeile ist wohl lang genug, um etwas zu sagen"),  # a word added
        ("Thanks.", "Diese Zeile ist lang genug um etwas."),  # two words dropped
        ("Thanks.", "Diese Zeile ist lang genug um etwas zu."),  # a word dropped, with a short source
        ("This line is long enough, to tell you!", "Diese Zeile ist lang genug"),  # the same, and a near-copy
    ]
    held_out = [
        ("Thanks.", "Vielen Dank."),
        ("This line is really long enough to tell us.", "x"),
        ("y", "Diese Zeile ist lang genug, um etwas zu sagen."),
        ("This line is long enough to tell you.", "z"),
    ]
    examination = check(tmp_path, train, test=held_out)
    assert examination.kept.tolist() == [True, True, True, True, True, False]
    assert examination.findings.near_copies.count == 3
    assert examination.findings.near_copies.examples == [
        f"{tmp_path}/train-0.tsv:2 resembles {tmp_path}/test.tsv:2",
        f"{tmp_path}/train-0.tsv:3 resembles {tmp_path}/test.tsv:3",
        f"{tmp_path}/train-0.tsv:5 resembles {tmp_path}/test.tsv:1",
    ]
    assert describe_near_copies(examination.findings).startswith("3 pairs with a side in which one word differs")
    dropped = check(tmp_path, train, test=held_out, drop_near_copies=True)
    assert dropped.kept.tolist() == [True, False, False, True, False, False]


def test_the_length_limit_for_leaks_is_in_bytes(tmp_path: Path) -> None:
    chinese = "这是一句话。"  # six characters, eighteen bytes
    train = [
        (chinese, "anders"),
        ("else", chinese),
        ("好", "anders"),
        ("fifteen letters", "x"),
        ("sixteen letters.", "x"),
    ]
    held_out = [(chinese, "a"), ("b", chinese), ("好", "c"), ("fifteen letters", "d"), ("sixteen letters.", "e")]
    assert check(tmp_path, train, test=held_out).kept.tolist() == [False, False, True, True, False]


def test_whole_pairs_leak_from_every_held_out_set(tmp_path: Path) -> None:
    short = [("Thanks.", "Danke."), ("Bye.", "Ade."), ("fine", "gut")]
    assert check(tmp_path, short, validation=short[:1], test=short[1:2]).kept.tolist() == [False, False, True]


def test_empty_held_out_lines_leak_nothing(tmp_path: Path) -> None:
    examination = check(tmp_path, [("", "b"), ("a", "b")], validation=[("", ""), ("x", "y")])
    assert examination.findings.leaked_sources.count == 0
    assert examination.findings.held_out_empty.count == 1


def test_overlap_of_validation_and_test(tmp_path: Path) -> None:
    examination = check(
        tmp_path, [("a", "b")], validation=[("v", "w"), (LONG, "x")], test=[("t", "u"), (LONG, "z"), ("s", "w")]
    )
    assert {name: f.count for name, f in examination.findings.held_out_overlap.items()} == {"test.news": 2}
    assert examination.num_held_out == {"validation": 2, "test.news": 3}


def test_sets_of_one_kind_may_share_sentences_of_other_languages(tmp_path: Path) -> None:
    """As dev.en with dev.de and dev.fr; but a test set in French must not have a sentence of validation in German."""
    lines = {"dev.en": ["a", "b"], "dev.de": ["c", "d"], "dev.fr": ["e", "f"], "again.de": ["g", "d"]}
    lines |= {"test.en": ["h", "a"], "test.fr": ["i", "j"], "train.en": ["k"], "train.de": ["l"]}
    for name, texts in lines.items():
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts))

    def held_out(name: str, source: str, target: str) -> HeldOutSetConfig:
        language = target[-2:]
        return HeldOutSetConfig(name=name, files=(source, target), source_language="en", target_language=language)

    files = {"de": "dev.de", "fr": "dev.fr", "again": "again.de"}
    data = DataConfig(
        folder=str(tmp_path),
        train=(("train.en", "train.de"),),
        validation_sets=tuple(held_out(name, "dev.en", file) for name, file in files.items()),
        test_sets=(held_out("fr", "test.en", "test.fr"),),
    )
    overlap = examine(locate(data), data, progress=False).findings.held_out_overlap
    assert {name: finding.count for name, finding in overlap.items()} == {"validation.again": 2, "test.fr": 1}


def test_limits_on_lengths_and_ratio() -> None:
    source = np.array([256, 257, 2, 2, 1, 100, 10])
    target = np.array([256, 3, 10, 11, 9, 401, 40])
    long, odd = exceeds(source, target, DataConfig(max_tokens=256, max_ratio=4.0, ratio_slack_tokens=8))
    assert long.tolist() == [False, True, False, False, False, True, False]
    assert odd.tolist() == [False, False, False, True, False, False, False]
    _, odd = exceeds(source, target, DataConfig(max_ratio=0.0))
    assert not odd.any()
