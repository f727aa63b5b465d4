r"""Catalogues of Apple's programs (`.strings`): `"key" = "value";`, of which values are translated."""

import re
from collections.abc import Iterator
from functools import partial

from transduce.translation.documents.messages import message_pieces
from transduce.translation.documents.segments import Piece, SegmentError

_STRING = r'"(?:[^"\\]|\\.)*+"'
_SPACE = r"(?:\s|/\*(?:[^*]|\*(?!/))*+\*/|//[^\r\n]*+(?=[\r\n]|\Z))*+"
_ENTRY = re.compile(
    rf"{_SPACE}(?:(?:{_STRING}|[\w.$/:-]++){_SPACE}(?:={_SPACE}(?:(?P<value>{_STRING})|[\w.$/:-]++){_SPACE})?;|\Z)",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:[Uu](?P<code>[0-9a-fA-F]{4})|(?P<octal>[0-7]{1,3})|(?P<other>.))", re.DOTALL)
_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPES = {'"': '\\"', "\\": "\\\\"}


def read_strings(text: str) -> Iterator[Piece]:
    """Yields the pieces of a catalogue.

    Raises:
        SegmentError: it has something else than entries and comments.
    """
    position = 0
    while position < len(text):
        entry = _ENTRY.match(text, position)
        if entry is None:
            line = text.count("\n", 0, position) + 1
            raise SegmentError(f'the entry after line {line} is not of the form "key" = "value"; and cannot be read.')
        if (value := entry["value"]) is None:
            yield entry[0]
        else:
            yield text[position : entry.start("value")]
            # Both programs and translators write line breaks either way.
            escapes = {_character(match): match[0] for match in _ESCAPE.finditer(value)} | _ESCAPES
            units = _ESCAPE.sub(_character, value[1:-1])  # genstrings writes an emoji as two escapes
            plain = units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
            yield from message_pieces(plain, value, partial(_written, escapes))
            yield text[entry.end("value") : entry.end()]
        position = entry.end()


def _written(escapes: dict[str, str], text: str) -> str:
    return '"' + "".join(escapes.get(each, each) for each in text) + '"'


def _character(escape: re.Match[str]) -> str:
    """Returns the character that an escape means."""
    if escape["other"] is not None:
        return _CHARACTERS.get(escape["other"], escape["other"])
    return chr(int(escape["code"], 16) if escape["code"] else int(escape["octal"], 8))
