"""What comes out of a model, as data: a translation, and what each piece of a pair attends to."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from transduce.reporting.tables import counted
from transduce.text import BOS_TOKEN
from transduce.translation.constraints.required_terms import Choice

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class Translation:
    """One translation of one line."""

    text: str  # never holds a line break "\n", but for those of the source where `TextOptions.split` cut at them
    score: float  # log-probability over the length penalty, with the coverage penalty if asked for; higher is better
    log_probability: float  # the model's own, whatever was asked of the search
    tokens: tuple[str, ...]  # the pieces that the model wrote, for the eye
    finished: bool  # False: cut off at the length limit
    source_truncated: bool  # the line was longer than the model reads, and only its beginning was translated
    ids: tuple[int, ...] = ()  # those of `tokens`
    num_parts: int = 1  # sentences, or parts of one, that were translated apart
    warnings: tuple[str, ...] = ()  # what `guard` found, or what went wrong with markup
    confidence: float | None = None  # 0 to 1, of the whole; where it was asked for, as what follows
    calibrated: bool = False  # whether `confidence` is a probability that was fitted to data (`transduce calibrate`)
    words: tuple[tuple[str, float], ...] = ()  # each word with its probability, given those before it
    token_log_probabilities: tuple[float, ...] = ()  # of each token, and of the end of each part
    required: tuple[tuple[Choice, bool], ...] = ()  # each choice of terms that was asked for; whether one came out
    forced: tuple[Choice, ...] = ()  # of these, what came out where the model saw no place for it: see `forced_terms`


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """What each piece of one pair attends to, in every layer and head: the data of Figures 3 to 5.

    S source and T target pieces, the last of each being "</s>". Layers and heads are array indices here, from 0. A row
    is the piece that looks, a column one that is looked at, and each row sums to 1. The decoder's rows are the pieces
    that it writes; what it looks at are its inputs, each the piece before: "<s>", then all but the last.
    """

    source: str
    target: str
    source_pieces: tuple[str, ...]  # as `SubwordTokenizer.pieces` shows them: "▁" is a space
    target_pieces: tuple[str, ...]
    source_words: tuple[int | None, ...]  # S: the word of `source` that the piece is part of, see `text.words`
    target_words: tuple[int | None, ...]  # T
    encoder: "np.ndarray"  # (layers, heads, S, S), float32
    decoder: "np.ndarray"  # (layers, heads, T, T), float32: row t has weight in columns 0 … t only
    cross: "np.ndarray"  # (layers, heads, T, S), float32
    source_truncated: bool  # longer than the model reads: only the beginning has pieces and weights
    target_truncated: bool

    def __repr__(self) -> str:
        """Says what it is of, without the weights: thousands of numbers are nothing to read."""
        layers, heads = self.cross.shape[:2]
        pieces = f"{len(self.source_pieces)} → {counted(len(self.target_pieces), 'piece')}"
        shape = f"{counted(layers, 'layer')} of {counted(heads, 'head')}"
        return f"Attention({self.source!r} → {self.target!r}, {pieces}, {shape})"

    @property
    def input_pieces(self) -> tuple[str, ...]:
        """What the decoder reads at each position, the columns of `decoder`: T pieces."""
        return (BOS_TOKEN, *self.target_pieces[:-1])
