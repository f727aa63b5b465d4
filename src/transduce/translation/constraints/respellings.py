"""Outputs that respell a forbidden word with its own pieces: "Bibibliothek" where "Bibliothek" is forbidden.

A search that may not write a word's last piece continues with another one. Usually that makes another word. Where
nothing else fits, the same pieces are combined anew. Two such cases are found:

    forbidden   " Bib" "liothek"    written   " Bib" "ib" "liothek"     a piece was inserted
    forbidden   " Straße"           written   " der" "straße"           the space is missing

In the first case the word continues with the forbidden piece. In the second case the model gave the word with its space
a higher probability, which tells "derstraße" from "Parkbank". For the first case that probability is no evidence: it is
higher before most inflections, and before other words with the same beginning (docs/lab-log.md).
"""

from collections.abc import Iterator, Sequence

from transduce.decoding.scores import Hypothesis
from transduce.engines.interface import TokenConstraints
from transduce.text import Tokenizer
from transduce.translation.constraints.required_terms import joining_pieces
from transduce.translation.text_model import TextModel

Phrase = tuple[int, ...]


def respellings(
    model: TextModel, source: Sequence[int], hypothesis: Hypothesis, constraints: TokenConstraints, *, in_context: bool
) -> set[Phrase]:
    """Returns the tokens to forbid as well, so that the output does not come again; none if it respells nothing.

    Args:
        model: found the output.
        source: token ids.
        hypothesis: an output for it.
        constraints: those of the search that found it.
        in_context: whether the tokens are forbidden together with the one before them, or alone.
    """
    if not constraints.forbidden:
        return set()
    tokenizer = model.tokenizer.target
    ids, joining = tuple(hypothesis.ids), frozenset(joining_pieces(tokenizer))
    given = _given(ids, constraints)
    found = {
        ids[max(0, index - begun - in_context) : index]
        for phrase in constraints.forbidden
        for index, begun in _insertions(ids, phrase, tokenizer, joining)
        if index not in given
    }
    for phrase in constraints.forbidden:
        for index in _without_space(ids, phrase, tokenizer, joining):
            if index not in given:
                written, spaced = model.engine.score([source] * 2, [ids, (*ids[:index], phrase[0])])
                if spaced[index] > written[index]:
                    found.add(ids[max(0, index - in_context) : index + 1])
    return found


def _insertions(
    ids: Phrase, phrase: Phrase, tokenizer: Tokenizer, joining: frozenset[int]
) -> Iterator[tuple[int, int]]:
    """Yields (index, n): the first n tokens of the phrase end before `index`, the next one comes later in the word.

    Example: of the phrase " Bib", "liothek" and the output " die", " Bib", "ib", "liothek" that is (2, 1).
    """
    spelled = tokenizer.piece_bytes(phrase)
    for index in range(1, len(ids)):
        begun = next(n for n in range(min(len(phrase) - 1, index), -1, -1) if ids[index - n : index] == phrase[:n])
        expected = phrase[begun]
        is_within_word = begun > 0 and expected in joining and bool(spelled[begun - 1].strip())
        if is_within_word and ids[index] != expected and expected in ids[index : _word_end(ids, index, joining)]:
            yield index, begun


def _without_space(ids: Phrase, phrase: Phrase, tokenizer: Tokenizer, joining: frozenset[int]) -> Iterator[int]:
    """Yields where a phrase of one word is the end of a longer word, in any case."""
    if phrase[0] in joining:
        return
    word = tokenizer.decode(phrase).strip().casefold()
    for index in range(1, len(ids)):
        if ids[index] in joining and tokenizer.decode(ids[index - 1 : index]).strip():
            rest = tokenizer.piece_bytes(ids[index : _word_end(ids, index, joining)])
            if b"".join(rest).decode(errors="replace").casefold() == word:
                yield index


def _word_end(ids: Phrase, index: int, joining: frozenset[int]) -> int:
    """Returns the end of the word that the token at `index` continues."""
    while index < len(ids) and ids[index] in joining:
        index += 1
    return index


def _given(ids: Phrase, constraints: TokenConstraints) -> frozenset[int]:
    """Returns the indices of tokens that the model did not choose: of the prefix and of required terms."""
    given = set(range(len(constraints.prefix)))
    for phrase in (phrase for choice in constraints.required for phrase in choice):
        for start in range(len(ids) - len(phrase) + 1):
            if ids[start : start + len(phrase)] == tuple(phrase):
                given |= set(range(start, start + len(phrase)))
    return frozenset(given)
