"""Packing: real tokens out of the padding and back."""

import torch

from transduce.model.packing import Packing, rounded_size

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


def test_few_sizes_by_hand() -> None:
    assert [rounded_size(size) for size in (1, 31, 63, 64, 65, 127, 129, 1000)] == [1, 31, 63, 64, 66, 128, 132, 1008]
    assert [rounded_size(size, 8) for size in (1, 8, 9, 250, 513, 16_385)] == [8, 8, 16, 256, 528, 16_896]
    sizes = {rounded_size(size) for size in range(16_384, 32_768)}
    assert len(sizes) == 33  # both ends of the octave
    assert all(size <= rounded_size(size) <= 1.04 * size for size in range(32, 5000))


def test_rows_are_rounded_up_by_padding_that_nothing_reads() -> None:
    lengths = torch.tensor([9, 3, 1, 0])
    packing = Packing.of(lengths, 10, CPU, rounded=True)
    assert packing is not None
    real = [*range(9), 10, 11, 12, 20]
    assert packing.index_N.tolist() == [*real, 9, 13, 14]  # 16 rows: 13 real tokens, then the first of the padding
    x = torch.arange(40.0).view(4, 10, 1)
    assert packing.unpack(packing.pack(x))[1, :, 0].tolist() == [10, 11, 12, 13, 14, 0, 0, 0, 0, 0]
    assert Packing.of(torch.tensor([9, 8]), 10, CPU, rounded=True) is None  # 24 rows, and there are 20 positions
