"""The heads that align words: sources to try them on, their mean scores, and their new order in the weights."""

from typing import Any

import numpy as np
import pytest

from transduce.config import ModelConfig
from transduce.decoding.alignment import alignment_scores
from transduce.engines.aligning_heads import AligningHeads, mean_scores, sample_sources, with_heads_first

_SHAPE: dict[str, Any] = {"vocab_size": 40, "d_model": 6, "num_heads": 3, "d_k": 2, "d_v": 4}


@pytest.mark.parametrize(
    ("changes", "length"),
    [({}, 12), ({"positions": "learned", "max_positions": 9}, 8), ({"positions": "learned", "max_positions": 50}, 12)],
)
def test_sources_are_ordinary_pieces_and_end(changes: dict[str, Any], length: int) -> None:
    found = sample_sources(ModelConfig(**_SHAPE | changes), None)
    assert found.shape == (16, length + 1)
    assert (found[:, -1] == 2).all()
    assert set(found[:, :-1].ravel()) <= set(range(4, 40))
    # Without special ids there are 36 pieces, and 7919 = 219 × 36 + 35: each is the one before the last.
    assert found[0, :4].tolist() == [4, 39, 38, 37]


def test_empty_translations_and_the_ends_do_not_count() -> None:
    random = np.random.default_rng(1)
    weights_LBHTS = random.random((2, 3, 4, 5, 6))
    target_BT = np.array([[7, 8, 2, 9, 9], [2, 7, 7, 7, 7], [7, 8, 9, 5, 6]])
    expected = alignment_scores(weights_LBHTS[:, 0, :, :2, :5]) + alignment_scores(weights_LBHTS[:, 2, :, :5, :5])
    found = mean_scores(target_BT, weights_LBHTS)
    np.testing.assert_allclose(found / found.max(), expected / expected.max())


@pytest.mark.parametrize("bias", [False, True])
def test_heads_move_with_all_their_numbers(bias: bool) -> None:
    """Each number says whose it is: 100 × the head + 10 × the kind + the row within the head."""
    config = ModelConfig(**_SHAPE, attention_bias=bias)

    def rows(kind: int, width: int, order: tuple[int, ...] = (0, 1, 2)) -> np.ndarray:
        return np.array([100.0 * head + 10 * kind + row for head in order for row in range(width)])

    def made(order: tuple[int, ...]) -> dict[str, np.ndarray]:
        key_value = np.concatenate([rows(2, 2, order), rows(3, 4, order)])
        parts = {"query": rows(1, 2, order), "key_value": key_value}
        found = {f"{name}.weight": np.outer(each, np.arange(1, 7)) for name, each in parts.items()}
        found["output.weight"] = np.outer(np.arange(1, 7), rows(4, 4, order))
        found |= {f"{name}.bias": each for name, each in parts.items()} if bias else {}
        return {f"decoder.1.cross_attention.{name}": each for name, each in found.items()}

    other = {"decoder.0.cross_attention.query.weight": rows(5, 2)}
    found = with_heads_first(config, made((0, 1, 2)) | other, AligningHeads(1, (2, 0, 1), 2))
    expected = made((2, 0, 1)) | other
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
