"""A client that compares each answer with what the service's OpenAPI document says about it."""

import functools
import json
import re
from importlib.resources import files
from typing import Any

import httpx2
import jsonschema_rs
from starlette.applications import Starlette
from starlette.testclient import TestClient


@functools.cache
def document() -> dict[str, Any]:
    """Returns the OpenAPI document."""
    text = (files("transduce.serve.web") / "openapi.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def require_described(method: str, path: str, status: int, content_type: str, body: bytes) -> None:
    """Raises AssertionError where an answer is not what the document has for its method, path and status."""
    operation = _operation(method, path)
    if operation is None:
        assert status in (204, 404, 405), f"{method} {path} is not described, and answered {status}"
        return
    responses = operation["responses"]
    assert str(status) in responses, f"{method} {path}: status {status} is not described: {body[:300]!r}"
    response = responses[str(status)]
    if "$ref" in response:
        response = document()["components"]["responses"][response["$ref"].rpartition("/")[2]]
    content = response.get("content")
    if content is None:
        assert body == b""
        return
    kind = content_type.partition(";")[0]
    assert kind in content, f"{method} {path}: content type {kind} is not described"
    if kind == "text/event-stream":
        _require_described_events(body.decode())
    if kind == "application/json":
        _require_valid(content[kind]["schema"], json.loads(body), f"{method} {path}")


def events_of(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Returns the names and the data of the events of a stream."""
    found = []
    for block in text.split("\n\n")[:-1]:
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def _require_described_events(text: str) -> None:
    schemas = {"sentence": "schemas/StreamedSentence", "done": "schemas/StreamedText"}
    error = document()["components"]["responses"]["Error"]["content"]["application/json"]["schema"]
    for name, data in events_of(text):
        _require_valid({"$ref": f"#/components/{schemas[name]}"} if name in schemas else error, data, f"event {name}")


def _require_valid(schema: dict[str, Any], value: Any, where: str) -> None:
    problems = [str(each) for each in _validator(json.dumps(schema)).iter_errors(value)]
    assert not problems, f"{where}: {problems[0]}"


def _operation(method: str, path: str) -> dict[str, Any] | None:
    for template, operations in document()["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            return operations.get(method.lower().replace("head", "get"))
    return None


@functools.cache
def _validator(schema: str) -> Any:
    return jsonschema_rs.Draft202012Validator(json.loads(schema) | {"components": document()["components"]})


class DescribedClient(TestClient):
    """Checks each answer by `require_described`."""

    def __init__(self, app: Starlette) -> None:
        super().__init__(app, raise_server_exceptions=False)

    def request(self, method: str, url: Any, **options: Any) -> httpx2.Response:
        """Sends a request and returns the answer, which is as described."""
        answer = super().request(method, url, **options)
        body = b"" if method == "HEAD" else answer.content
        if method not in ("HEAD", "OPTIONS"):
            content_type = answer.headers.get("content-type", "")
            require_described(method, answer.request.url.path, answer.status_code, content_type, body)
        return answer
