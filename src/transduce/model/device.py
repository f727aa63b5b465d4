"""The device that a name stands for, and how numbers get there."""

import torch
from torch import Tensor

from transduce.errors import ConfigError

# Device types that read pinned host memory by themselves; before a copy from other memory, the host waits for them.
PINNING = {"cuda"}


def choose_device(name: str, option: str = "device") -> torch.device:
    """Returns the device called `name`; "auto" is the first GPU, or else the CPU.

    Raises:
        ConfigError: there is no such device here; names the `option` at fault.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    names = "Write auto, cpu, cuda or cuda:N."
    try:
        device = torch.device(name)
    except RuntimeError:  # PyTorch's text lists dozens of devices
        raise ConfigError(f"{option} = {name!r}: is not the name of a device. {names}") from None
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"{option} = {name!r}: cannot be used here: {reason.rstrip('.')}. {names}") from None
    return device


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Returns `tensor` on `device`; a copy of a CPU tensor is queued there, and the host does not wait for it."""
    if device.type in PINNING and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
