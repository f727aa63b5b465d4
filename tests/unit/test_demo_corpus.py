"""The demo corpus: correct, reproducible, one target per source, and its parts truly apart."""

import builtins
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from transduce.data.demo.cldr import Cldr
from transduce.data.demo.german import german_slots
from transduce.data.demo.phrases import PHRASES
from transduce.data.demo.slots import plain_slots
from transduce.data.demo_corpus import Line, Part, generate, make_demo_corpus
from transduce.errors import ConfigError, MissingDependencyError
from transduce.experiments.demo import Translated

SIZES: dict[Part, int] = {"train": 6000, "validation": 150, "test": 300}
Corpus = dict[Part, list[Line]]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return generate("en", "de", SIZES, seed=1)


@pytest.fixture(scope="module")
def other_corpus() -> Corpus:
    return generate("en", "de", SIZES, seed=2)


def test_sizes_and_files(tmp_path: Path) -> None:
    made = make_demo_corpus(tmp_path, num_train=300, num_validation=20, num_test=30)
    assert made["train"] == (tmp_path / "train.en", tmp_path / "train.de")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        f"{part}.{side}" for part in ("train", "validation", "test") for side in ("en", "de")
    )
    for paths, number in ((made["train"], 300), (made["validation"], 20), (made["test"], 30)):
        for path in paths:
            lines = path.read_text(encoding="utf-8").split("\n")
            assert lines.pop() == ""
            assert len(lines) == number
            assert all(line == line.strip() and line for line in lines)


def test_same_seed_same_corpus_other_seed_other_lines() -> None:
    sizes: dict[Part, int] = {"train": 200, "validation": 10, "test": 20}
    assert generate("en", "de", sizes, 7) == generate("en", "de", sizes, 7)
    assert generate("en", "de", sizes, 7) != generate("en", "de", sizes, 8)


def test_no_source_stands_twice(corpus: Corpus) -> None:
    sources = [line.source for lines in corpus.values() for line in lines]
    assert len(set(sources)) == len(sources)


def test_a_source_has_one_target_whatever_the_seed(corpus: Corpus, other_corpus: Corpus) -> None:
    targets = {line.source: line.target for lines in corpus.values() for line in lines}
    again = [line for lines in other_corpus.values() for line in lines]
    shared = [line for line in again if line.source in targets]
    assert len(shared) > 100
    assert all(targets[line.source] == line.target for line in shared)


def test_values_are_kept_apart(corpus: Corpus) -> None:
    values = {part: {value for line in lines for value in line.values} for part, lines in corpus.items()}
    assert values["test"]
    assert values["validation"]
    assert not values["train"] & values["test"]
    assert not values["train"] & values["validation"]
    assert not values["validation"] & values["test"]


def test_values_are_kept_apart_across_seeds(corpus: Corpus, other_corpus: Corpus) -> None:
    other = {value for line in other_corpus["train"] for value in line.values}
    assert not other & {value for line in corpus["test"] for value in line.values}


def test_combinations_are_kept_apart(corpus: Corpus) -> None:
    known = {line.combination for line in corpus["train"]}
    for part in ("validation", "test"):
        unknown = [line for line in corpus[part] if line.combination not in known]
        assert 0.3 < len(unknown) / len(corpus[part]) < 0.7
        assert all(line.values for line in corpus[part] if line.combination in known)
    assert len({line.combination for line in corpus["test"]} - known) >= 50


def test_every_phrase_stands_in_training(corpus: Corpus) -> None:
    phrases = {part: {line.combination.split(" | ")[0] for line in lines} for part, lines in corpus.items()}
    assert len(phrases["train"]) >= 100
    assert phrases["test"] <= phrases["train"]


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _days(text: str) -> Iterator[tuple[int, int]]:
    """Reads the month and day of every date from the English text itself, in whatever format."""
    for month, day in re.findall(r"\b(\d+)/(\d+)/\d{4}\b", text):
        yield int(month), int(day)
    for month, day, last in re.findall(r"\b([A-Z][a-z]{2})[a-z]* (\d{1,2})\b(?:\s–\s(\d+))?", text):
        if month in _MONTHS:
            yield _MONTHS.index(month) + 1, int(day)
            if last:
                yield _MONTHS.index(month) + 1, int(last)


def test_no_test_date_or_time_or_price_can_be_read_in_training(corpus: Corpus) -> None:
    def read(part: Part) -> tuple[set[Any], ...]:
        texts = [line.source for line in corpus[part]]
        days = {day for text in texts for day in _days(text)}
        twelve = {t for text in texts for t in re.findall(r"\d+:\d\d [AP]M", text)}
        prices = {p for text in texts for p in re.findall(r"[€$£]\d+\.\d\d", text)}
        kilometers = {k for text in texts for k in re.findall(r"[\d.,]+ kilometers\b(?! per)", text)}
        return days, twelve, prices, kilometers

    for train, test in zip(read("train"), read("test"), strict=True):
        assert train
        assert test
        assert not train & test


def test_every_word_of_the_test_stands_in_training(corpus: Corpus) -> None:
    def split(lines: list[Line]) -> set[str]:
        return {word for line in lines for word in re.findall(r"[^\W\d_]+", line.source)}

    assert split(corpus["test"]) <= split(corpus["train"])


EXAMPLES = {
    r"The next appointment is on (\w+), (\w+ \d+)\.": r"Der nächste Termin ist am \w+, dem \d+\. \w+\.",
    r"The bus to \w+ leaves at \d+:\d\d PM\.": r"Der Bus nach \w+ fährt um (1[2-9]|2[0-3]):\d\d Uhr ab\.",
    r".* half past three.*": r".* halb vier.*",
    r".* quarter to one.*": r".* Viertel vor eins.*",
    r"\w+ has been waiting for \d+ days\.": r"\w+ wartet seit \d+ Tagen\.",
    r"The \w+ costs €\d+\.\d\d\.": r"(Der|Die|Das) \w+ kostet \d+,\d\d €\.",
    r"The \w+ costs [\d,]+ Danish kroner\.": r"(Der|Die|Das) \w+ kostet [\d.]+ dänische Kronen\.",
    r"\w+ finished in \w+ty-\w+ place\.": r"\w+ belegte den \w+und\w+igsten Platz\.",
    r"Holidays: Mar \d+ – \d+, \d{4}": r"Ferien: \d+\.–\d+\. März \d{4}",
}


@pytest.mark.parametrize(("english", "german"), EXAMPLES.items())
def test_german_is_correct(corpus: Corpus, english: str, german: str) -> None:
    found = [line for lines in corpus.values() for line in lines if re.fullmatch(english, line.source)]
    assert found
    assert all(re.fullmatch(german, line.target) for line in found), found


@pytest.mark.parametrize("pair", [("en", "de"), ("en", "pl"), ("de", "en"), ("ja", "fr"), ("ar", "tr"), ("zh", "es")])
def test_no_slot_gives_one_source_two_targets(pair: tuple[str, str]) -> None:
    """Over all forms of a slot: "May 3, 2021" is both the long and the short form, and must translate alike."""
    source, target = Cldr(pair[0]), Cldr(pair[1])
    slots = german_slots(source, target) if pair == ("en", "de") else plain_slots(source, target)
    random = Random(3)
    for slot, forms in slots.items():
        targets: dict[str, str] = {}
        for form in forms:
            for _ in range(250):
                text, translation = form.render(form.draw(random))
                assert targets.setdefault(text, translation) == translation, f"{slot} {form.name}: {text}"


def test_the_phrases_are_distinct_and_share_their_slots() -> None:
    assert len({english for english, _ in PHRASES}) == len(PHRASES) >= 100
    for english, german in PHRASES:
        assert sorted(re.findall(r"{(\w+)}", english)) == sorted(re.findall(r"{(\w+)}", german)), english


def test_only_plain_spaces(corpus: Corpus) -> None:
    text = "".join(line.source + line.target for lines in corpus.values() for line in lines)
    assert {c for c in text if c.isspace()} == {" "}


@pytest.mark.parametrize("pair", [("en", "fr"), ("de", "pl"), ("en", "ja"), ("fr", "ar"), ("en-GB", "pt-BR")])
def test_other_pairs_from_plain_patterns(pair: tuple[str, str]) -> None:
    corpus = generate(*pair, {"train": 400, "validation": 20, "test": 40})
    train, test = ({v for line in corpus[p] for v in line.values} for p in ("train", "test"))
    assert not train & test
    text = "\n".join(line.source + line.target for lines in corpus.values() for line in lines)
    assert not re.search(r"\w+-(minute|terabyte|kilometer)\b|[{}]|\u00a0|\u202f", text.replace("kilowatt-", ""))


def test_bad_requests() -> None:
    with pytest.raises(ConfigError, match="not a CLDR locale"):
        generate("en", "klingon", {"train": 1, "validation": 1, "test": 1})
    with pytest.raises(ConfigError, match="two languages"):
        generate("en", "en", {"train": 1, "validation": 1, "test": 1})


def test_missing_babel_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def no_babel(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "babel":
            raise ImportError("No module named 'babel'", name="babel")
        return real(name, *args, **kwargs)

    for module in [m for m in sys.modules if m.startswith("transduce.data.demo.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(builtins, "__import__", no_babel)
    with pytest.raises(MissingDependencyError, match=r"pip install .*\[demo\]"):
        generate("en", "de", {"train": 1, "validation": 1, "test": 1})


def test_the_share_of_exact_translations() -> None:
    translated = Translated(["a", "b ", "c", "d"], ["a", "b", "c", "x"], 1.0)
    assert translated.exact_match == 0.5
