"""Word alignments from the decoder's attention to the source, and the heads that give good ones.

Words are separated by white space (`text.words`). Alignments are written in the format of Pharaoh: `0-0 1-2` links
source word 0 to target word 0 and source word 1 to target word 2.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from transduce.decoding.alignment import BEST_HEADS, Head, alignment_scores, best_heads
from transduce.errors import ConfigError
from transduce.text import split_words
from transduce.translation.result import Attention


def word_weights(attention: Attention) -> np.ndarray:
    """Returns how much each target word attends to each source word: (layers, heads, target words, source words).

    Summed over the pieces of a source word, averaged over those of a target word. The weight on "</s>" belongs to no
    word, so rows sum to at most 1. A word that was cut off because the text was too long has zeros.
    """
    from_source = _membership(attention.source_words, attention.source)  # (source words, S)
    from_target = _membership(attention.target_words, attention.target)  # (target words, T)
    from_target = from_target / np.maximum(from_target.sum(-1, keepdims=True), 1.0)
    return np.asarray(from_target @ attention.cross.astype(np.float64) @ from_source.T)


def _membership(word_of_each: Sequence[int | None], text: str) -> np.ndarray:
    """Returns 1 where a piece belongs to a word, else 0: (words of `text`, pieces)."""
    words = np.arange(len(split_words(text)))
    return np.equal.outer(words, [-1 if word is None else word for word in word_of_each]).astype(np.float64)


def parse_heads(text: str, num_layers: int, num_heads: int) -> list[Head]:
    """Returns the heads that `text` names: "5" all of layer 5, "5.3" its third, "4.1,5.3" both, "mean" all heads.

    Raises:
        ConfigError: it names none, or one that does not exist; the message names the range.
    """
    if text == "mean":
        return [Head(layer, head) for layer in range(1, num_layers + 1) for head in range(1, num_heads + 1)]
    chosen: list[Head] = []
    for name in text.split(","):
        layer, dot, head = name.strip().partition(".")
        if not layer.isdecimal() or (dot and not head.isdecimal()):
            raise ConfigError(f"heads '{text}': write a layer (5), heads of layers (4.1,5.3), 'mean' or 'best'.")
        chosen += [Head(int(layer), number) for number in ([int(head)] if dot else range(1, num_heads + 1))]
    for named in chosen:
        if not (1 <= named.layer <= num_layers and 1 <= named.head <= num_heads):
            raise ConfigError(
                f"head {named}: there are layers 1 to {num_layers} with heads 1 to {num_heads}, written LAYER.HEAD."
            )
    return chosen


def choose_heads(text: str, sample: Sequence[np.ndarray]) -> list[Head]:
    """Returns the heads that `text` names: "best" and "best:5" by mean score over `sample`, else as in `parse_heads`.

    Args:
        text: what a user wrote.
        sample: for some pairs, what `word_weights` returned; at least one.

    Raises:
        ConfigError: `text` names no head, or one that does not exist.
    """
    num_layers, num_heads = sample[0].shape[:2]
    name, colon, number = text.partition(":")
    if name != "best":
        return parse_heads(text, num_layers, num_heads)
    most = num_layers * num_heads
    count = int(number) if number.isdecimal() else 0 if colon else min(BEST_HEADS, most)
    if not 1 <= count <= most:
        raise ConfigError(f"heads '{text}': the number of best heads must be from 1 to {most}.")
    return best_heads(np.mean([alignment_scores(weights) for weights in sample], axis=0), count)


def align(weights: np.ndarray, heads: Iterable[Head]) -> list[tuple[int, int]]:
    """Returns (source word, target word) for each target word: the source word with the most attention of `heads`.

    If weights are equal the first wins; a word without any weight is not linked. Sorted; words count from 0.

    Args:
        weights: what `word_weights` returned; may be empty.
        heads: at least one.
    """
    if weights.size == 0:
        return []
    mean = np.mean([weights[layer - 1, head - 1] for layer, head in heads], axis=0)
    return sorted((int(row.argmax()), target) for target, row in enumerate(mean) if row.any())


def align_all(
    weights: Iterator[np.ndarray], heads: str, sample_pairs: int = 200
) -> tuple[list[Head], Iterator[list[tuple[int, int]]]]:
    """Returns the heads that `heads` names, and what `align` returns for each pair with them.

    Args:
        weights: what `word_weights` returned for each pair.
        heads: as in `choose_heads`; "best" are the best of the first pairs.
        sample_pairs: how many pairs that are; pairs without words do not count.
    """
    first: list[np.ndarray] = []
    sample: list[np.ndarray] = []
    while len(sample) < sample_pairs and (one := next(weights, None)) is not None:
        first.append(one)
        sample += [one] if one.size else []
    chosen = choose_heads(heads, sample) if sample else []
    return chosen, (align(one, chosen) for one in itertools.chain(first, weights))


def pharaoh(links: Iterable[tuple[int, int]]) -> str:
    """Returns links as `0-0 1-2`, source word first."""
    return " ".join(f"{source}-{target}" for source, target in links)
