"""A real browser: Debian's Chromium, installed or unpacked by `make chromium`, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from .waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2] / "build" / "chromium"
UNPACKED = ROOT / "usr" / "lib" / "chromium" / "chromium"
ABSENT = "there is no chromium; `make chromium` unpacks Debian's"

# Nothing goes out: a browser's own services are off.
_FLAGS = [
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-extensions"),
    *("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost",),
]
_FONTS = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>/usr/share/fonts</dir><dir>{unpacked}/usr/share/fonts</dir><cachedir>{cache}</cachedir>
<alias><family>system-ui</family><prefer><family>DejaVu Sans</family></prefer></alias>
<alias><family>sans-serif</family><prefer><family>DejaVu Sans</family></prefer></alias>
<alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""

expect.set_options(timeout=PATIENCE_S * 1000)


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """The browser; skips the test if there is none. Its files are in `folder`."""
    installed = shutil.which("chromium")
    if installed is None and not UNPACKED.exists():
        pytest.skip(ABSENT)
    environment: dict[str, str | float | bool] = dict(os.environ)
    environment |= {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    if installed is None:
        places = sorted({str(path.parent) for path in (ROOT / "usr" / "lib").rglob("*.so*")})
        fonts = folder / "fonts.conf"
        fonts.write_text(_FONTS.format(unpacked=ROOT, cache=folder / "fonts"))
        environment |= {"LD_LIBRARY_PATH": ":".join(places), "FONTCONFIG_FILE": str(fonts)}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=installed or UNPACKED, args=_FLAGS, env=environment, timeout=PATIENCE_S * 1000
        )
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """A page of the console in a window of its own; counts clicks, and notes what goes wrong in it."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.url = url
        self.faults: list[str] = []
        self.clicks = 0
        context.set_default_timeout(PATIENCE_S * 1000)
        self.page: Page = context.new_page()
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on(
            "console",
            lambda said: self.faults.append(said.text) if _is_fault(said.type, said.text) else None,
        )
        self.page.on("request", lambda request: self._note_request(request.url))

    def go(self, path: str = "") -> Page:
        """The page at a path, such as `#/crawls/docs/queues`."""
        self.page.goto(f"{self.url}/{path}")
        return self.page

    def click(self, name: str, role: Literal["button", "link"] = "button", exact: bool = True) -> None:
        """Click on a button or link by its name, as a person reads it."""
        self.clicks += 1
        self.page.get_by_role(role, name=name, exact=exact).first.click()

    def violations(self) -> list[str]:
        """The findings of axe on the page as it is now."""
        found = Axe().run(self.page).response["violations"]
        return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found]

    def _note_request(self, url: str) -> None:
        if urlsplit(url).netloc != urlsplit(self.url).netloc and not url.startswith(("data:", "blob:")):
            self.faults.append(f"request to {url}")


def _is_fault(kind: str, text: str) -> bool:
    """Whether a message of the browser's console is a fault. Answers with an error status are told, too."""
    return kind in ("error", "warning") and "Failed to load resource" not in text


@contextmanager
def visit(browser: Browser, url: str, **settings: object) -> Iterator[Visit]:
    """A window, which must have no fault at its end."""
    context = browser.new_context(**settings)  # type: ignore[arg-type]  # Playwright checks them
    try:
        visited = Visit(context, url)
        yield visited
        assert not visited.faults, visited.faults
    finally:
        context.close()
