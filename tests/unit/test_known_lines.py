"""Lines found again by their keys, against a slow and obvious definition of the same and of near-copies."""

import re
import unicodedata
from functools import cache
from random import Random

import pytest

from transduce.text.known_lines import MIN_NEAR_WORDS, KnownLines, line_keys

LINE = "The quick brown fox doesn't jump over the lazy dog."
GERMAN = "Die Straße ist im Süden ziemlich groß und heißt Weißdornweg."


@pytest.mark.parametrize(
    ("known", "other"),
    [
        (LINE, f"  {LINE}\t"),
        (LINE, LINE.upper()),
        (LINE, LINE.replace("'", "’").removesuffix(".") + "!!!"),
        (LINE, LINE.replace(" ", "\N{NO-BREAK SPACE} ")),
        (LINE, "the quick-brown fox doesn 't jump over the lazy dog ."),
        (LINE, LINE.replace("fox", "\uff46\uff4f\uff58")),  # full width
        (LINE, LINE.replace("brown", "bro\N{SOFT HYPHEN}wn")),
        ("It flows into the sea, efficiently.", "It \ufb02ows into the sea \u2013 e\ufb03ciently\u2026"),  # ligatures
        (GERMAN, GERMAN.upper()),
        (GERMAN, unicodedata.normalize("NFD", GERMAN)),
        (unicodedata.normalize("NFD", GERMAN), GERMAN.casefold()),
        ("我们今天去看电影。", "我们今天 去看电影"),
        ("한국어 문장입니다.", unicodedata.normalize("NFD", "한국어 문장입니다")),
        ("यह हिन्दी में एक वाक्य है।", "यह हिन्दी में एक वाक्य है !"),
        ("( [ ] ) ♥", " ( [ ] ) ♥"),
        ("Let \N{DOUBLE-STRUCK CAPITAL R} be the field.", "let r be the field"),
        ("\N{MATHEMATICAL BOLD CAPITAL F}ield", "field"),
        ("ガイドブック", "\uff76\uff9e\uff72\uff84\uff9e\uff8c\uff9e\uff6f\uff78"),  # half width
        ("가ㅋㅋ", "\u3131\u314f\u314b\u314b"),  # from single letters
    ],
)
def test_the_same_line_in_another_form(known: str, other: str) -> None:
    lines = KnownLines()
    lines.add(["", "Quite another line, of more than a few words.", known])
    matches = lines.find(["", other, "unknown"])
    assert matches.known.tolist() == [-1, 2, -1]
    assert matches.same.tolist() == [False, True, False]
    assert line_keys([known]) == line_keys([other])
    assert line_keys([known, "e\N{COMBINING ACUTE ACCENT}"])[0] == line_keys([known])[0]  # the others do not matter


@pytest.mark.parametrize(
    ("known", "other"),
    [
        ("Größe", "Grosse"),
        ("यह", "यहि"),  # another vowel
        ("( [ ] )", "( [ ) ]"),
        ("He can't do this.", "He can do this."),
        ("one line", ""),
    ],
)
def test_another_line_is_not_the_same(known: str, other: str) -> None:
    lines = KnownLines()
    lines.add([known])
    assert lines.find([other]).known.tolist() == [-1]


@cache
def slow_words(line: str) -> list[str]:
    """Only for text without scripts that have no spaces, and without marks."""
    return re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", line.casefold()))


@cache
def slow_forms(line: str) -> set[str]:
    words = slow_words(line)
    return {"".join(words[:i] + words[i + 1 :]) for i in range(len(words))} | {"".join(words)}


def slow_match(line: str, known: list[str]) -> str:
    """Returns "same", "near" or "" for a line, compared with all known ones."""
    if any(slow_words(line) and "".join(slow_words(line)) == "".join(slow_words(other)) for other in known):
        return "same"
    long = [other for other in known if min(len(slow_words(line)), len(slow_words(other))) >= MIN_NEAR_WORDS]
    return "near" if any(slow_forms(line) & slow_forms(other) for other in long) else ""


def edited(words: list[str], random: Random) -> str:
    """Returns a line with up to two of its words changed, added, dropped or moved, in another case."""
    words = list(words)
    for _ in range(random.randrange(3)):
        at = random.randrange(len(words))
        match random.randrange(4):
            case 0:
                words[at] = random.choice(["neu", "Ändern", "ß", "42"])
            case 1:
                words.insert(at, random.choice(words))
            case 2 if len(words) > 1:
                del words[at]
            case _:
                words.insert(random.randrange(len(words)), words.pop(at))
    line = random.choice([" ", "  ", ", ", " – "]).join(words)
    return random.choice([line, line.upper(), line.capitalize() + "."])


def test_matches_are_those_of_the_slow_definition() -> None:
    """Of 600 lines from a small vocabulary, about a third of each kind; more than one block of lines."""
    random = Random(3)
    vocabulary = ["der", "hund", "straße", "über", "grün", "läuft", "cœur", "été", "dog", "cat1", "3", "house"]
    known = [" ".join(random.choices(vocabulary, k=random.randrange(1, 16))) for _ in range(300)]
    lines = [edited(random.choice(known).split(), random) for _ in range(600)]
    index = KnownLines()
    index.add(known[:20])
    index.add(known[20:])
    matches = index.find(lines)
    found = ["" if n < 0 else "same" if same else "near" for n, same in zip(matches.known, matches.same, strict=True)]
    wrong = [(line, kind) for line, kind in zip(lines, found, strict=True) if kind != slow_match(line, known)]
    assert not wrong[:3]
    assert all(found.count(kind) > 100 for kind in ("same", "near", ""))
    for line, number, kind in zip(lines, matches.known.tolist(), found, strict=True):
        assert slow_match(line, [known[number]] if kind else []) == kind


def test_a_near_copy_has_eight_words() -> None:
    lines = KnownLines()
    lines.add(["one two three four five six seven eight", "我们今天去看电影"])
    near = ["one two three four five six seven ate", "one two four five six seven eight nine", "我们明天去看电影"]
    far = ["one two three four five six seven", "one two 3 four five six seven ate", "我们明天去看书"]
    assert lines.find(near + far).known.tolist() == [0, 0, 1, -1, -1, -1]


def test_a_line_of_a_million_letters_is_compared_by_its_beginning() -> None:
    lines = KnownLines()
    lines.add(["a" * 1_000_000, "b " * 500_000])
    found = lines.find(["A" * 1_000_000, "b " * 400_000, "b " * 100])
    assert found.known.tolist() == [0, 1, -1]


def test_lines_may_be_added_after_a_search() -> None:
    lines = KnownLines()
    lines.add([LINE])
    assert lines.find([GERMAN]).known.tolist() == [-1]
    lines.add([GERMAN])
    assert lines.find([GERMAN, LINE]).known.tolist() == [1, 0]
