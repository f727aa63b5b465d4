"""Text in capitals, and titles: what the model reads, and what becomes of its translation."""

import re
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_marian import SOURCE_TEXT, learned, pieces_of
from text_engine import TextEngine
from transduce.config import DecodeConfig
from transduce.text import SPECIAL_TOKENS, UNK, SentencePieceTokenizer, SubwordTokenizer
from transduce.translation.constraints.line_constraints import Constraints
from transduce.translation.pipeline import TextOptions
from transduce.translation.pipeline.capitals import Capitals
from transduce.translation.pipeline.restoring import LEFT_AS_IT_WAS
from transduce.translation.result import Translation
from transduce.translation.translator import Translator
from transduce.translation.windows import Window

CORPUS = [
    "the dog runs and a cat sleeps in Paris, and NASA says that we don't see the quick dog",
    "I see that the dog is in Paris, and the Hund and the Katze too",
    "a dog and a cat and the man and I run in Paris with NASA",
] * 5
TOKENIZER = SubwordTokenizer.train(CORPUS, algorithm="bpe", vocab_size=500)
WHOLE = TextOptions(capitals=True)
BY_SENTENCE = TextOptions(capitals=True, split="always")


def _read(line: str, options: TextOptions = WHOLE, target: str = "de") -> str:
    return Capitals(Window(1, [line]), TOKENIZER, options, target).removed().lines[0]


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("THE DOG RUNS.", "The dog runs."),
        (
            "THE DOG RUNS IN PARIS. NASA AND I DON'T SEE THE CAT!",
            "The dog runs in Paris. NASA and I don't see the cat!",
        ),
        ("\tTHE HUND 2 – THE KATZE", "\tThe Hund 2 – the Katze"),
        ("The Dog And The Cat Run In Paris", "The dog and the cat run in Paris"),
        ("The Dog And NASA Run In Paris", "The dog and NASA run in Paris"),
        ("DOG CAT", "Dog cat"),
        ("THE 2ª DOG", "The 2ª dog"),
        # What is no prose.
        ("THE DOG SEES %S AND HTTPS://X.ORG/THE", "The dog sees %S and HTTPS://X.ORG/THE"),
        ("THE DOG AT DOG@CAT.ORG", "The dog at DOG@CAT.ORG"),
        ("THE DOG IN C:\\DOG AND A4", "The dog in C:\\DOG and A4"),
        ("<b>THE DOG</b> RUNS", "<b>The dog</b> runs"),
    ],
)
def test_the_model_reads_ordinary_text(line: str, read: str) -> None:
    assert _read(line) == read


@pytest.mark.parametrize(
    "line",
    [
        *(
            "",
            "  ",
            "the dog runs.",
            "The dog runs in Paris.",
            "DOG",
            "I AM",
            # Letters of other scripts have no capitals, so those of names say nothing.
            "请参阅 README 和 LICENSE 文件",
            "このAPIは SDKを使う",
            "الرجاء استخدام API و SDK",
            "요즘 HTML CSS 공부",
            "ใช้ Lord Of The Rings และ",
            "NASA!",
            "犬が走る。",
            "2 + 2",
            "A B C D",
        ),
        *("The Dog Runs", "The Dog And A cat", "THE DOG RUNS. The cat sleeps.", "THE dog"),
    ],
)
def test_other_text_stays(line: str) -> None:
    assert not Capitals(Window(1, [line]), TOKENIZER, WHOLE, "de").lines


def test_where_sentences_are_translated_one_by_one_each_counts_by_itself() -> None:
    line = "THE DOG RUNS. The cat sleeps. THE CAT SLEEPS!"
    assert _read(line, BY_SENTENCE) == "The dog runs. The cat sleeps. The cat sleeps!"


@pytest.mark.parametrize(("language", "target"), [("tr", "de"), ("de", "az"), ("tr-TR", "de")])
def test_languages_with_other_rules_stay(language: str, target: str) -> None:
    assert _read("THE DOG RUNS.", replace(WHOLE, language=language), target) == "THE DOG RUNS."


def _translated(lines: list[str], options: TextOptions, **words: str) -> tuple[list[str], list[str]]:
    """Returns what a translator that replaces words wrote, and what it read."""

    def function(text: str) -> str:
        for source, target in words.items():
            text = text.replace(source, target)
        return text

    engine = TextEngine(TOKENIZER, function, 1024)
    translator = Translator(engine, TOKENIZER, DecodeConfig(batch_size=4))
    found = [best for best, *_ in translator.stream(lines, text_options=options)]
    return [best.text for best in found], engine.seen


def test_a_translation_gets_the_capitals_of_its_source() -> None:
    lines = ["THE DOG RUNS.", "The dog runs.", "The Dog And A Cat Run"]
    written, read = _translated(lines, WHOLE, runs="läuft, Straße", dog="Hund")
    assert sorted(read) == sorted(["The dog runs.", "The dog runs.", "The dog and a cat run"])
    assert written == ["THE HUND LÄUFT, STRAẞE.", "The Hund läuft, Straße.", "The Hund And A Cat Run"]
    assert _translated(lines[:1], TextOptions(), dog="Hund") == (["THE DOG RUNS."], ["THE DOG RUNS."])


def test_accents_that_follow_their_letters_are_part_of_words() -> None:
    lines = ["The Dog And A Cat Run", "THE DO\u0301G RUNS.", "A\u0300 NASA"]
    written, read = _translated(lines, WHOLE, dog="ẹ\u0300kọ\u0301")
    assert written == ["The Ẹ\u0300kọ\u0301 And A Cat Run", *lines[1:]]
    assert sorted(read) == sorted(["The dog and a cat run", "The do\u0301g runs.", "A\u0300 NASA"])


def test_georgian_has_capitals_for_whole_words_only() -> None:
    assert _translated(["The Dog And A Cat Run", "THE DOG RUNS."], WHOLE, dog="ძაღლი")[0] == [
        "The ძაღლი And A Cat Run",
        "THE ᲫᲐᲦᲚᲘ RUNS.",
    ]


def test_each_sentence_gets_its_own_capitals() -> None:
    written, _ = _translated(["THE DOG RUNS. The cat sleeps."], BY_SENTENCE, runs="runs and runs")
    assert written == ["THE DOG RUNS AND RUNS. The cat sleeps."]


def test_markup_stays_in_translations() -> None:
    html = replace(WHOLE, markup="html")
    written, read = _translated(['<b class="x">THE DOG</b> RUNS &amp; SEES <br>THE CAT'], html)
    assert written == ['<b class="x">THE DOG</b> RUNS &amp; SEES <br>THE CAT']
    assert read[0].startswith("The dog runs & sees")
    assert _translated(["THE DOG SEES {name} AND %s"], replace(WHOLE, markup="placeholders"))[0] == [
        "THE DOG SEES {name} AND %s"
    ]


def test_a_line_whose_markup_would_not_survive_is_left_with_its_capitals_and_signs() -> None:
    """Each part is fine by itself, but the braces of both would hold a placeholder that the source has not."""
    written = {'The dog runs "there"': "{hund", "the cat runs": "katze}"}
    translator = Translator(TextEngine(TOKENIZER, lambda text: written[text], 100), TOKENIZER, DecodeConfig())
    line = "THE DOG RUNS \u201cTHERE\u201d<br>THE CAT RUNS"
    [[best]] = translator.translate_n_best(
        [line], 1, text_options=TextOptions(capitals=True, signs=True, markup="html")
    )
    assert (best.text, best.warnings) == (line, (LEFT_AS_IT_WAS,))


def test_words_and_spans_are_those_of_the_translation() -> None:
    engine = TextEngine(TOKENIZER, lambda text: text.replace("dog", "Straßen-Hund"), 1024)
    translator = Translator(engine, TOKENIZER, DecodeConfig())
    options = TextOptions(capitals=True, confidence=True, alignment=True)
    [[best]] = translator.stream(["THE DOG RUNS."], text_options=options)
    assert best.text == "THE STRAẞEN-HUND RUNS."
    assert [word for word, _ in best.words] == ["THE", "STRAẞEN-HUND", "RUNS."]
    assert best.sentences == (((0, 13), (0, 22)),)
    assert {best.text[slice(*target)] for _, target in best.alignment} <= {"THE", "STRAẞEN", "-", "HUND", "RUNS", "."}


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_vocabularies_of_sentencepiece_know_forms_as_well(kind: str) -> None:
    """Capitals that they lack are unknown, such as the "R" of "RUNS"."""
    text = (*SOURCE_TEXT, "the dog and the field and the grass in Paris", "the dogs see the dog on the grass in Paris")
    definition = learned(text, model_type=kind, vocab_size=120)
    tokenizer = SentencePieceTokenizer.of([*SPECIAL_TOKENS, *pieces_of(definition)], definition)
    lines = ["A DOG RUNS ON GRASS IN PARIS.", "TWO DOGS RUN OVER GREEN GRASS!"]
    read = ["A dog runs on grass in Paris.", "Two dogs run over green grass!"]
    assert Capitals(Window(1, lines), tokenizer, WHOLE, "de").removed().lines == read


def test_a_greek_word_ends_in_its_own_sigma() -> None:
    text = "Ο σκυλος τρεχει στους δρομους"
    tokenizer = SubwordTokenizer.train([text] * 5, algorithm="bpe", vocab_size=400)
    assert Capitals(Window(1, [text.upper()]), tokenizer, WHOLE, "de").removed().lines == [text]


def test_lines_with_a_prefix_or_terms_stay() -> None:
    bound = [Constraints(prefix="Der"), Constraints(required=(("Hund",),)), Constraints()]
    found = Capitals(Window(1, ["THE DOG RUNS."] * 3, bound), TOKENIZER, WHOLE, "de").removed()
    assert found.lines == ["THE DOG RUNS.", "THE DOG RUNS.", "The dog runs."]
    assert found.constraints == bound


def test_a_window_without_capitals_is_returned_as_it_is() -> None:
    window = Window(1, ["The dog runs."])
    assert Capitals(window, TOKENIZER, WHOLE, "de").removed() is window


@given(st.text(alphabet="ABcßıİǰŉΣςﬁᾳ '.<>&;%s1@/\n", max_size=40))
def test_the_length_of_a_text_stays(line: str) -> None:
    assert len(_read(line)) == len(line)
    assert len(_read(line, replace(BY_SENTENCE, markup="html"))) == len(line)
    upper = f"THE DOG {line}".upper()
    assert len(_read(upper)) == len(upper)


def test_a_form_that_the_vocabulary_has_no_signs_for_is_not_taken() -> None:
    """The piece for all unknown signs is a single one, and the first, but says nothing."""

    class Small(SubwordTokenizer):
        def __init__(self) -> None:
            pass

        def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
            return [[9, 50, 51] if text.islower() else [9, UNK] for text in texts]

    assert Capitals(Window(1, ["IN THE DOG"]), Small(), WHOLE, "de").removed().lines == ["In the dog"]


def test_many_accents_on_a_letter_are_read_in_linear_time() -> None:
    """When each accent doubled the time, these took a minute. The sign "@" makes the word part of an address."""
    line = "THE DOG A" + "\u0300" * 25 + "@"
    before = time.process_time()
    assert _translated([line], WHOLE)[0] == [line]
    assert time.process_time() - before < 15, "processor seconds: the machine may be busy"


@pytest.mark.parametrize("sentence", ["THE DOG RUNS. ", "THE DOG %s ", "A Dog And The Cat "])
def test_long_text_is_read_in_linear_time(sentence: str) -> None:
    def seconds(times: int) -> float:
        start = time.process_time()
        line = sentence * times
        capitals = Capitals(Window(1, [line]), TOKENIZER, BY_SENTENCE, "de")
        read = capitals.removed().lines[0]
        spans = [(match.start(), match.end()) for match in re.finditer(r"[^ ]+ ", line)]
        best = Translation(read, 0.0, 0.0, (), True, False, sentences=tuple(zip(spans, spans, strict=True)))
        assert len(capitals.restored([[best]])[0][0].text) == len(line)
        return time.process_time() - start

    seconds(100)
    assert min(seconds(3000) for _ in range(3)) < 25 * min(seconds(300) for _ in range(3))
