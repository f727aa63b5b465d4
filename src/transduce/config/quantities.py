"""Numeric types of the configuration, named after what they count or measure, and the error for a wrong value."""

from typing import Annotated, Any

from transduce.config.ranges import Range, shown
from transduce.errors import ConfigError


def refused(section: Any, key: str, demand: str) -> ConfigError:
    """Returns the error for the value of a section's key, such as "model.d_model"; `demand` describes valid ones."""
    value = getattr(section, key.partition(".")[2])
    return ConfigError(f"{key} = {shown([*value] if isinstance(value, tuple) else value)}: must be {demand}.")


# The bounds catch typing errors: nobody trains with more.
Layers = Annotated[int, Range(1, 1000)]
Width = Annotated[int, Range(1, 1_000_000)]
Heads = Annotated[int, Range(1, 1024)]
Block = Annotated[int, Range(1, 64)]
Processes = Annotated[int, Range(0, 256)]
Vocabulary = Annotated[int, Range(1, 10_000_000)]
VocabularyOrNone = Annotated[int, Range(0, 10_000_000)]
Pieces = Annotated[int, Range(260, 10_000_000)]
Length = Annotated[int, Range(1, 1_000_000)]
LengthOrNone = Annotated[int, Range(0, 1_000_000)]
Limit = Annotated[int, Range(0, 100_000)]
MinimumTokens = Annotated[int, Range(0, 2_000)]  # each costs a step of the search, for any model
Beam = Annotated[int, Range(1, 1024)]
BatchSize = Annotated[int, Range(1, 65_536)]
Count = Annotated[int, Range(1, 1_000_000_000)]
CountOrNone = Annotated[int, Range(0, 1_000_000_000)]
Seed = Annotated[int, Range(0, 2**62 - 1)]
Rate = Annotated[float, Range(0, 1, below=True)]
Fraction = Annotated[float, Range(0, 1, above=True)]
Exponent = Annotated[float, Range(0, 10)]
Weight = Annotated[float, Range(0, 1000)]
Factor = Annotated[float, Range(0, 1_000_000, above=True)]
Ratio = Annotated[float, Range(0, 1_000_000)]
Minutes = Annotated[float, Range(0, 10_000_000)]
Operations = Annotated[float, Range(0, 1e28)]
Norm = Annotated[float, Range(0, 1_000_000_000)]
Temperature = Annotated[float, Range(0, 1000)]
