"""Decoding options of one call: the model's own, with changes; and how many outputs they allow."""

from collections.abc import Mapping
from typing import Any

from transduce.config.loading import apply
from transduce.config.schema import Config, DecodeConfig
from transduce.errors import ConfigError


def require_n_best(n_best: int, options: DecodeConfig) -> None:
    """Raises ConfigError where a search cannot return `n_best` outputs."""
    if n_best < 1 or (options.temperature == 0 and n_best > options.beam_size):
        raise ConfigError(f"n-best = {n_best}: must be at least 1 and at most the beam size, {options.beam_size}.")


def with_changes(options: DecodeConfig, changes: Mapping[str, Any]) -> DecodeConfig:
    """Returns `options` with the changes that are not None."""
    changes = {key: value for key, value in changes.items() if value is not None}
    return apply(Config(decode=options), {"decode": changes}).decode
