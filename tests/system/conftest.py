"""A real browser for the tests of pages, and the service's page in it."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from fake_service import fake_app
from opened_page import Opened, Pages
from page_service import PageService
from running_app import running

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Without a window, too, each new context opens one, for which Chromium loads its own page of suggestions: hundreds of
# scripts, more than all of ours. This replaces Playwright's own list, of which what matters is repeated.
_SWITCHED_OFF = (
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup"),
    *("HttpsUpgrades", "HttpsFirstBalancedModeAutoEnable", "PaintHolding", "ThirdPartyStoragePartitioning"),
    *("DestroyProfileOnBrowserClose", "AvoidUnnecessaryBeforeUnloadCheckSync", "AvoidCorsURLLoaderRestartOnRedirect"),
    *("LensOverlay", "MediaRouter", "OptimizationHints", "NetworkTimeServiceQuerying", "AimEnabled"),
    "PreconnectToSearch",
)
_FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    f"--disable-features={','.join(_SWITCHED_OFF)}",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser, without a window."""
    sync_api: Any = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed (pip install '.[dev]'): the page is NOT tested"
    )
    path = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if path is None:
        pytest.skip("no Chromium is installed (apt install chromium): the page is NOT tested")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages(browser: Any) -> Iterator[Pages]:
    """What opens the service's page."""
    service = PageService()
    with running(fake_app(service)) as address:
        yield Pages(browser, service, address)


@pytest.fixture
def page(pages: Pages) -> Iterator[Opened]:
    """The service's page."""
    with pages.opened() as made:
        yield made
