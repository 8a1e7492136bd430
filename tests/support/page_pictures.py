"""`python -m tests.support.page_pictures`: pictures of the status page for guides and README.

A real `mm2 run` between two clusters of this machine, with traffic and consumer groups. It is
looked at while all is well, and again when a partition stands still. Needs Chromium.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
import threading
from pathlib import Path

import click
import confluent_kafka

from connect_runtime.base.ids import TopicPartition
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import browser, checkpoints, content, eventually, kafka, mirror, operations
from tests.support.browser import Browser
from tests.support.kafka import Outgoing, Properties
from tests.support.mirror import Mirror
from tests.support.rounds import Rounds

PICTURES = mirror.ROOT / "docs" / "guides" / "pictures"
TOPICS = {"orders": 4, "payments": 2, "clicks": 3, "store": 1}
PER_TURN = {"orders": 9, "payments": 3, "clicks": 24}
TURN_S = 0.25
WAVE_TURNS = 400
"""From one rush to the next: clicks are throttled, and come late in it."""
VALUE = b"x" * 400
GROUPS = {"billing": ("orders", 0), "shop": ("orders", 240), "warehouse": ("payments", 90)}
"""What each reads, and how far it stays behind the end."""
READ_TURNS = 40
BATCHES, BATCH = 20, 20
"""More than passes before the source deletes most of it."""
WIDE, PHONE = 1280, 390
HEIGHT_MAX = 1500
SOON_S = 120.0


class Traffic(Rounds):
    """A turn with nothing in it while `quiet` is set."""

    def __init__(self, source: Properties) -> None:
        super().__init__("traffic")
        self._source = source
        self._producer = confluent_kafka.Producer(kafka.client_config(source, linger_ms=20))
        self.quiet = threading.Event()

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(TURN_S):
            if not self.quiet.is_set():
                self._write(1 + math.sin(2 * math.pi * self.rounds / WAVE_TURNS))
            if self.rounds % READ_TURNS == 0:
                self._read()
            self.rounds += 1

    def _write(self, rush: float) -> None:
        for topic, count in PER_TURN.items():
            records = (
                Outgoing(value=VALUE, partition=number % TOPICS[topic])
                for number in range(round(count * rush))
            )
            kafka.send(self._producer, topic, records)
        kafka.flush(self._producer)

    def _read(self) -> None:
        for group, (topic, behind) in GROUPS.items():
            ends = [kafka.offsets(self._source, topic, each)[1] for each in range(TOPICS[topic])]
            places = {
                TopicPartition(topic, number): max(0, end - behind)
                for number, end in enumerate(ends)
            }
            checkpoints.commit(self._source, group, places)


def settings(source: Properties, target: Properties) -> dict[str, object]:
    both = {
        "replication.factor": 1,
        "emit.heartbeats.enabled": True,
        "emit.checkpoints.interval.seconds": 5,
        "refresh.groups.interval.seconds": 5,
        "refresh.topics.interval.seconds": 5,
    }
    there = {
        "topics": [*TOPICS],
        "groups": [*GROUPS],
        "tasks.max": 2,
        "on.source.gap": "fail",
        "throttle.topics": ["clicks=50kB", "store=2kB"],
    }
    return {
        "clusters": {"east": dict(source), "west": dict(target)},
        "flows": [
            {"from": "east", "to": "west", **both, **there},
            {"from": "west", "to": "east", **both, "topics": "stock"},
        ],
    }


def picture(browser: Browser, name: str, width: int, *, dark: bool) -> None:
    """From its top, once all is drawn for this width."""
    browser.size(width, dark=dark)
    eventually.eventually(lambda: bool(browser.script(FITS)), SOON_S)
    browser.picture(PICTURES / f"{name}.png", height_max=HEIGHT_MAX)


# Charts and the map are drawn for the width they have.
FITS = """
const drawn = [...document.querySelectorAll("#topology, .chart")];
return drawn.length === 4 && drawn.every((on) => on.viewBox.baseVal.width === on.clientWidth);
"""


def look(browser: Browser, run: Mirror, traffic: Traffic, source: Properties) -> None:
    browser.open(run.await_log(r"the status page is available at (\S+)/ui")[1] + "/ui")
    browser.await_text("#groups", "warehouse", SOON_S)
    browser.click("#groups summary")
    planned(browser, run, traffic)
    picture(browser, "status-page", WIDE, dark=False)
    picture(browser, "status-page-phone", PHONE, dark=False)
    for _ in range(BATCHES):
        kafka.produce(source, "store", content.some(BATCH, bytes_each=1000))
    operations.delete_records(source, "store", BATCHES * BATCH - 10)
    browser.await_text("#halts-section", "on.source.gap is fail", SOON_S)
    eventually.eventually(lambda: planned_anew(browser), SOON_S, interval_s=5.0)
    picture(browser, "status-page-dark", WIDE, dark=True)
    picture(browser, "status-page-phone-dark", PHONE, dark=True)


def planned_anew(browser: Browser) -> bool:
    """Plans are made no oftener than every half minute."""
    browser.click("#look")
    return not browser.text("#plan .chip").startswith("GO (outdated)")


def planned(browser: Browser, run: Mirror, traffic: Traffic) -> None:
    """While nothing is under way."""
    traffic.quiet.set()
    eventually.eventually(lambda: run.figure("mm2_replication_lag_records") == 0, SOON_S)
    browser.click("#look")
    browser.await_text("#plan", "plan of mm2 failover, as of", SOON_S)
    traffic.quiet.clear()


@click.command()
@click.option("--seconds", default=420.0, show_default=True, help="Of traffic, before the first.")
def main(*, seconds: float) -> None:
    """Make the pictures anew."""
    PICTURES.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mm2-")))
        east, west = (stack.enter_context(SandboxCluster(name)) for name in ("east", "west"))
        source, target = east.client_properties(), west.client_properties()
        for name, partitions in TOPICS.items():
            kafka.create_topic(source, name, partitions=partitions)
        kafka.create_topic(target, "stock")
        given = settings(source, target)
        run = stack.enter_context(Mirror(folder, given, name="clusters"))
        traffic = stack.enter_context(Traffic(source))
        eventually.eventually(lambda: traffic.rounds >= seconds / TURN_S, 2 * seconds + SOON_S)
        look(stack.enter_context(browser.opened(folder)), run, traffic, source)


if __name__ == "__main__":
    main()
