"""Outputs that evade a forbidden word with its own pieces: "Bibibliothek" where "Bibliothek" is forbidden.

A search that may not write a word's last piece goes on with another one. Most of the time that makes another word; but
where nothing else fits, the pieces are glued together anew. Two shapes are found:

    forbidden   " Bib" "liothek"    written   " Bib" "ib" "liothek"     a piece was put between
    forbidden   " Straße"           written   " der" "straße"           the space is lost

In the first the word goes on with the piece that was forbidden; in the second the model found the word with its space
likelier, which tells "derstraße" from "Parkbank". That the model found the forbidden piece likelier says nothing of the
first kind: it does so before most inflections and other words that begin alike too (docs/lab-log.md).
"""

from collections.abc import Iterator, Sequence

from transduce.decoding.scores import Hypothesis
from transduce.engines.interface import Engine, TokenConstraints
from transduce.text import SubwordTokenizer
from transduce.translation.constraints.terms import joining_pieces

Phrase = tuple[int, ...]


def evasions(
    engine: Engine,
    tokenizer: SubwordTokenizer,
    source: Sequence[int],
    hypothesis: Hypothesis,
    conditions: TokenConstraints,
    *,
    in_context: bool,
) -> set[Phrase]:
    """Returns the tokens to forbid as well, so that the output does not come again; none where it evades nothing.

    Args:
        engine: what searched, and tells probabilities.
        tokenizer: what its tokens are of.
        source: token ids.
        hypothesis: an output for it.
        conditions: those that it was found under.
        in_context: whether the tokens are forbidden together with the one before them, or by themselves.
    """
    if not conditions.forbidden:
        return set()
    ids, joining = tuple(hypothesis.ids), frozenset(joining_pieces(tokenizer))
    given = _given(ids, conditions)
    found = {
        ids[max(0, place - begun - in_context) : place]
        for phrase in conditions.forbidden
        for place, begun in _put_between(ids, phrase, tokenizer, joining)
        if place not in given
    }
    for phrase in conditions.forbidden:
        for place in _glued(ids, phrase, tokenizer, joining):
            if place not in given:
                [written, meant] = engine.score([source] * 2, [ids, (*ids[:place], phrase[0])])
                if meant[place] > written[place]:
                    found.add(ids[max(0, place - in_context) : place + 1])
    return found


def _put_between(
    ids: Phrase, phrase: Phrase, tokenizer: SubwordTokenizer, joining: frozenset[int]
) -> Iterator[tuple[int, int]]:
    """Yields (place, n) where the first n tokens of the phrase were written, and the next but later in the same word.

    Of the phrase " Bib", "liothek" and the output " die", " Bib", "ib", "liothek" that is (2, 1).
    """
    spelled = tokenizer.piece_bytes(phrase)
    for place in range(1, len(ids)):
        begun = next(n for n in range(min(len(phrase) - 1, place), -1, -1) if ids[place - n : place] == phrase[:n])
        meant = phrase[begun]
        is_within_word = begun > 0 and meant in joining and bool(spelled[begun - 1].strip())
        if is_within_word and ids[place] != meant and meant in ids[place : _word_end(ids, place, joining)]:
            yield place, begun


def _glued(ids: Phrase, phrase: Phrase, tokenizer: SubwordTokenizer, joining: frozenset[int]) -> Iterator[int]:
    """Yields where a phrase that is one word stands at the end of a longer word, without its space, in any case."""
    if phrase[0] in joining:
        return
    word = tokenizer.decode(phrase).strip().casefold()
    for place in range(1, len(ids)):
        if ids[place] in joining and tokenizer.decode(ids[place - 1 : place]).strip():
            rest = tokenizer.piece_bytes(ids[place : _word_end(ids, place, joining)])
            if b"".join(rest).decode(errors="replace").casefold() == word:
                yield place


def _word_end(ids: Phrase, place: int, joining: frozenset[int]) -> int:
    """Returns the end of the word that the token at `place` goes on with."""
    while place < len(ids) and ids[place] in joining:
        place += 1
    return place


def _given(ids: Phrase, conditions: TokenConstraints) -> frozenset[int]:
    """Returns the places of tokens that the model did not choose: of the prefix, and of required terms."""
    given = set(range(len(conditions.prefix)))
    for phrase in (phrase for entry in conditions.required for phrase in entry):
        for start in range(len(ids) - len(phrase) + 1):
            if ids[start : start + len(phrase)] == tuple(phrase):
                given |= set(range(start, start + len(phrase)))
    return frozenset(given)
