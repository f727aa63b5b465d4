"""Numbers on the command line: each has a range, and an error names the option as it was typed."""

import argparse
from dataclasses import dataclass

from transduce.config import DecodeConfig
from transduce.config.ranges import Range, ranges_of
from transduce.engines import interface
from transduce.errors import ConfigError

_LONGEST_SHOWN = 40


@dataclass(frozen=True)
class Number:
    """The type of an option that is a number within a range."""

    kind: type
    bounds: Range

    def read(self, text: str, option: str) -> int | float:
        """Returns the number; raises ConfigError, naming the option, where `text` is not a number in the range."""
        try:
            value: int | float = self.kind(text)
        except ValueError:
            value = float("nan")  # outside every range
        if value not in self.bounds:
            what = "a whole number" if self.kind is int else "a number"
            shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
            raise ConfigError(f"{option} {shown}: must be {what} {self.bounds}.")
        return value

    def __call__(self, text: str) -> int | float:
        """Reads the number for argparse, which does not name the option."""
        try:
            return self.read(text, "")
        except ConfigError as error:
            raise argparse.ArgumentTypeError(str(error)) from None


def whole(least: int, most: int = 1_000_000_000) -> Number:
    """Returns the type of an option that is a whole number."""
    return Number(int, Range(least, most))


def real(least: float, most: float, *, above: bool = False) -> Number:
    """Returns the type of an option that is a number; with `above`, it must be greater than `least`."""
    return Number(float, Range(least, most, above=above))


def setting(key: str) -> Number:
    """Returns the type of the option for a key of `DecodeConfig`, with the range of that key."""
    return Number(*ranges_of(DecodeConfig)[key])


THREADS = Number(int, interface.THREADS)
