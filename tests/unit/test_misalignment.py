"""Shifted lines and swapped sides are found; aligned corpora of all kinds pass."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from transduce.alignment import line_scorer
from transduce.alignment.vocabulary import Vocabulary
from transduce.alignment.words import tokens_of
from transduce.config import DataConfig
from transduce.data import misalignment, shifted_lines
from transduce.data.corpus import locate
from transduce.data.demo_corpus import make_demo_corpus
from transduce.data.doctor import Findings, examine, require_aligned
from transduce.errors import DataError

Pair = tuple[list[str], list[str]]
Sides = tuple[list[str], list[str]]


def words(count: int, consonants: str, vowels: str, seed: int) -> list[str]:
    """Returns made-up words of one language, with letters that the other language does not use."""
    random = Random(seed)
    made = [
        "".join(random.choice(s) for s in (consonants, vowels, consonants, vowels)[: 2 + i % 3]) for i in range(count)
    ]
    return [f"{word}{consonants[i % len(consonants)]}" for i, word in enumerate(made)]


ABROAD = words(600, "bdgklm", "aei", 1)
HERE = words(600, "prstvz", "ouy", 2)


def translations(count: int, seed: int) -> Sides:
    """Returns lines of made-up words, and their translations word for word in another order."""
    random = Random(seed)
    source, target = [], []
    for _ in range(count):
        line = [int(600 * random.random() ** 3) for _ in range(random.randrange(4, 14))]
        source.append(" ".join(HERE[i] for i in line) + ".")
        target.append(" ".join(ABROAD[i] for i in line[::-1]) + ".")
    return source, target


def write(folder: Path, **parts: Sides) -> None:
    """Writes `train.s`, `train.t` and so on."""
    for name, sides in parts.items():
        for side, lines in zip("st", sides, strict=True):
            text = "".join(f"{line}\n" for line in lines)
            (folder / f"{name}.{side}").write_text(text, encoding="utf-8", newline="\n")


def found(folder: Path, train: Sides, **held_out: Sides) -> Findings:
    """Returns the doctor's findings; the files are those of `write`, the held-out ones in order."""
    write(folder, train=train, **held_out)
    names = list(held_out)
    data = DataConfig(
        folder=str(folder),
        train=(("train.s", "train.t"),),
        validation=("validation.s", "validation.t") if "validation" in names else (),
        test={name: (f"{name}.s", f"{name}.t") for name in names if name != "validation"},
    )
    findings = examine(locate(data), data, progress=False).findings
    if findings.misaligned:
        with pytest.raises(DataError, match="allow_misaligned=true"):
            require_aligned(findings, data)
    else:
        require_aligned(findings, data)
    return findings


def shifted(sides: Sides, line: int, back: int | None = None) -> Sides:
    """Returns the sides without line `line` of the target, and line `back` (None: the last) of the source."""
    source, target = list(sides[0]), list(sides[1])
    del target[line]
    del source[-1 if back is None else back]
    return source, target


def only(findings: Findings) -> tuple[str, int, int]:
    """Returns the one fault, how many pairs have it, and the first line of them."""
    ((fault, finding),) = findings.misaligned.items()
    return fault, finding.count, int(finding.examples[0].rsplit(":", 1)[1])


@pytest.mark.parametrize(("line", "chunk"), [(150, 4096), (499, 7), (900, 4096)])
def test_a_line_is_missing_in_a_small_corpus(
    line: int, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.data.corpus.CHUNK_PAIRS", chunk)
    fault, count, first = only(found(tmp_path, shifted(translations(1000, 1), line)))
    assert abs(first - (line + 1)) <= 2
    assert count == 999 - (first - 1)
    assert "to the end" in fault
    assert f"belongs with the line before it in {tmp_path}/train.t" in fault
    assert f"{tmp_path}/train.t lacks 1 line there" in fault


def test_shifted_lines_are_located_at_both_ends(tmp_path: Path) -> None:
    source, target = shifted(translations(2000, 2), 1500, back=600)
    fault, count, first = only(found(tmp_path, (source, target)))
    assert abs(first - 601) <= 2
    assert abs(count - 900) <= 4
    assert "belongs with the line after it" in fault


def test_shifted_lines_of_a_big_corpus_are_found_by_reading_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(misalignment, "MAX_WINDOWS", 8)  # windows lie far apart
    _, _, first = only(found(tmp_path, shifted(translations(6000, 3), 4321)))
    assert abs(first - 4322) <= 2


def test_the_whole_file_is_one_line_off(tmp_path: Path) -> None:
    fault, count, first = only(found(tmp_path, shifted(translations(1500, 4), 0)))
    assert (count, first) == (1499, 1)
    assert "from the first line to the end" in fault


def test_a_held_out_set_is_checked_by_what_was_learned_from_training(tmp_path: Path) -> None:
    findings = found(
        tmp_path, translations(1500, 5), validation=translations(100, 6), news=shifted(translations(300, 7), 140)
    )
    fault, _, first = only(findings)
    assert "news.s" in fault
    assert abs(first - 141) <= 2


def test_a_part_that_is_read_twice_is_checked_once(tmp_path: Path) -> None:
    """A set that is validation and test, or training too: its last and its first line are not neighbours."""
    write(tmp_path, train=translations(1200, 41), dev=shifted(translations(700, 42), 300))
    train, dev = ("train.s", "train.t"), ("dev.s", "dev.t")
    for validation, test in ((dev, {"dev": dev}), (dev, {"dev": dev, "again": dev})):
        data = DataConfig(folder=str(tmp_path), train=(train, dev), validation=validation, test=test)
        fault, count, line = only(examine(locate(data), data, progress=False).findings)
        assert " to the end, each line of " in fault
        assert abs(line - 301) <= 2
        assert count == 699 - (line - 1)


def test_many_small_files_that_are_all_one_line_off() -> None:
    """No window is long enough for the largest offsets, so their means are unknown."""
    source, target = translations(1200, 5)
    windows = [(source[i : i + 39], target[i + 1 : i + 40]) for i in range(0, 1200, 40)]
    scorer = line_scorer.LineScorer.learn(windows)
    offsets = [line_scorer.best_offset(scorer.means(window, i % 2)) for i, window in enumerate(windows)]
    assert offsets.count(-1) == 30


def test_shuffled_lines_do_not_belong_together(tmp_path: Path) -> None:
    source, target = translations(2000, 8)
    Random(1).shuffle(target)
    fault, count, _ = only(found(tmp_path, (source, target)))
    assert "a line matches its neighbour no better than other lines" in fault
    assert count == 2000


@pytest.mark.parametrize("num_windows", [11, 12])
def test_shuffled_lines_of_a_second_corpus_do_not_belong_together(tmp_path: Path, num_windows: int) -> None:
    """The windows of the second are scored by the dictionary that has not seen them, however many the first one has."""
    source, target = translations(2000, 44)
    Random(1).shuffle(target)
    first_corpus = translations(num_windows * shifted_lines.WINDOW_LINES, 43)
    write(tmp_path, train=first_corpus, second=(source, target))
    data = DataConfig(folder=str(tmp_path), train=(("train.s", "train.t"), ("second.s", "second.t")))
    fault, count, first = only(examine(locate(data), data, progress=False).findings)
    assert fault.startswith(f"{tmp_path}/second.s and {tmp_path}/second.t do not belong together: a line matches its")
    assert (count, first) == (2000, 1)


def test_shuffled_lines_in_the_middle_are_found(tmp_path: Path) -> None:
    source, target = translations(2000, 9)
    target[700:1200] = sorted(target[700:1200])
    fault, count, first = only(found(tmp_path, (source, target)))
    assert "do not belong together from about line" in fault
    assert abs(first - 701) <= 32
    assert abs(count - 500) <= 64


def exchanged(sides: Sides) -> Sides:
    return sides[1], sides[0]


@pytest.mark.parametrize("wrong", ["train", "validation", "news"])
def test_swapped_sides_are_reported_once_for_their_part(wrong: str, tmp_path: Path) -> None:
    parts = {"train": translations(1500, 10), "validation": translations(300, 11), "news": translations(300, 12)}
    parts[wrong] = exchanged(parts[wrong])
    findings = found(tmp_path, parts["train"], validation=parts["validation"], news=parts["news"])
    fault, count, _ = only(findings)
    assert fault.startswith(f"{tmp_path}/{wrong}.s and {tmp_path}/{wrong}.t are swapped")
    assert count == len(parts[wrong][0])
    assert findings.held_out_wrong_language.count == 0
    assert findings.wrong_language_sources.count == findings.wrong_language_targets.count == 0


def test_short_lines_are_joined(tmp_path: Path) -> None:
    source, target = translations(3000, 17)
    short = [line.split()[0] for line in source], [line.split()[-1] for line in target]
    findings = found(tmp_path, exchanged(short), validation=translations(300, 18), news=translations(300, 19))
    fault, _, _ = only(findings)
    assert fault.startswith(f"{tmp_path}/train.s and {tmp_path}/train.t are swapped")


def test_a_file_in_the_wrong_language_is_named(tmp_path: Path) -> None:
    source, _ = translations(1500, 13)
    findings = found(tmp_path, (source, source[1:] + source[:1]), validation=translations(400, 14))
    fault, _, _ = only(findings)
    assert fault == f"{tmp_path}/train.t is in the language that {tmp_path}/train.s should be in"


def test_frequent_words_show_which_of_two_parts_is_swapped(tmp_path: Path) -> None:
    english, german = "the dog and cat with house of man are street for", "der hund und katze mit haus von mann sind"
    random = Random(3)

    def lines(text: str, count: int) -> list[str]:
        return [" ".join(random.choices(text.split(), k=10)) for _ in range(count)]

    train, validation = (lines(german, 600), lines(english, 600)), (lines(english, 300), lines(german, 300))
    for name, sides in {"train": train, "dev": validation}.items():
        for language, side in zip(("en", "de"), sides, strict=True):
            (tmp_path / f"{name}.{language}").write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    data = DataConfig(folder=str(tmp_path), train=(("train.en", "train.de"),), validation=("dev.en", "dev.de"))
    swapped = [f for f in examine(locate(data), data, progress=False).findings.misaligned if "swapped" in f]
    assert len(swapped) == 1
    assert swapped[0].startswith(f"{tmp_path}/train.en")


@pytest.mark.parametrize("languages", [("", ""), ("de", "en"), ("en", "de")])
def test_where_all_parts_agree_frequent_words_show_that_all_are_swapped(
    languages: tuple[str, str], tmp_path: Path
) -> None:
    english, german = "the dog and cat with house of man are street for", "der hund und katze mit haus von mann sind"
    random = Random(3)
    for name, count in (("train", 600), ("dev", 300)):
        for side, text in enumerate((english, german)):
            lines = "".join(f"{' '.join(random.choices(text.split(), k=10))}\n" for _ in range(count))
            (tmp_path / f"{name}.{side}").write_text(lines, encoding="utf-8")
    data = DataConfig(
        folder=str(tmp_path),
        train=(("train.0", "train.1"),),
        validation=("dev.0", "dev.1"),
        source_language=languages[0],
        target_language=languages[1],
    )
    swapped = [f for f in examine(locate(data), data, progress=False).findings.misaligned if "swapped" in f]
    assert len(swapped) == (2 if languages == ("de", "en") else 0)
    assert all("the wrong way round" in fault for fault in swapped)


def test_a_swapped_held_out_pair_is_counted_once(tmp_path: Path) -> None:
    validation = translations(200, 15)
    validation[0][7], validation[1][7] = "rosto pusy tozu vyso zoru putyz sovu", "bame dagi kelam mibe lagi gakel dama"
    validation[0][7], validation[1][7] = validation[1][7], validation[0][7]
    findings = found(tmp_path, translations(1500, 16), validation=validation)
    assert findings.held_out_wrong_language.count == 1


# --- no false alarms ------------------------------------------------------------------------------------------


def unspaced(sides: Sides) -> Sides:
    """Returns the lines in ideographs, one or two for each word, without spaces."""

    def spell(lines: list[str], base: int, numbers: dict[str, int]) -> list[str]:
        return ["".join(chr(base + numbers.setdefault(word, len(numbers))) for word in line.split()) for line in lines]

    return spell(sides[0], 0x4E00, {}), spell(sides[1], 0x6E00, {})


def sorted_lines() -> Sides:
    """Returns a sorted corpus, in which neighbours differ in their last word."""
    random, pairs = Random(52), list[tuple[str, str]]()
    for source, target in zip(*translations(250, 53), strict=True):
        for word in random.sample(range(600), 8):
            pairs.append((f"{source[:-1]} {HERE[word]}.", f"{target[:-1]} {ABROAD[word]}."))
    pairs.sort()
    return [source for source, _ in pairs], [target for _, target in pairs]


ALIGNED: dict[str, Callable[[], Sides]] = {
    "translations": lambda: translations(1000, 20),
    "copies": lambda: (translations(1000, 21)[0],) * 2,
    "upper case": lambda: (translations(1000, 22)[0], [line.upper() for line in translations(1000, 22)[0]]),
    "reversed words": lambda: (
        translations(1000, 23)[0],
        [" ".join(line.split()[::-1]) for line in translations(1000, 23)[0]],
    ),
    "reversed letters": lambda: (
        ["".join(Random(i).choices("abcdefghij", k=8)) for i in range(1000)],
        ["".join(Random(i).choices("abcdefghij", k=8))[::-1] for i in range(1000)],
    ),
    "no spaces": lambda: unspaced(translations(1000, 24)),
    "one line again and again": lambda: (["the same line"] * 1000, ["dieselbe Zeile"] * 1000),
    "every line four times": lambda: (
        [line for line in translations(250, 25)[0] for _ in range(4)],
        [line for line in translations(250, 25)[1] for _ in range(4)],
    ),
    "neighbours alike": lambda: (sorted(translations(1000, 26)[0]),) * 2,
    "sorted": sorted_lines,
    "empty lines": lambda: (["", " "] * 700 + translations(100, 27)[0], ["", "x"] * 700 + translations(100, 27)[1]),
    "numbers to words": lambda: ([str(i) for i in range(1000)], [" ".join(map(str, str(i))) for i in range(1000)]),
}


@pytest.mark.parametrize("name", ALIGNED)
def test_aligned_corpora_pass(name: str, tmp_path: Path) -> None:
    source, target = ALIGNED[name]()
    assert not found(tmp_path, (source, target), validation=(source[:50], target[:50])).misaligned


@pytest.mark.parametrize("offset", [0, 1, -1])
def test_a_dictionary_is_learned_from_lines_that_belong_together(offset: int) -> None:
    names = [f"word{i}" for i in range(8)]
    source = tokens_of([names[i % 8] for i in range(64)])
    target = tokens_of([names[(i - offset) % 8] for i in range(64)])  # line i belongs with line i + offset
    vocabulary = Vocabulary.of(source, 100)
    windows, vocabularies = [(source, target)] * 2, (vocabulary, vocabulary)
    for found in line_scorer._learn_halves(windows, [0, 1], [offset, offset], vocabularies):
        for word in range(8):
            start, end = found.starts[word], found.starts[word + 1]
            assert found.targets[start + found.probabilities[start:end].argmax()] == word


@pytest.mark.parametrize("count", [1, 10, 100, 200])
def test_little_text_is_not_checked(count: int, tmp_path: Path) -> None:
    source, target = translations(count, 28)
    assert not found(tmp_path, (source, target)).misaligned
    Random(1).shuffle(target)
    assert not found(tmp_path, (source, target), validation=(source[:20], target[:20])).misaligned


@pytest.mark.parametrize("wrong", ["train", "dev"])
def test_a_validation_set_of_a_few_lines_is_enough_to_see_which_part_is_swapped(wrong: str, tmp_path: Path) -> None:
    english = [line.split() for line in ("the dog and cat with house", "of man are street for is on")]
    german = [line.split() for line in ("der hund und katze mit haus", "von mann sind ist das die")]
    random = Random(4)
    for name, count in (("train", 600), ("dev", 25)):
        for language, words_of in zip(("en", "de"), (english, german)[:: -1 if name == wrong else 1], strict=True):
            lines = (" ".join(random.choices(words_of[0] + words_of[1], k=8)) for _ in range(count))
            (tmp_path / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    data = DataConfig(folder=str(tmp_path), train=(("train.en", "train.de"),), validation=("dev.en", "dev.de"))
    findings = examine(locate(data), data, progress=False).findings
    swapped = [f for f in findings.misaligned if "swapped" in f]
    assert len(swapped) == 1
    assert swapped[0].startswith(f"{tmp_path}/{wrong}.en")
    assert findings.held_out_wrong_language.count == 0


def test_text_without_spaces_is_checked(tmp_path: Path) -> None:
    _, _, first = only(found(tmp_path, shifted(unspaced(translations(1200, 29)), 700)))
    assert abs(first - 701) <= 4


def test_the_demo_corpus_is_aligned(tmp_path: Path) -> None:
    pytest.importorskip("babel")
    pytest.importorskip("num2words")
    for target in ("de", "fr"):
        demo = make_demo_corpus(
            tmp_path / target, target_language=target, num_train=1200, num_validation=60, num_test=60
        )
        train, validation, test = (
            tuple(path.read_text(encoding="utf-8").splitlines() for path in paths)
            for paths in (demo["train"], demo["validation"], demo["test"])
        )
        assert not found(tmp_path, train, validation=validation, news=test).misaligned


def test_real_text(shared: Path, tmp_path: Path) -> None:
    folder = shared / "data/multi30k/raw"
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent: set TRANSDUCE_SHARED to a folder that has it")

    def read(name: str) -> Sides:
        source, target = ((folder / f"{name}.{language}").read_text("utf-8").split("\n") for language in ("en", "de"))
        return source[:2500], target[:2500]

    train, validation = read("train"), read("val")
    assert not found(tmp_path, train, validation=validation).misaligned
    _, _, first = only(found(tmp_path, shifted(train, 1345), validation=validation))
    assert abs(first - 1346) <= 3
    fault, _, _ = only(found(tmp_path, exchanged(train), validation=validation, news=read("test_2016_flickr")))
    assert f"{tmp_path}/train.s and" in fault
