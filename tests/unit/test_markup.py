"""Markup: whatever a line holds and a model writes, each mark survives, as often as it was, nested as it was."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from text_engine import TextEngine, reversing, text_translator
from transduce.config import DataConfig
from transduce.translation.constraints.line_constraints import Constraints
from transduce.translation.constraints.required_terms import outcome
from transduce.translation.pipeline import TextOptions, placement, restoring, survival
from transduce.translation.pipeline import markup as marks
from transduce.translation.pipeline.atoms import atoms
from transduce.translation.pipeline.checkpoints import never
from transduce.translation.pipeline.placement import place_marks
from transduce.translation.pipeline.protecting import Segment, attempts, protect
from transduce.translation.pipeline.restoring import assemble, restore
from transduce.translation.pipeline.tags import partners
from transduce.translation.pipeline.word_alignment import Table, WordAligner, _membership, _pair_weights
from transduce.translation.result import Translation
from transduce.translation.translator import Translator
from transduce.translation.windows import Window

HTML, PLACEHOLDERS = TextOptions(markup="html"), TextOptions(markup="placeholders")
UPPER = text_translator(str.upper)


def table(weights: list[list[float]] | np.ndarray) -> Table:
    """Returns a table of weights, of words that order would align equally."""
    values = np.asarray(weights)
    return Table(values, np.ones(values.shape[1]), (0, values.shape[1]))


def boundaries(given: Table, indices: Iterable[int]) -> list[int]:
    """Returns where a mark before each of these source words goes."""
    scale = placement._scale(given)
    return [placement._best_boundary(given, scale, index, 0, len(given.weights), []) for index in indices]


def plain(line: str, markup: marks.Markup = "html") -> list[str]:
    """Returns the texts that are to be translated."""
    return [piece.plain for piece in marks.read_markup(line, markup) if isinstance(piece, marks.MarkedText)]


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("The <b>dog</b> runs.", ["The dog runs."]),
        ("<p>One.</p><p class='x>y'>Two.<br/>Three</p>", ["One.", "Two.", "Three"]),
        ("Hello {name}, you have %1$d messages.", ["Hello, you have messages."]),
        ("10&nbsp;km &amp; &lt;more&gt; &euro;5", ["10 km & <more> €5"]),
        ("See https://a.de/x?y=1&amp;z, or me@x.org.", ["See, or."]),
        ("{n, plural, one {# file} other {# files}} left", ["left"]),
        ("a<!-- <b> -->b", ["ab"]),
        ("x <script>if (a<b) {}</script> y", ["x y"]),
        ("the <span translate='no'>Ford <i>Ka</i></span> car", ["the car"]),
        ("the <span data-translate='no'>Ford</span> car", ["the Ford car"]),
        ("two < 3 and 5% of { these", ["two < 3 and 5% of { these"]),
        ("<b>{x}</b> &nbsp;", []),
    ],
)
def test_plain_text(line: str, texts: list[str]) -> None:
    assert plain(line) == texts


def test_a_required_term_that_markup_takes_out_did_not_come_out() -> None:
    """The model wrote an address that a glossary asked for; the source has none, and so a result may have none."""
    choices = (("info@a.de",), ("HUND",))

    [line] = protect(Window(1, ["a dog"]), HTML, never)
    [attempt] = next(attempts([line], "html", never))
    [[blank]] = UPPER.translate_n_best(["x"], 1)
    text = "A DOG HUND info@a.de"
    found = replace(blank, text=text, required=outcome(text, choices), sentences=(((0, 5), (0, len(text))),))
    restore(UPPER, WordAligner(UPPER), [attempt], [[found]], "html")
    [best] = assemble(line, 1, "html", drawn=False)
    assert best.text.split() == ["A", "DOG", "HUND"]
    assert best.required == ((choices[0], False), (choices[1], True))
    assert best.warnings == ("the required term 'info@a.de' did not come out.",)


@pytest.mark.parametrize(
    ("text", "is_taken"), [("A {x} B", True), ("B {x}", False), ("A B", False), ("A {x} {x}", False), ("AB {x}", True)]
)
def test_a_translation_with_items_counts_if_it_begins_as_it_must_and_has_each_of_them(
    text: str, is_taken: bool
) -> None:
    [[segment]] = protect(Window(1, ["a {x} b"], [Constraints(prefix="A")]), PLACEHOLDERS, never)
    assert isinstance(segment, Segment)
    waiting = attempts([[segment]], "placeholders", never)
    [[blank]] = UPPER.translate_n_best(["x"], 1)
    found = replace(blank, text=text)
    restore(UPPER, WordAligner(UPPER), next(waiting), [[found, replace(found, text="A {x}")]], "placeholders")
    assert [each.text for each in segment.translations] == [*[text] * is_taken, "A {x}"]
    segment.translations.clear()
    [last] = next(waiting)  # without items, where none has come out
    assert (last.kept, last.marked.plain) == (frozenset(), "a b")
    assert not list(waiting)


def test_what_only_looks_like_a_placeholder_without_its_tags_stays() -> None:
    """In "50 %cats", the text between the tags, "%c" was taken for an invention of the model."""
    line = "50\u00a0%<b>cats</b> run"
    assert text_translator(str).translate([line], text_options=HTML) == [line]


def test_placeholders_only() -> None:
    assert plain("<b>%s</b> a &amp; {x}", "placeholders") == ["a"]
    assert plain("100% sure, 50 %, a 3%d", "placeholders") == ["100% sure, 50 %, a 3%d"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("<p>The <b>dog</b> of {name} &amp; me.</p>", "<p>THE <b>DOG</b> OF {name} &amp; ME.</p>"),
        ("10&nbsp;km and %1$s, see www.a.de/x.", "10&nbsp;KM AND %1$s, SEE www.a.de/x."),
        ("a <a href='x'><img src='y'></a> dog", "A <a href='x'><img src='y'></a> DOG"),
        ("a <b><i>{x}</i></b> <i>{y}</i> <b>dog</b>", "A <b><i>{x}</i></b> <i>{y}</i> <b>DOG</b>"),
        ("a<b>{x}</b> dog <i>{y}</i>, <i>{z}</i>runs", "A<b>{x}</b> DOG <i>{y}</i>, <i>{z}</i>RUNS"),
        ("&nbsp; a&nbsp; dog &nbsp;<b>runs</b> &lrm; far", "&nbsp; A&nbsp; DOG &nbsp;<b>RUNS</b> &lrm; FAR"),
        (
            "a <br/> b<br>c <img src='x>y'> {n, plural, one {#}} d",
            "A <br/> B<br>C <img src='x>y'> {n, plural, one {#}} D",
        ),
        ("</b> end. A <i>new", "</b> END. A <i>NEW"),
        ("1 <b>two <i>three</i></b> &lt; 4", "1 <b>TWO <i>THREE</i></b> &lt; 4"),
        ("  <b> two </b>  ", "  <b>TWO</b>  "),
        ("{x}", "{x}"),
        ("<hr>", "<hr>"),
        ("<b></b>x <b> y </b> z", "<b></b>X <b>Y</b> Z"),
    ],
)
def test_marks_stay_where_they_were_if_words_do(line: str, expected: str) -> None:
    [[best]] = UPPER.translate_n_best([line], 1, text_options=HTML)
    assert best.text == expected
    assert best.warnings == ()


def test_sentences_and_markup() -> None:
    both = TextOptions(markup="html", split="always")
    line = "<p>One <b>dog. Two</b> dogs!  Three.</p> <p>A &lt; b.</p>"
    [[best]] = UPPER.translate_n_best([line], 1, text_options=both)
    assert best.text == "<p>ONE <b>DOG. TWO</b> DOGS!  THREE.</p> <p>A &lt; B.</p>"
    assert best.num_parts == 4


def test_a_model_that_copies_placeholders_is_trusted() -> None:
    swap = text_translator(lambda text: " ".join(reversed(text.split())))
    assert swap.translate(["%s a dog {x}"], text_options=PLACEHOLDERS) == ["{x} dog a %s"]
    lose = text_translator(lambda text: text.replace("{x}", "").replace("  ", " "))
    assert lose.translate(["a {x} dog"], text_options=PLACEHOLDERS) == ["a {x} dog"]
    invent = text_translator(lambda text: text + " {y} %s www.b.com")
    assert invent.translate(["a {x} dog"], text_options=PLACEHOLDERS)[0].count("{") == 1


def test_a_translation_that_fails_every_check_is_the_source() -> None:
    translator = text_translator(lambda text: "www.")  # in front of whatever comes, it is a URL
    line = "a&nbsp;{x}"
    [[best]] = translator.translate_n_best([line], 1, text_options=HTML)
    assert survival.mark_counts(best.text, "html") == survival.mark_counts(line, "html")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("<b>one</b> two three four five", "five four three two <b>one</b>"),
        ("one <i>two <b>three</b></i> four five", "five four <i><b>three</b> two</i> one"),
        ("<i>one</i> two <b>four five</b>", "<b>five four</b> two <i>one</i>"),
    ],
)
def test_tags_follow_attention(line: str, expected: str) -> None:
    assert reversing().translate([line], text_options=HTML) == [expected]


def test_atoms() -> None:
    text = "Don't e\u0301te\u0301 日本 x_1."
    assert [text[a:b] for a, b in atoms(text)] == ["Don", "'", "t", "e\u0301te\u0301", "日", "本", "x_1", "."]
    text = "2026年API的e\u0301例ราคา5บาท"
    assert [text[a:b] for a, b in atoms(text)] == ["2026", "年", "API", "的", "e\u0301", "例", *"ราคา", "5", *"บาท"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("मैं हिन्दी बोलता हूँ।", ["मैं", "हिन्दी", "बोलता", "हूँ", "।"]),
        ("می\u200cخواهم, שָׁלוֹם", ["می\u200cخواهم", ",", "שָׁלוֹם"]),
        ("ภาดี", ["ภ", "า", "ดี"]),  # no spaces between words: a letter with its vowel is one
        ("👩\u200d👩 ❤\ufe0fdog !\u0301a", ["👩\u200d", "👩", "❤\ufe0f", "dog", "!\u0301", "a"]),
    ],
)
def test_marks_within_a_word_do_not_cut_it(text: str, words: list[str]) -> None:
    assert [text[a:b] for a, b in atoms(text)] == words


def test_pieces_belong_to_atoms_by_their_bytes() -> None:
    text = "À doggy"  # two bytes, a space, five bytes
    shares = _membership([" À".encode(), b" dog", b"gy"], text, atoms(text))
    np.testing.assert_allclose(shares, [[2 / 3, 0, 0], [0, 3 / 4, 1]])


def test_a_line_left_in_the_source_has_none_of_its_terms() -> None:
    [[best]] = UPPER.translate_n_best(["a man"], 1, text_options=TextOptions(alignment=True))
    assert best.alignment
    came = replace(best, required=((("MAN",), True), (("DOG",), False)), forced=(("MAN",),))
    left = restoring._untranslated(came, "a <b>man")
    assert left.text == "a <b>man"
    assert left.required == ((("MAN",), False), (("DOG",), False))
    assert (left.forced, left.sentences, left.alignment) == ((), (), ())
    assert restoring.LEFT_AS_IT_WAS in left.warnings


BITS = [
    *("a", "dog ", " ", "<b>", "</b>", "<i>", "</i>", "<br>", "<p>", "</p>", "{x}", "{", "}", "%d", "%", "&nbsp;"),
    *("&amp;", "&lt;", "&", "<", ">", "https://a.b/c?d=1", "me@a.org", "\t", "日本", "<!-- c -->", "<img>", ".", ","),
    *("\u0301", "www.", "é", "<a href='x'>", "</a>", "{{y}}", "${z}", "&zwj;", "&bogus;", "\n", "\r", "Two dogs"),
]
lines = st.lists(st.sampled_from(BITS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=4)).map("".join)


@settings(max_examples=50)
@given(lines, lines, st.sampled_from(["html", "placeholders"]), st.sampled_from(["auto", "always"]))
def test_every_mark_survives_whatever_the_model_writes(line: str, output: str, markup: str, split: str) -> None:
    for function in (lambda _: output, lambda text: text + output, str.upper):
        translator = Translator(TextEngine(UPPER.tokenizer, function, 9), UPPER.tokenizer, UPPER.options)
        text_options = TextOptions(markup=markup, split=split)  # type: ignore[arg-type]
        for best in translator.translate_n_best([line], 2, text_options=text_options)[0]:
            if not line.strip():
                assert best.text == ""
                continue
            kind = text_options.markup
            expected, found = (survival.mark_counts(text, kind) for text in (line, best.text))
            if kind == "html":
                assert survival.is_nested(best.text, kind) or not survival.is_nested(line, kind)
                literals = {each.text for each in marks.scan(best.text, kind) if each.kind == "literal"}
                assert set(found - expected) <= literals  # a code may become another
            lost = expected - found
            assert all(f"{text!r} is not in the translation." in best.warnings for text in lost)
            assert not (lost and kind == "html")


@given(lines, st.sampled_from(["html", "placeholders"]))
def test_pieces_are_the_line(line: str, markup: str) -> None:
    for kept in ((), {*BITS}):
        parts = marks.read_markup(line, markup, kept)  # type: ignore[arg-type]
        assert "".join(part if isinstance(part, str) else part.source for part in parts) == line
        for part in parts:
            if isinstance(part, marks.MarkedText):
                assert all(0 <= mark.index <= len(part.plain) for mark in part.marks)


@given(lines, lines, st.integers(0, 1000))
def test_placing_loses_nothing_whatever_the_weights(line: str, target: str, seed: int) -> None:
    for piece in marks.read_markup(line, "html"):
        if isinstance(piece, str):
            continue
        weights = np.random.default_rng(seed).random((len(atoms(target)), len(atoms(piece.plain))))
        placed = place_marks(piece.plain, target, piece.marks, table(weights))
        assert [placed.text[a:b] for a, b in placed.atoms] == [target[a:b] for a, b in atoms(target)]
        rest = placed.text
        for mark in sorted(piece.marks, key=lambda mark: -len(mark.text)):
            assert mark.text in rest
            rest = rest.replace(mark.text, "", 1)


def test_weights_are_attention_with_a_little_of_the_order_and_much_of_what_is_the_same() -> None:
    """Each target word attends to the piece " dog" with 1, of whose four bytes three are the word's."""

    class Told(TextEngine):
        def align(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[np.ndarray]:
            return [np.eye(1, len(s), len(s) - 1).repeat(len(t), 0) for s, t in zip(sources, targets, strict=True)]

    model = text_translator()
    model.engine = Told(model.tokenizer, str, 100)
    far = math.exp(-0.5 * (0.5 / 0.1) ** 2)  # half the text away, of a width of a tenth
    near, other = 0.05 / (1 + far), 0.05 * far / (1 + far)
    found = _pair_weights(model, [("a dog", "x dog"), ("7 dog", "a 7")])
    np.testing.assert_allclose(found[0], [[near, 0.75 + other], [other, 0.75 + near + 2]], rtol=1e-6)
    np.testing.assert_allclose(found[1], [[near, 0.75 + other], [other + 2, 0.75 + near]], rtol=1e-6)


def test_weights_are_rows_that_sum_to_one() -> None:
    for translator in (UPPER, reversing()):
        source, target = "one two three", "three two one !"
        with WordAligner(translator).table(source, target, [((0, len(source)), (0, len(target)))]) as lent:
            assert lent.weights.shape == (4, 3)
            assert lent.weights.sum(-1) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", True),
        ("x", True),
        ("<b>x</b>", True),
        ("<b>x", False),  # never closed
        ("x</b>", False),  # never opened
        ("</b>x<b>", False),
        ("<b><i>x</i></b>", True),
        ("<b><i>x</b></i>", False),
        ("<b>x</b><i>y</i>", True),
        ("<b>x</b></b>", False),
        ("<b>x</i>", False),
        ("<B>x</b>", True),
        ("<b>x<br>y</b>", True),
        ("<b>x<img src='>'>y</b>", True),
        ("<i/>x", True),  # closes itself
        ("<b>x<i/></b>", True),
        ("<!-- <b> -->x", True),
        ("a < b", True),
        ("<b>{x}</b>", True),
    ],
)
def test_which_tags_are_nested(line: str, expected: bool) -> None:
    """By hand: other tests ask `is_nested` whether an output is."""
    assert survival.is_nested(line, "html") is expected


def test_signs_that_may_begin_markup_are_taken_out_at_last() -> None:
    text = "http://a https://b ftp://c www.d {e} 50% f@g <h> & i"
    assert restoring._SUSPICIOUS.sub("", text) == "a b c d e 50 fg h  i"


@pytest.mark.parametrize(
    ("line", "written", "numbers"),
    [
        ("{count} dogs", "fünf Hunde", ["fünf"]),
        ("{count} dogs", "5 Hunde, 7 Katzen, 5", ["5", "7"]),
        ("{count} of 5 dogs", "fünf Hunde", []),
        ("<b>the</b> dogs", "fünf 5 Hunde", []),  # nothing that may be a number
        ("&nbsp;the dogs", "fünf Hunde", []),
        ("%PATH% of dogs", "fünf Hunde", []),
    ],
)
def test_numbers_that_may_be_made_up_for_a_placeholder_are_named(line: str, written: str, numbers: list[str]) -> None:
    translator = text_translator(lambda _: written)
    data = DataConfig(source_language="en", target_language="de")
    translator.bundle = cast(Any, SimpleNamespace(config=SimpleNamespace(data=data), metrics={}))
    [[best]] = translator.translate_n_best([line], 1, text_options=HTML)
    assert best.warnings == tuple(
        f"{number!r} is not in the source, and stands beside a placeholder: made up, perhaps." for number in numbers
    )


def test_terms_are_those_of_the_text_that_is_left() -> None:
    """Of four terms that came out, two are taken out with what was around them; one of these was warned of before."""
    terms = (("dog",), ("cat",), ("man", "boy"), ("ball",))
    lost = "the required term 'cat' did not come out."
    found = Translation(
        "", 0.0, 0.0, (), True, False, required=tuple((term, True) for term in terms), forced=(terms[0], terms[3]),
        warnings=("w", lost),
    )  # fmt: skip
    best = restoring._with_terms_of("a dog, a boy", found)
    assert best.required == ((terms[0], True), (terms[1], False), (terms[2], True), (terms[3], False))
    assert best.forced == (terms[0],)
    assert best.warnings == ("w", lost, "the required term 'ball' did not come out.")


def test_two_texts_of_a_line_make_no_item_together() -> None:
    """Each is fine by itself, but the braces of both would hold a placeholder that the source has not."""
    written = {"a dog": "{Hund", "a cat": "Katze}"}
    translator = text_translator(lambda text: written[text])
    for line, text, warnings in (
        ("a dog<br>a cat", "a dog<br>a cat", (restoring.LEFT_AS_IT_WAS,)),
        ("a cat<br>a dog", "Katze}<br>{Hund", ()),
    ):
        [[best]] = translator.translate_n_best([line], 1, text_options=HTML)
        assert (best.text, best.warnings) == (text, warnings)


@pytest.mark.parametrize(
    ("line", "text"),
    [("", ""), (" \t", ""), ("<br>", "<br>"), (" <p></p> ", " <p></p> "), ("<p> </p>", "<p> </p>")],
)
def test_a_line_without_text_stays_as_it_is(line: str, text: str) -> None:
    [[best]] = UPPER.translate_n_best([line], 1, text_options=HTML)
    assert (best.text, best.score, best.tokens, best.finished, best.warnings) == (text, 0.0, (), True, ())


def test_a_forced_term_lost_with_the_markup_is_not_forced() -> None:
    [[best]] = text_translator().translate_n_best(["A dog."], 1)
    best = replace(best, required=((("cat",), True), (("dog",), True)), forced=(("cat",), ("dog",)))
    left = restoring._with_terms_of("A dog.", best)
    assert (left.required, left.forced) == (((("cat",), False), (("dog",), True)), (("dog",),))


def test_source_words_near_a_mark_count_most() -> None:
    """The mark stood before source word 1. Target word 0 comes from word 0 and, a little more, from one far behind."""
    assert boundaries(table([[0.45, 0.0, 0.0, 0.0, 0.55], [0.0, 1.0, 0.0, 0.0, 0.0]]), [1]) == [1]


def test_the_element_with_the_clearest_words_is_placed_first() -> None:
    """By hand: "a" is all of X and Z and half of Y, and "b" the other half of Y. "b" has to make way."""
    [piece] = marks.read_markup("<i>b</i> <b>a</b>", "html")
    assert isinstance(piece, marks.MarkedText)
    weights = table([[0.0, 1.0], [0.5, 0.5], [0.0, 1.0]])
    placed = place_marks(piece.plain, "X Y Z", piece.marks, weights)
    assert "<b>X Y Z</b>" in placed.text
    assert "<i></i>" in placed.text


def test_marks_at_one_position_keep_their_order() -> None:
    [piece] = marks.read_markup("one {a} {b} %s two", "html")
    assert isinstance(piece, marks.MarkedText)
    target = "EINS ZWEI"
    placed = place_marks(piece.plain, target, piece.marks, table(np.eye(2)))
    assert placed.text == "EINS {a} {b} %s ZWEI"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a `<b>x</b>` c", ["a c"]),  # code with a whole element is one item
        ("a <b>`x</b>` c", ["a `x` c"]),
        ("a `<b>x` y</b> c", ["a `x` y c"]),
        ("a `x<br>y` c", ["a `x", "y` c"]),
        ("a `<b>x` c", ["a c"]),  # nothing closes it
    ],
)
def test_code_that_tags_cut_is_text(line: str, expected: list[str]) -> None:
    assert plain(line) == expected


def test_a_mark_between_article_and_noun_stays_there() -> None:
    """Both words of "Ein Hund" attend to "dog" most, but only "Ein" attends to "A"."""
    weights = table([[0.3, 0.6, 0.1], [0.05, 0.9, 0.05], [0.0, 0.1, 0.9]])
    assert boundaries(weights, range(4)) == [0, 1, 2, 3]


@pytest.mark.parametrize(("num_source", "num_target"), [(30, 30), (200, 200), (20, 60), (500, 500)])
def test_by_order_alone_a_mark_stays_at_its_share_of_the_words(num_source: int, num_target: int) -> None:
    """Near the ends, fewer words are on one side of a mark than on the other."""
    source, target = "dog " * num_source, "Hund " * num_target
    with WordAligner(UPPER).table(source, target, [((0, len(source)), (0, len(target)))]) as lent:
        found = boundaries(lent, range(num_source + 1))
    assert found == [index * num_target // num_source for index in range(num_source + 1)]


def test_each_of_many_equal_points_stays_with_its_word() -> None:
    for sentence in ("dog<!-- 1 --> ", "dog {x} ", "dog<img> "):
        line = (sentence * 40).strip()
        [[best]] = UPPER.translate_n_best([line], 1, text_options=HTML)
        assert best.text == line.replace("dog", "DOG")


def test_by_order_alone_marks_stay_in_each_of_two_sentences() -> None:
    """Words at the ends of a sentence within a text are like those at the ends of the text."""
    source, target = "dog " * 60, "Hund " * 60
    spans = [((0, 4 * 20), (0, 5 * 20)), ((4 * 20, 4 * 60), (5 * 20, 5 * 60))]
    with WordAligner(UPPER).table(source, target, spans) as lent:
        assert boundaries(lent, range(61)) == [*range(61)]


@pytest.mark.parametrize(
    "line", [*(sign * 12_000 for sign in ("{", "<!--", "<![CDATA[", "<b", "a.")), "%" + "0" * 50_000]
)
def test_signs_that_begin_nothing_are_text_however_many_there_are(line: str) -> None:
    assert plain(line) == [line]
    assert [piece.plain for piece in marks.read_markup(line, "placeholders") if not isinstance(piece, str)] == [line]


def test_tags_before_the_last_sign_of_one_and_entities_behind_it_are_found() -> None:
    [text] = marks.read_markup("<b>a</b> {x} > b &amp; {y} <!-- c", "html")
    assert isinstance(text, marks.MarkedText)
    assert text.plain == "a > b & <!-- c"
    assert [mark.text for mark in text.marks] == ["<b>", "</b>", "{x}", "{y}"]


@given(st.text("{}a", max_size=40))
def test_braces_end_where_counting_them_one_by_one_says(line: str) -> None:
    for start in (i for i, character in enumerate(line) if character == "{"):
        depths = [line[start:end].count("{") - line[start:end].count("}") for end in range(start + 1, len(line) + 1)]
        assert marks._closing_braces(line).get(start) == (start + depths.index(0) + 1 if 0 in depths else None)


def test_tags_by_the_thousand_find_their_partners_and_places() -> None:
    line = "<i>" + "<b>" * 5000 + "x" + "</u>" * 5000 + "</i> . " * 5000
    [text] = marks.read_markup(line, "html")
    assert isinstance(text, marks.MarkedText)
    assert partners((mark.kind, mark.text) for mark in text.marks) == {0: 10_001, 10_001: 0}
    assert text.plain == "x " + "." * 5000
    assert [mark.index for mark in text.marks[10_001:]] == [1, *range(3, 5002)]


def test_an_element_that_is_not_translated_and_never_closed_is_a_tag() -> None:
    line = "<a" + " translate=no" * 7000 + ">" + "x" * 9000
    [text] = marks.read_markup(line, "html")
    assert isinstance(text, marks.MarkedText)
    assert [mark.kind for mark in text.marks] == ["open"]
