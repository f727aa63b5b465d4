"""Required terms that came out only because the search was forced to write them, where they do not belong.

A search that must write a term writes it in the end, even after the last word: "Ein Mann schläft. Katze". The text
then holds the term, but is no translation. The model's probability of the term's first token tells the difference. On
Multi30k (docs/lab-log.md) it was below `LEAST` for 91 of 100 random words, and for 17 of 100 words of the reference
that the model had not written by itself. Attention and the position at the end were no better.
"""

from collections.abc import Sequence

from transduce.decoding.scores import Hypothesis
from transduce.text import Tokenizer
from transduce.translation.constraints.required_terms import Choice, shown, term_spellings
from transduce.translation.text_model import TextModel

LEAST = -6.0  # log-probability of a term's first token, given what is before it


def forced_terms(
    model: TextModel, source: Sequence[int], hypotheses: Sequence[Hypothesis], required: Sequence[Choice]
) -> list[tuple[Choice, ...]]:
    """Returns for each hypothesis the choices of which a term came out, but nowhere where the model expected it."""
    tokenizer = model.tokenizer.target
    scores = model.engine.score([source] * len(hypotheses), [each.ids for each in hypotheses])
    spelled = [(choice, term_spellings(choice, tokenizer, capitals=True)) for choice in required]
    return [
        tuple(
            choice
            for choice, spellings in spelled
            # A term that is nowhere counts as expected: there is nothing to say about it.
            if max((values[i] for i in _indices(each.ids, spellings, tokenizer)), default=LEAST) < LEAST
        )
        for each, values in zip(hypotheses, scores, strict=True)
    ]


def _indices(ids: Sequence[int], spellings: Sequence[Sequence[int]], tokenizer: Tokenizer) -> list[int]:
    """Returns where one of the spellings begins, after a space that is a piece of its own."""
    return [
        index + (len(spelling) > 1 and not tokenizer.piece_bytes(spelling[:1])[0].strip())
        for spelling in spellings
        for index in range(len(ids) - len(spelling) + 1)
        if tuple(ids[index : index + len(spelling)]) == tuple(spelling)
    ]


def warnings_of_forced(choices: Sequence[Choice]) -> tuple[str, ...]:
    """Returns the warnings for terms that were forced."""
    return tuple(
        f"the required term {shown(choice)} was forced: the model expected other words at its place."
        for choice in choices
    )
