"""The kinds of options that commands have: paths, texts, choices, switches, settings of a recipe, and numbers."""

import argparse
import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    option: str = ""  # its name, for errors

    def __call__(self, text: str) -> int | float:
        """Returns the number; raises ConfigError, naming the option, where `text` is not a number in the range."""
        try:
            value: int | float = self.kind(text)
        except ValueError:
            value = float("nan")  # outside every range
        if value not in self.bounds:
            what = "a whole number" if self.kind is int else "a number"
            shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
            raise ConfigError(f"{self.option} {shown}: must be {what} {self.bounds}.")
        return value


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


def option_name(name: str) -> str:
    """Returns the option whose value argparse calls `name`: "--beam-size" of "beam_size"."""
    return f"--{name.replace('_', '-')}"


def add_number(
    group: Any, name: str, number: Number, metavar: str, about: str, default: int | float | None = None
) -> None:
    """Declares an option that is a number; the help text ends with its default, if it has one."""
    kind = dataclasses.replace(number, option=name)
    shown = about if default is None else f"{about}; default: %(default)s"
    group.add_argument(name, type=kind, metavar=metavar, default=default, help=shown)


def add_path(group: Any, name: str, metavar: str | tuple[str, ...], about: str, **more: Any) -> None:
    """Declares an option or argument that names a file or folder; `more` is for argparse."""
    group.add_argument(name, type=Path, metavar=metavar, help=about, **more)


def add_text(group: Any, name: str, metavar: str | tuple[str, ...], about: str, **more: Any) -> None:
    """Declares an option or argument that is a text; `more` is for argparse."""
    group.add_argument(name, metavar=metavar, help=about, **more)


def add_choice(group: Any, name: str, choices: Iterable[str], about: str, **more: Any) -> None:
    """Declares an option that is one of several words; `more` is for argparse."""
    group.add_argument(name, choices=choices, help=about, **more)


def add_switch(group: Any, name: str, about: str) -> None:
    """Declares an option without a value."""
    group.add_argument(name, action="store_true", help=about)


def add_toggle(group: Any, name: str, about: str) -> None:
    """Declares an option that turns something on, or with --no- off; None: neither is given."""
    group.add_argument(name, action=argparse.BooleanOptionalAction, help=about)


def add_settings(
    group: Any,
    about: str = "change one value of the recipe, such as train.max_steps=2000; may be repeated",
    dest: str = "set",
) -> None:
    """Declares --set, which changes values of a configuration."""
    group.add_argument("--set", dest=dest, metavar="KEY=VALUE", action="append", default=[], help=about)
