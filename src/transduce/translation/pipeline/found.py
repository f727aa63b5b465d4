"""What is found in a text: tags, entities and items, each with its span."""

from dataclasses import dataclass
from typing import Literal

# open and close: a tag of an inline element; point: a tag or comment without content; space: an invisible entity;
# placeholder: also a URL or address; literal: another item that is no prose; block: a tag between sentences; text: an
# entity of a visible character; word: one that tags cut, without them.
Kind = Literal["open", "close", "point", "space", "placeholder", "literal", "block", "text", "word"]


@dataclass(frozen=True, slots=True)
class Found:
    """Markup at its span of a text."""

    kind: Kind
    start: int
    end: int
    text: str  # for "text" and "word", the characters
