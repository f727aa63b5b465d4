"""Finds the heads of a model whose attention aligns words, when its folder is written; needs no data.

They are found on translations that the model makes of random words of its vocabulary
(docs/decisions/0020-alignments-without-torch.md).
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from transduce.config import DecodeConfig, ModelConfig
from transduce.config.aligning_heads import AligningHeads
from transduce.config.choices import longest_sequence
from transduce.config.special_ids import EOS
from transduce.decoding.alignment import BEST_HEADS, alignment_scores, best_heads
from transduce.decoding.scores import NEVER_GENERATED
from transduce.engines.torch import TorchEngine
from transduce.engines.torch_search import padded
from transduce.model import Transformer
from transduce.model.attention_maps import attention_maps
from transduce.text import Tokenizer

_NUM_SENTENCES, _SOURCE_WORDS, _TARGET_TOKENS = 16, 12, 20
_STRIDE = 7919  # a prime: neighbours in a sentence are far apart in the vocabulary


def find_aligning_heads(config: ModelConfig, weights: Mapping[str, np.ndarray], tokenizer: Tokenizer) -> AligningHeads:
    """Returns the `BEST_HEADS` best heads of the layer where their scores are the highest."""
    engine = TorchEngine(
        Transformer.from_weights(config, weights, copy=False).eval(),
        tags=tokenizer.target.tags.values(),
        record_steps=False,
        prepacking=False,
    )
    sources = sample_sources(config, tokenizer)
    limit = (longest_sequence(config) or _TARGET_TOKENS + 1) - 1
    options = DecodeConfig(beam_size=1, max_tokens=min(_TARGET_TOKENS, limit))
    translations = [best.ids for [best] in engine.translate(sources, options)]
    return choose_heads(_cross_attention(engine.model, sources, translations), config)


def _cross_attention(
    model: Transformer, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> list[np.ndarray]:
    """Returns the weights of each pair whose target has tokens, without those of EOS, (L, H, T, S) each."""
    pairs = [(source, target) for source, target in zip(sources, targets, strict=True) if target]
    if not pairs:
        return []
    source_BS, lengths_B = padded([[*source, EOS] for source, _ in pairs])
    target_BT, _ = padded([[*target, EOS] for _, target in pairs])
    with torch.inference_mode():
        cross = torch.stack(attention_maps(model, source_BS, lengths_B, target_BT).cross).float().numpy()
    return [cross[:, pair, :, : len(target), : len(source)] for pair, (source, target) in enumerate(pairs)]


def choose_heads(attention: Sequence[np.ndarray], config: ModelConfig) -> AligningHeads:
    """Returns the best heads by the attention of all heads to some sources, (L, H, T, S) each."""
    scores = [np.zeros((config.num_decoder_layers, config.num_heads)), *map(alignment_scores, attention)]
    scores_LH = np.nan_to_num(np.mean(scores, axis=0))  # with senseless weights, the heads have any order
    layer = int(np.argmax(np.sort(scores_LH, axis=1)[:, -BEST_HEADS:].sum(axis=1)))
    return AligningHeads(layer, tuple(each.head - 1 for each in best_heads(scores_LH[None, layer])))


def sample_sources(config: ModelConfig, tokenizer: Tokenizer) -> list[list[int]]:
    """Returns sources of random words, each a piece of its own; without such words, of any pieces."""
    pieces = enumerate(tokenizer.piece_bytes(range(tokenizer.vocab_size)))
    words = [index for index, piece in pieces if piece[:1] == b" " and piece[1:].decode(errors="replace").isalpha()]
    words = words or [index for index in range(config.vocab_size) if index not in (*NEVER_GENERATED, EOS)]
    length = min(_SOURCE_WORDS, (longest_sequence(config) or _SOURCE_WORDS + 1) - 1)
    indices = np.arange(_NUM_SENTENCES * length) * _STRIDE % len(words)
    chosen: list[list[int]] = np.array(words)[indices].reshape(_NUM_SENTENCES, length).tolist()
    return chosen
