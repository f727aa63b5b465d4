"""A model folder: all that is needed to use a model, and nothing that can run code.

    config.json          format, version, the whole configuration and its checksum, checksums of the other files
    model.safetensors    weights, float32
    tokenizer.json       the subword tokeniser
    alignment.json       the heads that align words; folders of earlier versions have none
    metrics.json         what was measured when it was made
    README.md            the model card
    ORIGINAL_README.md   the card of the model that this one was made from, and its licence files

Reading one needs no torch. Weights and tokeniser are checked against their checksums whenever they are read.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce import files
from transduce.__about__ import __version__
from transduce.config import Config, from_dict, to_dict
from transduce.config.aligning_heads import AligningHeads
from transduce.config.checked_json import format_problem, read_or_empty
from transduce.config.model_card import model_card
from transduce.config.tensors import read_header, read_weights, require_finite
from transduce.config.terms import Terms, write_terms
from transduce.config.weights import count_parameters, require_shapes
from transduce.errors import BundleError
from transduce.text import Tokenizer, load_tokenizer

if TYPE_CHECKING:
    import numpy as np  # imported where weights are read: an engine with its own copy of them starts faster without it

FORMAT = 1  # raised when older versions could no longer read what this one writes
WEIGHTS, _TOKENIZER, ALIGNMENT = "model.safetensors", "tokenizer.json", "alignment.json"
_CONFIG, _METRICS, _CARD = "config.json", "metrics.json", "README.md"
CHECKED = (WEIGHTS, _TOKENIZER)  # the files whose checksums are in config.json
# What the folder is made of, and what commands add: the fit of `calibrate`, the shortlist, conversions.
OWN_FILES = (_CONFIG, *CHECKED, ALIGNMENT, _METRICS, _CARD, "confidence.json", "shortlist.safetensors", "ctranslate2")
_FOREIGN = ("decoder.yml", "model.bin", "metadata.json")  # of Marian, CTranslate2, Argos Translate


@dataclass(frozen=True)
class Bundle:
    """An open model folder. Weights and tokeniser are read when they are first used."""

    path: Path
    config: Config
    checksums: Mapping[str, str]

    @classmethod
    def load(cls, path: Path | str) -> "Bundle":
        """Opens the model folder at `path`.

        Raises:
            BundleError: there is no such folder, a file is missing, or a later, incompatible version wrote it.
        """
        path = Path(path)
        if path.is_file():
            raise BundleError(f"{path}: is a file, not a model folder.{_hint(path)}")
        if not path.is_dir():
            raise BundleError(
                f"{path}: no such model folder. 'transduce average RUN --output {path}' makes one of a training, and "
                f"'transduce import PATH --output {path}' of a model of another system."
            )
        missing = [name for name in (_CONFIG, WEIGHTS, _TOKENIZER) if not (path / name).is_file()]
        if missing:
            raise BundleError(f"{path}: not a model folder: {', '.join(missing)} missing.{_hint(path)}")
        try:
            values = files.read_json_object(path / _CONFIG)
            values["format"]
        except (ValueError, KeyError) as error:
            raise BundleError(f"{path / _CONFIG}: not a model's configuration ({error}).{_hint(path)}") from None
        if problem := format_problem(values, FORMAT):
            raise BundleError(
                f"{path / _CONFIG}: {problem}. This is Transduce {__version__}, and Transduce "
                f"{values.get('transduce', '(unknown)')} wrote the model."
            )
        config = values.get("config")
        if not isinstance(config, dict):
            raise BundleError(f"{path / _CONFIG}: not a model's configuration (it has no table 'config').")
        checksums = values.get("sha256")
        if not isinstance(checksums, dict) or not all(map(_is_checksum, checksums.values())):
            raise BundleError(f"{path / _CONFIG}: damaged: 'sha256' has no checksums of the other files.")
        bundle = cls(path, from_dict(config, str(path / _CONFIG)), checksums)
        # Absent from folders that 0.1.0 wrote.
        if "config_sha256" in values and values["config_sha256"] != _checksum_of(config):
            raise BundleError(
                f"{path / _CONFIG}: changed or damaged: its 'config' is not what was written. If you changed it on "
                "purpose, delete the line 'config_sha256'."
            )
        return bundle

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The model's tokeniser; raises BundleError if it is damaged or belongs to another model."""
        self.check_checksum(_TOKENIZER)
        tokenizer, model = load_tokenizer(self.path / _TOKENIZER), self.config.model
        for size, said in (
            (tokenizer.vocab_size, model.vocab_size),
            (tokenizer.target_vocab_size, model.target_vocab_size),
        ):
            if size != said:
                raise BundleError(
                    f"{self.path / _TOKENIZER}: has {size} pieces, but {_CONFIG} says {said}: it is the tokenizer of "
                    "another model."
                )
        return tokenizer

    @cached_property
    def aligning_heads(self) -> AligningHeads | None:
        """The heads that align words; None in folders that name none. Raises BundleError if the file is damaged."""
        file = self.path / ALIGNMENT
        if ALIGNMENT not in self.checksums:
            return None
        self.check_checksum(ALIGNMENT)
        try:
            values = files.read_json_object(file)
            layer, heads = int(values["layer"]), tuple(map(int, values["heads"]))
        except (ValueError, KeyError, TypeError) as error:
            raise BundleError(f"{file}: damaged: {error!r}.") from None
        model = self.config.model
        known = range(1, model.num_heads + 1)
        if not 1 <= layer <= model.num_decoder_layers or not heads or not set(heads) <= set(known):
            raise BundleError(f"{file}: layer {layer} or heads {heads} are not of this model.")
        return AligningHeads(layer - 1, tuple(head - 1 for head in heads), values.get("guided") is True)

    @property
    def metrics(self) -> dict[str, Any]:
        """What was measured when the model was made; empty if nothing was."""
        file = self.path / _METRICS
        try:
            return dict(files.read_json(file)) if file.is_file() else {}
        except (ValueError, TypeError) as error:
            raise BundleError(f"{file}: damaged: {error}. The model works without it: delete the file.") from None

    @property
    def summary(self) -> str:
        """The model's name, languages and size, as a line to read."""
        data = self.config.data
        is_parser = data.format == "trees"
        languages = f"{data.source_language or '?'} → trees" if is_parser else data.described_languages("?", "?")
        return f"{self.config.name}: {languages}, {count_parameters(self.config.model):,} parameters"

    def weights(self) -> "dict[str, np.ndarray]":
        """Reads the weights, by parameter name, float32.

        Raises:
            BundleError: the file is damaged, does not fit the configuration (checked before memory is allocated), does
                not have its checksum, or has numbers that are not finite.
        """
        self.require_shapes()
        self.check_checksum(WEIGHTS)
        return read_weights(self.path / WEIGHTS)

    def require_shapes(self) -> None:
        """Compares the configuration with the header of the weights; reads nothing else.

        Raises:
            BundleError: the header is damaged, or lists all weights that are missing, unknown, or of another shape.
        """
        tensors, _ = read_header(self.path / WEIGHTS)
        shapes = {name: stored.shape for name, stored in tensors.items()}
        require_shapes(self.config.model, shapes, str(self.path / WEIGHTS))

    def checksum(self, name: str) -> str:
        """Returns the SHA-256 that a file must have; raises BundleError if `config.json` has none."""
        if name not in self.checksums:
            raise BundleError(
                f"{self.path / _CONFIG}: has no checksum of {name}, so that damage could not be noticed. Get the "
                "folder again, or make a new one with 'transduce average'."
            )
        return self.checksums[name]

    def check_checksum(self, name: str) -> None:
        """Compares a file with its checksum; raises BundleError if it differs, or one of both is missing."""
        if not (self.path / name).is_file():
            raise BundleError(f"{self.path / name}: missing, though {_CONFIG} has its checksum. Get the folder again.")
        if files.cached_sha256(self.path / name) != self.checksum(name):
            raise BundleError(f"{self.path / name}: changed or damaged: its checksum differs from {_CONFIG}'s.")

    @property
    def checked_files(self) -> tuple[str, ...]:
        """The names of the files that have checksums, or must have one."""
        return (*CHECKED, *(name for name in self.checksums if name == ALIGNMENT))

    def verify(self) -> None:
        """Compares all files with their checksums; raises BundleError for the first that differs."""
        for name in self.checked_files:
            self.check_checksum(name)


def save_bundle(
    path: Path,
    config: Config,
    weights: "Mapping[str, np.ndarray]",
    tokenizer: Tokenizer,
    metrics: Mapping[str, Any],
    heads: AligningHeads | None = None,
    terms: Terms | None = None,
) -> Bundle:
    """Writes a complete model folder, or none; an existing one is replaced.

    Args:
        path: the folder.
        config: of the model.
        weights: by name.
        tokenizer: of both sides.
        metrics: what was measured.
        heads: those that align words.
        terms: files about the model that this one was made from.

    Raises:
        BundleError: a weight is NaN or infinite, or the folder cannot be written.
    """
    import numpy as np
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    arrays = {name: np.ascontiguousarray(value, np.float32) for name, value in weights.items()}
    require_finite(arrays, f"{path}: not written")
    files.remove_leftovers(path.parent, path.name)
    with files.atomic_folder(path) as folder:
        try:
            save_file(arrays, folder / WEIGHTS)
        except SafetensorError as error:  # such as a full disk: the library has its own errors
            raise BundleError(f"{path}: cannot be written: {error}.") from None
        files.make_readable(folder / WEIGHTS)  # the library lets only its writer read it
        tokenizer.save(folder / _TOKENIZER)
        checked = list(CHECKED)
        if heads is not None:
            counted = {"layer": heads.layer + 1, "heads": [head + 1 for head in heads.heads]}  # from 1, as users do
            files.write_json(folder / ALIGNMENT, counted | ({"guided": True} if heads.guided else {}))
            checked.append(ALIGNMENT)
        files.write_json(folder / _METRICS, dict(metrics))
        write_terms(terms or {}, folder)
        num_parameters = sum(value.size for value in weights.values())
        files.write_text(folder / _CARD, model_card(config, num_parameters, metrics))
        files.write_json(
            folder / _CONFIG,
            {
                "format": FORMAT,
                "transduce": __version__,
                "config": to_dict(config),
                "config_sha256": _checksum_of(to_dict(config)),
                "sha256": {name: files.sha256(folder / name) for name in checked},
            },
        )
    return Bundle.load(path)


def save_metrics(bundle: Bundle, metrics: Mapping[str, Any]) -> None:
    """Writes other metrics into a model folder, and the card that shows them; all else in the folder stays."""
    files.write_json(bundle.path / _METRICS, dict(metrics))
    files.write_text(bundle.path / _CARD, model_card(bundle.config, count_parameters(bundle.config.model), metrics))


def _hint(path: Path) -> str:
    """Returns what `path`, which is no model folder, looks like, and what to do; "" where nothing is known."""
    if (path / "model" / _CONFIG).is_file():
        return f" This looks like a run folder: its model is {path / 'model'}."
    if (path / "checkpoints").is_dir():
        return f" This is a run folder: make a model of it with 'transduce average {path} --output MODEL'."
    if (path / "optimizer.safetensors").is_file():
        return " This is a checkpoint. 'transduce average RUN --output MODEL' makes a model (--best: of the best)."
    transformers = "model_type" in read_or_empty(path / _CONFIG)
    if transformers or path.suffix == ".argosmodel" or any((path / name).is_file() for name in _FOREIGN):
        return f" This looks like a model of another system: 'transduce import {path} --output MODEL' reads it."
    return ""


def _checksum_of(config: Any) -> str:
    """Returns the SHA-256 of a configuration, independent of the order and layout of its file."""
    return hashlib.sha256(json.dumps(config, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _is_checksum(value: object) -> bool:
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")
