"""The requests of clients as they send them, one by one, and what each reads from the answer."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from described_answers import DescribedClient
from fake_service import FakeService, fake_app, fake_translation
from transduce.serve.config import LibretranslateConfig, ServeConfig

_FORM = "application/x-www-form-urlencoded"
_JSON = "application/json"
_GERMAN = "Das Wetter ist heute schön."
_TWENTY = [f"Sentence number {number}." for number in range(20)]


@pytest.fixture(scope="module")
def client() -> Iterator[DescribedClient]:
    """A client of a service whose title is what some clients look for."""
    with DescribedClient(
        fake_app(FakeService(), ServeConfig(libretranslate=LibretranslateConfig(title="LibreTranslate")))
    ) as made:
        yield made


def _has(**expected: Any) -> Callable[[Any], bool]:
    return lambda answer: expected.items() <= answer.items()


_LIBRETRANSLATE: list[tuple[str, str, str, str, str, Callable[[Any], bool]]] = [
    # client, method, address, content type, body, what it reads
    (
        *("libretranslatepy", "POST", "/translate", _FORM, "q=Hello&source=en&target=de&api_key=k"),
        _has(translatedText="[de] HELLO"),
    ),
    (
        *("libretranslatepy", "POST", "/detect", _FORM, "q=Das+Wetter+ist+heute+sch%C3%B6n."),
        lambda answer: answer[0]["language"] == "de" and answer[0]["confidence"] > 90,
    ),
    (
        *("libretranslatepy", "GET", "/languages", _FORM, "api_key=k"),
        lambda answer: [each["code"] for each in answer] == ["de", "en", "he", "pt-BR"],
    ),
    (
        *("argos-translate", "POST", "/languages", _FORM, ""),
        lambda answer: answer[0] == {"code": "de", "name": "German", "targets": ["de", "en"]},
    ),
    (
        *("deep-translator", "POST", "/translate?q=Hello+you&source=en&target=de&format=text&api_key=k", "", ""),
        _has(translatedText="[de] HELLO YOU"),
    ),
    ("Weblate", "GET", "/languages", "", "", lambda answer: {"code", "targets"} <= answer[0].keys()),
    (
        *("Weblate", "POST", "/translate", _JSON),
        json.dumps({"q": _TWENTY, "source": "en", "target": "de", "api_key": "k"}),
        lambda answer: answer["translatedText"] == [fake_translation(text, "de") for text in _TWENTY],
    ),
    (
        *("Mastodon", "POST", "/translate", _JSON),
        '{"q": ["<p>Hello <b>you</b></p>", "Hi"], "source": "en", "target": "de", "format": "html", "api_key": "k"}',
        lambda answer: (
            answer["translatedText"] == ["[de] <p>HELLO <b>YOU</b></p>", "[de] HI"]
            and [each["language"] for each in answer["detectedLanguage"]] == ["en", "en"]
        ),
    ),
    (
        *("Mastodon", "POST", "/translate", _JSON),
        json.dumps({"q": [_GERMAN, "It is a fine day."], "source": "auto", "target": "en", "format": "html"}),
        lambda answer: (
            answer["translatedText"] == [fake_translation(_GERMAN, "en"), "It is a fine day."]
            and [each["language"] for each in answer["detectedLanguage"]] == ["de", "en"]
        ),
    ),
    (
        *("Discourse", "POST", "/detect", _FORM, "q=%D7%A9%D7%9C%D7%95%D7%9D+%D7%9C%D7%9B%D7%9D&api_key=k"),
        lambda answer: answer[0]["language"] == "he",
    ),
    (
        *("Discourse", "POST", "/translate", _FORM, "q=%3Cp%3EShalom%3C%2Fp%3E&source=iw&target=en&format=html"),
        _has(translatedText="[en] <p>SHALOM</p>"),
    ),
    (
        *("Translate Web Pages", "POST", "/translate", _FORM, "q=Hello&source=en&target=de&format=text"),
        lambda answer: answer["detectedLanguage"]["language"] == "en",
    ),
    (
        *("Linguist", "POST", "/translate", _FORM, "q=Hello&source=en&target=pb&api_key="),
        _has(translatedText="[pt-BR] HELLO"),
    ),
    (
        *("SearXNG", "POST", "/translate", _JSON),
        '{"q": "Hello", "source": "en", "target": "de", "alternatives": 3}',
        _has(alternatives=["[de] HELLO!", "[de] HELLO!!", "[de] HELLO!!!"]),
    ),
    ("Dialect", "GET", "/spec", "", "", lambda answer: answer["info"]["title"] == "LibreTranslate"),
    (
        *("Dialect", "GET", "/frontend/settings", "", ""),
        lambda answer: (answer["apiKeys"], answer["suggestions"], answer["charLimit"]) == (False, False, 100_000),
    ),
    ("Dialect", "POST", "/detect", _JSON, '{"q": "hello", "api_key": "k"}', lambda answer: len(answer) >= 1),
    (
        *("Subtitle Edit", "POST", "/translate", _JSON, '{"q": "Hello\\nyou", "source": "en", "target": "de"}'),
        _has(translatedText="[de] HELLO\nYOU"),
    ),
]


_DEEPL: list[tuple[str, str, str, str, str, Callable[[Any], bool]]] = [
    (
        *("deepl-python", "POST", "/v2/translate", _JSON),
        '{"target_lang": "EN-GB", "source_lang": "DE", "text": ["Hallo"], "show_billed_characters": true}',
        lambda answer: (
            answer["translations"] == [{"detected_source_language": "DE", "text": "[en] HALLO", "billed_characters": 5}]
        ),
    ),
    (
        *("deepl-python", "GET", "/v2/languages", _FORM, "type=target"),
        lambda answer: [each["language"] for each in answer] == ["DE", "EN-GB", "EN-US", "PT-BR"],
    ),
    (
        *("deepl-python", "GET", "/v2/languages", "", ""),
        lambda answer: [each["language"] for each in answer] == ["DE", "EN", "HE"],
    ),
    ("deepl-python", "GET", "/v2/usage", "", "", lambda answer: answer["character_limit"] == 10**12),
    (
        *("Weblate", "POST", "/v2/translate", _JSON),
        '{"text": ["Hello <x id=\\"7\\">%s</x>, dog"], "source_lang": "EN", "target_lang": "DE", '
        '"formality": "default", "tag_handling": "xml", "ignore_tags": ["x"]}',
        lambda answer: answer["translations"][0]["text"] == '[de] HELLO <x id="7">%s</x>, DOG',
    ),
    ("Weblate", "GET", "/v2/languages?type=target", "", "", lambda answer: "supports_formality" in answer[0]),
    (
        *("Mastodon", "POST", "/v2/translate", _FORM),
        "text=%3Cp%3EHello%3C%2Fp%3E&text=Hi&source_lang=EN&target_lang=PT&tag_handling=html",
        lambda answer: [each["text"] for each in answer["translations"]] == ["[pt-BR] <p>HELLO</p>", "[pt-BR] HI"],
    ),
]


@pytest.mark.parametrize(
    ("method", "address", "content_type", "body", "reads"),
    [
        pytest.param(*request, id=f"{name} {request[0]} {request[1][:20]}")
        for name, *request in _LIBRETRANSLATE + _DEEPL
    ],
)
def test_each_client_reads_what_it_needs(
    client: DescribedClient, method: str, address: str, content_type: str, body: str, reads: Callable[[Any], bool]
) -> None:
    headers = {"content-type": content_type} if content_type else {}
    if address.startswith("/v2"):
        headers["authorization"] = "DeepL-Auth-Key k"
    answer = client.request(method, address, content=body.encode() or None, headers=headers)
    assert answer.status_code == 200, answer.text
    assert reads(answer.json()), answer.text
