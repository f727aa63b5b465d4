"""Constraints as text: the token ids that they become, and the text that comes out."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from text_engine import ConstrainedEngine
from transduce.config import DecodeConfig
from transduce.decoding.scores import Hypothesis
from transduce.engines.interface import TokenConstraints
from transduce.errors import ConfigError, DataError
from transduce.text import SubwordTokenizer
from transduce.translation.constraints.constrained_search import constrained_search
from transduce.translation.constraints.line_constraints import Constraints, constraints_of
from transduce.translation.constraints.required_terms import missing
from transduce.translation.pipeline import TextOptions
from transduce.translation.translator import Translator

_CORPUS = ["A dog runs.", "dogs (and underdogs) do run", "Two dogs run over the green grass.", "日本語の犬"] * 3
_TOKENIZER = SubwordTokenizer.train(_CORPUS, algorithm="bpe", vocab_size=320)


class Babbler(ConstrainedEngine):
    """Writes random pieces, as its conditions allow; what it wrote before is not forbidden to it otherwise."""

    def __init__(self, lines: Sequence[str] = ()) -> None:
        self.lines = list(lines)  # said first, where nothing in them is forbidden in these very pieces
        self.calls: list[int] = []

    def translate(self, sources: Sequence[Sequence[int]], *given: Any) -> list[list[Hypothesis]]:
        self.calls.append(len(sources))
        return super().translate(sources, *given)

    def hypotheses(
        self, source: Sequence[int], constraints: TokenConstraints, options: DecodeConfig, n_best: int
    ) -> list[Hypothesis]:
        return [self._say(source, constraints)]

    def _say(self, source: Sequence[int], constraints: TokenConstraints) -> Hypothesis:
        for line in self.lines:
            for ids in _spellings_of(line):
                if not any(_holds(ids, phrase) for phrase in constraints.forbidden):
                    return Hypothesis(ids, -1.0, -1.0, True)
        ids: list[int] = []
        dice = random.Random(str(source))
        index = 0
        while index < len(constraints.prefix):
            if constraints.completions[index] and dice.random() < 0.5:
                ids.append(dice.choice(constraints.completions[index]))
                break
            ids.append(constraints.prefix[index])
            index += 1
        ids += [dice.randrange(4, _TOKENIZER.vocab_size) for _ in range(3)]
        return Hypothesis(ids, -1.0, -1.0, True)

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        return [[-1.0] * (len(target) + 1) for target in targets]

    def align(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Tells nothing."""
        return [np.zeros((len(target), len(source))) for source, target in zip(sources, targets, strict=True)]


def _holds(ids: Sequence[int], phrase: Sequence[int]) -> bool:
    return any(tuple(ids[i : i + len(phrase)]) == tuple(phrase) for i in range(len(ids)))


def _spellings_of(line: str) -> list[list[int]]:
    """The usual one, that letter by letter, and those between."""
    usual = _TOKENIZER.encode(line)
    letters = [_TOKENIZER.ids_beginning_with(bytes([b])) for b in b"".join(_TOKENIZER.piece_bytes(usual))]
    single = [min(ids, key=lambda i: len(_TOKENIZER.piece_bytes([i])[0])) for ids in letters]
    sizes = [len(piece) for piece in _TOKENIZER.piece_bytes(usual)]
    between = [usual[:n] + single[sum(sizes[:n]) :] for n in range(len(usual))]
    return [usual, *reversed(between)]


def _search(engine: Babbler, sources: Sequence[str], constraints: Sequence[Constraints]) -> list[str]:
    ids = [_TOKENIZER.encode(source) for source in sources]
    model, names = Translator(engine, _TOKENIZER, DecodeConfig()), [f"in, line {8 + i}" for i in range(len(ids))]
    found, *_ = constrained_search(model, ids, DecodeConfig(), 1, constraints, names)
    return [_TOKENIZER.decode(best.ids) for [best] in found]


@settings(max_examples=75, deadline=None)
@given(st.text(alphabet="dogsrun (.,é日本 ", max_size=12), st.integers(0, 50))
def test_a_prefix_comes_out_to_the_letter(prefix: str, seed: int) -> None:
    [text] = _search(Babbler(), [f"source {seed}"], [Constraints(prefix=prefix)])
    assert text.startswith(prefix)


def test_the_last_word_of_a_prefix_may_be_completed() -> None:
    heard: list[TokenConstraints] = []

    class Listener(Babbler):
        def _say(self, source: Sequence[int], constraints: TokenConstraints) -> Hypothesis:
            heard.append(constraints)
            return Hypothesis(list(constraints.prefix), -1.0, -1.0, True)

    _search(Listener(), ["x", "x"], [Constraints(prefix="Two do"), Constraints(prefix="Two ")])
    word, space = heard
    assert len(word.completions) == len(word.prefix)
    first = next(index for index, tokens in enumerate(word.completions) if tokens)
    assert b"".join(_TOKENIZER.piece_bytes(word.prefix[first:])) == b" do"  # none before the last word
    completed = {piece.decode() for piece in _TOKENIZER.piece_bytes(word.completions[first])}
    assert " dog" in completed
    assert all(piece.startswith(" do") for piece in completed)
    assert {piece[:1] for piece in _TOKENIZER.piece_bytes(space.completions[-1])} == {b" "}


@pytest.mark.parametrize(
    ("line", "phrase", "instead"),
    [
        ("A dog runs.", "dog", "Two run"),
        ("(dog) runs", "dog", "A"),  # no space before
        ("A dog runs.", "dog runs", "A dog"),
        ("run, dog", "dog", "run"),  # at the end
        ("日本語の犬", "本語", "犬"),  # no words to be whole
        ("A\ndog", "A dog", "A"),  # shown as a space
    ],
)
def test_a_forbidden_phrase_comes_out_in_no_spelling(line: str, phrase: str, instead: str) -> None:
    engine = Babbler([line, instead])
    [text] = _search(engine, ["x"], [Constraints(forbidden=(phrase,))])
    assert text == instead
    assert 2 < len(engine.calls) <= 21  # one spelling after another


@pytest.mark.parametrize(
    ("line", "phrase"), [("Two dogs run.", "dog"), ("underdog", "dog"), ("A Dog", "dog"), ("do gs", "dogs")]
)
def test_what_only_looks_like_a_forbidden_phrase_may_stay(line: str, phrase: str) -> None:
    engine = Babbler([line])
    assert _search(engine, ["x"], [Constraints(forbidden=(phrase,))]) == [line]
    assert engine.calls == [1]  # and costs nothing


def test_only_lines_that_hold_it_are_searched_again() -> None:
    engine = Babbler(["A dog runs.", "Two run"])
    constraints = [Constraints(), Constraints(forbidden=("dog",)), Constraints(forbidden=("cat",))]
    assert _search(engine, ["x", "y", "z"], constraints) == ["A dog runs.", "Two run", "A dog runs."]
    assert engine.calls[0] == 3
    assert set(engine.calls[1:]) == {1}


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (
            Constraints(prefix="A dog", forbidden=("dog",)),
            "^in, line 8: the prefix 'A dog' holds the forbidden phrase 'dog'",
        ),
        (Constraints(prefix="A\ndog"), "^in, line 8: the prefix .* holds a line break"),
        (Constraints(forbidden=(" ",)), "^in, line 8: a forbidden phrase is empty"),
    ],
)
def test_contradictions_are_refused_by_their_line(constraints: Constraints, message: str) -> None:
    with pytest.raises(DataError, match=message):
        _search(Babbler(), ["x"], [constraints])


class Deaf(Babbler):
    """Says a dog, whatever the constraints; its second best output is that two run."""

    def hypotheses(
        self, source: Sequence[int], constraints: TokenConstraints, options: DecodeConfig, n_best: int
    ) -> list[Hypothesis]:
        return [Hypothesis(_TOKENIZER.encode(text), -1.0, -1.0, True) for text in ("A dog", "Two run")[:n_best]]


def test_a_forbidden_phrase_is_never_written_even_if_nothing_else_is_found() -> None:
    engine = Deaf()
    translator = Translator(engine, _TOKENIZER, DecodeConfig())
    [[first], [second]] = translator.translate_n_best(["x", "y"], 1, forbidden=[["dog"], ["run"]])
    assert (first.text, first.log_probability, first.finished) == ("", -1.0, False)
    assert first.warnings == ("no translation without 'dog' was found in 20 searches: it is left empty.",)
    assert (second.text, second.warnings) == ("A dog", ())
    assert engine.calls == [2] + [1] * 20
    [found] = translator.translate_n_best(["x"], 2, forbidden=["dog"])
    assert [(each.text, each.warnings) for each in found] == [("Two run", ())]


class Echo(Babbler):
    """Says its source, with x for the last piece of what is forbidden."""

    def _say(self, source: Sequence[int], constraints: TokenConstraints) -> Hypothesis:
        ids, (*_, x) = list(source), _TOKENIZER.encode("x")
        for phrase in constraints.forbidden:
            for end in range(len(phrase), len(ids) + 1):
                if tuple(ids[end - len(phrase) : end]) == tuple(phrase):
                    ids[end - 1] = x
        return Hypothesis(ids, -1.0, -1.0, True)


def test_a_contradiction_of_two_files_names_the_sentence() -> None:
    translator = Translator(Echo(), _TOKENIZER, DecodeConfig())
    keywords = {"glossary": {"dog": "Hund"}, "forbidden": ["Hund"], "text_options": TextOptions(split="always")}
    with pytest.raises(DataError, match=r"^'A dog runs\.': 'Hund' is required, and holds a forbidden phrase"):
        translator.translate(["Two run. A dog runs."], **keywords)  # type: ignore[arg-type]


def test_a_list_has_n_best_outputs_whatever_its_neighbours_found() -> None:
    class Listing(Obliging):
        def hypotheses(
            self, source: Sequence[int], constraints: TokenConstraints, options: DecodeConfig, n_best: int
        ) -> list[Hypothesis]:
            found = super().hypotheses(source, constraints, options, n_best)
            return found * n_best if constraints.required else found  # at first, one output only has ended

    engine = Listing(["A dog", "Two run"])
    constraints = [Constraints(required=(("cat",),)), Constraints(required=(("man",),))]
    ids = [_TOKENIZER.encode(text) for text in ("x", "y")]
    model = Translator(engine, _TOKENIZER, DecodeConfig())
    found, *_ = constrained_search(model, ids, DecodeConfig(), 3, constraints, ["x", "y"])
    assert [len(each) for each in found] == [3, 3]


def test_a_single_folder_is_not_an_ensemble() -> None:
    with pytest.raises(TypeError, match="a list of model folders"):
        Translator.load("model", ensemble="models/b")


def test_phrases_are_forbidden_in_each_sentence_of_a_line() -> None:
    """A long line is cut, and marks are kept, whatever is forbidden; with a prefix, neither."""
    translator = Translator(Echo(), _TOKENIZER, DecodeConfig())
    phrase = "grass"
    long = "Two dogs run over the grass. " * 30
    [[best]] = translator.translate_n_best([long], 1, forbidden=[phrase])
    assert best.num_parts > 1
    assert not best.source_truncated
    assert best.text.count("dogs run") == 30
    assert phrase not in best.text
    text_options = TextOptions(markup="html", guard=True)
    given = ["Two <b>dogs</b> run over the grass.", "A dog runs."]
    marked, other = translator.translate(given, forbidden=[[phrase], []], text_options=text_options)
    assert "<b>" in marked
    assert phrase not in marked
    assert other == given[1]
    with pytest.raises(ConfigError, match="markup = 'html' does not go with prefixes"):
        translator.translate(given, prefixes=["", "A"], text_options=text_options)


def test_constraints_from_keywords() -> None:
    assert constraints_of(["a", "b"], None, None) is None
    assert constraints_of(["a", "b"], ["A", ""], None) == [Constraints("A"), Constraints()]
    assert constraints_of(["a", "b"], None, ["dog", "cat"]) == [Constraints(forbidden=("dog", "cat"))] * 2
    assert constraints_of(["a", "b"], None, [["dog"], []]) == [Constraints(forbidden=("dog",)), Constraints()]
    with pytest.raises(DataError, match="2 lines and 1 prefixes"):
        constraints_of(["a", "b"], ["A"], None)
    with pytest.raises(DataError, match="2 lines and 3 lists of forbidden phrases"):
        constraints_of(["a", "b"], None, [["dog"], [], []])
    with pytest.raises(TypeError, match="list"):
        constraints_of(["a", "b"], "AB", None)
    for mixed in (["dog", ["cat"]], [["cat"], "dog"]):
        with pytest.raises(TypeError, match="for all lines, or a list of them for each line"):
            constraints_of(["a", "b"], None, mixed)  # type: ignore[arg-type]


@pytest.mark.parametrize("lines", ["dog", [b"dog"], [None], None, {"dog"}, {"dog": "cat"}, iter(["dog"]), b"dog", 5])
def test_lines_are_a_list_of_strings(lines: Any) -> None:
    with pytest.raises(TypeError, match="Give a list of lines"):
        constraints_of(lines, None, None)


def test_an_array_of_strings_is_a_list_too() -> None:
    assert constraints_of(np.array(["dog", "cat"]), ["A", ""], None) == [Constraints("A"), Constraints()]  # type: ignore[arg-type]


# --- required terms -------------------------------------------------------------------------------------------


def test_each_of_an_n_best_list_has_to_hold_the_terms() -> None:
    class Forgetful(Babbler):
        """Its second best lacks the term, unless it is told to hold it."""

        def hypotheses(
            self, source: Sequence[int], constraints: TokenConstraints, options: DecodeConfig, n_best: int
        ) -> list[Hypothesis]:
            texts = ("A dog runs.", "The dog runs." if constraints.required else "It runs.")
            return [Hypothesis(_TOKENIZER.encode(text), -1.0, -1.0, True) for text in texts]

    source = _TOKENIZER.encode("A dog runs.")
    model = Translator(Forgetful(), _TOKENIZER, DecodeConfig())
    required = [Constraints(required=(("dog",),))]
    [found], *_ = constrained_search(model, [source], DecodeConfig(), 2, required, ["x"])
    assert [_TOKENIZER.decode(each.ids) for each in found] == ["A dog runs.", "The dog runs."]


class Obliging(Babbler):
    """Says its line; what is required and lacks comes behind it, in the last spelling that is allowed."""

    def __init__(self, lines: Sequence[str] = (), deaf_calls: int = 0) -> None:
        super().__init__(lines)
        self.deaf_calls = deaf_calls  # with requirements, that change nothing
        self.constraints: list[tuple[DecodeConfig, TokenConstraints]] = []

    def _say(self, source: Sequence[int], constraints: TokenConstraints) -> Hypothesis:
        found = super()._say(source, constraints)
        if constraints.required and len(self.constraints) > self.deaf_calls:
            found.ids.extend(token for entry in constraints.required for token in entry[-1])
        return found

    def hypotheses(
        self, source: Sequence[int], constraints: TokenConstraints, options: DecodeConfig, n_best: int
    ) -> list[Hypothesis]:
        if source:
            self.constraints.append((options, constraints))
        return super().hypotheses(source, constraints, options, n_best)


def test_terms_that_come_by_themselves_change_nothing() -> None:
    engine = Obliging(["A dog runs."])
    constraints = [Constraints(required=(("dog",), ("cat", "A"))), Constraints()]
    assert _search(engine, ["x", "y"], constraints) == ["A dog runs."] * 2
    assert all(not each.required for _, each in engine.constraints)
    assert engine.calls == [1, 2]  # the first with nothing to translate: can this engine do it?


def test_only_lines_without_their_terms_are_searched_again() -> None:
    engine = Obliging(["A dog runs."])
    constraints = [Constraints(required=(("dog",),)), Constraints(required=(("dog",), ("Two", "grass"))), Constraints()]
    texts = _search(engine, ["x", "y", "z"], constraints)
    assert texts == ["A dog runs.", "A dog runs. dog grass", "A dog runs."] or "Grass" in texts[1]
    assert engine.calls[:2] == [1, 3]
    assert set(engine.calls[2:]) == {1}


def test_a_capital_inside_a_sentence_is_searched_again_without_it() -> None:
    engine = Obliging(["A dog"])  # takes the last spelling: that with a capital, as long as there is one
    assert _search(engine, ["x"], [Constraints(required=(("green",),))]) == ["A dog green"]
    first, second = [(options, each) for options, each in engine.constraints if each.required]
    assert len(first[1].required[0]) == 2
    assert len(second[1].required[0]) == 1
    assert second[0].beam_size == 8
    assert first[1].joining


def test_terms_stay_if_a_forbidden_phrase_needs_another_search() -> None:
    engine = Obliging(["A dog runs.", "Two run"])
    [text] = _search(engine, ["x"], [Constraints(forbidden=("A",), required=(("dog",),))])
    assert text in ("Two run dog", "Two run Dog")  # the second search knows of the term


def test_a_term_that_never_comes_out_changes_nothing() -> None:
    engine = Obliging(["A dog"], deaf_calls=99)
    assert _search(engine, ["x"], [Constraints(required=(("green",),))]) == ["A dog"]


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (Constraints(required=(("",),)), "line 8: a required term is empty"),
        (Constraints(required=((),)), "line 8: a required term is empty"),
        (Constraints(required=(("a dog", "dog"),), forbidden=("dog",)), "line 8: 'a dog' or 'dog' is required, and"),
    ],
)
def test_required_terms_that_cannot_be_are_refused(constraints: Constraints, message: str) -> None:
    with pytest.raises(DataError, match=message):
        _search(Obliging(), ["x"], [constraints])


def test_required_terms_from_keywords() -> None:
    assert constraints_of(["a", "b"], None, None, [["dog", ["cat", " cats "]], []]) == [
        Constraints(required=(("dog",), ("cat", "cats"))),
        Constraints(),
    ]
    with pytest.raises(DataError, match="2 lines and 1 lists of required terms"):
        constraints_of(["a", "b"], None, None, [["dog"]])
    with pytest.raises(TypeError, match="a list of required terms for each line"):
        constraints_of(["a"], None, None, ["dog"])


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("Dogs run", True),
        ("He says: Dogs run", True),
        ("Run! Dogs", True),
        ("Why? (Dogs)", True),
        ("Run … Dogs", True),
        ("It runs. “Dogs”", True),
        ("He has Dogs", False),
        ("run, Dogs", False),
        ("run; Dogs", False),
    ],
)
def test_a_capital_counts_at_the_start_of_a_sentence(text: str, holds: bool) -> None:
    assert missing(text, [("dogs",)]) == ([] if holds else [("dogs",)])
