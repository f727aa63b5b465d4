"""Which weights of its ancestor a model has, and which of their rows stay as they are."""

import numpy as np
import pytest
import torch

from transduce.training.ancestor import _freeze_rows, kept_layers, with_layers, with_rows


@pytest.mark.parametrize(
    ("had", "wanted", "kept"),
    [(6, 6, [0, 1, 2, 3, 4, 5]), (6, 1, [0]), (6, 2, [0, 5]), (6, 3, [0, 2, 5]), (12, 4, [0, 4, 7, 11]), (1, 1, [0])],
)
def test_layers_that_are_kept(had: int, wanted: int, kept: list[int]) -> None:
    assert kept_layers(had, wanted) == kept


def test_kept_layers_are_numbered_anew_and_other_stacks_stay() -> None:
    names = [f"{stack}.{number}.ffn.weight" for stack in ("encoder", "decoder") for number in range(3)]
    weights = {name: np.array(index) for index, name in enumerate([*names, "source_embedding"])}
    found = {name: int(value) for name, value in with_layers(weights, "decoder", [0, 2]).items()}
    assert found == {
        "encoder.0.ffn.weight": 0,
        "encoder.1.ffn.weight": 1,
        "encoder.2.ffn.weight": 2,
        "decoder.0.ffn.weight": 3,
        "decoder.1.ffn.weight": 5,
        "source_embedding": 6,
    }


def test_a_new_row_is_the_mean_of_the_rows_of_its_pieces() -> None:
    table = np.array([[0, 0], [1, 2], [3, 6], [8, 1]], dtype=np.float32)
    found = with_rows(table, [(1, 2), (3,), (1, 1, 3)])
    assert found.dtype == np.float32
    assert found.tolist() == [*table.tolist(), [2, 4], [8, 1], [pytest.approx(10 / 3), pytest.approx(5 / 3)]]


def test_the_gradient_of_the_first_rows_is_cleared() -> None:
    table = torch.zeros(4, 2, requires_grad=True)
    _freeze_rows(3, table)  # nothing to clear
    table.grad = torch.ones(4, 2)
    _freeze_rows(3, table)
    assert table.grad.tolist() == [[0, 0], [0, 0], [0, 0], [1, 1]]
