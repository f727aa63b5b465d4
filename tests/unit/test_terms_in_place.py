"""Terms of a glossary that a search only adds are put in the place of the model's own words."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from text_engine import ConstrainedEngine
from transduce import Translation
from transduce.config import DecodeConfig
from transduce.engines.interface import TokenConstraints
from transduce.text import SubwordTokenizer
from transduce.translation.pipeline import TextOptions
from transduce.translation.translator import Translator

_TEXTS = ["the dog sees the cat", "Der Hund sieht die Katze. Köter Mieze", "Two dogs", "Der Köter"]
TOKENIZER = SubwordTokenizer.train(_TEXTS * 3, algorithm="bpe", vocab_size=400)
UNEXPECTED = -7.0  # log-probability of a piece, with which a term is forced


class Adding(ConstrainedEngine):
    """Writes one text without terms and another with them; words are linked in order, or to the first."""

    def __init__(
        self, free: str, constrained: str, *, in_order: bool = True, log_probability: float = UNEXPECTED
    ) -> None:
        self.outputs = [TOKENIZER.encode(text) for text in (free, constrained)]
        self.in_order, self.log_probability = in_order, log_probability

    def output_under(self, constraints: TokenConstraints) -> list[int]:
        return self.outputs[bool(constraints.required)]

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        return [[self.log_probability] * (len(ids) + 1) for ids in targets]

    def align(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Links the n-th words of both sides, or all words to the first."""
        found = []
        for source, target in zip(sources, targets, strict=True):
            rows, columns = _words(target) if self.in_order else [0] * len(target), _words(source)
            found.append(np.array([[1.0 if row == column else 0.01 for column in columns] for row in rows]))
        return found


def _words(ids: Sequence[int]) -> list[int]:
    """Returns the word that each piece belongs to."""
    starts = [piece.startswith(b" ") for piece in TOKENIZER.piece_bytes(ids)]
    return [sum(starts[1 : i + 1]) for i in range(len(starts))]


def translated(
    source: str, free: str, constrained: str, glossary: Mapping[str, str], *, n_best: int = 1, **options: object
) -> list[Translation]:
    engine = Adding(free, constrained, **options)  # type: ignore[arg-type]
    [found] = Translator(engine, TOKENIZER, DecodeConfig(beam_size=4)).translate_n_best(
        [source], n_best, glossary=glossary
    )
    return found


DOG, BOTH = {"dog": "Köter"}, {"dog": "Köter", "cat": "Mieze"}


@pytest.mark.parametrize(
    ("source", "free", "constrained", "glossary", "expected"),
    [
        ("The dog sees", "Der Hund sieht", "Der Hund Köter sieht", DOG, "Der Köter sieht"),
        ("The dog sees", "Der Hund sieht.", "Der Hund sieht. Köter", DOG, "Der Köter sieht."),
        ("Dog sees", "Hund sieht", "Hund sieht Köter", {"dog": "köter"}, "Köter sieht"),  # with the right capital
        ("Dog sees", "Hund sieht", "Hund sieht köter", {"dog": "köter"}, "Köter sieht"),  # a sentence has a capital
        ("The dog sees the cat", "Der Hund sieht die Katze", "Der Hund sieht die Katze Köter Mieze", BOTH,
         "Der Köter sieht die Mieze"),
        # The own word is gone: the search has found a place.
        ("The dog sees", "Der Hund sieht", "Köter sieht", DOG, "Köter sieht"),
        # More words than the term has: one of them may be an article.
        ("Dog", "Der Hund", "Der Hund Köter", DOG, "Der Hund Köter"),
        # Two dogs of which one is replaced: which, is not known.
        ("The dog sees the dog", "Der Hund sieht die Hund", "Der Hund sieht die Hund Köter", DOG,
         "Der Hund sieht die Hund Köter"),
    ],
)  # fmt: skip
def test_a_term_is_put_in_place(
    source: str, free: str, constrained: str, glossary: dict[str, str], expected: str
) -> None:
    [best] = translated(source, free, constrained, glossary)
    assert best.text == expected


def test_a_term_in_place_is_still_to_be_checked_and_has_its_own_score() -> None:
    [best] = translated("The dog sees", "Der Hund sieht", "Der Hund Köter sieht", DOG)
    assert (best.forced, best.required) == ((("Köter",),), ((("Köter",), True),))
    assert best.log_probability == pytest.approx(UNEXPECTED * (len(TOKENIZER.encode("Der Köter sieht")) + 1))
    assert best.finished


def test_of_a_list_the_first_is_put_in_place() -> None:
    found = translated("The dog sees", "Der Hund sieht", "Der Hund Köter sieht", DOG, n_best=2)
    assert [each.text for each in found] == ["Der Köter sieht", "Der Hund Köter sieht"]


def test_of_several_sentences_the_first_of_a_list_has_all_terms_in_place() -> None:
    engine = Adding("Der Hund sieht.", "Der Hund Köter sieht.")
    translator = Translator(engine, TOKENIZER, DecodeConfig(beam_size=4))
    for n_best in (1, 2):
        [found] = translator.translate_n_best(
            ["The dog sees. The dog sees."],
            n_best,
            glossary=DOG,
            text_options=TextOptions(split="always", language="en"),
        )
        assert found[0].text == "Der Köter sieht. Der Köter sieht."


def test_a_text_longer_than_any_that_was_searched_is_not_made() -> None:
    """A model with learned positions has none for more tokens than its searches may write."""
    glossary = {"dog": "Köter Mieze Köter"}
    free, constrained = "Der Hund sieht die Katze", "Hund Köter Mieze Köter"
    engine = Adding(free, constrained)
    limit = max(map(len, engine.outputs))
    assert len(TOKENIZER.encode("Der Köter Mieze Köter sieht die Katze")) > limit
    score = engine.score

    def limited(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        assert max(map(len, targets)) <= limit, "no position"
        return score(sources, targets)

    engine.score = limited  # type: ignore[method-assign]
    [[best]] = Translator(engine, TOKENIZER, DecodeConfig(beam_size=4)).translate_n_best(
        ["The dog sees the cat"], 1, glossary=glossary
    )
    assert best.text == constrained


def test_what_the_model_expects_is_left_to_it() -> None:
    [best] = translated("The dog sees", "Der Hund sieht", "Der Hund Köter sieht", DOG, log_probability=-5.0)
    assert (best.text, best.forced) == ("Der Hund Köter sieht", ())


def test_without_a_word_of_its_own_a_term_stays_where_it_is() -> None:
    [best] = translated("The dog sees", "Der Hund sieht", "Der Hund Köter sieht", DOG, in_order=False)
    assert best.text == "Der Hund Köter sieht"


def test_required_terms_without_a_source_word_stay_where_they_are() -> None:
    engine = Adding("Der Hund sieht", "Der Hund Köter sieht")
    [[best]] = Translator(engine, TOKENIZER, DecodeConfig(beam_size=4)).translate_n_best(
        ["The dog sees"], 1, required=[["Köter"]]
    )
    assert best.text == "Der Hund Köter sieht"
