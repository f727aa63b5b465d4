"""Translations tell what each of their words, and each of their sentences, came from."""

import html
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from text_engine import TextEngine, text_translator
from transduce.config import DecodeConfig
from transduce.text import SubwordTokenizer
from transduce.translation.pipeline import TextOptions
from transduce.translation.pipeline.markup import MarkedText, read_markup
from transduce.translation.pipeline.text_options import Markup, Split
from transduce.translation.result import SpanPair, Translation
from transduce.translation.translator import Translator

UPPER = text_translator(str.upper)


def aligned(
    line: str, translator: Translator = UPPER, *, markup: Markup = "none", split: Split = "auto"
) -> Translation:
    options = TextOptions(markup=markup, split=split, alignment=True)
    [[best]] = translator.translate_n_best([line], 1, text_options=options)
    return best


def shown(line: str, best: Translation, pairs: Sequence[SpanPair]) -> list[tuple[str, str]]:
    return [(line[slice(*source)], best.text[slice(*target)]) for source, target in pairs]


class ReversingEngine(TextEngine):
    """Writes the words, each a piece, in reverse order, and aligns accordingly; counts the calls."""

    calls = 0

    def align(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Returns a one for each target token, at the n-th source token from the end."""
        self.calls += 1
        return [np.eye(len(target), len(source))[:, ::-1] for source, target in zip(sources, targets, strict=True)]


def reversing() -> Translator:
    words = "one two three four five six seven"
    tokenizer = SubwordTokenizer.train([words] * 5, algorithm="bpe", vocab_size=400)
    function = {"one two three": "drei zwei eins"}.get
    engine = ReversingEngine(tokenizer, lambda text: function(text, " ".join(reversed(text.split()))), 100)
    return Translator(engine, tokenizer, DecodeConfig())


def test_each_word_has_the_source_word_with_the_greatest_weight() -> None:
    line = "four one seven"
    best = aligned(line, reversing())
    assert best.text == "seven one four"
    assert best.alignment == (((9, 14), (0, 5)), ((5, 8), (6, 9)), ((0, 4), (10, 14)))
    assert best.sentences == (((0, 14), (0, 14)),)


def test_lines_are_aligned_together_and_only_on_request() -> None:
    translator = reversing()
    lines = ["one two", "two one", "five"]
    plain = translator.translate_n_best(lines, 2)
    assert isinstance(translator.engine, ReversingEngine)
    assert translator.engine.calls == 0
    assert all(best.alignment == () and best.sentences for [best, _] in plain)
    found = translator.translate_n_best(lines, 2, text_options=TextOptions(alignment=True))
    assert translator.engine.calls == 1
    assert all(best.alignment and second.alignment for best, second in found)


def test_sentences_are_told_without_a_request() -> None:
    line = " A dog runs.  Two dogs. "
    [[best]] = UPPER.translate_n_best([line], 1, text_options=TextOptions(split="always"))
    assert shown(line, best, best.sentences) == [("A dog runs.", "A DOG RUNS."), ("Two dogs.", "TWO DOGS.")]
    [[empty]] = UPPER.translate_n_best(["  "], 1, text_options=TextOptions(alignment=True))
    assert (empty.sentences, empty.alignment) == ((), ())


def test_links_are_within_their_sentence() -> None:
    line = "A dog runs. A dog."
    best = aligned(line, split="always")
    assert shown(line, best, best.alignment) == [
        (word, word.upper()) for word in ("A", "dog", "runs", ".", "A", "dog", ".")
    ]
    assert [source for source, _ in best.alignment] == [target for _, target in best.alignment]


def test_spans_are_those_of_the_text_with_its_markup() -> None:
    line = " <p>The <b>dog</b> &amp; caf&eacute;&nbsp;{x}.</p>  <p>Two <i>dogs</i></p>"
    best = aligned(line, markup="html")
    assert best.text == " <p>THE <b>DOG</b> &amp; CAFÉ&nbsp;{x}.</p>  <p>TWO <i>DOGS</i></p>"
    pairs = [(html.unescape(source), target) for source, target in shown(line, best, best.alignment)]
    assert pairs == [
        *(("The", "THE"), ("dog", "DOG"), ("&", "&amp;"), ("café", "CAFÉ"), (".", ".")),
        *(("Two", "TWO"), ("dogs", "DOGS")),
    ]
    assert shown(line, best, best.sentences) == [
        ("The <b>dog</b> &amp; caf&eacute;&nbsp;{x}.", "THE <b>DOG</b> &amp; CAFÉ&nbsp;{x}."),
        ("Two <i>dogs", "TWO <i>DOGS"),
    ]


BITS = [
    *("a", "dog ", " ", "<b>", "</b>", "<br>", "<p>", "</p>", "{x}", "{", "%d", "&nbsp;", "&amp;", "&lt;", "&", "<"),
    *("https://a.b/c?d=1", "\t", "日本", "<!-- c -->", ".", ",", "\u0301", "é", "&zwj;", "&bogus;", "\n", "Two dogs"),
]
lines = st.lists(st.sampled_from(BITS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=4)).map("".join)


@given(lines)
def test_the_characters_of_a_plain_text_are_found_in_its_source(line: str) -> None:
    for kept in ((), {"{x}", "https://a.b/c"}):
        for part in read_markup(line, "html", kept):
            if isinstance(part, MarkedText):
                for index, character in enumerate(part.plain):
                    start, end = part.source_span(index, index + 1)
                    assert 0 <= start <= end <= len(part.source)
                    found = html.unescape(part.source[start:end])
                    assert character in found or (character == " " and start == end)  # a space that was put in


@given(lines, st.sampled_from(["none", "html", "placeholders"]), st.sampled_from(["auto", "always"]))
def test_words_of_a_copy_are_aligned_with_themselves(line: str, markup: Markup, split: Split) -> None:
    best = aligned(line, text_translator(), markup=markup, split=split)
    pairs = shown(line, best, best.alignment)
    words = [html.unescape(source).casefold() for source, _ in pairs]
    for (source, target), word in zip(pairs, words, strict=True):
        assert source
        assert target
        if words.count(word) == 1 and split == "auto" and "<" not in source + target:
            assert html.unescape(target).casefold() == word
    for pairs_of_line in (best.alignment, best.sentences):
        ends = [end for _, (_, end) in pairs_of_line]
        assert ends == sorted(ends)
        assert all(end <= len(best.text) for end in ends)


@pytest.mark.parametrize("markup", ["none", "html"])
def test_words_that_nothing_is_aligned_with_do_not_matter(markup: Markup) -> None:
    for function in (lambda _: "", lambda _: "! ?", lambda _: "\u0301"):
        best = aligned("one two", text_translator(function), markup=markup)
        assert all(target for _, target in shown("one two", best, best.alignment))
