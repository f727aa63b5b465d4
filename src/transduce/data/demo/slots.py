"""Slots of a phrase: a value is drawn at random for each, and written in both languages.

A slot, such as `{length}`, has several forms (kilometers, miles, …). A form's values belong to a *family*. A value
that is held out is held out of its whole family, in every form, so that "March 3" and "3/3/2021" go into the same
part of the corpus. A form without a family is a closed class of words (weekdays, nouns), which are never held out.
"""

import calendar
import datetime
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from transduce.data.demo.cldr import Cldr

Pair = tuple[str, str]


@dataclass(frozen=True)
class Form:
    """One way to fill a slot.

    Attributes:
        name: the form's name, unique within its slot.
        draw: draws a value with a random generator.
        render: returns the value's source and target text.
        family: values of one family are held out together; "" for a closed class.
        keys: returns what determines the part that a value belongs to, such as the day without the year. If there are
            several, all must belong to the part. None: the value is part of others, such as "twenty", and belongs to
            training only.
    """

    name: str
    draw: Callable[[Random], Any]
    render: Callable[[Any], Pair]
    family: str = ""
    keys: Callable[[Any], tuple[Hashable, ...] | None] = lambda value: (value,)


Slots = dict[str, Sequence[Form]]


def word(source: str, target: str) -> Form:
    """A fixed word or name and its translation."""
    return Form(source, lambda random: None, lambda value: (source, target))


def words(pairs: Iterable[Pair]) -> list[Form]:
    return [word(source, target) for source, target in pairs]


def both(source: Cldr, target: Cldr, write: Callable[[Cldr, Any], str]) -> Callable[[Any], Pair]:
    """Returns what writes a value in both languages alike."""
    return lambda value: (write(source, value), write(target, value))


# --- drawing values ----------------------------------------------------------------------------------------


def draw_date(random: Random) -> datetime.date:
    year, month = random.randint(1950, 2024), random.randint(1, 12)
    return datetime.date(year, month, random.randint(1, calendar.monthrange(year, month)[1]))


def day_of_year(day: datetime.date) -> tuple[Hashable, ...]:
    return ((day.month, day.day),)


def month_of(day: datetime.date) -> tuple[Hashable, ...]:
    return ((day.year, day.month),)


def draw_time(random: Random) -> datetime.time:
    """Any minute; quarters of an hour are more frequent."""
    minute = random.choice((0, 15, 30, 45)) if random.random() < 0.3 else random.randint(0, 59)
    return datetime.time(random.randint(0, 23), minute)


def draw_count(random: Random) -> int:
    """A whole number from 2: mostly small, now and then into the thousands."""
    share = random.random()
    if share < 0.7:
        return random.randint(2, 99)
    return random.randint(100, 999) if share < 0.93 else random.randint(1000, 9999)


def draw_small(random: Random) -> int:
    return random.randint(2, 99)


def draw_measure(random: Random) -> float:
    """A number to measure with: one in four has a decimal."""
    if random.random() < 0.25:
        tenths = random.randint(1, 999)
        return tenths // 10 if tenths % 10 == 0 else tenths / 10
    return draw_count(random) if random.random() < 0.95 else 1


def draw_price(random: Random) -> float:
    """An amount with cents."""
    return random.randint(1, 199) + random.choice((0.0, 0.5, 0.95, 0.99, random.randint(1, 99) / 100))


def draw_amount(random: Random) -> int:
    """A round or small amount without cents."""
    return draw_count(random) if random.random() < 0.7 else random.randint(1, 99) * random.choice((10, 100, 1000))


def draw_per_mille(random: Random) -> int:
    return random.randint(1, 999) if random.random() < 0.3 else random.randint(1, 100) * 10


def number_keys(number: int) -> tuple[Hashable, ...] | None:
    """Spelled-out numbers are composed of some numbers, which are never held out."""
    is_part = number <= 20 or (number < 100 and number % 10 == 0) or (number < 1000 and number % 100 == 0)
    return None if is_part else (number,)


def twice(form: Form, source_text: str, target_text: str) -> Form:
    """Two different values of one form, the smaller first: `from {0} to {1}`."""

    def draw(random: Random) -> tuple[Any, Any]:
        first, second = form.draw(random), form.draw(random)
        while first == second:
            second = form.draw(random)
        return min(first, second), max(first, second)

    def render(values: tuple[Any, Any]) -> Pair:
        (source1, target1), (source2, target2) = map(form.render, values)
        return source_text.format(source1, source2), target_text.format(target1, target2)

    def keys(values: tuple[Any, Any]) -> tuple[Hashable, ...] | None:
        first, second = map(form.keys, values)
        return None if first is None or second is None else (*first, *second)

    return Form(form.name, draw, render, form.family, keys)


# --- forms for any pair of locales -------------------------------------------------------------------------

DIMENSIONS: dict[str, tuple[str, ...]] = {
    "length": ("length-kilometer", "length-meter", "length-centimeter", "length-mile", "length-foot", "length-inch"),
    "mass": ("mass-kilogram", "mass-gram", "mass-tonne", "mass-milligram", "mass-ounce"),
    "volume": ("volume-liter", "volume-milliliter", "volume-cubic-meter", "volume-gallon"),
    "area": ("area-square-meter", "area-square-kilometer", "area-hectare"),
    "speed": ("speed-kilometer-per-hour", "speed-mile-per-hour", "speed-meter-per-second"),
    "temperature": ("temperature-celsius", "temperature-fahrenheit"),
    "data": ("digital-gigabyte", "digital-megabyte", "digital-terabyte"),
    "energy": ("energy-kilowatt-hour", "energy-kilocalorie"),
    "power": ("power-watt", "power-kilowatt"),
    "duration": tuple(f"duration-{unit}" for unit in ("second", "minute", "hour", "day", "week", "month", "year")),
}
CURRENCIES = ("EUR", "USD", "GBP", "CHF", "DKK", "SEK", "NOK", "CAD")


def quantity(source: Cldr, target: Cldr, unit: str, draw: Callable[[Random], float] = draw_measure) -> Form:
    """A number with a CLDR unit; the number and the unit together are the value that is held out."""
    return Form(
        unit,
        lambda random: (draw(random), unit),
        both(source, target, lambda cldr, value: cldr.quantity(*value)),
        family="quantity",
        keys=lambda value: None if value[0] == 1 else (value,),  # the only use of the unit's singular
    )


def price(source: Cldr, target: Cldr, currency: str) -> Form:
    """An amount with the currency's name: `3 euros`."""
    written = both(source, target, lambda cldr, value: cldr.price(*value))
    return Form(f"name-{currency}", lambda random: (draw_amount(random), currency), written, family="money")


def money(source: Cldr, target: Cldr, currency: str) -> Form:
    """An amount with the currency's symbol: `€3.50`."""
    written = both(source, target, lambda cldr, value: cldr.money(*value))
    return Form(f"symbol-{currency}", lambda random: (draw_price(random), currency), written, family="money")


def percent(source: Cldr, target: Cldr) -> Form:
    return Form("sign", draw_per_mille, both(source, target, lambda cldr, n: cldr.percent(n)), family="percent")


def date(source: Cldr, target: Cldr, pattern: str, target_pattern: str = "") -> Form:
    """A date in one of CLDR's four lengths, or in a pattern of its fields; by default the same on both sides."""
    return Form(
        pattern,
        draw_date,
        lambda day: (source.date(day, pattern), target.date(day, target_pattern or pattern)),
        family="day",
        keys=day_of_year,
    )


def skeleton(source: Cldr, target: Cldr, fields: str, family: str, keys: Callable[[Any], tuple[Hashable, ...]]) -> Form:
    """A date of the given fields, each locale in its own order."""
    written = both(source, target, lambda cldr, day: cldr.skeleton(day, fields))
    return Form(fields, draw_date, written, family=family, keys=keys)


def spelled(source: Cldr, target: Cldr) -> Form:
    written = both(source, target, lambda cldr, n: cldr.words(n))
    return Form("words", lambda random: random.randint(0, 999), written, family="number", keys=number_keys)


def plain_slots(source: Cldr, target: Cldr) -> Slots:
    """Returns what any two CLDR locales can write: dates, times, quantities, amounts, spelled numbers."""
    slots: Slots = {
        "date": [date(source, target, "full"), date(source, target, "long")],
        "clock": [Form("short", draw_time, both(source, target, lambda cldr, t: cldr.clock(t)), family="clock")],
        "money": [form(source, target, c) for c in CURRENCIES for form in (money, price)],
        "percent": [percent(source, target)],
        "number": [Form("digits", draw_count, both(source, target, lambda cldr, n: cldr.decimal(n)), family="number")],
    }
    # No abbreviated months: "May 3" would be both "3 maja" and "3 maj" in Polish.
    for fields, family, keys in (("yMMMM", "month", month_of), ("MMMMd", "day", day_of_year)):
        if all(fields in cldr.locale.datetime_skeletons for cldr in (source, target)):
            slots["date"] = [*slots["date"], skeleton(source, target, fields, family, keys)]
    for dimension, units in DIMENSIONS.items():
        forms = [quantity(source, target, u) for u in units if source.has_unit(u) and target.has_unit(u)]
        if forms:
            slots[dimension] = forms
    if source.spells_numbers() and target.spells_numbers():
        slots["words"] = [spelled(source, target)]
    return slots
