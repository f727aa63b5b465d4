"""Which served language a client means by a code, and what languages are called."""

import pytest

from transduce.serve.web.languages import canonical, language_name, served_language


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
