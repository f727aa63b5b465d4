"""Half of a surrogate pair, which JSON can spell and UTF-8 cannot, is refused in each field of each protocol."""

import json
from typing import Any

import pytest

from described_answers import DescribedClient
from fake_service import fake_app

_HALF = "a\ud800"
_OWN = {"text": "A dog.", "source": "en", "target": "de"}
_LIBRE = {"q": "A dog.", "source": "en", "target": "de"}
_DEEPL = {"text": ["A dog."], "source_lang": "en", "target_lang": "de"}
_GLOSSARY = {"name": "pets", "source_lang": "en", "target_lang": "de", "entries": "dog\tHund"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        *(("/translate", _LIBRE | {name: _HALF}) for name in ("q", "source", "target", "format", "api_key")),
        ("/translate", _LIBRE | {"q": ["A dog.", _HALF]}),
        ("/detect", {"q": _HALF}),
        *(("/api/translate", _OWN | {name: _HALF}) for name in ("text", "source", "target", "prefix", "split", _HALF)),
        *(("/api/translate", _OWN | {name: [_HALF]}) for name in ("text", "required", "forbidden")),
        ("/api/translate", _OWN | {"required": [["a", _HALF]]}),
        ("/api/translate", _OWN | {"glossary": {_HALF: "b"}}),
        ("/api/translate", _OWN | {"glossary": {"a": ["b", _HALF]}}),
        ("/api/translate", _OWN | {"text": _HALF, "stream": True}),
        *(("/api/alternatives", _OWN | {name: _HALF}) for name in ("text", "prefix")),
        ("/api/detect", {"text": [_HALF]}),
        *(
            ("/v2/translate", _DEEPL | {name: _HALF})
            for name in ("source_lang", "target_lang", "glossary_id", "context")
        ),
        *(("/v2/translate", _DEEPL | {name: [_HALF]}) for name in ("text", "ignore_tags")),
        *(("/v2/glossaries", _GLOSSARY | {name: _HALF}) for name in ("name", "entries", "source_lang")),
    ],
)
def test_half_of_a_character_is_refused(path: str, body: dict[str, Any]) -> None:
    with DescribedClient(fake_app()) as client:
        answer = client.post(path, content=json.dumps(body), headers={"content-type": "application/json"})
        assert answer.status_code == 400
        assert "\\ud800 is half of a character" in answer.json().get(
            "message", str(answer.json()).replace("\\\\", "\\")
        )


@pytest.mark.parametrize("path", ["/translate", "/detect", "/v2/translate", "/v2/glossaries"])
def test_half_of_a_character_in_a_form_is_refused(path: str) -> None:
    with DescribedClient(fake_app()) as client:
        form = {"content-type": "application/x-www-form-urlencoded"}
        answer = client.post(path, content=b"q=%ED%A0%80&text=%ED%A0%80", headers=form)
        assert answer.status_code == 400
        assert "not UTF-8" in answer.text


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("glossary", '{"a\\ud800": "b"}', "half of a character"),
        ("glossary", '{"a": "b\\ud800"}', "half of a character"),
        ("length_penalty", "NaN", "there is no NaN"),
    ],
)
def test_json_in_the_form_of_a_document_is_held_to_the_same(name: str, value: str, message: str) -> None:
    with DescribedClient(fake_app()) as client:
        fields = {"source": "en", "target": "de", name: value}
        answer = client.post("/api/documents", data=fields, files={"file": ("a.txt", b"A dog.")})
        assert answer.status_code == 400
        assert message in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/translate_file", "/v2/document", "/api/documents"])
def test_a_file_may_have_a_name_that_is_not_utf_8(path: str) -> None:
    """What cannot be shown of the name is replaced; its ending tells the format."""
    fields = {"source": "en", "target": "de"} if path != "/v2/document" else {"source_lang": "en", "target_lang": "de"}
    parts = [f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}'.encode() for name, value in fields.items()]
    parts.append(b'Content-Disposition: form-data; name="file"; filename="\xed\xa0\x80.txt"\r\n\r\nA dog.')
    body = b"".join(b"--limit\r\n" + part + b"\r\n" for part in parts) + b"--limit--\r\n"
    with DescribedClient(fake_app()) as client:
        answer = client.post(path, content=body, headers={"content-type": "multipart/form-data; boundary=limit"})
        assert answer.status_code in (200, 202), answer.text
