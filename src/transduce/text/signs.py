"""Signs that are written in several ways: white space, quotation marks, apostrophes, dashes and the like."""

ACCENTS = "\u0300-\u036f"  # that follow their letter, as a range of characters
SPACES = "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
# Signs of each kind, and the usual ways to write it, from the most usual on.
SIGNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("\t" + SPACES, (" ",)),
    ("“”„‟«»‹›″〝〞〟＂״", ('"', "“", "”", "„", "«", "»")),
    ("’‘‚‛ʼ′`´＇׳", ("'", "’")),
    ("‐‑﹣－", ("-", "‐")),
    ("–—―", ("–", "—", "-")),
    ("…", ("...",)),
    # What is not seen: a soft hyphen, a space without width, a joint of words, marks of direction, of byte order.
    ("\u00ad\u200b\u2060\u200e\u200f\ufeff", ("",)),
    *((chr(0xFB00 + index), (letters,)) for index, letters in enumerate(("ff", "fi", "fl", "ffi", "ffl"))),
)
_FIRST_CASELESS = "\u0590"  # of the Hebrew script; before it are scripts with capitals, and signs such as ª
_PLAIN = {ord(sign): usual[0] for signs, usual in SIGNS for sign in signs if len(usual[0]) == 1}


def is_caseless(character: str) -> bool:
    """Returns whether a character is a letter of a script without capitals, such as Hebrew or Chinese."""
    return character >= _FIRST_CASELESS and character.isalpha() and character.upper() == character.lower()


def with_plain_signs(text: str) -> str:
    """Returns the text with each kind of sign written in its most usual way, if that is as long: the length stays."""
    return text.translate(_PLAIN)
