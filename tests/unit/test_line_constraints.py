"""What a line's constraints are, with those of a glossary, and which directions a model serves."""

import pytest

from transduce.decoding.scores import Hypothesis
from transduce.errors import ConfigError, DataError
from transduce.translation.constraints.constrained_search import refusal
from transduce.translation.constraints.glossary import Glossary
from transduce.translation.constraints.line_constraints import Constraints, with_terms
from transduce.translation.constraints.required_terms import missing
from transduce.translation.directions import Directions
from transduce.translation.windows import cut_windows


def test_a_glossary_adds_its_terms_to_those_of_each_line() -> None:
    given = [Constraints(prefix="A", required=(("a",),)), Constraints(), Constraints(required=(("b",),))]
    found = with_terms(given, Glossary({"dog": "Hund"}), ["a dog", "the dog", " "])
    assert found == [
        Constraints(prefix="A", required=(("a",), ("Hund",))),
        Constraints(required=(("Hund",),)),
        Constraints(),  # nothing can be required of white space
    ]
    assert with_terms(given[:2], None, ["a dog", "the dog"]) == given[:2]


def test_words_of_a_longer_term_are_not_terms_of_their_own() -> None:
    glossary = Glossary({"dog": "Hund", "big dog": "Dogge", "dog house": "Hütte"})
    assert glossary.required_in("a big dog house") == (("Dogge",),)
    assert glossary.required_in("a dog house, a big dog, a dog") == (("Hütte",), ("Dogge",), ("Hund",))
    with pytest.raises(DataError, match="'cat': ' ' is empty"):
        Glossary({"cat": ["Katze", " "]})


def test_which_constraints_hold_for_a_line_as_a_whole() -> None:
    each = [Constraints(prefix="a"), Constraints(required=(("a",),)), Constraints(forbidden=("a",)), Constraints()]
    assert [given.bind_whole_line for given in each] == [True, True, False, False]
    assert [bool(given) for given in each] == [True, True, True, False]


def test_a_choice_may_have_a_term_that_is_forbidden() -> None:
    Constraints(required=(("a dog", "cat"),), forbidden=("dog",)).require_valid("x")
    assert missing("IPhone an", [("iPhone",)]) == []  # only the first letter may be another
    assert missing("Iphone an", [("iPhone",)]) == [("iPhone",)]


def test_an_empty_translation_that_is_finished_was_not_refused() -> None:
    forbidden = Constraints(forbidden=("x", "y"))
    assert refusal(Hypothesis([], -1.0, -1.0, True), forbidden) == ()
    assert refusal(Hypothesis([], -1.0, -1.0, False), Constraints()) == ()
    assert refusal(Hypothesis([], -1.0, -1.0, False), forbidden)[0].startswith("no translation without 'x', 'y' was")


def test_lines_without_constraints_are_named() -> None:
    windows = cut_windows(["a", "b", "c", "d"], 2, [Constraints()] * 3, first=5, origin="f, ")
    assert len(next(windows).lines) == 2
    with pytest.raises(DataError, match="f, line 8: there are constraints up to line 7 only"):
        next(windows)


def test_directions_that_are_served() -> None:
    trained = (("en", "de"), ("en", "fr"), ("fr", "en"))
    directions = Directions(trained, ("de", "fr", "en"), ("law",))
    assert directions.served(zero_shot=False) == dict.fromkeys(trained, False)
    assert directions.served(zero_shot=True) == dict.fromkeys(trained, False) | {("fr", "de"): True}
    assert directions.choose(target="de-AT", domain="LAW").tags == ("<2de>", "<domain:law>")
    assert directions.choose(target="en").source == "fr"
    with pytest.raises(ConfigError, match="domain 'law-x': this model does not know it"):
        directions.choose(domain="law-x")
