"""Dates, times, quantities and amounts in the format of a locale (Unicode CLDR, through `babel`)."""

import datetime
import functools
from typing import Literal

from transduce.errors import ConfigError, MissingDependencyError, install_command

try:
    import babel
    import babel.dates
    import babel.lists
    import babel.numbers
    import babel.units
    import num2words
except ImportError as error:
    raise MissingDependencyError(
        f"The demo corpus needs the package '{error.name}': {install_command('demo')}"
    ) from None

# CLDR has no-break, narrow and thin spaces in numbers and dates, which people do not type.
_SPACES = str.maketrans(dict.fromkeys("\u00a0\u202f\u2009\u2007", " ") | dict.fromkeys("\u200e\u200f\u061c", ""))
_CACHED = ("date", "skeleton", "clock", "decimal", "quantity", "money", "price", "percent", "words", "relative")

RelativeUnit = Literal["minute", "hour", "day", "week"]


def plain_spaces(text: str) -> str:
    """Returns `text` with plain spaces instead of special ones, and without direction marks."""
    return text.translate(_SPACES)


class Cldr:
    """Formats values for one locale, with plain spaces. Results are cached."""

    def __init__(self, language: str) -> None:
        try:
            self.locale = babel.Locale.parse(language.replace("-", "_"))
        except (ValueError, babel.UnknownLocaleError):
            raise ConfigError(f"'{language}' is not a CLDR locale. Write a code such as en, de or pt-BR.") from None
        self.language = language
        for name in _CACHED:
            setattr(self, name, functools.lru_cache(100_000)(getattr(self, name)))

    def date(self, day: datetime.date, pattern: str) -> str:
        """`pattern` is full, long, medium, short, or a CLDR pattern such as `d. MMMM`."""
        return plain_spaces(babel.dates.format_date(day, pattern, locale=self.locale))

    def skeleton(self, moment: datetime.date | datetime.time, skeleton: str) -> str:
        """`skeleton` names the fields, such as `yMMMM` or `Hm`; the locale decides their order and marks."""
        return plain_spaces(babel.dates.format_skeleton(skeleton, moment, locale=self.locale))

    def clock(self, time: datetime.time) -> str:
        """The locale's short time of day: `3:30 PM`, `15:30`."""
        return plain_spaces(babel.dates.format_time(time, "short", locale=self.locale))

    def interval(self, start: datetime.date, end: datetime.date) -> str:
        """`Mar 3 – 14, 2021`."""
        return plain_spaces(babel.dates.format_interval(start, end, "yMMMd", locale=self.locale))

    def decimal(self, number: float) -> str:
        return plain_spaces(babel.numbers.format_decimal(number, locale=self.locale))

    def quantity(self, number: float, unit: str) -> str:
        """`unit` is a CLDR unit, such as `length-kilometer`: `3.5 kilometers`."""
        return plain_spaces(babel.units.format_unit(number, unit, "long", locale=self.locale))

    def money(self, amount: float, currency: str) -> str:
        """The amount with the currency's symbol: `€3.50`."""
        return plain_spaces(babel.numbers.format_currency(amount, currency, locale=self.locale))

    def price(self, amount: int, currency: str) -> str:
        """The amount with the currency's name: `3 euros`."""
        return plain_spaces(
            babel.numbers.format_currency(
                amount, currency, "#,##0", self.locale, currency_digits=False, format_type="name"
            )
        )

    def currency_name(self, amount: int, currency: str) -> str:
        """The currency's name in the form that goes with `amount`: `euros`."""
        return plain_spaces(babel.numbers.get_currency_name(currency, amount, self.locale))

    def percent(self, per_mille: int) -> str:
        """`125` is `12.5%`."""
        text = babel.numbers.format_percent(per_mille / 1000, locale=self.locale, decimal_quantization=False)
        return plain_spaces(text)

    def relative(self, count: int, unit: RelativeUnit) -> str:
        """`unit` is day, week, …: `in 3 days` for 3, `3 days ago` for -3."""
        distance = datetime.timedelta(**{f"{unit}s": count})
        text = babel.dates.format_timedelta(distance, unit, threshold=1e9, add_direction=True, locale=self.locale)
        return plain_spaces(text)

    def listing(self, items: tuple[str, ...]) -> str:
        return plain_spaces(babel.lists.format_list(items, locale=self.locale))

    def words(self, number: int, to: str = "cardinal") -> str:
        """The number spelled out, by `num2words`; `to` is cardinal or ordinal."""
        return str(num2words.num2words(number, lang=self._num2words_language(), to=to)).replace(",", "")

    def spells_numbers(self) -> bool:
        """Whether `num2words` knows this language."""
        return self._num2words_language() in num2words.CONVERTER_CLASSES

    def has_unit(self, unit: str) -> bool:
        """Whether the locale has words for the unit; if not, babel writes the unit's CLDR name."""
        try:
            return not any(unit in self.quantity(number, unit) for number in (1, 2, 5, 2.5))
        except babel.units.UnknownUnitError:
            return False

    def _num2words_language(self) -> str:
        full = f"{self.locale.language}_{self.locale.territory}"
        return full if full in num2words.CONVERTER_CLASSES else str(self.locale.language)
