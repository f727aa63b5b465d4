"""Terms of a glossary in place of the model's own words.

A search that is made to write a term often adds it, and keeps its own word for the same source term: "Der Hund Köter
schläft" for "The dog sleeps" with dog = Köter. To the model that is more probable than "Der Köter schläft". So where a
forced term came out next to the word that it should replace, the translation becomes that without terms, with the word
replaced. The words around it stay as they are, also where they agree with another gender: the term is still reported as
forced. `docs/lab-log.md` has what was tried besides.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from transduce.decoding.scores import Hypothesis, hypothesis
from transduce.text.phrases import phrase_pattern
from transduce.translation.constraints.glossary import Glossary
from transduce.translation.constraints.line_constraints import Constraints
from transduce.translation.constraints.required_terms import Choice, at_start, missing
from transduce.translation.pipeline.atoms import atoms
from transduce.translation.pipeline.sentences import Span
from transduce.translation.pipeline.word_alignment import WordAligner
from transduce.translation.text_model import TextModel


@dataclass(frozen=True, slots=True)
class SearchedLine:
    """A line that was searched with terms."""

    text: str
    source: Sequence[int]
    without_terms: Hypothesis  # the best, before terms were required
    found: list[Hypothesis]
    forced: Sequence[Choice]  # terms of the first that is found
    constraints: Constraints


def put_in_place(
    model: TextModel, glossary: Glossary, lines: Sequence[SearchedLine], length_penalty: float
) -> list[list[Hypothesis]]:
    """Returns what was found for each line; where forced terms are next to the words to replace, the first is another.

    Args:
        model: which searched.
        glossary: has the source terms.
        lines: what was found for each.
        length_penalty: of the scores.
    """
    chosen = [i for i, line in enumerate(lines) if line.forced and line.without_terms.finished]
    decode = model.tokenizer.target.decode_batch
    plain = decode([lines[i].without_terms.ids for i in chosen])
    constrained = decode([lines[i].found[0].ids for i in chosen])
    aligner = WordAligner(model)
    made: dict[int, list[int]] = {}
    for i, free, text in zip(chosen, plain, constrained, strict=True):
        replaced = _replaced(aligner, glossary, lines[i], free, text)
        if replaced is not None:
            [ids] = model.tokenizer.target.encode_batch([replaced])
            longest = max(len(lines[i].without_terms.ids), len(lines[i].found[0].ids))  # which a search has written
            # Not every vocabulary can write all characters.
            if len(ids) <= longest and _is_allowed(decode([ids])[0], lines[i].constraints):
                made[i] = ids
    scores = model.engine.score([lines[i].source for i in made], list(made.values())) if made else []
    results = [line.found for line in lines]
    for (i, ids), values in zip(made.items(), scores, strict=True):
        results[i] = [hypothesis(ids, sum(values), True, length_penalty), *lines[i].found[1:]]
    return results


def _is_allowed(text: str, constraints: Constraints) -> bool:
    """Returns whether a text satisfies the constraints of its line."""
    is_forbidden = constraints.forbidden and phrase_pattern(constraints.forbidden).search(text)
    return text.startswith(constraints.prefix) and not is_forbidden and not missing(text, constraints.required)


def _replaced(aligner: WordAligner, glossary: Glossary, line: SearchedLine, free: str, text: str) -> str | None:
    """Returns the translation without terms with terms in their places; None if `text` needs none, or if it has none.

    Args:
        aligner: aligns the line with its translation.
        glossary: has the source terms.
        line: the line.
        free: its translation without terms.
        text: its translation with them.
    """
    replacements: list[tuple[Span, Choice]] = []
    is_doubled = False
    for choice in missing(free, line.constraints.required):
        spans = [span for span, found in glossary.found_in(line.text) if found == choice]
        words = _words_from(aligner, line.text, free, spans[0]) if len(spans) == 1 else None
        if words is None:
            return None
        replacements.append((words, choice))
        is_doubled |= choice in line.forced and _is_doubled(free[slice(*words)], choice, free, text)
    if not is_doubled:
        return None
    replacements.sort()
    if any(before[1] > after[0] for (before, _), (after, _) in itertools.pairwise(replacements)):
        return None
    result = free
    for (start, end), choice in reversed(replacements):
        result = result[:start] + at_start(choice[0], free[:start]) + result[end:]
    return result


def _words_from(aligner: WordAligner, source: str, target: str, term: Span) -> Span | None:
    """Returns the span of the words that come from a source term, if they are adjacent and no more than its own.

    Where they are more, one of them is often an article or something that belongs to its neighbour.
    """
    links = aligner.links(source, target)
    own = [term[0] <= start and end <= term[1] for (start, end), _ in links]
    if not any(own):
        return None
    first, last = own.index(True), len(own) - 1 - own[::-1].index(True)
    if not all(own[first : last + 1]) or sum(own) > len(atoms(source[slice(*term)])):
        return None
    return links[first][1][0], links[last][1][1]


def _is_doubled(word: str, choice: Choice, free: str, text: str) -> bool:
    """Returns whether a word that a term should replace is in the text with the term as often as in that without."""
    own = phrase_pattern((word,))
    rest = phrase_pattern(choice).sub(" ", text)
    return len(own.findall(rest)) >= len(own.findall(free))
