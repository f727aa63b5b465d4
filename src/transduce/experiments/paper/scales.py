"""The scale of an experiment, from seconds to the paper's size."""

from collections.abc import Mapping
from typing import Literal, TypeVar, get_args

from transduce.errors import ConfigError, suggestion

Scale = Literal["smoke", "laptop", "paper"]  # seconds, for tests; minutes on two cores; the real thing
SCALES: tuple[Scale, ...] = get_args(Scale)

S = TypeVar("S")


def at_scale(settings: Mapping[Scale, S], scale: str) -> S:
    """Returns the settings of a scale.

    Raises:
        ConfigError: no scale has that name.
    """
    for name, value in settings.items():
        if name == scale:
            return value
    raise ConfigError(f"No scale is called '{scale}'.{suggestion(scale, settings)} There are {', '.join(settings)}.")
