"""A Java worker and a member of ours in one group: each leads the other, each survives the other.

Ours is a herder in name only: it runs nothing, but says that it does, so Java must not.
"""

from __future__ import annotations

import contextlib
import random
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.group.connectors_and_tasks import ConfiguredWork, ConnectorsAndTasks
from connect_runtime.kafka import internal_topic_logs
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.storage import internal_topic_settings
from connect_runtime.storage.config_store import ConfigBackingStore
from connect_runtime.system.supervised_threads import ThreadGroup
from connect_runtime.system.system_clock import SystemClock
from tests.support import connect_workers, eventually, group_workers
from tests.support.connect_workers import Kind, Worker
from tests.support.group_workers import Workers

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = [pytest.mark.full, pytest.mark.integration, pytest.mark.timeout(1500)]

CLOCK = SystemClock()
WAIT_S = 240.0
DELAY_MS = 3000
CONNECTORS = ("c0", "c1", "c2", "c3")
_ASSIGNED = re.compile(
    r"Joined group at .* got assignment: .*connectorIds=\[([^]]*)\], taskIds=\[([^]]*)\]"
)
ITEMS = ConfiguredWork(task_counts=dict.fromkeys(CONNECTORS, 1)).list_work()


class Mixed:
    """One group on one cluster, under one protocol."""

    def __init__(
        self, running: SandboxCluster, folder: Path, speaks: ConnectProtocol, group: str
    ) -> None:
        self.cluster = running
        self.folder = folder
        self.speaks = speaks
        self.group = group
        self.workers = Workers()
        topics = connect_workers.storage(group)
        for each in ("config", "offset", "status"):
            topics[f"{each}.storage.replication.factor"] = "1"
        logs = internal_topic_logs.create_internal_topic_logs(
            KafkaClusterAccess(bootstrap=(running.bootstrap,)),
            internal_topic_settings.read_required_topics(topics),
            group_id=group,
            clock=CLOCK,
        )
        self.store = ConfigBackingStore(logs.config, clock=CLOCK, on_change=lambda _: None)

    @contextlib.contextmanager
    def java(self, name: str) -> Iterator[str]:
        """Its URL, until SIGKILL at the end of the block. Ours goes on while it starts."""
        with contextlib.ExitStack() as stack:
            pump = ThreadGroup(on_unexpected_end=lambda _: None)
            pump.start("pump", self._pump)
            try:
                running = stack.enter_context(self._java(name))
            finally:
                assert pump.stop_all(30.0) == []
            yield running.url

    def _pump(self, stop: threading.Event) -> None:
        while not stop.wait(0.05):
            for each in self.workers.every:
                each.turn()

    def _java(self, name: str) -> Worker:
        own = {
            **self.cluster.client_properties(),
            **connect_workers.storage(self.group),
            "connect.protocol": self.speaks.name.lower(),
            "session.timeout.ms": str(round(group_workers.SESSION_S * 1000)),
            "heartbeat.interval.ms": "500",
            "scheduled.rebalance.max.delay.ms": str(DELAY_MS),
        }
        kind = Kind.JAVA
        return Worker(kind, own, folder=self.folder, name=name)

    def join(self, name: str) -> group_workers.Worker:
        member = group_workers.kafka_member(
            self.cluster.client_properties(),
            self.group,
            name,
            offers=self.speaks,
            delay_max_ms=DELAY_MS,
            url=f"http://127.0.0.1:{random.randrange(1, 1000)}/",  # nobody listens there
        )
        return self.workers.add(group_workers.Worker(name, member, self.configured()))

    def configured(self) -> ConfiguredWork:
        view = self.store.snapshot()
        counts = {each: view.task_count(each) for each in view.connectors()}
        return ConfiguredWork(offset=view.offset, task_counts=counts)

    def share(self, ours: group_workers.Worker, java: str) -> bool:
        """Whether both are to run half of all, each another."""
        self.refresh(ours)
        half = ours.settled and len(ours.runs.items) == len(ITEMS.items) // 2
        return half and self.java_has(ITEMS.difference(ours.runs.items), java)

    def has_all(self, ours: group_workers.Worker) -> bool:
        self.refresh(ours)
        return ours.settled and set(ours.runs.items) == set(ITEMS.items)

    def refresh(self, ours: group_workers.Worker) -> None:
        newest = self.configured()
        if newest != ours.configured:
            ours.configure(newest)

    def java_has(self, expected: ConnectorsAndTasks, java: str) -> bool:
        """Whether Java was told in its last round to run exactly that, as its log has it."""
        found = _ASSIGNED.findall((self.folder / f"{java}.log").read_text())
        if not found:
            return False
        connectors, tasks = (set(each.split(", ")) - {""} for each in found[-1])
        return connectors | tasks == {str(each) for each in expected.items}


def all_run(url: str) -> bool:
    """Whether everything is started, as the status topic has it."""
    answer = httpx.get(f"{url}/connectors?expand=status", trust_env=False, timeout=30)
    if not answer.is_success:  # 409 while it rebalances
        return False
    states = [
        each["state"]
        for told in answer.json().values()
        for each in (told["status"]["connector"], *told["status"]["tasks"])
    ]
    return states == ["RUNNING"] * len(ITEMS.items)


JAVAS_PROTOCOLS = [each for each in ConnectProtocol if each is not ConnectProtocol.SESSIONED_WHOLE]


@pytest.fixture(params=JAVAS_PROTOCOLS, ids=lambda each: each.name.lower())
def mixed(request: pytest.FixtureRequest, east: SandboxCluster, tmp_path: Path) -> Iterator[Mixed]:
    made = Mixed(east, tmp_path, request.param, f"mixed-{request.param.name.lower()}")
    with made.workers:
        try:
            yield made
        finally:
            made.store.stop(5.0)


def configure(mixed: Mixed, url: str) -> None:
    for name in CONNECTORS:
        config = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "tasks.max": "1",
            "file": str(mixed.folder / f"{name}.txt"),
            "topic": f"{mixed.group}-lines",
        }

        def put(name: str = name, config: Mapping[str, str] = config) -> bool:
            path = f"{url}/connectors/{name}/config"
            answer = httpx.put(path, json=dict(config), trust_env=False, timeout=90)
            return answer.is_success

        eventually.eventually(put, WAIT_S, f"{name} is configured", interval_s=0.5)
    eventually.eventually(lambda: all_run(url), WAIT_S, "Java runs all", interval_s=0.3)


def test_each_leads_the_other_and_survives_it(mixed):
    until = mixed.workers.until
    cooperative = mixed.speaks is not ConnectProtocol.EAGER
    with mixed.java("first") as url:
        configure(mixed, url)
        mixed.store.start(WAIT_S)
        one = mixed.join("one")
        until(lambda: mixed.share(one, "first"), "Java leads", deadline_s=WAIT_S)
        assert not one.last.is_leader
        assert one.last.protocol is mixed.speaks
        assert one.last.assignment.leader_url.rstrip("/") == url

        mixed.workers.kill(one)
        killed_s = CLOCK.now_s()
        until(lambda: mixed.java_has(ITEMS, "first"), "Java has all", deadline_s=WAIT_S)
        waited_s = CLOCK.now_s() - killed_s
        assert waited_s >= DELAY_MS / 1000 or not cooperative, "lost work rests a while"

        two = mixed.join("two")
        until(lambda: mixed.share(two, "first"), "Java leads again", deadline_s=WAIT_S)
        assert not two.last.is_leader
    until(lambda: mixed.has_all(two), "ours has all", deadline_s=WAIT_S)
    assert two.last.is_leader
    assert two.last.assignment.delay_ms == 0, "nobody else knows what the leader ran"

    with mixed.java("second") as url:
        until(lambda: mixed.share(two, "second"), "ours leads", deadline_s=WAIT_S)
        assert two.last.is_leader
        assert two.last.protocol is mixed.speaks
        assert two.last.owners is not None
        theirs = {two.last.owners.url(each) for each in ITEMS.difference(two.runs.items).items}
        assert {str(each).rstrip("/") for each in theirs} == {url}
        heard = len(two.rounds)
    until(lambda: mixed.has_all(two), "ours has all again", deadline_s=WAIT_S)
    delays = [each.assignment.delay_ms for each in two.rounds[heard:]]
    assert any(0 < each <= DELAY_MS for each in delays) is cooperative, delays
