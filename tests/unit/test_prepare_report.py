"""What `prepare` and its check say of a corpus: each figure beside its own words."""

import json
from dataclasses import asdict

import numpy as np

from transduce.config import Config, DataConfig, TrainConfig
from transduce.config.corpora import CorpusConfig
from transduce.data.doctor import Examination, Finding, Findings
from transduce.data.dropped import ignore
from transduce.data.encoding import EncodedPart, EncodedSplit
from transduce.data.mixture_report import CorpusShare
from transduce.data.prepare_report import (
    EpochReport,
    PrepareReport,
    describe_examination,
    describe_findings,
    describe_left_out,
    describe_lines,
)


def test_each_problem_has_its_own_words() -> None:
    findings = Findings(
        hidden_breaks={"U+2028 line separator": Finding(12)},
        empty=Finding(1, ["a.en:7"]),
        copies=Finding(2),
        wrong_language_sources=Finding(3),
        wrong_language_targets=Finding(4),
        wrong_language_dropped=Finding(5),
        duplicates=Finding(6),
        leaked_pairs=Finding(3),
        leaks_kept=Finding(7),
        leaks_dropped=Finding(8),
        near_copies=Finding(9),
        held_out_empty=Finding(10),
        held_out_wrong_language=Finding(11),
        held_out_overlap={"test.news": Finding(13), "test.talks": Finding()},
        misaligned={"lines slipped": Finding(14)},
    )
    assert describe_lines(describe_findings(findings)) == [
        "  problems",
        "    14 pairs misaligned: lines slipped",
        "    1 training pair with an empty side (dropped)",
        "        a.en:7",
        "    2 training pairs with equal source and target",
        "    3 training pairs with a source in the target's language",
        "    4 training pairs with a target in the source's language",
        "    5 training pairs dropped because one side is in the wrong language",
        "    6 training pairs equal to an earlier pair",
        "    7 training pairs with a side in validation or test (kept: short, or data.drop_leaked=false)",
        "    10 validation or test pairs with an empty side",
        "    11 validation or test pairs with one side in the language of the other",
        "    13 test.news pairs with a source or target that is also in another validation or test set",
        "    12 lines with a hidden line break, U+2028 line separator",
    ]
    said = "8 pairs that are also in validation or test (3 as a whole, 5 on one side)"
    assert describe_left_out(findings) == said
    whole = Findings(leaks_dropped=Finding(1), leaked_pairs=Finding(1))
    assert describe_left_out(whole) == "1 pair that is also in validation or test"


def report_of(**changes: object) -> PrepareReport:
    split = EncodedSplit(20, 10, 50, 75, parts=[EncodedPart(12, 6, 30, 40), EncodedPart(8, 4, 20, 35)])
    split.over_long, split.odd_ratio = Finding(2, ["a.en:1 (300 to 4 subwords)"]), Finding(3)
    return PrepareReport(
        folder="out",
        tokenizer={
            "algorithm": "bpe",
            "vocab_size": 300,
            "vocab_size_asked": 400,
            "fingerprint": "0123456789abcdef",
            "new_words": list("abcdef"),
        },
        findings=Findings(near_copies=Finding(1, ["a.en:3 resembles dev.en:1"]), hidden_breaks={"x": Finding(1)}),
        train=split,
        validation=EncodedSplit(6, 5),
        held_out_pairs={"validation.dev": 3, "validation.talks": 2, "test.news": 7},
        epoch=EpochReport(4096, 2048, 6, 0.1, 0.2, 0.157, 55, 77),
        **changes,  # type: ignore[arg-type]
    )


def test_the_report_of_a_preparation() -> None:
    assert str(report_of()).splitlines() == [
        "out: prepared",
        "  training pairs     10 kept of 20",
        "  validation pairs   5 (dev 3, talks 2)",
        "  test.news pairs    7, checked for leaks only",
        "  near-copies        1 pair with a side in which one word differs from validation or test "
        "(data.drop_near_copies drops them)",
        "        a.en:3 resembles dev.en:1",
        "  tokenizer          bpe, 300 pieces (400 were requested; the text yields no more) "
        "(6 new words: a, b, c, d, e, …), 0123456789ab",
        "  tokens an epoch    55 source, 77 target; mean per pair 5.0 and 7.5",
        "  batches an epoch   6 of at most 4,096 source and 2,048 target tokens; 15.7% padding",
        "  problems",
        "    1 line with a hidden line break, x",
        "    2 training pairs longer than data.max_tokens (dropped)",
        "        a.en:1 (300 to 4 subwords)",
        "    3 training pairs with a length ratio above data.max_ratio (dropped)",
    ]
    assert str(report_of(reused=True)).startswith("out: already prepared, nothing to do\n")
    five = report_of()
    five.tokenizer |= {"new_words": list("abcde"), "vocab_size_asked": 300}
    assert "bpe, 300 pieces (5 new words: a, b, c, d, e), 0123456789ab" in str(five)
    five.tokenizer |= {"new_words": ["a"]}
    five.held_out_pairs = {"validation": 5}
    five.train.num_kept = five.train.num_read = 1_234_567
    said = str(five).splitlines()
    assert said[1:3] == ["  training pairs     1,234,567 kept of 1,234,567", "  validation pairs   5"]
    assert "(1 new word: a)" in str(five)
    assert str(report_of(has_log=True)).splitlines()[1:3] == [
        "  training pairs     10 kept of 20",
        "  dropped            10, each with its reason in out/dropped.jsonl",
    ]


def test_a_report_is_read_as_it_was_written() -> None:
    shares = [CorpusShare(0, 9, "a", 6, 1.0, 0.75, 3.0), CorpusShare(0, 9, "b", 4, 2.0, 0.25, 6.0)]
    report = report_of(shares=shares, seconds={"check": 0.5})
    assert PrepareReport.from_dict(json.loads(json.dumps(asdict(report)))) == report
    assert "| b      |     4 |           2.00 |" in str(report)


def test_a_check_estimates_the_shares_of_corpora() -> None:
    """Four characters a token and one for EOS: 100 + 9, and twice 20 + 2, are 153, as nine tenths of a batch of 170."""
    corpora = (CorpusConfig(files=("a",), name="a"), CorpusConfig(files=("b",), name="b", weight=2.0))
    config = Config(data=DataConfig(corpora=corpora), train=TrainConfig(max_steps=7, target_batch_tokens=170))
    kept = np.array([True] * 9 + [False] + [True, False, False, True])
    none = (np.zeros(0, dtype=np.int64),) * 2
    examination = Examination(Findings(), kept, none, ignore, [], [10, 4], [400, 80], {"validation": 3})
    first, second, heading, *table, last = describe_examination(examination, config).splitlines()
    assert (first, second) == ("training pairs     11 kept of 14", "validation pairs   3")
    assert (heading, last) == ("corpora", "problems           none found")
    rows = [[cell.strip() for cell in line.strip(" |").split("|")] for line in table]
    assert rows[2:] == [
        ["a", "9", "1.00", "about 71.2%", "about 7.00"],
        ["b", "2", "2.00", "about 28.8%", "about 14.0"],
    ]
