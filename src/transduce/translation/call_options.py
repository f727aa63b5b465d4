"""Keywords of the calls of a `Translator`, for type checkers."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from transduce.config.schema import DecodeOptions


class LoadOptions(TypedDict, total=False):
    """Keywords of `Translator.load`."""

    engine: str
    device: str
    threads: int | None
    quantization: str | None
    ensemble: Sequence[str | Path]
    shortlist: str
    draft: str | Path


def require_folders(ensemble: object) -> None:
    """Raises TypeError where an ensemble is one path, of which each character would be a model."""
    if isinstance(ensemble, str | Path):
        raise TypeError("Give a list of model folders as ensemble: for a single one, [folder].")


class SearchOptions(DecodeOptions, total=False):
    """Fields of `DecodeConfig` that a call may change; None leaves the model's."""

    beam_size: int | None
    length_penalty: float | None
    max_extra_tokens: int | None
    batch_size: int | None
