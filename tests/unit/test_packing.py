"""Packing: real tokens out of the padding and back."""

import torch

from transduce.model.packing import Packing

CPU = torch.device("cpu")


def test_pack_and_unpack_by_hand() -> None:
    packing = Packing.of(torch.tensor([2, 3, 1]), 3, CPU)
    assert packing is not None
    x_BTD = torch.arange(1.0, 19.0).view(3, 3, 2)
    packed = packing.pack(x_BTD)
    assert packed[:, 0].tolist() == [1, 3, 7, 9, 11, 13]  # (0,0) (0,1) (1,0) (1,1) (1,2) (2,0)
    back = packing.unpack(packed)
    assert back[..., 0].tolist() == [[1, 3, 0], [7, 9, 11], [13, 0, 0]]
    assert torch.equal(packing.pack(back), packed)


def test_gradients_reach_real_tokens_only() -> None:
    packing = Packing.of(torch.tensor([1, 2]), 2, CPU)
    assert packing is not None
    x = torch.ones(2, 2, 1, requires_grad=True)
    packing.unpack(2 * packing.pack(x)).sum().backward()
    assert x.grad is not None
    assert x.grad[..., 0].tolist() == [[2, 0], [2, 2]]
    packed = torch.ones(3, 1, requires_grad=True)
    (packing.unpack(packed) * torch.tensor([[[1.0], [9.0]], [[3.0], [4.0]]])).sum().backward()
    assert packed.grad is not None
    assert packed.grad[:, 0].tolist() == [1, 3, 4]


def test_batches_with_hardly_any_padding_are_not_packed() -> None:
    assert Packing.of(torch.full((4,), 7), 7, CPU) is None
    almost = torch.full((100,), 10)
    almost[0] = 9
    assert Packing.of(almost, 10, CPU) is None  # one position of a thousand
    almost[:30] = 9
    assert Packing.of(almost, 10, CPU) is not None
