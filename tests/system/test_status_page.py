"""The status page of a real `mm2 run`, in a real browser: what it shows, that it changes, and that
it says so where it shows what was."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2 import suggested_commands
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import browser as support_browser
from tests.support import checkpoints, content, eventually, kafka, mirror, operations
from tests.support.browser import Browser
from tests.support.kafka import Properties
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.timeout(420)]

SOON_S = 60.0
STALE_S = 30.0
WIDTHS = (320, 390, 760, 1280)
BACKLOG, KEPT_FROM = 400, 390
RATE = 5
"""The column of a topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A topic with a group that reads it, and one that its source deletes before it is copied."""

    run: Mirror
    source: Properties
    target: Properties
    orders: str
    store: str
    group: str
    url: str

    def produce(self, count: int) -> None:
        kafka.produce(self.source, self.orders, content.some(count))

    def read_to(self, offset: int) -> None:
        checkpoints.commit(self.source, self.group, {TopicPartition(self.orders, 0): offset})


@pytest.fixture
def scene(
    tmp_path: Path,
    east: SandboxCluster,
    own_cluster: Callable[..., SandboxCluster],
    topic: Callable[..., str],
) -> Iterator[Scene]:
    """The target is its own: what is found there of others' flows would be shown, too."""
    source, target = east.client_properties(), own_cluster("west").client_properties()
    orders = kafka.create_topic(source, topic("orders"), partitions=2)
    store = kafka.create_topic(source, topic("store"))
    group = f"{orders}-billing"
    for _ in range(BACKLOG // 20):
        kafka.produce(source, store, content.some(20, bytes_each=1000))
    kafka.produce(source, orders, content.some(50))
    checkpoints.commit(source, group, {TopicPartition(orders, 0): 20})
    given = mirror.settings(
        source,
        target,
        topics=[orders, store],
        groups=[re.escape(group)],
        spark={"engine": "inline"},
        refresh_groups_interval_seconds=1,
        emit_checkpoints_interval_seconds=1,
        on_source_gap="fail",
        throttle_topics=[f"{re.escape(store)}=2kB"],
    )
    with Mirror(tmp_path, given) as run:
        url = run.await_log(r"the status page is available at (\S+)/ui")[1]
        run.await_records(50, topic=orders)
        yield Scene(
            run=run,
            source=source,
            target=target,
            orders=orders,
            store=store,
            group=group,
            url=url,
        )


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with support_browser.opened(tmp_path) as found:
        yield found
        assert found.foreign() == []


def test_flows_groups_and_what_stands_still_are_shown_and_change(scene: Scene, browser: Browser):
    browser.open(f"{scene.url}/")
    assert browser.url == f"{scene.url}/ui", "a browser is led on"
    browser.await_text("#flows", "east->west")
    browser.await_text("#topology", "east")
    browser.await_text("#groups", scene.group)
    flows_change(scene, browser)
    groups_change(scene, browser)
    stops_are_shown(scene, browser)
    plans_are_made(scene, browser)
    browser.await_text("#charts", "now")
    assert browser.complaints() == []


def flows_change(scene: Scene, browser: Browser) -> None:
    row = "#flows tbody tr"
    browser.await_text(f"{row} td:nth-child(2)", "running")
    before = numbers(scene)
    scene.produce(300)

    eventually.eventually(
        lambda: numbers(scene)["copied_records"] >= before["copied_records"] + 300,
        SOON_S,
        lambda: f"{before}, now {numbers(scene)}",
    )
    eventually.eventually(
        lambda: browser.cells("#topics", scene.orders)[RATE] not in ("0", "unknown"),
        SOON_S,
        lambda: browser.text("#topics"),
    )
    browser.await_text("#topics", f"as east.{scene.orders}")


def numbers(scene: Scene) -> dict[str, Any]:
    with urllib.request.urlopen(f"{scene.url}/ui/api/overview", timeout=10.0) as answer:
        found = json.loads(answer.read())
    assert found["version"] == 1
    (flow,) = found["flows"]
    return dict(flow)


def groups_change(scene: Scene, browser: Browser) -> None:
    """Where the group goes on is what its checkpoint on the target says."""
    browser.click("#groups summary")
    browser.await_text("#groups table tbody td:nth-child(2)", "20")
    scene.read_to(45)
    browser.await_text("#groups table tbody td:nth-child(2)", "45", SOON_S)
    eventually.eventually(
        lambda: browser.text("#groups table tbody td:nth-child(3)") == str(45 + shift(scene)),
        SOON_S,
        lambda: browser.text("#groups table"),
    )
    assert f"{scene.orders}-0" in browser.text("#groups table")
    browser.type("#group-filter", "nobody")
    eventually.eventually(lambda: browser.text("#groups") == "", SOON_S)
    browser.type("#group-filter", scene.group[-7:])
    browser.await_text("#groups", scene.group)


def shift(scene: Scene) -> int:
    """By how much offsets of the mirror are ahead, once all is copied: by markers in it."""
    here = kafka.offsets(scene.source, scene.orders)[1]
    return kafka.offsets(scene.target, f"east.{scene.orders}")[1] - here


def stops_are_shown(scene: Scene, browser: Browser) -> None:
    assert browser.text("#halts-section") == ""
    operations.delete_records(scene.source, scene.store, KEPT_FROM)
    scene.run.await_stopped(scene.store, "source-gap", SOON_S)
    line = scene.run.await_log(rf"{scene.store}-0 is halted: (.*)\n")[1]
    browser.await_text("#halts-section", "on.source.gap is fail")
    assert browser.text("#halts-section .chip") == "halted"
    assert browser.text(
        "#halts-section .command"
    ) == suggested_commands.extract_remedy_from_message(line)
    browser.await_text("#flows tbody tr td:nth-child(2)", "running, 1 halted")
    assert browser.title == "unhealthy · mm2"
    browser.await_text("#estimate", "1 partition halted")


def plans_are_made(scene: Scene, browser: Browser) -> None:
    browser.await_text("#incidents-note", "No incidents; as of", SOON_S)
    browser.await_text("#plan", "no plan yet")
    browser.click("#look")
    browser.await_text("#plan", "plan of mm2 failover, as of", SOON_S)
    told = mirror.mm2(
        *("failover", "--from", "east", "--to", "west"),
        *("--config", scene.run.settings_path, "--json"),
    )
    verdict = json.loads(told.stdout)["verdict"].replace("go-at-a-cost", "go, at a cost")
    assert browser.text("#plan .chip").lower() == verdict
    assert "Groups" in browser.text("#plan dl")


def test_it_fits_can_be_read_and_is_reached_by_the_keyboard(
    scene: Scene, browser: Browser, tmp_path: Path
):
    operations.delete_records(scene.source, scene.store, KEPT_FROM)
    scene.run.await_stopped(scene.store, "source-gap", SOON_S)
    browser.open(f"{scene.url}/ui")
    browser.await_text("#halts-section", "on.source.gap is fail")
    browser.await_text("#groups", scene.group)
    browser.click("#groups summary")
    for dark in (False, True):
        for width in WIDTHS:
            browser.size(width, dark=dark)
            browser.await_text("#flows", "east->west")
            assert browser.overflow() <= 0, width
            assert browser.faint() == [], (width, dark)
    browser.size(1280)
    reached = browser.tabbed(12)
    assert reached[:3] == ["a", "a", "a"], "past all to the flows; the way on the map; its row"
    assert {"input#topic-filter", "input#group-filter", "button#look"} <= set(reached)
    assert {"summary"} <= set(reached)
    assert browser.complaints() == []
    the_judges_see(browser)


def the_judges_see(browser: Browser) -> None:
    """Faults that are planted are found."""
    browser.script("document.getElementById('notes').style.width = '3000px'")
    assert browser.overflow() > 0
    browser.script(
        "document.getElementById('notes').style.width = '';"
        "document.getElementById('node').style.color = '#bbb'"
    )
    assert len(browser.faint()) == 1
    browser.script(
        "const on = document.createElement('script'); on.textContent = 'window.planted = 1';"
        "document.body.append(on); fetch('http://127.0.0.1:9/').catch(() => 0)"
    )
    told = eventually.eventually(browser.complaints, SOON_S)
    assert any("Content Security Policy" in each for each in told), told
    assert browser.script("return window.planted") is None, "nothing inline runs"


@pytest.mark.full
def test_a_process_that_stands_still_leaves_no_page_that_looks_fresh(
    scene: Scene, browser: Browser
):
    browser.open(f"{scene.url}/ui")
    browser.await_text("#flows", "running")
    assert browser.text("#stale") == ""
    scene.run.freeze()
    browser.await_text("#stale", "The process does not respond", STALE_S)
    assert re.search(r"The page shows the state of \S+ \S+Z\.", browser.text("#stale"))
    assert browser.title == "stale · mm2"
    assert re.fullmatch(r"stale: [\d.]+ s old", browser.text("#fresh"))
    scene.run.thaw()
    eventually.eventually(lambda: browser.text("#stale") == "", STALE_S)
    browser.await_text("#fresh", "as of")
    scene.run.kill()
    browser.await_text("#stale", "The process does not respond", STALE_S)


def test_what_is_served_changes_nothing(scene: Scene):
    names = ("", "/ui.js", "/api/overview", "/api/flow?flow=east-%3Ewest", "/api/groups?flow=x")
    for name in names:
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert status(f"{scene.url}/ui{name}", method) in (401, 404, 405), (name, method)
    document = status(f"{scene.url}/", "GET", accept="application/json")
    assert document == 200
    with urllib.request.urlopen(f"{scene.url}/ui/api/overview", timeout=10.0) as answer:
        policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")


def status(url: str, method: str, *, accept: str = "*/*") -> int:
    request = urllib.request.Request(url, method=method, headers={"Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=10.0) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
