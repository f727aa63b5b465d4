"""Subword tokenisers, BPE and WordPiece. Their pieces can spell any text, and decoding restores it exactly (§5.1).

Text becomes pieces in four steps, all of them defined in one file, `tokenizer.json`:

1. A space is added in front, so that the first word is like any other.
2. The text is cut into words, each with the one space before it. A run of letters is one word, every digit is one
   (so unseen numbers are spelled from well-trained pieces), a run of the same sign is one, and `<` is one, so that no
   learned piece can spell `<s>` and the like.
3. Each word becomes its UTF-8 bytes, each byte one character ("é" is "Ã©", the space is "Ġ").
4. The model joins bytes to pieces. All 256 bytes are pieces, so nothing is unknown.

    "A dog, 12."  →  " A dog, 12."  →  " A", " dog", ",", " 1", "2", "."

Special tokens have the first ids of the vocabulary, and tags (`text/tags.py`) the last. No text is encoded as one of
them; they are added when a batch is built.

DEVIATION: the paper's BPE and word pieces start from characters; ours start from bytes, which loses nothing.
DEVIATION: the paper's word pieces were chosen by likelihood (Wu et al. 2016); ours are learned as BPE merges
and applied as theirs are, by the greedy longest match.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self, get_args

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from transduce.errors import TokenizerError, suggestion
from transduce.text.definition import (
    BYTE_OF_CHARACTER,
    NUM_SPECIAL,
    SPECIAL_TOKENS,
    UNK_TOKEN,
    Algorithm,
    parse_definition,
)
from transduce.text.tokenizer import Tokenizer, require_encodable

_MIN_VOCAB_SIZE = NUM_SPECIAL + 256

# The limit of 100 keeps WordPiece fast on text without spaces: its time is quadratic in the length of a word.
_WORD_PATTERN = (
    r" ?(?:"
    r"[\p{L}\p{M}]{1,100}"  # letters with their accents
    r"|\p{N}"  # one digit
    r"|<"
    r"|([^\s\p{L}\p{M}\p{N}<])\1{0,99}"  # one sign, or a run of it: "...", "--"
    r")"
    r"|\s{1,100}(?!\S)"  # white space, except the space that belongs to the next word
    r"|\s"
)


class SubwordTokenizer(Tokenizer):
    """A tokenizer of bytes: `decode(encode(text)) == text` for every string that UTF-8 holds.

    Made by `train` or `from_json`; `load_tokenizer` reads a file.
    """

    exact = True

    def __init__(
        self, tokenizer: tokenizers.Tokenizer, definition: str, algorithm: Algorithm, tag_ids: dict[str, int]
    ) -> None:
        """Do not call this: use `from_json`, which checks the definition."""
        super().__init__(definition, tokenizer.get_vocab_size(with_added_tokens=False), tag_ids)
        self._tokenizer = tokenizer
        self.algorithm = algorithm

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        *,
        algorithm: str,
        vocab_size: int,
        min_frequency: int = 2,
        whole: str = "",
        progress: bool = False,
    ) -> "SubwordTokenizer":
        """Learns a vocabulary from `lines`, which are read once. Memory grows only with the number of distinct words.

        Args:
            lines: The training text of both sides together, for a shared vocabulary.
            algorithm: "bpe" or "wordpiece".
            vocab_size: Size of the vocabulary, special tokens and bytes included. It is smaller if the text has too
                few pairs of pieces that occur `min_frequency` times.
            min_frequency: How often a pair of pieces must occur to become one piece.
            whole: A regular expression without groups: its matches are words that step 2 does not cut.
            progress: Whether to show progress bars.

        Raises:
            TokenizerError: `algorithm` is unknown, `vocab_size` is too small, or a line has a lone surrogate.
        """
        if algorithm not in get_args(Algorithm):
            known = get_args(Algorithm)
            raise TokenizerError(
                f"algorithm {algorithm!r} is not learned here: use 'bpe' or 'wordpiece'.{suggestion(algorithm, known)}"
            )
        if vocab_size < _MIN_VOCAB_SIZE:
            raise TokenizerError(
                f"vocab_size = {vocab_size}: must be at least {_MIN_VOCAB_SIZE}: "
                f"{NUM_SPECIAL} special tokens and 256 bytes."
            )
        settings: dict[str, Any] = {
            "vocab_size": vocab_size,
            "min_frequency": min_frequency,
            "special_tokens": list(SPECIAL_TOKENS),
            "initial_alphabet": pre_tokenizers.ByteLevel.alphabet(),
            "show_progress": progress,
        }
        model: models.BPE | models.WordPiece
        trainer: trainers.BpeTrainer | trainers.WordPieceTrainer
        if algorithm == "bpe":
            model, trainer = models.BPE(), trainers.BpeTrainer(**settings)
        else:
            model = models.WordPiece(unk_token=UNK_TOKEN)
            trainer = trainers.WordPieceTrainer(**settings, continuing_subword_prefix="")
        tokenizer = _pipeline(model, whole)
        tokenizer.train_from_iterator(_checked(lines), trainer)

        definition = json.loads(tokenizer.to_str())
        # The trainer registers the special tokens as strings to find in text, which must not happen.
        definition["added_tokens"] = []
        if algorithm == "wordpiece":
            definition["model"]["max_input_chars_per_word"] = 1_000_000  # else a long word becomes <unk>
        return cls.from_json(json.dumps(definition, ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def from_json(cls, text: str, origin: str = "tokenizer.json") -> Self:
        """Builds a tokenizer from the contents of a `tokenizer.json`, which `origin` names in errors.

        Raises:
            TokenizerError: `text` is damaged, or not one of our tokenizers.
        """
        return cls(*parse_definition(text, origin))

    def _with_tags(self, added: Sequence[str]) -> Self:
        definition = json.loads(self._definition)
        for index, name in enumerate(added, start=self.vocab_size):
            definition["model"]["vocab"][name] = index
        return type(self).from_json(json.dumps(definition, ensure_ascii=False, indent=1) + "\n")

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each text, without BOS or EOS, computed on all cores.

        Raises:
            TokenizerError: A text has a lone surrogate, which cannot be encoded.
        """
        texts = list(texts)
        try:
            encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        except TypeError:  # raised by the library for a lone surrogate
            for index, text in enumerate(texts):
                require_encodable(text, f"text {index}: " if len(texts) > 1 else "")
            raise
        return [encoding.ids for encoding in encodings]

    def decode_batch(self, batch: Iterable[Sequence[int]]) -> list[str]:
        """Returns the text of each sequence of ids, as `decode` does, computed on all cores."""
        ordinary = [[index for index in self._known(ids) if index not in self._silent] for ids in batch]
        return self._tokenizer.decode_batch(ordinary, skip_special_tokens=False)

    def covered(self, text: str, ids: Sequence[int]) -> list[bytes]:
        """Returns the bytes of `text` that each of `ids` stands for: the pieces themselves."""
        return self.piece_bytes(ids)

    def words(self, text: str) -> list[str]:
        """Returns the words that step 2 cuts `text` into, in the byte-level alphabet of `tokens`.

        Raises:
            TokenizerError: `text` has a lone surrogate, which cannot be encoded.
        """
        require_encodable(text)
        normalizer, splitter = self._tokenizer.normalizer, self._tokenizer.pre_tokenizer
        text = normalizer.normalize_str(text) if normalizer is not None else text
        return [word for word, _ in splitter.pre_tokenize_str(text)] if splitter is not None else [text]

    def ids_of_word(self, word: str) -> list[int]:
        """Returns the ids of one of the words that `words` returns."""
        return [token.id for token in self._tokenizer.model.tokenize(word)]

    def tokens(self) -> list[str]:
        """Returns the name of each id in the file, in order: all distinct, in the byte-level alphabet."""
        return [self._tokenizer.id_to_token(index) or "" for index in range(self.vocab_size)]

    def _bytes_of(self, index: int) -> bytes:
        return bytes(map(BYTE_OF_CHARACTER.__getitem__, self._tokenizer.id_to_token(index) or ""))


def _pipeline(model: models.BPE | models.WordPiece, whole: str) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(model)
    pattern = f" ?(?:{whole})|{_WORD_PATTERN}" if whole else _WORD_PATTERN
    tokenizer.normalizer = normalizers.Prepend(" ")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return tokenizer


def _checked(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        require_encodable(line, f"line {number}: ")
        yield line
