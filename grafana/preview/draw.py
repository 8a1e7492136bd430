"""`python -m grafana.preview.draw`: pictures of dashboards as Grafana would show them.

Needs Node and Chromium and, in this folder, `npm install --legacy-peer-deps && npx vite build`.
What panels ask is asked of a Prometheus, for a span of time that ended at `--end`; the answers are
laid beside the built page, which draws them.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from selenium import webdriver
from selenium.webdriver.chrome import service
from selenium.webdriver.support import wait

from grafana.generator import boards

HERE = Path(__file__).parent
PAGE = HERE / "dist"
DRAWN_S = 60.0
_POINTS = 300
_CHROME = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")


def told(board: dict[str, Any], prometheus: str, *, end: float, span: float) -> dict[str, Any]:
    """The board, and for each panel and query what Prometheus answers."""
    step = max(1, int(span / _POINTS))
    panels = {
        panel["id"]: {
            target["refId"]: _ask(target, prometheus, end=end, span=span, step=step)
            for target in panel["targets"]
        }
        for panel in board["panels"]
        if panel["type"] != "row"
    }
    return {"board": board, "start": end - span, "end": end, "panels": panels}


def _ask(target: dict[str, Any], prometheus: str, *, end: float, span: float, step: int) -> Any:
    expr = target["expr"]
    for name, value in (("$__rate_interval", f"{max(15, 4 * step)}s"), ("$flow", ".*")):
        expr = expr.replace(name, value)
    expr = expr.replace("$topic", ".*")
    if target.get("instant"):
        path, times = "query", {"time": end}
    else:
        path, times = "query_range", {"start": end - span, "end": end, "step": step}
    query = urllib.parse.urlencode({"query": expr, **times})
    with urllib.request.urlopen(f"{prometheus}/api/v1/{path}?{query}") as answer:  # noqa: S310
        return json.load(answer)["data"]["result"]


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The folder over HTTP, at a port of this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    at = ["--bind", "127.0.0.1", "--directory", str(folder), str(port)]
    server = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "http.server", *at],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


@contextlib.contextmanager
def browser() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for each in _CHROME:
        options.add_argument(each)
    driver = webdriver.Chrome(options, service.Service(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def shoot(driver: webdriver.Chrome, address: str, *, width: int, to: Path) -> None:
    """The page in its whole height."""

    def resize(height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    resize(1200)
    driver.get(address)
    canvases = "return document.querySelectorAll('canvas').length"
    wait.WebDriverWait(driver, DRAWN_S).until(lambda page: page.execute_script(canvases))
    resize(driver.execute_script("return document.documentElement.scrollHeight"))
    driver.execute_async_script("setTimeout(arguments[0], 1500)")
    driver.save_screenshot(str(to))


@click.command()
@click.option("--prometheus", required=True, help="Its URL.")
@click.option("--end", type=float, required=True, help="Unix time.")
@click.option("--span", type=float, default=3600.0, show_default=True, help="Seconds before it.")
@click.option("--to", type=click.Path(path_type=Path), default=HERE.parent / "pictures")
@click.argument("pictures", nargs=-1, required=True, metavar="BOARD:THEME:WIDTH…")
def main(*, prometheus: str, end: float, span: float, to: Path, pictures: Sequence[str]) -> None:
    """Draw pictures such as mm2-overview:dark:1400."""
    to.mkdir(exist_ok=True)
    with served(PAGE) as base, browser() as driver:
        for name in pictures:
            uid, theme, width = name.split(":")
            board = json.loads((boards.FOLDER / f"{uid}.json").read_text())
            found = told(board, prometheus, end=end, span=span)
            (PAGE / f"{uid}.json").write_text(json.dumps(found))
            address = f"{base}/?board={uid}&theme={theme}"
            shoot(driver, address, width=int(width), to=to / f"{uid}-{theme}-{width}.png")


if __name__ == "__main__":
    main()
