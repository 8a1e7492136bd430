"""What it takes to scrape a node of ten thousand partitions, and whether copying notices.

    python -m tests.bench.scraping --pairs 15

The node is made up: its flows' snapshots and its connector's figures are those of so many
partitions, of which a tenth moves, and are served by the real exporter. Copying is a process of its
own, as in `mm2 run`: a real partition's copy, fed from memory. Pairs of windows follow each other,
each as long as Prometheus waits: one begins with a scrape, the other has none; what is told is the
median of their quotients. That says something on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized

from connect_runtime.adapters.http import metrics_exporter
from connect_runtime.base import ids
from connect_runtime.base import metrics as base_metrics
from connect_runtime.ports import pages
from connect_runtime.system import clock, polling
from mm2.app import metrics, node_metrics, observing, overview, rates
from mm2.connectors import flow_status, task_metrics
from mm2.core import mirror_metrics
from mm2.core.copy import ages, messages, setup
from tests.fakes import copying, taking
from tests.support import statuses

FLOW = "east->west"
TOPICS = 100
WINDOW_S = 15.0
"""What Prometheus usually waits between scrapes."""
BEGINS_S = 60.0
PATHS = ("/metrics", "/partitions", observing.JAVA_PATH)
"""By topic, by partition, and by MirrorMaker 2's names."""
_CLOCK = clock.SystemClock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """`seconds`: the median and the longest of a few; `cpu_s`: the median of what it costs, ours
    who read it included."""

    path: str
    seconds: tuple[float, float]
    cpu_s: float
    bytes: int
    lines: int


class Node:
    """What is served of a flow of so many partitions, without the flow."""

    def __init__(self, partitions: int) -> None:
        self.places = [
            ids.TopicPartition(f"topic-{number % TOPICS}", number // TOPICS)
            for number in range(partitions)
        ]
        self.metrics = metrics.FlowMetrics(wall_ms=_CLOCK.wall_ms)
        self.status = self._status(0)
        self._figures = self._java_figures()
        self.look()

    def _status(self, moved: int) -> flow_status.FlowStatus:
        now_ms = _CLOCK.wall_ms()
        found = [
            statuses.partition(
                place.topic,
                place.partition,
                records=moved if at % 10 == 0 else 5,
                bytes=100,
                copied_to=5,
                source_end=7 if at % 10 == 0 else 5,
                oldest_ms=now_ms - 20 if at % 10 == 0 else -1,
                unrecorded_ms=0,
            )
            for at, place in enumerate(self.places)
        ]
        return statuses.flow(*found)

    def _java_figures(self) -> task_metrics.SourceMetrics:
        owner = mirror_metrics.Owner(
            task=ids.ConnectorTaskId("MirrorSourceConnector", 0),
            source="east",
            target="west",
            formats=(mirror_metrics.LEGACY,),
        )
        wheres = [
            taking.where(
                topic=each.topic, remote_topic=f"east.{each.topic}", partition=each.partition
            )
            for each in self.places
        ]
        found = task_metrics.SourceMetrics(owner, wheres, clock=_CLOCK)
        for at, where in enumerate(wheres):
            found.observe(where, _gauge(at, where))
        return found

    def look(self) -> None:
        """As the main loop does."""
        seen = overview.make(
            [self.status], rates.Rates(), wall_ms=_CLOCK.wall_ms(), engine_ready=True
        )
        self.metrics.observe([self.status], seen, engine_ready=True)

    def exporter(self) -> metrics_exporter.MetricsExporter:
        by_topic = node_metrics.NodeMetrics(self.metrics.registry, dict)
        by_partition = node_metrics.NodeMetrics(
            self.metrics.registry,
            dict,
            more=lambda: metrics.by_partition(self.metrics.statuses, _CLOCK.wall_ms()),
        )
        java = node_metrics.JavaMetrics(self._families, lambda: self.metrics.statuses)
        beside: pages.Pages = {
            "/partitions": lambda _: metrics_exporter.page(by_partition),
            observing.JAVA_PATH: lambda _: metrics_exporter.page(java),
        }
        return metrics_exporter.MetricsExporter(by_topic, host="127.0.0.1", port=0, beside=beside)

    def _families(self) -> Mapping[str, list[base_metrics.Family]]:
        return {FLOW: self._figures.families()}


def _gauge(index: int, where: setup.PartitionSetup) -> messages.Gauge:
    some = ages.Ages(5, 100, 10, 30)
    return messages.Gauge(
        index=index,
        phase="copying",
        records=5,
        bytes=100,
        copied_to=5,
        source_end=5 + where.partition % 2,
        log_start=0,
        age_ms=10,
        oldest_ms=-1,
        transactional=False,
        reason="",
        cause="",
        arrived=some,
        stored=some,
    )


def scrape(url: str) -> tuple[float, str]:
    began_s = _CLOCK.now_s()
    with urllib.request.urlopen(url, timeout=60.0) as answer:
        text = answer.read().decode()
    return _CLOCK.now_s() - began_s, text


def scrapes(url: str, times: int) -> list[Scrape]:
    """Of each path so many; `url` is the exporter's."""
    found = []
    for path in PATHS:
        took, cost = [], []
        for _ in range(times):
            before_s = time.process_time()
            seconds, text = scrape(url.removesuffix(metrics_exporter.PATH) + path)
            cost.append(time.process_time() - before_s)
            took.append(seconds)
        found.append(
            Scrape(
                path=path,
                seconds=(statistics.median(took), max(took)),
                cpu_s=statistics.median(cost),
                bytes=len(text),
                lines=text.count("\n"),
            )
        )
    return found


def copy(count: Synchronized[int], stop: Synchronized[int]) -> None:
    """A process' work: batches through a partition's copy, counted."""
    batch = copying.batch
    held = [batch(at) for at in range(50)]
    while not stop.value:
        world = copying.begun(*held)
        world.copied(*held)
        count.value += len(held)


def pairs(url: str, number: int, path: str, *, window_s: float) -> list[float]:
    """Of each pair of windows: how much was copied with scrapes, to without."""
    apart = multiprocessing.get_context("spawn")
    count, stop = apart.Value("q", 0), apart.Value("i", 0)
    child = apart.Process(target=copy, args=(count, stop))
    child.start()
    address = url.removesuffix(metrics_exporter.PATH) + path
    try:
        begins = polling.until(lambda: count.value > 0, timeout_s=BEGINS_S)
        assert begins, "the copy has not begun"
        found = []
        for _ in range(number):
            with_one = _window(count, window_s, lambda: scrape(address))
            found.append(with_one / _window(count, window_s, lambda: None))
        return found
    finally:
        stop.value = 1
        child.join(BEGINS_S)


def _window(count: Synchronized[int], window_s: float, first: Callable[[], object]) -> float:
    """Batches per second."""
    before, began_s = count.value, _CLOCK.now_s()
    first()
    left_s = began_s + window_s - _CLOCK.now_s()
    polling.until(lambda: False, timeout_s=max(0.0, left_s))
    return (count.value - before) / (_CLOCK.now_s() - began_s)


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--partitions", type=int, default=10_000)
    given.add_argument("--times", type=int, default=10)
    given.add_argument("--pairs", type=int, default=10)
    given.add_argument("--window", type=float, default=WINDOW_S)
    asked = given.parse_args()
    node = Node(asked.partitions)
    exporter = node.exporter()
    exporter.start()
    try:
        _say(f"{asked.partitions:,} partitions of {TOPICS} topics")
        for each in scrapes(exporter.url, asked.times):
            median_s, most_s = each.seconds
            _say(
                f"{each.path:15} {each.lines:9,} lines {each.bytes / 1e6:6.1f} MB  "
                f"median {median_s * 1000:6.0f} ms  most {most_s * 1000:6.0f} ms  "
                f"CPU {each.cpu_s * 1000:6.0f} ms"
            )
        took = [_timed(node.look) for _ in range(asked.times)]
        _say(f"a look at the same     median {statistics.median(took) * 1000:6.1f} ms")
        for path in PATHS:
            found = pairs(exporter.url, asked.pairs, path, window_s=asked.window)
            _say(
                f"copied with a scrape of {path} each {asked.window:g} s, to without: "
                f"{statistics.median(found):.3f} ({min(found):.3f} to {max(found):.3f})"
            )
    finally:
        exporter.stop()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _timed(action: Callable[[], object]) -> float:
    began_s = _CLOCK.now_s()
    action()
    return _CLOCK.now_s() - began_s


if __name__ == "__main__":
    main()
