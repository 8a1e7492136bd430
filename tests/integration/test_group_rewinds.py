"""No group on the target is ever set back: not by old checkpoints, not by a task that lingers, not
by one of two that write. What its offsets have been is read in its coordinator's own log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import Checkpoint
from tests.support import checkpoints, eventually, group_history, kafka
from tests.support.checkpoints import Flow
from tests.support.connect_workers import Group, Kind, Worker
from tests.support.kafka import Outgoing

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

WAIT_S = 90.0
NAME = "points"
OURS = Kind.OURS


class World:
    """A flow whose groups two workers follow, of different Connect groups: each is a writer."""

    def __init__(
        self,
        west: SandboxCluster,
        east: SandboxCluster,
        connect_group: Callable[..., Group],
    ) -> None:
        self.flow = Flow(west, east, syncs_on="target")
        self.workers = [connect_group().add(name, OURS) for name in ("one", "two")]
        self._topic = f"{self.flow.aliases[0]}.checkpoints.internal"

    def start(self, worker: Worker) -> None:
        worker.start()
        config = {**self.flow.config, "sync.group.offsets.enabled": "true", "tasks.max": "1"}
        worker.configure(NAME, config)
        eventually.eventually(lambda: worker.runs(NAME, tasks=1), WAIT_S, worker.log_text)

    def synced(self, *pairs: tuple[int, int]) -> None:
        for upstream, downstream in pairs:
            self.flow.synced(upstream, downstream)

    def plant(self, group: str, upstream: int, downstream: int) -> None:
        """A checkpoint that somebody else has written."""
        stale = Checkpoint(
            group=group, partition=self.flow.mirror, upstream=upstream, downstream=downstream
        )
        key, value = mirrormaker2_records.encode_checkpoint(stale)
        kafka.produce(self.flow.target, self._topic, [Outgoing(key=key, value=value)])

    def create_checkpoints(self) -> None:
        kafka.create_topic(self.flow.target, self._topic, config={"cleanup.policy": "compact"})

    def at(self, group: str, offset: int) -> None:
        """Waits until the group stands there on the target."""
        eventually.eventually(
            lambda: checkpoints.committed(self.flow.target, group, self.flow.mirror) == offset,
            WAIT_S,
            lambda: f"{group}: {self.history(group)}, {self.flow.points(group)}",
            interval_s=0.3,
        )

    def history(self, group: str) -> list[int | None]:
        place: TopicPartition = self.flow.mirror
        return group_history.of(self.flow.target, group, place)

    def stands(self, group: str, upstream: int, downstream: int) -> None:
        """Waits until that is its newest checkpoint."""
        eventually.eventually(
            lambda: self.flow.points(group)[-1:] == [(upstream, downstream)],
            WAIT_S,
            lambda: f"{group}: {self.flow.points(group)}",
            interval_s=0.3,
        )


@pytest.fixture
def world(
    west: SandboxCluster,
    east: SandboxCluster,
    connect_group: Callable[..., Group],
) -> World:
    return World(west, east, connect_group)


def test_neither_old_checkpoints_nor_a_second_writer_set_a_group_back(world: World) -> None:
    flow = world.flow
    one, two = world.workers
    moving, alone, beyond = map(flow.group, ("moving", "alone", "beyond"))
    world.create_checkpoints()
    world.synced((10, 8), (20, 15))
    for group in (moving, alone, beyond):
        flow.at_source(group, 20)
    checkpoints.commit(flow.target, alone, {flow.mirror: 28})
    world.plant(moving, 10, 8)
    world.plant(alone, 10, 8)
    world.plant(beyond, 20, 900)  # of a topic that was deleted and made again: it has 30 records
    world.start(one)
    world.at(moving, 15)
    world.start(two)

    world.plant(moving, 10, 8)  # by somebody who knows less
    world.stands(moving, 20, 15)

    one.sigstop()
    world.synced((25, 22))
    flow.at_source(moving, 25)
    world.at(moving, 22)
    one.sigcont()
    world.stands(moving, 25, 22)

    checkpoints.commit(flow.target, moving, {flow.mirror: 9})  # as Java may set it back (19794)
    world.at(moving, 22)

    flow.at_source(moving, 12)  # its users go back: on the target it stays, as we say
    world.stands(moving, 12, 9)
    one.sigkill()
    one.start()
    eventually.eventually(lambda: one.runs(NAME, tasks=1), WAIT_S, one.log_text)
    world.synced((29, 26))
    flow.at_source(moving, 29)
    world.at(moving, 26)

    history = world.history(moving)
    assert group_history.set_back(history) == [(22, 9)], f"{history}: that was our own doing"
    assert world.history(alone) == [28]
    assert world.history(beyond) == []
    assert "ends before the group's checkpoint" in one.log_text() + two.log_text()


def test_who_is_set_back_is_seen(world: World) -> None:
    """The judge of the test above."""
    group = world.flow.group("judged")
    for offset in (5, 9, 7, 8):
        checkpoints.commit(world.flow.target, group, {world.flow.mirror: offset})
    assert world.history(group) == [5, 9, 7, 8]
    assert group_history.set_back(world.history(group)) == [(9, 7)]
