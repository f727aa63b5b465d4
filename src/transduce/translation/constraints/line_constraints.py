"""The constraints of one line, as text: its first words, phrases that are forbidden, terms that are required."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from transduce.decoding.constraints import Brackets
from transduce.errors import DataError
from transduce.reporting.tables import counted
from transduce.text.phrases import phrase_pattern
from transduce.translation.constraints.glossary import Glossary
from transduce.translation.constraints.required_terms import Choice, choices_of, shown


@dataclass(frozen=True, slots=True)
class Constraints:
    """The constraints on the translation of one line."""

    prefix: str = ""  # its beginning, to the letter; its last word may go on, unless a space ends it
    forbidden: tuple[str, ...] = ()  # phrases that it may not hold, as whole words, case-sensitive
    required: tuple[Choice, ...] = ()  # it must hold one term of each choice, as whole words: see `required_terms`
    brackets: Brackets | None = None  # the form of a parser's output, in the ids of its vocabulary

    def __bool__(self) -> bool:
        return bool(self.prefix or self.forbidden or self.required or self.brackets)

    @property
    def bind_whole_line(self) -> bool:
        """Whether they hold for the line as a whole only; a phrase can be forbidden in each part of a line."""
        return bool(self.prefix or self.required)

    def require_valid(self, name: str) -> None:
        """Raises DataError, beginning with the line's `name`, if no translation can satisfy them."""
        if not all(phrase.strip() for phrase in self.forbidden):
            raise DataError(f"{name}: a forbidden phrase is empty or white space.")
        forbidden = phrase_pattern(self.forbidden) if self.forbidden else None
        for choice in self.required:
            if not choice or any(not term.strip() or "\n" in term for term in choice):
                raise DataError(f"{name}: a required term is empty, white space, or holds a line break.")
            if forbidden and all(forbidden.search(term) for term in choice):
                raise DataError(f"{name}: {shown(choice)} is required, and holds a forbidden phrase.")
        if "\n" in self.prefix:
            raise DataError(f"{name}: the prefix {self.prefix!r} holds a line break.")
        if forbidden and (match := forbidden.search(self.prefix)):
            raise DataError(f"{name}: the prefix {self.prefix!r} holds the forbidden phrase {match[0]!r}.")


def constraints_of(
    lines: Sequence[str],
    prefixes: Sequence[str] | None,
    forbidden: Sequence[str] | Sequence[Sequence[str]] | None,
    required: Sequence[Sequence[str | Sequence[str]]] | None = None,
) -> list[Constraints] | None:
    """Returns the constraints of each line, or None if there are none.

    Args:
        lines: the lines.
        prefixes: one for each line, "" for none.
        forbidden: phrases for all lines, or a list of phrases for each line.
        required: for each line a list of terms, or of lists of terms to choose from.

    Raises:
        DataError: there are not as many as there are lines.
        TypeError: `lines` is no list of strings, or one of the others is no such list.
    """
    if isinstance(lines, str):  # a sequence of characters, which is never meant
        raise TypeError("Give a list of lines: for a single one, [line].")
    is_list = hasattr(lines, "__getitem__") and not isinstance(lines, Mapping)  # an array is one as well
    if not is_list or not all(isinstance(line, str) for line in lines):
        raise TypeError("Give a list of lines, each a str. For other iterables there is `stream`.")
    num_lines = len(lines)
    if not prefixes and not forbidden and not required:
        return None
    prefixes = [""] * num_lines if prefixes is None else prefixes
    if isinstance(prefixes, str) or isinstance(forbidden, str) or not all(isinstance(each, str) for each in prefixes):
        raise TypeError("Give a list of prefixes or phrases, each a str: for a single one, [text].")
    for_all = tuple(phrase for phrase in forbidden or () if isinstance(phrase, str))
    if for_all and len(for_all) < len(forbidden or ()):
        raise TypeError("Give forbidden phrases for all lines, or a list of them for each line, not both.")
    by_line = [for_all] * num_lines if for_all or not forbidden else [tuple(phrases) for phrases in forbidden]
    if isinstance(required, str) or any(isinstance(terms, str) for terms in required or ()):
        raise TypeError("Give a list of required terms for each line: for a single line and term, [[term]].")
    choices = [choices_of(terms) for terms in required] if required else [()] * num_lines
    for what, given in (
        ("prefixes", prefixes),
        ("lists of forbidden phrases", by_line),
        ("lists of required terms", choices),
    ):
        if len(given) != num_lines:
            raise DataError(f"{counted(num_lines, 'line')} and {len(given)} {what}: give one for each line.")
    return [Constraints(*each) for each in zip(prefixes, by_line, choices, strict=True)]


def with_terms(
    constraints: Sequence[Constraints], glossary: Glossary | None, texts: Sequence[str]
) -> list[Constraints]:
    """Returns the constraints of each text with the glossary's terms; a text of white space has no required terms."""
    result = []
    for each, text in zip(constraints, texts, strict=True):
        terms: tuple[Choice, ...] = ()
        if text.strip():
            terms = each.required if glossary is None else (*each.required, *glossary.required_in(text))
        result.append(each if terms == each.required else replace(each, required=tuple(dict.fromkeys(terms))))
    return result
