"""The heads whose attention is a model's word alignment, the same for every engine; needs no torch.

They are found when a model folder is written (`head_search.py`), and kept in it. CTranslate2 returns the mean attention
of the first heads of one decoder layer. So a conversion puts the chosen heads first (`with_heads_first`), which changes
nothing that the model computes.
"""

from collections.abc import Mapping

import numpy as np

from transduce.config import ModelConfig
from transduce.config.aligning_heads import AligningHeads


def heads_or_layer(config: ModelConfig, heads: AligningHeads | None) -> AligningHeads:
    """Returns the heads; for a folder that names none, all of the layer in the middle, or of the two, the lower."""
    return heads or AligningHeads((config.num_decoder_layers - 1) // 2, tuple(range(config.num_heads)))


def with_heads_first(
    config: ModelConfig, weights: Mapping[str, np.ndarray], heads: AligningHeads
) -> dict[str, np.ndarray]:
    """Returns the weights with the chosen heads of their layer first; the model computes the same."""
    return _reordered(config, weights, heads.layer, heads.order(config.num_heads))


def with_heads_back(
    config: ModelConfig, weights: Mapping[str, np.ndarray], heads: AligningHeads
) -> dict[str, np.ndarray]:
    """Returns the weights that `with_heads_first` was given."""
    order = heads.order(config.num_heads)
    return _reordered(config, weights, heads.layer, [order.index(head) for head in range(config.num_heads)])


def _reordered(
    config: ModelConfig, weights: Mapping[str, np.ndarray], layer: int, order: list[int]
) -> dict[str, np.ndarray]:
    """Returns the weights with the heads of a layer's cross-attention in another order."""
    name, changed = f"decoder.{layer}.cross_attention", dict(weights)

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
