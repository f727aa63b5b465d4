"""What is asked of a translation, as text: its first words, and phrases that it may not hold.

The search knows token ids only (`engines.interface.Conditions`), and one text has many spellings in pieces. So a prefix
is handed on with the pieces that may complete its last word, and for forbidden phrases the text that comes out is what
counts: a line that holds one is searched again with that spelling forbidden, until none comes out.
"""

import functools
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from transduce.config import DecodeConfig
from transduce.decoding.scores import Hypothesis
from transduce.engines.interface import Conditions, Engine
from transduce.errors import DataError
from transduce.text import SubwordTokenizer

# Scripts that are written without spaces between words: a phrase in one of them is looked for anywhere.
_UNSPACED = r"\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3040-\u30FF\u3400-\u9FFF\uF900-\uFAFF"
_SPACED_WORD = re.compile(rf"[^\W{_UNSPACED}]")

# Searches of one line for outputs without what is forbidden. In the first ones a spelling within a text, as in "(dog",
# is forbidden together with the piece before it, so that "underdog" is not lost; in the last ones by itself.
_MAX_SEARCHES, _SEARCHES_IN_CONTEXT = 20, 6


@dataclass(frozen=True, slots=True)
class Constraints:
    """What is asked of the translation of one line."""

    prefix: str = ""  # how it begins, to the letter; its last word may go on, unless a space ends it
    forbidden: tuple[str, ...] = ()  # phrases that it may not hold, as whole words, capitals as they stand

    def __bool__(self) -> bool:
        return bool(self.prefix or self.forbidden)


def constraints_of(
    num_lines: int, prefixes: Sequence[str] | None, forbidden: Sequence[str] | Sequence[Sequence[str]] | None
) -> list[Constraints] | None:
    """Returns the constraints of each line, or None where there are none.

    Args:
        num_lines: how many lines there are.
        prefixes: one for each line, "" for none.
        forbidden: phrases for all lines, or a list of phrases for each line.

    Raises:
        DataError: there are not as many as there are lines.
    """
    if not prefixes and not forbidden:
        return None
    prefixes = [""] * num_lines if prefixes is None else prefixes
    if isinstance(prefixes, str) or isinstance(forbidden, str):
        raise TypeError("Give a list of prefixes or phrases: for a single one, [text].")
    for_all = tuple(phrase for phrase in forbidden or () if isinstance(phrase, str))
    by_line = [for_all] * num_lines if for_all or not forbidden else [tuple(phrases) for phrases in forbidden]
    for what, given in (("prefixes", prefixes), ("lists of forbidden phrases", by_line)):
        if len(given) != num_lines:
            raise DataError(f"{num_lines} lines and {len(given)} {what}: give one for each line.")
    return [Constraints(prefix, phrases) for prefix, phrases in zip(prefixes, by_line, strict=True)]


def search_within(
    engine: Engine,
    tokenizer: SubwordTokenizer,
    sources: Sequence[Sequence[int]],
    options: DecodeConfig,
    n_best: int,
    constraints: Sequence[Constraints],
    first_line: int = 1,
) -> list[list[Hypothesis]]:
    """Returns what `engine.translate` does, with each source's constraints kept; `first_line` is for errors.

    Raises:
        ConfigError: the engine cannot keep them.
        DataError: a prefix holds what is forbidden, or what is forbidden comes back in ever other spellings.
    """
    conditions = [_conditions(each, tokenizer, line) for line, each in enumerate(constraints, start=first_line)]
    found = engine.translate(sources, options, n_best, conditions)
    open_places = [place for place, each in enumerate(constraints) if each.forbidden]
    for search in range(1, _MAX_SEARCHES + 1):
        wrong = {
            place: spellings
            for place in open_places
            if (spellings := _spellings(found[place], constraints[place].forbidden, tokenizer, search))
        }
        if not wrong:
            return found
        for place, spellings in wrong.items():
            before = conditions[place].forbidden
            conditions[place] = replace(conditions[place], forbidden=tuple(sorted({*before, *spellings})))
        open_places = list(wrong)
        again = engine.translate(
            [sources[place] for place in open_places], options, n_best, [conditions[place] for place in open_places]
        )
        for place, hypotheses in zip(open_places, again, strict=True):
            found[place] = hypotheses
    place = open_places[0]
    phrases = ", ".join(map(repr, constraints[place].forbidden))
    raise DataError(
        f"line {first_line + place}: no translation without {phrases} was found in {_MAX_SEARCHES} searches. "
        "Forbid less, or search with a larger beam."
    )


def _conditions(constraints: Constraints, tokenizer: SubwordTokenizer, line: int) -> Conditions:
    """Returns the prefix in token ids; what is forbidden is looked for in the text first (`search_within`)."""
    if not all(phrase.strip() for phrase in constraints.forbidden):
        raise DataError(f"line {line}: a forbidden phrase is empty or white space.")
    prefix = constraints.prefix
    if "\n" in prefix:
        raise DataError(f"line {line}: the prefix {prefix!r} holds a line break.")
    if constraints.forbidden and (match := _pattern(constraints.forbidden).search(prefix)):
        raise DataError(f"line {line}: the prefix {prefix!r} holds the forbidden phrase {match[0]!r}.")
    if not prefix:
        return Conditions()
    ids = tuple(tokenizer.encode(prefix))
    return Conditions(prefix=ids, completions=_completions(ids, tokenizer))


def _completions(ids: tuple[int, ...], tokenizer: SubwordTokenizer) -> tuple[tuple[int, ...], ...]:
    """Returns for each place of a prefix the pieces that spell all that is left of it, and perhaps more.

    Only within its last word, for a piece never spells more than one. Of "A do", spelled " A", " d", "o", they are at
    the second place " do", " dog", " down" …, at the third "o", "og", "own" …, and none at the first.
    """
    spelled = tokenizer.piece_bytes(ids)
    start = max((place for place, piece in enumerate(spelled) if piece.startswith(b" ")), default=0)
    return tuple(
        tokenizer.ids_beginning_with(b"".join(spelled[place:])) if place >= start else () for place in range(len(ids))
    )


@functools.lru_cache
def _pattern(phrases: tuple[str, ...]) -> re.Pattern[str]:
    """Returns what finds the phrases as whole words: "dog" in "(dog)", and not in "dogs"; in Chinese, anywhere."""
    bounded = []
    for phrase in phrases:
        before = r"(?<!\w)" if _SPACED_WORD.match(phrase[0]) else ""
        after = r"(?!\w)" if _SPACED_WORD.match(phrase[-1]) else ""
        bounded.append(before + re.escape(phrase) + after)
    return re.compile("|".join(bounded))


def _spellings(
    hypotheses: Sequence[Hypothesis], forbidden: tuple[str, ...], tokenizer: SubwordTokenizer, search: int
) -> set[tuple[int, ...]]:
    """Returns the pieces by which hypotheses spell what they may not hold, and the usual ones for the same phrases.

    Where they do not begin with a space, the piece before them belongs to it in the first searches (`_MAX_SEARCHES`).
    """
    found = set()
    for ids in (hypothesis.ids for hypothesis in hypotheses):
        spelled = tokenizer.piece_bytes(ids)
        ends = [0, *itertools.accumulate(map(len, spelled))]
        text = b"".join(spelled).decode("utf-8", errors="surrogateescape")  # gives each byte back, whole or not
        text = text.replace("\n", " ")  # as translations are shown
        for match in _pattern(forbidden).finditer(text):
            first_byte, last_byte = (_num_bytes(text[:at]) for at in match.span())
            first = max(place for place in range(len(ids)) if ends[place] <= first_byte)
            last = min(place for place in range(len(ids)) if ends[place + 1] >= last_byte)
            if search <= _SEARCHES_IN_CONTEXT and first > 0 and ends[first] == first_byte:
                first -= 1
            found |= {tuple(ids[first : last + 1]), tuple(tokenizer.encode(match[0]))}
    return found


def _num_bytes(text: str) -> int:
    return len(text.encode("utf-8", errors="surrogateescape"))
