"""Signs that are written in several ways: white space, quotation marks, apostrophes and dashes."""

import re

# Each kind, and the usual ways to write it, from the most usual on.
SIGNS: tuple[tuple[str, str], ...] = (
    ("\t\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
    ("“”„‟«»‹›″〝〞〟＂", '"“”„«»'),
    ("’‘‚‛ʼ′`´＇", "'’"),
    ("‐‑﹣－", "-‐"),
    ("–—―", "–—-"),
)
ANY_SIGN = re.compile("[" + "".join(re.escape(signs) for signs, _ in SIGNS) + "]")
_PLAIN = {ord(sign): usual[0] for signs, usual in SIGNS for sign in signs}


def with_plain_signs(text: str) -> str:
    """Returns the text with each kind of sign written in its most usual way; the length stays."""
    return text.translate(_PLAIN)
