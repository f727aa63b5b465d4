"""New words in a vocabulary: old ids and all other text stay, text is restored, frequent words are found."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from transduce.errors import TokenizerError
from transduce.text import SPECIAL_TOKENS, SubwordTokenizer
from transduce.text.definition import Algorithm
from transduce.text.new_words import added_words, former_pieces, frequent_words, with_new_words
from transduce.treebank.rare_words import WHOLE

_CORPUS = [
    "The quick brown fox jumps over the lazy dog.",
    "Der schnelle braune Fuchs springt über den faulen Hund.",
    "In 1999 and 2024, prices rose by 12.5 % ... then fell -- twice.",
    "the the the dog dogs dogged dog's über übel Übung",
] * 3
_WORDS = ["Kubernetes", "Überprüfung", "foxes", "日本語"]


def learned(algorithm: Algorithm) -> SubwordTokenizer:
    return SubwordTokenizer.train(_CORPUS, algorithm=algorithm, vocab_size=340)


OLD = {algorithm: learned(algorithm) for algorithm in ("bpe", "wordpiece")}
NEW = {algorithm: with_new_words(old, _WORDS) for algorithm, old in OLD.items()}


@pytest.mark.parametrize("algorithm", OLD)
def test_each_word_is_one_more_piece_behind_the_old_ones(algorithm: str) -> None:
    old, new = OLD[algorithm], NEW[algorithm]
    assert new.vocab_size == old.vocab_size + len(_WORDS)
    assert new.tokens()[: old.vocab_size] == old.tokens()
    for index, word in enumerate(_WORDS):
        assert new.encode(f"the {word}")[1:] == [old.vocab_size + index]
        assert new.encode(word) == [old.vocab_size + index]
    assert len(set(new.tokens())) == new.vocab_size


@pytest.mark.parametrize("algorithm", OLD)
@given(
    text=st.text(st.characters(codec="utf-8")) | st.lists(st.sampled_from([*_WORDS, "dog", "(", "<s>"])).map(" ".join)
)
def test_text_is_restored_and_never_a_special_token(algorithm: str, text: str) -> None:
    ids = NEW[algorithm].encode(text)
    assert NEW[algorithm].decode(ids) == text
    assert min(ids, default=len(SPECIAL_TOKENS)) >= len(SPECIAL_TOKENS)


@given(
    text=st.text(st.characters(codec="utf-8"))
    | st.lists(st.sampled_from(["Kubernetess", "xfoxes", "dogs"])).map(" ".join)
)
def test_with_bpe_other_text_is_cut_as_before(text: str) -> None:
    old, new = OLD["bpe"], NEW["bpe"]
    ids = new.encode(text)
    if max(ids, default=0) < old.vocab_size:
        assert ids == old.encode(text)
    else:
        assert any(word in text for word in _WORDS)


def test_a_word_within_a_word_stays_in_pieces() -> None:
    new = NEW["bpe"]
    assert new.encode("Kubernetess") == OLD["bpe"].encode("Kubernetess")
    assert new.encode("(Kubernetes)") == OLD["bpe"].encode("(Kubernetes)")  # no space before it


def test_wordpiece_finds_a_new_word_at_the_beginning_of_a_longer_one() -> None:
    old, new = OLD["wordpiece"], NEW["wordpiece"]
    assert new.encode("Kubernetess")[0] == old.vocab_size


def test_words_that_are_pieces_or_come_twice_add_nothing() -> None:
    old = OLD["bpe"]
    assert with_new_words(old, ["the", "dog"]) is old
    assert with_new_words(old, ["fence", "the", "fence"]).vocab_size == old.vocab_size + 1


def test_words_can_be_added_again() -> None:
    once = with_new_words(OLD["bpe"], ["fence", "gate"])
    assert once.to_json() == with_new_words(with_new_words(OLD["bpe"], ["fence"]), ["gate"]).to_json()
    assert added_words(OLD["bpe"], once) == ["fence", "gate"]


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("COVID-19", "this into 4. Add its parts"),
        ("New York", "this into 2. Add its parts"),
        (" dog", "white space around it"),
        ("", "it is empty"),
    ],
)
def test_what_is_not_one_word_is_refused(word: str, reason: str) -> None:
    with pytest.raises(TokenizerError, match=reason):
        with_new_words(OLD["bpe"], [word])


def test_a_parsers_words_may_have_signs_and_digits() -> None:
    old = SubwordTokenizer.train(_CORPUS, algorithm="bpe", vocab_size=340, whole=WHOLE)
    new = with_new_words(old, ["Boojum-4711"])
    assert new.encode("the Boojum-4711")[1:] == [old.vocab_size]


def test_an_imported_tokenizer_without_a_space_before_the_first_word_can_have_new_words() -> None:
    theirs = Tokenizer(models.BPE())
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=340, special_tokens=[*SPECIAL_TOKENS], initial_alphabet=alphabet, show_progress=False
    )
    theirs.train_from_iterator(_CORPUS, trainer)
    old = SubwordTokenizer.from_json(json.dumps(json.loads(theirs.to_str()) | {"added_tokens": []}))
    new = with_new_words(old, ["Kubernetes"])
    assert added_words(old, new) == ["Kubernetes"]
    assert new.encode("the Kubernetes dog")[1] == old.vocab_size
    assert new.encode("Kubernetes") == old.encode("Kubernetes")  # at the start it has no space before it
    assert new.decode(new.encode("the Kubernetes <s>")) == "the Kubernetes <s>"
    [pieces] = former_pieces(old, ["Kubernetes"])
    assert list(pieces) == old.encode("a Kubernetes")[len(old.encode("a")) :]


def test_pieces_that_merges_never_make_are_not_brought_into_use() -> None:
    definition = json.loads(OLD["bpe"].to_json())
    definition["model"]["vocab"]["Ġzebra"] = len(definition["model"]["vocab"])
    old = SubwordTokenizer.from_json(json.dumps(definition))
    assert len(old.encode("zebra")) > 1
    with pytest.raises(TokenizerError, match="1 pieces that its merges never make, for example 'Ġzebra'"):
        with_new_words(old, ["fence"])


def test_added_words_of_another_tokenizer_are_refused() -> None:
    other = SubwordTokenizer.train(["something else"] * 3, algorithm="bpe", vocab_size=300)
    with pytest.raises(TokenizerError, match="is another one"):
        added_words(other, NEW["bpe"])


def test_former_pieces_are_those_within_a_text() -> None:
    old = OLD["bpe"]
    [pieces] = former_pieces(old, ["Kubernetes"])
    assert list(pieces) == old.encode("Kubernetes")
    [spelled] = former_pieces(old, ["Kubernetes"], lambda word: "dog")
    assert list(spelled) == old.encode("dog")


def test_frequent_words_are_those_in_several_pieces_by_count_then_by_name() -> None:
    texts = ["zeta gamma the", "(zeta gamma 12 the", "alpha, --== the beta", "zeta alpha, the"]
    tokenizer = OLD["bpe"]
    assert len(tokenizer.encode("the")) == 1
    # "(zeta" has no space before the word; "alpha," counts as "alpha".
    assert frequent_words(texts, tokenizer, 3) == ["alpha", "gamma", "zeta"]
    assert frequent_words(texts, tokenizer, 10) == ["alpha", "gamma", "zeta", "beta"]
    assert frequent_words(texts, tokenizer, 10, min_frequency=2) == ["alpha", "gamma", "zeta"]
    assert frequent_words(texts, with_new_words(tokenizer, ["gamma"]), 2) == ["alpha", "zeta"]
