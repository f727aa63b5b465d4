"""The weights of another system's checkpoint, as NumPy arrays; every file is checked for its size first.

*.safetensors         read by `config.tensors`; shards with their index
pytorch_model.bin     a pickle: read by PyTorch's weights-only loader, which builds tensors and calls nothing else
"""

import pickle
import warnings
import zipfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from transduce import files
from transduce.config.tensors import read_weights, require_finite
from transduce.errors import BundleError, MissingDependencyError, install_command, require_resources

Arrays = dict[str, np.ndarray]
PICKLES = ("pytorch_model.bin",)
_KINDS = ("model.safetensors", *PICKLES)
MOST_MODEL_BYTES = 64 << 20  # of a SentencePiece model or of a vocabulary: the largest ones have 5


def read_json(path: Path) -> dict[str, Any]:
    """Reads a table of settings; raises BundleError where it is missing or damaged."""
    try:
        return files.read_json_object(path)
    except OSError as error:
        raise BundleError(f"{path}: cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise BundleError(f"{path}: damaged: {error}.") from None


def read_bytes(path: Path, most: int = MOST_MODEL_BYTES) -> bytes:
    """Returns what a small file holds.

    Raises:
        BundleError: it cannot be read, or has more than `most` bytes.
    """
    try:
        if path.stat().st_size > most:
            raise BundleError(f"{path}: has {path.stat().st_size:,} bytes: at most {most:,} are read.")
        return path.read_bytes()
    except OSError as error:
        raise BundleError(f"{path}: cannot be read: {error.strerror}.") from None


def weight_files(folder: Path) -> list[Path]:
    """Returns the files that hold a checkpoint's weights: one, or else the shards that an index lists.

    Raises:
        BundleError: there are none, one of them is missing, or the index is damaged or names a file elsewhere.
    """
    for kind in _KINDS:
        if (folder / kind).is_file():
            return [folder / kind]
        index = folder / f"{kind}.index.json"
        if index.is_file():
            return _shards(index)
    raise BundleError(f"{folder}: {' or '.join(_KINDS)} missing. Download the folder again.")


def _shards(index: Path) -> list[Path]:
    named = read_json(index).get("weight_map")
    if not isinstance(named, dict) or not all(isinstance(name, str) for name in named.values()):
        raise BundleError(f"{index}: damaged: has no 'weight_map'.")
    names = sorted(set(named.values()))
    for name in names:
        if Path(name).name != name or Path(name).suffix not in (".safetensors", ".bin"):
            raise BundleError(f"{index}: names {name[:80]!r}, which is no file of weights beside it.")
        if not (index.parent / name).is_file():
            raise BundleError(f"{index.parent}: {name} missing, which {index.name} lists. Download the folder again.")
    return [index.parent / name for name in names]


def read_arrays(paths: Iterable[Path]) -> Arrays:
    """Returns the weights in some files by name, float32.

    Raises:
        BundleError: a file is damaged, has numbers that are not finite, or is a pickle that wants more than tensors.
        MissingDependencyError: a pickle needs PyTorch, which is not installed.
    """
    arrays: Arrays = {}
    for path in paths:
        arrays |= read_weights(path) if path.suffix == ".safetensors" else _read_pickle(path)
    return arrays


def _read_pickle(path: Path) -> Arrays:
    if find_spec("torch") is None:
        raise MissingDependencyError(f"{path}: a pickle. To read it without running it: {install_command('train')}")
    import torch

    _require_stored(path)
    try:
        with path.open("rb") as file, warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Detected pickle protocol")
            found = torch.load(file, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, LookupError, TypeError, OSError) as error:
        require_resources(error, path)
        reason = str(error).strip().partition("\n")[0][:200]
        raise BundleError(
            f"{path}: cannot be read ({reason}). It is damaged, or a pickle of more than tensors, which could run code "
            "and is never opened. Get the model as safetensors."
        ) from None
    if not isinstance(found, dict) or not all(
        isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in found.items()
    ):
        raise BundleError(f"{path}: is not a table of tensors.")
    numbers = {name: value.detach() for name, value in found.items() if value.is_floating_point()}
    for name, value in numbers.items():
        if value.layout is not torch.strided or value.nbytes > value.untyped_storage().nbytes():
            raise BundleError(f"{path}: {name[:80]!r} is sparse, or has more numbers than the file stores.")
    arrays = {name: value.to(torch.float32).numpy() for name, value in numbers.items()}
    require_finite(arrays, str(path))
    return arrays


def _require_stored(path: Path) -> None:
    """Raises BundleError for a compressed archive: it could be far larger in memory than on the disk."""
    try:
        if not zipfile.is_zipfile(path):
            return
        with zipfile.ZipFile(path) as archive:
            sizes = [(each.compress_type, each.file_size) for each in archive.infolist()]
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise BundleError(f"{path}: damaged: {error}. Download it again.") from None
    if any(kind != zipfile.ZIP_STORED for kind, _ in sizes) or sum(size for _, size in sizes) > path.stat().st_size:
        raise BundleError(f"{path}: its tensors are compressed, which PyTorch never does. Get it from another source.")
