"""The service's page in a browser, for tests: opened as if for the first time, and watched for complaints."""

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fake_service import fake_app
from page_service import PageService
from running_app import running
from transduce.serve.operations.keys import KeyRing

SECONDS = 30_000  # milliseconds that anything may take: what is awaited comes at once on an idle machine
# What a browser says of answers that tests provoke.
_PROVOKED = ("Failed to load resource",)
# The middle of the first occurrence of a word in a mirror, whose sentences may be drawn in one piece.
_MIDDLE_OF = """([mirror, word]) => {
    const texts = document.createTreeWalker(document.querySelector(mirror), NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const start = texts.currentNode.data.indexOf(word);
        if (start < 0) continue;
        const range = document.createRange();
        range.setStart(texts.currentNode, start);
        range.setEnd(texts.currentNode, start + word.length);
        const { x, y, width, height } = range.getBoundingClientRect();
        return [x + width / 2, y + height / 2];
    }
    return null;
}"""
_VIEWPORT = {"width": 1280, "height": 720}
# Runs before the page's scripts: where its address says what the browser has kept, nothing else is.
_KEPT_ONLY = """
    const kept = new URLSearchParams(location.search).get("kept");
    if (kept !== null) {
        sessionStorage.clear();
        localStorage.clear();
        Object.assign(localStorage, JSON.parse(kept || "{}"));
        history.replaceState(null, "", location.pathname + location.hash);
    }
"""


@dataclass
class Opened:
    """A page, its browser's page object, and the service behind it."""

    page: Any
    service: PageService
    address: str

    def value(self, selector: str, expected: str) -> None:
        """Waits until a field has a value."""
        self.until(f"document.querySelector({selector!r}).value === {json.dumps(expected)}")

    def translation(self, expected: str) -> None:
        """Waits until the translation is this text."""
        self.value("#output", expected)

    def text_of(self, selector: str, part: str) -> None:
        """Waits until an element shows a text."""
        self.page.locator(selector).filter(has_text=part).first.wait_for(timeout=SECONDS)

    def until(self, condition: str) -> None:
        """Waits until a JavaScript expression is true. The page's policy forbids Playwright's own way of waiting."""
        deadline = time.monotonic() + SECONDS / 1000
        while not self.page.evaluate(condition):
            assert time.monotonic() < deadline, f"{condition}; the page has {self.page.inner_text('body')!r}"
            self.page.wait_for_timeout(50)

    def suggested(self, expected: str) -> None:
        """Waits until this text is what is suggested in grey."""
        grey = "[...document.querySelectorAll('#output-mirror .ghost')]"
        outer = f"{grey}.filter((e) => !e.parentElement.closest('.ghost')).map((e) => e.textContent).join('')"
        self.until(f"{outer} === {json.dumps(expected)}")

    def detailed(self) -> None:
        """Waits until words are linked."""
        self.page.locator("#confidence-figure").wait_for(timeout=SECONDS)

    def translate(self, text: str, expected: str) -> None:
        """Fills in a text, and waits for its translation with links."""
        self.page.fill("#text", text)
        self.translation(expected)
        self.detailed()

    def cursor(self, offset: int) -> None:
        """Puts the cursor into the translation."""
        self.page.focus("#output")
        self.page.evaluate(f"document.querySelector('#output').setSelectionRange({offset}, {offset})")

    def type_at(self, offset: int, text: str) -> None:
        """Types into the translation."""
        self.cursor(offset)
        self.page.keyboard.type(text)

    def middle_of(self, mirror: str, word: str) -> tuple[float, float]:
        """Waits for a word in a mirror, and returns where its middle is in the window."""
        end = time.monotonic() + SECONDS / 1000
        while (middle := self.page.evaluate(_MIDDLE_OF, [mirror, word])) is None:
            assert time.monotonic() < end
            time.sleep(0.02)
        return middle[0], middle[1]

    def marked(self, mirror: str) -> list[str]:
        """Returns the words that are marked in a mirror."""
        return [str(each) for each in self.page.locator(f"{mirror} .linked").all_inner_texts()]


class Pages:
    """Opens the page, for one test after another: the browser, the service and the tab stay, as they are slow to start.

    Each test finds the page as in a new browser: nothing is kept of the test before, and the service has its defaults.
    """

    def __init__(self, browser: Any, service: PageService, address: str) -> None:
        """Takes a browser, and a service that answers at an address."""
        self._browser, self._service, self._address = browser, service, address
        self._unused: dict[str, list[Any]] = {}  # tabs by the options that a tab has from its beginning

    @contextlib.contextmanager
    def opened(
        self,
        *,
        keys: KeyRing | None = None,
        fragment: str = "",
        viewport: dict[str, int] = _VIEWPORT,
        color_scheme: str = "light",
        reduced_motion: str = "no-preference",
        **options: Any,
    ) -> Iterator[Opened]:
        """Yields the page; its complaints, and requests to other servers, fail the test.

        Args:
            keys: of the service; it then is another one, of this test.
            fragment: the end of the page's address; where it is empty, English and German are chosen.
            viewport: the size of the window.
            color_scheme: that the user prefers.
            reduced_motion: whether the user prefers few movements.
            options: further ones of Playwright's `new_context`.
        """
        with self._tab(options) as page, self._served(keys) as (service, address):
            trouble: list[str] = []
            listeners = {
                "console": lambda message: trouble.append(f"{message.type}: {message.text}"),
                "pageerror": lambda error: trouble.append(str(error)),
                "request": lambda sent: None if _is_own(sent.url, address) else trouble.append(sent.url),
            }
            for event, listener in listeners.items():
                page.on(event, listener)
            page.set_viewport_size(viewport)
            page.emulate_media(color_scheme=color_scheme, reduced_motion=reduced_motion)
            kept = "" if keys or fragment else json.dumps({"transduce.languages": '["en","de"]'})
            page.goto(f"{address}/?kept={quote(kept)}{fragment.removeprefix('/')}")
            made = Opened(page, service, address)
            made.until("document.documentElement.dataset.ready")
            yield made
            page.goto("about:blank")  # nothing goes on
            for event, listener in listeners.items():
                page.remove_listener(event, listener)
        unexpected = [each for each in trouble if not any(part in each for part in _PROVOKED)]
        assert not unexpected, unexpected

    @contextlib.contextmanager
    def _tab(self, options: dict[str, Any]) -> Iterator[Any]:
        """Yields a tab that no other page uses."""
        unused = self._unused.setdefault(json.dumps(options), [])
        page = unused.pop() if unused else self._new_tab(options)
        try:
            yield page
        except BaseException:
            page.context.close()
            raise
        page.context.set_offline(False)
        page.unroute_all()
        page.mouse.move(0, 0)
        unused.append(page)

    def _new_tab(self, options: dict[str, Any]) -> Any:
        context = self._browser.new_context(**options)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        context.add_init_script(_KEPT_ONLY)
        return context.new_page()

    @contextlib.contextmanager
    def _served(self, keys: KeyRing | None) -> Iterator[tuple[PageService, str]]:
        if keys is None:
            self._service.reset()
            yield self._service, self._address
        else:
            service = PageService()
            with running(fake_app(service, keys=keys)) as address:
                yield service, address


def _is_own(url: str, address: str) -> bool:
    return url.startswith((f"{address}/", f"blob:{address}/"))
