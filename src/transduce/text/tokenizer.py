"""What every tokenizer can do: the two sides of a model, its ids, their names and their bytes."""

import hashlib
import json
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from transduce import files
from transduce.errors import TokenizerError
from transduce.text import tags
from transduce.text.definition import NUM_SPECIAL, SPECIAL_TOKENS


class Tokenizer(ABC):
    """Turns text into token ids and back.

    Special tokens have the first ids of the vocabulary. No text is encoded as one of them, or as a tag.
    """

    exact: bool  # whether `decode(encode(text)) == text` for every text
    algorithm: Literal["bpe", "wordpiece", "sentencepiece"]  # how it cuts words, as in `text.algorithm`

    def __init__(self, definition: str, vocab_size: int, tag_ids: dict[str, int]) -> None:
        self._definition = definition
        self.vocab_size = vocab_size
        self.tags = tag_ids  # the id of each tag
        self._silent = {*range(NUM_SPECIAL), *tag_ids.values()}  # ids without text
        self._pieces: dict[int, bytes] = dict.fromkeys(self._silent, b"")
        self._readable = dict(enumerate(SPECIAL_TOKENS)) | {index: tag for tag, index in tag_ids.items()}

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Reads a `tokenizer.json` of this kind, which `save` wrote; `load_tokenizer` reads one of any kind.

        Raises:
            TokenizerError: The file is missing, damaged, or not one of ours.
        """
        return cls.from_json(read_definition(path), str(path))

    @classmethod
    @abstractmethod
    def from_json(cls, text: str, origin: str = "tokenizer.json") -> Self:
        """Builds a tokenizer from the contents of a `tokenizer.json`, which `origin` names in errors.

        Raises:
            TokenizerError: `text` is damaged, or not one of our tokenizers.
        """

    def with_tags(self, names: Iterable[str]) -> Self:
        """Returns the tokenizer with further tags after its ids, which stay; itself if it has them all.

        Raises:
            TokenizerError: a name is not that of a tag.
        """
        added = [name for name in dict.fromkeys(names) if name not in self.tags]
        for name in added:
            if not tags.is_tag(name):
                raise TokenizerError(f"{name!r}: not the name of a tag.")
        return self._with_tags(added) if added else self

    @abstractmethod
    def _with_tags(self, added: Sequence[str]) -> Self:
        """Returns the tokenizer with these tags, which it lacks, after its ids."""

    @property
    def target(self) -> "Tokenizer":
        """The tokenizer of the target side: this one, where both sides share it."""
        return self

    @property
    def target_vocab_size(self) -> int:
        """The size of the target's own vocabulary; 0 where both sides share one, as in `model.target_vocab_size`."""
        return 0 if self.target is self or self.target.tokens() == self.tokens() else self.target.vocab_size

    @cached_property
    def target_languages(self) -> tuple[str, ...]:
        """The target languages that have a tag; none where the model writes one language only."""
        return tags.names_among(self.tags, tags.LANGUAGE)

    @cached_property
    def domains(self) -> tuple[str, ...]:
        """The domains that have a tag."""
        return tags.names_among(self.tags, tags.DOMAIN)

    def save(self, path: str | Path) -> None:
        """Writes the `tokenizer.json`, atomically."""
        files.write_text(Path(path), self._definition)

    def to_json(self) -> str:
        """Returns what `save` writes: exactly what was loaded."""
        return self._definition

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self).from_json, (self._definition,))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(algorithm={self.algorithm!r}, vocab_size={self.vocab_size})"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON: equal for tokenizers whose files differ only in layout."""
        canonical = json.dumps(json.loads(self._definition), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    # --- text to ids and back ---------------------------------------------------------------------------------

    def encode(self, text: str) -> list[int]:
        """Returns the ids of `text`, without BOS or EOS.

        Raises:
            TokenizerError: `text` has a lone surrogate, which cannot be encoded.
        """
        return self.encode_batch([text])[0]

    @abstractmethod
    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each text, without BOS or EOS, computed on all cores.

        Raises:
            TokenizerError: A text has a lone surrogate, which cannot be encoded.
        """

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of `ids`; special tokens and tags are skipped.

        Bytes that are not UTF-8, which a model may produce, become U+FFFD.

        Raises:
            TokenizerError: An id is not in the vocabulary.
        """
        return self.decode_batch([ids])[0]

    @abstractmethod
    def decode_batch(self, batch: Iterable[Sequence[int]]) -> list[str]:
        """Returns the text of each sequence of ids, as `decode` does, computed on all cores."""

    @abstractmethod
    def covered(self, text: str, ids: Sequence[int]) -> list[bytes]:
        """Returns the bytes of `text` that each of `ids` stands for: its tokens, or the first of them.

        Those of all tokens, joined, are " " and the text.
        """

    # --- pieces -----------------------------------------------------------------------------------------------

    @abstractmethod
    def tokens(self) -> list[str]:
        """Returns the name of each id in the file, in order: all distinct."""

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns each id in readable form: "▁" for a space, `\\xc3` for bytes that are not whole characters."""
        return [self._shown(index) for index in self._known(ids)]

    def piece_bytes(self, ids: Iterable[int]) -> list[bytes]:
        """Returns the bytes of each id, none for a special token or tag; joined, they are " " and the decoded text."""
        return [self._piece(index) for index in self._known(ids)]

    def ids_beginning_with(self, start: bytes) -> tuple[int, ...]:
        """Returns the ids of all pieces whose bytes begin with `start`, which is not empty."""
        found = []
        for position in range(bisect_left(self._sorted, (start, 0)), len(self._sorted)):
            piece, index = self._sorted[position]
            if not piece.startswith(start):
                break
            found.append(index)
        return tuple(found)

    @cached_property
    def characters(self) -> frozenset[str]:
        """The characters that pieces of several bytes have: not those that are there as single bytes only."""
        long = (piece for piece in self.piece_bytes(range(self.vocab_size)) if len(piece) > 1)
        return frozenset().union(*(piece.decode("utf-8", errors="ignore") for piece in long))

    @abstractmethod
    def _bytes_of(self, index: int) -> bytes:
        """Returns the bytes of an ordinary id."""

    def _known(self, ids: Iterable[int]) -> list[int]:
        """Returns the ids; raises TokenizerError where one is not in the vocabulary."""
        ids = list(ids)
        if ids and (min(ids) < 0 or max(ids) >= self.vocab_size):
            wrong = next(index for index in ids if not 0 <= index < self.vocab_size)
            raise TokenizerError(f"id {wrong} is not in the vocabulary, which has {self.vocab_size} pieces.")
        return ids

    def _piece(self, index: int) -> bytes:
        """Returns the bytes of one id. They are cached: a table of all takes longer than translating a sentence."""
        if index not in self._pieces:
            self._pieces[index] = self._bytes_of(index)
        return self._pieces[index]

    def _shown(self, index: int) -> str:
        """Returns one id in readable form, which is cached, too."""
        if index not in self._readable:
            text = self._piece(index).decode("utf-8", errors="backslashreplace")
            visible = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
            self._readable[index] = "".join(visible).replace(" ", "▁")
        return self._readable[index]

    @cached_property
    def _sorted(self) -> list[tuple[bytes, int]]:
        pieces = self.piece_bytes(range(self.vocab_size))
        return sorted((piece, index) for index, piece in enumerate(pieces) if piece)


def read_definition(path: str | Path) -> str:
    """Returns the text of a `tokenizer.json`; raises TokenizerError where it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{path}: damaged: not UTF-8 at byte {error.start}.") from error


def require_encodable(text: str, prefix: str = "") -> None:
    """Raises TokenizerError where a text has a lone surrogate; the message begins with `prefix`."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TokenizerError(
            f"{prefix}lone surrogate U+{ord(text[error.start]):04X} at position {error.start}: "
            "not valid Unicode text. Read the text with a strict decoder."
        ) from error
