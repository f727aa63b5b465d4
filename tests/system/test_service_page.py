"""The service's page in a real browser: it translates by keyboard alone, and asks nobody else for anything."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_service import fake_app
from running_app import running
from transduce.serve.operations.keys import KeyRing, add_key

pytestmark = pytest.mark.slow


@pytest.fixture(params=["light", "dark"])
def page(browser: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A page whose complaints, and requests to other servers, fail the test."""
    context = browser.new_context(color_scheme=request.param, viewport={"width": 390, "height": 800})
    page = context.new_page()
    trouble: list[str] = []
    page.on("console", lambda message: trouble.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda sent: None if sent.url.startswith("http://127.0.0.1:") else trouble.append(sent.url))
    yield page
    context.close()
    assert [each for each in trouble if "401" not in each] == []


def _open(page: Any, address: str) -> None:
    page.goto(address)
    page.wait_for_selector("#target option", state="attached")


def _output(page: Any) -> str:
    page.wait_for_selector("#output:not(:empty)")
    return str(page.inner_text("#output"))


def test_text_is_translated_by_keyboard(page: Any) -> None:
    with running(fake_app()) as address:
        _open(page, address)
        page.keyboard.type("It is a <b>fine</b> day today.")  # the text has the focus
        page.keyboard.press("Tab")
        page.keyboard.type("German")
        assert page.input_value("#target") == "de"
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Control+Enter")
        assert _output(page) == "[de] IT IS A <b>FINE</b> DAY TODAY."
        assert page.inner_text("#status") == "Detected: English."
        page.select_option("#source", "en")
        assert page.evaluate("[...document.getElementById('target').options].map((o) => o.value)") == ["de", "pt-BR"]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_errors_are_shown_and_a_key_can_be_given(page: Any, tmp_path: Path) -> None:
    secret = add_key(tmp_path / "keys.toml", "one")
    with running(fake_app(keys=KeyRing(tmp_path / "keys.toml"))) as address:
        _open(page, address)
        assert not page.is_visible("#key")
        page.select_option("#target", "de")
        page.fill("#text", "It is a fine day today.")
        page.click("button")
        page.wait_for_selector("#key", state="visible")
        page.wait_for_selector("#status:has-text('A key is needed.')")
        page.fill("#key", secret)
        page.keyboard.press("Enter")
        assert _output(page) == "[de] IT IS A FINE DAY TODAY."
