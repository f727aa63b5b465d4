"""How another engine is compared with the reference: on scores and outputs written by hand."""

from types import SimpleNamespace

import pytest

from transduce.verification.engines import Other


def other_engine(ours: list[list[float]], theirs: list[list[float]], outputs: tuple[list[str], list[str]]) -> Other:
    """Returns another engine for a model that is no more than its scores and its outputs."""
    found = [[[SimpleNamespace(ids=line)] for line in lines] for lines in outputs]
    tested = SimpleNamespace(
        sources=[[5]] * len(ours),
        sample=SimpleNamespace(names=[f"sentence {number}" for number in range(1, len(ours) + 1)]),
        search=SimpleNamespace(found=found[0]),
        engine=SimpleNamespace(score=lambda sources, targets: ours),
        bundle=SimpleNamespace(
            tokenizer=SimpleNamespace(decode_batch=list),
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
