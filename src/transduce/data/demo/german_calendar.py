"""English→German dates and times of day: CLDR's patterns, in the case and words that the phrases need."""

import datetime
from collections.abc import Callable, Hashable
from random import Random

from transduce.data.demo.cldr import Cldr
from transduce.data.demo.slots import (
    Form,
    Pair,
    Slots,
    both,
    date,
    day_of_year,
    draw_date,
    draw_time,
    month_of,
    skeleton,
    twice,
    words,
)


def date_slots(source: Cldr, target: Cldr) -> Slots:
    """`{date}` follows "am" at the end of a clause, `{day}` may be anywhere, `{md}` has no year."""

    # "May" is its own abbreviation: the short form must not translate otherwise than the long one.
    long, short = date(source, target, "long"), skeleton(source, target, "yMMMd", "day", day_of_year)
    numeric = date(source, target, "M/d/y", "d.M.y")
    month_day = date(source, target, "MMMM d", "d. MMMM")
    # "am Mittwoch, dem 3. März": the weekday's apposition is in the dative too.
    weekday = date(source, target, "EEEE, MMMM d", "EEEE, 'dem' d. MMMM")
    full = date(source, target, "EEEE, MMMM d, y", "EEEE, 'dem' d. MMMM y")
    year = Form("year", lambda random: random.randint(1900, 2024), lambda y: (str(y), str(y)), family="year")
    return {
        "date": [long, short, numeric, month_day, weekday, full],
        "day": [long, short, numeric, month_day],
        "long": [long, short, numeric],
        "md": [month_day],
        "period": [_period(month_day, month_day), _period(month_day, long)],
        "weekday": _calendar(source, target, "EEEE", [datetime.date(2024, 1, day) for day in range(1, 8)]),
        "monthname": _calendar(source, target, "MMMM", [datetime.date(2024, month, 1) for month in range(1, 13)]),
        "month": [skeleton(source, target, "yMMMM", "month", month_of)],
        "interval": [_interval(source, target)],
        "year": [year],
    }


def _calendar(source: Cldr, target: Cldr, pattern: str, days: list[datetime.date]) -> list[Form]:
    return words([(source.date(day, pattern), target.date(day, pattern)) for day in days])


def _period(first: Form, last: Form) -> Form:
    """Two days of one year: `from March 3 to April 5, 2021`."""

    def draw(random: Random) -> tuple[datetime.date, datetime.date]:
        year = random.randint(1950, 2024)
        start, end = sorted(datetime.date(year, 1, 1) + datetime.timedelta(n) for n in random.sample(range(365), 2))
        return start, end

    def render(days: tuple[datetime.date, datetime.date]) -> Pair:
        (source1, target1), (source2, target2) = first.render(days[0]), last.render(days[1])
        return f"from {source1} to {source2}", f"vom {target1} bis zum {target2}"

    return Form(f"{first.name}-{last.name}", draw, render, family="day", keys=_both_days)


def _both_days(days: tuple[datetime.date, datetime.date]) -> tuple[Hashable, ...]:
    return *day_of_year(days[0]), *day_of_year(days[1])


def _interval(source: Cldr, target: Cldr) -> Form:
    """Two days of one month, in CLDR's interval format: `Mar 3 – 14, 2021`."""

    def draw(random: Random) -> tuple[datetime.date, datetime.date]:
        month = draw_date(random)
        first, last = sorted(random.sample(range(1, 29), 2))
        return month.replace(day=first), month.replace(day=last)

    written = both(source, target, lambda cldr, days: cldr.interval(*days))
    return Form("interval", draw, written, family="day", keys=_both_days)


def time_slots(source: Cldr, target: Cldr) -> Slots:
    """`{clock}` is a time of day in figures, `{spoken}` as people say it: "half past three" is "halb vier"."""

    def clock(name: str, draw: Callable[[Random], datetime.time], english: Callable[[datetime.time], str]) -> Form:
        return Form(name, draw, lambda t: (english(t), _german_clock(t)), family="clock")

    def _german_clock(time: datetime.time) -> str:
        return f"{time.hour} Uhr" if time.minute == 0 else f"{target.clock(time)} Uhr"

    def draw_minutes(random: Random) -> datetime.time:
        time = draw_time(random)
        return time if time.minute else time.replace(minute=random.randint(1, 59))

    def draw_spoken(random: Random) -> tuple[int, int]:
        return random.randint(1, 12), random.choice(range(0, 60, 5))

    def spoken(time: tuple[int, int]) -> Pair:
        return _spoken_english(source, *time), _spoken_german(target, *time)

    minutes = clock("h:mm a", draw_minutes, source.clock)
    hour = clock("h a", lambda random: datetime.time(random.randint(1, 23)), lambda t: source.skeleton(t, "h"))
    day_clock = clock("HH:mm", draw_minutes, lambda t: source.skeleton(t, "Hm"))
    return {
        "clock": [minutes, hour, day_clock],
        "hours": [twice(form, "from {} to {}", "von {} bis {}") for form in (minutes, hour, day_clock)],
        "spoken": [Form("spoken", draw_spoken, spoken, family="spoken")],
    }


def _spoken_english(cldr: Cldr, hour: int, minute: int) -> str:
    last, following = cldr.words(hour), cldr.words(hour % 12 + 1)
    named = {0: f"{last} o'clock", 15: f"quarter past {last}", 30: f"half past {last}", 45: f"quarter to {following}"}
    if minute in named:
        return named[minute]
    return f"{cldr.words(minute)} past {last}" if minute < 30 else f"{cldr.words(60 - minute)} to {following}"


def _spoken_german(cldr: Cldr, hour: int, minute: int) -> str:
    last, following = cldr.words(hour), cldr.words(hour % 12 + 1)
    named = {
        0: "ein Uhr" if hour == 1 else f"{last} Uhr",
        15: f"Viertel nach {last}",
        25: f"fünf vor halb {following}",
        30: f"halb {following}",
        35: f"fünf nach halb {following}",
        45: f"Viertel vor {following}",
    }
    if minute in named:
        return named[minute]
    return f"{cldr.words(minute)} nach {last}" if minute < 30 else f"{cldr.words(60 - minute)} vor {following}"
