"""MirrorCheckpointConnector on our plain worker, between two clusters, over REST in Java's words.

What was mirrored is said by offset syncs of our own; the mirror itself is another connector's.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

import confluent_kafka
import pytest

from connect_runtime.base import ids
from mm2 import client
from mm2.formats import offset_sync
from tests.support import checkpoints, connect_workers, eventually, kafka

if TYPE_CHECKING:
    from mm2.sandbox import cluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

WAIT_S = 90.0
NAME = "points"
OFFSETS = f"/connectors/{NAME}/offsets"
RECORDS = 30
_UNIQUE = itertools.count()


class Flow:
    """A topic on `west`, its mirror on `east`, and what was synced of it."""

    def __init__(self, west: cluster.Cluster, east: cluster.Cluster, *, syncs_on: str) -> None:
        self.source, self.target = west.client_properties(), east.client_properties()
        number = next(_UNIQUE)
        self.aliases = (f"afar{number}", f"near{number}")
        self.place = ids.TopicPartition(f"orders{number}", 0)
        self.mirror = ids.TopicPartition(f"{self.aliases[0]}.{self.place.topic}", 0)
        for properties, topic in (
            (self.source, self.place.topic),
            (self.target, self.mirror.topic),
        ):
            kafka.create_topic(properties, topic)
            outgoing = [kafka.Outgoing(key=None, value=b"%d" % each) for each in range(RECORDS)]
            kafka.produce(properties, topic, outgoing)
        self._at = self.source if syncs_on == "source" else self.target
        other = self.aliases[1] if syncs_on == "source" else self.aliases[0]
        self._syncs = f"mm2-offset-syncs.{other}.internal"
        kafka.create_topic(self._at, self._syncs, config={"cleanup.policy": "compact"})
        self.config = checkpoints.config(
            self.source,
            self.target,
            aliases=self.aliases,
            topics=self.place.topic,
            groups=f"{self.place.topic}-.*",
        )
        self.config["offset-syncs.topic.location"] = syncs_on

    def group(self, name: str) -> str:
        return f"{self.place.topic}-{name}"

    def synced(self, upstream: int, downstream: int) -> None:
        sync = offset_sync.OffsetSync(
            partition=self.place, upstream=upstream, downstream=downstream
        )
        checkpoints.write_syncs(self._at, self._syncs, sync)

    def at_source(self, group: str, offset: int, **more: object) -> None:
        checkpoints.commit(self.source, group, {self.place: offset}, **more)

    def points(self, group: str) -> list[tuple[int, int]]:
        return checkpoints.points(self.target, self.aliases[0], group)


def comes(flow: Flow, group: str, *expected: tuple[int, int], log: Callable[[], str]) -> None:
    eventually.eventually(
        lambda: flow.points(group) == list(expected),
        WAIT_S,
        lambda: f"{flow.points(group)}, {log()}",
        interval_s=0.5,
    )


def test_groups_go_on_where_checkpoints_say(
    west: cluster.Cluster,
    east: cluster.Cluster,
    connect_group: Callable[..., connect_workers.Group],
) -> None:
    flow = Flow(west, east, syncs_on="source")
    classic, late = flow.group("classic"), flow.group("late")
    flow.at_source(classic, 20)
    for upstream, downstream in ((10, 8), (20, 15)):
        flow.synced(upstream, downstream)
    worker = connect_group().start("one", connect_workers.Kind.OURS)
    worker.configure(NAME, {**flow.config, "connector.class": "MirrorCheckpoint"})
    eventually.eventually(lambda: worker.runs(NAME, tasks=1), WAIT_S, worker.log_text)
    comes(flow, classic, (20, 15), log=worker.log_text)
    flow.synced(21, 16)
    flow.at_source(classic, 25)
    comes(flow, classic, (20, 15), (25, 17), log=worker.log_text)
    found = client.translate_offsets(flow.target, flow.aliases[0], classic, WAIT_S)
    assert found == {flow.mirror: client.OffsetAndMetadata(offset=17)}

    flow.at_source(late, 21)
    comes(flow, late, (21, 16), log=worker.log_text)  # a group that comes, and a task more
    assert worker.runs(NAME, tasks=2)

    before = checkpoints.read(flow.target, flow.aliases[0])
    assert worker.stop() in (0, 143)
    flow.at_source(late, 22)
    worker.start()
    comes(flow, late, (21, 16), (22, 17), log=worker.log_text)
    assert checkpoints.read(flow.target, flow.aliases[0])[:-1] == before, "nothing is said twice"
    place = {"group": late, "topic": flow.mirror.topic, "partition": 0}

    def stored() -> bool:
        return {"partition": place, "offset": {"offset": 0}} in worker.get(OFFSETS)["offsets"]

    eventually.eventually(stored, WAIT_S, lambda: str(worker.get(OFFSETS)), interval_s=0.3)
    worker.ask("PUT", f"/connectors/{NAME}/stop")
    eventually.eventually(
        lambda: worker.get(f"/connectors/{NAME}/status")["tasks"] == [], WAIT_S, worker.log_text
    )
    for offset, status in ((5, 500), (0, 200)):
        body = {"offsets": [{"partition": place, "offset": {"offset": offset}}]}
        answer = worker.ask("PATCH", OFFSETS, body)
        assert answer.status_code == status, answer.text


def test_groups_on_the_target_are_written_while_nobody_uses_them(
    west: cluster.Cluster,
    east: cluster.Cluster,
    connect_group: Callable[..., connect_workers.Group],
) -> None:
    flow = Flow(west, east, syncs_on="target")
    new, ahead, active, kip = map(flow.group, ("new", "ahead", "active", "kip-848"))
    for group in (new, ahead, active):
        flow.at_source(group, 20)
    flow.at_source(kip, 20, group_protocol="consumer")
    flow.synced(20, 15)
    checkpoints.commit(flow.target, ahead, {flow.mirror: 28})
    checkpoints.commit(flow.target, active, {flow.mirror: 3})
    member = confluent_kafka.Consumer(
        kafka.client_config(flow.target, **{"group.id": active, "enable.auto.commit": False})
    )
    try:
        member.subscribe([flow.mirror.topic])
        eventually.eventually(
            lambda: member.poll(0.1) is not None and member.assignment(), WAIT_S, "it has joined"
        )
        worker = connect_group().start("one", connect_workers.Kind.OURS)
        worker.configure(NAME, {**flow.config, "sync.group.offsets.enabled": "true"})
        eventually.eventually(lambda: worker.runs(NAME, tasks=2), WAIT_S, worker.log_text)

        def at(group: str, offset: int) -> None:
            eventually.eventually(
                lambda: checkpoints.committed(flow.target, group, flow.mirror) == offset,
                WAIT_S,
                worker.log_text,
                interval_s=0.5,
            )

        for group in (new, kip):
            at(group, 15)
        for group in (ahead, active):
            comes(flow, group, (20, 15), log=worker.log_text)
        flow.synced(25, 22)
        for group in (new, ahead, active):
            flow.at_source(group, 25)
        at(new, 22)
        assert checkpoints.committed(flow.target, active, flow.mirror) == 3
        assert checkpoints.committed(flow.target, ahead, flow.mirror) == 28
    finally:
        member.close()
    at(active, 22)
    assert checkpoints.committed(flow.target, ahead, flow.mirror) == 28
