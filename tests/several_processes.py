"""Starts a program in several processes that train together, as torchrun does."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def start(
    world_size: int,
    arguments: Sequence[str],
    python: str | Path = sys.executable,
    environment: Mapping[str, str] | None = None,
) -> "list[subprocess.Popen[str]]":
    """Starts `PYTHON ARGUMENTS` as that many ranks on this machine; their standard error is read."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = {"WORLD_SIZE": str(world_size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    shared = os.environ | world | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths} | dict(environment or {})
    return [
        subprocess.Popen(
            [python, *arguments],
            env=shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world_size)
    ]


def finish(processes: "list[subprocess.Popen[str]]") -> list[tuple[int, str]]:
    """Waits for all; returns exit code and standard error of each."""
    said = [process.communicate(timeout=900)[1] for process in processes]
    return [(process.returncode, text) for process, text in zip(processes, said, strict=True)]
