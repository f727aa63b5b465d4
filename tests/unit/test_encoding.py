"""How the pairs of a corpus are encoded: which are kept, what is in front of them, and what is counted."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fake_tokenizer import FakeTokenizer
from transduce.config import DataConfig
from transduce.data.corpus import Chunk
from transduce.data.encoding import EncodedPart, EncodedSplit, _encode_chunk, _in_order, _tokenizer_threads
from transduce.data.mixture import CorpusRows
from transduce.data.readers import Location, PairReader

_TARGETS = 1000  # what the target's ids begin with


class Letters(FakeTokenizer):
    """A tokeniser whose pieces are letters, by their code plus `first`."""

    first = 0

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        return [[self.first + ord(letter) for letter in text] for text in texts]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    paths = (tmp_path / "a.en", tmp_path / "a.de")
    for path in paths:
        path.touch()
    return paths


def encoded(
    files: tuple[Path, Path], pairs: list[tuple[str, str]], kept: Any = None, limits: DataConfig | None = None
) -> Any:
    """Encodes pairs of the second part, in front of which others were read: 3 in the part, and 5 in the corpus."""
    chunk = Chunk(PairReader(files), part=1, start=5, line=4, pairs=pairs)
    tokenizer: Any = Letters(target_side=Letters(first=_TARGETS))
    examination: Any = None
    if kept is not None:
        examination = SimpleNamespace(kept=kept, dropped_repeats=lambda chunk: {})
    same, locations, sources, targets, dropped = _encode_chunk(
        chunk, tokenizer, str.lower, [[[1], [2, 3]], [[], [4]]], examination, limits
    )
    assert same is chunk
    return SimpleNamespace(locations=locations, sources=sources, targets=targets, dropped=dropped)


def ids(*texts: str, before: tuple[int, ...] = (), first: int = 0) -> list[list[int]]:
    return [[*before, *(first + ord(letter) for letter in text)] for text in texts]


def test_pairs_with_text_on_both_sides_are_encoded(files: tuple[Path, Path]) -> None:
    found = encoded(files, [("AB", "X"), (" ", "y"), ("c", ""), ("D", "Zz")])
    assert found.sources == ids("ab", "d", before=(2, 3))  # as the model reads them, behind the tags of their part
    assert found.targets == ids("X", "Zz", before=(4,), first=_TARGETS)
    assert found.locations == [Location(files, 4), Location(files, 7)]
    assert found.dropped == []


def test_what_is_kept_is_said_of_the_whole_corpus(files: tuple[Path, Path]) -> None:
    kept = np.array([False] * 5 + [False, True, True, False] + [True] * 3)
    found = encoded(files, [("a", "w"), ("b", "x"), ("", "y"), ("d", "z")], kept)
    assert found.sources == ids("b", "", before=(2, 3))
    assert found.targets == ids("x", "y", before=(4,), first=_TARGETS)
    assert found.locations == [Location(files, 5), Location(files, 6)]


def test_pairs_beyond_the_limits_are_left_out_and_located(files: tuple[Path, Path]) -> None:
    """At most 9 pieces, and twice as many as on the other side, or 3 more; tags do not count."""
    limits = DataConfig(max_tokens=9, max_ratio=2.0, ratio_slack_tokens=3)
    lengths = [(9, 9), (10, 9), (2, 5), (2, 6), (9, 4), (0, 1), (1, 12), (8, 4)]
    pairs = [("a" * source, "x" * target) for source, target in lengths]
    kept = np.array([True] * 5 + [True] * 5 + [False, True, True])
    found = encoded(files, pairs, kept, limits)
    assert [
        (len(source) - 2, len(target) - 1) for source, target in zip(found.sources, found.targets, strict=True)
    ] == [*((9, 9), (2, 5), (8, 4))]
    assert found.locations == [Location(files, number) for number in (4, 6, 11)]
    assert [(each.location, each.rule, each.reason) for each in found.dropped] == [
        (f"{files[0]}:5", "length", "10 to 9 subwords"),
        (f"{files[0]}:7", "ratio", "2 to 6 subwords"),
        (f"{files[0]}:8", "ratio", "9 to 4 subwords"),
        (f"{files[0]}:10", "length", "1 to 12 subwords"),
    ]
    assert (found.dropped[1].source, found.dropped[1].target) == ("aa", "x" * 6)


def test_without_a_ratio_only_the_length_counts(files: tuple[Path, Path]) -> None:
    found = encoded(files, [("a", "x" * 9), ("a", "x" * 10)], limits=DataConfig(max_tokens=9, max_ratio=0.0))
    assert (len(found.sources), [each.rule for each in found.dropped]) == (1, ["length"])


@pytest.mark.parametrize(
    ("before", "own", "within"),
    [
        (None, True, "true"),
        ("false", True, "false"),
        ("true", True, "true"),
        (None, False, "false"),
        ("true", False, "false"),
    ],
)
def test_the_users_choice_of_threads_holds_unless_ours_do_the_work(
    monkeypatch: pytest.MonkeyPatch, before: str | None, own: bool, within: str
) -> None:
    name = "TOKENIZERS_PARALLELISM"
    monkeypatch.delenv(name, raising=False)
    if before is not None:
        monkeypatch.setenv(name, before)

    def fails() -> None:
        with _tokenizer_threads(own=own):
            assert os.environ[name] == within
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert os.environ.get(name) == before


@pytest.mark.parametrize(("num_workers", "in_flight"), [(None, 4), (1, 2), (3, 6)])
def test_chunks_come_in_order_and_a_few_at_a_time(num_workers: int | None, in_flight: int) -> None:
    """Two for each thread; of our own threads there are two, if the tokeniser uses all cores."""
    given: list[int] = []

    def chunks() -> Any:
        for number in range(20):
            given.append(number)
            yield number

    encode: Any = lambda number: SimpleNamespace(number=number)  # noqa: E731
    most = 0
    found = []
    for each in _in_order(encode, chunks(), num_workers):
        found.append(each.number)  # type: ignore[attr-defined]
        most = max(most, len(given) - len(found))
    assert found == list(range(20))
    assert most == in_flight


def test_the_rows_of_parts_the_last_of_which_are_empty() -> None:
    split = EncodedSplit(9, 6, 60, 70, parts=[EncodedPart(4, 2, 20, 30), EncodedPart(5, 4, 40, 40)])
    assert split.rows("abc") == [
        CorpusRows("a", 2, 20, 30),
        CorpusRows("b", 4, 40, 40),
        CorpusRows("c", 0, 0, 0),
    ]
    split.add(EncodedPart(1, 2, 3, 4))
    assert (split.num_read, split.num_kept, split.source_tokens, split.target_tokens) == (10, 8, 63, 74)
