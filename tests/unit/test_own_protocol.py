"""Our own protocol: what goes in, what comes out, streams, and the words of its errors."""

import base64
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from described_answers import DescribedClient, document, events_of
from fake_service import FakeService, fake_app
from transduce import Attention
from transduce.config.ranges import ranges_of
from transduce.config.schema import DecodeConfig
from transduce.errors import ConfigError
from transduce.serve.config import LimitsConfig, ServeConfig
from transduce.serve.cut_text import StreamedPart
from transduce.serve.operations.keys import KeyRing, add_key
from transduce.serve.requests import OverloadedError, Priority, TranslatedText, TranslationRequest, UnavailableError
from transduce.serve.web import own
from transduce.serve.web.detection import Guess
from transduce.serve.web.own_fields import KNOWN_FIELDS
from transduce.translation.pipeline import TextOptions
from transduce.translation.result import Translation

_LIMITS = LimitsConfig(text_characters=100, list_length=3, alternatives=2, beam_size=4)


@pytest.fixture
def client(service: FakeService) -> Iterator[DescribedClient]:
    """A client of a service with low limits."""
    with DescribedClient(fake_app(service, ServeConfig(limits=_LIMITS, text=TextOptions(guard=True)))) as made:
        yield made


def _fields(**changes: Any) -> dict[str, Any]:
    return {"text": "Hello you", "source": "en", "target": "de"} | changes


def test_an_answer_has_all_that_is_known(client: DescribedClient) -> None:
    [found] = client.post("/api/translate", json=_fields(n_best=2)).json()["translations"]
    assert found == {
        "source": "en",
        "target": "de",
        "via": None,
        "zero_shot": False,
        "detected": None,
        "text": "[de] HELLO YOU",
        "score": -0.5,
        "log_probability": -1.0,
        "confidence": 0.5,
        "calibrated": False,
        "words": [
            {"text": "[de]", "probability": 0.9},
            {"text": "HELLO", "probability": 0.9},
            {"text": "YOU", "probability": 0.9},
        ],
        "sentences": [{"source": [0, 9], "target": [0, 14]}],
        "alignment": [{"source": [0, 1], "target": [0, 1]}],
        "finished": True,
        "source_truncated": False,
        "warnings": [],
        "required": [],
        "n_best": [
            {"text": "[de] HELLO YOU", "score": -0.5, "confidence": 0.5},
            {"text": "[de] HELLO YOU!", "score": -1.5, "confidence": 0.5},
        ],
    }


def test_a_list_has_an_answer_for_each_text(client: DescribedClient) -> None:
    texts = ["Das Wetter ist schön.", "It is a fine day.", ""]
    found = client.post("/api/translate", json={"text": texts, "target": "en"}).json()["translations"]
    assert [each["text"] for each in found] == ["[en] DAS WETTER IST SCHÖN.", "It is a fine day.", ""]
    assert [each["detected"]["language"] for each in found] == ["de", "en", "de"]
    assert found[0]["detected"]["confidence"] > 90
    assert found[2]["detected"]["confidence"] == 0


def test_a_named_language_is_checked_where_that_is_wanted(client: DescribedClient, service: FakeService) -> None:
    german = {"text": "Das Wetter ist heute schön.", "source": "en", "target": "de"}
    [found] = client.post("/api/translate", json=german | {"check_source": True}).json()["translations"]
    assert (found["source"], found["detected"]["language"]) == ("en", "de")
    assert found["detected"]["confidence"] > 90
    assert service.requests[-1].source == "en"  # it is a hint only
    streamed = german | {"check_source": True, "stream": True}
    events = events_of(client.post("/api/translate", json=streamed).text)
    assert events[0][1]["translation"]["detected"]["language"] == "de"
    [found] = client.post("/api/translate", json=german).json()["translations"]
    assert found["detected"] is None


def test_where_languages_cannot_be_detected_a_named_one_is_not_checked(
    client: DescribedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise UnavailableError("Language detection is not available.", 60)

    monkeypatch.setattr("transduce.serve.web.detection.Detector.guesses", fail)
    answer = client.post("/api/translate", json={"text": "a", "source": "en", "target": "de", "check_source": True})
    assert (answer.status_code, answer.json()["translations"][0]["detected"]) == (200, None)


def test_fields_reach_the_service(client: DescribedClient, service: FakeService) -> None:
    fields = _fields(
        text=["a", "b"],
        beam_size=3,
        length_penalty=1,
        max_extra_tokens=5,
        prefix=["Der", ""],
        forbidden=["x"],
        required=[["Hund", ["Köter", "Hund"]], []],
        glossary={"dog": ["Hund", "Köter"], "cat": "Katze"},
        markup="html",
        split="never",
        guard=False,
        confidence=False,
        priority="bulk",
        timeout_seconds=1e300,
    )
    assert client.post("/api/translate", json=fields).status_code == 200
    request = service.requests[-1]
    assert request.options == {"beam_size": 3, "length_penalty": 1, "max_extra_tokens": 5}
    assert request.prefixes == ["Der", ""]
    assert request.forbidden == [["x"], ["x"]]
    assert request.required == [["Hund", ["Köter", "Hund"]], []]
    assert request.glossary == {"dog": ["Hund", "Köter"], "cat": "Katze"}
    assert request.text_options == TextOptions(split="never", markup="html", guard=False, alignment=True)
    assert (request.priority, request.timeout_seconds) == (Priority.BULK, 30.0)
    assert client.post("/api/translate", json=_fields(prefix="Der", required=["Hund"])).status_code == 200
    request = service.requests[-1]
    assert (request.prefixes, request.required) == (["Der"], [["Hund"]])
    assert request.text_options == TextOptions(guard=True, confidence=True, alignment=True)
    assert request.timeout_seconds is None


def test_constraints_of_a_list_go_to_their_texts(client: DescribedClient, service: FakeService) -> None:
    texts = ["Das Wetter ist schön heute.", "Il fait beau.", "It is a fine day today."]
    fields = {"text": texts, "target": "de", "prefix": ["1", "2", "3"], "forbidden": [["x"], ["y"], ["z"]]}
    client.post("/api/translate", json=fields)
    assert [(each.source, each.prefixes, each.forbidden) for each in service.requests][-1] == (
        "en",
        ["2", "3"],
        [["y"], ["z"]],
    )


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"beem_size": 3}, "unknown_field", "Unknown field 'beem_size'. Did you mean 'beam_size'?"),
        ({"batch_size": 3}, "unknown_field", "Unknown field 'batch_size'. Did you mean 'beam_size'?"),
        ({"x" * 500: 3}, "unknown_field", "Unknown field"),
        ({"text": None}, "bad_request", "The field 'text' is missing"),
        ({"text": []}, "bad_request", "The field 'text' is missing"),
        ({"text": {}}, "wrong_value", "text = {}: must be a text"),
        ({"text": [[]]}, "wrong_value", "text = [[]]: must be a text"),
        ({"text": "a" * 101}, "too_long", "text: 101 characters, and at most 100 are allowed."),
        ({"text": ["a"] * 4}, "too_long", "text: 4 texts, and at most 3 are allowed."),
        ({"target": None}, "bad_request", "The field 'target' is missing"),
        ({"target": 5}, "wrong_value", "target = 5: must be a text"),
        ({"target": "xx"}, "unknown_language", "The language 'xx' is not supported."),
        ({"source": "xx"}, "unknown_language", "The language 'xx' is not supported."),
        ({"source": "he"}, "unknown_pair", "No model translates from 'he' to 'de' here."),
        ({"n_best": 4}, "wrong_value", "n_best = 4: must be at most 3 here."),
        ({"n_best": 0}, "wrong_value", "n_best: must be at least 1."),
        ({"n_best": True}, "wrong_value", "n_best = True: must be a whole number."),
        ({"beam_size": 5}, "wrong_value", "beam_size = 5: must be at most 4 here."),
        ({"max_extra_tokens": 2001}, "wrong_value", "max_extra_tokens = 2001: must be at most 2000 here."),
        ({"beam_size": 0}, "wrong_value", "beam_size = 0: must be from 1 to 1,024."),
        ({"beam_size": [1]}, "wrong_value", "beam_size = [1]: must be a whole number."),
        ({"length_penalty": "1"}, "wrong_value", "length_penalty = '1': must be a number."),
        ({"split": "sometimes"}, "wrong_value", "split = 'sometimes': must be one of"),
        ({"markup": []}, "wrong_value", "markup = []: must be one of"),
        ({"prefix": 5}, "wrong_value", "prefix = 5: must be a text."),
        ({"prefix": ["a"]}, "wrong_value", "prefix = ['a']: must be a text."),
        ({"text": ["a"], "prefix": "a"}, "wrong_value", "prefix = 'a': must be a list with a text for each text."),
        ({"text": ["a", "b"], "prefix": ["a"]}, "wrong_value", "prefix = ['a']: must be a list"),
        ({"forbidden": "x"}, "wrong_value", "forbidden = 'x': must be a list."),
        ({"forbidden": [["x"]]}, "wrong_value", "forbidden = [['x']]: ['x'] must be a text."),
        ({"required": [[]]}, "wrong_value", "required = [[]]: [] must be a text."),
        ({"text": ["a", "b"], "required": [["a"]]}, "wrong_value", "required: 1 lists for 2 texts"),
        ({"glossary": []}, "wrong_value", "glossary = []: must be an object of terms."),
        ({"glossary": {str(number): "a" for number in range(1001)}}, "too_long", "glossary: 1,001 terms"),
        ({"forbidden": ["a"] * 1001}, "too_long", "forbidden: 1,001 terms"),
        ({"glossary": {"a": ["b"] * 1001}}, "too_long", "glossary: 1,001 terms"),
        ({"required": [["a"] * 1001]}, "too_long", "required: 1,001 terms"),
        ({"required": [["a" * 501]]}, "too_long", "required: a term has 501 characters, and at most 500 are allowed."),
        ({"forbidden": ["a" * 501]}, "too_long", "forbidden: a term has 501 characters, and at most 500 are allowed."),
        (
            {"glossary": {"a" * 501: "b"}},
            "too_long",
            "glossary: a term has 501 characters, and at most 500 are allowed.",
        ),
        ({"glossary": {"a": ["b" * 501]}}, "too_long", "glossary: a term has 501 characters, and at most 500"),
        ({"prefix": "a" * 99}, "too_long", "text and prefix: 108 characters, and at most 100 are allowed."),
        ({"glossary": {"a": []}}, "wrong_value", "glossary: 'a' must have a text or a list of texts."),
        ({"timeout_seconds": 0}, "wrong_value", "timeout_seconds: must be greater than 0."),
        ({"timeout_seconds": True}, "wrong_value", "timeout_seconds = True: must be a number."),
        ({"text": ["a", "b"], "stream": True}, "wrong_value", "Only a single text can be streamed."),
    ],
)
def test_wrong_requests_are_told_what_is_wrong(
    client: DescribedClient, changes: dict[str, Any], code: str, message: str
) -> None:
    answer = client.post("/api/translate", json=_fields(**changes))
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == code
    assert answer.json()["error"]["message"].startswith(message)


def test_errors_of_the_pipeline_are_the_client_s(client: DescribedClient, service: FakeService) -> None:
    service.error = ConfigError("n-best = 3: must be at least 1 and at most the beam size, 2.")
    answer = client.post("/api/translate", json=_fields())
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, str(service.error))


def test_all_options_of_a_search_are_known_and_described() -> None:
    described = document()["components"]["schemas"]["TranslateRequest"]["properties"]
    assert set(KNOWN_FIELDS) == described.keys()
    ranges = ranges_of(DecodeConfig)
    assert set(ranges) - set(KNOWN_FIELDS) == {"batch_size"}
    for name in set(ranges) - {"batch_size"}:
        kind, bounds = ranges[name]
        least = described[name]["exclusiveMinimum" if bounds.above else "minimum"]
        assert described[name]["type"] == ("integer" if kind is int else "number")
        most = 2000 if name == "max_extra_tokens" else bounds.most  # the service has a limit of its own
        assert (least, described[name].get("maximum")) == (bounds.least, most), name


@pytest.mark.parametrize("by_header", [False, True])
def test_a_stream_has_an_event_for_each_sentence(client: DescribedClient, by_header: bool) -> None:
    fields = _fields(text="One dog. Two dogs. Three.") | ({} if by_header else {"stream": True})
    headers = {"accept": "text/event-stream"} if by_header else {}
    answer = client.post("/api/translate", json=fields, headers=headers)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = events_of(answer.text)
    assert [name for name, _ in events] == ["sentence", "sentence", "sentence", "done"]
    assert [event["span"] for _, event in events[:-1]] == [[0, 9], [9, 19], [19, 25]]
    assert [event["added"] for _, event in events[:-1]] == ["[de] ONE DOG. ", "[de] TWO DOGS. ", "[de] THREE."]
    assert events[0][1]["translation"]["words"][0] == {"text": "[de]", "probability": 0.9}
    whole = {"text": "[de] ONE DOG. [de] TWO DOGS. [de] THREE.", "source": "en", "target": "de", "via": None}
    assert events[-1][1] == whole | {"detected": None}


def test_a_stream_of_text_in_the_target_language_is_the_text(client: DescribedClient) -> None:
    fields = {"text": "Das Wetter ist heute schön.", "target": "de", "stream": True}
    events = events_of(client.post("/api/translate", json=fields).text)
    assert [name for name, _ in events] == ["sentence", "done"]
    assert events[-1][1]["text"] == "Das Wetter ist heute schön."
    assert events[-1][1]["detected"]["language"] == "de"


def test_a_stream_of_nothing_ends_at_once(client: DescribedClient) -> None:
    events = events_of(client.post("/api/translate", json=_fields(text="", stream=True)).text)
    assert [name for name, _ in events] == ["done"]
    assert events[0][1]["text"] == ""


def test_an_error_before_the_first_event_is_an_ordinary_one(client: DescribedClient, service: FakeService) -> None:
    service.error = OverloadedError("Too much work waits.", 3)
    answer = client.post("/api/translate", json=_fields(stream=True))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "3")


@pytest.mark.parametrize(
    ("error", "code"),
    [(OverloadedError("Too much work waits."), "unavailable"), (KeyError("a secret"), "internal_error")],
)
def test_an_error_in_the_middle_of_a_stream_is_its_last_event(
    client: DescribedClient,
    service: FakeService,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    code: str,
) -> None:
    service.error, service.error_after = error, 1
    events = events_of(client.post("/api/translate", json=_fields(text="One. Two.", stream=True)).text)
    assert [name for name, _ in events] == ["sentence", "error"]
    assert events[1][1]["error"]["code"] == code
    assert "secret" not in caplog.text
    assert ("KeyError" in caplog.text) == isinstance(error, KeyError)


def test_alternatives_at_a_word(client: DescribedClient, service: FakeService) -> None:
    fields = {"text": "Hello you", "source": "en", "target": "de", "prefix": "Hallo ", "n": 2}
    found = client.post("/api/alternatives", json=fields).json()
    words = [{"word": f"word{index}", "probability": 0.5, "text": "Hallo "} for index in range(2)]
    assert found == {"source": "en", "target": "de", "alternatives": words}
    assert service.requests[-1].prefixes == ["Hallo "]
    assert len(client.post("/api/alternatives", json=fields | {"n": None}).json()["alternatives"]) == 5
    for wrong in ({"n": "2"}, {"text": None}, {"text": ["a"]}, {"target": "xx"}, {"m": 1}, {"prefix": "a" * 100}):
        assert client.post("/api/alternatives", json=fields | wrong).status_code == 400
    service.error = ConfigError("n = 101: must be from 1 to 100.")
    assert client.post("/api/alternatives", json=fields | {"n": 101}).status_code == 400


def test_attention_of_a_pair(
    client: DescribedClient, service: FakeService, random_attention: Callable[..., Attention]
) -> None:
    fields = {"text": "a dog runs", "source": "en", "target": "de", "translation": "ein Hund rennt"}
    refused = client.post("/api/attention", json=fields)
    assert (refused.status_code, refused.json()["error"]["message"]) == (
        400,
        "The fake engine does not return attention weights.",
    )
    service.attended = random_attention("a dog runs", "ein Hund rennt")
    found = client.post("/api/attention", json=fields).json()
    assert (found["model"], found["source"], found["target"]) == ("en→de", "a dog runs", "ein Hund rennt")
    assert [view["kind"] for view in found["units"][0]["views"]] == ["encoder", "decoder", "cross"]
    assert len(base64.b64decode(found["units"][0]["views"][2]["weights"])) == 2 * 3 * 4 * 4  # words and the end
    assert client.post("/api/attention", json=fields | {"translation": None}).status_code == 200
    for wrong in ({"text": None}, {"target": "xx"}, {"m": 1}, {"translation": "a" * 100}, {"translation": 1}):
        assert client.post("/api/attention", json=fields | wrong).status_code == 400


def test_domain_and_priority_of_a_single_text_reach_the_service(
    tmp_path: Path, random_attention: Callable[..., Attention]
) -> None:
    secret = add_key(tmp_path / "keys.toml", "one", bulk=True)
    service, text = FakeService(), TextOptions(guard=True)
    service.attended = random_attention("a dog", "ein Hund")
    with DescribedClient(fake_app(service, ServeConfig(text=text), KeyRing(tmp_path / "keys.toml"))) as client:
        for path in ("/api/alternatives", "/api/attention"):
            for domain in ("law", None):
                fields = _fields(text="a dog", domain=domain)
                answer = client.post(path, json=fields, headers={"authorization": f"Bearer {secret}"})
                assert answer.status_code == 200
                request = service.requests[-1]
                assert request.text_options == (text if domain is None else replace(text, domain="law"))
                assert (request.priority, request.texts, request.pair) == (Priority.BULK, ["a dog"], ("en", "de"))


def test_what_is_told_of_a_translation() -> None:
    span = (((0, 5), (1, 3)),)
    best = Translation(
        *("Ein Hund", -0.12345678, -1.98765432, ("x",)),
        finished=False,
        source_truncated=True,
        confidence=0.123456789,
        calibrated=True,
        words=(("Ein", 0.99999999), ("Hund", 0.25)),
        sentences=span,
        alignment=span,
        warnings=("w1", "w2"),
        required=((("Hund", "Köter"), True), (("Katze",), False)),
        forced=(("Hund", "Köter"),),
    )
    text = TranslatedText([best, replace(best, text="Hund", confidence=None)], "en", "de", "fr", True)
    assert own._described(text, Guess("en", 66.66)) == {
        "source": "en",
        "target": "de",
        "via": "fr",
        "zero_shot": True,
        "detected": {"language": "en", "confidence": 66.7},
        "text": "Ein Hund",
        "score": -0.123457,
        "log_probability": -1.987654,
        "confidence": 0.123457,
        "calibrated": True,
        "words": [{"text": "Ein", "probability": 1.0}, {"text": "Hund", "probability": 0.25}],
        "sentences": [{"source": [0, 5], "target": [1, 3]}],
        "alignment": [{"source": [0, 5], "target": [1, 3]}],
        "finished": False,
        "source_truncated": True,
        "warnings": ["w1", "w2"],
        "required": [
            {"terms": ["Hund", "Köter"], "found": True, "forced": True},
            {"terms": ["Katze"], "found": False, "forced": False},
        ],
        "n_best": [
            {"text": "Ein Hund", "score": -0.123457, "confidence": 0.123457},
            {"text": "Hund", "score": -0.123457, "confidence": None},
        ],
    }


def test_a_stream_names_the_pivot_and_may_be_passed_on_as_it_comes(
    client: DescribedClient, service: FakeService
) -> None:
    async def stream(request: TranslationRequest) -> AsyncGenerator[StreamedPart, None]:
        for text in ("Ü.", " B."):
            [translated] = await service.translate(replace(request, texts=[text]))
            yield StreamedPart((0, 2), text, replace(translated, via="fr"))

    service.stream = stream  # type: ignore[method-assign]
    answer = client.post("/api/translate", json=_fields(source="auto", text="The dog runs.", stream=True))
    assert (answer.headers["cache-control"], answer.headers["x-accel-buffering"]) == ("no-store", "no")
    assert '"added": "Ü."' in answer.text
    done = events_of(answer.text)[-1][1]
    assert (done["text"], done["via"], done["detected"]["language"]) == ("Ü. B.", "fr", "en")


def test_detection(client: DescribedClient) -> None:
    found = client.post("/api/detect", json={"text": ["Das Wetter ist schön.", "1"]}).json()["detections"]
    assert found[0][0]["language"] == "de"
    assert found[1][0] == {"language": "en", "confidence": 0}
    assert client.post("/api/detect", json={"text": 1}).status_code == 400
    refused = client.post("/api/detect", json={"text": "Hi", "txet": "Hi"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "unknown_field")
    assert len(client.post("/api/detect", json={"text": "Hi"}).json()["detections"]) == 1


def test_languages(client: DescribedClient) -> None:
    found = client.get("/api/languages").json()
    assert found["languages"][-1] == {"code": "pt-BR", "name": "Portuguese (Brazil)"}
    assert found["pairs"][0] == {
        "source": "en",
        "target": "de",
        "via": None,
        "zero_shot": False,
        "domains": [],
        "model": "fake",
        "attention": False,
    }
    assert "DOCX" in found["document_formats"]


def test_keys(tmp_path: Path) -> None:
    secret = add_key(tmp_path / "keys.toml", "one", per_minute=5, bulk=True)
    service = FakeService()
    with DescribedClient(fake_app(service, keys=KeyRing(tmp_path / "keys.toml"))) as client:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"DeepL-Auth-Key {secret}"}):
            answer = client.post("/api/translate", json=_fields(), headers=headers)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert answer.json()["error"]["code"] == "unauthorized"
        assert client.post("/api/detect", json={"text": "Hi"}).status_code == 401
        assert client.get("/api/languages").status_code == 200
        headers = {"authorization": f"bearer {secret}"}
        assert client.post("/api/translate", json=_fields(), headers=headers).status_code == 200
        assert service.requests[-1].priority is Priority.BULK
        for stream in (False, True):
            answer = client.post("/api/translate", json=_fields(stream=stream), headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (429, "limit")
