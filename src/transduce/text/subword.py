"""Subword tokenisers, BPE and WordPiece. Their pieces can spell any text, and decoding restores it exactly (§5.1).

Text becomes pieces in four steps, all of them defined in one file, `tokenizer.json`:

1. A space is added in front, so that the first word is like any other.
2. The text is cut into words, each with the one space before it. A run of letters is one word, every digit is one
   (so unseen numbers are spelled from well-trained pieces), a run of the same sign is one, and `<` is one, so that no
   learned piece can spell `<s>` and the like.
3. Each word becomes its UTF-8 bytes, each byte one character ("é" is "Ã©", the space is "Ġ").
4. The model joins bytes to pieces. All 256 bytes are pieces, so nothing is unknown.

    "A dog, 12."  →  " A dog, 12."  →  " A", " dog", ",", " 1", "2", "."

Special tokens have the first ids of the vocabulary. No text is encoded as one of them; they are added when a batch is
built.

DEVIATION: the paper's BPE and word pieces start from characters; ours start from bytes, which loses nothing.
DEVIATION: the paper's word pieces were chosen by likelihood (Wu et al. 2016); ours are learned as BPE merges
and applied as theirs are, by the greedy longest match.
"""

import hashlib
import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from transduce import files
from transduce.errors import TokenizerError, suggestion

Algorithm = Literal["bpe", "wordpiece"]

PAD_TOKEN, BOS_TOKEN, EOS_TOKEN, UNK_TOKEN = "<pad>", "<s>", "</s>", "<unk>"
SPECIAL_TOKENS = (PAD_TOKEN, BOS_TOKEN, EOS_TOKEN, UNK_TOKEN)

_NUM_SPECIAL = len(SPECIAL_TOKENS)
_MIN_VOCAB_SIZE = _NUM_SPECIAL + 256

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

# A tokenizer is accepted if it restores these texts exactly, without special ids. The last is the longest possible
# word: 100 letters of four bytes and the space. WordPiece turns it into <unk> if `max_input_chars_per_word` is small.
_PROBES = ("", " ", "A dog, 12.", "  <s>\t<unk> Ä\n", "\x00\u2028😀 ▁Ġ##<0x41> ", "\U00010400" * 100)

_ALGORITHM_OF_MODEL: dict[str, Algorithm] = {"BPE": "bpe", "WordPiece": "wordpiece"}


class SubwordTokenizer:
    """Turns text into token ids and back.

    Made by `train`, `load` or `from_json`. `decode(encode(text)) == text` for every string that UTF-8 holds.
    """

    def __init__(self, tokenizer: Tokenizer, definition: str, algorithm: Algorithm) -> None:
        """Do not call this: use `from_json`, which checks the definition."""
        self._tokenizer = tokenizer
        self._definition = definition
        self.algorithm: Algorithm = algorithm
        self.vocab_size: int = tokenizer.get_vocab_size(with_added_tokens=False)
        self._pieces: dict[int, bytes] = dict.fromkeys(range(_NUM_SPECIAL), b"")

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        *,
        algorithm: Algorithm,
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
                f"unknown algorithm {algorithm!r}: use 'bpe' or 'wordpiece'.{suggestion(algorithm, known)}"
            )
        if vocab_size < _MIN_VOCAB_SIZE:
            raise TokenizerError(
                f"vocab_size = {vocab_size}: must be at least {_MIN_VOCAB_SIZE}: "
                f"{_NUM_SPECIAL} special tokens and 256 bytes."
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
    def load(cls, path: Path) -> "SubwordTokenizer":
        """Reads a `tokenizer.json` that `save` wrote.

        Raises:
            TokenizerError: The file is missing, damaged, or not one of ours.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise TokenizerError(f"{path}: cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise TokenizerError(f"{path}: damaged: not UTF-8 at byte {error.start}.") from error
        return _from_text(text, str(path))

    @classmethod
    def from_json(cls, text: str) -> "SubwordTokenizer":
        """Builds a tokenizer from the contents of a `tokenizer.json`.

        Raises:
            TokenizerError: `text` is damaged, or not one of our tokenizers.
        """
        return _from_text(text, "tokenizer.json")

    def save(self, path: Path) -> None:
        """Writes the `tokenizer.json`, atomically."""
        files.write_text(path, self._definition)

    def to_json(self) -> str:
        """Returns what `save` writes: exactly what was loaded."""
        return self._definition

    def __reduce__(self) -> tuple[Any, ...]:
        return (SubwordTokenizer.from_json, (self._definition,))

    def __repr__(self) -> str:
        return f"SubwordTokenizer(algorithm={self.algorithm!r}, vocab_size={self.vocab_size})"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON: equal for tokenizers whose files differ only in layout."""
        canonical = json.dumps(json.loads(self._definition), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def encode(self, text: str) -> list[int]:
        """Returns the ids of `text`, without BOS or EOS.

        Raises:
            TokenizerError: `text` has a lone surrogate, which cannot be encoded.
        """
        return self.encode_batch([text])[0]

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
                _require_encodable(text, f"text {index}: " if len(texts) > 1 else "")
            raise
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of `ids`; special tokens are skipped.

        Bytes that are not UTF-8, which a model may produce, become U+FFFD.

        Raises:
            TokenizerError: An id is not in the vocabulary.
        """
        return self.decode_batch([ids])[0]

    def decode_batch(self, batch: Iterable[Sequence[int]]) -> list[str]:
        """Returns the text of each sequence of ids, as `decode` does, computed on all cores."""
        ordinary: list[list[int]] = []
        for ids in batch:
            self._require_known(ids)
            ordinary.append([index for index in ids if index >= _NUM_SPECIAL])
        return self._tokenizer.decode_batch(ordinary, skip_special_tokens=False)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns each id in readable form: "▁" for a space, `\\xc3` for bytes that are not whole characters."""
        ids = list(ids)
        self._require_known(ids)
        return [self._shown(index) for index in ids]

    def tokens(self) -> list[str]:
        """Returns the name of each id in the file, in order: all distinct, in the byte-level alphabet."""
        return [self._tokenizer.id_to_token(index) or "" for index in range(self.vocab_size)]

    def piece_bytes(self, ids: Iterable[int]) -> list[bytes]:
        """Returns the bytes of each id, none for a special token; joined, they are " " and the text."""
        ids = list(ids)
        self._require_known(ids)
        return [self._piece(index) for index in ids]

    def ids_beginning_with(self, start: bytes) -> tuple[int, ...]:
        """Returns the ids of all pieces whose bytes begin with `start`, which is not empty."""
        found = []
        for position in range(bisect_left(self._sorted, (start, 0)), len(self._sorted)):
            piece, index = self._sorted[position]
            if not piece.startswith(start):
                break
            found.append(index)
        return tuple(found)

    def _require_known(self, ids: Sequence[int]) -> None:
        if ids and (min(ids) < 0 or max(ids) >= self.vocab_size):
            wrong = next(index for index in ids if not 0 <= index < self.vocab_size)
            raise TokenizerError(f"id {wrong} is not in the vocabulary, which has {self.vocab_size} pieces.")

    def _piece(self, index: int) -> bytes:
        """Returns the bytes of one id. They are cached: a table of all takes longer than translating a sentence."""
        if index not in self._pieces:
            self._pieces[index] = bytes(map(_BYTE_OF_CHARACTER.__getitem__, self._tokenizer.id_to_token(index) or ""))
        return self._pieces[index]

    def _shown(self, index: int) -> str:
        if index < _NUM_SPECIAL:
            return SPECIAL_TOKENS[index]
        text = self._piece(index).decode("utf-8", errors="backslashreplace")
        if text.isprintable():
            return text.replace(" ", "▁")
        visible = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
        return "".join(visible).replace(" ", "▁")

    @cached_property
    def _sorted(self) -> list[tuple[bytes, int]]:
        pieces = self.piece_bytes(range(self.vocab_size))
        return sorted((piece, index) for index, piece in enumerate(pieces) if piece)


def _pipeline(model: models.BPE | models.WordPiece, whole: str) -> Tokenizer:
    tokenizer = Tokenizer(model)
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


def _byte_alphabet() -> dict[str, int]:
    """Returns the byte of each character of the byte-level alphabet.

    A byte that is a visible character in Latin-1 is that character; the others are U+0100 and following, in order.
    """
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(0x100 + n): byte for n, byte in enumerate(hidden)}


_BYTE_OF_CHARACTER = _byte_alphabet()


def _require_encodable(text: str, prefix: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TokenizerError(
            f"{prefix}lone surrogate U+{ord(text[error.start]):04X} at position {error.start}: "
            "not valid Unicode text. Read the text with a strict decoder."
        ) from error


def _checked(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        _require_encodable(line, f"line {number}: ")
        yield line


def _from_text(text: str, origin: str) -> SubwordTokenizer:
    try:
        definition = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"{origin}: damaged: {error}. Copy the file again, or train a new tokenizer.") from error
    algorithm = _require_ours(definition, origin)
    try:
        tokenizer = Tokenizer.from_str(text)
        restores_text = _restores_text(tokenizer)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library raises plain Exception, and panics with other classes
        raise TokenizerError(f"{origin}: damaged: {error}.") from error
    if not restores_text:
        raise _foreign(origin, "it does not restore text exactly")
    return SubwordTokenizer(tokenizer, text, algorithm)


def _require_ours(definition: Any, origin: str) -> Algorithm:
    """Checks what `SubwordTokenizer` relies on, and returns the algorithm."""
    model = definition.get("model") if isinstance(definition, dict) else None
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    kind = model.get("type") if isinstance(model, dict) else None
    if not isinstance(vocabulary, dict) or not isinstance(kind, str) or kind not in _ALGORITHM_OF_MODEL:
        raise _foreign(origin, "it holds no BPE or WordPiece vocabulary")
    for index, token in enumerate(SPECIAL_TOKENS):
        if vocabulary.get(token) != index:
            raise _foreign(origin, f"{token} is not id {index}")
    if definition.get("added_tokens"):
        raise _foreign(origin, "it encodes text as special tokens ('added_tokens' is not empty)")
    if missing := _BYTE_OF_CHARACTER.keys() - vocabulary.keys():
        raise _foreign(origin, f"{len(missing)} of the 256 bytes are not in the vocabulary")
    if set(map(str, vocabulary.values())) != set(map(str, range(len(vocabulary)))):
        raise _foreign(origin, "its ids are not 0, 1, 2, … without gaps")
    if not _BYTE_OF_CHARACTER.keys() >= set("".join(vocabulary)):
        raise _foreign(origin, "its pieces are not made of bytes")
    return _ALGORITHM_OF_MODEL[kind]


def _foreign(origin: str, reason: str) -> TokenizerError:
    return TokenizerError(f"{origin}: not a tokenizer of Transduce: {reason}.")


def _restores_text(tokenizer: Tokenizer) -> bool:
    encodings = tokenizer.encode_batch(list(_PROBES), add_special_tokens=False)
    return all(
        min(encoding.ids, default=_NUM_SPECIAL) >= _NUM_SPECIAL and tokenizer.decode(encoding.ids) == probe
        for probe, encoding in zip(_PROBES, encodings, strict=True)
    )
