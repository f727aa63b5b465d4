"""Words are counted as other tools count them, and each piece is told its word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.text import SubwordTokenizer, split_words, word_of_each
from transduce.text.languages import without_region
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


@pytest.mark.parametrize("start", [b" ", b" d", b" do", b" dog", b"d", b"\xff", b"zzz", b" dogs and"])
def test_pieces_are_found_by_their_first_bytes(tokenizer: SubwordTokenizer, start: bytes) -> None:
    pieces = tokenizer.piece_bytes(range(tokenizer.vocab_size))
    expected = [index for index, piece in enumerate(pieces) if piece.startswith(start)]
    assert sorted(tokenizer.ids_beginning_with(start)) == expected


def test_a_phrase_is_bounded_where_it_ends_with_a_word() -> None:
    texts = ("x(dog) y", "(dogs", "a dog) x", "underdog) x")
    assert [bool(phrase_pattern(("(dog",)).search(text)) for text in texts] == [True, False, False, False]
    assert [bool(phrase_pattern(("dog)",)).search(text)) for text in texts] == [True, False, True, False]


def test_an_accent_after_its_letter_is_part_of_the_word() -> None:
    texts = ("a cafe.", "a cafe\u0301.", "cafe\u0301s", "cafe\u0301 s", "e\u0301cafe")
    assert [bool(phrase_pattern(("cafe",)).search(text)) for text in texts] == [True, False, False, False, False]
    assert [bool(phrase_pattern(("cafe\u0301",)).search(text)) for text in texts] == [False, True, False, True, False]


def test_a_phrase_of_two_scripts_is_bounded_at_each_end_by_its_own() -> None:
    """Without spaces between words, any match counts; and a word of Latin letters ends where these are next to it."""
    for phrase, texts in {
        "dog \u72ac": (
            ("dog \u72ac", True),
            ("dog \u72ac\u72ac", True),
            ("hotdog \u72ac", False),
            ("\u72acdog \u72ac", True),
        ),
        "\u72ac dog": (
            ("\u72ac dog", True),
            ("\u72ac\u72ac dog", True),
            ("\u72ac dogs", False),
            ("\u72ac dog\u72ac", True),
        ),
        "C++": (("in C++.", True), ("C++11", True), ("OC++", False)),
        ".NET": (("a.NET b", True), (".NETs", False)),
    }.items():
        found = [(text, phrase_pattern((phrase,)).search(text) is not None) for text, _ in texts]
        assert found == [*texts]
    for text in (
        "请使用API接口",
        "このAPIを使う",
        "API를 사용",
        "API ใช้",
        "ใช้APIนี้",
        "الـAPI",
        "وAPI",
        "בAPI",
        "APIக்கு",
        "APIს",
    ):
        assert phrase_pattern(("API",)).search(text)
    for text in ("APIs", "MyAPI", "API1", "APIé", "API_x", "API\u0301", "хAPI"):
        assert not phrase_pattern(("API",)).search(text)
    assert [bool(phrase_pattern(("cat", "dog")).search(text)) for text in ("a dog", "a cat", "catdog")] == [
        True,
        True,
        False,
    ]
    assert not phrase_pattern(("a.b",)).search("axb")


@pytest.mark.parametrize(
    ("code", "language"),
    [("pt-BR", "pt"), ("PT_br", "pt"), ("zh_Hans", "zh"), ("en", "en"), ("", ""), ("sr-Latn-RS", "sr")],
)
def test_the_language_of_a_code(code: str, language: str) -> None:
    assert without_region(code) == language


def test_a_tag_is_a_whole_token() -> None:
    assert [is_tag(token) for token in ("<2de>", "<domain:law>", "<2de>x", "x<2de>", "<2>", "<2 de>")] == [
        *(True, True),
        *[False] * 4,
    ]
