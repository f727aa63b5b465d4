"""Glossaries: source terms with their required translations."""

import functools
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from transduce.data.readers import read_lines
from transduce.errors import DataError
from transduce.text.phrases import WORD_OR_SIGN, is_whole, with_translation
from transduce.text.signs import with_plain_signs
from transduce.translation.constraints.required_terms import Choice

# A word of running text is between spaces, but for quotation marks, brackets and what ends a clause.
_BEFORE_WORD = re.compile(r"""(?:^|\s)[(\["'«„“‘]*$""")
_AFTER_WORD = re.compile(r"""[.,;:!?…)\]"'»“”’]*(?:\s|$)""")
_compiled = functools.lru_cache(maxsize=100_000)(re.compile)  # when a text has the first word: most never do


class Glossary:
    """Source terms, each with the target terms of which one must appear in the translation.

    A source term is found as whole words, over any white space. Without capitals it is found in any case: "dog" in
    "Dog" and "DOG". With capitals it is case-sensitive: "IT" is not in "it is". Quotation marks, apostrophes and dashes
    are found however they are written: "O'Brien" in "O’Brien". Of two terms that differ in these only, the first
    counts.
    """

    def __init__(self, entries: Mapping[str, str | Sequence[str]]) -> None:
        """Takes a target term, or a list of them to choose from, for each source term.

        Raises:
            DataError: a term is empty, white space, or holds a line break.
        """
        # The pattern of each source term and its target terms, by the term's first word or sign without case.
        self._terms: dict[str, list[tuple[str, Choice]]] = {}
        longest_first = sorted(entries.items(), key=lambda entry: -len(entry[0]))  # of equal length, the first given
        for source, given in longest_first:
            targets = (given,) if isinstance(given, str) else tuple(given or ())
            if not targets:
                raise DataError(f"The glossary's term {source!r} has no target term.")
            for term in (source, *targets):
                if not term.strip() or "\n" in term:
                    raise DataError(f"The glossary's term {source!r}: {term!r} is empty or holds a line break.")
            words = with_plain_signs(source).split()
            first = WORD_OR_SIGN.match(words[0])
            start = first[0] if first else words[0][0]
            pattern = r"\s+".join(map(re.escape, words))
            if source == source.lower():
                pattern = f"(?i:{pattern})"
            choice = tuple(term.strip() for term in targets)
            self._terms.setdefault(_caseless(start), []).append((pattern, choice))

    @property
    def checksum(self) -> str:
        """The SHA-256 of its terms."""
        return hashlib.sha256(json.dumps(self._terms, sort_keys=True).encode()).hexdigest()

    def required_in(self, text: str) -> tuple[Choice, ...]:
        """Returns the terms that the translation of `text` must hold, in the order of the source terms, each once."""
        return tuple(dict.fromkeys(choice for _, choice in self.found_in(text)))

    def written_into(self, text: str) -> str:
        """Returns the text with a translation after each source term: the first of its target terms.

        A term within something else, such as an address or a tag, and one that stays as it is are left alone.
        """
        for (start, end), choice in reversed(self.found_in(text)):
            is_word = _BEFORE_WORD.search(text[:start]) and _AFTER_WORD.match(text, end)
            if is_word and choice[0].casefold() != text[start:end].casefold():
                text = with_translation(text, end, choice[0])
        return text

    def found_in(self, text: str) -> list[tuple[tuple[int, int], Choice]]:
        """Returns the spans of source terms in `text`, from left to right, with the terms that they require.

        Source terms are matched from left to right, the longest first, and do not overlap.
        """
        found: list[tuple[tuple[int, int], Choice]] = []
        text, end = with_plain_signs(text), 0
        for word in WORD_OR_SIGN.finditer(text):
            if word.start() < end:
                continue
            for pattern, choice in self._terms.get(_caseless(word[0]), ()):
                match = _compiled(pattern).match(text, word.start())
                if match and is_whole(text, *match.span()):
                    found.append((match.span(), choice))
                    end = match.end()
                    break
        return found


def _caseless(word: str) -> str:
    """Returns a word without case. Those of I are one letter, as in `(?i:)`: Turkish has ı for I, and İ for i."""
    return word.replace("İ", "i").casefold().replace("ı", "i")


def read_glossary(path: Path) -> Glossary:
    """Reads a glossary: each line has a source term and, after tabs, its target terms.

    Raises:
        DataError: the file cannot be read, a line has no target or an empty term, or a source term occurs twice.
    """
    entries: dict[str, list[str]] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        source, *targets = (column.strip() for column in line.split("\t"))
        while targets and not targets[-1]:  # spreadsheets fill rows up
            targets.pop()
        if not targets:
            raise DataError(f"{path}, line {number}: no target term. Write: source term, a tab, target term.")
        if not all([source, *targets]):
            raise DataError(f"{path}, line {number}: column {[source, *targets].index('') + 1} is empty.")
        if source in entries:
            raise DataError(
                f"{path}, line {number}: {source!r} stands in line {lines[source]} already. "
                "Write all its target terms into one line, separated by tabs."
            )
        entries[source], lines[source] = targets, number
    return Glossary(entries)


GlossaryLike = Glossary | Mapping[str, str | Sequence[str]] | str | Path | None


def glossary_of(given: GlossaryLike) -> Glossary | None:
    """Returns a glossary from a glossary, a dictionary, or the path of a file."""
    if given is None or isinstance(given, Glossary):
        return given
    if not isinstance(given, Mapping | str | Path):
        raise TypeError("Give a glossary as a dictionary {source term: translation}, or as the path of a file.")
    return Glossary(given) if isinstance(given, Mapping) else read_glossary(Path(given))
