"""Keywords of the calls of a `Translator`, for type checkers."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from transduce.config.schema import DecodeOptions
from transduce.translation.pipeline import TextOptions


class LoadOptions(TypedDict, total=False):
    """Keywords of `Translator.load`."""

    engine: str
    device: str
    threads: int | None
    quantization: str | None
    ensemble: Sequence[str | Path]
    shortlist: str


class SearchOptions(DecodeOptions, total=False):
    """Fields of `DecodeConfig` that a call may change; None leaves the model's."""

    beam_size: int | None
    length_penalty: float | None
    max_extra_tokens: int | None
    batch_size: int | None


class LineOptions(SearchOptions, total=False):
    """Further keywords of `Translator.translate`."""

    target: str  # code of the target language, for a model of several
    domain: str  # for a model that was trained on domains
    handling: TextOptions | None  # the old name of `text_options`


class Asked(TypedDict, total=False):
    """Which translation is meant, of a model of several target languages or domains."""

    target_language: str  # its code; "" is the model's default
    domain: str


class StreamOptions(TypedDict, total=False):
    """Further keywords of `Translator.stream`."""

    first_line: int  # number of the first line; 1 by default
    origin: str  # what line numbers begin with in errors, such as "test.en, "
    target: str  # code of the target language, for a model of several
    domain: str  # for a model that was trained on domains
    handling: TextOptions | None  # the old name of `text_options`
