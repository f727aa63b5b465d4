"""Required terms that came out only because they had to, where the model saw no place for them.

A search that must write a term writes it in the end, be it behind the last word: "Ein Mann schläft. Katze". Such a term
stands in the text, and the text is no translation. What tells it is the probability that the model gave to the term's
first token there: on Multi30k (docs/lab-log.md) it was below `LEAST` for 91 of 100 words drawn by chance, and for 17 of
100 words of the reference that the model had not written by itself. Attention and the place at the end told no more.
"""

from collections.abc import Sequence

from transduce.decoding.scores import Hypothesis
from transduce.engines.interface import Engine
from transduce.text import SubwordTokenizer
from transduce.translation.constraints.terms import Choice, shown, term_spellings

LEAST = -6.0  # log-probability of a term's first token, given what stands before it


def forced_terms(
    engine: Engine,
    tokenizer: SubwordTokenizer,
    source: Sequence[int],
    hypotheses: Sequence[Hypothesis],
    required: Sequence[Choice],
) -> list[tuple[Choice, ...]]:
    """Returns for each hypothesis the choices of which a term came out, and none where the model saw a place for it."""
    scores = engine.score([source] * len(hypotheses), [each.ids for each in hypotheses])
    spelled = [(choice, term_spellings(choice, tokenizer, capitals=True)) for choice in required]
    return [
        tuple(
            choice
            for choice, spellings in spelled
            if (found := [values[place] for place in _places(each.ids, spellings, tokenizer)]) and max(found) < LEAST
        )
        for each, values in zip(hypotheses, scores, strict=True)
    ]


def _places(ids: Sequence[int], spellings: Sequence[Sequence[int]], tokenizer: SubwordTokenizer) -> list[int]:
    """Returns where one of the spellings begins; a space that is a piece of its own says nothing of the word."""
    return [
        place + (len(spelling) > 1 and not tokenizer.piece_bytes(spelling[:1])[0].strip())
        for spelling in spellings
        for place in range(len(ids) - len(spelling) + 1)
        if tuple(ids[place : place + len(spelling)]) == tuple(spelling)
    ]


def warnings_of_forced(choices: Sequence[Choice]) -> tuple[str, ...]:
    """Returns what is to be said of terms that were forced."""
    return tuple(
        f"the required term {shown(choice)} was forced: the model saw no place for it where it stands."
        for choice in choices
    )
