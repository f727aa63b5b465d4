"""Links between words, against gold links of made languages, and against the definition worked out pair by pair."""

from pathlib import Path

import numpy as np
import pytest

import transduce.alignment.word_aligner as word_aligner
from made_links import Gold, made_corpus
from transduce.alignment.vocabulary import Vocabulary
from transduce.alignment.word_aligner import WordAligner
from transduce.alignment.words import token_spans, tokens_of
from transduce.config.tensors import write_tensors
from transduce.errors import DataError


def found_links(aligner: WordAligner, sources: list[str], targets: list[str]) -> list[Gold]:
    found = []
    for source, target in zip(sources, targets, strict=True):
        of_source, of_target = (
            {tuple(span): i for i, span in enumerate(token_spans([line]).tolist())} for line in (source, target)
        )
        found.append({(of_source[s], of_target[t]) for s, t in aligner.links(source, target)})
    return found


@pytest.fixture(scope="module")
def learned() -> WordAligner:
    sources, targets, _ = made_corpus(800)
    return WordAligner.learn(sources, targets)


def test_links_are_those_of_the_gold(learned: WordAligner) -> None:
    sources, targets, gold = made_corpus(200, seed=1)
    found = found_links(learned, sources, targets)
    common = sum(len(ours & theirs) for ours, theirs in zip(found, gold, strict=True))
    error_rate = 1 - 2 * common / (sum(map(len, found)) + sum(map(len, gold)))  # Och and Ney 2003
    assert error_rate < 0.05


def test_a_word_has_several_links_or_none(learned: WordAligner) -> None:
    source, target = "street car verba adja nouna .", "xtram xnouna xadja xverba ."
    words = [(source[slice(*s)], target[slice(*t)]) for s, t in learned.links(source, target)]
    expected = "street=xtram car=xtram verba=xverba adja=xadja nouna=xnouna .=."
    assert [f"{s}={t}" for s, t in words] == expected.split()


def test_equal_words_that_are_unknown_are_linked_and_other_unknown_ones_are_not(learned: WordAligner) -> None:
    source, target = "Zoë verba 417 unknown .", "ZOË fremd 417 xverba ."
    words = [(source[slice(*s)], target[slice(*t)]) for s, t in learned.links(source, target)]
    assert words == [("Zoë", "ZOË"), ("verba", "xverba"), ("417", "417"), (".", ".")]


def test_nothing_to_link(learned: WordAligner) -> None:
    assert learned.links("", "xverba .") == learned.links("verba .", "") == learned.links("", "") == []
    assert WordAligner.learn([], []).links("a 7", "b 7") == [((2, 3), (2, 3))]
    assert WordAligner.learn(["", "a"], ["b", ""]).links("a", "b") == []


def test_characters_of_scripts_without_spaces_are_words() -> None:
    aligner = WordAligner.learn(
        ["犬です", "犬と猫", "猫です", "鳥と犬"] * 20, ["dog is", "dog cat", "cat is", "bird dog"] * 20
    )
    text, target = "猫です", "cat is"
    linked = {text[slice(*s)] for s, t in aligner.links(text, target) if target[slice(*t)] == "cat"}
    assert "猫" in linked


def test_products_are_those_of_the_definition() -> None:
    """Two source words a b and three target words x y y, p(i | j) · p(j | i) with numbers at hand."""
    sides = tokens_of(["a b"]), tokens_of(["x y y"])
    vocabularies = tuple(Vocabulary(tokens.hashes[:2], np.array([0.5, 0.25])) for tokens in sides)
    keys = np.array([0, 1, 3])  # a-x, a-y, b-y
    forward, backward = np.array([0.5, 0.25, 0.75]), np.array([1.0, 0.5, 0.125])
    distances = np.arange(1, 34) / 10
    aligner = WordAligner((vocabularies[0], vocabularies[1]), keys, forward, backward, distances)
    cells, _ = aligner._cells(*sides, is_learning=False)
    t = {(0, 0): (0.5, 1.0), (0, 1): (0.25, 0.5), (0, 2): (0.25, 0.5), (1, 1): (0.75, 0.125), (1, 2): (0.75, 0.125)}
    near = {}
    for i, j in t:  # 33 buckets of distances from -1 to 1
        distance = (i + 0.5) / 2 - (j + 0.5) / 3
        near[i, j] = distances[int((distance + 1) / 2 * 33)]
    share_of_source, share_of_target = (0.5, 0.25), (0.5, 0.25, 0.25)
    expected = {}
    for i, j in t:
        # Each of S words is chosen with probability 1 / S: numerators and denominators have been multiplied by S.
        column = sum(t[a, b][0] * near[a, b] for a, b in t if b == j) + 2 * 0.02 * share_of_target[j]
        row = sum(t[a, b][1] * near[a, b] for a, b in t if a == i) + 3 * 0.02 * share_of_source[i]
        expected[i, j] = t[i, j][0] * near[i, j] / column * t[i, j][1] * near[i, j] / row
    found = dict(
        zip(zip(cells.source.tolist(), cells.target.tolist(), strict=True), aligner._products(cells), strict=True)
    )
    assert found == pytest.approx(expected)


def test_blocks_change_nothing(learned: WordAligner, monkeypatch: pytest.MonkeyPatch) -> None:
    sources, targets, _ = made_corpus(800)
    whole = learned.token_links(tokens_of(sources), tokens_of(targets))
    monkeypatch.setattr(word_aligner, "_BLOCK_CELLS", 100)
    assert learned.token_links(tokens_of(sources), tokens_of(targets)) == whole
    again = WordAligner.learn(sources, targets)
    assert (again.forward == learned.forward).all()
    assert (again.backward == learned.backward).all()
    assert (again.distances == learned.distances).all()


def test_no_entry_is_lost_to_another_in_the_same_slot(learned: WordAligner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_aligner, "_SLOT_BITS", 11)  # many share their first slot
    keys = learned.keys
    crowded = WordAligner(learned.vocabularies, keys, learned.forward, learned.backward, learned.distances)
    source_ids, target_ids = np.divmod(keys, len(learned.vocabularies[1]))
    assert len(keys) > 200
    lost = (crowded._entries_of(source_ids, target_ids) != np.arange(len(keys))).mean()
    assert lost < 0.05


def test_a_saved_aligner_links_alike(learned: WordAligner, tmp_path: Path) -> None:
    learned.save(tmp_path / "aligner")
    sources, targets, _ = made_corpus(50, seed=2)
    loaded = WordAligner.load(tmp_path / "aligner")
    assert found_links(loaded, sources, targets) == found_links(learned, sources, targets)
    learned.save(tmp_path / "again")
    assert (tmp_path / "aligner").read_bytes() == (tmp_path / "again").read_bytes()


def test_a_damaged_file_is_named(learned: WordAligner, tmp_path: Path) -> None:
    path = tmp_path / "aligner"
    learned.save(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"aligner: .* Run 'transduce prepare' again with --overwrite\."):
        WordAligner.load(path)


SMALL = {
    "source.words": np.array([7, 9], np.int64),
    "source.shares": np.array([0.5, 0.25]),
    "target.words": np.array([5, 6, 8], np.int64),
    "target.shares": np.array([0.5, 0.25, 0.125]),
    "keys": np.array([0, 2, 5], np.int64),
    "forward": np.ones(3, np.float32),
    "backward": np.ones(3, np.float32),
    "distances": np.ones(33, np.float32),
}


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        *[({name: None}, f"has no tensor '{name}'") for name in SMALL],
        (dict.fromkeys(SMALL) | {"weight": np.ones(2)}, "has no tensor 'source.words'"),
        ({"source.words": np.ones(1, np.int64)}, "source.shares: has float64 numbers of shape (2,), not 1 floating"),
        ({"target.shares": np.ones(4)}, "target.shares: has float64 numbers of shape (4,), not 3 floating"),
        ({"source.words": np.ones(2)}, "source.words: has float64 numbers of shape (2,), not 2 64-bit integers"),
        (
            {"target.words": np.ones(6, np.int32)},
            "target.words: has int32 numbers of shape (6,), not 6 64-bit integers",
        ),
        ({"forward": np.ones(2, np.float32)}, "forward: has float32 numbers of shape (2,), not 3 floating"),
        ({"backward": np.ones(4, np.float32)}, "backward: has float32 numbers of shape (4,), not 3 floating"),
        ({"backward": np.ones(3, np.int64)}, "backward: has int64 numbers of shape (3,), not 3 floating"),
        ({"distances": np.ones(32, np.float32)}, "distances: has float32 numbers of shape (32,), not 33 floating"),
        ({"distances": np.ones((3, 11))}, "distances: has float64 numbers of shape (3, 11), not 33 floating"),
        ({"keys": np.array([[0, 2, 5]])}, "keys: has int64 numbers of shape (1, 3), not 3 64-bit integers"),
        ({"keys": np.array([0, 2, 6])}, "keys: are not rising numbers below 6"),  # 2 · 3 pairs of words
        ({"keys": np.array([-1, 2, 5])}, "keys: are not rising numbers below 6"),
        ({"keys": np.array([0, 2, 2])}, "keys: are not rising numbers below 6"),
    ],
)
def test_a_file_with_other_tensors_is_named(tensors: dict[str, np.ndarray | None], reason: str, tmp_path: Path) -> None:
    path = tmp_path / "aligner"
    write_tensors(path, SMALL, lambda: None)
    WordAligner.load(path).links("a dog", "ein Hund")
    changed = {name: values for name, values in (SMALL | tensors).items() if values is not None}
    write_tensors(path, changed, lambda: None)
    with pytest.raises(DataError) as error:
        WordAligner.load(path)
    assert str(error.value).startswith(f"{path}: {reason}")
    assert str(error.value).endswith(" It is damaged. Run 'transduce prepare' again with --overwrite.") or (
        "no file of word alignments. Run 'transduce prepare' again" in str(error.value)
    )


def test_spans_are_those_of_the_tokens() -> None:
    lines = ["Don’t stop, 東京 42!", "", "ä\tb"] * 400  # more than a block
    spans, tokens = token_spans(lines), tokens_of(lines)
    assert len(spans) == len(tokens.hashes)
    words = [lines[line][start:end] for line, (start, end) in zip(tokens.lines.tolist(), spans.tolist(), strict=True)]
    assert words == ["Don", "’", "t", "stop", ",", "東", "京", "42", "!", "ä", "b"] * 400
