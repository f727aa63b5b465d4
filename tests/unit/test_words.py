"""Words are counted as other tools count them, and each piece is told its word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.text import SubwordTokenizer, split_words, word_of_each
from transduce.text.phrases import phrase_pattern
from transduce.text.tags import is_tag


@pytest.fixture(scope="module")
def tokenizer() -> SubwordTokenizer:
    return SubwordTokenizer.train(["the dogs and the dog"] * 3, algorithm="bpe", vocab_size=280)


def test_words_stand_between_ascii_white_space() -> None:
    assert split_words("  A dog,\truns.\n") == ["A", "dog,", "runs."]
    assert split_words("10\u00a0000 km\u3000h") == ["10\u00a0000", "km\u3000h"]  # as awk and wc see them
    assert split_words(" \t ") == split_words("") == []


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ([b" A", b" do", b"gs", b".", b""], [0, 1, 1, 1, None]),
        ([b" ", b" ", b"\t", b"a", b"b", b"\t", b" c"], [None, None, None, 0, 0, None, 1]),
        ([b" \xc3", b"\xa4", b" \xc3"], [0, 0, 1]),
        ([], []),
    ],
)
def test_each_piece_knows_its_word(pieces: list[bytes], words: list[int | None]) -> None:
    assert word_of_each(pieces) == words


@given(st.text(alphabet="ad \t\u00a0.é1<"))
def test_the_pieces_of_a_word_spell_it(tokenizer: SubwordTokenizer, text: str) -> None:
    pieces = tokenizer.piece_bytes(tokenizer.encode(text))
    spelled: dict[int, bytes] = {}
    for piece, word in zip(pieces, word_of_each(pieces), strict=True):
        if word is not None:
            spelled[word] = spelled.get(word, b"") + piece.strip(b" ")
    assert [spelled[word].decode() for word in sorted(spelled)] == split_words(text)


def test_piece_bytes_are_those_of_the_text(tokenizer: SubwordTokenizer) -> None:
    text = "the dog ß <s>\x00"
    assert b"".join(tokenizer.piece_bytes(tokenizer.encode(text))) == b" " + text.encode()
    assert tokenizer.piece_bytes([1, 2]) == [b"", b""]  # BOS and EOS stand for no text


def test_a_phrase_is_bounded_where_it_ends_with_a_word() -> None:
    texts = ("x(dog) y", "(dogs", "a dog) x", "underdog) x")
    assert [bool(phrase_pattern(("(dog",)).search(text)) for text in texts] == [True, False, False, False]
    assert [bool(phrase_pattern(("dog)",)).search(text)) for text in texts] == [True, False, True, False]


def test_a_tag_is_a_whole_token() -> None:
    assert [is_tag(token) for token in ("<2de>", "<domain:law>", "<2de>x", "x<2de>", "<2>", "<2 de>")] == [
        *(True, True),
        *[False] * 4,
    ]
