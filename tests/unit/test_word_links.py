"""Linked pieces, against a comparison of all characters of all pieces."""

import numpy as np
import pytest

from made_links import made_corpus
from transduce.alignment.word_aligner import WordAligner
from transduce.config import Config, DataConfig, TrainConfig
from transduce.data.word_links import PieceLinks, links_of_pairs, needs_aligner
from transduce.text import SubwordTokenizer, Tokenizer


@pytest.fixture(scope="module")
def aligner() -> WordAligner:
    sources, targets, _ = made_corpus(300)
    return WordAligner.learn(sources, targets)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """Of few pieces, so that most words have several."""
    sources, targets, _ = made_corpus(300)
    return SubwordTokenizer.train([*sources, *targets], algorithm="bpe", vocab_size=300).with_tags(["<2x>"])


def owners(tokenizer: Tokenizer, text: str, tags: int = 0) -> list[set[int]]:
    """Returns the pieces that have a part of each character of a text, which may begin with a tag."""
    ids = tokenizer.encode(text)
    found: list[set[int]] = [set() for _ in text]
    bytes_of = [i for i, character in enumerate(text) for _ in character.encode()]
    at = -1  # the first piece begins with a space
    for place, piece in enumerate(tokenizer.piece_bytes(ids)):
        for _ in piece:
            if at >= 0:
                found[bytes_of[at]].add(place + tags)
            at += 1
    return found


def test_links_of_many_pairs_are_those_of_each(aligner: WordAligner) -> None:
    sources, targets, _ = made_corpus(20)
    pairs = [("", ""), *zip(sources, targets, strict=True), ("nounc", "unknown"), (sources[3], targets[3])]
    found = links_of_pairs(aligner, pairs)
    assert found == [aligner.links(*pair) for pair in pairs]
    assert sum(map(len, found)) > 60


def test_all_pieces_of_linked_words_are_linked(aligner: WordAligner, tokenizer: Tokenizer) -> None:
    pairs = [
        ("the street car verba 417 nouna .", "xtram 417 xnouna xverba ."),
        ("", ""),
        ("Zoë €5 日本 verbb, 😀 nounb", "xnounb Zoë €5 ZOË 日本, xverbb 😀"),
        ("nounc", "unknown"),
        ("verbd.", "xverbd."),
    ]
    tag = tokenizer.tags["<2x>"]
    sources = [np.array([tag, *tokenizer.encode(source)], np.uint16) for source, _ in pairs]
    targets = [np.array(tokenizer.encode(target), np.uint16) for _, target in pairs]
    expected = set()
    for number, (source, target) in enumerate(pairs):
        of_source, of_target = owners(tokenizer, source, tags=1), owners(tokenizer, target)
        for (a, b), (c, d) in aligner.links(source, target):
            for i in set().union(*of_source[a:b]):
                expected |= {(number, j, i) for j in set().union(*of_target[c:d])}
    found = PieceLinks(aligner, tokenizer)(sources, targets)
    assert len(expected) > 40
    assert set(map(tuple, found.tolist())) == expected


def test_bytes_that_are_no_text_have_no_links(aligner: WordAligner, tokenizer: Tokenizer) -> None:
    half = tokenizer.encode("é")[-1:]  # the second byte of two
    assert len(tokenizer.encode("é")) > 1
    source, target = [*tokenizer.encode("verba ."), *half], tokenizer.encode("xverba .")
    links = PieceLinks(aligner, tokenizer)
    assert not len(links([np.array(source)], [np.array(target)]))
    assert len(links([np.array(source[:-1])], [np.array(target)]))
    assert links([], []).shape == (0, 3)


def test_who_needs_an_aligner() -> None:
    guided = TrainConfig(guided_attention=0.1)
    assert needs_aligner(Config(train=guided))
    assert not needs_aligner(Config())
    assert not needs_aligner(Config(train=guided, data=DataConfig(format="trees")))
