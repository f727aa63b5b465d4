"""`print` of what the package hands out says in a line what it is."""

from collections.abc import Callable
from pathlib import Path

import pytest

from transduce import Attention, Parser, Translator
from transduce.markdown import counted

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
