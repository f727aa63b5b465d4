"""Where marks go by the weights of the words, worked out by hand, and the white space around them."""

import numpy as np
import pytest

from text_engine import text_translator
from transduce.translation.pipeline import TextOptions, markup, placement
from transduce.translation.pipeline.markup import MarkedText
from transduce.translation.pipeline.placement import place_marks
from transduce.translation.pipeline.tags import partners
from transduce.translation.pipeline.word_alignment import Table


def placed(line: str, target: str, weights: list[list[float]]) -> str:
    [piece] = markup.read_markup(line, "html")
    assert isinstance(piece, MarkedText)
    return place_marks(piece.plain, target, piece.marks, table(np.array(weights, float))).text


def table(weights: np.ndarray) -> Table:
    """Returns the weights of one part, of which order alone says nothing."""
    return Table(weights, np.ones(weights.shape[1]), (0, weights.shape[1]))


def by_order(*columns: int) -> list[list[float]]:
    """Returns the weights of words that each come from one word of the source."""
    return [[float(column == each) for column in range(len(columns))] for each in columns]


@pytest.mark.parametrize(
    ("line", "target", "weights", "expected"),
    [
        # R has 0.7 of its weight in the element and Q a half, as an article might.
        ("<b>a</b> c", "P R Q", [[0.9, 0.1], [0.7, 0.3], [0.5, 0.5]], "<b>P R</b> Q"),
        # Of the share of P within <i>, 0.45 of 0.7 is in <b>; of all of it, less than half.
        (
            "x <i><b>a</b> c</i>",
            "X P Q C",
            [[1, 0, 0], [0.3, 0.45, 0.25], [0, 0.9, 0.1], [0, 0.1, 0.9]],
            "X <i><b>P Q</b> C</i>",
        ),
        # Alone, <i> would go to the beginning: tags without partners keep their order, and items do not bind them.
        ("x </b> y <i> z {n} q", "A B C D", by_order(2, 0, 3, 1), "A {n} B</b> C D <i>"),
        ("x {n} y <i> z q", "A B C D", by_order(2, 0, 3, 1), "<i>A B {n} C D"),
        # A tag within a word goes to the side that is nearer.
        ("a d<b>ogs</b> run", "A B C", by_order(0, 1, 2), "A <b>B</b> C"),
        # An element with the smaller part of a word is around the word, unless another has the rest: a link needs text.
        ("a dog<b>s</b> run", "C B A", by_order(2, 1, 0), "C <b>B</b> A"),
        ("a <a>H</a>ounds run", "C B A", by_order(2, 1, 0), "C <a>B</a> A"),
        ("a <a>H</a><b>ounds</b> run", "A B C", by_order(0, 1, 2), "A <a></a><b>B</b> C"),
        ("a <a></a>dogs run", "A B C", by_order(0, 1, 2), "A <a></a>B C"),
    ],
)
def test_marks_by_hand(line: str, target: str, weights: list[list[float]], expected: str) -> None:
    assert placed(line, target, weights) == expected


def test_partners_of_tags_that_cross() -> None:
    [piece] = markup.read_markup("<i>x<b>y</i>z</b> <b>v</b>", "html")
    assert isinstance(piece, MarkedText)
    assert partners((mark.kind, mark.text) for mark in piece.marks) == {0: 2, 2: 0, 4: 5, 5: 4}


def test_a_stretch_has_no_word_that_is_taken() -> None:
    gains, taken = np.array([0.1, 0.5, 0.4, -0.1, 0.2]), np.array([False, True, False, False, False])
    assert placement._best_stretch(gains, 0, 5, taken) == (2, 5)
    assert placement._best_stretch(gains, 0, 2, taken) == (0, 1)
    assert placement._best_stretch(gains, 1, 2, taken) == (1, 1)  # none is free
    assert placement._best_stretch(-gains, 2, 4, taken) == (3, 4)


def test_a_point_is_not_put_into_an_element() -> None:
    """Of the words next to the point, one is on the wrong side at either end of the element: the first end is taken."""
    whole, scale = table(np.eye(3)), np.ones(3)
    assert placement._best_boundary(whole, scale, 1, 0, 3, []) == 1
    assert placement._best_boundary(whole, scale, 1, 0, 3, [(0, 3)]) == 0
    assert placement._best_boundary(whole, scale, 2, 0, 3, [(0, 2), (2, 3)]) == 2


@pytest.mark.parametrize(("after", "boundary"), [(0.31, 0), (0.29, 1)])
def test_a_word_further_from_a_mark_counts_six_tenths(after: float, boundary: int) -> None:
    """Of the word, 0.5 comes from the second word before the mark: 0.3, against what comes from the next one."""
    weights = table(np.array([[0.5, 0.0, after, 0.0]]))
    assert placement._best_boundary(weights, np.ones(4), 2, 0, 1, []) == boundary
    weights = table(np.array([[0.0, after, 0.0, 0.5]]))
    assert placement._best_boundary(weights, np.ones(4), 2, 0, 1, []) == 1 - boundary


def item(text: str, spaced: tuple[bool, bool], next_to: tuple[str, str] = ("", "")) -> markup.Mark:
    return markup.Mark("placeholder", text, 0, spaced, next_to)


@pytest.mark.parametrize(
    ("gap", "marks", "around", "expected"),
    [
        (" ", [item("{a}", (True, True))], ("dog", "runs"), " {a} "),
        ("", [item("{a}", (True, True))], ("dog", "."), " {a}"),
        ("", [item("{a}", (False, True))], ("(", "runs"), "{a} "),
        (" ", [item("{a}", (True, True)), item("{b}", (True, False), ("", ")"))], ("dog", "runs"), " {a} {b} "),
        (" ", [item("{a}", (True, True)), item("{b}", (True, False), ("", ")"))], ("dog", ")"), " {a} {b}"),
    ],
)
def test_white_space_around_items(gap: str, marks: list[markup.Mark], around: tuple[str, str], expected: str) -> None:
    assert placement._boundary(gap, marks, *around) == expected


@pytest.mark.parametrize("sign", ".,;:!?…)]}»”’%。，、！？")
def test_no_space_is_put_before_a_sign_that_closes(sign: str) -> None:
    given = item("{a}", (True, True))
    assert placement._boundary("", [given], "dog", sign) == " {a}"
    assert placement._boundary("", [given], "dog", f"{sign}") != placement._boundary("", [given], "dog", "(")


@pytest.mark.parametrize("sign", ".,;:!?…)")
def test_a_sign_behind_an_item_stays_with_the_word_before_it(sign: str) -> None:
    for given, plain in ((f"dog {{x}} {sign} on", f"dog{sign} on"), ("dog {x} ( on", "dog ( on")):
        [piece] = markup.read_markup(given, "html")
        assert isinstance(piece, MarkedText)
        assert (piece.plain, [mark.index for mark in piece.marks]) == (plain, [3 if sign in given else 4])


def test_what_keeps_a_word_from_an_item() -> None:
    pairs = [("(", "dog"), ("(", "Dog"), ("px", "dog"), ("Dog", "dog"), ("", "dog"), ("(", "."), ("(", "犬"), ("(", "")]
    assert [placement._is_parted(*pair) for pair in pairs] == [True] * 3 + [False] * 5


def test_kinds_of_entities() -> None:
    """A joiner is as invisible as a space: it is set aside, and not translated."""
    kinds = [each.kind for each in markup.scan("a&nbsp;b&zwj;c&#8205;d&shy;e&eacute;f&bogus;g&lt;", "html")]
    assert kinds == ["space"] * 4 + ["text", "placeholder", "text"]


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("a <script>x</script> <!-- b --> <?c?> <img src='d'> <e/>", ["point"] * 5),
        ("<b>a</b> <i translate='no'>b</i>", ["open", "close", "placeholder"]),
        ("<p>a</P><br><hr/>", ["block"] * 4),
        ("%PATH% $HOME COVID-19", ["literal"] * 3),
        ("{a} %s https://a.org/b me@a.org", ["placeholder"] * 4),
    ],
)
def test_kinds_of_tags_and_items(line: str, kinds: list[str]) -> None:
    """A point never reaches the model; a placeholder may, where its line is text."""
    assert [each.kind for each in markup.scan(line, "html")] == kinds


def test_words_are_aligned_anew_where_something_is_taken_out_of_a_translation() -> None:
    writes = text_translator(lambda text: f"{{y}} {text.upper()}")
    options = TextOptions(markup="html", alignment=True)
    [[best]] = writes.translate_n_best(["a <b>dog</b> runs"], 1, text_options=options)
    assert "{y}" not in best.text
    links = [("a <b>dog</b> runs"[a:b], best.text[c:d]) for (a, b), (c, d) in best.alignment]
    assert links == [("a", "A"), ("dog", "DOG"), ("runs", "RUNS")]
