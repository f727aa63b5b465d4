"""Which head an update trains, what its targets are, and what heads that predict rightly would save."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from transduce.config import ModelConfig
from transduce.model import Transformer
from transduce.training import block_heads
from transduce.training.ancestor import with_block_heads
from transduce.training.batch import Batch
from transduce.training.block_heads import drawn_head, num_targets, pass_counts, scores_of_counts, trained_heads
from transduce.training.device import Compute
from transduce.training.loss import NO_SMOOTHING, Smoothing
from transduce.training.step import batch_loss

pytestmark = pytest.mark.computes

SMALL = ModelConfig(
    vocab_size=30,
    num_encoder_layers=1,
    num_decoder_layers=2,
    d_model=12,
    d_ff=20,
    num_heads=2,
    d_k=6,
    d_v=6,
    dropout=0.0,
    block_size=4,
)
# Targets of 5, 2 and 3 tokens.
BATCH = Batch(
    source_BS=torch.tensor([[9, 8, 7, 2], [5, 2, 0, 0], [6, 5, 2, 0]]),
    source_lengths_B=torch.tensor([4, 2, 3]),
    target_BT=torch.tensor([[11, 12, 13, 14, 2], [21, 2, 0, 0, 0], [26, 27, 2, 0, 0]]),
    target_lengths_B=torch.tensor([5, 2, 3]),
)
CPU = Compute.of("cpu", "fp32")


def make() -> Transformer:
    torch.manual_seed(3)
    model = Transformer(SMALL)
    assert model.block_heads is not None
    with torch.no_grad():
        for parameter in model.block_heads.parameters():
            parameter.normal_(0, 0.3)
    return model


@pytest.mark.parametrize(
    ("head", "targets", "predicting"),
    [
        (1, [11, 12, 13, 14, 2, 21, 2, 26, 27, 2], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (2, [12, 13, 14, 2, 2, 27, 2], [0, 1, 2, 3, 5, 7, 8]),
        (3, [13, 14, 2, 2], [0, 1, 2, 7]),
        (4, [14, 2], [0, 1]),
        (6, [], []),
    ],
)
def test_the_targets_of_a_head_lie_later(head: int, targets: list[int], predicting: list[int]) -> None:
    batch = replace(BATCH, head=head)
    assert batch.targets_N.tolist() == targets
    assert batch.predicting_N.tolist() == predicting
    assert batch.num_target_tokens == len(targets)
    assert num_targets(np.array([5, 2, 3]), head) == max(1, len(targets))


@pytest.mark.parametrize("head", [1, 2, 3, 4])
def test_the_loss_is_that_of_the_formula(head: int) -> None:
    """Sentence by sentence, from the states of all positions: head i at t has the token at t + i - 1."""
    model, smoothing = make(), Smoothing.of(0.1, 30, "uniform")
    assert model.block_heads is not None
    expected = nll = torch.zeros(())
    for row, length in enumerate(BATCH.target_lengths_B.tolist()):
        source, target = BATCH.source_BS[row : row + 1], BATCH.target_BT[row : row + 1, :length]
        lengths = BATCH.source_lengths_B[row : row + 1]
        states_TD = model(source[:, : int(lengths[0])], lengths, target, torch.tensor([length]))
        heads_ThD = torch.cat([states_TD[:, None], model.block_heads(states_TD)], dim=1)
        log_p = (heads_ThD[:, head - 1] @ model.output_embedding.t()).log_softmax(-1)
        for t in range(length - head + 1):
            q = torch.full((30,), 0.1 / 30)
            q[target[0, t + head - 1]] += 0.9
            expected = expected - (q * log_p[t]).sum()
            nll = nll - log_p[t, target[0, t + head - 1]]
    found = batch_loss(model, replace(BATCH, head=head), smoothing, CPU)
    torch.testing.assert_close(torch.stack(found), torch.stack([expected, nll]), rtol=1e-5, atol=1e-5)
    parameters = [*model.parameters()]
    ours, theirs = (torch.autograd.grad(loss, parameters, allow_unused=True) for loss in (found[0], expected))
    for name, one, other in zip(model.weights(), ours, theirs, strict=True):
        zero = torch.zeros_like(model.weights()[name])
        pair = [zero if each is None else each for each in (one, other)]
        torch.testing.assert_close(*pair, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")


def test_a_head_without_targets_has_no_loss() -> None:
    model = make()
    short = replace(BATCH, head=4, target_lengths_B=torch.tensor([3, 2, 3]))
    loss, nll = batch_loss(model, short, NO_SMOOTHING, CPU)
    loss.backward()
    assert (loss.item(), nll.item()) == (0, 0)
    assert all(not each.grad.any() for each in model.parameters() if each.grad is not None)


@pytest.mark.parametrize(
    ("frozen", "heads"),
    [
        ("", [1, 2, 3, 4]),
        ("encoder", [1, 2, 3, 4]),
        ("block_heads", [1]),
        ("decoder source_embedding encoder", [2, 3, 4]),
    ],
)
def test_which_heads_are_trained(frozen: str, heads: list[int]) -> None:
    model = make()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.partition(".")[0] not in frozen.split())
    assert trained_heads(model) == heads


def test_a_model_without_heads_trains_as_it_did() -> None:
    assert trained_heads(Transformer(replace(SMALL, block_size=1))) == [1]


def test_each_head_has_its_share_of_the_updates() -> None:
    drawn = Counter(drawn_head([2, 3, 4], seed=5, step=step) for step in range(3000))
    assert drawn.keys() == {2, 3, 4}
    assert all(900 < count < 1100 for count in drawn.values())  # 1000 each, with a deviation of 26


@pytest.mark.parametrize("heads", [[1, 2], [1, 2, 3, 4]])
def test_head_1_has_half_of_the_updates_where_it_learns(heads: list[int]) -> None:
    drawn = Counter(drawn_head(heads, seed=5, step=step) for step in range(3000))
    assert drawn.keys() == set(heads)
    assert 1400 < drawn[1] < 1600  # 1500, with a deviation of 27
    share = 1500 / (len(heads) - 1)
    assert all(share - 100 < drawn[head] < share + 100 for head in heads[1:])


def test_the_draw_depends_on_seed_and_step_alone() -> None:
    first = [drawn_head([1, 2, 3, 4], 5, step) for step in range(50)]
    np.random.default_rng(1).random()
    torch.rand(3)
    assert [drawn_head([1, 2, 3, 4], 5, step) for step in range(50)] == first
    assert [drawn_head([1, 2, 3, 4], 6, step) for step in range(50)] != first


class Saying:
    """A model whose heads say what a table has: (heads, positions)."""

    def __init__(self, table: list[list[int]]) -> None:
        self.output_embedding = torch.zeros(100, 1)
        self.table = torch.tensor(table)
        self.block_heads = SimpleNamespace(block_size=len(table), head=lambda number, states_ND: states_ND + number - 1)

    def __call__(self, *_: Any) -> Tensor:
        num_positions = self.table.size(1)
        return torch.zeros(num_positions, 1)

    def logits(self, states_ND: Tensor) -> Tensor:
        head = int(states_ND[0, 0])
        return torch.nn.functional.one_hot(self.table[head], 100).float()


def test_passes_by_hand() -> None:
    """A sentence of 7 tokens, of which the model itself says 11 … 17, and one of a single token.

        position     0   1   2   3   4   5   6 |  7
        head 1      11  12  13  14  15  16  17 | 21
        head 2      12   9  14  15  16   9   - |  -     right at 0, 2, 3, 4 of 0 … 5
        head 3       9  14  15  16   9   -   - |  -     right at 1, 2, 3 of 0 … 4

    The first pass gives 11. The second begins after position 0: head 2 is right, head 3 is wrong: 12 and 13, and the
    third begins at position 2: both are right: 14, 15 and 16. The fourth, at position 5, gives 17.
    """
    table = [
        [11, 12, 13, 14, 15, 16, 17, 21],
        [12, 9, 14, 15, 16, 9, 9, 9],
        [9, 14, 15, 16, 9, 9, 9, 9],
    ]
    batch = SimpleNamespace(inputs=(), target_lengths_B=torch.tensor([7, 1]))
    counts = pass_counts(Saying(table), batch, CPU).tolist()  # type: ignore[arg-type]
    assert counts == [4, 3, 6, 5, 8, 4 + 1]
    assert scores_of_counts(counts) == {"tokens_per_pass": 8 / 5, "head_2": 4 / 6, "head_3": 3 / 5}


def test_tokens_are_found_by_blocks_as_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make().eval()
    whole = pass_counts(model, BATCH, CPU)
    monkeypatch.setattr(block_heads, "_LOGITS_BYTES", 4 * 30 * 3)
    assert torch.equal(pass_counts(model, BATCH, CPU), whole)
    assert whole[-2] == 10
    assert whole[3:6].tolist() == [7, 4, 2]  # positions of heads 2, 3 and 4


def test_heads_of_an_ancestor_come_first() -> None:
    ancestor = {"encoder_norm.bias": np.ones(2), **_heads(2, 1.0)}
    more = with_block_heads(ancestor, _heads(3, 2.0))
    assert more.keys() == {"encoder_norm.bias", *_heads(3, 2.0)}
    assert more["block_heads.inner.bias"].tolist() == [1, 1, 1, 1, 2, 2]
    assert [float(more[f"block_heads.outer.{head}.bias"][0]) for head in range(3)] == [1, 1, 2]
    fewer = with_block_heads(ancestor, _heads(1, 2.0))
    assert fewer.keys() == {"encoder_norm.bias", *_heads(1, 2.0)}
    assert fewer["block_heads.inner.bias"].tolist() == [1, 1]
    assert with_block_heads(ancestor, {}).keys() == {"encoder_norm.bias"}


def _heads(count: int, value: float) -> dict[str, np.ndarray]:
    """Returns biases of heads of 2 inner numbers."""
    inner = {"block_heads.inner.bias": np.full(2 * count, value)}
    return inner | {f"block_heads.outer.{head}.bias": np.full(2, value) for head in range(count)}
