"""The service's page: live translation, words and their counterparts, alternatives, and interactive translation."""

import json

import pytest

from opened_page import Opened

pytestmark = pytest.mark.slow


def test_the_translation_follows_what_is_typed(page: Opened) -> None:
    page.page.focus("#text")
    page.page.keyboard.type("A man sees a dog.", delay=20)
    page.translation("Ein Mann sieht ein Hund.")
    page.page.keyboard.type(" A cat sleeps.")
    page.translation("Ein Mann sieht ein Hund. Ein Katze schläft.")
    page.text_of("#notices", "Each sentence is translated on its own")
    page.page.fill("#text", "")
    page.translation("")


def test_separators_of_lines_that_word_processors_write_are_kept(page: Opened) -> None:
    """In JSON they may stand as they are; to a regular expression of JavaScript they end a line."""
    page.translate("A dog runs.\u2028A man sleeps.\u2029A cat", "Ein Hund rennt.\u2028Ein Mann schläft.\u2029Ein Katze")


def test_only_sentences_that_changed_are_translated_again(page: Opened) -> None:
    page.translate("A dog runs. A cat sleeps. A man runs.", "Ein Hund rennt. Ein Katze schläft. Ein Mann rennt.")
    sent: list[str] = []
    page.page.on("request", lambda request: sent.append(request.post_data or ""))
    page.translate("A dog runs. A cat sees. A man runs.", "Ein Hund rennt. Ein Katze sieht. Ein Mann rennt.")
    page.until("document.querySelectorAll('#output-mirror .stale').length === 0")
    assert any("A cat sees." in each for each in sent)
    assert not [each for each in sent if "A dog runs." in each or "A man runs." in each]


def test_typing_is_not_held_up_by_a_slow_service(page: Opened) -> None:
    page.service.seconds = 0.4
    page.page.focus("#text")
    page.page.keyboard.type("A dog runs. A man sleeps.", delay=40)
    assert page.page.input_value("#text") == "A dog runs. A man sleeps."
    page.translation("Ein Hund rennt. Ein Mann schläft.")


def test_a_word_of_any_length_is_translated(page: Opened) -> None:
    page.page.evaluate("""() => {
      window.longest = 0; // milliseconds that the page was blocked
      const longer = ({ duration }) => (window.longest = Math.max(duration, window.longest));
      const note = (list) => list.getEntries().forEach(longer);
      new PerformanceObserver(note).observe({ type: "longtask" });
    }""")
    page.page.fill("#text", "a" * 100_000)  # the greatest number of characters that the service accepts
    page.until("document.querySelector('#output').value.length === 100000")
    page.detailed()
    page.page.wait_for_timeout(500)
    assert page.page.evaluate("window.longest") < 8000  # 20 s where the time grows with its square


def test_a_key_stroke_in_a_long_text_changes_one_line(page: Opened) -> None:
    line = "A man sees a dog. A cat sleeps.\n"
    page.page.fill("#text", line * 100)
    page.translation(("Ein Mann sieht ein Hund. Ein Katze schläft.\n" * 100).rstrip())
    page.detailed()
    page.page.focus("#text")
    at = 50 * len(line) + len("A ")
    page.page.evaluate(f"document.querySelector('#text').setSelectionRange({at}, {at})")
    page.page.evaluate("""() => {
      window.moved = 0; // nodes
      const count = ({ addedNodes, removedNodes }) => (window.moved += addedNodes.length + removedNodes.length);
      const lines = (records) => records.forEach(count);
      const watched = { childList: true, subtree: true };
      for (const each of document.querySelectorAll(".mirror")) new MutationObserver(lines).observe(each, watched);
    }""")
    sent: list[str] = []
    page.page.on("request", lambda request: sent.append(request.url))
    page.page.keyboard.type("big ")
    assert not sent  # a long text is translated when the typing pauses
    changed = "Ein Mann sieht ein Hund. Ein Katze schläft.\n" * 50 + "Ein big Mann sieht ein Hund."
    page.until(f"document.querySelector('#output').value.startsWith({json.dumps(changed)})")
    page.until("document.querySelectorAll('#output-mirror .stale').length === 0")
    page.detailed()
    assert page.page.evaluate("window.moved") < 50  # and not the 200 sentences at each key stroke


def test_the_counterpart_of_a_word_is_marked(page: Opened) -> None:
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.page.mouse.move(*page.middle_of("#output-mirror", "Hund"))
    page.text_of("#word", "Hund ← dog · probability 97 %")
    assert page.marked("#text-mirror") == ["dog"]
    page.page.mouse.move(*page.middle_of("#text-mirror", "runs"))
    page.text_of("#word", "runs → rennt")
    assert page.marked("#output-mirror") == ["rennt"]
    page.page.mouse.move(1, 1)
    page.until("document.querySelectorAll('.linked').length === 0")


def test_a_word_with_a_hyphen_is_one(page: Opened) -> None:
    page.translate("A T-shirt runs.", "Ein T-shirt rennt.")
    page.page.mouse.move(*page.middle_of("#output-mirror", "T-shirt"))
    page.text_of("#word", "T-shirt ← T-shirt · probability 97 %")
    assert page.marked("#text-mirror") == ["T-shirt"]


def test_the_counterpart_is_marked_by_the_cursor_too(page: Opened) -> None:
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.cursor(4)
    page.page.keyboard.press("ArrowRight")
    page.text_of("#word", "Hund ← dog")
    page.page.focus("#text")
    page.page.keyboard.press("Home")
    page.text_of("#word", "A → Ein")
    assert page.marked("#output-mirror") == ["Ein"]


@pytest.mark.parametrize("by_keyboard", [True, False])
def test_another_word_is_chosen_and_the_rest_follows(page: Opened, by_keyboard: bool) -> None:
    page.translate("A dog runs.", "Ein Hund rennt.")
    if by_keyboard:
        page.cursor(5)
        page.page.keyboard.press("Enter")
        page.page.locator("#choices [role=option]:focus").wait_for()
        page.page.keyboard.press("ArrowDown")
        page.page.locator("#choices [role=option]:focus", has_text="Köter").wait_for()
        page.page.keyboard.press("Enter")
    else:
        page.page.mouse.click(*page.middle_of("#output-mirror", "Hund"))
        page.page.locator("#choices [role=option]", has_text="Köter").click()
    page.translation("Ein Köter läuft.")
    page.suggested(" läuft.")
    page.page.keyboard.press("Control+z")
    page.translation("Ein Hund rennt.")
    page.until(f"document.querySelector('#output').selectionStart === {len('Ein ')}")


def test_enter_at_the_end_lists_words_for_the_last_one(page: Opened) -> None:
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.cursor(len("Ein Hund rennt."))
    page.page.keyboard.press("Enter")
    option = page.page.locator("#choices [role=option][aria-selected=true]", has_text="rennt")
    option.wait_for()
    assert "97 %" in option.inner_text()  # as the line below says


def test_the_word_that_stands_there_is_marked_and_can_be_kept(page: Opened) -> None:
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.cursor(5)
    page.page.keyboard.press("Enter")
    page.page.locator("#choices [aria-selected=true]:focus", has_text="Hund").wait_for()
    page.page.keyboard.press("Enter")
    page.page.locator("#choices").wait_for(state="hidden")
    page.until("document.activeElement.id === 'output'")
    assert page.page.input_value("#output") == "Ein Hund rennt."
    assert page.page.is_disabled("#discard")  # nothing was changed
    page.page.keyboard.type("X")
    page.suggested(" läuft.")
    page.page.keyboard.press("Enter")
    page.page.locator("#choices [aria-selected=true]:focus").wait_for()
    options = page.page.locator("#choices [role=option]").all_inner_texts()
    assert [each.split()[0] for each in options][1:] == ["Hund", "Köter"]  # and the user's own word before them


def test_a_sentence_can_be_ended(page: Opened) -> None:
    page.service.end = 0.5
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.cursor(len("Ein Hund re"))
    page.page.keyboard.press("Enter")
    page.page.locator("#choices [aria-selected=true]:focus", has_text="rennt").wait_for()
    options = page.page.locator("#choices [role=option]").all_inner_texts()
    assert [each.split()[0] for each in options] == ["rennt", "End", "läuft"]  # by their probabilities
    page.page.keyboard.press("ArrowDown")
    page.page.locator("#choices [role=option]:focus", has_text="End the sentence here").wait_for()
    page.page.keyboard.press("Enter")
    page.translation("Ein Hund.")
    page.suggested("")
    page.page.keyboard.press("Control+z")
    page.translation("Ein Hund rennt.")


def test_a_word_without_a_counterpart(page: Opened) -> None:
    page.service.links = False
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.cursor(4)
    page.page.keyboard.press("ArrowRight")
    page.text_of("#word", "Hund · no counterpart · probability 97 %")


def test_alternatives_can_be_left(page: Opened) -> None:
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.cursor(5)
    page.page.keyboard.press("Enter")
    page.text_of("#choices", "20 %")
    page.page.keyboard.press("Escape")
    page.page.locator("#choices").wait_for(state="hidden")
    page.until("document.activeElement.id === 'output'")
    assert page.page.input_value("#output") == "Ein Hund rennt."


def test_what_is_typed_stays_and_tab_accepts_the_rest(page: Opened) -> None:
    page.translate("A dog runs. A cat sleeps.", "Ein Hund rennt. Ein Katze schläft.")
    page.type_at(4, "K")
    page.translation("Ein Köter läuft. Ein Katze schläft.")
    page.suggested("öter läuft.")
    page.page.keyboard.press("Control+ArrowRight")
    page.suggested(" läuft.")
    page.page.keyboard.press("ArrowRight")
    page.suggested("läuft.")
    page.page.keyboard.type("lä")  # what is suggested is typed over
    page.suggested("uft.")
    page.page.keyboard.press("Tab")
    page.suggested("")
    page.translation("Ein Köter läuft. Ein Katze schläft.")
    assert page.page.evaluate("document.querySelector('#output').selectionStart") == len("Ein Köter läuft.")
    page.page.keyboard.press("Tab")  # nothing is suggested: on to the next control
    page.until("document.activeElement.id !== 'output'")


def test_tab_leaves_the_field_after_escape(page: Opened) -> None:
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.type_at(0, "Ein K")
    page.suggested("öter läuft.")
    page.page.keyboard.press("Escape")
    page.page.keyboard.press("Tab")
    page.until("document.activeElement.id !== 'output'")
    page.page.keyboard.press("Shift+Tab")
    page.until("document.activeElement.id === 'output'")
    page.page.keyboard.type("ö")
    page.suggested("ter läuft.")
    page.page.keyboard.press("Shift+Tab")
    page.until("document.activeElement.id !== 'output'")
    page.page.locator("#accept-hint").wait_for(state="hidden")
    page.page.keyboard.press("Tab")
    page.until("document.activeElement.id === 'output'")
    page.page.locator("#accept-hint").wait_for()
    page.page.keyboard.press("Tab")
    page.suggested("")
    page.translation("Ein Köter läuft.")


def test_edits_can_be_taken_back_and_discarded(page: Opened) -> None:
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.type_at(4, "K")
    page.suggested("öter läuft.")
    page.page.keyboard.press("Control+z")
    page.translation("Ein Hund rennt.")
    page.page.keyboard.press("Control+Shift+z")
    page.suggested("öter läuft.")
    page.page.click("#more-toggle")
    page.page.click("#discard")
    page.translation("Ein Hund rennt.")
    page.until("document.querySelector('#discard').disabled")


def test_words_and_not_letters_are_undone(page: Opened) -> None:
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.type_at(0, "Ein Köter läuft.")
    page.suggested("")
    for before in ("Ein Köter ", "Ein ", ""):
        page.page.keyboard.press("Control+z")
        page.until(f"document.querySelector('#output').selectionStart === {len(before)}")
    page.translation("Ein Hund rennt.")
    page.cursor(len("Ein Hund"))
    for _ in range(4):
        page.page.keyboard.press("Backspace")
    page.until("document.querySelector('#output').selectionStart === 4")
    page.page.keyboard.press("Control+z")
    page.translation("Ein Hund rennt.")


def test_unlikely_words_are_not_offered(page: Opened) -> None:
    page.service.end = 0.0099
    page.translate("A dog runs.", "Ein Hund rennt.")
    page.cursor(5)
    page.page.keyboard.press("Enter")
    page.text_of("#choices", "Köter")
    assert "End the sentence" not in page.page.inner_text("#choices")
    assert page.page.get_attribute("#choices", "lang") == "de"


@pytest.mark.parametrize("before", ["A dog runs.", "A dog runs"])
def test_a_sentence_that_is_added_after_an_edit_is_translated(page: Opened, before: str) -> None:
    page.translate(before, before.replace("A dog runs", "Ein Hund rennt"))
    page.type_at(4, "K")
    page.suggested(before.replace("A dog runs", "öter läuft"))
    page.page.fill("#text", "A dog runs. Cat.")
    page.translation("Ein Köter läuft. Katze.")
    page.page.fill("#text", "A dog runs. Cat. A man sees.")
    page.translation("Ein Köter läuft. Katze. Ein Mann sieht.")


def test_wording_is_kept_when_the_text_changes_a_little(page: Opened) -> None:
    page.translate("A dog runs. A cat sleeps.", "Ein Hund rennt. Ein Katze schläft.")
    page.type_at(4, "K")
    page.suggested("öter läuft.")
    page.page.fill("#text", "A dog runs. A man sleeps.")
    page.translation("Ein Köter läuft. Ein Mann schläft.")
    page.page.fill("#text", "A dog sleeps. A man sleeps.")
    page.translation("Ein Köter ruht. Ein Mann schläft.")
    page.page.fill("#text", "Something else.")
    page.translation("Something else.")
    page.text_of("#notices", "Ein Köter ruht.")  # it is offered for copying


def test_emoji_and_line_breaks_move_no_links(page: Opened) -> None:
    page.translate("🙂 dog runs.\n\nA 👍 cat sleeps.\n", "🙂 Hund rennt.\n\nEin 👍 Katze schläft.")
    page.cursor(len("🙂 Hund rennt.\n\nEin 👍 ".encode("utf-16-le")) // 2)
    page.page.keyboard.press("ArrowRight")
    page.text_of("#word", "Katze ← cat")
    assert page.marked("#text-mirror") == ["cat"]
