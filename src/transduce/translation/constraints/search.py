"""What is asked of a translation, as text: its first words, phrases that it may not hold, terms that it must.

The search knows token ids only (`engines.interface.TokenConstraints`), and one text has many spellings in pieces. So a
prefix is handed on with the pieces that may complete its last word, and for forbidden phrases the text that comes out
is what counts: a line that holds one is searched again with that spelling forbidden, until none comes out. A line whose
terms come by themselves keeps the translation that it has without them; the others are searched again with the terms in
the beam.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from transduce.config import DecodeConfig
from transduce.decoding.scores import Hypothesis, hypothesis
from transduce.engines.interface import Engine, TokenConstraints
from transduce.errors import DataError
from transduce.reporting.tables import counted
from transduce.text import SubwordTokenizer
from transduce.text.phrases import phrase_pattern
from transduce.translation.constraints.evasions import evasions
from transduce.translation.constraints.glossary import Glossary
from transduce.translation.constraints.terms import Choice, choices_of, joining_pieces, missing, shown, term_spellings

T = TypeVar("T")
Whole = Callable[[list[str], list["Constraints"], list[int]], list[T]]

# Searches of one line for outputs without what is forbidden. In the first ones a spelling within a text, as in "(dog",
# is forbidden together with the piece before it, so that "underdog" is not lost; in the last ones by itself.
_WIDE_BEAM = 8  # at least, of the last search for terms
_MAX_SEARCHES, _SEARCHES_IN_CONTEXT = 20, 6


@dataclass(frozen=True, slots=True)
class Constraints:
    """What is asked of the translation of one line."""

    prefix: str = ""  # how it begins, to the letter; its last word may go on, unless a space ends it
    forbidden: tuple[str, ...] = ()  # phrases that it may not hold, as whole words, capitals as they stand
    required: tuple[Choice, ...] = ()  # of each choice, one term must stand in it, as whole words: see `terms`

    def __bool__(self) -> bool:
        return bool(self.prefix or self.forbidden or self.required)

    @property
    def is_of_parts(self) -> bool:
        """Whether it can be asked of each sentence of a line, and of text between marks: that phrases do not occur."""
        return not self.prefix and not self.required


def constraints_of(
    num_lines: int,
    prefixes: Sequence[str] | None,
    forbidden: Sequence[str] | Sequence[Sequence[str]] | None,
    required: Sequence[Sequence[str | Sequence[str]]] | None = None,
) -> list[Constraints] | None:
    """Returns the constraints of each line, or None where there are none.

    Args:
        num_lines: how many lines there are.
        prefixes: one for each line, "" for none.
        forbidden: phrases for all lines, or a list of phrases for each line.
        required: for each line a list of terms, or of lists of terms to choose from.

    Raises:
        DataError: there are not as many as there are lines.
    """
    if not prefixes and not forbidden and not required:
        return None
    prefixes = [""] * num_lines if prefixes is None else prefixes
    if isinstance(prefixes, str) or isinstance(forbidden, str):
        raise TypeError("Give a list of prefixes or phrases: for a single one, [text].")
    for_all = tuple(phrase for phrase in forbidden or () if isinstance(phrase, str))
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
    return [Constraints(*parts) for parts in zip(prefixes, by_line, choices, strict=True)]


def apart(
    lines: Sequence[str],
    constraints: Sequence[Constraints],
    in_parts: Callable[[list[str], tuple[str, ...]], list[T]],
    whole: Whole[T],
    may_be_cut: Callable[[str], bool],
) -> list[T]:
    """Returns in order what is found for each line; what is asked of one changes nothing for another.

    `in_parts` takes lines that may be cut, and the phrases that are forbidden in all of them. `whole` takes lines,
    their constraints and their places: those with a prefix or required terms, and, together with them, those that will
    not be cut, whatever is forbidden in each.
    """
    groups: dict[tuple[str, ...] | None, list[int]] = {}
    for place, (line, asked) in enumerate(zip(lines, constraints, strict=True)):
        is_whole = bool(asked) and not (asked.is_of_parts and may_be_cut(line))
        groups.setdefault(None if is_whole else asked.forbidden, []).append(place)
    results: dict[int, T] = {}
    for forbidden, places in groups.items():
        texts = [lines[place] for place in places]
        if forbidden is None:
            found = whole(texts, [constraints[place] for place in places], places)
        else:
            found = in_parts(texts, forbidden)
        results |= dict(zip(places, found, strict=True))
    return [results[place] for place in range(len(lines))]


def with_terms(
    constraints: Sequence[Constraints], glossary: Glossary | None, texts: Sequence[str]
) -> list[Constraints]:
    """Returns the constraints of each text with what the glossary asks of it; of an empty one no term is asked."""
    found = []
    for each, text in zip(constraints, texts, strict=True):
        terms = (*each.required, *(glossary.required_in(text) if glossary is not None else ())) if text else ()
        found.append(each if terms == each.required else replace(each, required=tuple(dict.fromkeys(terms))))
    return found


def search_within(
    engine: Engine,
    tokenizer: SubwordTokenizer,
    sources: Sequence[Sequence[int]],
    options: DecodeConfig,
    n_best: int,
    constraints: Sequence[Constraints],
    names: Sequence[str] | None = None,
    made_to_hold: set[int] | None = None,
) -> list[list[Hypothesis]]:
    """Returns what `engine.translate` does, with each source's constraints kept; `names` of lines are for errors.

    Into `made_to_hold` go the indices of the sources whose outputs did not hold their terms until the search was made
    to look for them.

    Where what is forbidden comes back in ever other spellings, nothing is written: an unfinished output of no tokens.

    Raises:
        ConfigError: the engine cannot keep them.
        DataError: a prefix or required term holds what is forbidden, or is none.
    """
    names = names or [f"line {number}" for number in range(1, len(constraints) + 1)]
    conditions = [_conditions(each, tokenizer, name) for name, each in zip(names, constraints, strict=True)]
    if terms := [each.required for each in constraints if each.required]:
        # A source without tokens is not run, but what is asked of it is checked: an engine or a search that cannot look
        # for terms says so before any line is translated, whether the terms would have come by themselves or not.
        asked = TokenConstraints(required=tuple(term_spellings(each, tokenizer, capitals=False) for each in terms[0]))
        engine.translate([()], options, n_best, [asked])
    found = engine.translate(sources, options, n_best, conditions)
    if terms:
        _search_for_terms(engine, tokenizer, sources, options, n_best, constraints, conditions, found)

    def evading(place: int, *, in_context: bool) -> set[tuple[int, ...]]:
        return set().union(
            *(
                evasions(engine, tokenizer, sources[place], each, conditions[place], in_context=in_context)
                for each in found[place]
            )
        )

    open_places = [place for place, each in enumerate(constraints) if each.forbidden]
    for search in range(1, _MAX_SEARCHES + 1):
        wrong = {
            place: spellings
            for place in open_places
            if (
                spellings := _spellings(found[place], constraints[place].forbidden, tokenizer, search)
                | evading(place, in_context=search <= _SEARCHES_IN_CONTEXT)
            )
        }
        open_places = list(wrong)
        if not wrong:
            break
        for place, spellings in wrong.items():
            before = conditions[place].forbidden
            conditions[place] = replace(conditions[place], forbidden=tuple(sorted({*before, *spellings})))
            if constraints[place].required and not conditions[place].required:  # they came by themselves, until now
                conditions[place] = _requiring(conditions[place], constraints[place], tokenizer, capitals=True)
        again = engine.translate(
            [sources[place] for place in open_places], options, n_best, [conditions[place] for place in open_places]
        )
        for place, hypotheses in zip(open_places, again, strict=True):
            found[place] = hypotheses
    for place in open_places:
        kept = [
            each
            for each in found[place]
            if not evasions(engine, tokenizer, sources[place], each, conditions[place], in_context=True)
        ]
        found[place] = _without(constraints[place].forbidden, kept, tokenizer) or [
            hypothesis([], sum(engine.score([sources[place]], [[]])[0]), False, options.length_penalty)
        ]
    if made_to_hold is not None:
        made_to_hold |= {place for place, each in enumerate(conditions) if each.required}
    return found


def refusal(found: Hypothesis, asked: Constraints) -> tuple[str, ...]:
    """Returns what is to be said where `search_within` found nothing that does not hold what is forbidden."""
    if not asked.forbidden or found.ids or found.finished:
        return ()
    phrases = ", ".join(map(repr, asked.forbidden))
    return (f"no translation without {phrases} was found in {_MAX_SEARCHES} searches: it is left empty.",)


def _without(
    forbidden: Sequence[str], hypotheses: Sequence[Hypothesis], tokenizer: SubwordTokenizer
) -> list[Hypothesis]:
    pattern = phrase_pattern(forbidden)
    texts = tokenizer.decode_batch([each.ids for each in hypotheses])
    return [each for each, text in zip(hypotheses, texts, strict=True) if not pattern.search(text.replace("\n", " "))]


def _search_for_terms(
    engine: Engine,
    tokenizer: SubwordTokenizer,
    sources: Sequence[Sequence[int]],
    options: DecodeConfig,
    n_best: int,
    constraints: Sequence[Constraints],
    conditions: list[TokenConstraints],
    found: list[list[Hypothesis]],
) -> None:
    """Searches again, in place, where terms do not come out: for both cases of their first letter, then as they stand.

    The second of these is for a capital that was written within a sentence, and has a wider beam for what does not end
    in time. `conditions` becomes what each line was searched with last.
    """
    for capitals in (True, False):
        places = [
            place
            for place, each in enumerate(constraints)
            if each.required and sources[place] and _terms_missing(found[place], each.required, tokenizer)
        ]
        if not places:
            return
        for place in places:
            conditions[place] = _requiring(conditions[place], constraints[place], tokenizer, capitals=capitals)
        wide = options if capitals else replace(options, beam_size=max(_WIDE_BEAM, options.beam_size))
        again = engine.translate(
            [sources[place] for place in places], wide, n_best, [conditions[place] for place in places]
        )
        for place, hypotheses in zip(places, again, strict=True):
            found[place] = hypotheses


def _requiring(
    conditions: TokenConstraints, constraints: Constraints, tokenizer: SubwordTokenizer, *, capitals: bool
) -> TokenConstraints:
    """Returns the conditions with the terms in pieces."""
    required = tuple(term_spellings(each, tokenizer, capitals=capitals) for each in constraints.required)
    return replace(conditions, required=required, joining=joining_pieces(tokenizer))


def _terms_missing(hypotheses: Sequence[Hypothesis], required: tuple[Choice, ...], tokenizer: SubwordTokenizer) -> bool:
    texts = tokenizer.decode_batch([hypothesis.ids for hypothesis in hypotheses])
    return any(missing(text.replace("\n", " "), required) for text in texts)


def _conditions(constraints: Constraints, tokenizer: SubwordTokenizer, name: str) -> TokenConstraints:
    """Returns the prefix in token ids; what is forbidden is looked for in the text first (`search_within`)."""
    if not all(phrase.strip() for phrase in constraints.forbidden):
        raise DataError(f"{name}: a forbidden phrase is empty or white space.")
    for choice in constraints.required:
        if not choice or any(not term.strip() or "\n" in term for term in choice):
            raise DataError(f"{name}: a required term is empty, white space, or holds a line break.")
        if constraints.forbidden and all(phrase_pattern(constraints.forbidden).search(term) for term in choice):
            raise DataError(f"{name}: {shown(choice)} is required, and holds a forbidden phrase.")
    prefix = constraints.prefix
    if "\n" in prefix:
        raise DataError(f"{name}: the prefix {prefix!r} holds a line break.")
    if constraints.forbidden and (match := phrase_pattern(constraints.forbidden).search(prefix)):
        raise DataError(f"{name}: the prefix {prefix!r} holds the forbidden phrase {match[0]!r}.")
    if not prefix:
        return TokenConstraints()
    ids = tuple(tokenizer.encode(prefix))
    return TokenConstraints(prefix=ids, completions=_completions(ids, tokenizer))


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


def _spellings(
    hypotheses: Sequence[Hypothesis], forbidden: tuple[str, ...], tokenizer: SubwordTokenizer, search: int
) -> set[tuple[int, ...]]:
    """Returns the pieces by which hypotheses spell what they may not hold, and the usual ones for the same phrases.

    Where they do not begin with a space, the piece before them belongs to it in the first searches (`_MAX_SEARCHES`).
    """
    found = set()
    for ids in (each.ids for each in hypotheses):
        spelled = tokenizer.piece_bytes(ids)
        ends = [0, *itertools.accumulate(map(len, spelled))]
        text = b"".join(spelled).decode("utf-8", errors="surrogateescape")  # gives each byte back, whole or not
        text = text.replace("\n", " ")  # as translations are shown
        for match in phrase_pattern(forbidden).finditer(text):
            first_byte, last_byte = (_num_bytes(text[:at]) for at in match.span())
            first = max(place for place in range(len(ids)) if ends[place] <= first_byte)
            last = min(place for place in range(len(ids)) if ends[place + 1] >= last_byte)
            if search <= _SEARCHES_IN_CONTEXT and first > 0 and ends[first] == first_byte:
                first -= 1
            found |= {tuple(ids[first : last + 1]), tuple(tokenizer.encode(match[0]))}
    return found


def _num_bytes(text: str) -> int:
    return len(text.encode("utf-8", errors="surrogateescape"))
