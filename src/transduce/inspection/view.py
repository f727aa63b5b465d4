"""One of a model's three kinds of attention, to be shown: weights with a label for each row and column (§3.2.3).

In what people read or type, layers and heads count from 1, as in the paper ("layer 5 of 6"); arrays start at 0.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from transduce.errors import ConfigError, suggestion
from transduce.translation.result import Attention

Kind = Literal["encoder", "decoder", "cross"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")

_SPACE = "▁"  # what `Tokenizer.pieces` shows for a space
_ALONE = "(space)"  # the label of a piece that is nothing else
_CONTINUES = "·"
_BYTES = re.compile(r"(?:\\x[89a-f][0-9a-f])+")  # as `Tokenizer.pieces` shows bytes that are not whole characters


@dataclass(frozen=True, slots=True)
class Unit:
    """A row or column of a view: a subword piece, or a whole word."""

    label: str  # with "·" in front: continues the word of the unit before
    word: int | None  # the white-space word that it is, or is part of; None for "</s>", "<s>" and white space


@dataclass(frozen=True, eq=False)
class View:
    """The weights of one attention. Row q of a head holds the weights of query q, which sum to 1.

    encoder: the source attends to the source. cross: the target attends to the source. decoder: the target attends to
    the decoder's input so far, "<s>" and the pieces before it.
    """

    kind: Kind
    weights: np.ndarray  # (layers, heads, Q, K)
    queries: tuple[Unit, ...]  # Q
    keys: tuple[Unit, ...]  # K

    @property
    def num_layers(self) -> int:
        """Layers of this attention."""
        return int(self.weights.shape[0])

    @property
    def num_heads(self) -> int:
        """Heads of each layer."""
        return int(self.weights.shape[1])

    def require_layer(self, layer: int) -> None:
        """Raises ConfigError where `layer`, counted from 1, does not exist; the message names the range."""
        if not 1 <= layer <= self.num_layers:
            raise ConfigError(f"layer {layer}: the {self.kind} attention has layers 1 to {self.num_layers}.")

    def require_heads(self, heads: Sequence[int]) -> None:
        """Raises ConfigError where `heads`, counted from 1, are none or do not all exist; names the range."""
        if not heads:
            raise ConfigError(f"no heads chosen: each layer has heads 1 to {self.num_heads}.")
        for head in heads:
            if not 1 <= head <= self.num_heads:
                raise ConfigError(f"head {head}: each layer has heads 1 to {self.num_heads}.")

    @property
    def usual_layer(self) -> int:
        """The default layer to show: the last but one, as in the paper (5 of 6)."""
        return max(1, self.num_layers - 1)


def view(attention: Attention, kind: Kind, *, words: bool = False) -> View:
    """Returns one attention of a pair, by pieces or by `words`.

    A word's column is the sum of its pieces' columns, and its row the mean of their rows. So in the decoder a word
    attends a little to itself: its later pieces to its earlier ones. A piece that is a space alone, as before a number,
    is part of the word after it.

    Raises:
        ConfigError: there is no such attention.
    """
    source = (attention.source_pieces, attention.source_words)
    target = (attention.target_pieces, attention.target_words)
    inputs = (attention.input_pieces, (None, *attention.target_words[:-1]))
    if kind not in KINDS:
        raise ConfigError(f"attention '{kind}': must be encoder, decoder or cross.{suggestion(kind, KINDS)}")
    weights: np.ndarray = getattr(attention, kind)
    queries = source if kind == "encoder" else target
    keys = inputs if kind == "decoder" else source
    if not words:
        return View(kind, weights, _pieces(*queries), _pieces(*keys))
    query_starts, key_starts = _starts(*queries), _starts(*keys)
    num_merged = np.diff([*query_starts, len(queries[1])])[:, None]
    weights = np.add.reduceat(weights, key_starts, axis=-1)
    weights = np.add.reduceat(weights, query_starts, axis=-2) / num_merged.astype(weights.dtype)
    return View(kind, weights, _merged(*queries, query_starts), _merged(*keys, key_starts))


def views(attention: Attention, *, words: bool = False) -> list[View]:
    """Returns all three: encoder, decoder, cross."""
    return [view(attention, kind, words=words) for kind in KINDS]


def joined(pieces: Iterable[str]) -> str:
    """Returns pieces as one text, in which a character is whole whose bytes are in several of them."""

    def whole(found: re.Match[str]) -> str:
        text = bytes.fromhex(found[0].replace("\\x", "")).decode(errors="backslashreplace")
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)

    return _BYTES.sub(whole, "".join(pieces))


def _pieces(pieces: Sequence[str], words: Sequence[int | None]) -> tuple[Unit, ...]:
    labels = []
    for before, piece in pairwise([_SPACE, *pieces]):
        if piece.startswith(_SPACE):
            labels.append(_without_space(piece))
        else:
            labels.append(_CONTINUES + piece if before[-1].isalnum() and piece[0].isalnum() else piece)
    return tuple(Unit(label, word) for label, word in zip(labels, words, strict=True))


def _merged(pieces: Sequence[str], words: Sequence[int | None], starts: Sequence[int]) -> tuple[Unit, ...]:
    spans = pairwise([*starts, len(pieces)])
    return tuple(Unit(_without_space(joined(pieces[start:end])), words[end - 1]) for start, end in spans)


def _starts(pieces: Sequence[str], words: Sequence[int | None]) -> list[int]:
    """Returns where units begin: at each new word or the spaces before it, and at each other piece of no word."""

    def joins(before: int, this: int) -> bool:
        after_space = not pieces[before].strip(_SPACE)
        if words[this] is None:
            return after_space and not pieces[this].strip(_SPACE)
        return after_space or words[this] == words[before]

    return [i for i in range(len(words)) if i == 0 or not joins(i - 1, i)]


def _without_space(piece: str) -> str:
    return piece.lstrip(_SPACE) or _ALONE
