"""Which heads of the decoder's attention to the source tie words to words; needs no torch."""

from typing import NamedTuple

import numpy as np

# Heads whose mean aligns, where none are named.
BEST_HEADS = 3


class Head(NamedTuple):
    """A head of the decoder's attention to the source; both numbers count from 1."""

    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.layer}.{self.head}"


def alignment_scores(weights: np.ndarray) -> np.ndarray:
    """Returns how well each head ties words to words, without an alignment to compare with: (layers, heads), 0 to 1.

    Each target word is tied to the source word that the mean of all heads looks at most. A source word then counts with
    the greatest weight that the head gives it from a word tied to it, and the sum is divided by the number of words of
    the shorter side. So 1 is a head whose words all have partners of their own, those that the heads agree on. One that
    always looks at the same word, or everywhere alike, gets 1/n at most.

    Agreement is needed: the sharpest head of a model may be one that looks at the partner of the word written last
    (docs/lab-log.md). What all heads get wrong together, the score cannot see.

    Args:
        weights: what `word_weights` returned.
    """
    num_target, num_source = weights.shape[-2:]
    if not num_target or not num_source:
        return np.zeros(weights.shape[:-2])
    agreed = weights.mean(axis=(0, 1)).argmax(-1)
    tied = agreed[:, None] == np.arange(num_source)
    scores: np.ndarray = (weights * tied).max(axis=-2).sum(-1) / min(num_target, num_source)
    return scores


def best_heads(scores: np.ndarray, count: int = BEST_HEADS) -> list[Head]:
    """Returns the `count` heads of the highest scores, best first; of equal ones the lower layer and head."""
    order = np.argsort(-scores, axis=None, kind="stable")[:count]
    layers, heads = np.unravel_index(order, scores.shape)
    return [Head(int(layer) + 1, int(head) + 1) for layer, head in zip(layers, heads, strict=True)]
