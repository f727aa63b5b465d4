"""Requests that schemathesis makes from the OpenAPI document: no server error, no answer that is not described."""

import pytest

from fake_service import fake_app, read_documents_here
from running_app import running
from serve_conformance import conformance


@pytest.mark.slow
def test_no_request_of_hundreds_breaks_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    read_documents_here(monkeypatch)
    with running(fake_app()) as address:
        found = conformance(address, cases=500, max_examples=6)
    assert found["failures"] == []
    assert found["cases"] >= 500
    assert found["operations"] == 46
    assert set(found["phases"].values()) == {"success"}
