"""A model folder: everything that makes a model usable, and nothing that can run code.

    config.json          format, version, the whole configuration, checksums of the files beside it
    model.safetensors    weights, float32
    tokenizer.json       the subword tokeniser
    metrics.json         what was measured when it was made
    README.md            the model card

Reading one needs no torch.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce import __version__, files
from transduce.config import Config, from_dict, to_dict
from transduce.errors import BundleError
from transduce.model_card import model_card
from transduce.text import SubwordTokenizer

if TYPE_CHECKING:
    import numpy as np  # at run time where weights are read: an engine with a copy of its own starts sooner without

FORMAT = 1  # raised when older versions could no longer read what this one writes
_WEIGHTS, _TOKENIZER, _METRICS, _CONFIG, _CARD = (
    "model.safetensors",
    "tokenizer.json",
    "metrics.json",
    "config.json",
    "README.md",
)


@dataclass(frozen=True)
class Bundle:
    """A model folder, opened. Weights and tokeniser are read when first asked for."""

    path: Path
    config: Config
    checksums: Mapping[str, str]

    @classmethod
    def load(cls, path: Path | str) -> "Bundle":
        """Opens the model folder at `path`.

        Raises:
            BundleError: no such folder, a file is missing, or it was written by a later, incompatible version.
        """
        path = Path(path)
        if not path.is_dir():
            raise BundleError(f"{path}: no such model folder. 'transduce average RUN --output {path}' makes one.")
        missing = [name for name in (_CONFIG, _WEIGHTS, _TOKENIZER) if not (path / name).is_file()]
        if missing:
            hint = ""
            if (path / "model" / _CONFIG).is_file():
                hint = f" This looks like a run folder: its model is {path / 'model'}."
            elif (path / "checkpoints").is_dir():
                hint = f" This is a run folder: make a model of it with 'transduce average {path} --output MODEL'."
            raise BundleError(f"{path}: not a model folder: {', '.join(missing)} missing.{hint}")
        try:
            values = json.loads((path / _CONFIG).read_text(encoding="utf-8"))
            found = values["format"]
        except (ValueError, KeyError, TypeError) as error:
            raise BundleError(f"{path / _CONFIG}: not a model's configuration ({error}).") from None
        if found != FORMAT:
            raise BundleError(
                f"{path / _CONFIG}: format {found}, but this is Transduce {__version__}, which reads format {FORMAT}. "
                f"The model was written by Transduce {values.get('transduce', 'unknown')}."
            )
        config = values.get("config")
        if not isinstance(config, dict):
            raise BundleError(f"{path / _CONFIG}: not a model's configuration (it has no table 'config').")
        return cls(path, from_dict(config, str(path / _CONFIG)), values.get("sha256", {}))

    @cached_property
    def tokenizer(self) -> SubwordTokenizer:
        """The model's tokeniser; raises BundleError where it is that of another model."""
        tokenizer = SubwordTokenizer.load(self.path / _TOKENIZER)
        if tokenizer.vocab_size != self.config.model.vocab_size:
            raise BundleError(
                f"{self.path / _TOKENIZER}: has {tokenizer.vocab_size} pieces, but {_CONFIG} says "
                f"{self.config.model.vocab_size}: it is the tokenizer of another model."
            )
        return tokenizer

    @property
    def metrics(self) -> dict[str, Any]:
        """What was measured when the model was made; empty where nothing was."""
        file = self.path / _METRICS
        try:
            return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}
        except (ValueError, TypeError) as error:
            raise BundleError(f"{file}: damaged: {error}. The model works without it: delete the file.") from None

    def weights(self) -> "dict[str, np.ndarray]":
        """Reads the weights, by parameter name."""
        return read_weights(self.path / _WEIGHTS)

    def verify(self) -> None:
        """Compares each file with its checksum; raises BundleError for the first that differs."""
        for name, expected in self.checksums.items():
            if files.sha256(self.path / name) != expected:
                raise BundleError(f"{self.path / name}: changed or damaged: its checksum differs from {_CONFIG}'s.")


def save_bundle(
    path: Path,
    config: Config,
    weights: "Mapping[str, np.ndarray]",
    tokenizer: SubwordTokenizer,
    metrics: Mapping[str, Any],
) -> Bundle:
    """Writes a model folder, whole or not at all; one that stands there already is replaced."""
    import numpy as np
    from safetensors.numpy import save_file

    with files.atomic_folder(path) as folder:
        save_file(
            {name: np.ascontiguousarray(value, np.float32) for name, value in weights.items()},
            folder / _WEIGHTS,
        )
        files.make_readable(folder / _WEIGHTS)  # the library makes it its writer's alone
        tokenizer.save(folder / _TOKENIZER)
        files.write_json(folder / _METRICS, dict(metrics))
        num_parameters = sum(value.size for value in weights.values())
        files.write_text(folder / _CARD, model_card(config, num_parameters, metrics))
        files.write_json(
            folder / _CONFIG,
            {
                "format": FORMAT,
                "transduce": __version__,
                "config": to_dict(config),
                "sha256": {name: files.sha256(folder / name) for name in (_WEIGHTS, _TOKENIZER)},
            },
        )
    return Bundle.load(path)


def read_weights(path: Path) -> "dict[str, np.ndarray]":
    """Reads a safetensors file; what is bfloat16 becomes float32. Raises BundleError where it is damaged."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        weights: dict[str, np.ndarray] = load_file(path)
    except (SafetensorError, OSError) as error:
        raise BundleError(f"{path}: cannot be read: {error}. The file is damaged or cut short.") from None
    except (TypeError, KeyError):  # a type that NumPy has not
        return _read_wider(path)
    return weights


def _read_wider(path: Path) -> "dict[str, np.ndarray]":
    """Reads what holds bfloat16: the upper half of a float32."""
    import numpy as np
    from safetensors import deserialize

    known = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4"}
    weights = {}
    for name, tensor in deserialize(path.read_bytes()):  # type: ignore[no-untyped-call]
        kind = tensor["dtype"]
        if kind not in known:
            raise BundleError(f"{path}: {name} is of type {kind}. Save the weights as float32.")
        values = np.frombuffer(tensor["data"], known[kind])
        if kind == "BF16":
            values = (values.astype(np.uint32) << 16).view(np.float32)
        weights[name] = values.reshape(tensor["shape"])
    return weights
