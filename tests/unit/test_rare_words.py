"""Words that a vocabulary does not hold: what they are read as, and that each is one token."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.config import Config, DataConfig
from transduce.data.treebank_reader import sentence_reader
from transduce.errors import ConfigError
from transduce.text import SubwordTokenizer
from transduce.treebank.rare_words import WHOLE, Spelling, signatures
from tree_strategies import atoms


@pytest.mark.parametrize(
    ("word", "first"),
    [
        ("snarkiest", "UNK-est"),
        ("Boojum", "UNK-C-jum"),
        ("Boojum-4711", "UNK-C-N-H"),
        ("well-known", "UNK-H-own"),
        ("1984", "UNK-N"),
        ("ox", "UNK"),
        ("oxen", "UNK-en"),  # an ending is not nearly the whole word
        ("--", "UNK"),
        ("Éclairs", "UNK-C-irs"),
    ],
)
def test_the_most_telling_signature(word: str, first: str) -> None:
    assert next(signatures(word)) == first


@given(atoms)
def test_signatures_end_in_that_of_all_words(word: str) -> None:
    found = list(signatures(word))
    assert found[-1] == "UNK"
    assert len(set(found)) == len(found)


def test_known_words_stay_and_others_take_the_most_telling_signature_that_is_known() -> None:
    spelling = Spelling(["The", "UNK-est", "UNK-C", "UNK"])
    assert spelling(["The", "snarkiest", "Boojum", "ran"]) == "The UNK-est UNK-C UNK"


def test_what_is_learned_are_words_seen_thrice_and_endings_of_ten() -> None:
    rare = [f"{letter}{letter}orking" for letter in "abcdefghij"]
    spelling = Spelling.learned(Counter({"The": 3, "walk": 2} | dict.fromkeys(rare, 1)))
    assert spelling(["The", "walk", "zzorking", "Zzorking"]) == "The UNK UNK-ing UNK-ing"


@given(st.lists(atoms, min_size=1))
def test_each_word_of_a_sentence_is_one_token(words: list[str]) -> None:
    read = sentence_reader(DataConfig(format="trees", rare_words="signatures"), _tokenizer())
    assert len(_tokenizer().encode(read(" ".join(words)))) == len(words)


_TEXT = ["The dog barks . UNK UNK-C UNK-N", "(S (NP DT NN )NP (VP VBZ )VP . )S"] * 5


def _tokenizer() -> SubwordTokenizer:
    return SubwordTokenizer.train(_TEXT, algorithm="bpe", vocab_size=400, whole=WHOLE)


def test_only_sentences_of_trees_have_signatures() -> None:
    with pytest.raises(ConfigError, match=r"data\.rare_words"):
        Config(data=DataConfig(rare_words="signatures"))
