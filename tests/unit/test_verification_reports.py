"""What `verify` reports: which findings pass, how differences are counted, what an n-best list may be, and the text."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from transduce.config import DecodeConfig
from transduce.decoding.scores import Hypothesis
from transduce.verification import folder, kernels
from transduce.verification import search as checks
from transduce.verification.differences import Differences
from transduce.verification.findings import CheckResult, Finding, Report, Tie, number
from transduce.verification.model_under_test import Pairs
from transduce.verification.search import Search
from transduce.verification.settings import Settings

_TIE = Tie("line 3", "a", "b", 0.00002)


@pytest.mark.parametrize(
    ("finding", "outcome"),
    [
        (Finding("x"), "passed"),
        (Finding("x", worst=0.1, tolerance=0.1), "passed"),
        (Finding("x", worst=0.11, tolerance=0.1), "failed"),
        (Finding("x", worst=0.0, tolerance=None), "failed"),
        (Finding("x", worst=math.nan, tolerance=0.1), "failed"),
        (Finding("x", worst=0.0, tolerance=0.1, faults=("line 1: wrong",)), "failed"),
        (Finding("x", ties=(_TIE,)), "passed"),
        (Finding("x", worst=9.0, tolerance=0.1, skipped="not installed"), "skipped"),
    ],
)
def test_what_passes(finding: Finding, outcome: str) -> None:
    assert finding.outcome == outcome


def _report(*findings: Finding) -> Report:
    results = [
        CheckResult(f"check {index}", f"promise {index}", f"advice {index}", finding, 0.25)
        for index, finding in enumerate(findings, start=1)
    ]
    return Report("m", "torch", "2 lines", "", {"torch": "2", "numpy": "1"}, tuple(results), 1.25)


def test_a_report_as_text() -> None:
    faults = tuple(f"line {index}: wrong" for index in range(1, 13))
    report = _report(
        Finding("four", worst=0.00002, tolerance=0.001, where="line 2", ties=(_TIE,), note="all"),
        Finding("five", worst=0.5, tolerance=0.001, where="line 7", faults=faults),
        Finding("", skipped="not installed"),
    )
    assert report.to_text().splitlines() == [
        "model      m",
        "engine     torch",
        "sentences  2 lines",
        "versions   torch 2, numpy 1",
        "",
        "  check      worst  allowed  seconds  compared, and where the worst was",
        "✓ check 1  2.0e-05  1.0e-03     0.25  four; at line 2; all",
        "✗ check 2      0.5  1.0e-03     0.25  five; at line 7",
        "– check 3                       0.25  skipped: not installed",
        "",
        "✗ check 2: failed. Expected: promise 2",
        "  difference 0.5 at line 7; at most 1.0e-03 is allowed",
        *(f"  line {index}: wrong" for index in range(1, 11)),
        "  … and 2 more (--report FILE has all)",
        "  to do: advice 2",
        "",
        "check 1: 1 tie, either output is right",
        "  line 3, scores 2.0e-05 apart: 'a' | 'b'",
        "",
        "FAILED: 1 of 3 checks (check 2); 1 skipped; 1 tie in score, listed above; 1.2 s",
    ]
    assert (report.passed, report.named("check 2").outcome) == (False, "failed")
    with pytest.raises(KeyError):
        report.named("check 4")


def test_a_report_passes_only_if_something_was_checked() -> None:
    skipped, passed = Finding("", skipped="no"), Finding("x", worst=math.inf, tolerance=math.inf)
    assert [_report(*each).passed for each in ([], [skipped], [skipped, passed])] == [False, False, True]
    report = _report(skipped, passed)
    assert report.summary() == "PASSED: 1 checks, all hold; 1 skipped; 1.2 s"
    values = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert [each["outcome"] for each in values["checks"]] == ["skipped", "passed"]
    assert (values["passed"], values["checks"][1]["finding"]["worst"]) == (True, "inf")
    shown = [number(value) for value in (None, 0, 0.0123, 0.0999, 0.1, 12.345)]
    assert shown == ["", "0", "1.2e-02", "1.0e-01", "0.1", "12.3"]


def test_the_greatest_difference_and_where_it_is() -> None:
    seen = Differences()
    seen.compare(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0, 2.5], [3.0, 3.75]]), "row {}")
    assert (seen.worst, seen.where, seen.count) == (0.5, "row 1", 4)
    seen.compare(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0, 2.0], [3.0, 3.0]]), ["a", "b"])
    assert (seen.worst, seen.where, seen.count) == (1.0, "b", 8)
    seen.add(-2.0, "c")
    seen.add(1.5, "d")
    assert (seen.worst, seen.where, seen.count) == (2.0, "c", 10)
    seen.compare(torch.tensor([math.inf, -math.inf]), torch.tensor([math.inf, -math.inf]), "e")
    assert (seen.worst, seen.count) == (2.0, 12), "equal infinities do not differ"
    seen.compare(torch.zeros(2), torch.zeros(3), ["f", "g"])
    assert (seen.faults, seen.count) == (["f: (2,) numbers against (3,)"], 12)
    for value in (math.nan, math.inf):
        other = Differences()
        other.compare(torch.tensor([0.0, value]), torch.zeros(2), "{}")
        assert (other.worst, other.where) == (math.inf, "2")
    assert Differences().finding("x", 1.0).faults == (
        "nothing was compared: give more or longer sentences (--source FILE)",
    )


class _Engine:
    """Finds what it is told; each token of a given translation has log-probability -1, and EOS -0.5."""

    def __init__(self, lists: list[list[Hypothesis]]) -> None:
        self.lists, self.sizes = lists, []

    def translate(self, sources: Any, options: DecodeConfig, n_best: int = 1) -> list[list[Hypothesis]]:
        self.sizes.append((options.batch_size, n_best))
        return [found[:n_best] for found in self.lists]

    def score(self, sources: Any, targets: Sequence[Sequence[int]]) -> list[list[float]]:
        return [[-1.0] * len(target) + [-0.5] for target in targets]


def _found(ids: list[int], *, finished: bool = True, score: float | None = None) -> Hypothesis:
    """Returns a hypothesis as the engine above scores it, with length penalty 1: (5 + length) / 6."""
    log_probability = -1.0 * len(ids) - 0.5 * finished
    penalty = (5 + len(ids) + finished) / 6
    return Hypothesis(ids, log_probability / penalty if score is None else score, log_probability, finished)


def _search(*found: Hypothesis) -> Search:
    tokenizer: Any = SimpleNamespace(tags={"<2de>": 9}, decode=lambda ids: " ".join(map(str, ids)))
    options = DecodeConfig(beam_size=3, length_penalty=1.0, max_extra_tokens=2)
    engine: Any = _Engine([list(found)])
    return Search(engine, ("line 1",), [[5]], options, tokenizer, Settings(), 1e-3)


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        ([_found([5]), _found([6, 7])], None),
        ([_found([5, 6, 7], finished=False), _found([5, 6, 7])], None),
        ([_found([6, 7]), _found([5])], "rank 1 scores -1.875000, rank 2 -1.285714: not sorted"),
        ([_found([5]), _found([5])], "the list holds the same hypothesis twice"),
        ([_found([5, 6, 7, 8])], "4 tokens, where 3 are allowed"),
        *(([_found([special, 5])], "an output holds a special token") for special in (0, 1, 2, 3, 9)),
        ([_found([5], score=-1.0)] * 4, "4 hypotheses, where 1 to 3 are expected"),
    ],
)
def test_what_an_n_best_list_may_be(found: list[Hypothesis], fault: str | None) -> None:
    search = _search(*found)
    search.__dict__["found"] = [found]
    finding = checks.n_best(search)
    assert (finding.faults == ()) if fault is None else (f"line 1: {fault}" in finding.faults)


def test_scores_are_those_of_given_translations() -> None:
    right = [_found([5]), _found([6, 7]), _found([5, 6, 7], finished=False)]
    finding = checks.scores(_search(*right))
    assert (finding.outcome, finding.worst) == ("passed", 0.0)
    wrong = checks.scores(_search(_found([5]), _found([6, 7], score=-1.874)))
    assert [each.partition(":")[0] for each in wrong.faults] == ["line 1, rank 2"]
    off = Hypothesis([5], -1.4 / (7 / 6), -1.4, finished=True)
    assert checks.scores(_search(off)).worst == pytest.approx(0.1)


def test_outputs_that_differ_are_ties_or_faults() -> None:
    search, seen = _search(_found([5])), Differences()
    search.same(0, _found([5]), _found([6]), "in order and shuffled", seen)
    assert seen.ties == [Tie("line 1, in order and shuffled", "5", "6", 0.0)]
    search.same(0, _found([5]), _found([6, 7]), "at batch size 64 and 1", seen)
    assert seen.faults == ["line 1, at batch size 64 and 1: '5' becomes '6 7'; their scores differ by 0.589"]
    search.same(0, _found([5]), _found([5], finished=False), "again", seen)
    assert (len(seen.ties) + len(seen.faults), seen.count) == (3, 3)
    engine: Any = search.engine
    checks.batches(search)
    assert engine.sizes == [(64, 1), (1, 1), (7, 1), (7, 1), (64, 1)]


@pytest.mark.parametrize(("beam_size", "sizes"), [(5, [1, 2]), (3, [1]), (2, [1]), (1, [])])
def test_shorter_lists_are_those_of_one_and_of_half_the_beam(beam_size: int, sizes: list[int]) -> None:
    """A list of two is compared with the beginning of the whole, rank by rank."""
    found = [_found([5]), _found([5, 6]), _found([6, 7])][:beam_size]
    search = _search(*found)
    search = replace(search, options=replace(search.options, beam_size=beam_size))
    search.__dict__["found"] = [found]
    engine: Any = search.engine
    finding = checks.n_best(search)
    assert [n_best for _, n_best in engine.sizes] == sizes
    assert finding.outcome == "passed"
    engine.lists = [[_found([7, 7, 7]), *found[1:]]]
    assert checks.n_best(search).outcome == ("failed" if sizes else "passed")
    engine.lists = [[]]
    said = [fault for fault in checks.n_best(search).faults if "are found" in fault]
    assert said == [f"line 1: 0 of {size} are found, and {len(found)} of {beam_size}" for size in sizes]


def test_a_piece_behind_the_vocabulary_is_a_fault() -> None:
    """A tokeniser of nine pieces whose last one is eight; the first sentence becomes the one behind it."""

    def tested(first: int) -> Any:
        tokens = SimpleNamespace(
            vocab_size=9,
            exact=True,
            encode_batch=lambda texts: [[first if text == "a" else 8] for text in texts],
            encode=lambda text: [first if text == "a" else 8],
            decode=lambda ids: texts.pop(0),
        )
        tokens.target = tokens
        texts = ["a", *folder.NASTY]
        sample = SimpleNamespace(names=("line 1",), lines=("a",))
        return SimpleNamespace(bundle=SimpleNamespace(tokenizer=tokens), sample=sample)

    assert folder.tokenizer(tested(8)).faults == ()
    assert folder.tokenizer(tested(9)).faults == ("line 1 : a piece is outside of the vocabulary",)
    assert folder.tokenizer(tested(4)).faults == ()
    assert folder.tokenizer(tested(3)).faults == ("line 1 : becomes a special token",)


@pytest.mark.parametrize(("tolerance", "expected"), [(1e-3, 1e-4), (1e-5, 1e-5)])
def test_attention_is_held_to_a_tenth_of_what_a_line_may_differ(
    monkeypatch: pytest.MonkeyPatch, tolerance: float, expected: float
) -> None:
    watched: list[Any] = []

    def watch(tested: Any, pairs: Any, seen: Differences) -> int:
        watched.append(pairs)
        seen.add(2e-4, "here")
        return len(watched) * 100

    monkeypatch.setattr(kernels, "_watch", watch)
    config = SimpleNamespace(attention_window=0, num_encoder_layers=2, num_decoder_layers=3)
    pairs = Pairs(("first",), ((5, 6, 2),), ((8, 9, 2),))
    tested: Any = SimpleNamespace(
        pairs=pairs,
        sources=[[5, 6], [7]],
        position_limit=300,
        settings=Settings(log_probability=tolerance),
        bundle=SimpleNamespace(config=SimpleNamespace(model=config)),
    )
    finding = kernels.attention(tested)
    assert (finding.tolerance, finding.outcome) == (expected, "failed")
    assert finding.compared == "8 attentions, up to 200 positions; eq. 1"
    [_, long] = watched
    assert (len(long.sources[0]), long.sources[0][:4], long.sources[0][-1]) == (300, (5, 6, 7, 5), 2)
    assert long.targets[0] == (*([8, 9] * 150)[:299], 2), "of what the model writes, which may have its own vocabulary"
    tested.position_limit = 299
    kernels.attention(tested)
    assert watched[2:] == [pairs]
