"""`print` of what the package hands out says in a line what it is."""

from collections.abc import Callable
from pathlib import Path

import pytest

from transduce import Attention, Parser, Translator
from transduce.data.doctor import Finding
from transduce.data.prepare_report import describe_lines
from transduce.data.readers import read_pairs
from transduce.errors import DataError
from transduce.reporting.tables import counted
from transduce.translation.forced_scores import ScoreSummary

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "0.1.0"


def test_a_translator_and_a_parser_name_model_and_engine() -> None:
    translator = Translator.load(FIXTURES / "model", engine="torch", device="cpu")
    assert repr(translator) == f"Translator(fixture: en → de, 31,680 parameters, {translator.engine.name})"
    parser = Parser.load(FIXTURES / "parser", engine="torch", device="cpu")
    assert repr(parser).startswith("Parser(Translator(fixture: en → trees, 30,720 parameters, torch on cpu")
    bare = Translator(translator.engine, translator.tokenizer, translator.options)
    assert repr(bare) == f"Translator({translator.engine.name})"


def test_an_attention_shows_no_weights(random_attention: Callable[..., Attention]) -> None:
    attention = random_attention("a dog", "ein Hund", layers=1, heads=4)
    counts = f"{len(attention.source_pieces)} → {len(attention.target_pieces)} pieces"
    assert repr(attention) == f"Attention('a dog' → 'ein Hund', {counts}, 1 layer of 4 heads)"


@pytest.mark.parametrize(("number", "shown"), [(0, "0 lines"), (1, "1 line"), (2, "2 lines"), (12000, "12,000 lines")])
def test_counts_have_their_number(number: int, shown: str) -> None:
    assert counted(number, "line") == shown
    assert counted(1, "hypothesis", "hypotheses") == "1 hypothesis"
    assert counted(3, "hypothesis", "hypotheses") == "3 hypotheses"


def test_messages_speak_of_one_line_as_of_one(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("a\n")
    (tmp_path / "two").write_text("a\nb\n")
    with pytest.raises(DataError, match=r"one has 1 line, .*two has 2: they must"):
        list(read_pairs([tmp_path / "one", tmp_path / "two"]))
    summary = ScoreSummary()
    summary.lines, summary.pieces = 1, 1
    assert str(summary).startswith("1 line, 1 piece (end marks counted)")


def test_findings_of_one_pair() -> None:
    found = {
        ("training pair", "equal to an earlier pair"): Finding(1, ["train.en:3"]),
        ("line", "with a break"): Finding(2_000),
    }
    assert describe_lines(found)[1:] == [
        "    1 training pair equal to an earlier pair",
        "        train.en:3",
        "    2,000 lines with a break",
    ]
