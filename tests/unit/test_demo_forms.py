"""The values of the demo corpus in words: numbers, times, amounts and quantities of both languages, by hand."""

import datetime
from random import Random
from typing import Any

import pytest

pytest.importorskip("babel")
pytest.importorskip("num2words")

from transduce.data.demo.cldr import Cldr
from transduce.data.demo.german import german_slots
from transduce.data.demo.slots import Form, Slots, draw_count, draw_date, draw_measure, draw_time, number_keys, twice
from transduce.data.demo_corpus import bucket, demo_files

ENGLISH, GERMAN = Cldr("en"), Cldr("de")
DAYS, M = (datetime.date(2021, 3, 3), datetime.date(2021, 4, 5)), "length-meter"


@pytest.fixture(scope="module")
def slots() -> Slots:
    return german_slots(ENGLISH, GERMAN)


def form_of(slots: Slots, slot: str, name: str) -> Form:
    (form,) = (form for form in slots[slot] if form.name == name)
    return form


@pytest.mark.parametrize(
    ("time", "english", "german"),
    [
        ((1, 0), "one o'clock", "ein Uhr"),
        ((2, 0), "two o'clock", "zwei Uhr"),
        ((12, 15), "quarter past twelve", "Viertel nach zwölf"),
        ((12, 30), "half past twelve", "halb eins"),
        ((11, 45), "quarter to twelve", "Viertel vor zwölf"),
        ((12, 45), "quarter to one", "Viertel vor eins"),
        ((3, 5), "five past three", "fünf nach drei"),
        ((3, 20), "twenty past three", "zwanzig nach drei"),
        ((3, 25), "twenty-five past three", "fünf vor halb vier"),
        ((3, 35), "twenty-five to four", "fünf nach halb vier"),
        ((3, 40), "twenty to four", "zwanzig vor vier"),
        ((12, 55), "five to one", "fünf vor eins"),
    ],
)
def test_spoken_times(slots: Slots, time: tuple[int, int], english: str, german: str) -> None:
    assert form_of(slots, "spoken", "spoken").render(time) == (english, german)


@pytest.mark.parametrize(
    ("slot", "name", "value", "english", "german"),
    [
        ("clock", "h:mm a", datetime.time(15, 7), "3:07 PM", "15:07 Uhr"),
        ("clock", "h a", datetime.time(15), "3 PM", "15 Uhr"),
        ("clock", "HH:mm", datetime.time(0, 30), "00:30", "00:30 Uhr"),
        ("date", "long", datetime.date(2021, 3, 3), "March 3, 2021", "3. März 2021"),
        ("date", "yMMMd", datetime.date(2021, 3, 3), "Mar 3, 2021", "3. März 2021"),
        ("date", "M/d/y", datetime.date(2021, 3, 13), "3/13/2021", "13.3.2021"),
        ("date", "MMMM d", datetime.date(2021, 3, 3), "March 3", "3. März"),
        ("date", "EEEE, MMMM d", datetime.date(2021, 3, 3), "Wednesday, March 3", "Mittwoch, dem 3. März"),
        ("month", "yMMMM", datetime.date(2021, 3, 3), "March 2021", "März 2021"),
        ("number", "digits", 1234, "1,234", "1.234"),
        ("words", "words", 342, "three hundred and forty-two", "dreihundertzweiundvierzig"),
        ("ordinal", "ordinal", 21, "twenty-first", "einundzwanzigste"),
        ("money", "name-EUR", (3, "EUR"), "3 euros", "3 Euro"),
        ("money", "name-DKK", (3, "DKK"), "3 Danish kroner", "3 dänische Kronen"),
        ("money", "name-CHF", (3, "CHF"), "3 Swiss francs", "3 Schweizer Franken"),
        ("money", "symbol-EUR", (3.5, "EUR"), "€3.50", "3,50 €"),
        ("money", "words-EUR", (21, "EUR"), "twenty-one euros", "einundzwanzig Euro"),
        ("percent", "sign", 125, "12.5%", "12,5 %"),
        ("percent", "word", 120, "12 percent", "12 Prozent"),
        ("percent", "word", 125, "12.5 percent", "12,5 Prozent"),
        ("thousands", "thousands", 3000, "3,000", "3.000"),
        ("length", "length-kilometer", (3.5, "length-kilometer"), "3.5 kilometers", "3,5 Kilometer"),
        ("size", "length-meter", ((2, M), (5, M)), "5 meters long and 2 meters wide", "5 Meter lang und 2 Meter breit"),
        ("between", "digits", (3, 9), "between 3 and 9", "zwischen 3 und 9"),
        ("span", "duration-day", (3, "duration-day"), "3 days", "3 Tage"),
        ("span_dative", "day", (3, "duration-day"), "3 days", "3 Tagen"),
        ("compound", "compound", (1, 5), "1 hour and 5 minutes", "1 Stunde und 5 Minuten"),
        ("period", "MMMM d-long", DAYS, "from March 3 to April 5, 2021", "vom 3. März bis zum 5. April 2021"),
    ],
)  # fmt: skip
def test_forms(slots: Slots, slot: str, name: str, value: Any, english: str, german: str) -> None:
    assert form_of(slots, slot, name).render(value) == (english, german)


@pytest.mark.parametrize(
    ("number", "english"),
    [
        (2, "2nd"),
        (3, "3rd"),
        (4, "4th"),
        (11, "11th"),
        (12, "12th"),
        (13, "13th"),
        (21, "21st"),
        (22, "22nd"),
        (93, "93rd"),
    ],
)
def test_places(slots: Slots, number: int, english: str) -> None:
    assert form_of(slots, "nth", "nth").render(number) == (english, f"{number}.")


FAMILIES = {
    "day": ("date", "day", "long", "md", "period", "interval"),
    "month": ("month",),
    "year": ("year",),
    "clock": ("clock", "hours"),
    "spoken": ("spoken",),
    "number": ("number", "small", "words", "between", "count", "ordinal", "nth", "thousands"),
    "money": ("money", "euros", "rise"),
    "percent": ("percent",),
    "compound": ("compound",),
    "quantity": (
        "length",
        "mass",
        "weight",
        "distance",
        "size",
        "span",
        "span_dative",
        "years",
        "duration",
        "temperature",
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_values_are_held_out_together_in_all_forms(slots: Slots, family: str) -> None:
    assert {form.family for slot in FAMILIES[family] for form in slots[slot]} == {family}


@pytest.mark.parametrize(
    ("slot", "name", "value", "keys"),
    [
        ("date", "yMMMd", datetime.date(2021, 3, 14), ((3, 14),)),  # whatever the year
        ("month", "yMMMM", datetime.date(2021, 3, 14), ((2021, 3),)),
        ("interval", "interval", (datetime.date(2021, 3, 3), datetime.date(2021, 3, 9)), ((3, 3), (3, 9))),
        ("period", "MMMM d-long", (datetime.date(2021, 3, 3), datetime.date(2021, 4, 5)), ((3, 3), (4, 5))),
        ("number", "digits", 342, (342,)),
        ("number", "digits", 300, None),
        ("between", "digits", (342, 351), (342, 351)),
        ("between", "digits", (20, 351), None),
        ("length", "length-meter", (1, "length-meter"), None),
        ("length", "length-meter", (1.5, "length-meter"), ((1.5, "length-meter"),)),
        ("money", "symbol-EUR", (3.5, "EUR"), ((3.5, "EUR"),)),
        ("clock", "HH:mm", datetime.time(3, 7), (datetime.time(3, 7),)),
    ],
)
def test_what_is_held_out_of_a_value(slots: Slots, slot: str, name: str, value: Any, keys: Any) -> None:
    assert form_of(slots, slot, name).keys(value) == keys


def test_numbers_that_others_are_spelled_with_are_never_held_out() -> None:
    parts = [number for number in range(1001) if number_keys(number) is None]
    assert parts == [*range(21), *range(30, 100, 10), *range(100, 1000, 100)]


def test_what_is_drawn() -> None:
    """Within its limits, and with the last of them now and then."""
    random = Random(1)
    counts = [draw_count(random) for _ in range(5000)]
    assert (min(counts), max(counts) > 9000) == (2, True)
    assert 0.66 < sum(count < 100 for count in counts) / 5000 < 0.74
    dates = [draw_date(random) for _ in range(5000)]
    assert {day.month for day in dates} == set(range(1, 13))
    assert (min(day.year for day in dates), max(day.year for day in dates)) == (1950, 2024)
    assert {29, 30, 31} <= {day.day for day in dates}
    times = [draw_time(random) for _ in range(5000)]
    assert 0.3 < sum(time.minute % 15 == 0 for time in times) / 5000 < 0.4
    assert {time.hour for time in times} == set(range(24))
    measures = [draw_measure(random) for _ in range(5000)]
    assert 0.17 < sum(isinstance(measure, float) for measure in measures) / 5000 < 0.28
    assert 1 in measures
    assert all(isinstance(measure, int) or measure % 1 for measure in measures)
    two = twice(Form("x", lambda random: random.randint(1, 3), lambda n: (f"{n}", f"-{n}")), "{} to {}", "{} bis {}")
    assert {two.draw(random) for _ in range(100)} == {(1, 2), (1, 3), (2, 3)}
    assert two.render((1, 2)) == ("1 to 2", "-1 bis -2")


def test_the_shares_of_the_parts() -> None:
    shares = {"test": 6, "validation": 4}
    found = [bucket(f"value {number}", shares) for number in range(20_000)]
    assert found.count("test") / 20_000 == pytest.approx(0.06, abs=0.006)
    assert found.count("validation") / 20_000 == pytest.approx(0.04, abs=0.005)


def test_other_languages() -> None:
    assert Cldr("pt-BR").words(3) == "três"
    assert not Cldr("zh").has_unit("digital-nothing")
    assert ENGLISH.has_unit("length-meter")
    assert (ENGLISH.relative(3, "day"), ENGLISH.relative(-3, "day")) == ("in 3 days", "3 days ago")
    assert ENGLISH.interval(datetime.date(2021, 3, 3), datetime.date(2021, 3, 14)) == "Mar 3 – 14, 2021"
    assert "\u202f" not in Cldr("fr").money(1234.5, "EUR")


def test_files_are_named_by_part_and_language(tmp_path: Any) -> None:
    assert demo_files(tmp_path, "en", "de") == {
        part: (tmp_path / f"{part}.en", tmp_path / f"{part}.de") for part in ("train", "validation", "test")
    }
