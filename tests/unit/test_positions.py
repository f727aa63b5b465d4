"""Sinusoids against numbers from the formula, and learned positions with their limit."""

import math

import pytest
import torch

from transduce.config import ModelConfig
from transduce.errors import DataError
from transduce.model.positions import Positions, sinusoids


def config(**changes: object) -> ModelConfig:
    return ModelConfig(**({"d_model": 8, "vocab_size": 10} | changes))  # type: ignore[arg-type]


def test_interleaved_as_the_paper_has_it() -> None:
    """d = 4: the wavelengths' divisors are 10000^0 = 1 and 10000^(2/4) = 100."""
    expected = [[math.sin(p), math.cos(p), math.sin(p / 100), math.cos(p / 100)] for p in range(4)]
    torch.testing.assert_close(sinusoids(4, 4), torch.tensor(expected))
    assert sinusoids(2, 4)[1].tolist() == pytest.approx([0.841471, 0.540302, 0.00999983, 0.99995], abs=1e-6)


@pytest.mark.parametrize(("position", "i"), [(0, 0), (1, 1), (7, 3), (255, 255), (5000, 100)])
def test_interleaved_at_full_width(position: int, i: int) -> None:
    table = sinusoids(position + 1, 512)
    angle = position / 10000 ** (2 * i / 512)
    assert float(table[position, 2 * i]) == pytest.approx(math.sin(angle), abs=1e-6)
    assert float(table[position, 2 * i + 1]) == pytest.approx(math.cos(angle), abs=1e-6)


def test_concatenated_as_the_released_code_has_it() -> None:
    """d = 6: exponents 0, 1/2, 1, so divisors 1, 100, 10000; sines first, then cosines."""
    divisors = (1, 100, 10000)
    expected = [[*(math.sin(p / d) for d in divisors), *(math.cos(p / d) for d in divisors)] for p in range(5)]
    torch.testing.assert_close(sinusoids(5, 6, "concatenated"), torch.tensor(expected))


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_the_table_grows_when_necessary(layout: str) -> None:
    positions = Positions(config(sinusoid_layout=layout))
    assert positions.limit is None
    whole = sinusoids(2000, 8, layout)  # type: ignore[arg-type]
    for start, end in ((0, 10), (250, 260), (0, 257), (1234, 1300), (5, 6)):
        assert torch.equal(positions(start, end), whole[start:end])
    assert not list(positions.parameters())
    assert not positions.state_dict()  # computed, so never saved


def test_another_thread_may_exchange_the_table() -> None:
    """Two threads may make it longer at the same time, one for 257 positions and one for 700."""

    class Exchanged(Positions):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if name == "table" and isinstance(value, torch.Tensor) and len(value) > 1000:
                super().__setattr__(name, value[:514])

    positions = Exchanged(config(d_model=8))
    assert torch.equal(positions(0, 700), sinusoids(700, 8))


def test_learned_positions_have_a_limit() -> None:
    positions = Positions(config(positions="learned", max_positions=5))
    torch.nn.init.normal_(positions.table)
    assert positions.limit == 5
    assert torch.equal(positions(2, 5), positions.table[2:5])
    with pytest.raises(DataError, match=r"6 tokens is longer than .* learned positions \(5\).*model\.max_positions"):
        positions(0, 6)


def test_learned_positions_learn() -> None:
    positions = Positions(config(positions="learned", max_positions=5))
    torch.nn.init.normal_(positions.table)
    positions(1, 3).sum().backward()
    assert positions.table.grad is not None
    assert positions.table.grad[:, 0].tolist() == [0, 1, 1, 0, 0]
