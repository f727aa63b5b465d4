"""The results of a model as data: translations, and the attention weights of a pair."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from transduce.reporting.tables import counted
from transduce.text import BOS_TOKEN
from transduce.translation.constraints.required_terms import Choice

if TYPE_CHECKING:
    import numpy as np

# Characters of a source, and those of its translation: (start, end) each, the end excluded.
SpanPair = tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Translation:
    """One translation of one line."""

    text: str  # without line breaks "\n", except those of the source that it was split at
    score: float  # log-probability over the length penalty, plus the coverage penalty if there is one; higher is better
    log_probability: float  # the model's own, without any penalty
    tokens: tuple[str, ...]  # the pieces that the model wrote, in readable form
    finished: bool  # False: cut off at the length limit
    source_truncated: bool  # the line was longer than the model reads, and only its beginning was translated
    ids: tuple[int, ...] = ()  # those of `tokens`
    num_parts: int = 1  # sentences, or parts of one, that were translated separately
    sentences: tuple[SpanPair, ...] = ()  # these parts, in order, and what each became; of an empty line none
    alignment: tuple[SpanPair, ...] = ()  # words and what they came from, with `TextOptions.alignment`
    warnings: tuple[str, ...] = ()  # of the guard, of constraints and of markup
    confidence: float | None = None  # 0 to 1, with `TextOptions.confidence`; so are the next three
    calibrated: bool = False  # whether `confidence` was fitted to data (`transduce calibrate`)
    words: tuple[tuple[str, float], ...] = ()  # each word with its probability, given those before it
    token_log_probabilities: tuple[float, ...] = ()  # of each token, and of the end of each part
    required: tuple[tuple[Choice, bool], ...] = ()  # each choice of required terms; whether one of them came out
    forced: tuple[Choice, ...] = ()  # of these, those that the model did not expect where they are: see `forced_terms`


Results = list[list[Translation]]  # of each text, best first


@dataclass(frozen=True, slots=True)
class Alternative:
    """A word that may follow in a translation that has begun, or its end."""

    word: str  # without white space; of one that continues the last word of the beginning, the rest; "": the end
    probability: float  # of this word, given the source and that the translation begins so
    translation: Translation  # the whole text, with this word; it has `words` and `token_log_probabilities`


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """The attention weights of one pair, in every layer and head: the data of Figures 3 to 5.

    S source and T target pieces, the last of each being "</s>". Layers and heads are array indices here, from 0. Rows
    are queries, columns are keys, and each row sums to 1. The decoder's rows are the pieces that it writes. Its columns
    are its inputs: "<s>", then all pieces but the last.
    """

    source: str
    target: str
    source_pieces: tuple[str, ...]  # as `Tokenizer.pieces` shows them: "▁" is a space
    target_pieces: tuple[str, ...]
    source_words: tuple[int | None, ...]  # S: the word of `source` that the piece is part of, see `text.words`
    target_words: tuple[int | None, ...]  # T
    encoder: "np.ndarray"  # (layers, heads, S, S), float32
    decoder: "np.ndarray"  # (layers, heads, T, T), float32: row t has weight in columns 0 … t only
    cross: "np.ndarray"  # (layers, heads, T, S), float32
    source_truncated: bool  # whether it is longer than the model reads: only its beginning has pieces and weights
    target_truncated: bool

    def __repr__(self) -> str:
        """Shows the pair and the shape, without the weights."""
        layers, heads = self.cross.shape[:2]
        pieces = f"{len(self.source_pieces)} → {counted(len(self.target_pieces), 'piece')}"
        shape = f"{counted(layers, 'layer')} of {counted(heads, 'head')}"
        return f"Attention({self.source!r} → {self.target!r}, {pieces}, {shape})"

    @property
    def input_pieces(self) -> tuple[str, ...]:
        """The decoder's input at each position, the columns of `decoder`: T pieces."""
        return (BOS_TOKEN, *self.target_pieces[:-1])
