"""Modifiers that need to know which words translate which: `terms` and `inline_tags`.

    terms         one to three words of the source are followed by their translations: "A dog | Hund | runs."
                  Half of these translations are made-up words, which replace the real ones in the target.
    inline_tags   the same tags are around a phrase and its translation, or the same placeholder is before both

Links come from a word aligner (`transduce.alignment`), as spans of characters. Where they leave no safe place, a pair
stays as it was.
"""

from collections.abc import Sequence

from transduce.data.modifiers.draws import Draws
from transduce.text.phrases import with_translation

Span = tuple[int, int]  # of characters
Links = Sequence[tuple[Span, Span]]  # of words of the source and the target, in the order of the source

_MOST_TERMS = 3
_SHORTEST = 4  # letters of a term in the source
_MADE_UP = 0.5  # of the translations: a model that knows the real one has no reason to read it
_LONGEST_PHRASE = 4  # linked words
_ATTEMPTS = 4
_NAMES = ("b", "i", "u", "a", "em", "strong", "span", "code", "g1", "1", "x id=1")
_TAGGED = 0.7  # of the lines: tags around a phrase; the others get a placeholder


def terms(source: str, target: str, draws: Draws, links: Links) -> tuple[str, str]:
    """Returns the source with translations after one to three of its words, and the target with these translations.

    The real translations are those of Dinu et al. 2019. The made-up ones can only be copied.
    """
    found = [each for each in links if _is_term(source, target, each, links)]
    chosen = {draws.choice(found) for _ in range(min(len(found), draws.between(1, _MOST_TERMS)))}
    words = {link: _translation(target, link[1], draws, found) for link in sorted(chosen)}
    for link in sorted(chosen, reverse=True):
        source = with_translation(source, link[0][1], words[link])
    for link in sorted(chosen, key=lambda link: link[1], reverse=True):
        target = target[: link[1][0]] + words[link] + target[link[1][1] :]
    return source, target


def inline_tags(source: str, target: str, draws: Draws, links: Links) -> tuple[str, str]:
    """Returns both sides with tags around a phrase and its translation, or with a placeholder before them."""
    for _ in range(_ATTEMPTS if links else 0):
        phrase = _phrase((source, target), draws, links)
        if phrase is not None:
            if draws.chance(_TAGGED):
                name = draws.choice(_NAMES)
                marks = f"<{name}>", f"</{name.split()[0]}>"
            else:
                marks = f"{_placeholder(draws)} ", ""
            source, target = (_marked(text, span, marks) for text, span in zip((source, target), phrase, strict=True))
            break
    return source, target


def _is_term(source: str, target: str, link: tuple[Span, Span], links: Links) -> bool:
    """Returns whether a link is the only one of two different words, which are long enough to mean something."""
    word, translation = source[slice(*link[0])], target[slice(*link[1])]
    is_only = sum(link[0] == other or link[1] == translated for other, translated in links) == 1
    return is_only and len(word) >= _SHORTEST and (word + translation).isalpha() and word.lower() != translation.lower()


def _translation(target: str, span: Span, draws: Draws, links: Links) -> str:
    """Returns the word at `span`, or a made-up one: the beginning of a linked word and the end of another."""
    real = target[slice(*span)]
    if not draws.chance(_MADE_UP):
        return real
    first, second = (target[slice(*draws.choice(links)[1])] for _ in range(2))
    made_up = first[: draws.between(1, len(first))] + second[draws.below(len(second)) :]
    if real.isupper():
        return made_up.upper()
    return made_up.capitalize() if real[0].isupper() else made_up.lower()


def _phrase(text: tuple[str, str], draws: Draws, links: Links) -> tuple[Span, Span] | None:
    """Returns the spans of a random phrase and its translation: no link leads from one of them to anywhere else."""
    first = draws.below(len(links))
    within = links[first : first + draws.between(1, _LONGEST_PHRASE)]
    source, target = ((min(link[side][0] for link in within), max(link[side][1] for link in within)) for side in (0, 1))
    if not (text[0][source[0]].isalnum() and text[1][target[0]].isalnum()):
        return None  # it begins with a sign
    for of_source, of_target in links:
        if (source[0] <= of_source[0] < source[1]) != (target[0] <= of_target[0] < target[1]):
            return None
    return source, target


def _placeholder(draws: Draws) -> str:
    number = draws.below(10)
    return draws.choice((f"{{{number}}}", f"%{number}$s", f"<x{number}/>", f"__{number}__", f"[[{number}]]", "%s"))


def _marked(text: str, span: Span, marks: tuple[str, str]) -> str:
    start, end = span
    return f"{text[:start]}{marks[0]}{text[start:end]}{marks[1]}{text[end:]}"
