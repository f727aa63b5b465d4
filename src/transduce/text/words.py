"""Words as alignments count them: what stands between ASCII white space, as for `awk`, `wc -w` and most aligners.

A no-break space or an ideographic one is part of its word: a line has the same words here as for those tools.
"""

import re
from collections.abc import Iterable

_SPACE = b" \t\n\r\x0b\x0c"
_WORD = re.compile(f"[^{_SPACE.decode()}]+")


def split_words(text: str) -> list[str]:
    """Returns the words of `text`, in order."""
    return _WORD.findall(text)


def word_of_each(pieces: Iterable[bytes]) -> list[int | None]:
    """Returns for each piece the word, counted from 0, that it is part of; None for one that is white space or empty.

    The pieces are cut from one text, in order, and none reaches from one word into the next.

        [b" A", b" do", b"gs", b".", b""]  →  [0, 1, 1, 1, None]
    """
    words: list[int | None] = []
    current, inside = -1, False
    for piece in pieces:
        for byte in piece:
            starts = byte not in _SPACE and not inside
            current, inside = current + starts, byte not in _SPACE
        words.append(current if piece.strip(_SPACE) else None)
    return words
