"""Loops and copies: found, searched for again, or marked."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from text_engine import TextEngine, text_translator
from transduce.config import DataConfig, DecodeConfig
from transduce.decoding.scores import Hypothesis, hypothesis
from transduce.translation.constraints.line_constraints import Constraints
from transduce.translation.pipeline import TextOptions
from transduce.translation.pipeline.checkpoints import never
from transduce.translation.pipeline.guard import COPIES, REPEATS, _retries, copies, doubts, guard, repeats
from transduce.translation.pipeline.splitting import Part
from transduce.translation.result import Translation

GUARD = TextOptions(guard=True)


@pytest.mark.parametrize(
    "text",
    [
        "ein Mann ein Mann ein Mann",
        "Ein Hund Hund Hund Hund",
        "und dann ging er nach Hause, und dann ging er nach Hause, und dann ging er nach Hause.",
        "a" + "ha" * 20 + " ja ja ja ja",
        "犬が走る犬が走る犬が走る",
    ],
)
def test_loops_are_found(text: str) -> None:
    assert repeats(text)
    assert not repeats(text, source=text)  # as the source has it


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Sehr, sehr, sehr gut!!!",
        "Warte ......... jetzt - - - - -",
        "1 1 1 1",
        "哈哈哈哈",
        "Er sagte, dass das das Beste sei.",
        "Ein Mann und ein Hund und ein Kind.",
        "100000000000 - 1 000 000 000",
    ],
)
def test_normal_repetition_is_no_loop(text: str) -> None:
    assert not repeats(text)


def test_a_text_without_spaces_takes_few_calls_for_each_sign() -> None:
    """Every fourth sign of "a.b-a.b-" repeats, and none of the twelve lengths of phrases may cost calls for each."""
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        found = repeats("a.b-" * 1000)
    finally:
        sys.setprofile(None)
    assert found
    assert calls < 20 * 4000


def test_copies() -> None:
    source = "Two young men are playing football in the park."
    assert copies(source, source)
    assert copies("Zwei " + source[4:], source)
    assert not copies("Zwei junge Männer spielen Football in the park.", source)
    assert not copies("Barack Obama, Angela Merkel", "Barack Obama, Angela Merkel")  # names stay
    assert doubts(source, source) == (COPIES,)
    assert doubts(source, source, same_language=True) == ()


class ListEngine(TextEngine):
    """Returns the same list of outputs for each source; notes the options it was called with."""

    outputs: Sequence[str] = ()

    def translate(
        self, sources: Sequence[Sequence[int]], options: DecodeConfig, n_best: int = 1
    ) -> list[list[Hypothesis]]:
        """Returns the first `n_best` outputs."""
        self.calls = [*getattr(self, "calls", []), (len(sources), options, n_best)]
        ids = [self.tokenizer.encode(output) for output in self.outputs[:n_best]]
        return [[hypothesis(found, -1.0 * i, True, 0.0) for i, found in enumerate(ids)] for _ in sources]


def list_translator(outputs: Sequence[str]) -> tuple[object, ListEngine]:
    translator = text_translator()
    engine = ListEngine(translator.tokenizer, str, 100)
    engine.outputs = outputs
    translator.engine = engine
    return translator, engine


LOOP = "ein Hund Hund Hund Hund"


def test_the_next_of_the_n_best_list_is_taken() -> None:
    translator, engine = list_translator([LOOP, LOOP + "!", "ein Hund"])
    [[best]] = translator.translate_n_best(
        [
            "A dog.",
        ],
        1,
        beam_size=1,
        text_options=GUARD,
    )  # type: ignore[attr-defined]
    assert best.text == "ein Hund"
    assert best.warnings == ()
    assert [call[2] for call in engine.calls] == [1, 4]


def test_random_draws_are_drawn_again() -> None:
    translator, engine = list_translator([LOOP, LOOP + "!", "ein Hund"])
    options = {"temperature": 0.8, "top_k": 5, "top_p": 0.9, "seed": 7}
    [[best]] = translator.translate_n_best(["A dog."], 1, text_options=GUARD, **options)  # type: ignore[attr-defined]
    assert (best.text, best.warnings) == ("ein Hund", ())
    said = [(call[1].temperature, call[1].top_k, call[1].top_p, call[1].seed) for call in engine.calls]
    assert said == [(0.8, 5, 0.9, 7), (0.8, 5, 0.9, 8)]


def test_a_persistent_loop_gets_a_warning() -> None:
    translator, engine = list_translator([LOOP] * 4)
    found = translator.translate_n_best(["A dog.", "x"], 2, text_options=GUARD)  # type: ignore[attr-defined]
    assert [[t.warnings for t in line] for line in found] == [[(REPEATS,)] * 2] * 2
    assert all(call[0] == 2 for call in engine.calls)
    assert [t.warnings for [t] in translator.translate_n_best(["A dog."], 1)] == [()]  # type: ignore[attr-defined]


def test_copies_in_scripts_without_spaces() -> None:
    """Two characters are a word: 12 are enough, and a run of eight must be equal."""
    source = "我们今天去公园散步，然后回家吃饭。"  # 15 letters
    assert copies(source, source)
    assert copies("วันนี้เราไปเดินเล่นที่สวน", "วันนี้เราไปเดินเล่นที่สวน")
    assert not copies("東京都立中央図書館前", "東京都立中央図書館前")  # ten characters may be a name
    # Of 13 characters, six runs of eight: those that begin at 0, 1 and 2 are copied, then those at 0 and 1.
    assert copies("甲乙丙丁戊己庚辛壬癸子丑寅", "甲乙丙丁戊己庚辛壬癸天地人")
    assert not copies("甲乙丙丁戊己庚辛壬癸子丑寅", "甲乙丙丁戊己庚辛壬天地人月")


def test_a_clean_line_costs_nothing_more() -> None:
    translator, engine = list_translator(["ein Hund"] * 4)
    assert translator.translate(["A dog."] * 3, text_options=GUARD) == ["ein Hund"] * 3  # type: ignore[attr-defined]
    assert len(engine.calls) == 1


def test_a_number_of_a_hundred_thousand_digits_is_no_word() -> None:
    number = "0" * 100_000
    assert not copies(f"{number} a b c d e", number)
    assert copies(f"{number} a1 _b c3 d e f", f"a1 _b c3 d e f {number}")


@pytest.mark.parametrize(
    ("text", "is_loop"),
    [
        ("sehr sehr sehr gut", False),
        ("sehr sehr sehr sehr gut", True),
        ("ein Mann ein Mann schläft", False),
        ("ein Mann ein Mann ein Mann", True),
        ("!" * 15, False),
        ("!" * 16, True),
        ("哈" * 15, False),
        ("哈" * 16, True),
        ("a b c d e f g h i j k l " * 3, True),
        ("a b c d e f g h i j k l m " * 3, False),  # a phrase of thirteen is a refrain
    ],
)
def test_how_often_is_a_loop(text: str, is_loop: bool) -> None:
    assert repeats(text) is is_loop
    assert not repeats(text, text)


@pytest.mark.parametrize(
    ("languages", "warnings"), [(("en", "en"), ()), (("en", "de"), (COPIES,)), (("", ""), (COPIES,))]
)
def test_a_translation_into_the_language_of_its_source_may_be_a_copy(
    languages: tuple[str, str], warnings: tuple[str, ...]
) -> None:
    translator = text_translator()
    data = DataConfig(source_language=languages[0], target_language=languages[1])
    translator.bundle = cast(Any, SimpleNamespace(config=SimpleNamespace(data=data), metrics={}))
    [[best]] = translator.translate_n_best(["Two dogs run over the green grass."], 1, text_options=GUARD)
    assert best.warnings == warnings


def test_how_much_is_a_copy() -> None:
    """Of the seven words "a b c d e x y" two of four 4-grams are copied; of "a b c d x y z" one."""
    source = "a b c d e f g"
    assert [copies(text, source) for text in ("a b c d e x y", "a b c d x y z", "a b c d e f", "a b c d e")] == [
        True,
        False,
        True,
        False,  # five words may be a name
    ]


def test_searches_of_what_is_wrong_are_wider_and_then_repeat_no_three_tokens() -> None:
    def shown(options: DecodeConfig, n_best: int) -> list[tuple[int, int, int, int]]:
        again = _retries(options, n_best)
        return [(each.beam_size, each.no_repeat_ngram, each.diversity_groups, each.seed) for each in again]

    assert shown(DecodeConfig(beam_size=1), 1) == [(4, 0, 1, 1), (4, 3, 1, 1)]
    assert shown(DecodeConfig(beam_size=6, diversity_groups=2), 2) == [(6, 0, 1, 1), (6, 3, 1, 1)]
    assert shown(DecodeConfig(beam_size=5), 5)[0][0] == 5
    assert shown(DecodeConfig(beam_size=1, temperature=0.5, seed=7), 1) == [(4, 0, 1, 8), (4, 3, 1, 9)]
    last = DecodeConfig(beam_size=1, temperature=0.5, seed=2**62 - 1)
    assert shown(last, 1) == [(4, 0, 1, 0), (4, 3, 1, 1)]


def test_no_more_translations_than_were_asked_for() -> None:
    translator, _ = list_translator([LOOP, "ein Hund", "ein Mann"])
    found = translator.translate_n_best(["A dog."], 1, beam_size=1, text_options=GUARD)  # type: ignore[attr-defined]
    assert [[best.text for best in line] for line in found] == [["ein Hund"]]


def test_an_address_that_is_copied_is_no_copy_of_the_source() -> None:
    translator = text_translator(lambda text: text.replace("Visit", "Besuche").replace("now", "jetzt"))
    line = "Visit https://example.org/one/two/three/four/five now"
    [[best]] = translator.translate_n_best([line], 1, text_options=TextOptions(guard=True, markup="placeholders"))
    assert (best.text, best.warnings) == ("Besuche https://example.org/one/two/three/four/five jetzt", ())
    [[best]] = translator.translate_n_best([line], 1, text_options=GUARD)
    assert best.warnings == (COPIES,)


def test_only_what_is_wrong_is_searched_again_and_warnings_are_added() -> None:
    asked: list[list[str]] = []

    def search(parts: Sequence[Part], options: DecodeConfig, n_best: int) -> list[list[Translation]]:
        asked.append([part.text for part in parts])
        return [[looped] if part.text == "b" else [fine] for part in parts]

    fine = Translation("ein Hund", 0.0, 0.0, (), True, False)
    looped = replace(fine, text=LOOP, warnings=("w",))
    parts = [Part(text, index, (0, 1), Constraints()) for index, text in enumerate("abc")]
    given = [[fine], [looped, fine], [looped]]
    found = guard(given, parts, DecodeConfig(), 2, search, never, same_language=False)
    assert asked == [["b", "c"], ["b"]]
    assert [[(each.text, each.warnings) for each in line] for line in found] == [
        [("ein Hund", ())],
        [(LOOP, ("w", REPEATS)), ("ein Hund", ())],  # each has its own warnings
        [("ein Hund", ())],
    ]
