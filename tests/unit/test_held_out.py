"""Which training pairs leak a validation or test set, where corpora have several pairs of languages."""

from pathlib import Path

import pytest

from transduce.config import DataConfig
from transduce.config.corpora import CorpusConfig, HeldOutSetConfig
from transduce.data.corpus import locate
from transduce.data.doctor import examine

ENGLISH, GERMAN, FRENCH = "A long English sentence.", "Ein langer deutscher Satz.", "Une longue phrase française."
OTHER = ("Quite another sentence.", "Ein ganz anderer Satz.", "Une tout autre phrase.")


def examined(folder: Path, held_out: str, *corpora: tuple[str, list[tuple[str, str]]]) -> list[list[bool]]:
    """Returns which pairs of each corpus are kept: one test pair is held out, in the languages "en-de" or another.

    A corpus has its languages and its pairs.
    """
    texts = {"en": ENGLISH, "de": GERMAN, "fr": FRENCH}
    source, target = held_out.split("-") if "-" in held_out else ("", "")
    (folder / "test.tsv").write_text(f"{texts[source or 'en']}\t{texts[target or 'de']}\nYes.\tJa.\n", encoding="utf-8")
    configs = []
    for number, (languages, pairs) in enumerate(corpora):
        (folder / f"{number}.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs), encoding="utf-8")
        first, second = languages.split("-") if "-" in languages else ("", "")
        configs.append(CorpusConfig(files=(f"{number}.tsv",), source_language=first, target_language=second))
    tests = (HeldOutSetConfig(files=("test.tsv",), name="t", source_language=source, target_language=target),)
    data = DataConfig(folder=str(folder), corpora=tuple(configs), test_sets=tests)
    examination = examine(locate(data), data, progress=False)
    kept, sizes = examination.kept.tolist(), examination.part_sizes
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    return [kept[start : start + size] for start, size in zip(starts, sizes, strict=True)]


def test_a_test_sentence_is_found_in_another_pair_with_the_same_source_language(tmp_path: Path) -> None:
    german = ("en-de", [(OTHER[0], OTHER[1])])
    french = ("en-fr", [(ENGLISH, FRENCH), (OTHER[0], OTHER[2])])
    assert examined(tmp_path, "en-de", german, french) == [[True], [False, True]]


def test_a_test_sentence_is_found_on_the_other_side_of_the_opposite_direction(tmp_path: Path) -> None:
    pairs = [(ENGLISH, GERMAN), (OTHER[0], OTHER[1]), ("Yes.", "Ja."), ("Yes.", "Doch.")]
    reverse = [(second, first) for first, second in pairs]
    assert examined(tmp_path, "en-de", ("en-de", pairs), ("de-en", reverse)) == [[False, True, False, True]] * 2
    regions = examined(tmp_path, "en-de", ("en-de", pairs), ("de_AT-en_GB", reverse))
    assert regions == [[False, True, False, True]] * 2


@pytest.mark.parametrize(
    ("held_out", "pairs"),
    [("de-fr", [(ENGLISH, GERMAN), (OTHER[0], OTHER[1])]), ("fr-en", [(OTHER[0], OTHER[1]), (ENGLISH, GERMAN)])],
)
def test_a_pivot_language_leaks_too(tmp_path: Path, held_out: str, pairs: list[tuple[str, str]]) -> None:
    """A zero-shot test pair: its German source is a target of training, or its English target is a source."""
    others = [("fr-de", [(OTHER[2], OTHER[1])]), ("de-fr", [(OTHER[1], OTHER[2])]), ("de-en", [(OTHER[1], OTHER[0])])]
    found = examined(tmp_path, held_out, ("en-de", pairs), *others)
    assert found[0] == [pair[0] != ENGLISH for pair in pairs]
    assert found[1:] == [[True], [True], [True]]


@pytest.mark.parametrize("languages", ["", "en-en", "en-de"])
def test_sides_do_not_change_places_in_a_single_pair_of_languages(tmp_path: Path, languages: str) -> None:
    swapped = [(GERMAN, ENGLISH), (ENGLISH, GERMAN), (ENGLISH, OTHER[1]), (OTHER[0], GERMAN)]
    held_out = languages if languages == "en-de" else ""
    assert examined(tmp_path, held_out, (languages, swapped)) == [[True, False, False, False]]


def test_a_leak_from_the_other_side_names_the_file_of_that_side(tmp_path: Path) -> None:
    """The training pair is of the opposite direction: its source is a target of the test set."""
    texts = {"test.en": ENGLISH, "test.de": GERMAN, "train.de": GERMAN, "train.en": OTHER[0]}
    texts |= {"more.en": "Something else.", "more.de": "Etwas anderes."}
    for name, text in texts.items():
        (tmp_path / name).write_text(f"{text}\n", encoding="utf-8")
    corpora = (
        CorpusConfig(files=("train.de", "train.en"), source_language="de", target_language="en"),
        CorpusConfig(files=("more.en", "more.de"), source_language="en", target_language="de"),
    )
    tests = (HeldOutSetConfig(files=("test.en", "test.de"), name="t", source_language="en", target_language="de"),)
    data = DataConfig(folder=str(tmp_path), corpora=corpora, test_sets=tests)
    found = examine(locate(data), data, progress=False).findings
    assert found.leaks_dropped.examples == [f"{tmp_path}/train.de:1 is {tmp_path}/test.de:1"]
