"""Glossaries, and the required terms of one text."""

from pathlib import Path

import pytest

from transduce.errors import DataError
from transduce.text import SubwordTokenizer
from transduce.translation.constraints.glossary import Glossary, glossary_of, read_glossary
from transduce.translation.constraints.required_terms import (
    _joins,
    at_start,
    joining_pieces,
    missing,
    outcome,
    term_spellings,
)

_TOKENIZER = SubwordTokenizer.train(
    ["A dog runs.", "two dogs, dogs (2)", "日本語の犬"] * 3, algorithm="bpe", vocab_size=320
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A dog runs.", ["Köter"]),
        ("Dog, dog and DOG", ["Köter"]),  # in any case; asked for once
        ("Dogs, underdog, dog1", []),  # whole words
        ("a guide  dog and a dog", ["Blindenhund", "Köter"]),  # the longest wins, over any white space
        ("guide dogs", []),
        ("IT is it", ["EDV"]),  # capitals as they stand
        ("it is", []),
        ("(dog)/IT.", ["Köter", "EDV"]),
        ("an iPad, an IPAD and an ipad", ["Tablet"]),  # a capital within it counts as well
        ("an IPAD and an ipad", []),
        ("C++ or C", ["Zeh-plus"]),
        ("東京の犬です", ["Hund"]),  # no words to be whole
        ("请看dog和iPad。IT를", ["Köter", "Tablet", "EDV"]),  # words of other scripts touch it
        ("الـdog وIT; iPadக்கு", ["Köter", "EDV", "Tablet"]),
        ("", []),
    ],
)
def test_required_terms_of_a_line(text: str, found: list[str]) -> None:
    glossary = Glossary(
        {
            "dog": "Köter",
            "guide dog": ["Blindenhund", "Führhund"],
            "IT": "EDV",
            "iPad": "Tablet",
            "C++": "Zeh-plus",
            "犬": "Hund",
        }
    )
    assert [choice[0] for choice in glossary.required_in(text)] == found


def test_hebrew_signs_of_abbreviations_are_found_however_they_are_written() -> None:
    glossary = Glossary({'ארה"ב': "USA", "צ׳ק": "cheque"})
    assert glossary.required_in("ארה״ב, צ'ק") == (("USA",), ("cheque",))


def test_turkish_terms_are_found_in_any_case() -> None:
    glossary = Glossary({"iş": "work", "ışık": "light"})
    for text, found in (("İş", "work"), ("iş", "work"), ("Işık", "light"), ("IŞIK", "light"), ("ışık", "light")):
        assert glossary.required_in(f"{text} var") == ((found,),)
    assert Glossary({"İstanbul": "Istanbul"}).required_in("istanbul") == ()


def test_terms_are_written_beside_their_words() -> None:
    glossary = Glossary({"dog": ["Köter", "Hund"], "guide dog": "Blindenhund", "IT": "EDV"})
    assert glossary.written_into("A guide  dog, (IT) two Dogs, a Dog.") == (
        "A guide  dog | Blindenhund |, (IT | EDV |) two Dogs, a Dog | Köter |."
    )
    assert glossary.written_into("it is") == "it is"
    for text in ("<b>dog</b>", "{dog}", "http://dog.com/dog", "a dog-house", "dog.com"):
        assert Glossary({"dog": "Hund"}).written_into(text) == text  # not a word of the running text
    assert Glossary({"dog": "Hund"}).written_into('"dog!" (dog)') == '"dog | Hund |!" (dog | Hund |)'
    assert Glossary({"github": "GitHub"}).written_into("GitHub has it") == "GitHub has it"


def test_choices_stay_together() -> None:
    assert Glossary({"cat": ["Katze", " Kater "]}).required_in("a cat") == (("Katze", "Kater"),)


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text('dog\tHund\n\n guide dog \tBlindenhund\tFührhund\t\t\r\n"dog"\t"Hund", groß\n', encoding="utf-8")
    glossary = read_glossary(path)
    assert glossary.required_in('a "dog"') == (('"Hund", groß',),)  # quotation marks belong to the terms
    assert glossary.required_in("dog, guide dog") == (("Hund",), ("Blindenhund", "Führhund"))
    assert glossary_of(str(path)) is not None
    assert glossary_of(None) is None
    assert glossary_of(glossary) is glossary


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("dog\tHund\ncat\n", "line 2: no target term"),
        ("dog\tHund\n\tKatze\n", "line 2: column 1 is empty"),
        ("dog\t\tHund\n", "line 1: column 2 is empty"),
        ("dog\tHund\ncat\tKatze\ndog\tKöter\n", "line 3: 'dog' stands in line 1 already"),
    ],
)
def test_a_wrong_file_is_refused_by_its_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=f"terms.tsv, {message}"):
        read_glossary(path)


@pytest.mark.parametrize("entries", [{"dog": ""}, {" ": "Hund"}, {"dog": []}, {"dog": "ein\nHund"}])
def test_a_wrong_dictionary_is_refused(entries: dict[str, str]) -> None:
    with pytest.raises(DataError, match="term"):
        Glossary(entries)


@pytest.mark.parametrize(
    ("text", "term", "holds"),
    [
        ("ein Hund.", "Hund", True),
        ("(Hund)", "Hund", True),
        ("Hunde", "Hund", False),
        ("der hund", "Hund", False),
        ("Der alte Hund", "der alte", True),  # a capital at the start
        ('Ja. "Der alte', "der alte", True),
        ("Und Der alte", "der alte", False),  # and nowhere else
        ("犬です", "犬", True),
        ("राम।", "राम", True),
        ("रामायण", "राम", False),  # the vowel sign after it is no letter of its own
        ("मैं हिन्दी, वह", "हिन्दी", True),
        ("हिन्दीभाषी", "हिन्दी", False),
        ("किताब", "ताब", False),
    ],
)
def test_whether_a_text_holds_a_term(text: str, term: str, holds: bool) -> None:
    assert missing(text, [(term,)]) == ([] if holds else [(term,)])
    assert outcome(text, [("absent", term)]) == ((("absent", term), holds),)


def test_a_sentence_starts_behind_its_signs_and_quotation_marks() -> None:
    for sign in ".!?…:":
        for quote in ("", *"\"'“”„‘’‚«»‹›()[]¿¡–—-"):
            for text in (f"Ja{sign} {quote}Der alte", f"Ja{sign}{quote} Der alte", f"{quote}Der alte"):
                assert missing(text, [("der alte",)]) == []
    for sign in ",;/*&#":
        assert missing(f"Ja{sign} Der alte", [("der alte",)]) == [("der alte",)]


def test_spellings_are_those_after_a_space_in_both_cases() -> None:
    found = term_spellings(("dog", "A"), _TOKENIZER, capitals=True)
    assert [b"".join(_TOKENIZER.piece_bytes(ids)) for ids in found] == [b" dog", b" A", b" Dog"]
    assert len(term_spellings(("dog",), _TOKENIZER, capitals=False)) == 1


def test_pieces_that_make_another_word_of_what_they_follow() -> None:
    joining = set(_TOKENIZER.piece_bytes(joining_pieces(_TOKENIZER)))
    assert {b"s", b"1", b"_", "ä".encode()[:1]} <= joining
    assert not {b" ", b" dog", b".", b"(", b"-", b"\n", b"", "犬".encode()[:1]} & joining


@pytest.mark.parametrize(
    ("piece", "joins"),
    [
        *((each.encode(), True) for each in ("s", "1", "_", "ä", "жа", "𐐀", "가", "ि", "ம்")),
        *((each.encode(), False) for each in (" ", " s", ".", "-", "'", "犬", "の", "ก", "😀", "“", "§", "।")),
        *((bytes([each]), True) for each in (0xC3, 0xD0, 0xE1, 0xEA, 0xED)),  # the first byte of letters
        *((bytes([each]), False) for each in (0xC2, 0xE2, 0xE3, 0xE9, 0xEF, 0xF0)),
    ],
)
def test_which_pieces_go_on_with_a_word(piece: bytes, joins: bool) -> None:
    assert _joins(piece) is joins


def test_the_longest_of_terms_with_one_beginning_is_taken() -> None:
    for order in (("ball", "ball game", "ball game night"), ("ball game night", "ball", "ball game")):
        glossary = Glossary({term: term.upper() for term in order})
        assert glossary.required_in("a ball game night") == (("BALL GAME NIGHT",),)
        assert glossary.required_in("a ball game, a ball") == (("BALL GAME",), ("BALL",))


def test_source_terms_are_whole_words_in_scripts_of_india() -> None:
    glossary = Glossary({"राम": "Ram", "ताब": "heat"})
    assert glossary.required_in("राम की किताब।") == (("Ram",),)
    assert glossary.required_in("रामायण") == ()


def test_a_term_within_a_longer_one_is_not_required() -> None:
    glossary = Glossary({"ball game": "Ballspiel", "game": "Spiel", "game night": "Spielabend"})
    assert glossary.required_in("a ball game night, then a game") == (("Ballspiel",), ("Spiel",))


def test_a_georgian_term_has_no_capital_where_a_sentence_begins() -> None:
    assert [at_start(term, "") for term in ("ძაღლი", "dog")] == ["ძაღლი", "Dog"]
    assert missing("ძაღლი.", [("ძაღლი",)]) == []
