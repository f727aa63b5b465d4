"""The languages of a document and its translation."""

from dataclasses import dataclass

from transduce.text.languages import without_region


@dataclass(frozen=True, slots=True)
class Languages:
    """The codes of the languages of a document and its translation; "" where they are not known."""

    source: str = ""
    target: str = ""


def is_same_language(one: str, other: str) -> bool:
    """Returns whether two codes name the same language, of any region: "en-GB" and "EN"."""
    return bool(one) and without_region(one) == without_region(other)
