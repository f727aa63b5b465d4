"""What processes tell each other: two real ones, over the loopback."""

import datetime
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from noted_calls import Noting
from transduce.config import Config, ModelConfig, TrainConfig
from transduce.data.store import ParallelStore, StoreWriter
from transduce.model import Transformer
from transduce.training import distributed
from transduce.training.batch import collate
from transduce.training.device import Compute
from transduce.training.distributed import Ranks
from transduce.training.loss import Smoothing
from transduce.training.step import batch_loss
from transduce.training.trainer import Trainer

CPU = torch.device("cpu")

PROGRAM = """
import torch
from transduce.training.distributed import Ranks

cpu = torch.device("cpu")
ranks = Ranks.join(cpu)
values = ranks.broadcast([0.1 + ranks.rank, float("nan")], cpu)
gathered = ranks.gather([[1], [2, 3, 4]] if ranks.rank == 0 else [[]], 3)
shapes = [(), (3, 2), (0,), (2, 2)]
tensors = [torch.full(shape, ranks.rank + 1.0 + index) for index, shape in enumerate(shapes)]
tensors[3] = tensors[3].t()
tensors[3][0, 1] = 10.0
tensors.append(torch.tensor([ranks.rank], dtype=torch.int64))
ranks.sum(tensors)
summed = [tensor.tolist() for tensor in tensors]
print(ranks.rank, values, ranks.any_rank(ranks.rank == 1, cpu), ranks.any_rank(False, cpu), gathered, summed)
"""


def test_alone_nothing_is_asked() -> None:
    alone = Ranks()
    assert alone.broadcast([1.5, 2.5], CPU) == [1.5, 2.5]
    assert alone.any_rank(True, CPU)
    assert not alone.any_rank(False, CPU)


def test_two_processes_agree(warm_python: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [warm_python, "-c", PROGRAM],
            env=os.environ | world | {"RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=300)[0].strip() for process in processes]
    summed = [3.0, [[5.0, 5.0]] * 3, [], [[9.0, 20.0], [9.0, 9.0]], [1]]
    assert said == [f"{rank} [0.1, nan] True False [[1], [], [2, 3, 4]] {summed}" for rank in range(2)]


def test_small_tensors_of_one_type_travel_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "_BUCKET_BYTES", 40)
    counts = torch.zeros(1, dtype=torch.float64)
    tensors = [counts, *(torch.zeros(size) for size in (4, 6, 1, 20, 3, 3)), counts, counts]
    found = [[each.numel() for each in bucket] for bucket in distributed._buckets(iter(tensors))]
    assert found == [[1], [4, 6], [1], [20], [3, 3], [1, 1]]


class NotedPeers:
    """Takes the place of `Peers`, and notes how it was made."""

    port, token = 7, 2**48 - 1

    def __init__(self, *given: Any, grace_seconds: float) -> None:
        self.given = (*given, grace_seconds)
        self.finished = False

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def finish(self) -> None:
        self.finished = True


@pytest.mark.parametrize(("device", "grace"), [("cuda", 25.0), ("cpu", 600.0), ("mps", 600.0)])
def test_processes_wait_for_a_failed_one_less_than_torchrun_does(
    device: str, grace: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It kills them after 30 seconds, where collectives wait for ever."""
    monkeypatch.setenv("MASTER_ADDR", "main")
    monkeypatch.setattr(distributed, "Peers", NotedPeers)
    monkeypatch.setattr(Ranks, "broadcast", lambda *_: [7.0, float(2**48 - 1)])
    for rank, given in ((0, (0, "main", grace)), (2, (2, "main", 7, 2**48 - 1, grace))):
        with Ranks(rank, 3).watched(torch.device(device)):
            peers: Any = distributed._peers
            assert peers.given == given
            Ranks(rank, 3).finish()
            assert peers.finished
        assert distributed._peers is None
    with Ranks().watched(torch.device(device)):
        assert distributed._peers is None


def test_long_work_is_waited_for_for_days(noting: Noting) -> None:
    groups = noting("torch.distributed.new_group")
    Ranks().wait_for_long_work()
    Ranks(1, 2).wait_for_long_work()
    assert groups == [((), {"backend": "gloo", "timeout": datetime.timedelta(days=7)})]


def assert_gradient_of_the_mean(config: Config, store: ParallelStore, run: Path) -> None:
    """The gradient is that of the loss of a token: of four pairs, each with two target tokens and an end mark."""
    torch.manual_seed(1)
    model = Transformer(config.model).train()
    compute = Compute(CPU, torch.float32)
    loss, _ = batch_loss(model, collate(store, np.arange(4), CPU), Smoothing.of(0.1, 20, "uniform"), compute)
    (loss / 12).backward()  # type: ignore[no-untyped-call]
    expected = torch.stack([each.grad.norm() for each in model.parameters() if each.grad is not None]).norm()
    torch.manual_seed(1)
    result = Trainer(Transformer(config.model), config, run, store, compute=compute).train_step(np.arange(4))
    assert result.gradient_norm == pytest.approx(float(expected), rel=1e-5)
    assert (result.loss, result.target_tokens) == (pytest.approx(float(loss.detach()), rel=1e-6), 12)
    assert result.source_tokens == 16  # three and an end mark
    assert result.learning_rate == pytest.approx(8**-0.5 * 4000**-1.5)  # eq. 3 at its first step


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_each_process_drops_out_by_itself(dropout: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a batch whose pairs are all the same, each process has as much of the same."""
    monkeypatch.setattr(Ranks, "sum", lambda *_: None)
    with StoreWriter.open(tmp_path / "train.arrow", tokenizer_fingerprint="none", vocab_size=20) as writer:
        writer.write([[5, 6, 7]] * 4, [[8, 9]] * 4)
    store = ParallelStore.open(tmp_path / "train.arrow")
    shape = ModelConfig(
        vocab_size=20,
        num_encoder_layers=1,
        num_decoder_layers=1,
        d_model=8,
        d_ff=12,
        num_heads=2,
        d_k=4,
        d_v=4,
        dropout=dropout,
    )
    config = Config(model=shape, train=TrainConfig(device="cpu", precision="fp32"))
    if dropout == 0.0:
        assert_gradient_of_the_mean(config, store, tmp_path)
    losses = []
    for rank in range(2):
        torch.manual_seed(1)
        trainer = Trainer(Transformer(config.model), config, tmp_path, store, compute=Compute(CPU, torch.float32))
        trainer.ranks = Ranks(rank, 2)
        losses.append(trainer.train_step(np.arange(4)).loss)
    assert (losses[0] == pytest.approx(losses[1], rel=1e-6)) == (dropout == 0.0)
