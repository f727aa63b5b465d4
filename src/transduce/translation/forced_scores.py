"""Forced scoring: the log-probabilities that a model gives to given translations, piece by piece."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from transduce.decoding.scores import gnmt_penalty
from transduce.errors import DataError
from transduce.reporting.tables import counted
from transduce.text import EOS_TOKEN
from transduce.translation.text_model import TextModel, encode_lines


@dataclass(frozen=True, slots=True)
class TargetScore:
    """The scores of one given translation; its end mark is a piece like the others."""

    pieces: tuple[str, ...]  # as `Tokenizer.pieces` shows them, the last being "</s>"
    log_probabilities: tuple[float, ...]  # of each piece, given the source and the pieces before
    score: float  # log-probability over the length penalty: what a search ranks by
    source_truncated: bool  # whether the source is longer than the model reads, so that only its beginning was read

    @property
    def log_probability(self) -> float:
        """Of the whole translation."""
        return math.fsum(self.log_probabilities)

    @property
    def perplexity(self) -> float:
        """exp of the mean -log p of a piece: 1 at best."""
        return perplexity_of(self.log_probability, len(self.pieces))


def perplexity_of(log_probability: float, num_pieces: int) -> float:
    """Returns exp of the mean -log p, or infinity if that is too large for a float."""
    try:
        return math.exp(-log_probability / num_pieces)
    except OverflowError:
        return math.inf


def score_targets(
    model: TextModel, sources: Sequence[str], targets: Sequence[str], length_penalty: float
) -> list[TargetScore]:
    """Returns the scores of each target, given its source; see `Translator.score`."""
    for lines in (sources, targets):  # a string is a sequence of characters, which is never meant
        if isinstance(lines, str) or not all(isinstance(line, str) for line in lines):
            raise TypeError("Give lists of lines, each a str: for a single pair, [source] and [target].")
    if len(sources) != len(targets):
        raise DataError(
            f"{counted(len(sources), 'source')} and {counted(len(targets), 'target')}: give one target for each source."
        )
    engine, tokenizer = model.engine, model.tokenizer.target
    source_ids = encode_lines(model.tokenizer, sources)
    target_ids = [ids if line else [] for line, ids in zip(targets, tokenizer.encode_batch(targets), strict=True)]
    scores = engine.score(source_ids, target_ids)
    return [
        TargetScore(
            pieces=(*tokenizer.pieces(ids), EOS_TOKEN),
            log_probabilities=tuple(tokens),
            score=math.fsum(tokens) / gnmt_penalty(len(tokens), length_penalty),
            source_truncated=len(source) > engine.max_source_tokens,
        )
        for source, ids, tokens in zip(source_ids, target_ids, scores, strict=True)
    ]


@dataclass
class ScoreSummary:
    """Sums over many lines."""

    lines: int = 0
    pieces: int = 0
    log_probability: float = 0.0
    score: float = 0.0

    def add(self, scores: Iterable[TargetScore]) -> None:
        """Adds the scores of some lines."""
        for each in scores:
            self.lines += 1
            self.pieces += len(each.pieces)
            self.log_probability += each.log_probability
            self.score += each.score

    @property
    def perplexity(self) -> float:
        """exp of the mean -log p of a piece, over all lines."""
        return perplexity_of(self.log_probability, self.pieces)

    def __str__(self) -> str:
        if not self.lines:
            return "no lines"
        return (
            f"{counted(self.lines, 'line')}, {counted(self.pieces, 'piece')} (end marks counted): log-probability "
            f"{self.log_probability:.3f}, mean score of a line {self.score / self.lines:.4f}, "
            f"perplexity of a piece {self.perplexity:.3f}"
        )
