"""Tables of word alignment stay small, however long the texts are and however many are aligned at a time."""

import threading
import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest

from text_engine import TextEngine, text_translator
from transduce.translation.pipeline import TextOptions, word_alignment
from transduce.translation.pipeline.word_alignment import WordAligner
from transduce.translation.result import SpanPair

_SECONDS = 60
_CELL_BYTES = 8


def whole(text: str) -> list[SpanPair]:
    """Returns the spans of a text that was translated as a whole into itself."""
    return [((0, len(text)), (0, len(text)))]


def test_a_long_text_with_a_tag_needs_little_more_than_one_table() -> None:
    num_words = 3000
    translator = text_translator(str.upper)
    text = "<b>a</b>" + " a" * (num_words - 1)
    options = TextOptions(markup="html", split="always")
    tracemalloc.start()
    try:
        [[best]] = translator.translate_n_best([text], 1, text_options=options)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert best.text.startswith("<b>A</b>")
    assert peak_bytes < 2 * num_words**2 * _CELL_BYTES  # those of its parts have a third of the cells


def test_the_table_of_a_long_text_does_not_grow_with_its_length() -> None:
    """The table of 50,000 words would have 20 GB."""
    num_words = 8000
    sentences = ["One dog runs here."] * (num_words // 5) + ["A <b>cat</b> sleeps."]
    text = f'<p><span class="One. Two">{" ".join(sentences)}</span> Two men.</p>'
    tracemalloc.start()
    try:
        [[best]] = text_translator(str.upper).translate_n_best([text], 1, text_options=TextOptions(markup="html"))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    written = " ".join(sentences).upper().replace("<B>", "<b>").replace("</B>", "</b>")
    assert best.text == f'<p><span class="One. Two">{written}</span> TWO MEN.</p>'
    assert peak_bytes < num_words**2 * _CELL_BYTES // 4


def test_there_is_one_large_table_at_a_time() -> None:
    aligner = WordAligner(text_translator(str.upper))
    large, small = "a " * 1001, "a " * 10
    has_table = threading.Event()

    def second() -> None:
        with aligner.table(large, large, whole(large)):
            has_table.set()

    with aligner.table(large, large, whole(large)):
        thread = threading.Thread(target=second)
        thread.start()
        with aligner.table(small, small, whole(small)) as lent:
            assert lent.weights.shape == (10, 10)
        assert not has_table.wait(0.3)
    assert has_table.wait(_SECONDS)
    thread.join(_SECONDS)


class _CountingEngine(TextEngine):
    """Notes how many weights each call asks for."""

    def __init__(self, like: TextEngine) -> None:
        super().__init__(like.tokenizer, like.function, like.max_source_tokens)
        self.calls: list[int] = []

    def align(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Returns zeros."""
        self.calls.append(sum(len(source) * len(target) for source, target in zip(sources, targets, strict=True)))
        return super().align(sources, targets)


def test_pairs_are_computed_together_as_far_as_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = text_translator(str.upper)
    assert isinstance(translator.engine, TextEngine)
    lines = [" ".join(["a"] * (3 + number)) for number in range(20)]
    options = TextOptions(alignment=True)
    expected = [
        [each.alignment for each in best] for best in translator.translate_n_best(lines, 1, text_options=options)
    ]
    for cells in (10**9, 500, 1):
        monkeypatch.setattr(word_alignment, "_GROUP_CELLS", cells)
        monkeypatch.setattr(word_alignment, "_MAX_KEPT_CELLS", cells)
        engine = translator.engine = _CountingEngine(translator.engine)
        found = translator.translate_n_best(lines, 1, text_options=options)
        assert [[each.alignment for each in best] for best in found] == expected
        assert sum(engine.calls) == sum((3 + number) ** 2 for number in range(20)), "each pair once"
        if cells == 500:
            assert 1 < len(engine.calls) < 20
            assert max(engine.calls) <= cells
        else:
            assert len(engine.calls) == (20 if cells == 1 else 1)


def test_only_sentences_with_marks_are_aligned() -> None:
    translator = text_translator(str.upper)
    assert isinstance(translator.engine, TextEngine)
    engine = translator.engine = _CountingEngine(translator.engine)
    line = "A man is here. The <b>dog</b> runs. A cat is there."
    [[best]] = translator.translate_n_best([line], 1, text_options=TextOptions(markup="html", split="always"))
    assert best.text == "A MAN IS HERE. THE <b>DOG</b> RUNS. A CAT IS THERE."
    source, target = translator.tokenizer.encode_batch(["The dog runs.", "THE DOG RUNS."])
    assert engine.calls == [len(source) * len(target)]
