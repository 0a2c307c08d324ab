"""A real browser for tests: the Chromium of the system, without a screen, driven by playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")

_TELL_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation",
  (event) => window.violations.push(event.violatedDirective + " " + event.blockedURI));
"""
_ALONE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
"""No name leads anywhere: a page that needs the network shows it."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser while the context lasts."""
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=CHROMIUM, args=[*sandbox, _ALONE, "--disable-background-networking"]
        )
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Visit:
    """A page, and all that went wrong on it."""

    page: Page
    context: BrowserContext
    requests: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    def require_clean(self, origin: str) -> None:
        """No request left the machine, nothing was complained about, and the policy had nothing to forbid."""
        assert not [url for url in self.requests if not url.startswith(f"{origin}/")]
        assert not self.troubles
        assert self.page.evaluate("window.violations") == []

    def number(self, name: str) -> int:
        """What the canvas says of itself."""
        return int(self.page.locator("#graph").get_attribute(f"data-{name}") or 0)


@contextmanager
def visit(browser: Browser, url: str, **options: Any) -> Iterator[Visit]:
    """Open the page and wait until it is there."""
    context = browser.new_context(**({"viewport": {"width": 1360, "height": 900}} | options))
    context.add_init_script(_TELL_VIOLATIONS)
    page = context.new_page()
    seen = Visit(page, context)

    def console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            seen.troubles.append(message.text)

    def requested(request: Request) -> None:
        seen.requests.append(request.url)

    page.on("console", console)
    page.on("pageerror", lambda fault: seen.troubles.append(str(fault)))
    page.on("request", requested)
    try:
        page.goto(url)
        page.wait_for_selector("body[data-ready]", timeout=60_000)
        yield seen
    finally:
        context.close()
