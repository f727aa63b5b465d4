"""Relations between words by trees, and heads scored on them: by hand."""

import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from transduce.cli.main import main
from transduce.errors import ConfigError, DataError
from transduce.experiments.paper import figures, head_scores
from transduce.experiments.paper.figures import FiguresOptions
from transduce.experiments.paper.head_scores import heads_to_show, score_heads, written
from transduce.experiments.paper.relations import ANTECEDENT, DISTANT, relations
from transduce.inspection import Unit, View
from transduce.treebank import Tree, normalise, parse_trees


def tree(text: str) -> Tree:
    [found] = parse_trees([text], "test")
    normalised = normalise(found)
    assert normalised is not None
    return normalised


def pairs(text: str) -> set[tuple[str, str, str]]:
    """Returns the relations, by name and the words."""
    found = tree(text)
    words = [leaf.word for leaf in found.leaves()]
    return {(each.name, words[each.dependent], words[each.head]) for each in relations(found)}


def test_relations_of_a_clause() -> None:
    text = (
        "(ROOT (S (NP-SBJ (NP (DT The) (JJ old) (NN dog)) (PP (IN of) (NP (PRP$ my) (NN friend)))) "
        "(VP (MD will) (VP (VB eat) (NP (DT a) (NN bone)) (PP (IN in) (NP (NNP Paris))))) (. .)))"
    )
    assert pairs(text) == {
        ("determiner", "The", "dog"),
        ("adjective", "old", "dog"),
        ("preposition to what it belongs to", "of", "dog"),
        ("preposition to its noun", "of", "friend"),
        ("possessive pronoun", "my", "friend"),
        ("subject", "dog", "eat"),  # not "friend", which is nearer, and not "will"
        (DISTANT, "dog", "eat"),  # five words apart
        ("auxiliary", "will", "eat"),
        ("determiner", "a", "bone"),
        ("object", "bone", "eat"),
        ("preposition to what it belongs to", "in", "eat"),
        ("preposition to its noun", "in", "Paris"),
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (  # not the subject of its own clause's possessive, and not "Paris", a name
            "(S (NP (NNP Paris)) (VP (VBZ sees) (SBAR (IN that) (S (NP (DT the) (NN dog)) "
            "(VP (VBZ chases) (NP (PRP$ its) (NN tail)))))))",
            {("its", "dog")},
        ),
        (  # "they" wants a plural, which a coordination is, too
            "(S (NP (NP (NNP Ann)) (CC and) (NP (NNP Bob))) (VP (VBD met) (NP (DT a) (NN man)) "
            "(SBAR (IN as) (S (NP (PRP they)) (VP (VBD left))))))",
            {("they", "Ann")},
        ),
        (  # a name or a noun of a person for "she"; the earlier pronoun is the same person
            "(S (NP (DT The) (NN woman)) (VP (VBD said) (SBAR (S (NP (DT the) (NN car)) (VP (VBD was) "
            "(NP (PRP hers)))))))",
            {("hers", "woman")},
        ),
        ("(S (NP (PRP It)) (VP (VBZ rains)))", set()),
        ("(S (NP (PRP I)) (VP (VBP see) (NP (PRP$ my) (NN dog))))", set()),
        # In a clause, an object pronoun is not its subject: that would be "itself".
        ("(S (NP (DT The) (NN dog)) (VP (VBZ sees) (NP (PRP it))))", set()),
    ],
)
def test_antecedents(text: str, expected: set[tuple[str, str]]) -> None:
    assert {pair[1:] for pair in pairs(text) if pair[0] == ANTECEDENT} == expected


def test_words_as_people_write_them() -> None:
    sentence = "`` Well , '' he did n't say -LRB- so -RRB- , `` native - like '' ."
    text, numbers = written(sentence.split())
    assert text == '"Well," he didn\'t say (so), "native-like".'
    assert numbers == [0, 0, 0, 0, 1, 2, 2, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5]
    assert written(['"', "No", '"', "she", "'s", "$", "5", "."])[0] == '"No" she\'s $5.'


def sentence(number: int) -> Tree:
    """Returns a sentence of seven words, whose object is one or two words behind its verb."""
    noun = "(NP (DT a) (NN bone))" if number % 4 < 2 else "(NP (NN bone))"
    rest = "(ADVP (RB now))" if number % 4 < 2 else "(ADVP (RB just)) (ADVP (RB now))"
    return tree(f"(S (NP (DT The) (NN dog{number})) (VP (VBZ eats) {noun} {rest}) (. .))")


def seen(text: str) -> View:
    """A tag, the words and </s>; head 1 gives most weight to the tag and </s>, then to "bone"; head 2 to the next."""
    units = [Unit("<2de>", None), *(Unit(word, at) for at, word in enumerate(text.split())), Unit("</s>", None)]
    n = len(units)
    weights = np.full((1, 2, n, n), 0.01)
    weights[0, 0, :, [0, -1]] = 0.9
    weights[0, 0, :, 1 + text.split().index("bone")] = 0.5
    weights[0, 1, np.arange(n - 1), np.arange(1, n)] = 0.5
    return View("encoder", weights, tuple(units), tuple(units))


def test_heads_are_scored_on_other_sentences_than_they_were_chosen_on() -> None:
    said: list[str] = []
    found = score_heads(map(sentence, range(120)), seen, 100, said.append)
    assert found["sentences"] == 100
    assert said == ["50 sentences", "100 sentences"]
    of_object = found["relations"]["object"]
    # Head 1 goes from the verb to the object, at both distances, and a fixed distance is right for a half of them.
    assert (of_object["layer"], of_object["head"], of_object["direction"]) == (1, 1, "head to dependent")
    assert (of_object["cases"], of_object["share"]) == (50, 1.0)
    assert of_object["distance"] in (-1, -2)
    assert of_object["share_at_distance"] == 0.5
    assert of_object["gain"][0] == 0.5
    assert 0.3 < of_object["gain"][1] < 0.5 < of_object["gain"][2] < 0.7  # a half of 50: a deviation of 0.07
    assert of_object["seen"]
    assert of_object["elsewhere"]["cases"] == 25
    assert of_object["elsewhere"]["share"] == 1.0
    # "The" and its noun are next to each other: no head can be better than position is.
    determiner = found["relations"]["determiner"]
    assert determiner["share_at_distance"] == 1.0 or determiner["gain"][0] <= 0
    assert not determiner["seen"]


def test_sentences_that_a_model_does_not_read_whole_are_left_out() -> None:
    def read(text: str) -> View:
        return seen(text if "just" in text else text.rpartition(" ")[0])  # half of the sentences lose their last word

    assert score_heads(map(sentence, range(40)), read, 100, print)["sentences"] == 20


def test_a_gain_by_luck_is_not_seen() -> None:
    """A head that is right in 26 of 50 sentences, where a fixed distance is right in 25 others."""
    sentences = np.arange(50)
    gains = np.where(sentences < 26, 1.0, -1.0)
    low, high = head_scores._interval(gains, sentences)
    assert low < 0.04 < high
    assert -0.35 < low < -0.15  # 0.04 less 1.96 deviations of 0.14


def test_cases_of_a_sentence_are_drawn_together() -> None:
    sentences = np.repeat(np.arange(10), 100)
    gains = np.repeat(np.array([1.0, -1.0] * 5), 100)
    low, high = head_scores._interval(gains, sentences)
    assert high - low > 0.8  # of ten sentences, not of a thousand cases


def test_the_interval_of_many_sentences_takes_little_memory() -> None:
    """Of as many sentences as a large treebank has: all draws at once would be of 40 million sentences."""
    gains = np.ones(20_000)
    tracemalloc.start()
    assert head_scores._interval(gains, np.arange(20_000)) == (1.0, 1.0)
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()


def test_few_cases_have_no_verdict() -> None:
    found = score_heads(map(sentence, range(39)), seen, 39, print)
    assert found["relations"].keys() == {"determiner"}  # the others have 19 in the second half


def test_the_heads_that_are_drawn() -> None:
    gains = {"object": 0.3, DISTANT: -0.1, "subject": 0.5, "adjective": 0.1}
    scored = {name: {"gain": [gain, 0, 0]} for name, gain in gains.items()}
    scored["adjective"]["elsewhere"] = {"gain": [0.4, 0, 0]}  # type: ignore[assignment]
    assert heads_to_show(scored) == [DISTANT, "subject", "adjective"]


def test_figures_with_a_treebank(tmp_path: Path) -> None:
    """Through the command, with a model that is trained for seconds: it has learned nothing, and the table says so."""
    trees = tmp_path / "bank.mrg"
    trees.write_text("\n".join(str(sentence(number)) for number in range(60)), encoding="utf-8")
    output = tmp_path / "figures"
    command = ["paper", "figures", "--scale", "smoke", "--trees", str(trees), "--max-sentences", "50", "--quiet"]
    assert main([*command, "--output", str(output)]) == 0
    table = (output / "table.md").read_text(encoding="utf-8")
    assert "50 sentences." in table
    assert "| object | 25 |" in table
    assert "Heads that these numbers chose" in table
    assert (output / "relations.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("trees", "changes", "error", "message"),
    [
        (None, {"max_sentences": 50}, ConfigError, "--max-sentences has no effect here: it is an option of --trees"),
        ("missing.trees", {}, DataError, "missing.trees: no such file"),
    ],
)
def test_a_treebank_that_cannot_be_read_is_refused_before_anything_is_measured(
    tmp_path: Path, trees: str | None, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    options = FiguresOptions("smoke", tmp_path, trees=[tmp_path / trees] if trees else [], **changes)
    with pytest.raises(error, match=message):
        figures.experiment(options)


def test_another_treebank_of_the_same_name_is_another_setting(tmp_path: Path) -> None:
    trees = tmp_path / "bank.mrg"
    found = []
    for number in (1, 2):
        trees.write_text(str(sentence(number)), encoding="utf-8")
        found.append(figures.experiment(FiguresOptions("smoke", tmp_path, trees=[trees])).settings["trees"])
    assert [each["name"] for [each] in found] == ["bank.mrg"] * 2
    assert found[0] != found[1]


def test_a_treebank_too_small_for_any_verdict_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 18 sentences with two determiners each, each half has 18."""
    trees = tmp_path / "bank.mrg"
    trees.write_text("\n".join(str(sentence(number)) for number in range(18)), encoding="utf-8")
    monkeypatch.setattr(figures.Translator, "load", lambda *_, **__: SimpleNamespace(attend=lambda text, _: text))
    monkeypatch.setattr(figures, "view", lambda text, *_, **__: seen(text))
    with pytest.raises(DataError, match=r"bank.mrg: 18 sentences of 5 to 40 words, and no relation is in 20 places"):
        figures._relations(tmp_path, figures.SENTENCES["smoke"], [trees], 1000, print)
