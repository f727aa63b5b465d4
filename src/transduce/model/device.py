"""The device that a name stands for."""

import torch

from transduce.errors import ConfigError


def choose_device(name: str, option: str = "device") -> torch.device:
    """Returns the device called `name`; "auto" is the first GPU, or else the CPU.

    Raises:
        ConfigError: there is no such device here; names the `option` at fault.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            f"{option} = {name!r}: cannot be used here: {reason} Write auto, cpu, cuda or cuda:N."
        ) from None
    return device
