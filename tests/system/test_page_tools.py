"""The service's page: glossary, confidence, notices, history, links, copying, keys, documents and attention."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from fake_service import read_documents_here
from opened_page import SECONDS, Opened, Pages
from transduce import Attention
from transduce.errors import DataError
from transduce.serve.operations.keys import KeyRing, add_key
from transduce.serve.requests import OverloadedError

pytestmark = pytest.mark.slow


def _copied(page: Opened, button: str) -> str:
    if button != "#copy":
        page.page.click("#more-toggle")
    page.page.click(button)
    page.text_of("#said", "copied.")
    return str(page.page.evaluate("navigator.clipboard.readText()"))


def test_unsure_words_are_shaded_until_that_is_turned_off(page: Opened) -> None:
    page.translate("A cat sleeps.", "Ein Katze schläft.")
    unsure = page.page.locator("#output-mirror.shaded .unsure")
    unsure.wait_for()
    assert unsure.all_inner_texts() == ["schläft"]
    page.page.click("#more-toggle")
    page.page.uncheck("#shading")
    page.until("!document.querySelector('#output-mirror').classList.contains('shaded')")
    page.page.reload()
    page.until("document.documentElement.dataset.ready")
    assert not page.page.is_checked("#shading")


def test_the_confidence_says_whether_it_is_calibrated(page: Opened) -> None:
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.text_of("#confidence-figure", "The model is fairly sure")
    page.page.click("#confidence-figure")
    page.text_of("#confidence-note", "was not compared with translations whose quality is known")
    assert page.page.get_attribute("#confidence-figure", "aria-expanded") == "true"
    page.page.keyboard.press("Escape")
    page.page.locator("#confidence-note").wait_for(state="hidden")


def test_a_calibrated_confidence_is_told_in_plain_words(page: Opened) -> None:
    page.service.calibrated = True
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.text_of("#confidence-figure", "Confidence 72 %, checked on data")
    page.page.click("#confidence-figure")
    page.text_of("#confidence-note", "compared with translations whose quality is known")


def test_the_confidence_is_of_what_the_model_wrote(page: Opened) -> None:
    page.translate("A dog runs. A cat sleeps.", "Ein Hund rennt. Ein Katze schläft.")
    page.cursor(4)
    page.page.keyboard.type("K")
    page.suggested("öter läuft.")
    page.page.click("#confidence-figure")
    page.text_of("#confidence-note", "Sentences that you edited do not count.")
    page.page.click("#more-toggle")
    page.page.click("#discard")
    page.translation("Ein Hund rennt. Ein Katze schläft.")
    page.detailed()
    page.page.click("#confidence-figure")
    page.page.fill("#text", "A dog runs.")
    page.translation("Ein Hund rennt.")
    page.detailed()
    page.page.evaluate("document.querySelector('#output').focus()")
    page.page.evaluate("document.querySelector('#output').setSelectionRange(4, 9)")
    page.page.keyboard.press("Delete")
    page.translation("Ein rennt.")
    page.until("document.querySelector('#confidence-figure').hidden")
    page.page.keyboard.press("Control+z")
    page.translation("Ein Hund rennt.")
    page.detailed()


def test_words_of_the_user_are_not_shaded(page: Opened) -> None:
    page.service.probabilities = {"Ein": 0.4, "Köter": 0.2, "läuft": 0.3}
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.cursor(4)
    page.page.keyboard.type("K")
    page.suggested("öter läuft.")
    unsure = "[...document.querySelectorAll('#output-mirror .unsure')].map((each) => each.textContent).join(' ')"
    page.until(f"{unsure} === 'Ein läuft'")
    page.page.keyboard.press("Tab")
    page.suggested("")
    page.until(f"{unsure} === 'Ein'")
    page.page.keyboard.press("F8")
    page.text_of("#announcer", "Ein: 40 %. Unsure word 1 of 1.")


def test_the_least_sure_word_is_gone_to_first(page: Opened) -> None:
    page.service.probabilities = {"Katze": 0.45, "schläft": 0.38}
    page.translate("A cat sleeps. A dog runs.", "Ein Katze schläft. Ein Hund rennt.")
    page.page.locator("#output-mirror .unsure").first.wait_for()
    shades = page.page.evaluate(
        "[...document.querySelectorAll('.unsure')].map((e) => parseInt(e.style.getPropertyValue('--doubt')))"
    )
    assert shades[0] < shades[1]
    page.page.keyboard.press("F8")
    page.text_of("#announcer", "schläft: 38 %. Unsure word 1 of 2.")
    assert page.page.evaluate("document.querySelector('#output').selectionStart") == len("Ein Katze ")
    page.page.click("#unsure")
    page.text_of("#announcer", "Katze: 45 %. Unsure word 2 of 2.")
    page.page.keyboard.press("F8")
    page.text_of("#announcer", "schläft: 38 %. Unsure word 1 of 2.")


def test_screen_readers_are_told_what_has_arrived(page: Opened) -> None:
    page.service.warnings = ("repeats itself",)
    page.service.forces = True
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.text_of("#announcer", "Translated. The model is fairly sure. The translation repeats itself.")
    _add_term(page, "dog", "Dackel")
    page.text_of("#announcer", "Term dog: used – please check: the model expected another word.")


def test_a_cleared_text_can_be_brought_back(page: Opened) -> None:
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.page.click("#clear")
    page.translation("")
    page.page.keyboard.press("Control+z")
    page.value("#text", "A dog runs.")
    page.translation("Ein Hund rennt.")


def test_tools_come_with_the_text_and_stay_in_view(page: Opened) -> None:
    assert page.page.inner_text(".about") == "Translates text and documents on this server. You can correct every word."
    assert not page.page.is_visible("#copy")
    page.page.fill("#text", "A dog runs. A cat sleeps.\n" * 60)
    page.translation(("Ein Hund rennt. Ein Katze schläft.\n" * 60).rstrip())
    height = page.page.viewport_size["height"]
    assert page.page.evaluate("document.documentElement.scrollHeight") > 2 * height
    box = page.page.locator("#copy").bounding_box()
    assert 0 < box["y"] < height - box["height"]
    assert not page.page.is_visible("#copy-link")
    page.page.click("#more-toggle")
    assert page.page.is_visible("#copy-link")
    page.page.keyboard.press("Escape")
    page.page.locator("#more").wait_for(state="hidden")
    page.until("document.activeElement.id === 'more-toggle'")
    page.page.fill("#text", "")
    page.page.locator("#actions").wait_for(state="hidden")


def test_a_link_carries_the_glossary_and_not_the_edits(pages: Pages, page: Opened) -> None:
    page.translate("A dog runs.", "Ein Hund rennt.")
    _add_term(page, "dog", "Dackel")
    page.translation("Ein Dackel rennt.")
    page.cursor(len("Ein Dackel "))
    page.page.keyboard.type("lä")
    page.suggested("uft.")
    link = _copied(page, "#copy-link")
    page.text_of("#said", "Link copied. Your edits are not in it.")
    _copied(page, "#copy-curl")
    page.text_of("#said", "Command copied. Your edits are not in it.")
    with pages.opened(fragment=link.removeprefix(page.address)) as other:
        other.translation("Ein Dackel rennt.")
        assert "Dackel" in other.page.locator("#terms").inner_text()  # what is applied is shown
    page.page.reload()
    page.translation("Ein Dackel läuft.")  # here they stay


def test_terms_of_a_link_are_added_only_if_the_user_wants_them(page: Opened) -> None:
    page.translate("A cat sleeps.", "Ein Katze schläft.")
    _add_term(page, "cat", "Mieze")
    page.translation("Ein Mieze schläft.")
    terms = quote('[["dog",["Dackel"]],["cat",["Mieze"]]]')
    for answer, dog in (("#offer-leave", "Hund"), ("#offer-add", "Dackel")):
        page.page.evaluate(f"location.hash = 'source=en&target=de&text=A dog sees a cat.&glossary={terms}&turn={dog}'")
        page.text_of("#offer-text", "The link has terms: dog = Dackel.")
        page.translation("Ein Hund sieht ein Mieze.")
        page.page.click(answer)
        page.page.locator("#offer").wait_for(state="hidden")
        page.translation(f"Ein {dog} sieht ein Mieze.")
    page.page.reload()
    page.text_of("#glossary-toggle", "Glossary (2)")


def test_a_glossary_tells_which_terms_were_honoured(page: Opened) -> None:
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.page.click("#glossary-toggle")
    page.page.keyboard.type("dog")  # the first field has the focus
    page.page.keyboard.press("Tab")
    page.page.keyboard.type("Dackel | Dogge")
    page.page.keyboard.press("Enter")
    page.translation("Ein Dackel rennt.")
    page.text_of("#terms .honoured", "used")
    page.page.keyboard.type("horse")
    page.page.keyboard.press("Tab")
    page.page.keyboard.type("Pferd")
    page.page.keyboard.press("Enter")
    page.text_of("#terms tr:nth-child(2)", "does not occur")
    page.page.click("#terms tr:first-child button")
    page.translation("Ein Hund rennt.")


def test_a_forced_term_is_to_be_checked(page: Opened) -> None:
    page.service.forces = True
    page.translate("A dog runs.", "Ein Hund rennt.")
    _add_term(page, "dog", "Dackel")
    page.text_of("#terms .check", "used – please check")
    page.text_of("#notices", "The term “Dackel” was used, though")
    page.translation("Ein Dackel rennt.")
    page.page.focus("#output")
    page.page.evaluate("document.querySelector('#output').setSelectionRange(4, 11)")
    page.page.keyboard.press("Delete")
    page.translation("Ein rennt.")
    page.text_of("#terms .missed", "not used – you edited the sentence")
    page.text_of("#notices", "The term “Dackel” was not used: you edited the sentence.")
    assert "was used" not in page.page.inner_text("#notices")
    page.page.keyboard.type("Dackel ")
    page.text_of("#terms .honoured", "used")  # the user saw a place for it
    page.until("document.querySelector('#notices').textContent === ''")


def test_a_term_after_the_end_of_the_sentence_is_told(page: Opened) -> None:
    page.service.forces = page.service.appends = True
    page.translate("A dog runs.", "Ein Hund rennt.")
    _add_term(page, "dog", "Dackel")
    page.translation("Ein Hund rennt. Dackel")
    page.text_of("#terms .missed", "used – added after the sentence: the model saw no place")
    page.text_of("#notices", "The term “Dackel” was added after the sentence: the model saw no place for it.")


def test_notices_of_a_term_leave_with_it(page: Opened) -> None:
    page.service.forces = True
    page.translate("A dog runs. A cat sleeps.", "Ein Hund rennt. Ein Katze schläft.")
    _add_term(page, "dog", "Dackel")
    _add_term(page, "cat", "Kater")
    page.translation("Ein Dackel rennt. Ein Kater schläft.")
    page.cursor(len("Ein Dackel "))
    page.page.keyboard.type("l")
    page.suggested("äuft.")
    page.text_of("#notices", "The term “Dackel” was used, though")
    page.page.click("[aria-label='Remove dog']")
    page.until("!document.querySelector('#notices').textContent.includes('Dackel')")
    page.text_of("#notices", "The term “Kater” was used, though")
    page.text_of("#terms .check", "used – please check")
    page.page.click("[aria-label='Remove cat']")
    page.translation("Ein Dackel läuft. Ein Katze schläft.")
    page.until("!document.querySelector('#notices').textContent.includes('was used')")


def test_a_term_of_an_edited_sentence_is_checked_too(page: Opened) -> None:
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.cursor(4)
    page.page.keyboard.type("K")
    page.suggested("öter läuft.")
    page.page.keyboard.press("Tab")
    page.suggested("")
    _add_term(page, "dog", "Dackel")
    page.text_of("#terms .missed", "not used – you edited the sentence")
    _add_term(page, "runs", "läuft")
    page.text_of("#terms .honoured", "used")
    page.translation("Ein Köter läuft.")


def test_a_term_that_replaces_another_says_so(page: Opened) -> None:
    page.translate("A dog runs.", "Ein Hund rennt.")
    _add_term(page, "dog", "Dackel")
    page.translation("Ein Dackel rennt.")
    assert page.page.inner_text("#term-said") == ""
    _add_term(page, "dog", "Dogge")
    page.text_of("#term-said", "“dog” was Dackel before.")


def test_the_glossary_is_near_its_button(page: Opened) -> None:
    page.translate("A dog runs.\n" * 60, "Ein Hund rennt.\n" * 59 + "Ein Hund rennt.")
    page.page.click("#glossary-toggle")
    button, panel = (page.page.locator(each).bounding_box() for each in ("#glossary-toggle", "#glossary"))
    assert 0 < panel["y"] - button["y"] < 100


def test_a_notice_goes_to_its_sentences_and_is_not_repeated(page: Opened) -> None:
    page.service.forces = True
    page.translate(
        "A man sees.\n" * 40 + "A dog runs. A cat sleeps.",
        "Ein Mann sieht.\n" * 40 + "Ein Hund rennt. Ein Katze schläft.",
    )
    _add_term(page, "dog", "Dackel")
    page.text_of("#notices", "“A dog runs.”: The term “Dackel” was used, though")
    page.page.click("#notices button")
    at = "document.querySelector('#output').selectionStart"
    page.until(f"{at} === {len('Ein Mann sieht.|') * 40}")
    top = "document.querySelector('#output-mirror .paired')?.getBoundingClientRect().y"
    page.until(f"{top} > 0 && {top} < window.innerHeight")
    _add_term(page, "man", "Kerl")
    page.text_of("#notices", "40 sentences: The term “Kerl” was used, though")
    assert page.page.locator("#notices li:not(.plainly)").count() == 2
    for line in (0, 1):
        page.page.click("#notices button:has-text('40 sentences')")
        page.until(f"{at} === {len('Ein Kerl sieht.|') * line}")


def test_a_list_without_another_word_says_so(page: Opened) -> None:
    page.translate("Rex runs.", "Rex rennt.")
    page.cursor(1)
    page.page.keyboard.press("Enter")
    page.text_of("#choices", "No other word is likely here.")


def _add_term(page: Opened, term: str, translation: str) -> None:
    if not page.page.is_visible("#glossary"):
        page.page.click("#glossary-toggle")
    page.page.fill("#term-source", term)
    page.page.fill("#term-target", translation)
    page.page.click("#term-form button")


def test_what_happened_to_a_text_is_said_in_plain_words(page: Opened) -> None:
    page.service.warnings = ("repeats itself", "something new.")
    page.page.fill("#text", "A dog runs.")
    page.text_of("#notices", "The translation repeats itself. It was searched again")
    page.text_of("#notices", "Something new.")
    page.service.warnings = ()
    page.page.select_option("#source", "auto")
    page.page.fill("#text", "Das Wetter ist heute schön, und wir gehen in den Garten.")
    page.text_of("#notices", "The text is in German already")


def test_languages_are_detected_and_swapped(page: Opened) -> None:
    page.page.select_option("#source", "auto")
    page.page.fill("#text", "A man sees a dog on the road.")
    page.text_of("#detected", "Detected: English")
    page.translation("Ein Mann sieht ein Hund on the road.")
    page.page.click("#swap")
    page.value("#text", "Ein Mann sieht ein Hund on the road.")
    assert (page.page.input_value("#source"), page.page.input_value("#target")) == ("de", "en")


def test_a_script_from_right_to_left(page: Opened) -> None:
    page.page.select_option("#source", "he")
    page.page.fill("#text", "שלום עולם")
    page.translation("שלום עולם")
    _written_from(page, "right", "שלום")
    page.page.select_option("#source", "en")
    page.page.fill("#text", "مرحبا 123")  # in whatever language it is said to be
    page.translation("مرحبا 123")
    _written_from(page, "right", "مرحبا")
    page.page.fill("#text", "A dog runs.")
    page.translation("Ein Hund rennt.")
    _written_from(page, "left", "dog")
    assert page.page.get_attribute("#output", "lang") == "de"
    page.page.select_option("#target", "pt-BR")
    assert page.page.get_attribute("#output", "lang") == "pt-BR"


def _written_from(page: Opened, side: str, word: str) -> None:
    """Checks where a text begins, by the place of a word and by what the browser says of both fields."""
    x, _ = page.middle_of("#text-mirror", word)
    field = page.page.locator("#text").bounding_box()
    assert (x > field["x"] + field["width"] / 2) == (side == "right")
    direction = "[...document.querySelectorAll('textarea')].map((each) => getComputedStyle(each).direction).join()"
    assert page.page.evaluate(direction) == ("rtl,rtl" if side == "right" else "ltr,ltr")


def test_a_link_carries_the_text_and_no_server_sees_it(pages: Pages, page: Opened) -> None:
    page.translate("A dog & a cat?", "Ein Hund & ein Katze?")
    link = _copied(page, "#copy-link")
    assert link.startswith(f"{page.address}/#")
    with pages.opened(fragment=link.removeprefix(page.address)) as other:
        other.value("#text", "A dog & a cat?")
        other.translation("Ein Hund & ein Katze?")
        assert other.page.input_value("#target") == "de"


def test_a_link_runs_no_script(pages: Pages) -> None:
    text = '<img src=x onerror="document.title=1"> dog'
    with pages.opened(fragment=f"/#source=en&target=de&text={quote(text)}") as made:
        made.until("document.querySelector('#output').value.includes('Hund')")
        assert made.page.title() == "Transduce"
        assert made.page.locator(".mirror img").count() == 0


def test_the_translation_and_the_request_are_copied(page: Opened) -> None:
    page.translate("A dog's cat.", "Ein Hund's Katze.")
    assert _copied(page, "#copy") == "Ein Hund's Katze."
    page.until("document.querySelector('#said').textContent === ''")
    command = shlex.split(_copied(page, "#copy-curl"))
    assert command[:2] == ["curl", f"{page.address}/api/translate"]
    assert json.loads(command[-1]) == {"text": "A dog's cat.", "source": "en", "target": "de"}


def test_history_is_off_until_it_is_turned_on(page: Opened) -> None:
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.page.click("#history-toggle")
    assert not page.page.is_checked("#history-on")
    assert page.page.evaluate("Object.keys(localStorage).join()") == "transduce.languages"
    page.page.check("#history-on")
    page.text_of("#entries", "Ein Hund rennt.")
    page.page.fill("#text", "")
    page.translation("")
    page.page.click("#entries button")
    page.translation("Ein Hund rennt.")
    page.page.uncheck("#history-on")
    page.until("document.querySelector('#entries').children.length === 0")
    assert page.page.evaluate("localStorage.getItem('transduce.history')") is None


def test_a_service_that_needs_a_key(pages: Pages, tmp_path: Path) -> None:
    secret = add_key(tmp_path / "keys.toml", "one")
    with pages.opened(keys=KeyRing(tmp_path / "keys.toml")) as made:
        assert not made.page.is_visible("#key")
        made.page.select_option("#source", "en")
        made.page.select_option("#target", "de")
        made.page.fill("#text", "A dog runs.")
        made.page.locator("#key").wait_for(timeout=SECONDS)
        made.text_of("#status", "A key is needed: enter it at the top of the page.")
        made.page.fill("#key", "wrong")
        made.page.keyboard.press("Enter")
        made.text_of("#status", "This key is not valid: enter another one at the top of the page.")
        made.page.fill("#key", secret)
        made.page.keyboard.press("Enter")
        made.translation("Ein Hund rennt.")
        assert secret not in _copied(made, "#copy-curl")


@pytest.mark.parametrize("pause_ms", [400, 700])  # as one hesitates, and thinks about each word
def test_typing_is_charged_at_most_twice(pages: Pages, tmp_path: Path, pause_ms: int) -> None:
    secret = add_key(tmp_path / "keys.toml", "one")
    text = "A man sees a dog. A dog runs, and a cat sleeps."
    with pages.opened(keys=KeyRing(tmp_path / "keys.toml")) as made:
        made.page.evaluate(f"sessionStorage.setItem('transduce.key', {json.dumps(json.dumps(secret))})")
        made.page.reload()
        made.until("document.documentElement.dataset.ready")
        made.page.select_option("#source", "en")
        made.page.select_option("#target", "de")
        made.page.focus("#text")
        for word in text.split(" "):
            made.page.keyboard.type(f"{word} ", delay=20)
            made.page.wait_for_timeout(pause_ms)
        made.translation("Ein Mann sieht ein Hund. Ein Hund rennt, and ein Katze schläft.")
        made.detailed()
        made.page.wait_for_timeout(1000)
        num_typed = len(text) + 1  # with a space after the last word
        assert len(text) - text.count(" ") <= made.service.characters <= 2 * num_typed
        made.service.characters = 0
        made.type_at(4, "Kerl")
        made.suggested(" erblickt einen Köter.")
        made.detailed()
        made.page.wait_for_timeout(1000)
        assert made.service.characters == len("A man sees a dog.") + len("Ein Kerl")


def test_a_slow_service_is_said_to_be_slow(page: Opened) -> None:
    page.service.seconds = 3.0
    page.page.fill("#text", "A dog runs.")
    page.text_of("#status", "The service is slow.")
    page.translation("Ein Hund rennt.")
    page.until("document.querySelector('#status').textContent === ''")


def test_a_failing_service_loses_nothing(page: Opened) -> None:
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.service.error = OverloadedError("Too much work waits already. Try again later.")
    page.page.fill("#text", "A dog runs. A cat sleeps.")
    page.text_of("#status", "Too much work waits already. Try again later. Your text is kept.")
    assert page.page.input_value("#text") == "A dog runs. A cat sleeps."
    assert page.page.input_value("#output") == "Ein Hund rennt."
    page.service.error = None
    page.translation("Ein Hund rennt. Ein Katze schläft.")  # by itself


def test_the_next_attempt_need_not_be_waited_for(page: Opened) -> None:
    requests: list[str] = []

    def fail(route: Any) -> None:
        requests.append(route.request.url)
        route.fulfill(status=503, headers={"Retry-After": "600"})

    page.page.route("**/api/translate", fail)
    page.page.fill("#text", "A dog runs.")
    page.text_of("#status", "The service failed (503).")
    page.page.wait_for_timeout(500)  # longer than a pause in typing, which sends requests too
    assert len(requests) == 1
    page.page.unroute("**/api/translate")
    page.page.click("#retry")
    page.translation("Ein Hund rennt.")


def test_the_page_goes_on_when_the_connection_is_back(page: Opened) -> None:
    page.page.context.set_offline(True)
    page.page.focus("#text")
    page.page.keyboard.type("A dog runs.", delay=60)
    page.text_of("#status", "The service cannot be reached.")
    assert re.fullmatch(r"Try now \([1-8] s\)", page.page.inner_text("#retry"))  # key strokes make it no longer
    page.page.evaluate("window.setTimeout = () => 0")  # nothing happens by itself any more
    page.page.context.set_offline(False)
    page.translation("Ein Hund rennt.")


def test_a_reloaded_page_has_the_text(page: Opened) -> None:
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.page.reload()
    page.translation("Ein Hund rennt.")
    assert page.page.input_value("#text") == "A dog runs."


def test_documents_are_translated_and_downloaded(page: Opened, tmp_path: Path) -> None:
    (tmp_path / "story.txt").write_text("A dog runs.\n", encoding="utf-8")
    page.page.set_input_files("#file", tmp_path / "story.txt")
    page.text_of("#jobs", "Done.")
    page.page.reload()
    page.text_of("#jobs", "Done.")
    with page.page.expect_download(timeout=SECONDS) as download:
        page.page.click("#jobs button:has-text('Download')")
    assert Path(download.value.path()).read_text(encoding="utf-8") == "Ein Hund rennt.\n"
    page.page.click("#jobs button:has-text('Remove')")
    page.until("document.querySelector('#jobs').children.length === 0")


def test_a_document_is_dropped_and_cancelled(page: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    read_documents_here(monkeypatch)
    page.service.seconds = 600.0
    page.page.evaluate("""() => {
      const data = new DataTransfer();
      data.items.add(new File(["A dog runs."], "dropped.txt"));
      document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    }""")
    page.page.locator("#jobs progress").wait_for(timeout=SECONDS)
    page.page.click("#jobs button:has-text('Cancel')")
    page.until("document.querySelector('#jobs').children.length === 0")


def test_a_document_that_cannot_be_read(page: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_documents_here(monkeypatch)
    (tmp_path / "broken.docx").write_bytes(b"PK no archive")
    page.page.set_input_files("#file", tmp_path / "broken.docx")
    page.page.locator("#jobs button", has_text="Remove").wait_for(timeout=SECONDS)
    page.page.locator("#jobs progress").wait_for(state="hidden")
    assert page.page.locator("#jobs button", has_text="Try again").count() == 0  # the file itself is wrong
    page.text_of("#kinds", "Office documents, web pages, e-books, subtitles, texts, tables, files of translation")
    assert not page.page.is_visible("#formats")
    page.page.click("#formats-more summary")
    page.text_of("#formats", "DOCX, EPUB, HTML,")
    assert "broken.docx" in page.page.inner_text("#jobs")


def test_a_pdf_is_refused_before_it_is_sent(page: Opened, tmp_path: Path) -> None:
    page.text_of("#kinds", "A PDF has to be converted first: open it in Word or LibreOffice, and save it as DOCX.")
    (tmp_path / "scan.PDF").write_bytes(b"%PDF-1.7")
    sent: list[str] = []
    page.page.on("request", lambda request: sent.append(request.url))
    page.page.set_input_files("#file", tmp_path / "scan.PDF")
    page.text_of("#jobs", "A PDF has to be converted first")
    assert not sent


def test_characters_are_counted_in_plain_english(page: Opened) -> None:
    for text, counted in (("A", "1 character"), ("A man", "5 characters"), ("", "")):
        page.page.fill("#text", text)
        page.until(f"document.querySelector('#count').textContent === '{counted}'")


def test_languages_are_swapped_only_where_there_is_a_model_for_the_way_back(page: Opened) -> None:
    for source, target, offered in (
        ("en", "de", True),
        ("en", "pt-BR", False),
        ("he", "en", False),
        ("auto", "de", False),
    ):
        page.page.select_option("#source", source)
        page.page.select_option("#target", target)
        assert page.page.is_enabled("#swap") == offered


def test_a_document_that_failed_is_sent_again(page: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_documents_here(monkeypatch)
    page.service.error = DataError("The model does not like it.")
    (tmp_path / "story.txt").write_text("A dog runs.\n", encoding="utf-8")
    page.page.set_input_files("#file", tmp_path / "story.txt")
    page.text_of("#jobs", "The model does not like it.")
    page.service.error = None
    page.page.click("#jobs button:has-text('Try again')")
    page.text_of("#jobs", "Done.")
    assert page.page.locator("#jobs li").count() == 1


def test_attention_is_one_click_away(page: Opened, random_attention: Callable[..., Attention]) -> None:
    page.service.attended = random_attention("A dog runs.", "Ein Hund rennt.")
    page.page.reload()
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.page.click("#more-toggle")
    page.page.click("#attention-open")
    explorer = page.page.frame_locator("#attention-frame")
    explorer.locator("#source", has_text="A dog runs.").wait_for(timeout=SECONDS)
    assert not explorer.locator("#grid").is_visible()
    explorer.locator("#more summary").click()
    explorer.locator("#grid .cell").first.wait_for(timeout=SECONDS)
    page.page.click("#attention button")
    page.page.locator("#attention").wait_for(state="hidden")


def test_the_keys_of_attention_work_at_once(page: Opened, random_attention: Callable[..., Attention]) -> None:
    page.service.attended = random_attention("A dog runs.", "Ein Hund rennt.")
    page.page.set_viewport_size({"width": 1280, "height": 500})  # the page could be scrolled
    page.page.reload()
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.page.click("#more-toggle")
    page.page.click("#attention-open")
    explorer = page.page.frame_locator("#attention-frame")
    explorer.locator("html[data-ready]").wait_for(state="attached", timeout=SECONDS)
    page.until("document.activeElement.id === 'attention-frame'")
    title = explorer.locator("#lines-title")
    scrolled = page.page.evaluate("scrollY")
    page.page.keyboard.press("a")
    title.filter(has_text="all heads").wait_for(timeout=SECONDS)
    page.page.keyboard.press("ArrowRight")
    title.filter(has_text="head 1").wait_for(timeout=SECONDS)
    for key in ("ArrowUp", "ArrowUp", "ArrowDown"):
        page.page.keyboard.press(key)
    title.filter(has_text="layer 2 of").wait_for(timeout=SECONDS)
    page.page.mouse.wheel(0, 300)
    assert page.page.evaluate("scrollY") == scrolled
    page.page.keyboard.press("Escape")
    page.page.locator("#attention").wait_for(state="hidden")
    page.until("document.activeElement.id === 'more-toggle'")


def test_attention_of_another_sentence_is_chosen(page: Opened, random_attention: Callable[..., Attention]) -> None:
    page.service.attended = random_attention("A dog runs.", "Ein Hund rennt.")
    page.page.reload()
    page.translate("A dog runs. A cat sleeps.", "Ein Hund rennt. Ein Katze schläft.")
    asked: list[str] = []
    page.page.on("request", lambda sent: asked.append(sent.post_data) if sent.url.endswith("/api/attention") else None)
    page.cursor(len("Ein Hund rennt. Ein"))
    page.page.click("#more-toggle")
    page.page.click("#attention-open")
    explorer = page.page.frame_locator("#attention-frame")
    explorer.locator("#more summary").click()
    assert "A cat sleeps." in asked[-1]
    page.service.attended = random_attention("A cat runs.", "Ein Katze rennt.")
    page.page.select_option("#attention-sentence", label="1. A dog runs.")
    explorer.locator("#source", has_text="A cat runs.").wait_for(timeout=SECONDS)
    assert "A dog runs." in asked[-1]
    explorer.locator("#grid .cell").first.wait_for(timeout=SECONDS)  # what was opened stays open
    page.service.error = OverloadedError("Too much work waits already.")
    page.page.select_option("#attention-sentence", label="2. A cat sleeps.")
    page.text_of("#attention-note", "It cannot be shown: Too much work waits already.")


def test_attention_is_not_offered_where_the_engine_does_not_return_it(
    page: Opened, random_attention: Callable[..., Attention]
) -> None:
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.page.click("#more-toggle")
    assert not page.page.is_visible("#attention-open")
    page.service.attended = random_attention("A dog runs.", "Ein Hund rennt.")
    page.page.reload()
    page.translation("Ein Hund rennt.")
    page.page.click("#more-toggle")
    page.page.locator("#attention-open").wait_for(timeout=SECONDS)
    page.service.attended = None  # the model was exchanged meanwhile
    page.page.click("#attention-open")
    page.text_of("#status", "does not return attention weights")
    assert not page.page.is_visible("#attention")
