"""The carrier phrases of the English→German demo, and the nouns and names in them, from `english_german.toml`.

Each English phrase has one German counterpart with the same slots. A digit after a slot's name only distinguishes two
of one kind (`{euros1}`, `{euros2}`). The case of a slot is part of its meaning: see `german.py`.
"""

import tomllib
from importlib.resources import files
from typing import Any

from transduce.data.demo.slots import Pair, Slots, words

_FILE = files("transduce.data.demo") / "english_german.toml"
_TABLES: dict[str, Any] = tomllib.loads(_FILE.read_text(encoding="utf-8"))

PHRASES: list[Pair] = list(_TABLES["phrases"].items())


def word_slots() -> Slots:
    """Returns the slots of nouns and names. `{Event}` starts the sentence, `{event}` is within it."""
    slots: Slots = {name: words(pairs.items()) for name, pairs in (_TABLES["words"] | _TABLES["subjects"]).items()}
    for name, pairs in _TABLES["subjects"].items():
        slots[name.capitalize()] = words((_capitalised(e), _capitalised(g)) for e, g in pairs.items())
    return slots


def _capitalised(text: str) -> str:
    return text[0].upper() + text[1:]
