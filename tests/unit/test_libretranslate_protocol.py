"""The protocol of LibreTranslate: lists, alternatives, detection, limits, keys, and the words of its errors."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from described_answers import DescribedClient
from fake_service import FakeService, fake_app
from transduce.serve.config import LimitsConfig, ServeConfig
from transduce.serve.operations.keys import KeyRing, add_key
from transduce.serve.requests import (
    DeadlineError,
    ModelUnavailableError,
    OverloadedError,
    StoppingError,
    TranslatedText,
    UnavailableError,
)
from transduce.serve.web.detection import Guess
from transduce.serve.web.libretranslate import _answer, _guess, _likely, is_emoji_only
from transduce.translation.result import Translation

_LIMITS = LimitsConfig(body_bytes=2000, text_characters=100, list_length=3, alternatives=2, beam_size=4)


@pytest.fixture(scope="module")
def service() -> FakeService:
    """The service behind `client`."""
    return FakeService()


@pytest.fixture(scope="module")
def client(service: FakeService) -> Iterator[DescribedClient]:
    """A client of a service with low limits."""
    with DescribedClient(fake_app(service, ServeConfig(limits=_LIMITS))) as made:
        yield made


def _fields(**changes: Any) -> dict[str, Any]:
    return {"q": "Hello", "source": "en", "target": "de"} | changes


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (_fields(q=""), "Invalid request: missing q parameter"),
        (_fields(q=None), "Invalid request: missing q parameter"),
        (_fields(q=[]), "Invalid request: missing q parameter"),
        (_fields(source=""), "Invalid request: missing source parameter"),
        (_fields(target=None), "Invalid request: missing target parameter"),
        (_fields(source="xx"), "xx is not supported"),
        (_fields(target="xx"), "xx is not supported"),
        (_fields(format="pdf"), "pdf format is not supported"),
        (_fields(format={}), "{} format is not supported"),
        (_fields(q="a" * 101), "Invalid request: request (101) exceeds text limit (100)"),
        (_fields(q=["a" * 51] * 2), "Invalid request: request (102) exceeds text limit (100)"),
        (_fields(q=["a"] * 4), "Invalid request: request (4) exceeds batch limit (3)"),
        (_fields(q=5), "Invalid request: q must be a text, or a list of texts"),
        (_fields(q=["a", None]), "Invalid request: q must be a text, or a list of texts"),
        (_fields(q=["a", ["b"]]), "Invalid request: q must be a text, or a list of texts"),
        (_fields(source=["en"]), "Invalid request: source must be a language code"),
        (_fields(alternatives=3), "Invalid request: alternatives must be a number from 0 to 2"),
        (_fields(alternatives=-1), "Invalid request: alternatives must be a number from 0 to 2"),
        (_fields(alternatives=True), "Invalid request: alternatives must be a number from 0 to 2"),
        (_fields(alternatives="many"), "Invalid request: alternatives must be a number from 0 to 2"),
        (_fields(alternatives=1e300), "Invalid request: alternatives must be a number from 0 to 2"),
    ],
)
def test_wrong_requests_are_refused_in_the_protocol_s_words(
    client: DescribedClient, fields: dict[str, Any], message: str
) -> None:
    answer = client.post("/translate", json=fields)
    assert (answer.status_code, answer.json()) == (400, {"error": message})


def test_a_pair_that_no_model_has_is_refused(client: DescribedClient) -> None:
    answer = client.post("/translate", json=_fields(source="he", target="de"))
    assert answer.status_code == 400
    assert answer.json() == {"error": "No model translates from 'he' to 'de' here."}


def test_a_body_over_the_limit_is_refused(client: DescribedClient) -> None:
    assert client.post("/translate", json=_fields(x="a" * 3000)).status_code == 413
    chunks = iter([b'{"q": "', b"a" * 3000, b'"}'])  # without a length in its head
    assert client.post("/translate", content=chunks, headers={"content-type": "application/json"}).status_code == 413


def test_the_body_wins_over_the_query_string(client: DescribedClient) -> None:
    answer = client.post("/translate?q=Bye&target=pb", json={"q": "Hello", "source": "en"})
    assert answer.json()["translatedText"] == "[pt-BR] HELLO"


def test_other_bodies_are_refused(client: DescribedClient) -> None:
    assert client.post("/translate", content=b"x", headers={"content-type": "image/png"}).status_code == 415
    compressed = {"content-type": "application/json", "content-encoding": "gzip"}
    assert client.post("/translate", content=b"x", headers=compressed).status_code == 415
    assert client.post("/translate?q=%ff").status_code == 400
    assert client.post("/translate?source=en&target=de").json() == {"error": "Invalid request: missing q parameter"}


def test_each_text_of_a_list_has_its_own_language(client: DescribedClient) -> None:
    texts = ["Das Wetter ist schön.", "It is a fine day.", "😀👍🏽"]
    found = client.post("/translate", json={"q": texts, "source": "auto", "target": "en", "alternatives": 1}).json()
    assert found["translatedText"] == ["[en] DAS WETTER IST SCHÖN.", "It is a fine day.", "😀👍🏽"]
    assert [each["language"] for each in found["detectedLanguage"]] == ["de", "en", "de"]
    assert found["detectedLanguage"][2]["confidence"] == 0
    assert found["alternatives"] == [["[en] DAS WETTER IST SCHÖN.!"], [], []]


def test_alternatives_in_a_form_are_text(client: DescribedClient) -> None:
    found = client.post("/translate", data=_fields(alternatives="2")).json()
    assert found["alternatives"] == ["[de] HELLO!", "[de] HELLO!!"]
    assert "alternatives" not in client.post("/translate", data=_fields(alternatives="")).json()


def test_html_is_translated_as_such(client: DescribedClient, service: FakeService) -> None:
    client.post("/translate", json=_fields(q="<b>Hello</b>", format="html"))
    options = service.requests[-1].text_options
    assert options is not None
    assert options.markup == "html"
    for plain in ("text", "", None):
        answer = client.post("/translate", json=_fields(q="<b>Hello</b>", format=plain))
        assert (answer.status_code, service.requests[-1].text_options) == (200, None)


def test_text_in_the_target_language_comes_back_unchanged(client: DescribedClient, service: FakeService) -> None:
    before = len(service.requests)
    assert client.post("/translate", json=_fields(q="Hallo", source="de")).json()["translatedText"] == "Hallo"
    assert len(service.requests) == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("😀", True),
        ("👩‍👩‍👧‍👦 🇩🇪\n1️⃣", True),
        ("❤️☀", True),
        ("", False),
        (" ", False),
        ("1", False),
        ("😀 ok", False),
        ("?!", False),
    ],
)
def test_what_is_emoji_only(text: str, expected: bool) -> None:
    assert is_emoji_only(text) is expected


def test_detection_of_a_list_has_a_list_for_each_text(client: DescribedClient) -> None:
    assert client.post("/detect", json={"q": "Das Wetter ist schön."}).json()[0]["language"] == "de"
    found = client.post("/detect", json={"q": ["Das Wetter ist schön.", "It is a fine day.", "12"]}).json()
    assert [each[0]["language"] for each in found] == ["de", "en", "en"]
    assert found[2] == [{"confidence": 0, "language": "en"}]
    assert client.post("/detect", json={}).json() == {"error": "Invalid request: missing q parameter"}
    assert client.get("/detect").status_code == 405


@pytest.mark.parametrize(("confidence", "shown"), [(0.4, 0), (66.6, 67), (99.4, 99), (100.0, 100)])
def test_a_confidence_is_rounded(confidence: float, shown: int) -> None:
    assert _guess(Guess("de", confidence)) == {"confidence": shown, "language": "de"}


def test_what_is_off_says_so(client: DescribedClient) -> None:
    answer = client.post("/suggest", json={})
    assert answer.status_code == 403
    assert answer.json().keys() == {"error"}
    settings = client.get("/frontend/settings").json()
    formats = settings.pop("supportedFilesFormat")
    assert {".docx", ".html", ".txt"} <= set(formats)
    assert settings == {
        "charLimit": 100,
        "frontendTimeout": 500,  # as LibreTranslate itself
        "apiKeys": False,
        "keyRequired": False,
        "suggestions": False,
        "filesTranslation": True,
        "language": {"source": {"code": "en", "name": "English"}, "target": {"code": "de", "name": "German"}},
    }


def test_alternatives_differ_from_the_best_and_from_each_other() -> None:
    texts = ["a", "b", "a", "c", "d"]
    best = [Translation(text, 0.0, 0.0, (), finished=True, source_truncated=False) for text in texts]
    found, guesses = [TranslatedText(best, "en", "de")] * 2, [Guess("en", 99.6), Guess("fr", 12.4)]
    whole = {
        "translatedText": ["a", "a"],
        "detectedLanguage": [{"confidence": 100, "language": "en"}, {"confidence": 12, "language": "fr"}],
    }
    assert _answer(found, guesses, 0, is_list=True) == whole
    assert _answer(found, guesses, 2, is_list=True) == whole | {"alternatives": [["b", "c"]] * 2}
    assert _answer(found[:1], guesses[:1], 4, is_list=False) == {
        "translatedText": "a",
        "detectedLanguage": {"confidence": 100, "language": "en"},
        "alternatives": ["b", "c", "d"],
    }
    likely = _likely([Guess("de", 1.0), Guess("nl", 0.99)])
    assert [guess.language for guess in likely] == ["de"]


def test_languages_are_listed_whatever_comes_with_the_question(client: DescribedClient) -> None:
    for method in ("GET", "POST"):
        answer = client.request(method, "/languages", content=b"{", headers={"content-type": "application/json"})
        assert [each["code"] for each in answer.json()] == ["de", "en", "he", "pt-BR"]
        targets = [["de", "en"], ["de", "en", "pt-BR"], ["en"], ["pt-BR"]]  # each target is its own, too
        assert [each["targets"] for each in answer.json()] == targets
        assert client.request(method, "/languages", content=b"a" * 3000).status_code == 413
    for each in answer.json():
        for target in ("de", "en", "he", "pt-BR"):
            translated = client.post("/translate", json=_fields(source=each["code"], target=target))
            assert (translated.status_code == 200) is (target in each["targets"]), (each, target)


def test_title_is_our_own_unless_configured(client: DescribedClient) -> None:
    assert client.get("/spec").json()["info"]["title"] == "Transduce"


@pytest.mark.parametrize(
    "error",
    [*(each("It fails.", 7) for each in (OverloadedError, StoppingError, ModelUnavailableError)), DeadlineError(7)],
)
def test_a_service_that_cannot_answer_says_when_to_try_again(
    client: DescribedClient, service: FakeService, error: UnavailableError
) -> None:
    service.error = error
    try:
        answer = client.post("/translate", json=_fields())
    finally:
        service.error = None
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "7")
    assert answer.json() == {"error": str(error)}


def test_keys(tmp_path: Path) -> None:
    secret = add_key(tmp_path / "keys.toml", "one", per_minute=10, bulk=True)
    service = FakeService()
    with DescribedClient(fake_app(service, keys=KeyRing(tmp_path / "keys.toml"))) as client:
        answer = client.post("/translate", json=_fields())
        assert (answer.status_code, answer.json()["error"][:14]) == (400, "Please contact")
        for wrong in ("wrong", "\ufffd", "x" * 1000):
            answer = client.post("/translate", json=_fields(api_key=wrong))
            assert (answer.status_code, answer.json()) == (403, {"error": "Invalid API key"})
        assert client.post("/detect", data={"q": "Hello"}).status_code == 400
        assert client.get("/languages").status_code == 200
        settings = client.get("/frontend/settings").json()
        assert (settings["keyRequired"], settings["apiKeys"]) == (True, True)
        assert client.post(f"/translate?api_key={secret}", json=_fields(q="Twelve signs")).status_code == 200
        assert service.requests[-1].priority == 1
        answer = client.post("/translate", data=_fields(api_key=secret))
        assert answer.status_code == 429
        assert answer.json()["error"].startswith("Slowdown: ")
        assert int(answer.headers["retry-after"]) > 0
