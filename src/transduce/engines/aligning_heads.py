"""Chooses the heads whose attention is a model's word alignment, the same for every engine; needs no data, no torch.

CTranslate2 returns the mean attention of the first heads of one decoder layer. So a conversion puts the chosen heads
first (`with_heads_first`), which changes nothing that the model computes.

They are found on translations that the model makes of random words of its vocabulary
(docs/decisions/0020-alignments-without-torch.md).
"""

from typing import NamedTuple

import numpy as np

from transduce.config import ModelConfig
from transduce.config.choices import learns_positions
from transduce.config.special_ids import EOS
from transduce.decoding.alignment import BEST_HEADS, alignment_scores, best_heads
from transduce.decoding.scores import NEVER_GENERATED
from transduce.engines.numpy_model import Weights, greedy_translations
from transduce.text import SubwordTokenizer

_NUM_SENTENCES, _SOURCE_WORDS, _TARGET_TOKENS = 16, 12, 20
_STRIDE = 7919  # a prime: neighbours in a sentence are far apart in the vocabulary


class AligningHeads(NamedTuple):
    """The heads of one decoder layer; numbers count from 0."""

    layer: int
    order: tuple[int, ...]  # all heads of the layer, the best first
    num_aligning: int  # the first of them


def aligning_heads(config: ModelConfig, weights: Weights, tokenizer: SubwordTokenizer | None) -> AligningHeads:
    """Returns the `BEST_HEADS` best heads of the layer where their scores are the highest.

    Without a tokenizer, any pieces of the vocabulary take the place of words.
    """
    source_BS = sample_sources(config, tokenizer)
    num_steps = min(_TARGET_TOKENS, config.max_positions) if learns_positions(config) else _TARGET_TOKENS
    with np.errstate(over="ignore", invalid="ignore"):  # with senseless weights, the heads have any order
        target_BT, weights_LBHTS = greedy_translations(config, weights, source_BS, num_steps)
        scores_LH = np.nan_to_num(mean_scores(target_BT, weights_LBHTS))
    ranked_LH = [best_heads(scores_1H, config.num_heads) for scores_1H in scores_LH[:, None]]
    order_LH = np.array([[each.head - 1 for each in ranked_H] for ranked_H in ranked_LH])
    count = min(BEST_HEADS, config.num_heads)
    sums_L = np.take_along_axis(scores_LH, order_LH, axis=-1)[:, :count].sum(axis=-1)
    layer = int(sums_L.argmax())
    return AligningHeads(layer, tuple(order_LH[layer].tolist()), count)


def sample_sources(config: ModelConfig, tokenizer: SubwordTokenizer | None) -> np.ndarray:
    """Returns sources of random words, each a piece of its own, that end in EOS: (B, S)."""
    pieces = enumerate(tokenizer.piece_bytes(range(config.vocab_size)) if tokenizer is not None else ())
    words = [index for index, piece in pieces if piece[:1] == b" " and piece[1:].decode(errors="replace").isalpha()]
    if not words:
        words = [index for index in range(config.vocab_size) if index not in (*NEVER_GENERATED, EOS)]
    length = min(_SOURCE_WORDS, config.max_positions - 1) if learns_positions(config) else _SOURCE_WORDS
    places = np.arange(_NUM_SENTENCES * length) * _STRIDE % len(words)
    chosen_BS = np.array(words)[places].reshape(_NUM_SENTENCES, length)
    return np.pad(chosen_BS, [(0, 0), (0, 1)], constant_values=EOS)


def mean_scores(target_BT: np.ndarray, weights_LBHTS: np.ndarray) -> np.ndarray:
    """Returns the mean alignment score of each head, (L, H), over the translations that are not empty."""
    num_layers, _, num_heads = weights_LBHTS.shape[:3]
    scores = [np.zeros((num_layers, num_heads))]
    for row, target_T in enumerate(target_BT):
        length = int((np.append(target_T, EOS) == EOS).argmax())
        if length:
            scores.append(alignment_scores(weights_LBHTS[:, row, :, :length, :-1]))
    mean_LH: np.ndarray = np.mean(scores, axis=0)
    return mean_LH


def with_heads_first(config: ModelConfig, weights: Weights, heads: AligningHeads) -> dict[str, np.ndarray]:
    """Returns the weights with the heads of one layer in their new order; the model computes the same."""
    name, order, changed = f"decoder.{heads.layer}.cross_attention", list(heads.order), dict(weights)

    def reordered(stacked: np.ndarray) -> np.ndarray:
        """Reorders the rows of a projection, or the elements of its bias, head by head."""
        return stacked.reshape(config.num_heads, -1, *stacked.shape[1:])[order].reshape(stacked.shape)

    for kind in ("weight", "bias") if config.attention_bias else ("weight",):
        query, key_value = f"{name}.query.{kind}", f"{name}.key_value.{kind}"
        parts = np.split(weights[key_value], [config.num_heads * config.d_k])
        changed[query] = reordered(weights[query])
        changed[key_value] = np.concatenate([reordered(part) for part in parts])
    changed[f"{name}.output.weight"] = reordered(weights[f"{name}.output.weight"].T).T
    return changed
