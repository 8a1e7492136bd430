"""What it takes to scrape a node of ten thousand partitions, and whether copying notices.

A real flow of so many partitions, nearly all of them at rest, with `metrics: {by: partition}`. Then
one topic's backlog is copied, and meanwhile pairs of windows follow each other: one begins with a
scrape, the other has none, and which is first changes. What is told of a pair is how much was
copied in the one, to the other. What is served by topic, by default, is that of a made-up node of
as many.
"""

from __future__ import annotations

import contextlib
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from confluent_kafka import admin

from connect_runtime.metrics_server import exporter
from connect_runtime.system import system_clock
from connect_runtime.system.system_clock import SystemClock
from mm2.node import metrics_and_health
from mm2.replication.partition_state import PartitionPhase
from mm2.sandbox import port_reservation
from tests.bench import contestants, machine, process_tree, producing, results, rows, workloads
from tests.bench.contest import FailedError, Running
from tests.bench.contestants import Flow
from tests.bench.ends import Ends
from tests.bench.made_node import Node
from tests.bench.places import Clusters, Place
from tests.bench.results import Results, Scraping
from tests.bench.workloads import Workload
from tests.support import kafka, mirror

Say = Callable[[str], None]

PATHS = {
    results.BY_PARTITION: exporter.METRICS_PATH,
    results.BY_JAVA: metrics_and_health.JAVA_METRICS_PATH,
}
_APART_S = {
    results.BY_PARTITION: 0.5,
    results.BY_JAVA: metrics_and_health.JAVA_METRICS_CACHE_TTL_S + 0.5,
}
"""What is kept is not measured."""
_BUSY = "busy"
_OF_A_TOPIC = 100
_CREATED_AT_ONCE = 10
_CREATE_S = 400.0
_REST_S = 10.0
_ANSWER_S = 60.0
_POLL_S = 0.02
_FIRST_RECORDS = 10_000
_CLOCK = SystemClock()


def run(row: rows.Scraping, *, rounds: int, measured: Results, folder: Path, say: Say) -> None:
    """Of each path `scrapes` a round, and as many pairs; the flow is set up once."""

    def note(one: Scraping) -> None:
        measured.add(one)
        say(told(one))

    times = row.scrapes * rounds
    _by_topic(row, times, note)
    blank = Scraping(path=results.BY_PARTITION, round=1, partitions=row.partitions)
    with Clusters(Place()) as clusters:
        names = _create(row, clusters)
        say(f"{row.partitions:,} partitions stand on the source")
        node = ByPartition()
        flow = Flow(
            source="east",
            target="west",
            source_properties=clusters.source.client_properties(),
            target_properties=clusters.target.client_properties(),
            topics=names,
        )
        with node, Running(node, flow, folder) as running:
            one = _Node(row, running, node.port, clusters=clusters, folder=folder)
            try:
                one.await_all(say)
                for path in PATHS:
                    for found in one.scrapes(path, times):
                        note(found)
                for found in one.pairs(times, say):
                    note(found)
            except FailedError as failed:
                say(failed.log)
                note(replace(blank, fault=str(failed)))


class ByPartition(contextlib.AbstractContextManager["ByPartition"]):
    """`mm2 run` with series for each partition, at a port of its own: a contestant."""

    key = contestants.MM2_RUN.key
    title = contestants.MM2_RUN.title
    settings: tuple[str, ...] = ("metrics: {by: partition}",)

    def __init__(self) -> None:
        self._port = port_reservation.reserve_port()
        self.port = self._port.port

    def command(self, flow: Flow, folder: Path) -> list[str]:
        document = contestants.MM2_RUN.document(flow)
        document["metrics"] = {"by": "partition", "port": self.port}
        path = settings_path(folder)
        path.write_text(json.dumps(document, indent=1))
        return [str(Path(sys.executable).with_name("mm2")), "run", str(path), "--no-table"]

    def __exit__(self, *_: object) -> None:
        self._port.release()


def settings_path(folder: Path) -> Path:
    return folder / "clusters.yaml"


class _Node:
    """The running one."""

    def __init__(
        self,
        row: rows.Scraping,
        running: Running,
        port: int,
        *,
        clusters: Clusters,
        folder: Path,
    ) -> None:
        self._row = row
        self._running = running
        self._address = f"http://127.0.0.1:{port}"
        self._clusters = clusters
        self._settings = settings_path(folder)

    def await_all(self, say: Say) -> None:
        """Until every partition is copied. Raises `FailedError`."""
        phase = f'phase="{PartitionPhase.COPYING.value}"'

        def copying() -> int:
            self._running.check()
            with contextlib.suppress(urllib.error.URLError, OSError):
                _, text = scrape(self._address + exporter.METRICS_PATH)
                lines = [each for each in text.splitlines() if phase in each]
                return sum(int(float(each.rpartition(" ")[2])) for each in lines)
            return 0

        if not system_clock.wait_until(
            lambda: copying() >= self._row.partitions,
            timeout_s=self._row.limit_s,
            interval_s=2.0,
        ):
            raise self._running.failure(
                f"{copying():,} of {self._row.partitions:,} partitions are copied after "
                f"{self._row.limit_s:.0f} s"
            )
        say(f"all are copied {_CLOCK.now_s() - self._running.started_s:.0f} s after the start")

    def scrapes(self, path: str, times: int) -> Iterator[Scraping]:
        """At rest. `cpu_s` is what a scrape costs the node's main process, on average, beyond what
        it does anyway."""
        anyway = self._main_cpu(lambda: _wait(_REST_S)) / _REST_S
        found: list[Scraping] = []
        began_s = _CLOCK.now_s()

        def all_of_them() -> None:
            for number in range(1, times + 1):
                found.append(self._one(path, number))
                _wait(_APART_S[path])

        cpu_s = self._main_cpu(all_of_them) - anyway * (_CLOCK.now_s() - began_s)
        for each in found:
            yield replace(each, cpu_s=max(0.0, cpu_s) / times)

    def pairs(self, times: int, say: Say) -> Iterator[Scraping]:
        """While a backlog is copied, at most as many as it lasts for."""
        self._operate("pause")
        made = Workload(
            topic=_BUSY,
            title="100 B records in batches of 16 KB",
            records=self._row.records,
            record_bytes=100,
            batch_bytes=16 * 1024,
        )
        producing.fill(made, self._clusters.source)
        say(f"{made.records:,} records wait")
        mirrored = self._running.flow.mirrored(_BUSY)
        far = Ends(self._clusters.target.bootstrap, mirrored, partitions=made.partitions)
        with contextlib.closing(far):
            self._operate("resume")
            copied = _Copied(far, self._row.window_s)
            if not system_clock.wait_until(
                lambda: copied.now() >= _FIRST_RECORDS, timeout_s=_ANSWER_S
            ):
                raise self._running.failure("nothing of the backlog is copied")
            for number in range(1, times + 1):
                found = self._pair(number, copied)
                if copied.now() >= made.records:
                    say(f"the backlog has come to its end: {number - 1} pairs")
                    return
                yield found

    def _pair(self, number: int, copied: _Copied) -> Scraping:
        found: list[Scraping] = []
        speeds: dict[bool, float] = {}
        for scraped in (True, False) if number % 2 else (False, True):
            first = (
                (lambda: found.append(self._one(results.BY_PARTITION, number)))
                if scraped
                else (lambda: None)
            )
            speeds[scraped] = copied.window(first)
        return replace(
            found[0],
            while_copying=True,
            to_without=speeds[True] / speeds[False] if speeds[False] else None,
        )

    def _one(self, path: str, number: int) -> Scraping:
        took_s, text = scrape(self._address + PATHS[path])
        return _found(path, number, self._row, took_s=took_s, text=text)

    def _main_cpu(self, action: Callable[[], object]) -> float:
        before = process_tree.process_cpu_s(self._running.tree.root)
        action()
        return process_tree.process_cpu_s(self._running.tree.root) - before

    def _operate(self, command: str) -> None:
        flow = f"{self._running.flow.source}->{self._running.flow.target}"
        done = mirror.mm2(command, flow, "--topic", _BUSY, "--config", self._settings)
        if done.returncode:
            raise self._running.failure(f"mm2 {command}: {done.stdout}{done.stderr}")


class _Copied:
    """How far the busy topic's mirror is."""

    def __init__(self, far: Ends, window_s: float) -> None:
        self._far = far
        self._window_s = window_s

    def now(self) -> int:
        return sum(self._far.now().values())

    def window(self, first: Callable[[], object]) -> float:
        """Records per second of a window that begins with `first`."""
        before, began_s = self.now(), _CLOCK.now_s()
        first()
        _wait(began_s + self._window_s - _CLOCK.now_s())
        return (self.now() - before) / (_CLOCK.now_s() - began_s)


def scrape(url: str) -> tuple[float, str]:
    """Seconds until all of it was here, and what it was."""
    began_s = _CLOCK.now_s()
    with urllib.request.urlopen(url, timeout=_ANSWER_S) as answer:
        text = answer.read().decode()
    return _CLOCK.now_s() - began_s, text


def _by_topic(row: rows.Scraping, times: int, note: Callable[[Scraping], None]) -> None:
    exporter = Node(row.partitions).exporter()
    exporter.start()
    try:
        before_s = process_tree.own_cpu_s()
        taken = [scrape(exporter.url) for _ in range(times)]
        cpu_s = (process_tree.own_cpu_s() - before_s) / times
    finally:
        exporter.stop()
    for number, (took_s, text) in enumerate(taken, 1):
        found = _found(results.BY_TOPIC, number, row, took_s=took_s, text=text)
        note(replace(found, cpu_s=cpu_s))


def _found(path: str, number: int, row: rows.Scraping, *, took_s: float, text: str) -> Scraping:
    return Scraping(
        path=path,
        round=number,
        partitions=row.partitions,
        took_s=took_s,
        bytes=len(text),
        load=machine.load(),
    )


def _create(row: rows.Scraping, clusters: Clusters) -> tuple[str, ...]:
    """All topics, the busy one first; its broker has every partition when it returns."""
    properties = clusters.source.client_properties()
    client = kafka.admin_client(properties)  # its futures fail when it is collected
    left = row.partitions - workloads.PARTITIONS
    sizes = [min(_OF_A_TOPIC, left - at) for at in range(0, left, _OF_A_TOPIC)]
    idle = {f"rest-{number}": size for number, size in enumerate(sizes)}
    wanted = [admin.NewTopic(name, size, 1) for name, size in idle.items()]
    for at in range(0, len(wanted), _CREATED_AT_ONCE):
        asked = client.create_topics(wanted[at : at + _CREATED_AT_ONCE], request_timeout=_ANSWER_S)
        for future in asked.values():
            future.result()
    kafka.create_topic(properties, _BUSY, partitions=workloads.PARTITIONS)
    data, names = producing.data_folder(clusters.source), (_BUSY, *idle)

    def there() -> int:
        mine = [each for each in data.iterdir() if each.name.rpartition("-")[0] in names]
        return sum((each / "partition.metadata").exists() for each in mine)

    if not system_clock.wait_until(
        lambda: there() >= row.partitions, timeout_s=_CREATE_S, interval_s=1.0
    ):
        raise RuntimeError(f"creating {row.partitions:,} partitions: {there():,} are there")
    return names


def _wait(seconds: float) -> None:
    system_clock.wait_until(lambda: False, timeout_s=max(0.0, seconds), interval_s=_POLL_S)


def told(one: Scraping) -> str:
    """One line for people who wait."""
    head = f"scrape {one.round} of {one.partitions:,} partitions, {one.path}"
    if one.fault or one.took_s is None:
        return f"{head}: FAULT: {one.fault}"
    beside = "" if one.to_without is None else f", copied {one.to_without:.2f} times as much"
    return f"{head}: {one.took_s * 1000:.0f} ms{beside}, load {one.load or 0.0:.1f}"
