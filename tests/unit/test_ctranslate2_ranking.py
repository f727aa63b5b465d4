"""From what a search of CTranslate2 returns to hypotheses, and the limits of outputs, all by hand, without a model."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from transduce.config import DecodeConfig
from transduce.decoding.scores import Hypothesis, gnmt_penalty
from transduce.engines import ctranslate2 as module
from transduce.engines.batching import EMPTY_OUTPUT, NOTHING_FOUND, output_limit
from transduce.engines.ctranslate2 import CTranslate2Engine
from transduce.engines.ctranslate2_batches import Line, Output, line_batches
from transduce.engines.ctranslate2_ranking import ranked
from transduce.engines.interface import TokenConstraints
from transduce.errors import ConfigError

END = "</s>"


class Engine:
    """Each token is as probable as its number says: token 3 has the log-probability -0.3, and the end -0.5."""

    def __init__(self, end: float = -0.5) -> None:
        self.end, self.scored = end, list[tuple[int, ...]]()

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        assert len(sources) == len(targets)
        self.scored += [tuple(target) for target in targets]
        return [[*(-token / 10 for token in target), self.end] for target in targets]


def output(text: str, log_probability: float) -> Output:
    ids = tuple(int(token) for token in text.split() if token != END)
    return Output(ids, text.endswith(END), log_probability)


def found(engine: Any, outputs: list[Output], n_best: int = 9, **settings: Any) -> list[tuple[list[int], Any, bool]]:
    """Returns the ids, the log-probability and the end of each hypothesis of a line of at most 3 tokens."""
    shortlisted, suppress = settings.pop("shortlisted", False), settings.pop("suppress", False)
    given = {key: settings.pop(key) for key in ("prefix", "forbidden") if key in settings}
    line = Line(0, (5, 6), 3, TokenConstraints(**given), suppress=suppress)
    options = DecodeConfig(**{"beam_size": 4, "length_penalty": 0.0} | settings)
    [hypotheses] = ranked(engine, [(line, outputs)], options, n_best, shortlisted=shortlisted)
    return [(each.ids, pytest.approx(each.log_probability), each.finished) for each in hypotheses]


def test_finished_outputs_have_the_scores_of_the_search_and_come_before_open_ones() -> None:
    engine = Engine()
    outputs = [output("7", -0.1), output(f"8 {END}", -3.0), output(f"9 8 {END}", -2.0), output(f"7 {END}", -2.5)]
    assert found(engine, outputs) == [([9, 8], -2.0, True), ([7], -2.5, True), ([8], -3.0, True)]
    assert found(engine, outputs, 2) == [([9, 8], -2.0, True), ([7], -2.5, True)]
    assert engine.scored == []
    long_first = found(engine, outputs, length_penalty=5.0)
    assert -2.0 / gnmt_penalty(3, 5.0) > -2.5 / gnmt_penalty(2, 5.0)
    assert long_first[0] == ([9, 8], -2.0, True)


def test_open_outputs_end_at_the_limit_and_have_no_end_to_count() -> None:
    """The last token of an open output is of the step that was for the end."""
    engine = Engine()
    outputs = [output("9 9 9 1", -1.0), output("1 2 3 4", -2.0), output("1 2 3 5", -3.0)]
    assert found(engine, outputs) == [([1, 2, 3], -0.6, False), ([9, 9, 9], -2.7, False)]
    assert engine.scored == [(9, 9, 9), (1, 2, 3)]


@pytest.mark.parametrize(
    ("settings", "is_scored"),
    [
        ({}, False),
        ({"shortlisted": True}, False),
        ({"suppress": True}, True),
        ({"forbidden": ((4,),)}, True),
        ({"no_repeat_ngram": 2}, True),
        ({"min_tokens": 1}, True),
    ],
)
def test_where_tokens_were_forbidden_the_scores_are_the_models(settings: dict[str, Any], is_scored: bool) -> None:
    expected = -0.8 if is_scored else -7.0
    assert found(Engine(), [output(f"1 2 {END}", -7.0)], **settings) == [([1, 2], expected, True)]


@pytest.mark.parametrize(
    ("settings", "end", "expected"),
    [
        ({}, -0.5, [([1], -0.6, True), ([1, 2], -7.1, True)]),  # -0.1 for the prefix, whose end is probable
        ({}, -1.5, [([1, 2], -7.1, True)]),  # less than 1/4, of a beam of 4
        ({"beam_size": 5}, -1.5, [([1], -1.6, True), ([1, 2], -7.1, True)]),
        ({"shortlisted": True}, -1.5, [([1, 2], -1.8, True)]),
        ({"min_tokens": 2}, -0.5, [([1, 2], -0.8, True)]),  # the prefix alone would be too short
        ({"min_tokens": 1}, -0.5, [([1], -0.6, True), ([1, 2], -0.8, True)]),
    ],
)
def test_a_prefix_has_its_own_score_and_may_be_all(
    settings: dict[str, Any], end: float, expected: list[tuple[list[int], float, bool]]
) -> None:
    assert found(Engine(end), [output(f"1 2 {END}", -7.0)], prefix=(1,), **settings) == expected


def test_lines_of_one_call_agree_on_what_a_call_has_once() -> None:
    plain, prefixed = TokenConstraints(), TokenConstraints(prefix=(7,))
    lines = [
        Line(0, (5,), 9, plain),
        Line(1, (5, 6), 7, plain),
        Line(2, (5,), 9, plain, suppress=True),
        Line(3, (5,), 9, prefixed),
        Line(4, (5,), 9, TokenConstraints(prefix=(8, 9))),
        Line(5, (5,), 9, plain, exact_limit=True),
        Line(6, (5,), 8, plain, exact_limit=True),
    ]
    batches = [[(line.index, line.exact_limit) for line in batch] for batch in line_batches(lines, 9)]
    assert sorted(batches) == [
        [(1, False), (0, True)],
        [(2, True)],
        [(3, True), (4, True)],
        [(5, True)],
        [(6, True)],
    ]


def made_engine(monkeypatch: pytest.MonkeyPatch, **values: Any) -> CTranslate2Engine:
    engine = object.__new__(CTranslate2Engine)
    for name, value in {"max_source_tokens": 9, "num_workers": 4, "_divides": True, "_shortlisted": False}.items():
        monkeypatch.setattr(engine, name, value, raising=False)
    for name, value in values.items():
        monkeypatch.setattr(engine, name, value, raising=False)
    return engine


def test_a_line_without_outputs_is_unfinished_and_an_empty_one_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = SimpleNamespace(result=lambda: SimpleNamespace(hypotheses=[], scores=[]))
    engine = made_engine(
        monkeypatch,
        _require_own_process=lambda: None,
        _limit=lambda *_: 5,
        _retry=lambda *_: None,
        _begin=lambda batch, _: [nothing] * len(batch),
    )
    monkeypatch.setattr(module, "ranked", lambda _, found, *__, **___: [list[Hypothesis]() for _ in found])
    assert engine.translate([[5], [], [6]], DecodeConfig()) == [[NOTHING_FOUND], [EMPTY_OUTPUT], [NOTHING_FOUND]]


@pytest.mark.parametrize(("num_lines", "expected"), [(1, 1), (4, 1), (5, 2), (9, 3), (100, 16)])
def test_idle_threads_share_the_lines(monkeypatch: pytest.MonkeyPatch, num_lines: int, expected: int) -> None:
    options = DecodeConfig(batch_size=16)
    assert made_engine(monkeypatch)._batch_size(num_lines, options) == expected
    assert made_engine(monkeypatch, _divides=False)._batch_size(num_lines, options) == 16
    assert made_engine(monkeypatch, _shortlisted=True)._batch_size(num_lines, options) == 16


def test_what_is_not_read_of_a_source_has_no_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = made_engine(monkeypatch, _model=None, _guided=False, _pairs=lambda *pairs: pairs)
    monkeypatch.setattr("transduce.engines.ctranslate2_forced.attention", lambda *_, after: [[[0.25, 0.75]], []])
    first, second = engine.align([[5, 6, 7], []], [[8], [9]])
    np.testing.assert_array_equal(first, [[0.25, 0.75, 0.0]])
    assert second.shape == (1, 0)


@pytest.mark.parametrize(
    ("num_source", "settings", "num_prefix", "last_position", "expected"),
    [
        (10, {"max_extra_tokens": 50}, 0, None, 60),
        (10, {"max_extra_tokens": 50, "max_tokens": 20}, 0, None, 20),
        (10, {"max_extra_tokens": 5, "max_tokens": 20}, 0, None, 15),
        (10, {"max_extra_tokens": 5, "min_tokens": 18}, 0, None, 18),
        (10, {"max_extra_tokens": 5}, 17, None, 17),
        (10, {"max_extra_tokens": 5, "min_tokens": 16}, 17, None, 17),
        (10, {"max_extra_tokens": 5}, 0, 12, 12),
        (10, {"max_extra_tokens": 5}, 0, 30, 15),
        (10, {"max_extra_tokens": 0, "max_tokens": 3}, 12, 12, 12),
        (10, {"max_extra_tokens": 5, "min_tokens": 13}, 0, 12, r"decode\.min_tokens = 13: .* end at 12"),
        (10, {"max_extra_tokens": 5, "min_tokens": 2}, 13, 12, "a prefix of 13 tokens"),
    ],
)
def test_the_limit_of_an_output(
    num_source: int, settings: dict[str, int], num_prefix: int, last_position: int | None, expected: int | str
) -> None:
    options, given = DecodeConfig(**settings), TokenConstraints(prefix=(7,) * num_prefix)
    if isinstance(expected, str):
        with pytest.raises(ConfigError, match=expected):
            output_limit(num_source, options, given, last_position)
        return
    assert output_limit(num_source, options, given, last_position) == expected
