"""The machine that measured: a time means nothing without it."""

import os
import platform
import re
from pathlib import Path
from typing import Any

from transduce.__about__ import __version__
from transduce.reporting.tables import counted


def describe_machine() -> dict[str, Any]:
    """Returns processor, cores, threads in use, GPU if there is one, and versions."""
    import torch

    machine: dict[str, Any] = {
        "processor": _processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "transduce": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    if torch.cuda.is_available():
        machine["gpu"] = torch.cuda.get_device_name()
    return machine


def machine_line(machine: dict[str, Any]) -> str:
    """Returns the description as one line."""
    gpu = f"{machine['gpu']}; " if "gpu" in machine else ""
    return (
        f"{gpu}{machine['processor']} ({machine['instructions']}), {machine['cores']} cores, "
        f"{counted(machine['threads'], 'thread')} in use; "
        f"PyTorch {machine['torch']}, Python {machine['python']}, Transduce {machine['transduce']}"
    )


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    text = information.read_text(encoding="utf-8", errors="replace") if information.is_file() else ""
    model = re.search(r"^model name\s*:\s*(.*\S)", text, re.MULTILINE)
    return model[1] if model else platform.processor() or platform.machine()
