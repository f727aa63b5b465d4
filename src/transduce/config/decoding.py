"""Decoding options as they are changed for one call, and what a number of outputs demands of them."""

from collections.abc import Mapping
from typing import Any

from transduce.config.loading import apply
from transduce.config.schema import Config, DecodeConfig
from transduce.errors import ConfigError


def require_n_best(n_best: int, options: DecodeConfig) -> None:
    """Raises ConfigError where a search does not have as many outputs."""
    if n_best < 1 or (options.temperature == 0 and n_best > options.beam_size):
        raise ConfigError(f"n-best = {n_best}: must be at least 1 and at most the beam size, {options.beam_size}.")


def with_changes(options: DecodeConfig, changes: Mapping[str, Any]) -> DecodeConfig:
    """Returns options with those laid over them that are not None; see `Translator.with_options`."""
    changes = {key: value for key, value in changes.items() if value is not None}
    return apply(Config(decode=options), {"decode": changes}).decode
