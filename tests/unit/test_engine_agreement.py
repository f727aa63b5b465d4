"""How another engine is compared with the reference: on scores and outputs written by hand."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from fake_tokenizer import FakeTokenizer
from transduce.verification import engines
from transduce.verification.engines import Other
from transduce.verification.findings import Finding


def other_engine(ours: list[list[float]], theirs: list[list[float]], outputs: tuple[list[str], list[str]]) -> Other:
    """Returns another engine for a model that is no more than its scores and its outputs."""
    found = [[[SimpleNamespace(ids=line)] for line in lines] for lines in outputs]
    tested = SimpleNamespace(
        sources=[[5]] * len(ours),
        sample=SimpleNamespace(names=[f"sentence {number}" for number in range(1, len(ours) + 1)]),
        search=SimpleNamespace(found=found[0], engine=SimpleNamespace(score=lambda sources, targets: ours)),
        bundle=SimpleNamespace(
            tokenizer=FakeTokenizer(target_side=FakeTokenizer(decode_batch=list)),
            config=SimpleNamespace(data=SimpleNamespace(format="text")),
        ),
    )
    other = Other(tested, "ctranslate2", "float32", None)  # type: ignore[arg-type]
    vars(other)["engine"] = SimpleNamespace(score=lambda sources, targets: theirs)
    vars(other)["search"] = SimpleNamespace(run=lambda: found[1])
    return other


def test_errors_of_opposite_signs_do_not_cancel() -> None:
    """Two tokens are 0.5 too high, two 0.5 too low: a mean difference of 0.5, not 0."""
    other = other_engine([[-1.0, -1.0], [-2.0, -2.0]], [[-0.5, -1.5], [-2.5, -1.5]], (["a"] * 2, ["a"] * 2))
    finding = other.forced()
    assert finding.worst == 0.5
    assert finding.outcome == "failed"


@pytest.mark.parametrize(
    ("theirs", "passed"),
    [
        (["ja", "nein", "ja", "nein"] * 5, True),  # BLEU 0, for there are no 4-grams
        (["ja", "nein", "ja", "nein"] * 4 + ["ja", "nein", "ja", "ja"], True),  # 19 of 20 identical: 95 %
        (["ja", "ja", "ja", "nein"] * 5, False),  # 75 %, and 90 is required
    ],
)
def test_identical_outputs_of_one_word_are_no_failure(theirs: list[str], passed: bool) -> None:
    finding = other_engine([], [], (["ja", "nein", "ja", "nein"] * 5, theirs)).outputs()
    assert (finding.outcome == "passed") is passed, finding


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        ({}, "passed"),
        ({"worst": 0.5, "tolerance": 0.5}, "passed"),
        ({"worst": 0.6, "tolerance": 0.5}, "failed"),
        ({"worst": math.nan, "tolerance": 0.5}, "failed"),
        ({"worst": 0.0}, "failed"),  # a difference without a tolerance is of no check
        ({"worst": 0.1, "tolerance": 0.5, "faults": ("a",)}, "failed"),
        ({"faults": ("a",)}, "failed"),
        ({"faults": ("a",), "skipped": "no engine"}, "skipped"),
    ],
)
def test_what_passes(found: dict[str, Any], outcome: str) -> None:
    assert Finding("all", **found).outcome == outcome


@pytest.mark.parametrize(("data_format", "expected"), [("text", "bleu"), ("trees", "tokenized_bleu")])
def test_trees_are_compared_token_by_token(monkeypatch: pytest.MonkeyPatch, data_format: str, expected: str) -> None:
    """BLEU's tokeniser would cut brackets off; trees are cut at white space already."""
    used: list[str] = []

    def measure(name: str) -> SimpleNamespace:
        used.append(name)
        return SimpleNamespace(value=90.0)

    for name in ("bleu", "tokenized_bleu"):
        monkeypatch.setattr(engines, name, lambda *_, name=name: measure(name))
    other = other_engine([], [], (["(S (NP a ) )"] * 2, ["(S (VP a ) )"] * 2))
    monkeypatch.setattr(other.tested.bundle.config.data, "format", data_format)
    other.outputs()
    assert used == [expected]
