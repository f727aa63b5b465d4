"""Words of alignments: separated by ASCII white space, as for `awk`, `wc -w` and most aligners.

As for those tools, a no-break space or an ideographic space is part of a word.
"""

import re
from collections.abc import Iterable

_SPACE = b" \t\n\r\x0b\x0c"
_WORD = re.compile(f"[^{_SPACE.decode()}]+")


def split_words(text: str) -> list[str]:
    """Returns the words of `text`, in order."""
    return _WORD.findall(text)


def word_of_each(pieces: Iterable[bytes]) -> list[int | None]:
    """Returns for each piece the index of its word; None for a piece that is white space or empty.

    The pieces are consecutive parts of one text, and no piece spans two words.

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
