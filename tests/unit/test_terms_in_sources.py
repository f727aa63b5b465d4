"""Terms in the sources of a model that was trained with them, before any search that must write them."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from text_engine import text_translator
from transduce.config import Config, TrainConfig
from transduce.config.modifiers import ModifierConfig
from transduce.config.special_ids import UNK
from transduce.engines.interface import TokenConstraints
from transduce.translation.pipeline.text_options import TextOptions
from transduce.translation.translator import Translator

TERMS = ModifierConfig(name="terms", probability=0.1)
SOURCE = "Two dogs run over the grass."


class Searches:
    """What was searched, and under which required terms."""

    def __init__(self, translator: Translator) -> None:
        self.made: list[tuple[str, bool]] = []
        engine: Any = translator.engine
        plain = engine.translate

        def translate(sources: Any, options: Any, n_best: int = 1, constraints: Any = None) -> Any:
            for source, each in zip(sources, constraints or [TokenConstraints()] * len(sources), strict=True):
                if source:
                    self.made.append((translator.tokenizer.decode(source), bool(each.required)))
            return plain(sources, options, n_best)

        engine.translate = translate


def made(modifiers: tuple[ModifierConfig, ...], function: Any, max_source_tokens: int = 1024) -> Translator:
    """Returns a translator that applies a function, as if it came from the folder of a model so trained."""
    translator = text_translator(function, max_source_tokens)
    config = Config(train=TrainConfig(modifiers=modifiers))
    bundle: Any = SimpleNamespace(config=config, metrics={}, path=Path("no folder"))
    translator.bundle = bundle
    return translator


def obedient(text: str) -> str:
    """Writes each term that it reads, and none of its marks."""
    return text.replace("dogs | Köter |", "Köter")


@pytest.mark.parametrize(
    ("modifiers", "searches"),
    [
        ((TERMS,), [("Two dogs | Köter | run over the grass.", False)]),
        ((), [(SOURCE, False), (SOURCE, True), (SOURCE, True)]),
    ],
)
def test_only_a_model_that_was_trained_with_terms_reads_them(
    modifiers: tuple[ModifierConfig, ...], searches: list[tuple[str, bool]]
) -> None:
    translator = made(modifiers, obedient)
    noted = Searches(translator)
    [[best]] = translator.translate_n_best([SOURCE], 1, glossary={"dogs": "Köter"})
    assert noted.made == searches
    assert best.required == ((("Köter",), bool(modifiers)),)
    assert bool(best.warnings) != bool(modifiers)
    assert best.sentences[0][0] == (0, len(SOURCE))  # positions are those of the text that was given


def test_a_term_that_does_not_come_out_is_searched_for() -> None:
    translator = made((TERMS,), lambda text: "Zwei Hunde.")
    noted = Searches(translator)
    translator.translate_n_best([SOURCE], 1, glossary={"dogs": "Köter"})
    written = "Two dogs | Köter | run over the grass."
    assert noted.made == [(written, False), (written, True), (written, True)]


def test_a_text_that_would_be_too_long_has_no_terms() -> None:
    translator = made((TERMS,), obedient)
    length = len(translator.tokenizer.encode(SOURCE))
    translator = made((TERMS,), obedient, max_source_tokens=length + 1)
    noted = Searches(translator)
    translator.translate_n_best([SOURCE], 1, glossary={"dogs": "Köter"})
    assert noted.made[0] == (SOURCE, False)


def test_a_vocabulary_that_lacks_the_marks_reads_no_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = made((TERMS,), obedient)
    plain = translator.tokenizer.encode_batch

    def encode(texts: Sequence[str]) -> list[list[int]]:
        return [ids + [UNK] * text.count("|") for text, ids in zip(texts, plain(texts), strict=True)]

    monkeypatch.setattr(translator.tokenizer, "encode_batch", encode)
    noted = Searches(translator)
    translator.translate_n_best([SOURCE], 1, glossary={"dogs": "Köter"})
    assert noted.made[0] == (SOURCE, False)


def test_probabilities_are_those_of_the_source_that_was_read() -> None:
    translator = made((TERMS,), obedient)
    Searches(translator)  # which takes constraints, too
    read: list[str] = []
    engine: Any = translator.engine
    score = engine.score

    def noting(sources: Any, targets: Any) -> Any:
        read.extend(map(translator.tokenizer.decode, sources))
        return score(sources, targets)

    engine.score = noting
    options = TextOptions(confidence=True)
    translator.translate_n_best([SOURCE], 1, glossary={"dogs": "Köter"}, text_options=options)
    assert read == ["Two dogs | Köter | run over the grass."]
