"""What the annotation of a key in the schema declares: its range, and the command-line option that sets it.

    beam_size: Annotated[int, Range(1, 1024), Flag("search", "N", "beam width; 1 is greedy search")] = 4

Ranges are checked where a section is made. Ranges and options are the source of docs/guides/configuration.md and of the
options of the command line.
"""

import math
import reprlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from transduce.errors import ConfigError

_LONGEST = 300  # characters
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 200
_SHORT.maxlong = 40
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = 8


def shown(value: Any) -> str:
    """Returns the value as Python writes it; long and deep values are cut short."""
    try:
        text = _SHORT.repr(value)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    except ValueError:  # Python writes no integer of more than 4300 digits
        return "a number of thousands of digits"


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers from `least` to `most`, without infinity and NaN."""

    least: float
    most: float
    above: bool = False  # whether `least` itself is excluded
    below: bool = False  # whether `most` itself is excluded

    def __contains__(self, value: Any) -> bool:
        if isinstance(value, float) and not math.isfinite(value):
            return False
        if (self.above and value == self.least) or (self.below and value == self.most):
            return False
        return bool(self.least <= value <= self.most)

    def __str__(self) -> str:
        if not self.above and not self.below:
            return f"from {_written(self.least)} to {_written(self.most)}"
        low = f"greater than {_written(self.least)}" if self.above else f"at least {_written(self.least)}"
        return f"{low} and {'less than' if self.below else 'at most'} {_written(self.most)}"


@dataclass(frozen=True, slots=True)
class Flag:
    """The command-line option of a key: its group in `--help`, the placeholder of its value, and its help text."""

    group: str
    metavar: str
    help: str


def _written(value: float) -> str:
    if value == 2**62 - 1:
        return "2^62 - 1"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


@cache
def ranges_of(section: type) -> dict[str, tuple[type, Range]]:
    """Returns the type and range of each key of a section that is a number."""
    return {key: (kind, mark) for key, kind, mark in _marks(section) if isinstance(mark, Range)}


@cache
def flags_of(section: type) -> dict[str, Flag]:
    """Returns the command-line option of each key of a section that has one."""
    return {key: mark for key, _, mark in _marks(section) if isinstance(mark, Flag)}


def word_or_value(hint: Any) -> tuple[tuple[str, ...], Any]:
    """Returns the words that a key accepts besides its values, and the type of the values.

    word_or_value(Literal["auto"] | int)  →  ("auto",), int
    word_or_value(int)                    →  (), int
    """
    if get_origin(hint) in (Union, UnionType):
        words, values = get_args(hint)
        if get_origin(words) is Literal:
            return get_args(words), values
    return (), hint


@cache
def words_of(section: type) -> dict[str, tuple[str, ...]]:
    """Returns the words that each key of a section accepts besides numbers, or true and false."""
    return {key: word_or_value(hint)[0] for key, hint in get_type_hints(section).items()}


def _marks(section: type) -> Iterator[tuple[str, type, Any]]:
    """Yields key, type and mark for each mark in the annotations of a section."""
    for key, hint in get_type_hints(section, include_extras=True).items():
        values = word_or_value(hint)[1]
        if get_origin(values) is Annotated:
            kind, *marks = get_args(values)
            yield from ((key, kind, mark) for mark in marks)


def require_within(value: Any, key: str, kind: type, bounds: Range) -> None:
    """Raises ConfigError, naming the key, where `value` is not of type `kind` or not in its range."""
    allowed = (int,) if kind is int else (int, float)
    if isinstance(value, bool) or not isinstance(value, allowed):
        raise ConfigError(f"{key} = {shown(value)}: must be {'a whole number' if kind is int else 'a number'}.")
    if value not in bounds:
        raise ConfigError(f"{key} = {shown(value)}: must be {bounds}.")


def check_ranges(name: str, section: Any) -> None:
    """Raises ConfigError for the first number of the section called `name` that is out of its range."""
    made_of: type = type(section)
    for key, (kind, bounds) in ranges_of(made_of).items():
        if getattr(section, key) not in words_of(made_of)[key]:
            require_within(getattr(section, key), f"{name}.{key}", kind, bounds)


def require_text(value: str, key: str) -> str:
    """Returns the text; raises ConfigError where it cannot be the name or the content of a file."""
    if "\0" in value:
        raise ConfigError(f"{key} = {shown(value)}: must not hold a NUL character.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigError(
            f"{key} = {shown(value)}: must be UTF-8; rename the file where this is a file's name."
        ) from None
    return value
