"""What processes tell each other: two real ones, over the loopback."""

import os
import socket
import subprocess
import sys

import torch

from transduce.training.distributed import Ranks

CPU = torch.device("cpu")

PROGRAM = """
import torch
from transduce.training.distributed import Ranks

cpu = torch.device("cpu")
ranks = Ranks.join(cpu)
values = ranks.of_leader([0.1 + ranks.rank, float("nan")], cpu)
print(ranks.rank, values, ranks.agree(ranks.rank == 1, cpu), ranks.agree(False, cpu))
"""


def test_alone_nothing_is_asked() -> None:
    alone = Ranks()
    assert alone.of_leader([1.5, 2.5], CPU) == [1.5, 2.5]
    assert alone.agree(True, CPU)
    assert not alone.agree(False, CPU)


def test_two_processes_agree() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=os.environ | world | {"RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=300)[0].strip() for process in processes]
    assert said == [f"{rank} [0.1, nan] True False" for rank in range(2)]
