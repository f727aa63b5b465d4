"""Forbidden words come out neither in other pieces nor glued together anew; other words that begin alike may stay."""

import math
from collections.abc import Sequence
from functools import partial

from text_engine import ConstrainedEngine
from transduce.config import DecodeConfig
from transduce.config.special_ids import EOS
from transduce.decoding.scores import hypothesis
from transduce.engines.interface import TokenConstraints
from transduce.text import SubwordTokenizer
from transduce.translation.constraints.constrained_search import constrained_search
from transduce.translation.constraints.line_constraints import Constraints
from transduce.translation.constraints.respellings import respellings
from transduce.translation.translator import Translator

CORPUS = ["die Bibliothek", "die Bibel", "der Biber und ein Thekenbrett", "die Straße derstraße", "am Haus parkhaus"]
TOKENIZER = SubwordTokenizer.train(CORPUS * 9, algorithm="bpe", vocab_size=290)
STREETS = SubwordTokenizer.train(["Straße die Straße am Haus Haus der"] * 9, algorithm="bpe", vocab_size=290)
SURE, NEVER = math.log(0.9), math.log(1e-6)
DIE, WORD = TOKENIZER.encode("die"), TOKENIZER.encode("Bibliotheke")
HALF = len(WORD) // 2
HAUS = [*DIE, *TOKENIZER.encode("Haus")]
AGAIN = [*DIE, *WORD[:HALF], *WORD[1:]]  # as "die Bibibliotheke"
OTHER = [*DIE, *WORD[:HALF], *TOKENIZER.encode("dieber")[len(DIE) :]]  # another word that begins alike
FORBIDDEN = Constraints(forbidden=("Bibliotheke",))


class Scripted(ConstrainedEngine):
    """Says the first of its outputs that holds nothing forbidden; is sure of them, in their order."""

    def __init__(self, *outputs: Sequence[int]) -> None:
        self.outputs = outputs
        self.forbidden: list[tuple[tuple[int, ...], ...]] = []  # of each search

    def output_under(self, constraints: TokenConstraints) -> list[int]:
        self.forbidden.append(constraints.forbidden)
        for ids in self.outputs:
            if not any(tuple(ids[i : i + len(p)]) == p for p in constraints.forbidden for i in range(len(ids))):
                return list(ids)
        return list(self.outputs[-1])

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        return [[self._value([*target[:i], token]) for i, token in enumerate([*target, EOS])] for target in targets]

    def _value(self, begun: Sequence[int]) -> float:
        matching = [index for index, ids in enumerate(self.outputs) if [*ids, EOS][: len(begun)] == begun]
        return SURE - matching[0] if matching else NEVER


def said(engine: Scripted, constraints: Constraints) -> list[int]:
    model = Translator(engine, TOKENIZER, DecodeConfig())
    [[best]], *_ = constrained_search(model, [TOKENIZER.encode("x")], DecodeConfig(), 1, [constraints], ["line 1"])
    return list(best.ids)


def test_the_word_has_several_different_pieces() -> None:
    assert HALF > 0
    assert len(set(WORD)) == len(WORD) > 2
    assert not set(OTHER[len(DIE) + HALF :]) & set(WORD)


def test_a_word_respelled_with_its_pieces_is_searched_again() -> None:
    engine = Scripted([*DIE, *WORD], AGAIN, HAUS)
    assert said(engine, FORBIDDEN) == HAUS
    assert engine.forbidden[0] == ()
    assert tuple(WORD) in engine.forbidden[1]
    assert (DIE[-1], *WORD[:HALF]) in engine.forbidden[2]  # after this word only: others may begin alike
    assert tuple(WORD[:HALF]) not in engine.forbidden[2]


def test_another_word_with_the_same_beginning_may_stay() -> None:
    engine = Scripted([*DIE, *WORD], OTHER, HAUS)
    assert said(engine, FORBIDDEN) == OTHER
    assert len(engine.forbidden) == 2


def found_in(
    tokenizer: SubwordTokenizer,
    engine: Scripted,
    ids: Sequence[int],
    constraints: TokenConstraints,
    *,
    in_context: bool = True,
) -> set[tuple[int, ...]]:
    best = hypothesis(list(ids), -1.0, True, 0.0)
    model = Translator(engine, tokenizer, DecodeConfig())
    return respellings(model, [5], best, constraints, in_context=in_context)


found = partial(found_in, TOKENIZER)


def test_given_tokens_are_no_respelling() -> None:
    engine, forbidden = Scripted(AGAIN), (tuple(WORD),)
    inside = tuple(AGAIN[len(DIE) :])
    for conditions, expected in (
        (TokenConstraints(forbidden=forbidden), {(DIE[-1], *WORD[:HALF])}),
        (TokenConstraints(forbidden=forbidden, prefix=tuple(AGAIN)), set()),
        (TokenConstraints(forbidden=forbidden, required=((inside,),)), set()),
        (TokenConstraints(forbidden=forbidden, required=((tuple(DIE),),)), {(DIE[-1], *WORD[:HALF])}),
        (TokenConstraints(), set()),
    ):
        assert found(engine, AGAIN, conditions) == expected
    alone = found(engine, AGAIN, TokenConstraints(forbidden=forbidden), in_context=False)
    assert alone == {tuple(WORD[:HALF])}
    assert found(engine, AGAIN[len(DIE) :], TokenConstraints(forbidden=forbidden)) == alone  # nothing stands before it


def test_the_forbidden_piece_in_another_word_is_no_respelling() -> None:
    later = [*DIE, *WORD[:HALF], *TOKENIZER.encode("und"), *WORD[HALF:]]
    assert found(Scripted(later), later, TokenConstraints(forbidden=(tuple(WORD),))) == set()


def test_a_word_that_lost_its_space_is_told_from_a_compound() -> None:
    [street], [house] = STREETS.encode("Straße"), STREETS.encode("Haus")
    small = STREETS.encode("derstraße")
    first = next(i for i in range(1, len(small)) if STREETS.decode(small[i:]) == "straße")
    spaced = [*small[:first], street]
    conditions = TokenConstraints(forbidden=((street,), (house,)))
    found = partial(found_in, STREETS)
    assert found(Scripted(spaced, small), small, conditions) == {tuple(small[first - 1 : first + 1])}
    assert found(Scripted(spaced, small), small, conditions, in_context=False) == {(small[first],)}
    assert found(Scripted(small, spaced), small, conditions) == set()  # as in a compound
    assert found(Scripted(spaced), [*small, *STREETS.encode("dien")[-1:]], conditions) == set()  # another word


def test_a_line_without_any_allowed_output_is_left_empty() -> None:
    translator = Translator(Scripted([*DIE, *WORD], AGAIN), TOKENIZER, DecodeConfig())
    [[best]] = translator.translate_n_best(["x"], 1, forbidden=["Bibliotheke"])
    assert best.text == ""
    assert best.warnings == ("no translation without 'Bibliotheke' was found in 20 searches: it is left empty.",)


def test_a_space_piece_is_not_the_beginning_of_a_word() -> None:
    space, house = TOKENIZER.encode("Haus")
    assert not TOKENIZER.piece_bytes([space])[0].strip()
    other = [*DIE, space, WORD[-1], house]
    assert found(Scripted(other), other, TokenConstraints(forbidden=((space, house),))) == set()


def test_the_last_searches_forbid_the_beginning_after_any_word() -> None:
    context = [TOKENIZER.encode(f"die{letter}") for letter in "abcdefghij"]
    evading = [[*each, *WORD[:HALF], *WORD[1:]] for each in context]
    assert len({each[-1] for each in context}) == len(context)
    engine = Scripted([*DIE, *WORD], *evading, OTHER, HAUS)
    assert said(engine, FORBIDDEN) == HAUS
    assert tuple(WORD[:HALF]) not in engine.forbidden[6]
    assert tuple(WORD[:HALF]) in engine.forbidden[7]


def test_a_word_of_several_pieces_that_lost_its_space() -> None:
    glued = TOKENIZER.encode("diebibliotheke")
    first = next(i for i in range(1, len(glued)) if TOKENIZER.decode(glued[i:]) == "bibliotheke")
    conditions = TokenConstraints(forbidden=(tuple(WORD),))
    spaced = [*glued[:first], *WORD]
    assert found(Scripted(spaced, glued), glued, conditions) == {tuple(glued[first - 1 : first + 1])}
    assert found(Scripted(glued, spaced), glued, conditions) == set()
