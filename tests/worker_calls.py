"""What tests have workers of `data/modifiers/workers.py` do: functions that a worker can import."""

import os
import sys
import time
from typing import Any


def process_id(modifiers: Any) -> int:
    return os.getpid()


def imported(modifiers: Any) -> tuple[str, bool]:
    """Returns which program the process runs, and whether it has imported PyTorch."""
    specification = sys.modules["__main__"].__spec__
    return specification.name if specification else "", "torch" in sys.modules


def sleep(modifiers: Any, seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def fail_in_a_worker(modifiers: Any, own: int) -> str:
    if os.getpid() != own:
        raise MemoryError
    return "made here"
