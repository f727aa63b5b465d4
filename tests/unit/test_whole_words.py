"""Words that tags cut, references, and text between tags without letters stay as they are, where they are."""

import re

import pytest

from made_documents import member, run, translated, word
from text_engine import same, text_translator
from transduce.translation.pipeline import TextOptions
from transduce.translation.pipeline.text_options import SPLIT_KINDS, Split

GERMAN = {
    "a": "ein",
    "dog": "Hund",
    "dogs": "Hunde",
    "runs": "rennt",
    "on": "auf",
    "once": "es war",
    "one": "ein",
    "co": "Kohle",
}


def german(text: str) -> str:
    """Returns the words of a text in German, in their order; numbers become words, too."""
    text = re.sub(r"[a-z]+", lambda match: GERMAN.get(match[0].lower(), match[0]), text, flags=re.IGNORECASE)
    return text.replace("106", "viele").replace("7", "sieben")


# By hand: words are exchanged, and all the rest is the source.
HTML = {
    "unit": ("dog on 20 m<sup>2</sup>.", "Hund auf 20 m<sup>2</sup>."),
    "formula": ("dog H<sub>2</sub>O, CO<sub>2</sub>", "Hund H<sub>2</sub>O, CO<sub>2</sub>"),
    "formula of many": (
        "C<sub>6</sub>H<sub>12</sub>O<sub>6</sub> runs",
        "C<sub>6</sub>H<sub>12</sub>O<sub>6</sub> rennt",
    ),
    "reference": ("a dog<sup>1</sup> runs", "ein Hund<sup>1</sup> rennt"),
    "reference after a sentence": (
        "A dog.<sup><a href='#n'>1</a></sup> Runs",
        "ein Hund.<sup><a href='#n'>1</a></sup> rennt",
    ),
    "references": ("dog<sup>1</sup><sup>,</sup><sup>2</sup> runs", "Hund<sup>1</sup><sup>,</sup><sup>2</sup> rennt"),
    "star": ("dog<sup>*</sup> runs", "Hund<sup>*</sup> rennt"),
    "named reference": (
        "a dog <a epub:type='noteref'>dog 1</a> runs",
        "ein Hund <a epub:type='noteref'>dog 1</a> rennt",
    ),
    "power that the model changes": ("10<sup>6</sup> dogs", "10<sup>6</sup> Hunde"),
    "number that the model changes": ("dogs <b>7</b> runs", "Hunde <b>7</b> rennt"),
    "one of two numbers": ("5 dogs <b>5</b> runs", "5 Hunde <b>5</b> rennt"),
    "drop cap": ("<b class='d'>O</b>nce a dog", "<b class='d'>e</b>s war ein Hund"),
    "address": ("dogs on nas<i>@</i>debian<i>.</i>org", "Hunde auf nas<i>@</i>debian<i>.</i>org"),
    "address of a page": ("dogs on <b>http://</b>a.<i>de</i>/dog", "Hunde auf <b>http://</b>a.<i>de</i>/dog"),
    "address whose element is longer": ("dogs <i>on nas@</i>debian.org", "Hunde <i>on nas@</i>debian.org"),
    "part of a name": ("dogs on <b>D</b>ebi<b>an</b>", "Hunde auf <b>D</b>ebi<b>an</b>"),
    "part of a word": ("one <a>dog</a>s runs", "ein <a>Hunde</a> rennt"),
    "sign": ("a dog<b>.</b> dogs<b>.</b>", "ein Hund<b>.</b> Hunde<b>.</b>"),
    "formula that other words touch": ("一H<sub>2</sub>O狗 dog", "一H<sub>2</sub>O狗 Hund"),
    "address that other words touch": ("见www.<b>a</b>.de狗 dog", "见www.<b>a</b>.de狗 Hund"),
    "no spaces between words": ("一<b>2</b>狗 dog", "一<b>2</b>狗 Hund"),
    "place for a hyphen": ("a d<wbr>og", "ein Hund"),
}

ONLY_IN_DOCUMENTS = {"named reference", "place for a hyphen"}  # what is no text of a page
GERMAN_TRANSLATOR, SAME = text_translator(german), text_translator()


@pytest.mark.parametrize("name", HTML)
def test_html(name: str) -> None:
    source, expected = (f"<p>{text}</p>" for text in HTML[name])
    assert translated(source.encode(), "a.html", german).decode() == expected
    assert translated(source.encode(), "a.html", same).decode() == source


@pytest.mark.parametrize("name", sorted(HTML.keys() - ONLY_IN_DOCUMENTS))
@pytest.mark.parametrize("split", SPLIT_KINDS)
def test_html_on_plain_lines(name: str, split: Split) -> None:
    options = TextOptions(markup="html", split=split)
    source, expected = HTML[name]
    for before, after in (("", ""), ("<p>", "</p>"), ("<i>", "</i>")):
        line = f"{before}{source}{after}"
        assert GERMAN_TRANSLATOR.translate([line], text_options=options) == [f"{before}{expected}{after}"]
        assert SAME.translate([line], text_options=options) == [line]


def test_word() -> None:
    raised = '<w:vertAlign w:val="superscript"/>'
    source = f"<w:p>{run('one dog')}{run('1', raised)}{run(' on 20 m')}{run('2', raised)}{run(' runs')}</w:p>"
    found = member(translated(word(source), "a.docx", german), "word/document.xml")
    expected = f"{run('ein Hund')}{run('1', raised)}{run(' auf 20 m')}{run('2', raised)}{run(' rennt')}"
    assert expected in found
