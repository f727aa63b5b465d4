"""The links of words of training pairs, as pieces: which piece of a target comes from which of its source.

    aligner.safetensors    in a prepared folder: what `WordAligner` learned from its training pairs

Links are found as batches are made. They depend on nothing but the aligner and the pair, so a resumed training has the
same ones, on any number of processes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from transduce.alignment.word_aligner import Span, WordAligner
from transduce.alignment.words import Tokens, token_spans, tokens_of
from transduce.config import Config
from transduce.config.aligning_heads import guided_head
from transduce.config.modifiers import MODIFIERS
from transduce.data.batching import Indices
from transduce.data.learned_tokenizer import spread
from transduce.text import Tokenizer

if TYPE_CHECKING:
    from transduce.data.store import Ids, ParallelStore  # needs pyarrow, and a check needs none

_LEARNED_PAIRS = 300_000


def needs_aligner(config: Config) -> bool:
    """Returns whether training needs the links of words."""
    return guided_head(config) is not None or any(MODIFIERS[each.name].aligned for each in config.train.modifiers)


def learn_aligner(store: "ParallelStore", tokenizer: Tokenizer) -> WordAligner:
    """Learns from the training pairs, of many from a sample that is evenly spread."""
    rows = np.flatnonzero(spread(np.ones(len(store), dtype=np.bool_), _LEARNED_PAIRS))
    sources, targets = ([ids.tolist() for ids in side] for side in store.pairs(rows))
    return WordAligner.learn(tokenizer.decode_batch(sources), tokenizer.target.decode_batch(targets))


def links_of_pairs(aligner: WordAligner, pairs: Sequence[tuple[str, str]]) -> list[list[tuple[Span, Span]]]:
    """Returns for each pair of lines what `WordAligner.links` does; all at once costs much less."""
    sides = [[pair[side] for pair in pairs] for side in (0, 1)]
    tokens = [tokens_of(side) for side in sides]
    found: list[list[tuple[Span, Span]]] = [[] for _ in pairs]
    source, target = aligner.token_links(*tokens)
    spans = [token_spans(side)[words].tolist() for side, words in zip(sides, (source, target), strict=True)]
    for line, one, other in zip(tokens[0].lines[source].tolist(), *spans, strict=True):
        found[line].append((tuple(one), tuple(other)))
    return found


class PieceLinks:
    """Finds the linked pieces of pairs."""

    def __init__(self, aligner: WordAligner, tokenizer: Tokenizer) -> None:
        """Takes what links words, and the tokenizer of both sides."""
        self._aligner = aligner
        self._sides = tuple(_Side(each.piece_bytes(range(each.vocab_size))) for each in (tokenizer, tokenizer.target))

    def __call__(self, sources: Sequence["Ids"], targets: Sequence["Ids"]) -> NDArray[np.int64]:
        """Returns the links of pairs of ids, without EOS, (N, 3): pair, position in the target, in the source."""
        of_source, of_target = (side.pieces(rows) for side, rows in zip(self._sides, (sources, targets), strict=True))
        source_tokens, target_tokens = self._aligner.token_links(of_source.tokens, of_target.tokens)
        source, target = np.array(source_tokens, np.int64), np.array(target_tokens, np.int64)
        # Each piece of the source word with each of the target word.
        widths = of_source.counts[source]
        sizes = widths * of_target.counts[target]
        link = np.repeat(np.arange(len(sizes)), sizes)
        within = np.arange(len(link)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        j, i = np.divmod(within, widths[link])
        lines = of_target.tokens.lines[target[link]]
        return np.stack([lines, of_target.first[target[link]] + j, of_source.first[source[link]] + i], axis=1)


@dataclass(frozen=True, eq=False)
class _Pieces:
    """The words of several texts, and the pieces of each.

    Attributes:
        tokens: the words.
        first: the position of each word's first piece in its text.
        counts: the number of its pieces.
    """

    tokens: Tokens
    first: Indices
    counts: Indices


class _Side:
    """One side of a tokenizer."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        # A line feed would end the line, and is no part of a word.
        self._pieces = [piece.replace(b"\n", b" ") for piece in pieces]
        self._sizes_V = np.array([len(piece) for piece in pieces], dtype=np.int64)

    def pieces(self, rows: Sequence["Ids"]) -> _Pieces:
        """Returns the words of rows of ids, and the pieces of each."""
        raw = [b"".join([self._pieces[index] for index in row.tolist()]) for row in rows]
        lines = [each.decode("utf-8", "replace") for each in raw]
        # Where bytes are no text, replacing them would move what comes after.
        lines = [line if len(line.encode()) == len(each) else "" for line, each in zip(lines, raw, strict=True)]
        begins, ends = _byte_spans(lines)
        tokens = tokens_of(lines)
        counts = np.array([len(row) for row in rows], dtype=np.int64)
        ids = np.concatenate([np.zeros(0, np.int64), *rows]).astype(np.int64)
        row_N = np.repeat(np.arange(len(rows)), counts)
        # A text and its line feed take up as many bytes here as its pieces: all positions are in one line of bytes.
        text_starts = np.cumsum([0, *(len(each) + 1 for each in raw)])
        sizes = self._sizes_V[ids]
        totals = np.concatenate([[0], np.cumsum(sizes)])
        piece_starts = np.cumsum(counts) - counts
        piece_begins = totals[:-1] - totals[piece_starts][row_N] + text_starts[row_N]
        offset = text_starts[tokens.lines]
        first = np.searchsorted(piece_begins + sizes, begins + offset, side="right")
        last = np.searchsorted(piece_begins, ends + offset, side="left")
        return _Pieces(tokens, first - piece_starts[tokens.lines], last - first)


def _byte_spans(lines: Sequence[str]) -> tuple[Indices, Indices]:
    """Returns where the tokens of lines begin and end in them, in bytes."""
    spans = token_spans(lines)
    if all(map(str.isascii, lines)):
        return spans[:, 0], spans[:, 1]
    counts = tokens_of(lines).counts
    found, at = [np.zeros((0, 2), np.int64)], 0
    for line, count in zip(lines, counts.tolist(), strict=True):
        of_line = spans[at : at + count]
        at += count
        if not line.isascii():
            codes = np.frombuffer(line.encode("utf-32-le"), dtype="<u4")
            sizes = 1 + (codes >= 0x80).astype(np.int64) + (codes >= 0x800) + (codes >= 0x10000)
            of_line = np.concatenate([[0], np.cumsum(sizes)])[of_line]
        found.append(of_line)
    spans = np.concatenate(found)
    return spans[:, 0], spans[:, 1]
