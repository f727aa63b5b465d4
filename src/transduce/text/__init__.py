"""Text to token ids and back: subword tokenisers learned from a corpus, and those of imported models."""

from transduce.config.special_ids import BOS, EOS, PAD, UNK
from transduce.text.definition import BOS_TOKEN, EOS_TOKEN, PAD_TOKEN, SPECIAL_TOKENS, UNK_TOKEN
from transduce.text.loading import load_tokenizer
from transduce.text.sentencepiece import SentencePieceTokenizer
from transduce.text.subword import SubwordTokenizer
from transduce.text.tokenizer import Tokenizer
from transduce.text.words import split_words, word_of_each

__all__ = [
    "BOS",
    "BOS_TOKEN",
    "EOS",
    "EOS_TOKEN",
    "PAD",
    "PAD_TOKEN",
    "SPECIAL_TOKENS",
    "UNK",
    "UNK_TOKEN",
    "SentencePieceTokenizer",
    "SubwordTokenizer",
    "Tokenizer",
    "load_tokenizer",
    "split_words",
    "word_of_each",
]
