"""The files that the corpus filter writes, and which names they must not have."""

import gzip
from pathlib import Path

import pytest

from transduce.augmentation.filtering.cross_entropy import ScorerTowards
from transduce.augmentation.filtering.writing import _open, require_distinct_names
from transduce.data.compression import zstd
from transduce.data.corpus import Part
from transduce.errors import DataError


def test_files_are_packed_as_their_names_say_and_do_not_depend_on_the_time(tmp_path: Path) -> None:
    for name in ("a.en", "a.en.gz", "a.en.zst"):
        with _open(tmp_path / name) as file:
            file.write("grün\n\r\n")
    text = "grün\n\r\n".encode()
    assert (tmp_path / "a.en").read_bytes() == text
    packed = (tmp_path / "a.en.gz").read_bytes()
    assert (gzip.decompress(packed), packed[4:8]) == (text, bytes(4))  # the time of a gzip header
    assert zstd.decompress((tmp_path / "a.en.zst").read_bytes()) == text


def test_two_files_of_one_name_and_names_of_reports_are_refused() -> None:
    reports = ("report.md", "dropped.jsonl")
    require_distinct_names([Part((Path("a/x.en"), Path("a/x.de"))), Part((Path("b/y.tsv"),))], reports)
    with pytest.raises(DataError, match=r"b/x\.de and a/x\.de have the same name"):
        require_distinct_names([Part((Path("a/x.en"), Path("a/x.de"))), Part((Path("b/x.de"),))], reports)
    with pytest.raises(DataError, match=r"b/report\.md: has the name of a report"):
        require_distinct_names([Part((Path("a/x.tsv"),)), Part((Path("b/report.md"),))], reports)


def test_a_model_of_several_languages_is_asked_for_one() -> None:
    asked: list[object] = []

    class Model:
        def score(self, *given: object, **options: object) -> list[object]:
            asked.append((given, options))
            return []

    assert ScorerTowards(Model(), "en", "fr").score(["a"], ["b"]) == []  # type: ignore[arg-type]
    assert asked == [((["a"], ["b"]), {"source_language": "en", "target_language": "fr"})]
