"""What is to be copied: `copies`, `noise` and `items`, each with the same text on both sides.

copies   the source is a copy of the target
noise    both sides are random strings
items    a number, code, e-mail address, URL or emoji is at the same end of both sides, or is all of them

Real codes repeat characters ("10:00", "666"), and a model that copies loses its way there: it looks for what follows
the last character, and finds several. So random strings repeat more than chance would.
"""

from collections.abc import Callable

from transduce.data.modifiers.draws import Draws

_LETTERS, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"
_ALPHABETS = (
    _LETTERS,
    _LETTERS.upper(),
    _LETTERS + _LETTERS.upper() + _DIGITS,
    _DIGITS,
    "абвгдежзийклмнопрстуфхцчшщыьэюя",
    "αβγδεζηθικλμνξοπρστυφχψω",
    "אבגדהוזחטיכלמנסעפצקרשת",
    "ابتثجحخدذرزسشصضطظعغفقكلمنهوي",
    "अआइईउऊएऐओऔकखगघचछजझटठडढणतथदधनपफबभमयरलवशषसह",
    "的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年",
    "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほ",
    "가나다라마바사아자차카타파하거너더러머버서어",
    "#$%&*+-/=?@^_~|",
)
_EMOJI = "😀😂😉😍😎😢😡👍👎🙏🎉🔥✅❌⚠❤⭐🚀📧📞🏠🚗🍕☀🌧"
_PARTS = (_LETTERS.upper(), _DIGITS, _LETTERS.upper() + _DIGITS, _LETTERS + _DIGITS)  # of codes
_SEPARATORS = ("", *"-_/.:,+ ")
_ENDINGS = ("com", "org", "net", "de", "fr", "io", "eu", "co.uk")
_ALONE = 0.1  # of the lines with items: the item is all of the line
_REPEATED = 0.2  # of the characters: the same as one of the last three


def copies(source: str, target: str, draws: Draws) -> tuple[str, str]:
    """Returns the target twice."""
    return target, target


def noise(source: str, target: str, draws: Draws) -> tuple[str, str]:
    """Returns 1 to 4 random strings of one alphabet, twice."""
    alphabet = draws.choice(_ALPHABETS)
    text = " ".join(_text(draws, alphabet, 1, 6) for _ in range(draws.between(1, 4)))
    return text, text


def items(source: str, target: str, draws: Draws) -> tuple[str, str]:
    """Returns both sides with the same item at an end, or twice the item alone."""
    item = _ITEMS[draws.choice([*_ITEMS])](draws)
    if draws.chance(_ALONE):
        return item, item
    where = draws.choice(("{item} {text}", "{item}: {text}", "{text} {item}", "{text} ({item})"))
    return where.format(item=item, text=source), where.format(item=item, text=target)


def _text(draws: Draws, characters: str, least: int, most: int) -> str:
    """Returns `least` to `most` of these characters in random order, with repetitions."""
    written = ""
    for _ in range(draws.between(least, most)):
        repeats = bool(written) and draws.chance(_REPEATED)
        written += draws.choice(written[-3:] if repeats else characters)
    return written


def _number(draws: Draws) -> str:
    whole = draws.choice("123456789") + _text(draws, _DIGITS, 0, 7)
    return whole + draws.choice(("", "", f".{_text(draws, _DIGITS, 1, 3)}", "%", f"-{_text(draws, _DIGITS, 2, 6)}"))


def _code(draws: Draws) -> str:
    written = _text(draws, draws.choice(_PARTS), 1, 4)
    for _ in range(draws.between(1, 3)):
        written += draws.choice(_SEPARATORS) + _text(draws, draws.choice(_PARTS), 2, 6)
    return written


def _name(draws: Draws) -> str:
    return _text(draws, _LETTERS, 2, 9)


def _domain(draws: Draws) -> str:
    return f"{_name(draws)}.{draws.choice(_ENDINGS)}"


def _address(draws: Draws) -> str:
    return f"{_name(draws)}{draws.choice('._-')}{_name(draws)}@{_domain(draws)}"


def _url(draws: Draws) -> str:
    path = "".join(f"/{_text(draws, _LETTERS + _DIGITS, 1, 8)}" for _ in range(draws.between(0, 3)))
    query = f"?{_text(draws, _LETTERS, 1, 3)}={_text(draws, _LETTERS + _DIGITS, 1, 6)}" if draws.chance(0.2) else ""
    return draws.choice(("https://", "http://", "www.", "https://www.")) + _domain(draws) + path + query


def _emoji(draws: Draws) -> str:
    return _text(draws, _EMOJI, 1, 2)


_ITEMS: dict[str, Callable[[Draws], str]] = {
    "number": _number,
    "code": _code,
    "e-mail address": _address,
    "URL": _url,
    "emoji": _emoji,
}
