"""MirrorCheckpointConnector on our plain worker, between two clusters, over REST in Java's words.

What was mirrored is said by offset syncs of our own; the mirror itself is another connector's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import confluent_kafka
import pytest

from mm2 import client
from mm2.client import OffsetAndMetadata
from tests.support import checkpoints, eventually, kafka
from tests.support.checkpoints import Flow
from tests.support.connect_workers import Group, Kind

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

WAIT_S = 90.0
NAME = "points"
OFFSETS = f"/connectors/{NAME}/offsets"


def test_groups_go_on_where_checkpoints_say(
    west: SandboxCluster,
    east: SandboxCluster,
    connect_group: Callable[..., Group],
) -> None:
    flow = Flow(west, east, syncs_on="source")
    classic, late = flow.group("classic"), flow.group("late")
    flow.at_source(classic, 20)
    for upstream, downstream in ((10, 8), (20, 15)):
        flow.synced(upstream, downstream)
    worker = connect_group().start("one", Kind.OURS)
    worker.configure(NAME, {**flow.config, "connector.class": "MirrorCheckpoint"})
    eventually.eventually(lambda: worker.runs(NAME, tasks=1), WAIT_S, worker.log_text)
    flow.comes(classic, (20, 15), log=worker.log_text)
    flow.synced(21, 16)
    flow.at_source(classic, 25)
    flow.comes(classic, (20, 15), (25, 17), log=worker.log_text)
    found = client.translate_offsets(flow.target, flow.aliases[0], classic, WAIT_S)
    assert found == {flow.mirror: OffsetAndMetadata(offset=17)}

    flow.at_source(late, 21)
    flow.comes(late, (21, 16), log=worker.log_text)  # a group that comes, and a task more
    eventually.eventually(lambda: worker.runs(NAME, tasks=2), WAIT_S, worker.log_text)

    before = checkpoints.read(flow.target, flow.aliases[0])
    assert worker.stop() in (0, 143)
    flow.at_source(late, 22)
    worker.start()
    flow.comes(late, (21, 16), (22, 17), log=worker.log_text)
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
    west: SandboxCluster,
    east: SandboxCluster,
    connect_group: Callable[..., Group],
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
        worker = connect_group().start("one", Kind.OURS)
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
            flow.comes(group, (20, 15), log=worker.log_text)
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
