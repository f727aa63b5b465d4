"""Rare quotes, dashes and spaces: what the model reads in their place."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_marian import SOURCE_TEXT, learned, pieces_of
from text_engine import TextEngine
from transduce.config import DecodeConfig
from transduce.text import SPECIAL_TOKENS, SentencePieceTokenizer, SubwordTokenizer, Tokenizer
from transduce.text.signs import ANY_SIGN, SIGNS, with_plain_signs
from transduce.translation.constraints.glossary import Glossary
from transduce.translation.pipeline import TextOptions
from transduce.translation.pipeline.signs import with_known_signs
from transduce.translation.translator import Translator

ASCII = SubwordTokenizer.train(['A dog\'s "cat" - a "dog", a cat\'s dog'] * 5, algorithm="bpe", vocab_size=300)
CURLY = SubwordTokenizer.train(["A dog’s “cat” – a “dog”,\u00a0a cat’s dog"] * 5, algorithm="bpe", vocab_size=300)
ON = TextOptions(signs=True)


def _read(line: str, tokenizer: Tokenizer = ASCII) -> str:
    [read] = with_known_signs([line], tokenizer, "placeholders")
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
        # What the vocabulary has, and what is no such sign.
        ("\"A\" 'b' - c", "\"A\" 'b' - c", "\"A\" 'b' - c"),
        ("a … b² − é 犬。", "a … b² − é 犬。", "a … b² − é 犬。"),
        ("", "", ""),
    ],
)
def test_the_model_reads_signs_that_it_knows(line: str, ascii: str, curly: str) -> None:
    assert (_read(line), _read(line, CURLY)) == (ascii, curly)


def test_what_is_no_prose_stays() -> None:
    assert _read("‘see’ http://a.org/‘b-c and ‘%s’") == "'see' http://a.org/‘b-c and '%s'"
    [read] = with_known_signs(['<a title="«x»">«a dog»</a>'], ASCII, "html")
    assert read == '<a title="«x»">"a dog"</a>'


def test_a_sentencepiece_vocabulary() -> None:
    definition = learned(SOURCE_TEXT)
    tokenizer = SentencePieceTokenizer.of([*SPECIAL_TOKENS, *pieces_of(definition)], definition)
    assert "a" in tokenizer.characters
    assert not {"”", "\u2009"} & tokenizer.characters
    assert _read("“a\u2009dog”", tokenizer) == '"a dog"'


@given(st.text(alphabet=st.sampled_from([*"ab.<>&%{}@/:\"'- ", *(sign for signs, _ in SIGNS for sign in signs)])))
def test_nothing_else_changes(line: str) -> None:
    """Each other character stays at its index, and no sign that is replaced is left but in what is no prose."""
    read = _read(line)
    assert len(read) == len(line)
    assert all(a == b or (ANY_SIGN.match(a) and b in "\"'- ") for a, b in zip(line, read, strict=True))
    assert _read(read) == read


def _written(lines: Sequence[str], options: TextOptions) -> tuple[list[str], list[str]]:
    """Returns what a translator that copies wrote, and what it read."""
    engine = TextEngine(ASCII, lambda text: text, 1024)
    translator = Translator(engine, ASCII, DecodeConfig(batch_size=4))
    found = [best.text for best, *_ in translator.stream(lines, text_options=options)]
    return found, engine.seen


def test_it_is_an_option_of_translations() -> None:
    assert _written(["a “dog”", "a dog"], ON)[0] == ['a "dog"', "a dog"]
    assert _written(["a “dog”"], TextOptions())[0] == ["a “dog”"]


def test_capitals_are_removed_afterwards() -> None:
    assert _written(["A “DOG”, A “CAT”"], TextOptions(signs=True, capitals=True))[1] == ['A "dog", a "cat"']


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


def test_plain_signs() -> None:
    assert with_plain_signs("“a”\u2009’b‘ ― c‑d") == "\"a\" 'b' – c-d"
    assert with_plain_signs("a-b – c") == "a-b – c"
