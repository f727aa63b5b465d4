"""The language of a text among those that are served, and of short text that hardly shows it."""

import asyncio
import math
import re

import pytest
from babel.core import get_global

from transduce.serve.requests import UnavailableError
from transduce.serve.web import detection as detection_module
from transduce.serve.web.detection import Detector, Guess
from transduce.serve.web.scripts import is_written_in

_MANY = re.findall(r"\w+", "ar bg cs da de el en es et fa fi fr he hi hu id it ja ko lt lv nl pl pt ro ru sv tr uk zh")


@pytest.fixture(scope="module")
def detector() -> Detector:
    """A detector that is loaded."""
    made = Detector()
    guesses(made, "Hello", ["en"])
    return made


def guesses(detector: Detector, text: str, among: list[str], html: bool = False) -> list[Guess]:
    """Returns what a text may be, in an event loop of its own."""
    [found] = asyncio.run(detector.guesses([text], among, html=html))
    return found


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The weather is fine today, so we walk to the lake.", "en"),
        ("Das Wetter ist heute schön, also gehen wir zum See.", "de"),
        ("Le temps est beau aujourd'hui, nous allons donc au lac.", "fr"),
        ("今天天气很好，我们走到湖边去。", "zh"),
    ],
)
def test_the_first_guess_is_the_language(detector: Detector, text: str, language: str) -> None:
    found = guesses(detector, text, ["en", "de", "fr", "zh"])
    assert found[0].language == language
    assert found[0].confidence > 90
    assert sum(guess.confidence for guess in found) == pytest.approx(100)
    assert [guess.confidence for guess in found] == sorted((guess.confidence for guess in found), reverse=True)


def test_only_served_languages_are_guessed(detector: Detector) -> None:
    [guess] = guesses(detector, "Das Wetter ist heute schön.", ["en"])
    assert guess == Guess("en", 100.0)


@pytest.mark.parametrize("text", ["", "  ", "12:30", "😀", "?!"])
def test_text_without_letters_is_in_the_first_language_with_no_confidence(detector: Detector, text: str) -> None:
    assert guesses(detector, text, ["de", "en"]) == [Guess("de", 0.0), Guess("en", 0.0)]


@pytest.mark.parametrize(
    ("text", "among"),
    [
        ("الطقس جميل اليوم، لذلك نمشي إلى البحيرة.", ["en", "de"]),  # Arabic
        ("天气很好", ["en", "ru"]),
        ("Погода сегодня хорошая, мы идём к озеру. OK?", ["de", "ar"]),
        ("Das Wetter ist heute schön.", ["ru", "el"]),
        ("今日は天気がいいです。", ["ko", "en"]),
    ],
)
def test_no_language_is_sure_that_has_another_script(detector: Detector, text: str, among: list[str]) -> None:
    assert guesses(detector, text, among) == [Guess(code, 0.0) for code in among]


def test_of_the_languages_those_with_the_script_of_most_letters_are_guessed(detector: Detector) -> None:
    found = guesses(detector, "Der Roman „Война и мир“ ist sehr lang.", ["ru", "de"])
    assert found[0].language == "de"
    assert found[1] == Guess("ru", 0.0)
    assert guesses(detector, "ＦＵＬＬ ＷＩＤＴＨ ＬＥＴＴＥＲＳ", ["zh", "en"])[0] == Guess("en", 100.0)


_WORDS = {  # how names of letters in Unicode begin, by the script's code
    "Latn": "LATIN",
    "Cyrl": "CYRILLIC",
    "Arab": "ARABIC",
    "Deva": "DEVANAGARI",
    "Beng": "BENGALI",
    "Hebr": "HEBREW",
    "Grek": "GREEK",
    "Ethi": "ETHIOPIC",
    "Hans": "CJK",
    "Hant": "CJK",
    "Jpan": "HIRAGANA",
    "Kore": "HANGUL",
    "Thai": "THAI",
    "Geor": "GEORGIAN",
    "Armn": "ARMENIAN",
    "Tibt": "TIBETAN",
    "Gujr": "GUJARATI",
    "Khmr": "KHMER",
    "Knda": "KANNADA",
    "Laoo": "LAO",
    "Mlym": "MALAYALAM",
    "Mymr": "MYANMAR",
    "Orya": "ORIYA",
    "Guru": "GURMUKHI",
    "Sinh": "SINHALA",
    "Taml": "TAMIL",
    "Telu": "TELUGU",
    "Tfng": "TIFINAGH",
    "Adlm": "ADLAM",
}


def test_scripts_of_languages_are_those_of_cldr(detector: Detector) -> None:
    likely = {code: full.split("_")[1] for code, full in get_global("likely_subtags").items() if "_" not in code}
    known = {label: likely[label] for label, _ in detector._identifier.rank("a") if label in likely}
    assert len(known) > 100
    assert [code for code, script in known.items() if not is_written_in(code, _WORDS[script])] == []
    assert all(is_written_in("de", script) == (script in ("", "LATIN")) for script in ["", *_WORDS.values()])


# Languages whose words the texts are, by a dictionary: a short text may be in several.
@pytest.mark.parametrize(
    ("text", "languages"),
    [
        ("Guten Morgen", {"de"}),
        ("merci beaucoup", {"fr"}),
        ("thank you", {"en"}),
        ("buenos días", {"es"}),
        ("Привет", {"bg", "ru", "uk"}),
        ("今日は", {"ja"}),
        ("안녕", {"ko"}),
    ],
)
def test_a_short_text_is_in_its_most_probable_language_among_many(
    detector: Detector, text: str, languages: set[str]
) -> None:
    found = guesses(detector, text, _MANY)
    assert found[0].language in languages
    assert found[0].confidence == max(guess.confidence for guess in found) > 100 / len(_MANY)
    assert sum(guess.confidence for guess in found) == pytest.approx(100)


def test_text_that_shows_no_language_is_in_the_first_one_with_a_low_confidence(detector: Detector) -> None:
    for among in (["de", "en", "fr"], ["fr", "en", "de"]):  # to the identifier "ok" is as probable in each
        found = guesses(detector, "ok", among)
        assert [guess.language for guess in found] == among
        assert [guess.confidence for guess in found] == pytest.approx([100 / 3] * 3)


def test_variants_of_a_language_are_one_to_the_detector(detector: Detector) -> None:
    found = guesses(detector, "O tempo está bom hoje, vamos caminhar até o lago.", ["en", "pt-BR", "pt"])
    assert found[0].language == "pt-BR"
    assert {guess.language: guess.confidence for guess in found}["pt"] == 0.0
    assert guesses(detector, "Jeg går en tur ved søen i dag, fordi været er fint.", ["nb", "en"])[0].language == "nb"


def test_languages_with_codes_of_nllb_are_detected(detector: Detector) -> None:
    among = ["eng_Latn", "arb_Arab", "pes_Arab", "zho_Hans"]
    for text, language in (("أين تقع أقرب محطة قطار؟", "arb_Arab"), ("نزدیک‌ترین ایستگاه قطار کجاست؟", "pes_Arab")):
        assert guesses(detector, text, among)[0].language == language


def test_tags_say_nothing_about_the_language(detector: Detector) -> None:
    text = "<span class='the house of the weather is here'>Haus am See</span>"
    assert guesses(detector, text, ["en", "de"], html=True)[0].language == "de"


def test_behind_long_tags_there_is_text_that_shows_its_language(detector: Detector) -> None:
    """Of a text with tags four times as much is read; of what is left without them, as much as of any text."""
    german, english = "Das Wetter ist heute schön. ", "The weather is fine today. "
    tag = f"<a href='{'x' * 2500}'>"
    assert guesses(detector, tag + german * 30, ["en", "de"], html=True)[0].language == "de"
    begun = f"{tag}{german * 19}"  # 532 characters
    whole = guesses(detector, begun + english * 1000, ["en", "de"], html=True)
    assert whole == guesses(detector, (" " + german * 19 + english * 1000)[:2000], ["en", "de"])
    assert guesses(detector, f"<a {'x' * 7996}>", ["en", "de"], html=True)[0].confidence == 0
    cut_off = guesses(detector, f"<a {'x ' * 3999}>", ["en", "de"], html=True)
    assert cut_off[0].confidence > 0, "of a tag that is longer, the beginning is read as text"


def test_a_long_text_costs_no_more_than_its_beginning(detector: Detector) -> None:
    long = "Das Wetter ist heute schön. " * 100_000
    assert guesses(detector, long, ["en", "de"]) == guesses(detector, long[:2000], ["en", "de"])


def test_where_the_identifier_cannot_be_loaded_requests_are_told_to_name_their_language(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ModuleNotFoundError("No module named 'py3langid'")

    monkeypatch.setattr(detection_module, "_identifier", fail)
    with pytest.raises(UnavailableError, match="name the source language"):
        guesses(Detector(), "Hello", ["en"])
    assert "cannot be loaded" in caplog.text


def test_probabilities_are_a_softmax_at_the_root_of_the_bytes() -> None:
    """Of 4 bytes scores are halved: e^(-2 ln 3 / 2) = 1/3. A code without a score, or with another's, has none."""
    scores = {"no": -1.0, "tl": -1.0 - 2 * math.log(3), "xx": 5.0}
    found = detection_module._probabilities(scores, ["fil", "nb", "no", "zz"], 4)
    assert found == pytest.approx({"fil": 1 / 4, "nb": 3 / 4, "no": 0.0, "zz": 0.0})
    assert detection_module._probabilities(scores, ["zz"], 4) == {"zz": 0.0}


def test_bytes_are_counted_not_characters(detector: Detector) -> None:
    ranked = dict(detector._identifier.rank("Привет"))
    found = {guess.language: guess.confidence for guess in guesses(detector, "Привет", ["ru", "bg"])}
    odds = math.exp((ranked["ru"] - ranked["bg"]) / math.sqrt(12))
    assert found["ru"] / found["bg"] == pytest.approx(odds)
