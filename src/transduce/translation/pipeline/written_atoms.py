"""How the atoms of a translation are written: encoded, words with their tags, tags around the first letter."""

from collections.abc import Mapping, Sequence

from transduce.translation.pipeline.markup import escaped
from transduce.translation.pipeline.sentences import Span
from transduce.translation.pipeline.text_options import Markup


def written_of(
    text: str,
    spans: Sequence[Span],
    words: Mapping[Span, str],
    first: tuple[str, str],
    markup: Markup,
    raw: Sequence[Span],
) -> list[str]:
    """Returns how each atom of a translation is written; of a word with tags, the first atom has all of it.

    Args:
        text: the translation.
        spans: its atoms.
        words: how words are written that have tags, by where they are in it.
        first: what is written around its first letter or digit.
        markup: in which it is written.
        raw: spans of items, which are not encoded.
    """

    def encoded(start: int, end: int) -> str:
        is_raw = any(low <= start and end <= high for low, high in raw)
        return text[start:end] if is_raw else escaped(text[start:end], markup)

    written = [encoded(*span) for span in spans]
    for word, (index, last) in _atoms_of(spans, words).items():
        written[index : last + 1] = [words[word], *[""] * (last - index)]
    if first[0]:
        inside = {i for index, last in _atoms_of(spans, words).values() for i in range(index, last + 1)}
        letters = (i for i, (start, _) in enumerate(spans) if text[start].isalnum() and i not in inside)
        if (at := next(letters, None)) is not None:
            start, end = spans[at]
            written[at] = first[0] + text[start] + first[1] + text[start + 1 : end]  # no sign is in it
        elif written:
            written[0] = first[0] + first[1] + written[0]
    return written


def whole_spans(placed: Sequence[Span], spans: Sequence[Span], words: Mapping[Span, str]) -> list[Span] | None:
    """Returns where the atoms are in the text that was written; each atom of a word with tags is all of it.

    Returns None if something was put into such a word, or if one begins or ends within an atom.

    Args:
        placed: where the atoms are, as `written_of` writes them.
        spans: the atoms of the translation.
        words: see `written_of`.
    """
    found = list(placed)
    atoms_of = _atoms_of(spans, words)
    for index, last in atoms_of.values():
        if found[last][0] > found[index][1]:
            return None
        found[index : last + 1] = [found[index]] * (last + 1 - index)
    return found if len(atoms_of) == len(words) else None


def _atoms_of(spans: Sequence[Span], words: Mapping[Span, str]) -> dict[Span, tuple[int, int]]:
    """Returns the first and the last atom of each word that consists of whole atoms."""
    if not words:
        return {}
    starts = {start: index for index, (start, _) in enumerate(spans)}
    ends = {end: index for index, (_, end) in enumerate(spans)}
    return {word: (starts[word[0]], ends[word[1]]) for word in words if word[0] in starts and word[1] in ends}
