"""Numbers that are in a translation but not in its source: "{count} fünf Hunde" for "{count} dogs".

A model that does not see a placeholder may write a number for it. Digits are found in every language, number words in
those listed. "One" is left out, as it is an article in many of them.
"""

import re

_DIGITS = re.compile(
    r"(?:\d{1,2}(?:,\d\d)+(?=,\d{3}(?!\d))|\d+)"  # in India, 100,000 is 1,00,000
    r"(?:[.,'\u2019\u00a0\u202f\u066c ]\d{3})*(?:[.,\u066b]\d+)?"
)
_WORD = re.compile(r"[^\W\d_]+")
_WORDS = {
    "de": "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf zwanzig dreißig vierzig fünfzig hundert tausend",
    "en": "two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty hundred thousand",
    "es": "dos tres cuatro cinco seis siete ocho nueve diez once doce veinte treinta cuarenta cincuenta cien mil",
    "fr": "deux trois quatre cinq six sept huit neuf dix onze douze vingt trente quarante cinquante cent mille",
    "it": "due tre quattro cinque sei sette otto nove dieci undici dodici venti trenta quaranta cinquanta cento mille",
    "nl": "twee drie vier vijf zes zeven acht negen tien elf twaalf twintig dertig veertig vijftig honderd duizend",
    "pt": "dois três quatro cinco seis sete oito nove dez onze doze vinte trinta quarenta cinquenta cem mil",
}


def invented_numbers(source: str, target: str, languages: tuple[str, str]) -> tuple[str, ...]:
    """Returns the numbers of `target` that are not in `source`, as they are written, each once.

    Digits must be in the source, unless that has number words, which may have become digits. For a number word, any
    number in the source is enough: the lists do not tell that "fünf" is "five" or "5".

    Args:
        source: a text without its placeholders.
        target: its translation, without them.
        languages: the codes of both; "" or one without a list: number words are ignored.
    """
    in_source, in_target = (frozenset(_WORDS.get(re.split("[-_]", code)[0].lower(), "").split()) for code in languages)
    digits = {_plain(match[0]) for match in _DIGITS.finditer(source)}
    has_words = any(word.casefold() in in_source for word in _WORD.findall(source))
    found = [match[0] for match in _DIGITS.finditer(target) if not has_words and _plain(match[0]) not in digits]
    if in_source and not has_words and not digits:
        found += [word for word in _WORD.findall(target) if word.casefold() in in_target]
    return tuple(dict.fromkeys(found))


def _plain(number: str) -> str:
    """Returns the digits of a number, those of any script as 0 to 9."""
    return "".join(str(int(digit)) for digit in re.findall(r"\d", number))
