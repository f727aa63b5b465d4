"""Required terms: the pieces that may spell them, and whether a text holds them.

A choice is a list of terms of which one is enough, such as the forms of a word. A term is found as whole words,
case-sensitive. At the start of a sentence its first letter may be a capital.
"""

import functools
from collections.abc import Iterable, Sequence

from transduce.text import UNK, Tokenizer
from transduce.text.phrases import found_whole, is_in_word

Choice = tuple[str, ...]

_SENTENCE_ENDS = ".!?…:"
_QUOTES = "\"'“”„‘’‚«»‹›()[]¿¡–—- "
# First bytes of characters of several bytes that are no letters, or belong to scripts without spaces.
_OPEN_LEADS = frozenset([0xC2, 0xE2, *range(0xE3, 0xEA), 0xEF, 0xF0])


def term_spellings(choice: Choice, tokenizer: Tokenizer, *, capitals: bool) -> tuple[tuple[int, ...], ...]:
    """Returns the pieces of each term, as after a space or at the start of a line; `capitals` adds both cases.

    A term with characters that the vocabulary lacks has none.
    """
    terms = [*choice, *(capital for term in choice if capitals and (capital := _capitalised(term)) != term)]
    return tuple(dict.fromkeys(tuple(ids) for ids in tokenizer.encode_batch(terms) if UNK not in ids))


@functools.lru_cache(maxsize=4)
def joining_pieces(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Returns the ids of all pieces that continue the word before them: "s", "ly", "1", but not " a" or "."."""
    pieces = tokenizer.piece_bytes(range(tokenizer.vocab_size))
    return tuple(index for index, piece in enumerate(pieces) if piece and _joins(piece))


def _joins(piece: bytes) -> bool:
    for length in range(1, 5):
        try:
            first = piece[:length].decode()
        except UnicodeDecodeError:
            continue
        return is_in_word(first)
    return piece[0] not in _OPEN_LEADS


def missing(text: str, choices: Iterable[Choice]) -> list[Choice]:
    """Returns the choices of which `text` holds no term."""
    return [choice for choice in choices if not any(_holds(text, term) for term in choice)]


def shown(choice: Choice) -> str:
    """Returns a choice for messages: 'Hund' or 'Köter'."""
    return " or ".join(map(repr, choice))


def _holds(text: str, term: str) -> bool:
    if any(True for _ in found_whole(term, text)):
        return True
    capital = _capitalised(term)
    return capital != term and any(_starts_sentence(text, start) for start in found_whole(capital, text))


def at_start(term: str, before: str) -> str:
    """Returns a term as it is written after a text: with a capital where a sentence begins."""
    return _capitalised(term) if _starts_sentence(before, len(before)) else term


def _starts_sentence(text: str, index: int) -> bool:
    before = text[:index].rstrip(_QUOTES)
    return not before or before[-1] in _SENTENCE_ENDS


def _capitalised(term: str) -> str:
    return term[0].title() + term[1:]  # Georgian has capitals for whole words only


def outcome(text: str, choices: Sequence[Choice]) -> tuple[tuple[Choice, bool], ...]:
    """Returns each choice, and whether `text` holds one of its terms."""
    absent = set(missing(text, choices))
    return tuple((choice, choice not in absent) for choice in choices)


def warnings_of(text: str, choices: Sequence[Choice]) -> tuple[str, ...]:
    """Returns a warning for each choice of which `text` holds no term."""
    return tuple(f"the required term {shown(choice)} did not come out." for choice in missing(text, choices))


def choices_of(given: Iterable[str | Sequence[str]]) -> tuple[Choice, ...]:
    """Returns choices from terms and lists of terms."""
    listed = ((each,) if isinstance(each, str) else each for each in given)
    return tuple(tuple(term.strip() for term in each) for each in listed)
