"""Required terms that came out where the model saw no place for them are told from those that fit."""

from collections.abc import Sequence

import numpy as np
import pytest

from text_engine import ConstrainedEngine, text_translator
from transduce.config import DecodeConfig
from transduce.decoding.scores import hypothesis
from transduce.engines.interface import TokenConstraints
from transduce.translation.constraints.forced_terms import LEAST, forced_terms
from transduce.translation.pipeline import TextOptions
from transduce.translation.translator import Translator

TOKENIZER = text_translator().tokenizer
KNOWN = TOKENIZER.encode("A dog runs")


class Listed(ConstrainedEngine):
    """Writes "A dog runs", and, where terms are required, also a cat; gives its tokens the probability it is told."""

    def __init__(self, log_probability: float, *, ending: str = " cat") -> None:
        self.log_probability = log_probability
        self.output = TOKENIZER.encode("A dog runs" + ending)

    def output_under(self, constraints: TokenConstraints) -> list[int]:
        return self.output if constraints.required else KNOWN

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        return [[-0.1] * len(KNOWN) + [self.log_probability] * (len(ids) - len(KNOWN) + 1) for ids in targets]

    def align(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[np.ndarray]:
        return [np.zeros((len(target), len(source))) for source, target in zip(sources, targets, strict=True)]


def translator_of(log_probability: float, ending: str = " cat") -> Translator:
    return Translator(Listed(log_probability, ending=ending), TOKENIZER, DecodeConfig())


@pytest.mark.parametrize(("log_probability", "is_forced"), [(-6.1, True), (-5.9, False)])
def test_an_unexpected_term_is_forced(log_probability: float, is_forced: bool) -> None:
    [[best]] = translator_of(log_probability).translate_n_best(["x"], 1, required=[["cat", "dog"]])
    assert best.required == ((("cat",), True), (("dog",), True))
    assert best.forced == ((("cat",),) if is_forced else ())
    assert bool(best.warnings) == is_forced
    if is_forced:
        assert best.warnings == ("the required term 'cat' was forced: the model expected other words at its place.",)


def test_a_term_found_without_search_is_never_forced() -> None:
    class Surprised(Listed):
        def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
            return [[LEAST - 5] * (len(ids) + 1) for ids in targets]

    translator = Translator(Surprised(LEAST - 5), TOKENIZER, DecodeConfig())
    [[best]] = translator.translate_n_best(["x"], 1, required=[["dog"]])
    assert (best.forced, best.warnings) == ((), ())


def test_what_does_not_come_out_is_not_forced() -> None:
    [[best]] = translator_of(LEAST - 5, ending=" man").translate_n_best(["x"], 1, required=[["cat"]])
    assert best.required == ((("cat",), False),)
    assert (best.forced, best.warnings) == ((), ("the required term 'cat' did not come out.",))


def test_the_beginning_of_a_longer_word_is_not_forced() -> None:
    [s] = (index for index in range(TOKENIZER.vocab_size) if TOKENIZER.piece_bytes([index]) == [b"s"])
    engine = Listed(LEAST - 5)
    engine.output = [*engine.output, s]
    translator = Translator(engine, TOKENIZER, DecodeConfig())
    [[best]] = translator.translate_n_best(["x"], 1, required=[["cat"]])
    assert best.text == "A dog runs cats"
    assert best.required == ((("cat",), False),)
    assert (best.forced, best.warnings) == ((), ("the required term 'cat' did not come out.",))


def test_the_best_of_several_places_counts() -> None:
    ids = TOKENIZER.encode("A cat runs cat")
    first = next(i for i in range(len(ids)) if TOKENIZER.decode(ids[: i + 1]).startswith("A c"))

    class Twice(Listed):
        def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
            return [[-0.1 if i == first else -20.0 for i in range(len(target) + 1)] for target in targets]

    best = hypothesis(ids, -1.0, True, 0.0)
    model = Translator(Twice(0.0), TOKENIZER, DecodeConfig())
    assert forced_terms(model, [5], [best], [("cat",)]) == [()]
    assert forced_terms(model, [5], [best], [("runs",), ("cat",)]) == [(("runs",),)]


def test_sentences_of_one_line_are_put_together() -> None:
    given = {"glossary": {"bird": "cat"}, "text_options": TextOptions(split="always")}
    [[best]] = translator_of(LEAST - 2).translate_n_best(["A bird sings. The bird sits."], 1, **given)  # type: ignore[arg-type]
    assert best.forced == (("cat",), ("cat",))
    assert len(best.warnings) == 1
