"""A device "gpu" that is not there: tensors that live on the CPU, claim another device, and are held to its rules.

PyTorch refuses tensors of two devices in one operation, gives no NumPy view of a GPU's memory, and waits for the GPU
wherever the host wants to know a number. All three hold here, so that what would fail or wait on a GPU shows without
one; what only a GPU's kernels would show (their rounding, recording) does not. `begin` changes PyTorch for the whole
process: use it in one of its own.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

from transduce.model import device as device_module

NAME = "gpu"
AVAILABLE = hasattr(backend_registration, "_setup_privateuseone_for_python_backend")
waits: list[str] = []  # why the host had to wait for the device, one entry each time

_aten = torch.ops.aten
_WAITING = ("nonzero", "masked_select", "equal", "_local_scalar_dense", "unique", "bincount")
_make_tensor = torch.tensor
_pinned = WeakIdKeyDictionary()  # tensors in memory that the device reads by itself; the values mean nothing


class _Away(Tensor):
    """A tensor on the device; `here` is the one on the CPU that it really is."""

    here: Tensor

    @staticmethod
    def __new__(cls, here: Tensor) -> "_Away":
        made: _Away = Tensor._make_wrapper_subclass(
            cls,
            here.size(),
            strides=here.stride(),
            storage_offset=here.storage_offset(),
            dtype=here.dtype,
            device=torch.device(NAME, 0),
        )
        made.here = here
        return made

    def __init__(self, here: Tensor) -> None:
        super().__init__()

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"away({self.here!r})"

    def tolist(self) -> Any:
        waits.append("tolist")
        return self.here.tolist()

    def item(self) -> Any:
        waits.append("item")
        return self.here.item()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    __index__ = __int__

    def __bool__(self) -> bool:
        return bool(self.item())

    def numpy(self, **_: Any) -> Any:
        raise TypeError(
            "can't convert a GPU tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
        )

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class _Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Does one operation on the CPU; what comes out is where PyTorch would have it."""
    given: list[Tensor] = []
    _each(lambda value: given.append(value) if isinstance(value, Tensor) else None, (args, *kwargs.values()))
    away = [each for each in given if isinstance(each, _Away)]
    local = [each for each in given if not isinstance(each, _Away)]
    copies = func in (_aten._to_copy.default, _aten.copy_.default)
    if away and not copies and any(each.dim() > 0 for each in local):
        where = [(tuple(each.shape), str(each.device)) for each in given]
        raise RuntimeError(f"{func}: expected all tensors to be on the same device, but they are {where}")
    if away:
        _note_waits(func, args, kwargs, local)
    to = kwargs.get("device")
    goes_away = bool(away) if to is None else torch.device(to).type == NAME
    if to is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}

    def unwrapped(value: Any) -> Any:
        return value.here if isinstance(value, _Away) else value

    found = func(*_each(unwrapped, args), **{name: _each(unwrapped, value) for name, value in kwargs.items()})
    if func is _aten.copy_.default:
        return args[0]
    if goes_away and not away and func is _aten._to_copy.default and args[0].dim() > 0 and args[0] not in _pinned:
        waits.append("from pageable memory")
    known = {id(each.here): each for each in away}

    def wrapped(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return known[id(value)] if id(value) in known else _Away(value)

    return _each(wrapped, found) if goes_away else found


def _each(function: Callable[[Any], Any], value: Any) -> Any:
    """Applies a function to what is in lists and tuples, which is all that operations take: PyTorch's own is slow."""
    if isinstance(value, list | tuple):
        found = [_each(function, each) for each in value]
        return found if isinstance(value, list) else tuple(found)
    return function(value)


def _note_waits(func: Any, args: Any, kwargs: dict[str, Any], local: list[Tensor]) -> None:
    if func.overloadpacket.__name__ in _WAITING:
        waits.append(func.overloadpacket.__name__)
    if func is _aten.index.Tensor and any(
        each is not None and each.dtype in (torch.bool, torch.uint8) for each in args[1]
    ):
        waits.append("index by a mask")
    to = kwargs.get("device")
    if func is _aten._to_copy.default and to is not None and torch.device(to).type == "cpu":
        waits.append("to the CPU")
    if func is _aten.copy_.default and local:
        if isinstance(args[1], _Away):
            waits.append("to the CPU")
        elif args[1].dim() > 0 and args[1] not in _pinned:
            waits.append("from pageable memory")


@contextlib.contextmanager
def begin() -> Iterator[torch.device]:
    """Yields the device, on which everything then works; for one block in a process."""

    def tensor(*args: Any, device: Any = None, **options: Any) -> Tensor:  # PyTorch's own goes past dispatch modes
        made = _make_tensor(*args, **options)
        return _Away(made) if device is not None and torch.device(device).type == NAME else made

    def pin_memory(self: Tensor) -> Tensor:
        made = self.clone()
        _pinned[made] = True
        return made

    device_module.PINNING.add(NAME)
    Tensor.pin_memory = pin_memory  # type: ignore[assignment]
    backend_registration._setup_privateuseone_for_python_backend(NAME)
    torch.__future__.set_swap_module_params_on_conversion(True)  # else `module.to` would untie shared parameters
    torch.tensor = tensor  # type: ignore[assignment]
    torch.inference_mode = torch.no_grad  # type: ignore[assignment,misc]  # its tensors cannot be wrapped
    with _Mode():
        yield torch.device(NAME, 0)
