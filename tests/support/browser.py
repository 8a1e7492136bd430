"""A real browser without a window, and judges of what it shows: what is asked of whom, what it
complains of, what does not fit, what cannot be read."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib import parse

from selenium import webdriver
from selenium.webdriver.chrome import service

from tests.support import debian_tools, eventually

_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
)
_OWN = ("data:", "chrome:")
"""What stands in the page itself, and what the browser shows before there is one."""
SOON_S = 30.0
CONTRAST_LEAST = 4.5
"""WCAG 2.1, 1.4.3, of text that is not large."""
_CONTRAST = """
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
function rgba(color) {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
}
function ground(on) {
  for (let each = on; each; each = each.parentElement) {
    const found = rgba(getComputedStyle(each).backgroundColor);
    if (found[3] === 255) return found;
  }
  return [255, 255, 255, 255];
}
function light([red, green, blue]) {
  const [r, g, b] = [red, green, blue].map((each) => each / 255)
    .map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
const LEFT_OUT = "title,script,noscript,.hidden,button:disabled";
const found = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const on = walk.currentNode.parentElement, style = getComputedStyle(on), svg = on.closest("svg");
  const said = walk.currentNode.data.trim();
  const seen = on.getClientRects().length && style.visibility !== "hidden";
  if (!said || !seen || on.closest(LEFT_OUT)) continue;
  const color = rgba(svg ? style.fill : style.color);
  const both = [light(color), light(ground(svg ? svg.parentElement : on))];
  const ratio = (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
  if (ratio < arguments[0]) found.push(`${said.slice(0, 40)}: ${ratio.toFixed(2)}`);
}
return found;
"""


class Browser:
    """One tab. Everything it asks for and complains of is noted since it began."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self._driver = driver
        self.asked: list[str] = []
        self.size(1280)

    def open(self, url: str) -> None:
        self._driver.get(url)

    @property
    def url(self) -> str:
        return str(self._driver.current_url)

    @property
    def title(self) -> str:
        return str(self._driver.title)

    def script(self, text: str, *arguments: object) -> Any:
        """What the function of this body returns."""
        return self._driver.execute_script(text, *arguments)

    def text(self, selector: str) -> str:
        """What people can read there; "" where nothing is shown."""
        found = self.script(
            "const on = document.querySelector(arguments[0]);"
            "return on?.getClientRects().length ? on.innerText ?? on.textContent : ''",
            selector,
        )
        return str(found or "")

    def cells(self, table: str, name: str) -> list[str]:
        """Of the row whose head has this in it; none where there is no such row."""
        return list(
            self.script(
                "const rows = [...document.querySelectorAll(arguments[0] + ' tbody tr')];"
                "const found = rows.find((each) => each.cells[0].innerText.includes(arguments[1]));"
                "return found ? [...found.cells].map((each) => each.innerText) : []",
                *(table, name),
            )
        )

    def await_text(self, selector: str, words: str, deadline_s: float = SOON_S) -> None:
        eventually.eventually(
            lambda: words in self.text(selector),
            deadline_s,
            lambda: f"{selector} says {words!r}; it says {self.text(selector)!r}",
        )

    def click(self, selector: str) -> None:
        self.script("document.querySelector(arguments[0]).click()", selector)

    def type(self, selector: str, text: str) -> None:
        """In place of what stands there."""
        self.script(
            "const on = document.querySelector(arguments[0]); on.value = arguments[1];"
            "on.dispatchEvent(new Event('input', { bubbles: true }))",
            *(selector, text),
        )

    def size(self, width: int, *, dark: bool = False, height: int = 900) -> None:
        """A window of so many pixels; a narrow one is a phone's."""
        self._tell(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._tell("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, file: Path, *, height_max: int = 3000) -> None:
        """The whole page, as PNG."""
        size = self._tell("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "scale": 1}
        clip["height"] = min(size["height"], height_max)
        data = self._tell("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        file.write_bytes(base64.b64decode(data))

    # Judges

    def foreign(self) -> list[str]:
        """Addresses that were asked for elsewhere than at the page's own server."""
        for each in self._driver.get_log("performance"):
            told = json.loads(each["message"])["message"]
            if told["method"] == "Network.requestWillBeSent":
                self.asked.append(told["params"]["request"]["url"])
        home = parse.urlsplit(self.url)[:2]
        outside = (each for each in self.asked if not each.startswith(_OWN))
        return [each for each in outside if parse.urlsplit(each)[:2] != home]

    def complaints(self) -> list[str]:
        """New lines of its console."""
        return [each["message"] for each in self._driver.get_log("browser")]

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        return int(
            self.script("return document.documentElement.scrollWidth - window.innerWidth") or 0
        )

    def faint(self) -> list[str]:
        """Texts with too little contrast to what is behind them, and how much they have."""
        return list(self.script(_CONTRAST, CONTRAST_LEAST))

    def tabbed(self, times: int) -> list[str]:
        """What the keyboard reaches, one after the other, from the top: tags with their ids."""
        self.script("document.activeElement?.blur(); window.getSelection().removeAllRanges()")
        found = []
        for _ in range(times):
            for kind in ("keyDown", "keyUp"):
                self._tell(
                    "Input.dispatchKeyEvent",
                    type=kind,
                    key="Tab",
                    code="Tab",
                    windowsVirtualKeyCode=9,
                )
            found.append(
                str(
                    self.script(
                        "const on = document.activeElement;"
                        "return on.tagName.toLowerCase() + (on.id ? '#' + on.id : '')"
                    )
                )
            )
        return found

    def _tell(self, command: str, **more: object) -> dict[str, Any]:
        return dict(self._driver.execute_cdp_cmd(command, more))


@contextmanager
def opened(folder: Path) -> Iterator[Browser]:
    """A browser of its own; skips the test where there is none. `folder`: for its log."""
    options = webdriver.ChromeOptions()
    options.binary_location = debian_tools.path("chromium")
    for each in (*_OPTIONS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(each)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(
        options=options,
        service=service.Service(
            debian_tools.path("chromedriver"), log_output=str(folder / "chromedriver.log")
        ),
    )
    try:
        driver.set_page_load_timeout(SOON_S)
        driver.set_script_timeout(SOON_S)
        yield Browser(driver)
    finally:
        driver.quit()
