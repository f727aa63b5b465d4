"""Warnings that a score may mislead: tokenised text, empty lines, lost capitals, lines left untranslated."""

import re
from collections.abc import Sequence

from transduce.evaluation.texts import Text
from transduce.reporting.tables import counted
from transduce.text.phrases import UNSPACED

# French puts a space before ":", ";", "!" and "?" in ordinary text. Only tokenizers put one before "." and ",".
_FREE_STANDING = re.compile(r"\S\s[.,](?:\s|$)")
_HAS_STOP = re.compile(r"[.,](?:\s|$)")
_SUBWORD_MARK = re.compile(r"@@(?:\s|$)|▁")

_TOKENIZED_SHARE = 0.2
_SUBWORD_SHARE = 0.01
_COPIED_SHARE = 0.05
_MIN_COPIED_WORDS = 4  # shorter lines are often names, which stay the same
_TWO_UNSPACED = re.compile(rf"[{UNSPACED}]{{2}}")  # counts as a word


def text_warnings(
    hypothesis: Text, references: Sequence[Text], *, tokenized: bool = False, lowercase: bool = False
) -> list[str]:
    """Returns all warnings about the hypothesis and the references.

    Args:
        hypothesis: The translations.
        references: The reference translations.
        tokenized: Whether the texts are scored as tokenised text.
        lowercase: Whether case is ignored.
    """
    warnings: list[str] = []
    for text in (hypothesis, *references):
        warnings += _empty_line_warnings(text) + _token_warnings(text, tokenized=tokenized)
    for reference in references:
        if not lowercase:
            warnings += _case_warnings(hypothesis, reference)
        if list(hypothesis.lines) == list(reference.lines):
            warnings.append(f"{hypothesis.name} and {reference.name} are the same text: is that what you meant?")
    return warnings


def _token_warnings(text: Text, *, tokenized: bool) -> list[str]:
    """Warns of text that is tokenised and should not be, or the other way round."""
    warnings = []
    num_with_stop = sum(1 for line in text.lines if _HAS_STOP.search(line))
    num_free = sum(1 for line in text.lines if _FREE_STANDING.search(line))
    looks_tokenized = num_free >= max(1, _TOKENIZED_SHARE * num_with_stop)
    if looks_tokenized and not tokenized:
        warnings.append(
            f"{text.name} looks tokenised: it has {counted(num_free, 'line')} with a space before a full stop or "
            "comma. It would be tokenised twice, and the score could not be compared with others. "
            "Detokenise it, or pass --tokenized."
        )
    if tokenized and num_with_stop and not looks_tokenized:
        warnings.append(
            f"{text.name} does not look tokenised: it has {counted(num_with_stop, 'line')} with a full stop or comma, "
            f"{num_free} with a space before it. Words would count together with punctuation. Leave out --tokenized."
        )
    num_marked = sum(1 for line in text.lines if _SUBWORD_MARK.search(line))
    if num_marked > _SUBWORD_SHARE * len(text.lines):
        warnings.append(
            f"{text.name} has {counted(num_marked, 'line')} with subword marks ('@@' or '▁'). Join the subwords first."
        )
    return warnings


def _empty_line_warnings(text: Text) -> list[str]:
    empty = [number for number, line in enumerate(text.lines, start=1) if not line.strip()]
    return [f"{text.name} has {counted(len(empty), 'empty line')}; the first is line {empty[0]}."] if empty else []


def _case_warnings(hypothesis: Text, reference: Text) -> list[str]:
    """Warns if one text has capitals and the other has none at all."""
    cased, uncased = (
        [text.name for text in (hypothesis, reference) if any(line != line.lower() for line in text.lines) is has]
        for has in (True, False)
    )
    if len(cased) != 1:
        return []
    return [f"{cased[0]} has capital letters, {uncased[0]} has none. Pass --lowercase to ignore case."]


def copied_share(hypothesis: Text, source: Text) -> float:
    """Returns the share of lines that are left untranslated, among source lines of four words and more.

    In scripts without spaces, two characters count as a word.
    """
    long = [
        (line.strip(), original.strip())
        for line, original in zip(hypothesis.lines, source.lines, strict=True)
        if len(_TWO_UNSPACED.sub(" x ", original).split()) >= _MIN_COPIED_WORDS
    ]
    return sum(line == original for line, original in long) / len(long) if long else 0.0


def copy_warnings(hypothesis: Text, source: Text, share: float) -> list[str]:
    """Warns if too large a share of the lines is copied from the source."""
    if share <= _COPIED_SHARE:
        return []
    return [f"{hypothesis.name}: {share:.1%} of its longer lines are copied from {source.name} unchanged."]
