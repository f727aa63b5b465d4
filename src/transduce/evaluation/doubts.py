"""What makes a score mean something else than it seems to: doubts about the text that was scored."""

import re
from collections.abc import Sequence

# French sets ":", ";", "!" and "?" apart in ordinary text; only tokenizers set a full stop or a comma apart.
_FREE_STANDING = re.compile(r"\S\s[.,](?:\s|$)")
_HAS_STOP = re.compile(r"[.,](?:\s|$)")
_SUBWORD_MARK = re.compile(r"@@(?:\s|$)|▁")

_TOKENIZED_SHARE = 0.2
_SUBWORD_SHARE = 0.01
_COPIED_SHARE = 0.05
_MIN_COPIED_WORDS = 4  # shorter lines are often names, which stay as they are


def doubts_about_tokens(name: str, lines: Sequence[str], *, tokenized: bool) -> list[str]:
    """Returns warnings that `lines` are tokenised where they should not be, or the other way round.

    Args:
        name: What the warning calls the text, such as its file name.
        lines: The text.
        tokenized: Whether the text is to be scored as it stands, as tokenised text.
    """
    doubts = []
    num_with_stop = sum(1 for line in lines if _HAS_STOP.search(line))
    num_free = sum(1 for line in lines if _FREE_STANDING.search(line))
    looks_tokenized = num_free >= max(1, _TOKENIZED_SHARE * num_with_stop)
    if looks_tokenized and not tokenized:
        doubts.append(
            f"{name} looks tokenised: {_lines(num_free, 'has', 'have')} a free-standing full stop or comma. "
            "It would be tokenised twice, and the score compare with no other: "
            "detokenise it, or pass --tokenized."
        )
    if tokenized and num_with_stop and not looks_tokenized:
        doubts.append(
            f"{name} does not look tokenised: {_lines(num_with_stop, 'has', 'have')} a full stop or comma, "
            f"free-standing in {num_free}. Words would count together with punctuation: leave out --tokenized."
        )
    num_marked = sum(1 for line in lines if _SUBWORD_MARK.search(line))
    if num_marked > _SUBWORD_SHARE * len(lines):
        doubts.append(f"{name}: {_lines(num_marked, 'has', 'have')} subword marks ('@@' or '▁'): join them first.")
    return doubts


def doubts_about_empty(name: str, lines: Sequence[str]) -> list[str]:
    """Returns a warning of empty lines, with the number of the first."""
    empty = [number for number, line in enumerate(lines, start=1) if not line.strip()]
    if not empty:
        return []
    return [f"{name}: {_lines(len(empty), 'is', 'are')} empty, the first is line {empty[0]}."]


def doubts_about_case(name: str, hypotheses: Sequence[str], reference_name: str, reference: Sequence[str]) -> list[str]:
    """Returns a warning where one side has capitals and the other has none at all."""
    cased = [any(line != line.lower() for line in lines) for lines in (hypotheses, reference)]
    if cased[0] == cased[1]:
        return []
    with_capitals, without = (name, reference_name) if cased[0] else (reference_name, name)
    return [f"{with_capitals} has capital letters, {without} has none: pass --lowercase if case is not to count."]


def copied_share(hypotheses: Sequence[str], source: Sequence[str]) -> float:
    """Returns the share of lines, among source lines of four words and more, that come out untranslated."""
    long = [
        (hypothesis.strip(), line.strip())
        for hypothesis, line in zip(hypotheses, source, strict=True)
        if len(line.split()) >= _MIN_COPIED_WORDS
    ]
    return sum(hypothesis == line for hypothesis, line in long) / len(long) if long else 0.0


def doubts_about_copies(name: str, source_name: str, share: float) -> list[str]:
    """Returns a warning where too many lines are those of the source."""
    if share <= _COPIED_SHARE:
        return []
    return [f"{name}: {share:.1%} of the lines are copied from {source_name} unchanged."]


def _lines(count: int, singular: str, plural: str) -> str:
    return f"1 line {singular}" if count == 1 else f"{count} lines {plural}"
