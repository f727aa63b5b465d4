"""Errors as answers: status, code and headers of each, in each protocol; who is told to come back, and when."""

import json
from typing import Any

import pytest

from transduce.errors import BundleError, ConfigError, DataError, TokenizerError
from transduce.serve.operations.access import (
    AccessError,
    DayLimitError,
    KeyRequiredError,
    MinuteLimitError,
    UnknownKeyError,
    WrongKeysError,
)
from transduce.serve.requests import (
    DeadlineError,
    ModelUnavailableError,
    OverloadedError,
    StoppingError,
    TooLongError,
    UnknownPairError,
)
from transduce.serve.state.database import StateError
from transduce.serve.web import deepl, libretranslate, own
from transduce.serve.web.refusals import Refusal, bad_request, refusal_of


@pytest.mark.parametrize(
    ("refusal", "headers"),
    [
        (bad_request("wrong"), {}),
        (Refusal(503, "unavailable", "full", 7), {"Retry-After": "7"}),
        (Refusal(503, "unavailable", "full", 0), {"Retry-After": "0"}),
        (Refusal(401, "unauthorized", "no key"), {"WWW-Authenticate": "Bearer"}),
        (Refusal(403, "forbidden", "no key"), {}),
        # The rest of the body is not read, so the connection cannot be used again.
        (Refusal(408, "timeout", "slow"), {"Connection": "close"}),
        (Refusal(413, "too_large", "large"), {"Connection": "close"}),
        (Refusal(415, "unsupported", "image"), {}),
        (Refusal(429, "limit", "used up", 3), {"Retry-After": "3"}),
    ],
)
def test_headers_of_a_refusal(refusal: Refusal, headers: dict[str, str]) -> None:
    assert refusal.headers == headers
    for protocol, body in (
        (own, {"error": {"code": refusal.code, "message": str(refusal)}}),
        (deepl, {"message": str(refusal)}),
        (libretranslate, {"error": str(refusal)}),
    ):
        answer = protocol.error_response(refusal)
        assert (answer.status_code, json.loads(bytes(answer.body))) == (refusal.status, body)
        assert (
            headers.items()
            <= {name.title().replace("Www", "WWW"): value for name, value in answer.headers.items()}.items()
        )


@pytest.mark.parametrize(
    ("error", "status", "code", "retry_after"),
    [
        (bad_request("x", "wrong_value"), 400, "wrong_value", None),
        (bad_request("x"), 400, "bad_request", None),
        (UnknownPairError("en", "de"), 400, "unknown_pair", None),
        (TooLongError(40.0, 30.0), 400, "too_long", None),
        (OverloadedError("x", 4), 503, "unavailable", 4),
        (DeadlineError(), 503, "unavailable", 1),
        (StoppingError("x"), 503, "unavailable", 1),
        (ModelUnavailableError("x", 5), 503, "unavailable", 5),
        (StateError(), 503, "unavailable", 5),
        (ConfigError("x"), 400, "bad_request", None),
        (DataError("x"), 400, "bad_request", None),
        (TokenizerError("x"), 400, "bad_request", None),
    ],
)
def test_errors_become_refusals(error: Exception, status: int, code: str, retry_after: int | None) -> None:
    found = refusal_of(error)
    assert found is not None
    assert (found.status, found.code, str(found)) == (status, code, str(error))
    assert found.retry_after_seconds == retry_after


@pytest.mark.parametrize("error", [BundleError("x"), ValueError("x"), KeyError("x")])
def test_what_is_not_the_client_s_error_is_no_refusal(error: Exception) -> None:
    assert refusal_of(error) is None


def test_what_a_request_would_take_is_told() -> None:
    assert str(TooLongError(37.6, 29.9)) == (
        "The request would take about 38 s here, and is cancelled after 30 s. Send fewer texts at once."
    )


@pytest.mark.parametrize(
    ("error", "of_own", "of_deepl", "of_libretranslate"),
    [
        (KeyRequiredError("A key is needed."), 401, 403, 400),
        (UnknownKeyError("This key is not valid."), 401, 403, 403),
        (MinuteLimitError("used up", 8), 429, 429, 429),
        (WrongKeysError("wait", 6), 429, 429, 429),
        (DayLimitError("used up", 9), 429, 456, 429),
    ],
)
def test_each_protocol_has_its_own_status_for_keys(
    error: AccessError, of_own: int, of_deepl: int, of_libretranslate: int
) -> None:
    found: list[Refusal] = [each.access_refusal(error) for each in (own, deepl, libretranslate)]
    assert [each.status for each in found] == [of_own, of_deepl, of_libretranslate]
    seconds: Any = getattr(error, "retry_after_seconds", None)
    assert [each.retry_after_seconds for each in found] == [seconds] * 3
