"""Rare quotes, dashes, spaces, hyphens and accents: what the model reads in their place."""

import unicodedata
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_marian import SOURCE_TEXT, learned, pieces_of
from text_engine import TextEngine, reversing
from transduce.config import DecodeConfig
from transduce.text import SPECIAL_TOKENS, SentencePieceTokenizer, SubwordTokenizer, Tokenizer
from transduce.text.signs import SIGNS, with_plain_signs
from transduce.translation.constraints.glossary import Glossary
from transduce.translation.pipeline import TextOptions
from transduce.translation.pipeline.signs import Signs
from transduce.translation.result import Translation
from transduce.translation.translator import Translator
from transduce.translation.windows import Window

ASCII = SubwordTokenizer.train(['A dog\'s "cat" - a "dog", a cat\'s dog...'] * 5, algorithm="bpe", vocab_size=300)
CURLY = SubwordTokenizer.train(
    ["A dog’s “cat” – a “dog”,\u00a0a cat’s dog… naïve e\u0301t dau\u00adgh"] * 5, algorithm="bpe", vocab_size=300
)
ON = TextOptions(signs=True)


def _read(line: str, tokenizer: Tokenizer = ASCII) -> str:
    [read] = Signs(Window(1, [line]), tokenizer, "placeholders").removed().lines
    return read


@pytest.mark.parametrize(
    ("line", "ascii", "curly"),
    [
        ("“A dog”, „a cat“", '"A dog", "a cat"', "“A dog”, “a cat“"),
        ("the dog’s, the cat‘s", "the dog's, the cat's", "the dog’s, the cat’s"),
        ("a – b — c ― d", "a - b - c - d", "a – b – c – d"),
        ("a\u00a0dog\u2009and\ta\u3000cat", "a dog and a cat", "a\u00a0dog and a cat"),
        ("a\u2011b － c", "a-b - c", "a-b - c"),
        ("«A dog»", '"A dog"', "“A dog“"),
        ("a dog… a", "a dog... a", "a dog… a"),
        ("dau\u00adgh\u200bter\ufeff", "daughter", "dau\u00adghter"),
        ("e\u0301t na\u0308, n\u0303\u0323", "ét nä, ṇ̃", "e\u0301t nä, ṇ̃"),
        ("of\ufb01ce", "office", "office"),
        # What the vocabulary has, and what is no such sign.
        ("\"A\" 'b' - c", "\"A\" 'b' - c", "\"A\" 'b' - c"),
        ("a b² − é 犬。", "a b² − é 犬。", "a b² − é 犬。"),
        ("\ta dog:\ta\u00a0\u00a0cat\u00a0", "\ta dog:\ta\u00a0\u00a0cat\u00a0", "\ta dog:\ta\u00a0\u00a0cat\u00a0"),
        ("", "", ""),
    ],
)
def test_the_model_reads_signs_that_it_knows(line: str, ascii: str, curly: str) -> None:
    assert (_read(line), _read(line, CURLY)) == (ascii, curly)


def test_what_is_no_prose_stays() -> None:
    assert _read("‘see’ http://a.org/‘b-c and ‘%s’ a@‘b.de") == "'see' http://a.org/‘b-c and '%s' a@'b.de"


def test_html() -> None:
    """Entities of signs count, but for spaces, which are layout; those of ordinary characters stay."""
    lines = ['<a title="«x&rdquo;">«a dog»</a>', "&ldquo;d&shy;og&#8217;s&#x2026;&quot;&nbsp;&amp;&lt;&eacute;&lsquox;"]
    read = Signs(Window(1, lines), ASCII, "html").removed().lines
    assert read == ['<a title="«x&rdquo;">"a dog"</a>', "\"dog's...&quot;&nbsp;&amp;&lt;&eacute;&lsquox;"]
    assert _read("a &ldquo;dog") == "a &ldquo;dog"
    assert Signs(Window(1, lines), CURLY, "html").removed().lines[1].startswith("&ldquo;d&shy;og&#8217;s&#x2026;")


def test_a_sentencepiece_vocabulary() -> None:
    definition = learned(SOURCE_TEXT)
    tokenizer = SentencePieceTokenizer.of([*SPECIAL_TOKENS, *pieces_of(definition)], definition)
    assert "a" in tokenizer.characters
    assert not {"”", "\u2009"} & tokenizer.characters
    assert _read("“a\u2009dog”", tokenizer) == '"a dog"'


@given(st.text(alphabet=st.sampled_from([*"abe<>&%{}@/: \u0301\u0323", *"".join(signs for signs, _ in SIGNS[:7])])))
def test_other_characters_stay_in_order(line: str) -> None:
    assert _letters(_read(line)) == _letters(line)


def _letters(text: str) -> str:
    return "".join(each for each in unicodedata.normalize("NFD", text) if each in "abe<>&%{}@/:\u0301\u0323")


def _translated(lines: Sequence[str], options: TextOptions) -> tuple[list[Translation], list[str]]:
    """Returns what a translator that copies wrote, and what it read."""
    engine = TextEngine(ASCII, lambda text: text, 1024)
    translator = Translator(engine, ASCII, DecodeConfig(batch_size=4))
    return [best for best, *_ in translator.stream(lines, text_options=options)], engine.seen


def test_it_is_an_option_of_translations() -> None:
    assert [best.text for best in _translated(["a “dog”", "a dog"], ON)[0]] == ['a "dog"', "a dog"]
    assert _translated(["a “dog”"], TextOptions())[0][0].text == "a “dog”"


def test_capitals_are_removed_afterwards() -> None:
    assert _translated(["A “DOG”, A “CAT”"], TextOptions(signs=True, capitals=True))[1] == ['A "dog", a "cat"']


def test_spans_are_those_of_the_given_text() -> None:
    line = "A do\u00adg, e\u0301t… A “cat”."
    [best], read = _translated([line], TextOptions(signs=True, split="always"))
    assert sorted(read) == ['A "cat".', "A dog, ét..."]
    assert best.text == 'A dog, ét... A "cat".'
    found = [(line[slice(*source)], best.text[slice(*target)]) for source, target in best.sentences]
    assert found == [("A do\u00adg, e\u0301t…", "A dog, ét..."), ("A “cat”.", 'A "cat".')]


def test_links_are_those_of_the_given_text() -> None:
    translator, line = reversing(), "do\u00adg e\u0301t \ufeffcat"
    [[best, *_]] = translator.stream([line], text_options=TextOptions(signs=True, alignment=True))
    found = {best.text[slice(*target)]: line[slice(*source)].strip("\ufeff") for source, target in best.alignment}
    assert found == {"cat": "cat", "ét": "e\u0301t", "dog": "do\u00adg"}


def test_a_part_of_what_a_sign_became_is_all_of_the_sign() -> None:
    """The model read "a... fig"; a link to a dot is one to "…", and one to "f" one to the ligature."""
    links = [((0, 1), (0, 1)), ((1, 2), (1, 2)), ((2, 4), (2, 3)), ((5, 6), (4, 5)), ((6, 8), (5, 6)), ((8, 8), (6, 6))]
    written = Translation("a.. abc", 0.0, 0.0, (), True, False, alignment=tuple(links))
    line = "a… ﬁg"
    [[best]] = Signs(Window(1, [line]), ASCII, "placeholders").restored([[written]])
    assert [line[slice(*source)] for source, _ in best.alignment] == ["a", "…", "…", "ﬁ", "ﬁg", ""]
    assert [target for _, target in best.alignment] == [target for _, target in links]


def test_terms_are_found_however_their_signs_are_written() -> None:
    glossary = Glossary({"O’Brien": "Oh", "cat-flap": "Klappe", '"dog house"': "Hütte", "l'eau": "das Wasser"})
    text = "O'Brien and O’Brien, a cat‑flap, a «dog\u00a0house» and l’eau"
    found = [(text[slice(*span)], choice) for span, choice in glossary.found_in(text)]
    assert found == [
        ("O'Brien", ("Oh",)),
        ("O’Brien", ("Oh",)),
        ("cat‑flap", ("Klappe",)),
        ("«dog\u00a0house»", ("Hütte",)),
        ("l’eau", ("das Wasser",)),
    ]
    assert glossary.written_into("an O’Brien") == "an O’Brien | Oh |"
    assert Glossary({"O'Brien": "first", "O’Brien": "second"}).required_in("O’Brien") == (("first",),)


def test_plain_signs() -> None:
    assert with_plain_signs("“a”\u2009’b‘ ― c‑d…") == "\"a\" 'b' – c-d…"
    assert with_plain_signs("a-b – c") == "a-b – c"
