"""Takes the picture of the service's page in the guide, with Chromium and Playwright, against a running service.

    transduce serve MODEL --port 5000
    python docs/pictures/page.py http://127.0.0.1:5000 "A woman in a red coat sits on a bench. Two young men are riding
        their bicycles in the street. A little girl is eating an ice cream with sprinkles." Bank docs/pictures/page.png

MODEL translates from English into German. The pointer is on the first occurrence of the word in the translation.
"""

import shutil
import sys
from typing import Any

from playwright.sync_api import sync_playwright

_SIZE = {"width": 1280, "height": 800}
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_PATIENCE = 60_000  # milliseconds


def take(page: Any, address: str, text: str, word: str, path: str) -> None:
    """Opens the page, has the text translated, points at the word, and saves the picture."""
    page.set_default_timeout(_PATIENCE)
    page.goto(address)
    page.locator("html[data-ready]").wait_for()
    page.select_option("#source", "en")
    page.select_option("#target", "de")
    page.fill("#text", text)
    page.locator("#confidence-figure").wait_for()
    page.evaluate("document.activeElement.blur()")
    page.locator("#output-mirror .word", has_text=word).first.wait_for()
    box = page.locator("#output-mirror .word", has_text=word).first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.locator("#text-mirror .linked").first.wait_for()
    page.screenshot(path=path)


def main() -> None:
    """Reads the arguments, and takes the picture."""
    address, text, word, path = sys.argv[1:]
    executable = next(filter(None, map(shutil.which, _BROWSERS)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        options = {"viewport": _SIZE, "color_scheme": "light", "reduced_motion": "reduce"}
        take(browser.new_page(**options), address, text, word, path)
        browser.close()


if __name__ == "__main__":
    main()
