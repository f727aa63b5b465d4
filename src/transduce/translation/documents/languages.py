"""The languages of a document and its translation."""

from collections.abc import Iterable
from dataclasses import dataclass

from transduce.errors import ConfigError
from transduce.text.languages import without_region

_NO_LANGUAGE = ("mis", "mul", "und", "zxx")  # uncoded, multiple, undetermined, no linguistic content: ISO 639-2


@dataclass(frozen=True, slots=True)
class Languages:
    """The codes of the languages of a document and its translation; "" where they are not known."""

    source: str = ""
    target: str = ""


def require_code(code: str, name: str) -> None:
    """Raises ConfigError, naming the option, where a code that documents are to name is none; "" is allowed."""
    if code and not code.replace("-", "").replace("_", "").isalnum():
        raise ConfigError(f"{name} '{code}' is not a language code, such as en or pt-BR.")


def is_same_language(one: str, other: str) -> bool:
    """Returns whether two codes name the same language, of any region: "en-GB" and "EN"."""
    return bool(one) and without_region(one) == without_region(other)


def first_of_others(declared: Iterable[Languages], languages: Languages) -> str:
    """Returns the warning of `other_languages` on the first of those that a document declares; "" if there is none."""
    return next(filter(None, (other_languages(each, languages) for each in declared)), "")


def other_languages(declared: Languages, languages: Languages) -> str:
    """Returns a warning where a document declares other languages than those it is translated from and into.

    "" if they are the same, of any region, or if one of the two is not known.
    """
    pairs = ((declared.source, languages.source), (declared.target, languages.target))
    if all(is_same_language(*pair) for pair in pairs if all(map(without_region, pair)) and pair[0] not in _NO_LANGUAGE):
        return ""
    names = [f"{role} '{code}'" for role, code in (("source", declared.source), ("target", declared.target)) if code]
    return (
        f"declares the {' and the '.join(names)}, but is translated from '{languages.source}' to '{languages.target}'. "
        "Use a model of its languages, or correct what it declares."
    )


def followed(code: str, languages: Languages) -> str:
    """Returns a code by which a document names its own language: after the translation, that of the target.

    A code of another language than the source stays, and is that of a quotation, for example. "deu_Latn" is "de".
    """
    target = languages.target
    if not target or not is_same_language(code, languages.source) or is_same_language(code, target):
        return code
    language, _, rest = target.replace("_", "-").partition("-")
    short = without_region(target)
    return f"{short}-{rest}" if rest and short == language.lower() else short
