"""English→German numbers, quantities and amounts, in the case and the words that the phrases call for."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from transduce.data.demo.cldr import Cldr, RelativeUnit
from transduce.data.demo.german_calendar import date_slots, time_slots
from transduce.data.demo.phrases import word_slots
from transduce.data.demo.slots import (
    DIMENSIONS,
    Form,
    Pair,
    Slots,
    both,
    draw_amount,
    draw_count,
    draw_measure,
    draw_per_mille,
    draw_small,
    money,
    number_keys,
    percent,
    price,
    quantity,
    twice,
)


def german_slots(source: Cldr, target: Cldr) -> Slots:
    """Returns every slot that the carrier phrases name."""
    slots = word_slots()
    for slots_of in (date_slots, time_slots, _numbers, _amounts, _quantities, _spans):
        slots |= slots_of(source, target)
    return slots


def _quantities(source: Cldr, target: Cldr) -> Slots:
    """CLDR's dimensions, and some of them limited to the units and numbers that make sense in a phrase."""
    small = ("duration", "temperature", "speed")
    slots: Slots = {
        name: [quantity(source, target, unit, draw_small if name in small else draw_measure) for unit in units]
        for name, units in DIMENSIONS.items()
    }
    narrowed = {
        "weight": ("mass-kilogram", "mass-gram", "mass-ounce"),
        "drink": ("volume-liter", "volume-milliliter"),
        "freight": ("mass-kilogram", "mass-tonne"),
        "distance": ("length-kilometer", "length-meter", "length-mile"),
    }
    slots |= {name: [quantity(source, target, u) for u in units] for name, units in narrowed.items()}
    slots["size"] = [
        twice(quantity(source, target, unit), "{1} long and {0} wide", "{1} lang und {0} breit")
        for unit in ("length-meter", "length-centimeter", "length-foot", "length-inch")
    ]
    return slots


def _numbers(source: Cldr, target: Cldr) -> Slots:
    """Figures, spelled-out numbers, and ordinals; a German ordinal ends in -e, and a phrase may add to it."""

    def number(name: str, draw: Callable[[Random], int], render: Callable[[int], Pair]) -> Form:
        return Form(name, draw, render, family="number", keys=number_keys)

    def draw_spelled(random: Random) -> int:
        return random.randint(2, 99) if random.random() < 0.6 else random.randint(100, 999)

    def draw_before_noun(random: Random) -> int:
        """Before a noun "eins" would have to bend to its gender, so no number here ends in 01."""
        value = draw_spelled(random)
        return value + 1 if value % 100 == 1 else value

    digits = both(source, target, lambda cldr, n: cldr.decimal(n))
    spell = both(source, target, lambda cldr, n: cldr.words(n))
    ordinal = both(source, target, lambda cldr, n: cldr.words(n, "ordinal"))
    figures, spelled = number("digits", draw_count, digits), number("words", draw_spelled, spell)
    return {
        "number": [figures],
        "small": [number("small", draw_small, digits)],
        "words": [spelled],
        "between": [twice(form, "between {} and {}", "zwischen {} und {}") for form in (figures, spelled)],
        "count": [figures, number("words", draw_before_noun, spell)],
        "ordinal": [number("ordinal", draw_small, ordinal)],
        "nth": [number("nth", draw_small, lambda n: (f"{n}{_ordinal_ending(n)}", f"{n}."))],
        "thousands": [number("thousands", lambda random: draw_amount(random) * 1000, digits)],
    }


def _ordinal_ending(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def _amounts(source: Cldr, target: Cldr) -> Slots:
    """`{money}` is any amount; `{euros}` is one that needs no adjective ending in any case."""
    symbols = [money(source, target, currency) for currency in ("EUR", "USD", "GBP")]
    names = [_price(source, target, c) for c in ("EUR", "USD", "GBP", "CHF", "DKK")]
    in_words = both(source, target, lambda cldr, value: f"{cldr.words(value[0])} {cldr.currency_name(*value)}")
    spelled = Form("words-EUR", lambda random: (draw_small(random), "EUR"), in_words, family="money")
    euros = [*symbols, names[0], names[1], spelled]

    def in_percent(per_mille: int) -> Pair:
        number = per_mille // 10 if per_mille % 10 == 0 else per_mille / 10
        return f"{source.decimal(number)} percent", f"{target.decimal(number)} Prozent"

    return {
        "money": [*symbols, *names, spelled],
        "euros": euros,
        "rise": [twice(form, "from {} to {}", "von {} auf {}") for form in euros],
        "percent": [percent(source, target), Form("word", draw_per_mille, in_percent, family="percent")],
    }


def _price(source: Cldr, target: Cldr, currency: str) -> Form:
    """CLDR writes "Dänische Kronen" as a title; within a sentence the adjective has a small letter."""

    def render(value: tuple[int, str]) -> Pair:
        amount, name = target.price(*value).split(" ", 1)
        if " " in name and not name.startswith("Schweizer "):
            name = name[0].lower() + name[1:]
        return source.price(*value), f"{amount} {name}"

    return replace(price(source, target, currency), render=render)


def _spans(source: Cldr, target: Cldr) -> Slots:
    """Durations in whole units: `{span}` for nominative and accusative, `{span_dative}` after "seit".

    CLDR has no cases for German durations, but its relative times have the dative: "in 3 Tagen".
    """
    units: tuple[RelativeUnit, ...] = ("minute", "hour", "day", "week")

    def dative(unit: RelativeUnit) -> Form:
        return Form(
            unit,
            lambda random: (draw_small(random), f"duration-{unit}"),
            lambda value: (source.quantity(*value), target.relative(value[0], unit).removeprefix("in ")),
            family="quantity",
        )

    def draw_compound(random: Random) -> tuple[int, int]:
        return random.randint(1, 12), random.randint(1, 59)

    def compound(cldr: Cldr, value: tuple[int, int]) -> str:
        hours, minutes = value
        return cldr.listing((cldr.quantity(hours, "duration-hour"), cldr.quantity(minutes, "duration-minute")))

    return {
        "span": [quantity(source, target, f"duration-{unit}", draw_small) for unit in units],
        "span_dative": [dative(unit) for unit in units],
        "compound": [Form("compound", draw_compound, both(source, target, compound), family="compound")],
        "years": [quantity(source, target, "duration-year", draw_small)],
        "months": [quantity(source, target, "duration-month", draw_small)],
    }
