"""The words that alternatives are made of, and their probabilities, by hand: an engine that says what it is told."""

import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from text_engine import text_translator
from transduce.config import DecodeConfig
from transduce.config.special_ids import EOS
from transduce.decoding.scores import Hypothesis
from transduce.engines.interface import TokenConstraints
from transduce.errors import DataError
from transduce.translation.alternatives import alternatives, word_end

TOKENIZER = text_translator().tokenizer
PIECES = {piece: index for index, piece in enumerate(TOKENIZER.piece_bytes(range(TOKENIZER.vocab_size)))}


@pytest.mark.parametrize(
    ("text", "start", "word"),
    [
        ("ein T-Shirt.", 4, "T-Shirt"),
        ("ein T-Shirt.", 5, "-Shirt"),
        ("the dog\u2019s ball", 4, "dog\u2019s"),
        ("ein Hund - und", 4, "Hund"),
        ("ein Hund-", 4, "Hund"),
        ("ein Hund.", 8, "."),
        ("an up-to-date map", 3, "up-to-date"),
        ("ein Hund", 8, ""),
    ],
)
def test_a_word_ends_where_neither_hyphen_nor_apostrophe_continues_it(text: str, start: int, word: str) -> None:
    assert text[start : word_end(text, start)] == word


def ids_of(*pieces: str) -> tuple[int, ...]:
    return tuple(PIECES[piece.encode()] for piece in pieces)


class Told:
    """Knows the probability of each token after some outputs, 0.5 after all others, and how it goes on."""

    max_source_tokens = 2

    def __init__(
        self, shares: Mapping[tuple[int, ...], Mapping[int, float]], goes_on: Mapping[tuple[int, ...], tuple[int, ...]]
    ) -> None:
        self.shares, self.goes_on = shares, goes_on
        self.calls: list[tuple[Any, ...]] = []

    def next_scores(self, source: Sequence[int], prefix: Sequence[int]) -> np.ndarray:
        scores_TV = np.full((len(prefix) + 1, TOKENIZER.vocab_size), -60.0, dtype=np.float32)
        for length, row_V in enumerate(scores_TV):
            for token, share in self.shares.get(tuple(prefix[:length]), {}).items():
                row_V[token] = math.log(share)
        return scores_TV

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        options: DecodeConfig,
        n_best: int,
        constraints: Sequence[TokenConstraints],
    ) -> list[list[Hypothesis]]:
        self.calls.append((len(sources), options, n_best))
        found = [[*each.prefix, *self.goes_on.get(each.prefix, ())] for each in constraints]
        return [[Hypothesis(ids, -7.0, -9.0, finished=False)] for ids in found]

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        def share(past: tuple[int, ...], token: int) -> float:
            return self.shares[past].get(token, 1e-12) if past in self.shares else 0.5

        return [[math.log(share(tuple(ids[:i]), x)) for i, x in enumerate((*ids, EOS))] for ids in targets]


def found_by(engine: Told, prefix: str, n: int, source: str = "A dog", **options: Any) -> list[Any]:
    model = SimpleNamespace(engine=engine, tokenizer=TOKENIZER, bundle=None)
    return alternatives(cast(Any, model), DecodeConfig(**options), source, prefix, n)


def test_the_beginning_is_one_line() -> None:
    with pytest.raises(DataError, match=r"^The prefix 'A\\ndog' holds a line break\.$"):
        found_by(Told({}, {}), "A\ndog", 3)


def test_a_new_word_has_the_probability_of_its_best_spelling_among_all_that_may_follow() -> None:
    """ " do" "g" is "dog" with .4 × .5, " dog" with .3; " ball" has .06, " bal" "l" .05 × .5. All that may follow are
    these four pieces, a full stop and the end: .93 together. "s" continues "A", and does not count.
    """
    [a], [stop] = ids_of(" A"), ids_of(".")
    shares = dict(zip(ids_of(" do", " dog", " ball", " bal", ".", "s"), (0.4, 0.3, 0.06, 0.05, 0.1, 0.07), strict=True))
    after = {(a,): {**shares, EOS: 0.02}, (a, stop): {EOS: 0.9}}
    goes_on = {(a, *ids_of(" do")): ids_of("g", " ru", "n"), (a, *ids_of(" bal")): ids_of("l")}
    engine = Told(after, goes_on)
    given: dict[str, Any] = {"length_penalty": 1.0, "max_extra_tokens": 9, "max_tokens": 12, "beam_size": 5}
    dog, end, ball = found_by(engine, "A ", 3, **given)
    assert [(each.word, each.translation.text) for each in (dog, end, ball)] == [
        ("dog", "A dog"),
        ("", "A."),
        ("ball", "A ball"),
    ]
    probabilities = [each.probability for each in (dog, end, ball)]
    assert probabilities == pytest.approx([0.3 / 0.93, 0.1 * 0.9 / 0.93, 0.06 / 0.93], rel=1e-4)
    greedy = DecodeConfig(beam_size=1, length_penalty=1.0, max_extra_tokens=9, max_tokens=12)
    assert engine.calls == [(10, greedy, 1)]  # 2 × 3 + 4 beginnings are tried
    best = dog.translation
    assert (best.ids, best.tokens) == ((a, *ids_of(" dog")), ("▁A", "▁dog"))
    assert (best.score, best.log_probability, best.finished, best.source_truncated) == (-7.0, -9.0, False, False)
    assert best.sentences == (((0, 5), (0, 5)),)
    assert best.token_log_probabilities == pytest.approx([math.log(x) for x in (0.5, 0.3, 0.5)], abs=1e-6)
    assert [word for word, _ in best.words] == ["A", "dog"]
    last = end.translation
    assert (last.ids, last.finished) == ((a, stop), True)
    log_probability = math.log(0.5 * 0.1 * 0.9)
    assert last.log_probability == pytest.approx(log_probability, abs=1e-6)
    assert last.score == pytest.approx(log_probability / (8 / 6), abs=1e-6)  # three tokens, α = 1
    assert last.sentences == (((0, 5), (0, 2)),)
    assert [each.word for each in found_by(Told(after, goes_on), "A ", 2)] == ["dog", ""]
    assert found_by(Told(after, goes_on), "A ", 1, source="A dog runs")[0].translation.source_truncated


def test_a_word_that_has_begun_is_continued_or_spelled_in_other_pieces() -> None:
    """After "A": " do" .5, " dog" .2, " dogs" .04; after "A do": "g" .3, the end .02. Together .2 + .04 + .5 × .32."""
    a_do = ids_of(" A", " do")
    shares = dict(zip(ids_of(" do", " dog", " dogs", " ru"), (0.5, 0.2, 0.04, 0.26), strict=True))
    after = {a_do[:1]: shares, a_do: {ids_of("g")[0]: 0.3, EOS: 0.02}}
    engine = Told(after, {})
    found = found_by(engine, "A do", 3)
    assert [(each.word, each.translation.ids) for each in found] == [
        ("g", ids_of(" A", " dog")),
        ("gs", ids_of(" A", " dogs")),
        ("", a_do),
    ]
    assert [each.probability for each in found] == pytest.approx([0.5, 0.1, 0.025], rel=1e-4)


@pytest.mark.parametrize(("end", "is_named"), [(0.012, True), (0.008, False)])
def test_the_end_is_named_from_a_hundredth_on(end: float, is_named: bool) -> None:
    engine = Told({ids_of(" A"): {ids_of(" dog")[0]: 1 - end, EOS: end}}, {})
    words = [each.word for each in found_by(engine, "A ", 4)]
    assert (words[0], "" in words) == ("dog", is_named)


def test_of_two_ends_the_likelier_is_named_and_a_word_has_no_white_space() -> None:
    [a], [dog], [stop] = ids_of(" A"), ids_of(" dog"), ids_of(".")
    shares = {(a,): {dog: 0.7, EOS: 0.2, stop: 0.1}, (a, stop): {EOS: 1.0}, (): {a: 0.5}}
    found = found_by(Told(shares, {}), "A ", 2)
    assert [(each.word, each.translation.text) for each in found] == [("dog", "A dog"), ("", "A")]
    assert [each.probability for each in found] == pytest.approx([0.7, 0.2], rel=1e-4)
    best = found_by(Told(shares, {}), "A", 1)[0]  # "A" may go on, but a word after it is likelier
    assert (best.word, best.translation.text, best.probability) == ("dog", "A dog", pytest.approx(0.7, rel=1e-4))


def test_a_translation_that_lost_the_beginning_is_no_alternative() -> None:
    engine = Told({ids_of(" A"): {ids_of(" dog")[0]: 0.9, EOS: 0.1}}, {})
    engine.translate = lambda sources, *_: [[Hypothesis([*ids_of(" Two", " dogs")], 0, 0, True)] for _ in sources]  # type: ignore[assignment,method-assign]
    assert [each.word for each in found_by(engine, "A ", 4)] == [""]
