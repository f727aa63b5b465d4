"""The tokenizer of an imported model: SentencePiece on each side, and the model's own list of pieces.

    tokenizer.json    {"format": "sentencepiece", "vocabulary": ["<pad>", "<s>", …], "source_model": "CgwKBTxwYWQ+…"}

A SentencePiece model cuts text into pieces. Their ids are those of the vocabulary, which may hold pieces of both sides,
and may lack some: these are unknown. A model in the format of the package `tokenizers` stands as an object.

SentencePiece normalises text (NFKC, white space), so that decoding does not give every text back. Special tokens and
tags have the same roles as in our own tokenizers; no text is encoded as one.
"""

import base64
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, Self

from transduce.config.special_ids import UNK
from transduce.errors import TokenizerError, panics_as
from transduce.text import tags
from transduce.text.definition import NUM_SPECIAL, SPECIAL_TOKENS
from transduce.text.tokenizer import Tokenizer, require_encodable

FORMAT = "sentencepiece"
_SPACE = "▁"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_MOST_PIECES = 10_000_000


class SentencePieceTokenizer(Tokenizer):
    """One side of the tokenizer of an imported model; `target` is the other. Made by `from_json` or `of`."""

    exact = False
    algorithm = "sentencepiece"

    def __init__(self, definition: str, values: Mapping[str, Any], *, is_target: bool = False) -> None:
        """Do not call this: use `from_json`, which checks the values."""
        self._values, self._is_target = values, is_target
        names: list[str] = values["vocabulary"]
        model = values["source_model"]
        if is_target:
            names, model = values.get("target_vocabulary", names), values.get("target_model", model)
        super().__init__(definition, len(names), {name: k for k, name in enumerate(names) if tags.is_tag(name)})
        self._names = names
        self._segmenter = _segmenter(model)
        self._ids = {name: index for index, name in enumerate(names) if index not in self._silent}
        self._target: SentencePieceTokenizer | None = None
        if not is_target and {"target_vocabulary", "target_model"} & values.keys():
            self._target = type(self)(definition, values, is_target=True)

    @classmethod
    def of(
        cls,
        vocabulary: Sequence[str],
        source_model: bytes | Mapping[str, Any],
        target_model: bytes | Mapping[str, Any] | None = None,
        target_vocabulary: Sequence[str] | None = None,
    ) -> Self:
        """Returns the tokenizer of these parts.

        Args:
            vocabulary: the piece of each id; the first four are the special tokens.
            source_model: a SentencePiece model, or what a `tokenizer.json` of the package `tokenizers` holds.
            target_model: that of the target side; None: the same.
            target_vocabulary: pieces of the target side; None: the same.

        Raises:
            TokenizerError: a part is damaged or not supported.
        """
        values: dict[str, Any] = {"format": FORMAT, "vocabulary": [*vocabulary]}
        if target_vocabulary is not None:
            values["target_vocabulary"] = [*target_vocabulary]
        for key, model in (("source_model", source_model), ("target_model", target_model)):
            if model is not None:
                values[key] = base64.b64encode(model).decode() if isinstance(model, bytes) else model
        return cls.from_json(_written(values))

    @classmethod
    def from_json(cls, text: str, origin: str = "tokenizer.json") -> Self:
        """Builds the tokenizer of the source side from the contents of a `tokenizer.json`, which `origin` names.

        Raises:
            TokenizerError: `text` is damaged, or a part is not supported.
        """
        try:
            values = json.loads(text)
            _require_valid(values)
            tokenizer = cls(text, values)
            for side in (tokenizer, tokenizer.target):
                _require_supported(side)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise TokenizerError(f"{origin}: damaged: {error}. Copy the file again.") from None
        except TokenizerError as error:
            raise TokenizerError(f"{origin}: {error}") from None
        return tokenizer

    @property
    def target(self) -> Tokenizer:
        """The tokenizer of the target side: this one, where both sides share it."""
        return self._target or self

    @property
    def models(self) -> tuple[bytes | Mapping[str, Any], bytes | Mapping[str, Any]]:
        """The models of source and target, as `of` takes them."""
        source = self._values["source_model"]
        both = (source, self._values.get("target_model", source))
        decoded = [base64.b64decode(model) if isinstance(model, str) else model for model in both]
        return decoded[0], decoded[1]

    def _with_tags(self, added: Sequence[str]) -> Self:
        return type(self).from_json(_written({**self._values, "vocabulary": [*self._names, *added]}))

    def __reduce__(self) -> tuple[Any, ...]:
        return (_side, (self._definition, self._is_target))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each text, without BOS or EOS, computed on all cores.

        Raises:
            TokenizerError: A text has a lone surrogate, which cannot be encoded.
        """
        texts = list(texts)
        for index, text in enumerate(texts):
            require_encodable(text, f"text {index}: " if len(texts) > 1 else "")
        get = self._ids.get
        return [[get(piece, UNK) for piece in pieces] for pieces in self._segmenter.pieces_of(texts)]

    def decode_batch(self, batch: Iterable[Sequence[int]]) -> list[str]:
        """Returns the text of each sequence of ids, as `decode` does."""
        return [b"".join(self.piece_bytes(ids)).removeprefix(b" ").decode("utf-8", "replace") for ids in batch]

    def covered(self, text: str, ids: Sequence[int]) -> list[bytes]:
        """Returns the bytes of `text` that each of `ids` stands for; what normalising removes belongs to the next."""
        require_encodable(text)
        ends = self._segmenter.ends_of(text)
        if not ends:
            return []
        bounds = [0, *ends[:-1], len(text)]
        parts = [text[start:end].encode() for start, end in itertools.pairwise(bounds)]
        return [b" " + parts[0], *parts[1:]][: len(ids)]

    def tokens(self) -> list[str]:
        """Returns the piece of each id, in order: all distinct."""
        return [*self._names]

    def _bytes_of(self, index: int) -> bytes:
        name = self._names[index]
        byte = _BYTE.fullmatch(name)
        return bytes([int(byte[1], 16)]) if byte else name.replace(_SPACE, " ").encode()


def _written(values: Mapping[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False) + "\n"


def _side(definition: str, is_target: bool) -> Tokenizer:
    tokenizer = SentencePieceTokenizer.from_json(definition)
    return tokenizer.target if is_target else tokenizer


def _require_valid(values: Any) -> None:
    """Raises ValueError where the file is not what `of` writes."""
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise ValueError(f"it does not begin with 'format': '{FORMAT}'")
    for key in ("vocabulary", "target_vocabulary"):
        names = values.get(key, [*SPECIAL_TOKENS])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"'{key}' is not a list of pieces")
        if tuple(names[:NUM_SPECIAL]) != SPECIAL_TOKENS or len(names) > _MOST_PIECES:
            raise ValueError(f"'{key}' does not begin with {', '.join(SPECIAL_TOKENS)}, or is too long")
        if len(set(names)) < len(names):
            twice = next(name for name, count in Counter(names).items() if count > 1)
            raise ValueError(f"'{key}' has the piece {twice[:40]!r} twice")


def _require_supported(side: Tokenizer) -> None:
    """Raises TokenizerError where a tokenizer does not mark words at their beginning."""
    [pieces] = side._segmenter.pieces_of(["a a"])  # type: ignore[attr-defined]
    if pieces and pieces[-1].endswith(_SPACE):
        raise TokenizerError(f"its pieces end with {_SPACE}, and those of Transduce begin with it: not supported.")


# --- what cuts text into pieces -------------------------------------------------------------------------------


class _Segmenter(Protocol):
    def pieces_of(self, texts: list[str]) -> Sequence[Sequence[str]]:
        """Returns the pieces of each text; an unknown one is the text itself."""

    def ends_of(self, text: str) -> list[int]:
        """Returns where each piece ends in the text."""


def _segmenter(model: Any) -> _Segmenter:
    if isinstance(model, str):
        return _SentencePiece(base64.b64decode(model, validate=True))
    if isinstance(model, dict):
        return _Tokenizers(model)
    raise ValueError("a model is neither SentencePiece's nor that of the package tokenizers")


class _SentencePiece:
    def __init__(self, model: bytes) -> None:
        import sentencepiece  # here: our own models do not need it

        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.load_from_serialized_proto(model)
        except RuntimeError as error:
            raise TokenizerError(f"its SentencePiece model is damaged ({error}). Copy the file again.") from None

    def pieces_of(self, texts: list[str]) -> Sequence[Sequence[str]]:
        found: list[list[str]] = self._processor.encode(texts, return_type=str)
        return found

    def ends_of(self, text: str) -> list[int]:
        return [end for _, end in self._processor.encode(text, return_type="offset_mapping")["offsets"]]


class _Tokenizers:
    def __init__(self, definition: Mapping[str, Any]) -> None:
        import tokenizers

        with panics_as(TokenizerError, "its tokenizer is damaged ({error}). Copy the file again."):
            self._tokenizer = tokenizers.Tokenizer.from_str(json.dumps(definition))
        self._tokenizer.encode_special_tokens = True

    def pieces_of(self, texts: list[str]) -> Sequence[Sequence[str]]:
        with panics_as(TokenizerError, "its tokenizer cannot cut a text into pieces ({error})."):
            return [each.tokens for each in self._tokenizer.encode_batch(texts, add_special_tokens=False)]

    def ends_of(self, text: str) -> list[int]:
        return [end for _, end in self._tokenizer.encode(text, add_special_tokens=False).offsets]
