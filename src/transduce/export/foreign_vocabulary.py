"""The vocabulary of an imported model in our order: special tokens first, then its other pieces, in theirs.

    theirs    </s> <unk> ▁the … >>deu<< <pad>      0 1 2 …
    ours      <pad> <s> </s> <unk> ▁the … <2deu>   their ids: 58100 58100 0 1 2 …

The decoder of many models starts from a token that has another role: padding, or the end. Our BOS is then one more row
with the same embedding, which is never generated. A tag in another form gets ours.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from transduce.config.special_ids import BOS, EOS, PAD, UNK
from transduce.errors import BundleError, TokenizerError
from transduce.text import SPECIAL_TOKENS, SentencePieceTokenizer, Tokenizer
from transduce.text.tags import LANGUAGE, is_tag

_TAG = re.compile(r">>(.+)<<")  # of OPUS-MT


@dataclass(frozen=True)
class ForeignTokenizer:
    """Another system's tokeniser as one of ours."""

    tokenizer: Tokenizer
    order: np.ndarray  # (V,): their id of each of our ids
    target_order: np.ndarray | None = None  # of the target side; None: both share a vocabulary

    @property
    def both(self) -> tuple[np.ndarray, np.ndarray]:
        """The orders of source and target."""
        return self.order, self.order if self.target_order is None else self.target_order


@dataclass(frozen=True)
class SpecialTokens:
    """Their names of our special tokens."""

    pad: str = "<pad>"
    start: str = "<pad>"  # what a decoder starts from
    end: str = "</s>"
    unknown: str = "<unk>"


def in_our_order(
    vocabulary: Mapping[str, int], special: SpecialTokens, where: str, tags: Mapping[str, str] | None = None
) -> tuple[list[str], np.ndarray]:
    """Returns our names of all pieces, and their id of each.

    Args:
        vocabulary: their id of each piece.
        special: names of the special tokens.
        where: names the vocabulary in errors.
        tags: our tag of each piece that is one; None: those of the form `>>deu<<`.

    Raises:
        BundleError: a special token is missing, or two pieces have one id.
    """
    roles = (special.pad, special.start, special.end, special.unknown)
    if missing := [name for name in roles if name not in vocabulary]:
        raise BundleError(f"{where}: has no {', '.join(dict.fromkeys(missing))}, which every model needs.")
    if len(set(vocabulary.values())) < len(vocabulary):
        raise BundleError(f"{where}: two pieces have the same id. Download it again.")
    others = sorted((index, name) for name, index in vocabulary.items() if name not in roles)
    names = [*SPECIAL_TOKENS, *(_own_name(name, tags) for _, name in others)]
    taken: set[str] = set()
    for index, name in enumerate(names):
        while name in taken:  # such as a "<s>" that the model does not use
            name += "#"
        taken.add(name)
        names[index] = name
    return names, np.array([*(vocabulary[name] for name in roles), *(index for index, _ in others)])


def _own_name(name: str, tags: Mapping[str, str] | None) -> str:
    if tags is not None:
        return tags.get(name, name)
    match = _TAG.fullmatch(name)
    return (target_tag(match[1]) if match else "") or name


def target_tag(language: str) -> str:
    """Returns our tag of a target language, such as "deu" → "<2deu>"; "" where none can have this name."""
    tag = f"<{LANGUAGE}{language}>"
    return tag if is_tag(tag) else ""


def single_language(name: str) -> str:
    """Returns the code of a language; "" for any other name, such as those of groups: "ROMANCE", "de+nl", "mul"."""
    return name if re.fullmatch(r"[A-Za-z]{2,3}([_-][A-Za-z]{2,8})?", name) and name != "mul" else ""


def sentencepiece_pieces(model: bytes, where: str) -> list[str]:
    """Returns the pieces of a SentencePiece model in the order of their ids; raises BundleError where it is damaged."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.load_from_serialized_proto(model)
    except RuntimeError as error:
        raise BundleError(f"{where}: damaged ({error}). Download it again.") from None
    return [processor.id_to_piece(index) for index in range(processor.get_piece_size())]


def sentencepiece_tokenizer(folder: Path, names: list[str], *parts: Any) -> SentencePieceTokenizer:
    """Returns what `SentencePieceTokenizer.of` makes of our names and the models of `folder`.

    Raises:
        BundleError: no tokenizer of ours does the same.
    """
    try:
        return SentencePieceTokenizer.of(names, *parts)
    except TokenizerError as error:
        raise BundleError(f"{folder}: its tokenizer cannot be imported: {error}") from None


def read_ids(vocabulary: object, num_rows: int, where: str) -> dict[str, int]:
    """Returns a vocabulary as read from JSON, if it maps pieces to rows of the model.

    Raises:
        BundleError: it does not, or it names rows that the model does not have.
    """
    if not isinstance(vocabulary, dict) or not all(type(index) is int for index in vocabulary.values()):
        raise BundleError(f"{where}: damaged: it does not map pieces to numbers.")
    wrong = next((name for name, index in vocabulary.items() if not 0 <= index < num_rows), None)
    if wrong is not None:
        raise BundleError(
            f"{where}: {wrong[:40]!r} has id {vocabulary[wrong]}, and the model has {num_rows:,} rows: it belongs to "
            "another model."
        )
    return vocabulary


def repeated(order: np.ndarray) -> list[int]:
    """Returns which of our PAD and BOS have the row of another special token: they are read, and never written."""
    others = {BOS: (PAD, EOS, UNK), PAD: (EOS, UNK)}
    return [each for each, taken in others.items() if order[each] in order[[*taken]]]


def repeats_start(order: np.ndarray) -> bool:
    """Returns whether our BOS has the row of another special token."""
    return BOS in repeated(order)
