"""Long input: cut where a sentence ends or a part fits, and put together in its own white space."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_tokenizer import FakeTokenizer
from text_engine import TextEngine, text_translator
from transduce.config import DataConfig
from transduce.errors import ConfigError, TokenizerError
from transduce.translation.constraints.line_constraints import Constraints
from transduce.translation.pipeline import TextOptions
from transduce.translation.pipeline.checkpoints import never
from transduce.translation.pipeline.joining import _joined, choices_of_parts, merged
from transduce.translation.pipeline.protecting import attempts, protect
from transduce.translation.pipeline.sentences import fitting_spans, sentence_spans, usual_sentences
from transduce.translation.pipeline.splitting import split
from transduce.translation.result import Translation
from transduce.translation.translator import Translator
from transduce.translation.windows import Window, cut_windows

TEXT = "Dr. Smith runs.  Two dogs\trun! “Really?” she asked.\nA man with 3.5 balls"
LIMIT = 8
ALWAYS = TextOptions(split="always")
SHORT = text_translator(str.upper, max_source_tokens=LIMIT)


def seen(translator: Translator) -> list[str]:
    """Returns what reached the engine since the last call."""
    assert isinstance(translator.engine, TextEngine)
    found, translator.engine.seen = translator.engine.seen, []
    return found


def test_sentences_end_where_they_should() -> None:
    sentences = [TEXT[start:end] for start, end in sentence_spans(TEXT, "en")]
    assert sentences == ["Dr. Smith runs.", "Two dogs\trun!", "“Really?” she asked.", "A man with 3.5 balls"]
    assert ["日本語。次の文。"[a:b] for a, b in sentence_spans("日本語。次の文。", "ja")] == ["日本語。", "次の文。"]
    assert sentence_spans(" \n\t ") == []


@pytest.mark.parametrize("language", ["de", "de-AT", "de_CH", "DE"])
def test_a_region_has_the_sentences_of_its_language(language: str) -> None:
    """In German a number with a full stop may be an ordinal, and "bzw." ends no sentence; in English both end one."""
    text = "Er sah Hunde bzw. Dr. Huber am 3. Mai. Dann ging er."
    assert [text[a:b] for a, b in sentence_spans(text, language)] == [text[:38], "Dann ging er."]


@given(st.text(), st.sampled_from(["", "en", "de-AT", "ja", "ar", "xx"]))
def test_spans_cover_all_but_white_space(text: str, language: str) -> None:
    spans = sentence_spans(text, language)
    edges = [0, *(edge for span in spans for edge in span), len(text)]
    assert edges == sorted(edges)
    between = [text[edges[i] : edges[i + 1]] for i in range(0, len(edges), 2)]
    assert not "".join(between).strip()
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in spans)


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(words, st.integers(1, 12))
def test_parts_fit_and_cover_the_text(text: str, limit: int) -> None:
    tokenizer = SHORT.tokenizer
    parts = list(fitting_spans(text, (0, len(text)), limit, tokenizer))
    edges = [0, *(edge for part in parts for edge in part), len(text)]
    assert edges == sorted(edges)
    assert not "".join(text[edges[i] : edges[i + 1]] for i in range(0, len(edges), 2)).strip()
    for start, end in parts:
        fits = end == start + 1 or len(tokenizer.encode(text[start:end])) <= limit  # one character may have many bytes
        assert fits or len(text[start:end].split()) == 1  # a word that is too long


def test_a_part_is_filled_to_its_last_token() -> None:
    text = "字" * 12  # three tokens each, and one for the space before a text
    assert [text[a:b] for a, b in fitting_spans(text, (0, 12), 10, SHORT.tokenizer)] == ["字" * 3] * 4


def test_a_long_sentence_is_cut_at_the_best_place() -> None:
    tokenizer = SHORT.tokenizer

    def parts(text: str, limit: int) -> list[str]:
        return [text[start:end] for start, end in fitting_spans(text, (0, len(text)), limit, tokenizer)]

    count = len(tokenizer.encode("A dog runs; a man, a ball"))
    assert parts("A dog runs; a man, a ball", count) == ["A dog runs; a man, a ball"]
    assert parts("A dog runs; a man, a ball", count - 1) == ["A dog runs;", "a man, a ball"]
    assert parts("A dog runs, a man a ball", count - 2)[0] == "A dog runs,"
    assert all(not part.startswith("og") for part in parts("A dog " * 20, 5))  # between words, not in them


class Characters(FakeTokenizer):
    """A tokenizer whose tokens are single characters; the first one has the space before a text."""

    def encode(self, text: str) -> list[int]:
        return [-ord(text[0]), *map(ord, text[1:])] if text else []

    def piece_bytes(self, ids: Sequence[int]) -> list[bytes]:
        return [f" {chr(-each)}".encode() if each < 0 else chr(each).encode() for each in ids]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("a" * 12 + " " + "b" * 7 + " " + "c" * 9, "a" * 12),  # at 12, as 20 is too far
        ("aaaaaa, bbbb " + "c" * 17, "aaaaaa, bbbb"),  # the comma at 7 is too near
        ("aaaaaaa, bbb " + "c" * 17, "aaaaaaa,"),
        *((f"aaaaaaa{sign} bbb " + "c" * 17, f"aaaaaaa{sign}") for sign in "،؛؟۔।॥։။។၊"),
        ("a" * 18 + " " + "c" * 11, "a" * 18),
        ("aaa " + "b" * 15 + " " + "c" * 10, "aaa"),  # nothing near the middle: before it
        ("a" * 20 + " " + "c" * 9, "a" * 20),  # nor before it: the next one
    ],
)
def test_a_cut_is_near_the_end_of_an_equal_share(text: str, first: str) -> None:
    """Of 30 tokens with a limit of 28 there are two parts of 15: the first has 8 tokens, over half of it, to 18."""
    assert len(text) == 30
    tokenizer = cast(Any, Characters())
    assert [text[a:b] for a, b in fitting_spans(text, (0, 30), 28, tokenizer)] == [first, text[len(first) :].strip()]


class Counting(FakeTokenizer):
    """A tokenizer that counts the characters that it is given."""

    def __init__(self) -> None:
        super().__init__(num_characters=0, piece_bytes=SHORT.tokenizer.piece_bytes)

    def encode(self, text: str) -> list[int]:
        self.num_characters += len(text)
        return SHORT.tokenizer.encode(text)


@pytest.mark.parametrize("unit", ["x", ".", "字", "a b, ", "\u0301", "👩‍👩‍👧", "ab. ", "x" * 3000 + " "])
def test_work_on_a_long_line_is_linear_in_its_length(unit: str) -> None:
    work = []
    for length in (8_000, 16_000, 32_000):
        text = (unit * length)[:length]
        tokenizer = Counting()
        list(fitting_spans(text, (0, length), 100, tokenizer))  # type: ignore[arg-type]
        work.append(tokenizer.num_characters)
    assert work[2] <= 2.5 * work[1] <= 6.25 * work[0]
    assert work[2] < 40 * 32_000


def test_the_beginning_of_a_word_that_is_too_long_is_translated_with_a_warning() -> None:
    blob = "x" * 40_000
    [[best]] = SHORT.translate_n_best([f"A dog {blob} a man."], 1)
    assert best.source_truncated
    assert best.num_parts == 3
    assert best.text.startswith("A DOG X")
    assert best.text.endswith("X A MAN.")
    assert len(best.text) < 100
    limit = SHORT.engine.max_source_tokens
    [[best]] = SHORT.translate_n_best(["字" * limit], 1)  # words that cannot be told: cut anywhere, and nothing is lost
    assert (best.text, best.num_parts > 1, best.source_truncated) == ("字" * limit, True, False)
    [[best]] = SHORT.translate_n_best(["字" * 100 * limit], 1)
    assert (best.num_parts, best.source_truncated) == (1, True)


def test_long_lines_are_cut_and_short_ones_are_not() -> None:
    lines = ["A dog. A dog.", "a man " * 30, "  A dog. ", ""]
    seen(SHORT)
    found = [best for [best] in SHORT.translate_n_best(lines, 1)]
    assert [best.text for best in found] == [line.upper() if line.strip() else "" for line in lines]
    assert [best.num_parts > 1 for best in found] == [False, True, False, False]
    assert not any(best.source_truncated for best in found)
    assert "A dog. A dog." in seen(SHORT)
    assert found[1].tokens
    assert found[1].ids


def test_a_text_of_few_characters_may_have_many_tokens() -> None:
    """Each of these has three, and one is that of the space before a text."""
    [[whole], [cut]] = SHORT.translate_n_best(["字字", "字字字"], 1)
    assert (whole.num_parts, cut.num_parts, cut.text, cut.source_truncated) == (1, 2, "字字字", False)


def test_never_cuts_nothing() -> None:
    [[best]] = SHORT.translate_n_best(["a man " * 30], 1, text_options=TextOptions(split="never"))
    assert best.source_truncated
    assert best.num_parts == 1
    assert len(best.text) < 60


def test_always_cuts_all_and_keeps_white_space() -> None:
    whole = text_translator(str.upper)
    assert whole.translate([TEXT, "A dog.", " "], text_options=ALWAYS) == [TEXT.upper(), "A DOG.", ""]
    assert seen(whole)[:4] == ["Dr. Smith runs.", "Two dogs\trun!", "“Really?” she asked.", "A man with 3.5 balls"]


def test_spaces_between_sentences_are_those_of_the_target() -> None:
    english = text_translator(lambda text: "A dog." if "日" in text else "次。" if "dog" in text else text)
    assert english.translate(["日。日。 日。"], text_options=ALWAYS) == ["A dog. A dog. A dog."]
    assert english.translate(["A dog. A dog.  A dog.\nA dog."], text_options=ALWAYS) == ["次。次。次。\n次。"]
    in_html = TextOptions(split="always", markup="html")
    assert english.translate(["<p>A dog. A dog.</p> <p>A dog.</p>"], text_options=in_html) == [
        "<p>次。次。</p> <p>次。</p>"
    ]
    thai = text_translator(lambda text: "ไป" if "dog" in text else text)  # has spaces between sentences
    assert thai.translate(["A dog. A dog."], text_options=ALWAYS) == ["ไป ไป"]


def test_n_best_of_parts_are_the_best_sums() -> None:
    translator = text_translator()
    [found] = translator.translate_n_best(["A dog. A man."], 3, text_options=ALWAYS)
    assert [t.score for t in found] == [0.0, -1.0, -1.0]
    assert {t.text for t in found} == {"A dog. A man.", "A dog.! A man.", "A dog. A man.!"}
    assert found[0].text == "A dog. A man."
    assert found[0].num_parts == 2


def test_sums_that_differ_by_rounding_keep_the_first_part_best() -> None:
    """Of two parts, the second ones lose 1 and 0.4, or in the end both lose 0.3, but for rounding."""

    def part(name: str, *scores: float) -> list[Translation]:
        return [Translation(f"{name}{i}", score, 0.0, (), True, False) for i, score in enumerate(scores)]

    def chosen(n_best: int, *parts: list[Translation]) -> list[str]:
        return ["".join(each.text for each in choice) for choice in choices_of_parts(parts, n_best, drawn=False)]

    assert chosen(4, part("a", -2.0, -3.0), part("b", -1.0, -1.4, -3.5)) == ["a0b0", "a0b1", "a1b0", "a1b1"]
    assert chosen(9, part("a", -2.0, -3.0), part("b", -1.0)) == ["a0b0", "a1b0"]
    assert chosen(1, part("a", -2.0, -3.0), part("b", -1.0, -1.4)) == ["a0b0"]
    assert chosen(3, part("a", -2.0, -2.3), part("b", -1.0, -1.29996)) == ["a0b0", "a0b1", "a1b0"]
    assert chosen(3, part("a", -2.0, -2.29996), part("b", -1.0, -1.3)) == ["a0b0", "a0b1", "a1b0"]
    assert chosen(3, part("a", -2.0, -2.29), part("b", -1.0, -1.3)) == ["a0b0", "a1b0", "a0b1"]


@pytest.mark.parametrize("text_options", [ALWAYS, TextOptions(markup="html")])
def test_draws_of_parts_stay_in_their_order(text_options: TextOptions) -> None:
    translator = text_translator()
    [found] = translator.translate_n_best(["A dog. <br> A man."], 3, text_options=text_options, temperature=1.0)
    assert [t.text.count("!") for t in found] == [0, found[1].num_parts, 2 * found[1].num_parts]
    assert found[1].num_parts >= 2


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_any_text_comes_back_whole(text: str) -> None:
    """An engine that returns its source gives the text back, in whatever parts it came, but for missing spaces."""
    same = Translator(TextEngine(SHORT.tokenizer, str, 7), SHORT.tokenizer, SHORT.options)
    for text_options in (ALWAYS, TextOptions()):
        [[best]] = same.translate_n_best([text], 1, text_options=text_options)
        if best.source_truncated:  # a word that is too long
            assert max(len(SHORT.tokenizer.encode(word)) for word in text.split()) > 7
            continue
        result = best.text
        expected = text if text.strip() else ""
        assert result.replace(" ", "").replace("\n", "") == expected.replace(" ", "").replace("\n", "")


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"split = 'alway': must be auto, always, never\. Did you mean 'always'\?"):
        TextOptions(split="alway")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="markup = 'HTML': must be none, html, placeholders"):
        TextOptions(markup="HTML")  # type: ignore[arg-type]
    with pytest.raises(TokenizerError, match="lone surrogate"):
        SHORT.translate(["A \ud800 dog. Two"], text_options=ALWAYS)  # which the splitter cannot encode


@pytest.mark.parametrize(
    ("options", "name"),
    [({"markup": "html"}, "markup = 'html'"), ({"guard": True}, "guard"), ({"split": "always"}, "split = 'always'")],
)
def test_what_works_on_parts_of_lines_does_not_go_with_what_holds_for_whole_ones(
    options: dict[str, Any], name: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{name} does not go with prefixes or required terms by line"):
        TextOptions(**options).require_whole_lines()
    TextOptions(split="never", markup="placeholders", confidence=True, alignment=True).require_whole_lines()


def test_windows_are_bounded_in_lines_and_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.translation.windows._WINDOW_CHARACTERS", 10)

    def cut(lines: list[str], size: int) -> list[tuple[int, Sequence[str]]]:
        return [(window.first, window.lines) for window in cut_windows(lines, size)]

    assert cut(["a"] * 5, 2) == [(1, ["a", "a"]), (3, ["a", "a"]), (5, ["a"])]
    assert cut(["abcdef", "abcdef", "a"], 5) == [(1, ["abcdef", "abcdef"]), (3, ["a"])]
    assert cut([], 5) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        (" \t", 0),
        ("A dog runs", 1),
        ("A dog runs. ", 1),
        ("Mr. Smith has a dog.", 1),
        ("A dog runs. A man sits.", 2),
        ("A dog runs! Why? It sees a ball.", 3),
        ("A dog\nA man", 2),
        ("一只狗在跑。一个人坐着。", 2),
    ],
)
def test_number_of_sentences(text: str, expected: int) -> None:
    assert len(sentence_spans(text)) == expected


def test_usual_number_of_sentences() -> None:
    assert usual_sentences([]) == usual_sentences([" "]) == 0
    one, two = "A dog runs.", "A dog runs. A man sits."
    assert usual_sentences([one] * 95 + [two] * 5 + [""] * 50) == 1
    assert usual_sentences([one] * 94 + [two] * 6) == 2
    assert usual_sentences([two]) == 2
    assert usual_sentences([one] * 9 + [two]) == 2  # 9.5 lines are 10


def test_a_whole_is_finished_only_if_each_part_is() -> None:
    [[best]] = SHORT.translate_n_best(["A dog."], 1)
    cut_off = replace(best, finished=False, source_truncated=True)
    for parts, finished in (([best, best], True), ([best, cut_off], False), ([cut_off, best], False)):
        whole = merged(parts, "A dog. A dog.", [(0, 0), (7, 7)])
        assert (whole.finished, whole.source_truncated) == (finished, not finished)


def test_a_whole_has_all_of_its_parts() -> None:
    """Scores and log-probabilities are summed; spans move by where the part begins, on each side by its own."""
    first = Translation(
        "A.", -1.0, -2.0, ("x",), True, False, ids=(5,), num_parts=2, sentences=(((0, 3), (0, 2)),),
        alignment=(((0, 1), (1, 2)),), warnings=("w", "v"), words=(("A.", 0.5),), token_log_probabilities=(-0.1,),
        required=((("A",), True),), forced=(("A",),),
    )  # fmt: skip
    second = Translation(
        "BB.", -0.5, -0.25, ("y", "z"), True, False, ids=(6, 7), sentences=(((0, 4), (0, 3)),),
        alignment=(((1, 2), (0, 2)),), warnings=("u", "w"), words=(("BB.", 0.25),),
        token_log_probabilities=(-0.2, -0.3), required=((("C",), False),), forced=(("B",),),
    )  # fmt: skip
    assert merged([first, second], "A. BB.", [(0, 0), (4, 3)]) == Translation(
        "A. BB.", -1.5, -2.25, ("x", "y", "z"), True, False, ids=(5, 6, 7), num_parts=3,
        sentences=(((0, 3), (0, 2)), ((4, 8), (3, 6))), alignment=(((0, 1), (1, 2)), ((5, 6), (3, 5))),
        warnings=("w", "v", "u"), words=(("A.", 0.5), ("BB.", 0.25)), token_log_probabilities=(-0.1, -0.2, -0.3),
        required=((("A",), True), (("C",), False)), forced=(("A",), ("B",)),
    )  # fmt: skip


def test_a_text_of_just_as_many_tokens_as_the_model_reads_is_whole() -> None:
    texts = (f"A man! A {'ball runs green'[:length]}".strip() for length in range(16))
    text = next(each for each in texts if len(SHORT.tokenizer.encode(each)) == LIMIT)
    less = text_translator(str.upper, max_source_tokens=LIMIT - 1)
    for translator, wanted, num_parts, is_truncated in (
        (SHORT, "auto", 1, False),
        (SHORT, "never", 1, False),
        (SHORT, "always", 2, False),
        (less, "auto", 2, False),
        (less, "never", 1, True),
    ):
        [[best]] = translator.translate_n_best([text], 1, text_options=TextOptions(split=wanted))  # type: ignore[arg-type]
        assert (best.num_parts, best.source_truncated) == (num_parts, is_truncated)


@pytest.mark.parametrize("markup", ["none", "placeholders", "html"])
def test_sentences_end_by_the_rules_of_the_language_that_is_named(markup: str) -> None:
    """In German, neither "bzw." nor the ordinal number ends a sentence; in English both do."""
    line = "Er sah {x} bzw. Dr. Huber am 3. Mai. Dann ging er."
    for language, num_parts in (("de", 2), ("en", 4)):
        options = TextOptions(split="always", markup=markup, language=language)  # type: ignore[arg-type]
        [[best]] = text_translator().translate_n_best([line], 1, text_options=options)
        assert (best.text, best.num_parts) == (line, num_parts)
    german = text_translator()  # where none is named, the model's
    data = DataConfig(source_language="de", target_language="en")
    german.bundle = cast(Any, SimpleNamespace(config=SimpleNamespace(data=data), metrics={}))
    [[best]] = german.translate_n_best([line], 1, text_options=TextOptions(split="always", markup=markup))  # type: ignore[arg-type]
    assert best.num_parts == 2


def test_a_long_plain_text_with_items_is_cut_before_its_words_are_aligned() -> None:
    """Of more than 4,000 characters; without items, none are aligned, and the text is whole."""
    items = TextOptions(markup="placeholders")
    for line, num_parts in (("a dog {x} " * 420, 2), ("a dog {x} " * 390, 1), ("a dog runs " * 420, 1)):
        [[best]] = text_translator(max_source_tokens=100_000).translate_n_best([line], 1, text_options=items)
        assert best.num_parts == num_parts


def test_parts_are_joined_with_the_white_space_of_the_source() -> None:
    """Between a Chinese sentence and the next one, a language of words needs a space, which the source has not."""
    [[blank]] = SHORT.translate_n_best([""], 1)
    first = replace(blank, text="A.", sentences=(((0, 2), (0, 2)),))
    second = replace(blank, text="B", sentences=(((0, 1), (0, 1)),))
    whole = _joined(" 日。x ", [(1, 3), (3, 4)], [first, second])
    assert (whole.text, whole.sentences) == (" A. B ", (((1, 3), (1, 3)), ((3, 4), (4, 5))))
    assert _joined("x日。", [(0, 1), (1, 3)], [second, first]).text == "BA."
    draws = [[replace(blank, text=f"{part}{number}") for number in range(3)] for part in "ab"]
    chosen = choices_of_parts(draws, 2, drawn=True)
    assert [[each.text for each in choice] for choice in chosen] == [["a0", "b0"], ["a1", "b1"]]


def test_a_line_whose_translation_has_a_beginning_is_not_cut() -> None:
    line = "a man " * 30
    for constraints, is_whole in ((Constraints(), False), (Constraints(prefix="A"), True)):
        window = Window(1, [line], [constraints])
        [inputs] = attempts(protect(window, TextOptions(), never), "none", never)
        parts = split(inputs, window, TextOptions(), SHORT, never)
        assert (len(parts) == 1) == is_whole
        assert all(part.constraints == constraints for part in parts)


def test_a_part_is_called_by_the_line_that_it_is_or_by_its_words() -> None:
    lines = ["A dog.", "Two dogs run. A man.", "a big dog runs over " * 4]
    window = Window(5, lines, None, "test.en, ")
    [inputs] = attempts(protect(window, ALWAYS, never), "none", never)
    parts = split(inputs, window, ALWAYS, text_translator(), never)
    long = "'a big dog runs over a big dog runs over a big dog runs …'"
    assert [part.name for part in parts] == ["test.en, line 5", "'Two dogs run.'", "'A man.'", long]
