"""Opens a converted model: device, numeric type, threads, and its behaviour after a fork."""

import ctypes
import os
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import ctranslate2

from transduce.engines.allocator import num_cores
from transduce.errors import BundleError, ConfigError

_MAX_THREADS = 8  # by default
# The object that uses a model → the model, which itself does not support weak references.
_models: "weakref.WeakKeyDictionary[object, ctranslate2.Translator]" = weakref.WeakKeyDictionary()


def load_model(
    converted: Path | Mapping[str, IO[bytes]], kind: str, index: int, numbers: str, threads: int | None
) -> ctranslate2.Translator:
    """Loads a converted model: a folder, or its files by name. For the arguments see `choose_device`, `compute_type`.

    `threads` are CPU threads; None uses all cores, but no more than 8.

    Raises:
        BundleError: CTranslate2 cannot load it.
        ConfigError: it does not find its libraries of CUDA, which it looks for only when it computes.
    """
    threads = threads or min(_MAX_THREADS, num_cores())
    in_folder = isinstance(converted, Path)
    try:
        model = ctranslate2.Translator(
            str(converted) if in_folder else "model",
            files=None if in_folder else converted,
            device=kind,
            device_index=index,
            compute_type=numbers,
            # One thread a batch: in 8 bits or with a small model, a product ends before a second thread wakes up.
            inter_threads=threads if kind == "cpu" else 1,
            intra_threads=1,
            max_queued_batches=threads,  # few, because a process that ends still searches them
        )
    except (RuntimeError, ValueError) as error:
        what = (
            f"{converted}: CTranslate2 cannot load it" if in_folder else "CTranslate2 cannot load the converted model"
        )
        raise BundleError(f"{what}: {error}.{' Delete this folder and try again.' if in_folder else ''}") from None
    if kind == "cuda":
        _require_libraries(model)
    return model


def _require_libraries(model: ctranslate2.Translator) -> None:
    """Computes a step on the GPU."""
    try:
        model.translate_batch([["</s>"]], beam_size=1, max_decoding_length=1)
    except RuntimeError as error:
        raise ConfigError(
            f"CTranslate2 cannot compute on this GPU: {str(error)[:200]}. Install the version of CUDA that it "
            "needs, or use --engine torch, or --device cpu."
        ) from None


def keep_in_forks(user: object, model: ctranslate2.Translator) -> None:
    """Prevents that a process which is forked while `user` exists hangs when it ends.

    The destructor of a model waits for its threads, which stayed in the parent process. So in the child the model is
    never destroyed.
    """
    _models[user] = model


def _keep_models() -> None:
    for model in _models.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(model))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_models)


def choose_device(name: str) -> tuple[str, int]:
    """Returns the kind and number of the device called `name`.

    Raises:
        ConfigError: there is no such device here.
    """
    count = ctranslate2.get_cuda_device_count()
    if name == "auto":
        return ("cuda", 0) if count else ("cpu", 0)
    kind, _, number = name.partition(":")
    if name == "cpu":
        return "cpu", 0
    if kind != "cuda" or (number and not number.isdigit()):
        raise ConfigError(f"device '{name}' cannot be used by CTranslate2. Use 'auto', 'cpu' or 'cuda'.")
    if int(number or 0) >= count:
        raise ConfigError(f"device '{name}' cannot be used: CTranslate2 finds {count} GPUs. Use 'auto' or 'cpu'.")
    return kind, int(number or 0)


def compute_type(quantization: str, kind: str, index: int) -> str:
    """Returns CTranslate2's name of the type to compute in; with "int8" the rest is float32 on every machine.

    Raises:
        ConfigError: the device does not support it.
    """
    name = "int8_float32" if quantization == "int8" else quantization
    able = ctranslate2.get_supported_compute_types(kind, index)
    if name not in able:
        raise ConfigError(
            f"quantization '{quantization}': this {kind} cannot compute in it. It can in: {', '.join(sorted(able))}."
        )
    return name
