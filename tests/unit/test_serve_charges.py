"""What a key is charged with: the characters that the service has to work on, in each protocol."""

from pathlib import Path
from typing import Any

import pytest

from described_answers import DescribedClient
from fake_service import fake_app
from transduce.serve.operations.keys import KeyRing, add_key

_PAIR = {"source": "en", "target": "de"}
_TEXT = {"text": "A dog.", **_PAIR}


@pytest.mark.parametrize(
    ("path", "body", "characters"),
    [
        ("/api/translate", _TEXT, 6),
        ("/api/translate", _TEXT | {"stream": True}, 6),
        ("/api/translate", _TEXT | {"source": "de"}, 6),
        ("/api/translate", _TEXT | {"source": "de", "stream": True}, 6),
        ("/api/translate", _TEXT | {"source": "auto"}, 6),
        ("/api/translate", _TEXT | {"prefix": "Ein "}, 6 + 4),
        ("/api/translate", _TEXT | {"prefix": "Ein ", "stream": True}, 6 + 4),
        ("/api/translate", _TEXT | {"glossary": {"dog": ["Hund", "Köter"]}}, 6 + 3 + 4 + 5),
        ("/api/translate", _TEXT | {"required": [["Hund", "Köter"]], "forbidden": ["Katze"]}, 6 + 4 + 5 + 5),
        ("/api/translate", {"text": ["A dog.", "A cat."], **_PAIR, "forbidden": ["Maus"]}, 12 + 4),
        ("/api/translate", {"text": ["A dog.", "A cat."], **_PAIR, "prefix": ["Ein", ""]}, 12 + 3),
        ("/api/alternatives", _TEXT | {"prefix": "Ein "}, 6 + 4),
        ("/api/detect", {"text": ["A dog.", "a" * 5000]}, 6 + 2000),
        ("/translate", {"q": ["A dog.", "👍"], **_PAIR}, 7),
        ("/detect", {"q": "A dog."}, 6),
        ("/detect", {"q": ["A dog.", "a" * 5000]}, 6 + 2000),
        ("/v2/translate", {"text": ["A dog."], "target_lang": "DE"}, 6),
        ("/v2/translate", {"text": ["<x>A</x>"], "target_lang": "DE", "tag_handling": "xml", "ignore_tags": ["x"]}, 8),
        ("/v2/glossaries", {"name": "pets", "entries": "dog\tHund", "source_lang": "en", "target_lang": "de"}, 3 + 4),
        ("/api/translate", _TEXT | {"target": "xx"}, 0),
        ("/v2/glossaries", {"name": "pets", "entries": "dog", "source_lang": "en", "target_lang": "de"}, 0),
    ],
)
def test_a_key_is_charged_with_what_is_worked_on(
    tmp_path: Path, path: str, body: dict[str, Any], characters: int
) -> None:
    secret = add_key(tmp_path / "keys.toml", "one")
    scheme = "Bearer" if path.startswith("/api/") else "DeepL-Auth-Key"
    with DescribedClient(fake_app(keys=KeyRing(tmp_path / "keys.toml"))) as client:
        headers = {"authorization": f"{scheme} {secret}"}
        fields = body if path.startswith(("/api/", "/v2/")) else body | {"api_key": secret}
        answer = client.post(path, json=fields, headers=headers)
        assert answer.status_code == (400 if characters == 0 else 201 if path == "/v2/glossaries" else 200)
        usage = client.get("/v2/usage", headers={"authorization": f"DeepL-Auth-Key {secret}"}).json()
        assert usage["character_count"] == characters


@pytest.mark.parametrize("path", ["/detect", "/api/detect", "/v2/glossaries"])
def test_whoever_has_no_characters_left_gets_nothing_done(tmp_path: Path, path: str) -> None:
    secret = add_key(tmp_path / "keys.toml", "one", per_minute=1)
    scheme = "Bearer" if path.startswith("/api/") else "DeepL-Auth-Key"
    body = {"api_key": secret, "q": "A dog."} if path == "/detect" else {"text": "A dog."}
    if path == "/v2/glossaries":
        body = {"name": "pets", "entries": "dog\tHund", "source_lang": "en", "target_lang": "de"}
    with DescribedClient(fake_app(keys=KeyRing(tmp_path / "keys.toml"))) as client:
        headers = {"authorization": f"{scheme} {secret}"}
        assert client.post(path, json=body, headers=headers).status_code in (200, 201)
        assert client.post(path, json=body, headers=headers).status_code == 429
