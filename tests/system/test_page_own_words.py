"""The service's page keeps what the user wrote: over a reload, other languages and words, links, and other edits."""

import pytest

from opened_page import SECONDS, Opened, Pages

pytestmark = pytest.mark.slow
TEXT = "A dog runs. A cat sleeps."
_TRANSLATION = "Ein Hund rennt. Ein Katze schläft."


def _selected(page: Opened, start: int, end: int) -> None:
    page.page.focus("#output")
    page.page.evaluate(f"document.querySelector('#output').setSelectionRange({start}, {end})")


def _paste(page: Opened, text: str) -> None:
    page.page.evaluate("(text) => navigator.clipboard.writeText(text)", text)
    page.page.keyboard.press("Control+v")


def _copied(page: Opened) -> str:
    page.page.click("#copy")
    page.text_of("#said", "Translation copied.")
    return str(page.page.evaluate("navigator.clipboard.readText()"))


def _corrected(page: Opened) -> None:
    """Translates two sentences, and corrects the second word of both."""
    page.translate(TEXT, _TRANSLATION)
    page.type_at(4, "Köter")
    page.suggested(" läuft.")
    page.page.keyboard.press("Tab")
    page.suggested("")
    page.type_at(len("Ein Köter läuft. Ein "), "Mieze")
    page.suggested(" ruht.")


def _reloaded(page: Opened) -> None:
    page.page.reload()
    page.until("document.documentElement.dataset.ready")


def test_corrections_are_there_after_a_reload(page: Opened) -> None:
    _corrected(page)
    page.page.wait_for_timeout(800)  # until the words are linked
    page.page.evaluate("localStorage.setItem('transduce.languages', '[\"de\", \"en\"]')")  # by another tab
    sent: list[str] = []
    page.page.on("request", lambda request: sent.append(request.url))
    _reloaded(page)
    page.translation("Ein Köter läuft. Ein Mieze ruht.")
    page.suggested(" ruht.")
    assert (page.page.input_value("#source"), page.page.input_value("#target")) == ("en", "de")
    page.page.wait_for_timeout(500)
    assert page.page.input_value("#output") == "Ein Köter läuft. Ein Mieze ruht."
    assert not [each for each in sent if "api/translate" in each]  # nothing is charged again
    page.type_at(len("Ein Köter läuft. Ein Mieze"), " s")
    page.page.fill("#text", f"{TEXT} A man runs.")
    page.until("document.querySelector('#output').value.startsWith('Ein Köter läuft. Ein Mieze s')")
    page.until("document.querySelector('#output').value.endsWith(' Ein Mann rennt.')")


def test_corrections_without_room_in_the_browser_are_said_to_be_lost(page: Opened) -> None:
    _corrected(page)
    page.page.evaluate("""() => {
      const set = Storage.prototype.setItem;
      const isWork = (name, value) => name === "transduce.work" && value !== "null";
      Storage.prototype.setItem = function (name, value) {
        if (isWork(name, value)) throw new DOMException("full", "QuotaExceededError");
        set.call(this, name, value);
      };
    }""")
    _reloaded(page)
    page.translation(_TRANSLATION)
    page.text_of("#said", "Your edits of the translation were not kept.")


def test_another_source_language_leaves_corrections_alone(page: Opened) -> None:
    _corrected(page)
    page.page.select_option("#source", "auto")
    page.page.wait_for_timeout(1000)
    assert page.page.input_value("#output") == "Ein Köter läuft. Ein Mieze ruht."
    page.page.select_option("#source", "en")
    page.page.wait_for_timeout(1000)
    assert page.page.input_value("#output") == "Ein Köter läuft. Ein Mieze ruht."
    page.page.select_option("#source", "auto")
    page.type_at(len("Ein Köter läuft. Ein Mieze"), " s")
    page.page.fill("#text", f"{TEXT} A man runs.")
    page.until("document.querySelector('#output').value.startsWith('Ein Köter läuft. Ein Mieze s')")
    page.until("document.querySelector('#output').value.endsWith(' Ein Mann rennt.')")
    page.text_of("#detected", "Detected: English")


def test_another_target_language_is_undone_with_the_corrections(page: Opened) -> None:
    _corrected(page)
    page.page.select_option("#target", "pt-BR")
    page.translation(_TRANSLATION)  # the service of this test knows no Portuguese
    page.page.focus("#output")
    page.page.keyboard.press("Control+z")
    page.translation("Ein Köter läuft. Ein Mieze ruht.")
    assert page.page.input_value("#target") == "de"
    page.page.wait_for_timeout(300)
    assert page.page.input_value("#output") == "Ein Köter läuft. Ein Mieze ruht."
    page.page.keyboard.press("Control+Shift+z")
    page.translation(_TRANSLATION)
    assert page.page.input_value("#target") == "pt-BR"


@pytest.mark.parametrize(
    "written",
    ["Da rennt ein Hund. Die Katze ruht.", "Da rennt ein Hund, und die Katze ruht", "Eins. Zwei. Drei.", "Nur eins."],
)
def test_nothing_is_added_to_what_is_pasted_over_all(page: Opened, written: str) -> None:
    page.translate(TEXT, _TRANSLATION)
    page.page.focus("#output")
    page.page.keyboard.press("Control+a")
    _paste(page, written)
    page.page.wait_for_timeout(700)
    assert page.page.input_value("#output") == written
    assert _copied(page) == written
    _reloaded(page)
    page.page.wait_for_timeout(500)
    assert page.page.input_value("#output") == written


def test_a_sentence_pasted_over_all_belongs_to_its_own(page: Opened) -> None:
    page.translate(TEXT, _TRANSLATION)
    page.page.focus("#output")
    page.page.keyboard.press("Control+a")
    _paste(page, "Da rennt ein Hund. Die Katze ruht.")
    page.page.fill("#text", "A man sees. A cat sleeps.")
    page.until("document.querySelector('#output').value.endsWith(' Die Katze ruht.')")
    page.until("document.querySelector('#output').value.startsWith('Ein Mann')")


@pytest.mark.parametrize("delay_ms", [0, 40])  # faster than suggestions come, and not so
def test_nothing_is_added_to_what_is_typed_over_all(page: Opened, delay_ms: int) -> None:
    page.translate(TEXT, _TRANSLATION)
    page.service.seconds = 0.1
    page.page.focus("#output")
    page.page.keyboard.press("Control+a")
    page.page.keyboard.type("Ein Köter läuft. Ein Mieze ruht.", delay=delay_ms)
    page.page.wait_for_timeout(700)
    assert page.page.input_value("#output") == "Ein Köter läuft. Ein Mieze ruht."


@pytest.mark.parametrize("wait_ms", [0, 1000])  # until details of the suggestion would be there
def test_the_next_sentence_is_suggested_when_one_is_complete(page: Opened, wait_ms: int) -> None:
    page.translate(TEXT, _TRANSLATION)
    page.page.focus("#output")
    page.page.keyboard.press("Control+a")
    page.page.keyboard.type("Ein K")
    page.suggested("öter läuft.")
    page.translation("Ein Köter läuft.")
    page.page.keyboard.press("Tab")
    page.page.keyboard.type(" ")
    page.suggested("Ein Katze schläft.")
    page.page.keyboard.press("Backspace")
    page.translation("Ein Köter läuft.")
    if wait_ms:
        page.page.wait_for_timeout(wait_ms)
        page.translation("Ein Köter läuft.")
    page.page.keyboard.type(" Ein M")
    page.suggested("ieze ruht.")
    page.translation("Ein Köter läuft. Ein Mieze ruht.")


def test_what_is_taken_out_stays_out_and_can_be_brought_back(page: Opened) -> None:
    page.translate(TEXT, _TRANSLATION)
    _selected(page, 4, 9)
    page.page.keyboard.press("Delete")
    page.translation("Ein rennt. Ein Katze schläft.")
    page.page.keyboard.press("Control+a")
    page.page.keyboard.press("Delete")
    page.translation("")
    for name in ("copy", "more-toggle", "undo"):
        assert page.page.is_visible(f"#{name}")
    page.page.click("#undo")
    page.translation("Ein rennt. Ein Katze schläft.")
    page.page.click("#redo")
    page.translation("")
    page.page.click("#more-toggle")
    page.page.click("#discard")
    page.translation(_TRANSLATION)


def test_escape_shortens_nothing(page: Opened) -> None:
    page.translate(TEXT, _TRANSLATION)
    _selected(page, 4, 8)
    page.page.keyboard.type("Köter")
    page.suggested(" läuft.")
    page.page.locator("#accept-hint").wait_for()
    page.page.keyboard.press("Escape")
    page.page.locator("#accept-hint").wait_for(state="hidden")
    page.text_of("#announcer", "Tab leaves the field.")
    assert _copied(page) == "Ein Köter läuft. Ein Katze schläft."
    page.cursor(len("Ein Köter"))
    page.page.keyboard.press("Delete")
    page.page.keyboard.type(" ")
    page.page.locator("#accept-hint").wait_for()  # after an edit, Tab accepts again


def test_escape_while_the_rest_is_awaited_shortens_nothing(page: Opened) -> None:
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.service.seconds = 0.5
    page.type_at(4, "K")
    page.page.keyboard.press("Escape")
    page.translation("Ein Köter läuft.")
    page.page.keyboard.press("Tab")
    page.until("document.activeElement.id !== 'output'")
    assert page.page.input_value("#output") == "Ein Köter läuft."


def test_another_word_leaves_corrections_after_it_alone(page: Opened) -> None:
    page.translate("A dog sees a man. A cat sleeps.", "Ein Hund sieht ein Mann. Ein Katze schläft.")
    _selected(page, len("Ein Hund sieht "), len("Ein Hund sieht ein Mann"))
    page.page.keyboard.type("den Typ")
    page.page.keyboard.press("Tab")
    page.translation("Ein Hund sieht den Typ. Ein Katze schläft.")
    page.page.wait_for_timeout(600)
    page.page.mouse.click(*page.middle_of("#output-mirror", "Hund"))
    page.page.locator("#choices [role=option]", has_text="Köter").click()
    page.translation("Ein Köter sieht den Typ. Ein Katze schläft.")
    page.page.wait_for_timeout(600)
    assert page.page.input_value("#output") == "Ein Köter sieht den Typ. Ein Katze schläft."
    page.until(f"document.querySelector('#output').selectionStart === {len('Ein Köter')}")


def test_nothing_comes_between_two_sentences_that_are_joined(page: Opened) -> None:
    page.translate("A man sees a dog. A cat sleeps.", "Ein Mann sieht ein Hund. Ein Katze schläft.")
    _selected(page, len("Ein Mann "), len("Ein Mann sieht ein Hund. Ein"))
    page.page.keyboard.type("mit")  # for the first sentence, the service would go on: "einen Köter."
    page.page.wait_for_timeout(700)
    assert page.page.input_value("#output") == "Ein Mann mit Katze schläft."
    assert _copied(page) == "Ein Mann mit Katze schläft."


def test_a_line_break_is_typed_with_shift(page: Opened) -> None:
    page.translate(TEXT, _TRANSLATION)
    page.cursor(len("Ein Hund rennt."))
    page.page.keyboard.press("Shift+Enter")
    page.translation("Ein Hund rennt.\nEin Katze schläft.")
    page.cursor(len("Ein Hund"))
    page.page.keyboard.press("Shift+Enter")
    page.translation("Ein Hund\n rennt.\nEin Katze schläft.")
    page.page.keyboard.type("da")
    page.page.wait_for_timeout(500)
    assert page.page.input_value("#output").startswith("Ein Hund\nda")
    page.page.click("#more-toggle")
    page.page.click("#discard")
    page.translation(_TRANSLATION)


@pytest.mark.parametrize("undo", ["button", "key"])
def test_a_link_in_a_tab_with_work_is_undone(page: Opened, undo: str) -> None:
    _corrected(page)
    page.page.goto(f"{page.address}/#source=de&target=en&text=Ein Mann.")
    page.value("#text", "Ein Mann.")
    page.text_of("#said", "The link replaced your text. Undo brings it back.")
    if undo == "button":
        page.page.click("#undo")
    else:
        page.page.focus("#text")
        page.page.keyboard.press("Control+z")
    page.value("#text", TEXT)
    page.translation("Ein Köter läuft. Ein Mieze ruht.")
    assert page.page.input_value("#source") == "en"


def test_a_link_that_is_loaded_over_work_is_undone(page: Opened) -> None:
    _corrected(page)
    page.page.goto("about:blank")
    page.page.goto(f"{page.address}/#source=de&target=en&text=Ein Mann.")
    page.value("#text", "Ein Mann.")
    page.page.click("#undo")
    page.value("#text", TEXT)
    page.translation("Ein Köter läuft. Ein Mieze ruht.")


def test_what_is_written_on_from_a_link_is_there_after_a_reload(pages: Pages) -> None:
    with pages.opened(fragment="/#source=en&target=de&text=A dog runs.") as made:
        made.translation("Ein Hund rennt.")
        _reloaded(made)
        made.translation("Ein Hund rennt.")
        made.page.focus("#text")
        made.page.keyboard.press("End")
        made.page.keyboard.type(" A cat.")
        made.translation("Ein Hund rennt. Ein Katze.")
        _reloaded(made)
        made.value("#text", "A dog runs. A cat.")


def test_a_cleared_text_comes_back_with_its_corrections(page: Opened) -> None:
    _corrected(page)
    page.page.click("#clear")
    page.translation("")
    page.page.keyboard.press("Control+z")
    page.value("#text", TEXT)
    page.translation("Ein Köter läuft. Ein Mieze ruht.")
    page.page.locator("#undo").wait_for(timeout=SECONDS)


def test_what_was_undone_is_there_after_a_reload(page: Opened) -> None:
    """The text in place of the cleared one, and no link in the address."""
    page.translate(TEXT, _TRANSLATION)
    page.page.click("#clear")
    page.page.click("#undo")
    page.value("#text", TEXT)
    _reloaded(page)
    page.value("#text", TEXT)
    page.page.goto(f"{page.address}/#source=de&target=en&text=Ein Mann.")
    page.value("#text", "Ein Mann.")
    page.page.click("#undo")
    page.value("#text", TEXT)
    _reloaded(page)
    page.value("#text", TEXT)


def test_undo_brings_the_detected_language_back(page: Opened) -> None:
    page.page.select_option("#source", "auto")
    page.translate(TEXT, _TRANSLATION)
    page.text_of("#detected", "Detected: English")
    page.page.goto(f"{page.address}/#source=auto&target=en&text=Das ist ein Mann.")
    page.text_of("#detected", "Detected: German")
    page.page.route("**/*", lambda route: route.abort())  # nothing is detected again
    page.page.click("#undo")
    page.value("#text", TEXT)
    page.text_of("#detected", "Detected: English")


def test_an_edit_does_not_take_away_a_link_that_is_not_opened_yet(page: Opened) -> None:
    """The browser tells of a new address a moment after it is there: here a key comes in between."""
    _corrected(page)
    page.page.evaluate(
        "location.hash = 'source=de&target=en&text=Ein%20Mann.';"
        "document.querySelector('#text').dispatchEvent(new Event('input', { bubbles: true }))"
    )
    page.value("#text", "Ein Mann.")
