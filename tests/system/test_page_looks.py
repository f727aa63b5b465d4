"""The service's page for every eye and hand: axe's rules, its layout at three widths, zoom, keyboard alone."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from opened_page import SECONDS, Opened, Pages
from transduce import Attention

pytestmark = pytest.mark.slow
WIDTHS = (390, 820, 1280)
TEXT = "A man sees a dog. A cat sleeps."
_TRANSLATION = "Ein Mann sieht ein Hund. Ein Katze schläft."


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=WIDTHS)
def page(pages: Pages, request: pytest.FixtureRequest) -> Iterator[Opened]:
    # Another scheme changes colours only: each is seen at one width at least, and moves nothing.
    scheme = "dark" if request.param == 820 else "light"
    size = {"width": request.param, "height": 844}
    with pages.opened(viewport=size, color_scheme=scheme, reduced_motion="reduce") as made:
        yield made


def _everything_open(page: Opened) -> None:
    """Brings out what the page can show at once."""
    page.service.warnings = ("repeats itself",)
    page.translate(TEXT, _TRANSLATION)
    page.page.click("#confidence-figure")
    page.page.click("#history-toggle")
    page.page.check("#history-on")
    page.page.click("#glossary-toggle")
    page.page.fill("#term-source", "dog")
    page.page.fill("#term-target", "Dackel")
    page.page.click("#term-form button")
    page.text_of("#terms", "used")
    page.cursor(4)
    page.page.keyboard.type("K")
    page.suggested("erl erblickt einen Dackel.")


def _violations(page: Opened) -> list[str]:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright",
        reason="axe-playwright-python is not installed (pip install '.[dev]'): axe's rules NOT checked",
    )
    found = axe.Axe().run(page.page).response["violations"]
    return [f"{each['id']}: {node['html']} {node['failureSummary']}" for each in found for node in each["nodes"]]


def test_axe_finds_nothing(page: Opened) -> None:
    assert _violations(page) == []
    _everything_open(page)
    page.text_of("#entries", "Ein")
    assert _violations(page) == []
    page.cursor(5)
    page.page.keyboard.press("Enter")
    page.page.locator("#choices [role=option]:focus").wait_for()
    assert _violations(page) == []
    page.page.keyboard.press("Escape")
    page.page.click("#more-toggle")
    page.page.click("#formats-more summary")
    assert _violations(page) == []
    page.page.click("#help-open")
    assert _violations(page) == []


def _luminance(red: float, green: float, blue: float) -> float:
    """Returns the relative luminance of WCAG 2.2 of a colour with parts from 0 to 1."""
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (red, green, blue)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def test_the_most_unsure_word_can_be_read(pages: Pages, scheme: str) -> None:
    with pages.opened(color_scheme=scheme) as made:
        made.service.probabilities = {"schläft": 0.0}
        made.translate("A cat sleeps.", "Ein Katze schläft.")
        made.page.locator(".unsure").wait_for()
        colours = made.page.evaluate("""() => {
          const style = (selector) => getComputedStyle(document.querySelector(selector));
          const often = { willReadFrequently: true };
          const pixel = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
          const canvas = pixel.getContext("2d", often);
          const drawn = (...fills) => {
            for (const fill of fills) {
              canvas.fillStyle = fill;
              canvas.fillRect(0, 0, 1, 1);
            }
            return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part / 255);
          };
          const ground = style(".answer").backgroundColor;
          return [drawn(style(".unsure").color), drawn(ground, style(".unsure").backgroundColor)];
        }""")
        dark, light = sorted(_luminance(*each) for each in colours)
        assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_text_of_twice_the_size_needs_no_sideways_scroll(pages: Pages) -> None:
    with pages.opened() as made:
        made.page.evaluate("document.documentElement.style.fontSize = '200%'")
        _everything_open(made)
        for width in WIDTHS:
            made.page.set_viewport_size({"width": width, "height": 844})
            assert made.page.evaluate("document.documentElement.scrollWidth") == width
            made.page.click("#more-toggle")
            assert made.page.evaluate("document.documentElement.scrollWidth") == width
            made.page.keyboard.press("Escape")


def _boxes(page: Opened) -> dict[str, dict[str, float]]:
    names = ("#source", "#swap", "#target", "#text", "#output", "#copy", "#drop")
    return {name: page.page.locator(name).bounding_box() for name in names}


def test_the_layout_at_each_width(page: Opened) -> None:
    """Compares where things are and not pixels: fonts differ between machines."""
    _everything_open(page)
    width = page.page.viewport_size["width"]
    assert page.page.evaluate("document.documentElement.scrollWidth") == width
    boxes = _boxes(page)
    for name, box in boxes.items():
        assert box["x"] >= 8, name
        assert box["x"] + box["width"] <= width - 8, name
        assert box["height"] >= 24, name  # large enough for a finger
    text, output = boxes["#text"], boxes["#output"]
    assert abs(text["width"] - output["width"]) <= 1
    if width < 752:  # one below the other
        assert output["y"] >= text["y"] + text["height"]
        assert abs(output["x"] - text["x"]) <= 1
    else:
        assert abs(output["y"] - text["y"]) <= 1
        assert output["x"] >= text["x"] + text["width"]
        assert boxes["#target"]["x"] >= output["x"] - 20
    assert boxes["#drop"]["y"] > boxes["#copy"]["y"]
    page.detailed()
    unsure = page.page.locator("#unsure").bounding_box()
    assert unsure["x"] + unsure["width"] <= output["x"] + output["width"] - 8
    # Each field lies exactly over the mirror that draws its text.
    for name in ("text", "output"):
        field, mirror = (page.page.locator(f"#{name}{end}").bounding_box() for end in ("", "-mirror"))
        assert field == pytest.approx(mirror, abs=1)


def test_words_of_the_attention_are_not_cut(page: Opened, random_attention: Callable[..., Attention]) -> None:
    page.service.attended = random_attention("Several photographers wait.", "Mehrere Fotografen warten.")
    page.page.reload()
    page.translate(TEXT, _TRANSLATION)
    page.page.click("#more-toggle")
    page.page.click("#attention-open")
    explorer = page.page.frame_locator("#attention-frame")
    explorer.locator("#keys li", has_text="photographers").wait_for(timeout=SECONDS)
    explorer.locator("#queries li").first.hover()  # the shares of words come
    cut = "(all) => all.filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.textContent)"
    assert explorer.locator(".columns li").evaluate_all(cut) == []
    wider = "(root) => root.scrollWidth - root.clientWidth"
    assert explorer.locator("html").evaluate(wider) <= 0
    assert _violations(page) == []


def test_colours_follow_the_scheme(pages: Pages, scheme: str) -> None:
    with pages.opened(color_scheme=scheme) as made:
        ground = made.page.evaluate("getComputedStyle(document.body).backgroundColor")
    light = sum(map(int, ground[ground.index("(") + 1 : -1].split(",")[:3])) > 3 * 128
    assert light == (scheme == "light")


def test_a_zoom_of_200_percent_hides_nothing(pages: Pages) -> None:
    """A zoom of 200 % gives a page half the width, and twice the pixels."""
    options = {"viewport": {"width": 640, "height": 400}, "device_scale_factor": 2}
    with pages.opened(**options) as made:
        _everything_open(made)
        assert made.page.evaluate("document.documentElement.scrollWidth") == 640


def test_the_list_of_alternatives_lies_inside_the_window(pages: Pages) -> None:
    sentences = 12
    with pages.opened() as made:
        made.translate("A man sees a dog. " * sentences, ("Ein Mann sieht ein Hund. " * sentences).rstrip())
        for (width, height), at in itertools.product([(390, 500), (640, 400), (1280, 500)], [1, 5, 20]):
            made.page.set_viewport_size({"width": width, "height": height})
            word = made.page.locator("#output-mirror .word").nth(at)
            word.evaluate("(word) => word.scrollIntoView({ block: 'center' })")
            box = word.bounding_box()
            made.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
            made.text_of("#choices", "20 %")
            found = made.page.locator("#choices").bounding_box()
            assert found["x"] >= 0
            assert found["y"] >= 0
            assert found["x"] + found["width"] <= width
            assert found["y"] + found["height"] <= height
            made.page.keyboard.press("Escape")


def test_the_list_of_alternatives_lies_over_the_bar_of_buttons(pages: Pages) -> None:
    with pages.opened(viewport={"width": 390, "height": 844}) as made:
        made.translate("A man sees a dog. " * 6, ("Ein Mann sieht ein Hund. " * 6).rstrip())
        box = made.page.locator("#output-mirror .word", has_text="Hund").last.bounding_box()
        made.page.mouse.click(box["x"] + 5, box["y"] + 5)
        made.text_of("#choices", "20 %")
        found = made.page.locator("#choices").bounding_box()
        x, y = found["x"] + found["width"] / 2, found["y"] + found["height"] - 4
        bar = made.page.locator(".bar").bounding_box()
        assert bar["y"] < y < bar["y"] + bar["height"]
        assert made.page.evaluate(f"document.elementFromPoint({x}, {y}).closest('#choices') !== null")


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_moves_when_words_are_marked_texts_edited_and_copied(pages: Pages, width: int) -> None:
    with pages.opened(viewport={"width": width, "height": 844}) as made:
        made.translate(TEXT, _TRANSLATION)
        before = _boxes(made)
        made.cursor(5)
        made.page.keyboard.press("ArrowRight")
        made.text_of("#word", "Mann")
        made.page.click("#copy")
        made.text_of("#said", "Translation copied.")
        made.cursor(4)
        made.page.keyboard.type("K")
        made.suggested("erl erblickt einen Köter.")
        assert _boxes(made) == before


def test_a_suggestion_is_accepted_without_a_keyboard(pages: Pages) -> None:
    with pages.opened(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True) as made:
        made.translate("A dog runs.", "Ein Hund rennt.")
        assert not made.page.is_visible("#accept")
        made.cursor(4)
        made.page.keyboard.type("K")
        made.suggested("öter läuft.")
        made.page.tap("#accept")
        made.suggested("")
        made.translation("Ein Köter läuft.")


def test_a_suggestion_is_read_out_and_says_which_key_accepts_it(pages: Pages) -> None:
    with pages.opened() as made:
        made.translate("A dog runs.", "Ein Hund rennt.")
        assert not made.page.is_visible("#accept-hint")
        made.cursor(4)
        made.page.keyboard.type("K")
        made.suggested("öter läuft.")
        made.text_of("#announcer", "Suggestion: öter läuft.")
        made.text_of("#accept-hint", "Tab accepts the gray words")
        made.page.keyboard.press("Tab")
        made.suggested("")
        made.page.locator("#accept-hint").wait_for(state="hidden")


def test_what_was_copied_is_said_near_the_button_and_covers_nothing(pages: Pages) -> None:
    with pages.opened() as made:
        made.translate("A dog runs.", "Ein Hund rennt.")
        for (width, height), name in itertools.product([(390, 844), (640, 400), (1280, 800)], ["copy", "copy-curl"]):
            made.page.set_viewport_size({"width": width, "height": height})
            if name != "copy":
                made.page.click("#more-toggle")
            made.page.click(f"#{name}")
            made.text_of("#said", "Translation copied." if name == "copy" else "Command copied.")
            shown = "#copy" if name == "copy" else "#more-toggle"
            button, said, sure = (
                made.page.locator(each).bounding_box() for each in (shown, "#said", "#confidence-figure")
            )
            assert 0 < button["y"] - said["y"] < 60
            assert said["y"] >= sure["y"] + sure["height"]
            assert said["x"] >= 0
            assert said["x"] + said["width"] <= width
            assert 0 <= said["y"] <= height - said["height"]


def test_all_controls_are_reached_by_keyboard(pages: Pages) -> None:
    with pages.opened() as made:
        made.translate(TEXT, _TRANSLATION)
        made.type_at(len("Ein"), "e")  # there is something to undo
        made.suggested(" Kerl erblickt einen Köter.")
        made.cursor(0)  # where Tab accepts nothing
        made.page.focus("#glossary-toggle")
        reached = []
        for _ in range(30):
            reached.append(made.page.evaluate("document.activeElement.id || document.activeElement.tagName"))
            made.page.keyboard.press("Tab")
        wanted = "glossary-toggle history-toggle help-open source swap target clear text output confidence-figure"
        wanted += " unsure copy undo more-toggle file"
        assert [each for each in reached if each in wanted.split()][: len(wanted.split())] == wanted.split()


def test_a_long_text_keeps_the_page_where_it_is(pages: Pages) -> None:
    for size in ((1280, 800), (390, 844)):
        with pages.opened(viewport={"width": size[0], "height": size[1]}) as made:
            made.service.seconds = 0.005  # for each sentence
            made.page.evaluate(
                "(text) => navigator.clipboard.writeText(text)", "A man sees a dog. A cat sleeps.\n" * 60
            )
            made.page.focus("#text")
            made.page.keyboard.press("Control+v")
            made.page.evaluate("""() => {
              window.places = new Set();
              document.addEventListener("scroll", () => window.places.add(scrollY));
            }""")
            made.until("document.querySelector('#output').value.split('\\n').length === 60")
            made.detailed()
            assert made.page.evaluate("document.documentElement.scrollHeight") > 2 * size[1]
            assert made.page.evaluate("[scrollY, ...window.places].every((each) => each === 0)")


def test_messages_of_a_long_text_are_in_view(pages: Pages) -> None:
    with pages.opened(viewport={"width": 1280, "height": 800}) as made:
        made.translate(f"{TEXT}\n" * 60, f"{_TRANSLATION}\n" * 59 + _TRANSLATION)
        made.page.evaluate("scrollTo(0, 300)")
        made.page.mouse.click(*made.middle_of("#output-mirror > :nth-child(20)", "Mann"))
        made.text_of("#word", "Mann ← man")
        made.page.keyboard.press("Escape")
        made.page.keyboard.type("X")
        made.page.locator("#accept-hint").wait_for()
        made.page.context.set_offline(True)
        made.page.keyboard.type("y")
        made.text_of("#status", "The service cannot be reached.")
        for name in ("status", "retry", "accept-hint", "unsure", "count"):
            box = made.page.locator(f"#{name}").bounding_box()
            assert 0 < box["y"] < 800 - box["height"], name


def test_a_text_over_the_limit_is_said_to_be(pages: Pages) -> None:
    with pages.opened() as made:
        sent: list[str] = []
        made.page.on("request", lambda request: sent.append(request.url))
        made.page.fill("#text", "🙂" + "a" * 199_999)
        made.text_of("#count.over", "200,000 of 100,000 characters")
        made.text_of("#status", "The text is too long: 200,000 characters, and at most 100,000 are allowed.")
        for name in ("status", "count"):
            box = made.page.locator(f"#{name}").bounding_box()
            assert 0 < box["y"] < 720 - box["height"], name
        assert not made.page.is_visible("#retry")
        assert not sent
        made.page.fill("#text", "A dog runs.")
        made.translation("Ein Hund rennt.")
        assert made.page.inner_text("#count") == "11 characters"
        assert made.page.inner_text("#status") == ""


def test_a_refusal_is_not_tried_again(pages: Pages) -> None:
    with pages.opened() as made:
        refusal = {"error": {"code": "wrong_value", "message": "No."}}
        made.page.route("**/api/translate", lambda route: route.fulfill(status=400, json=refusal))
        made.page.fill("#text", "A dog runs.")
        made.text_of("#status", "No.")
        assert not made.page.is_visible("#retry")


def test_a_sentence_and_its_translation_are_marked_lightly(pages: Pages) -> None:
    with pages.opened() as made:
        made.translate(TEXT, _TRANSLATION)
        made.page.mouse.move(*made.middle_of("#output-mirror", "Katze"))
        made.until("document.querySelectorAll('.paired').length === 2")
        shown = [each.strip() for each in made.page.locator(".paired").all_inner_texts()]
        assert shown == ["A cat sleeps.", "Ein Katze schläft."]
        made.page.mouse.move(1, 1)
        made.until("document.querySelectorAll('.paired').length === 0")


def test_large_text_on_a_phone_is_not_cut(pages: Pages) -> None:
    with pages.opened(viewport={"width": 390, "height": 844}) as made:
        made.page.evaluate("document.documentElement.style.fontSize = '200%'")
        made.translate(TEXT, _TRANSLATION)
        assert made.page.locator("#source").bounding_box()["width"] >= 200  # "English", in letters of 30 pixels
        boxes = [made.page.locator(name).bounding_box() for name in ("#source", "#target")]
        made.page.locator("#output-mirror .word", has_text="Hund").evaluate(
            "(e) => e.scrollIntoView({ block: 'center' })"
        )
        made.page.mouse.click(*made.middle_of("#output-mirror", "Hund"))
        made.text_of("#choices", "20 %")
        boxes.append(made.page.locator("#choices").bounding_box())
        made.page.keyboard.press("Escape")
        made.page.click("#glossary-toggle")
        made.page.fill("#term-source", "photographers")
        made.page.fill("#term-target", "Lichtbildnerinnen | Berufsfotografinnen")
        made.page.click("#term-form button")
        for name in ("#term-source", "#term-target", "#terms button"):
            boxes.append(made.page.locator(name).bounding_box())
        for box in boxes:
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390


def test_the_boxes_do_not_grow_when_the_first_translation_comes(pages: Pages) -> None:
    with pages.opened() as made:
        before = [made.page.locator(each).bounding_box() for each in (".answer", "#drop")]
        made.translate("A dog runs.", "Ein Hund rennt.")
        assert [made.page.locator(each).bounding_box() for each in (".answer", "#drop")] == before


def test_help_opens_and_closes_by_keyboard(pages: Pages) -> None:
    with pages.opened(viewport={"width": 640, "height": 400}) as made:
        made.page.focus("#help-open")
        made.page.keyboard.press("Enter")
        made.text_of("#help", "Ctrl")
        assert made.page.evaluate("document.querySelector('#help').scrollTop") == 0
        assert {"Glossary", "Documents"} <= set(made.page.locator("#help dt").all_inner_texts())
        assert not made.page.is_visible("#help dt.attention")  # the engine of this test does not return it
        told = made.page.inner_text("#help")
        assert not [each for each in ("left field", "darker") if each in told]  # not so on a phone, or in dark mode
        made.page.keyboard.press("Escape")
        made.page.locator("#help").wait_for(state="hidden")
        made.until("document.activeElement.id === 'help-open'")
