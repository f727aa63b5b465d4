"""JSON: values that are texts are translated, keys are not. ARB, catalogues of Flutter, are JSON with notes."""

import json
import re
from collections.abc import Iterator
from functools import partial

from transduce.translation.documents.languages import Languages, first_of_others, followed
from transduce.translation.documents.messages import message_pieces
from transduce.translation.documents.parts import Content
from transduce.translation.documents.segments import Piece, SegmentError
from transduce.translation.documents.text_encoding import decode

_STRING = re.compile(r'(?P<string>"(?:[^"\\]|\\.)*+")(?P<colon>\s*:)?|(?P<bracket>[{}\[\]])')
_LOCALE = re.compile(r'"@@locale"\s*:\s*"(?P<code>[\w-]+)"')
_ESCAPED = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)")


def read_arb(data: bytes, name: str, languages: Languages) -> Content:
    """Reads an ARB file: what begins with "@" says something about messages, and `@@locale` names the language."""
    decoded = decode(data, name)
    declared = [Languages(match["code"]) for match in _LOCALE.finditer(decoded.text)]
    return Content(decoded.encode, read_json(decoded.text, languages), first_of_others(declared, languages))


def read_json(text: str, arb: Languages | None = None) -> Iterator[Piece]:
    """Yields the pieces of a JSON document; `arb` are the languages if it is an ARB file.

    Raises:
        SegmentError: it is not JSON.
    """
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise SegmentError(f"line {error.lineno}, column {error.colno}: is not JSON: {error.msg}.") from None
    except (RecursionError, ValueError) as error:  # a number may have too many digits
        raise SegmentError(f"cannot be read as JSON: {error}.") from None
    position = depth = 0
    key = ""  # the outermost
    for match in _STRING.finditer(text):
        if match["bracket"]:
            depth += 1 if match[0] in "{[" else -1
        elif match["colon"]:
            key = json.loads(match["string"]) if depth == 1 else key
        else:
            yield text[position : match.start()]
            position, string = match.end(), match[0]
            value = json.loads(string)
            if arb is None or not key.startswith("@"):
                yield from message_pieces(value, string, partial(written_string, string))
            elif key == "@@locale" and arb.target:
                yield json.dumps(followed(value, Languages(value, arb.target)).replace("-", "_"))
            else:
                yield string
    yield text[position:]


def written_string(source: str, text: str) -> str:
    """Returns a text between quotation marks, with the characters escaped that are so in the source."""
    escapes = {json.loads(f'"{match[0]}"'): match[0] for match in _ESCAPED.finditer(source)}
    escapes = {each: escape for each, escape in escapes.items() if each < "\ud800" or each > "\udfff"}
    return '"' + "".join(escapes.get(each) or json.dumps(each, ensure_ascii=False)[1:-1] for each in text) + '"'
