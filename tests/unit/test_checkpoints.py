"""Work on lines that is given up between its pieces."""

from collections.abc import Sequence

import pytest

from text_engine import TextEngine, text_translator
from transduce.config import DecodeConfig
from transduce.decoding.scores import Hypothesis
from transduce.translation.pipeline import Request, TextOptions, run_pipeline
from transduce.translation.translator import Translator
from transduce.translation.windows import Window

LINES = ["<p>A <b>dog</b> runs. {name} runs.</p>", "Two <i>dogs</i> run over the grass. A man with a ball."] * 10
OPTIONS = TextOptions(split="always", guard=True, markup="html", confidence=True, alignment=True)


class GivenUpError(Exception):
    """Nobody waits any more."""


class CountedEngine(TextEngine):
    """Notes how many checkpoints came before each search."""

    def __init__(self, translator: Translator) -> None:
        super().__init__(translator.tokenizer, str.upper, 1024)
        self.num_checkpoints = 0
        self.before_searches: list[int] = []
        self.last: int | None = None  # the checkpoint at which the work is given up; None: at none

    def checkpoint(self) -> None:
        self.num_checkpoints += 1
        if self.num_checkpoints == self.last:
            raise GivenUpError

    def translate(
        self, sources: Sequence[Sequence[int]], options: DecodeConfig, n_best: int = 1
    ) -> list[list[Hypothesis]]:
        self.before_searches.append(self.num_checkpoints)
        return super().translate(sources, options, n_best)


def run(lines: Sequence[str], text_options: TextOptions, last: int | None = None) -> CountedEngine:
    """Runs the pipeline, and gives it up at the checkpoint of this number."""
    translator = text_translator()
    engine = CountedEngine(translator)
    engine.last = last
    translator.engine = engine
    request = Request(translator.options, 1, text_options)
    if last is None:
        run_pipeline(translator, Window(1, lines), request, engine.checkpoint)
    else:
        with pytest.raises(GivenUpError):
            run_pipeline(translator, Window(1, lines), request, engine.checkpoint)
    return engine


@pytest.mark.parametrize("text_options", [OPTIONS, TextOptions(split="always")], ids=["markup", "plain"])
def test_each_line_is_a_piece_before_the_search_and_after_it(text_options: TextOptions) -> None:
    engine = run(LINES, text_options)
    assert engine.before_searches[0] >= 2 * len(LINES), "lines are read, then cut"
    assert engine.num_checkpoints - engine.before_searches[-1] >= 3 * len(LINES), "results, marks, lines"


def test_sentences_of_a_long_line_are_pieces() -> None:
    sentences = 50
    engine = run(["A dog runs. " * sentences], TextOptions(split="always", guard=True))
    assert engine.num_checkpoints - engine.before_searches[-1] >= 2 * sentences, "results, and the guard's look at each"


def test_work_ends_at_any_checkpoint() -> None:
    total = run(LINES, OPTIONS).num_checkpoints
    for last in range(1, total + 1, 7):
        assert run(LINES, OPTIONS, last).num_checkpoints == last
