"""Terms and inline tags, where words are linked as written here by hand."""

import re
from collections.abc import Sequence

import pytest

from transduce.data.modifiers.aligned import Links, inline_tags, terms
from transduce.data.modifiers.draws import Draws

SOURCE, TARGET = "The big dogs run home today.", "Heute laufen die großen Hunde heim."
LINKED = [("The", "die"), ("big", "großen"), ("dogs", "Hunde"), ("run", "laufen"), ("home", "heim"), ("today", "Heute")]


def links_of(source: str, target: str, words: Sequence[tuple[str, str]]) -> Links:
    def span(text: str, word: str) -> tuple[int, int]:
        return text.index(word), text.index(word) + len(word)

    return [(span(source, one), span(target, other)) for one, other in words]


LINKS = links_of(SOURCE, TARGET, LINKED)


def test_terms_stand_beside_their_words() -> None:
    made = {terms(SOURCE, TARGET, Draws(number), LINKS) for number in range(400)}
    sources = {source for source, target in made if target == TARGET}
    assert "The big dogs | Hunde | run home today." in sources
    assert "The big dogs | Hunde | run home | heim | today | Heute |." in sources
    assert SOURCE not in {source for source, _ in made}
    # Of "dogs", "home" and "today", any have their translations; the other words have fewer than four letters.
    assert len({source for source in sources if {*re.findall(r"\| (\w+) \|", source)} <= {*TARGET[:-1].split()}}) == 7


def test_half_of_the_terms_are_made_up_words_of_both_sides() -> None:
    made = [terms(SOURCE, TARGET, Draws(number), LINKS) for number in range(2000)]
    written = [word for source, _ in made for word in re.findall(r"\| (\w+) \|", source)]
    real = {"Hunde", "heim", "Heute"}
    assert 0.4 < sum(word not in real for word in written) / len(written) < 0.5  # some are as the real word
    assert {"Hundeim", "heute", "Heiheim"} <= {*written}
    for source, target in made:
        dogs = re.search(r"dogs \| (\w+) \|", source)
        home = re.search(r"home \| (\w+) \|", source)
        today = re.search(r"today \| (\w+) \|", source)
        words = [found[1] if found else word for found, word in ((today, "Heute"), (dogs, "Hunde"), (home, "heim"))]
        assert target == "{} laufen die großen {} {}.".format(*words)
        for found, is_capital in ((today, True), (dogs, True), (home, False)):
            assert found is None or found[1][0].isupper() == is_capital


def test_a_made_up_word_of_a_line_in_capitals_is_in_capitals() -> None:
    links = links_of("BIG DOGS", "GROSSE HUNDE", [("DOGS", "HUNDE")])
    made = {terms("BIG DOGS", "GROSSE HUNDE", Draws(number), links) for number in range(200)}
    assert all(text.isupper() for pair in made for text in pair)
    assert ("BIG DOGS | HUNDDE |", "GROSSE HUNDDE") in made


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("A Hund", "Ein hund", [("Hund", "hund")]),  # the same word
        ("house 1234", "Haus 12", [("1234", "12")]),
        ("greenhouse", "Haus grün", [("greenhouse", "Haus"), ("greenhouse", "grün")]),  # two links
        ("a dog", "ein Hund", []),
    ],
)
def test_what_is_no_term(source: str, target: str, words: Sequence[tuple[str, str]]) -> None:
    links = links_of(source, target, words)
    assert {terms(source, target, Draws(number), links) for number in range(50)} == {(source, target)}


def test_tags_are_around_a_phrase_and_its_translation() -> None:
    made = {inline_tags(SOURCE, TARGET, Draws(number), LINKS) for number in range(3000)}
    assert ("The <b>big dogs</b> run home today.", "Heute laufen die <b>großen Hunde</b> heim.") in made
    assert ("The big dogs run <x id=1>home</x> today.", "Heute laufen die großen Hunde <x id=1>heim</x>.") in made
    placeholders = {tuple(re.sub(r"{\d}", "{}", text) for text in pair) for pair in made}
    assert ("The big {} dogs run home today.", "Heute laufen die großen {} Hunde heim.") in placeholders
    for source, target in made:
        assert ("<" in source) == ("<" in target)
        assert ">dogs run<" not in source  # "die großen" is between "laufen" and "Hunde"
        assert source.count("</") == target.count("</") <= 1


def test_no_tag_is_put_where_links_cross_out_of_the_phrase() -> None:
    """ "not" and its two words, with the verb between them, are one phrase or none."""
    source, target = "He does not sleep", "Il ne dort pas"
    links = links_of(source, target, [("He", "Il"), ("not", "ne"), ("not", "pas"), ("sleep", "dort")])
    made = {inline_tags(source, target, Draws(number), links) for number in range(2000)}
    assert ("He does <i>not sleep</i>", "Il <i>ne dort pas</i>") in made
    assert ("He does not <i>sleep</i>", "Il ne <i>dort</i> pas") in made
    assert not any("<i>not</i>" in each for each, _ in made)
    assert inline_tags(source, target, Draws(1), []) == (source, target)
