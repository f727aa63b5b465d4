"""The service's page: a text that is not in the language that was chosen for it."""

import pytest

from opened_page import SECONDS, Opened

pytestmark = pytest.mark.slow

GERMAN = "Das Wetter ist heute wirklich schön."
ENGLISH = "The weather is really fine today."
HEBREW = "מזג האוויר יפה מאוד היום"


def test_another_language_is_said_and_can_be_detected_instead(page: Opened) -> None:
    page.page.fill("#text", GERMAN)
    page.text_of("#looks-like", "This looks like German, not English.")
    page.page.click("#detect-instead")
    page.text_of("#detected", "Detected: German")
    assert page.page.input_value("#source") == "auto"
    assert not page.page.is_visible("#looks-like")


@pytest.mark.parametrize("text", [ENGLISH, "Danke.", f"{ENGLISH} {ENGLISH} He said: {GERMAN}"])
def test_a_text_that_may_be_in_the_chosen_language_has_no_hint(page: Opened, text: str) -> None:
    page.page.fill("#text", text)
    page.detailed()
    page.page.wait_for_timeout(300)
    assert not page.page.is_visible("#looks-like")


def test_a_hint_goes_with_its_text(page: Opened) -> None:
    page.page.fill("#text", GERMAN)
    page.text_of("#looks-like", "This looks like German")
    page.page.fill("#text", ENGLISH)
    page.page.locator("#looks-like").wait_for(state="hidden", timeout=SECONDS)


def test_a_text_in_an_unknown_script_is_not_recognised(page: Opened) -> None:
    page.page.fill("#text", HEBREW)  # into German, English alone is served
    page.text_of("#looks-like", "This does not look like English.")
    assert not page.page.is_visible("#detect-instead")
    page.page.select_option("#source", "auto")
    page.text_of("#detected", "Language not recognised: read as English")


def test_the_hint_is_not_charged(page: Opened) -> None:
    sent: list[str] = []
    page.page.on("request", lambda request: sent.append(request.url))
    page.page.fill("#text", GERMAN)
    page.text_of("#looks-like", "This looks like German")
    assert not any("detect" in url for url in sent)
