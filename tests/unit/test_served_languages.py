"""Which served language a client means by a code, and what languages are called."""

import pytest

from transduce.serve.web import languages
from transduce.serve.web.languages import base_language, canonical, language_name, served_language


@pytest.mark.parametrize(
    ("code", "served", "expected"),
    [
        ("en", ["en", "de"], "en"),
        ("EN", ["en", "de"], "en"),
        ("en-US", ["en", "de"], "en"),
        ("en_GB", ["en-US", "en-GB"], "en-GB"),
        ("en", ["en-US", "en-GB"], "en-GB"),  # the first of the alphabet
        ("EN-AU", ["en-GB"], "en-GB"),
        ("pb", ["pt-BR"], "pt-BR"),
        ("pt-BR", ["pb"], "pb"),
        ("pt", ["pb"], "pb"),
        ("pt-BR", ["pt"], "pt"),
        ("pt-PT", ["pt-BR", "pt"], "pt"),
        ("zh", ["zh-Hans", "zh-Hant"], "zh-Hans"),
        ("zh-Hans", ["zh"], "zh"),
        ("zt", ["zh-Hant"], "zh-Hant"),
        ("zh-TW", ["zt"], "zt"),
        ("zt", ["zh"], None),
        ("zh", ["zh-Hant"], None),
        ("zh-Hant-TW", ["zh-CN", "zh-TW"], "zh-TW"),
        ("zh-Hans-CN", ["zh"], "zh"),
        ("zh-Hant-TW", ["zh"], None),
        ("sr-Latn-RS", ["sr-Cyrl", "sr-Latn"], "sr-Latn"),
        ("ZH-HANS", ["cmn_Hant", "cmn_Hans"], "cmn_Hans"),
        ("ar", ["ary_Arab", "arb_Arab"], "arb_Arab"),
        ("iw", ["he"], "he"),
        ("he", ["iw"], "iw"),
        ("fr", ["en", "de"], None),
        ("", ["en"], None),
        ("-", ["en"], None),
    ],
)
def test_a_code_means_a_served_language(code: str, served: list[str], expected: str | None) -> None:
    assert served_language(code, served) == expected


def test_names() -> None:
    names = {code: language_name(code) for code in ("en", "pt-BR", "pb", "zh-Hans", "zt", "iw", "de-XX", "tlh", "")}
    assert names == {
        "en": "English",
        "pt-BR": "Portuguese (Brazil)",
        "pb": "Portuguese (Brazil)",
        "zh-Hans": "Chinese (Simplified)",
        "zt": "Chinese (Traditional)",
        "iw": "Hebrew",
        "de-XX": "German (XX)",
        "tlh": "tlh",
        "": "",
    }
    assert canonical(" PT_br ") == "pt-br"


def test_old_and_own_codes_mean_what_they_meant() -> None:
    """ISO 639 replaced four codes; zt and pb are LibreTranslate's; the rest are regions that write one script."""
    assert {code: canonical(code) for code in ("in", "iw", "ji", "jw", "pb", "zt", "zh")} == {
        "in": "id",
        "iw": "he",
        "ji": "yi",
        "jw": "jv",
        "pb": "pt-br",
        "zt": "zh-hant",
        "zh": "zh-hans",
    }
    scripts = {code: canonical(f"ZH_{code}") for code in ("CN", "SG", "HK", "TW", "Hans", "Hant")}
    assert scripts == {
        "CN": "zh-hans",
        "SG": "zh-hans",
        "HK": "zh-hant",
        "TW": "zh-hant",
        "Hans": "zh-hans",
        "Hant": "zh-hant",
    }
    assert [base_language(code) for code in ("pb", "zt", "PT-br", "iw", "en")] == ["pt", "zh", "pt", "he", "en"]


def test_names_are_those_of_unicode() -> None:
    """By its Common Locale Data Repository, but for names that are as common, and for Hong Kong's longer one."""
    babel = pytest.importorskip("babel", reason="babel is not installed: pip install '.[demo]'")
    locale = babel.Locale("en")
    own = {"bn": "Bengali", "cu": "Church Slavonic", "ff": "Fulah", "mi": "Maori"}
    assert {code: own.get(code, locale.languages.get(code)) for code in languages._NAMES} == languages._NAMES
    assert len(languages._NAMES) > 180
    regions = {
        code: locale.territories.get(code.upper()) or locale.scripts[code.title()] for code in languages._REGIONS
    }
    assert regions | {"hk": "Hong Kong"} == languages._REGIONS
