"""Text as token ids and back: subword tokenisers learned from a corpus."""

from transduce.text.subword import (
    BOS,
    BOS_TOKEN,
    EOS,
    EOS_TOKEN,
    PAD,
    PAD_TOKEN,
    SPECIAL_TOKENS,
    UNK,
    UNK_TOKEN,
    SubwordTokenizer,
)

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
    "SubwordTokenizer",
]
