"""Groups on the target: written only without members, forward only, as late a look as can be.

Java: MirrorCheckpointTaskTest.testSyncOffset…; KAFKA-19794, KAFKA-19107.
"""

from __future__ import annotations

import logging

import pytest

from connect_runtime.base.errors import RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import NotAuthorizedError
from mm2.connectors import group_offset_sync_writer
from mm2.connectors.group_offset_sync_writer import GroupOffsetWriter
from mm2.formats.mirrormaker2_records import Checkpoint
from mm2.offsets.checkpoint_rules import CheckpointTable, OffsetAndMetadata
from mm2.offsets.group_offset_sync import GroupState
from tests.fakes.admin import FakeAdmin, FakeCluster
from tests.fakes.groups import FakeGroupCluster, FakeGroups
from tests.fakes.logs import FakeLog, FakeLogs

T0, T1, U0 = (TopicPartition(*each) for each in (("t", 0), ("t", 1), ("u", 0)))
State = GroupState
FORBIDDEN = NotAuthorizedError("not allowed")


class World:
    def __init__(self) -> None:
        self.groups = FakeGroupCluster()
        self.topics = FakeCluster()
        self.ends: dict[TopicPartition, FakeLog] = {}
        self.topics.create("t", partitions=2)
        self.table = CheckpointTable(group_filter=lambda _: True)
        self.asked = FakeGroups(self.groups)
        self.sync = self.syncing()

    def syncing(self) -> GroupOffsetWriter:
        return GroupOffsetWriter(
            self.asked,
            FakeAdmin(self.topics),
            FakeLogs(self.ends),
            timeout_s=1.0,
        )

    def point(self, group, partition, downstream, *, metadata=""):
        self.table.store_published_checkpoint(
            Checkpoint(
                group=group,
                partition=partition,
                upstream=downstream + 100,
                downstream=downstream,
                metadata=metadata,
            )
        )

    def run(self) -> int:
        return self.sync.write_changed_offsets(self.table).written


@pytest.fixture
def world():
    made = World()
    yield made
    made.sync.close()
    assert made.asked.closed


def test_a_new_group_gets_all_and_an_idle_one_what_is_further(world):
    world.point("new", T0, 5, metadata="note")
    world.point("new", T1, 0)
    for partition, offset in ((T0, 5), (T1, 7)):
        world.point("idle", partition, offset)
    world.groups.commit("idle", {T0: 5, T1: 6})
    assert world.run() == 2
    assert world.groups.offsets("new") == {T0: 5, T1: 0}
    assert world.groups.groups["new"].positions[T0] == OffsetAndMetadata(offset=5, metadata="note")
    assert world.groups.offsets("idle") == {T0: 5, T1: 7}
    assert [list(each) for each in world.groups.writes] == [["idle", "new"]]
    assert world.run() == 0
    assert len(world.groups.writes) == 1


@pytest.mark.parametrize("state", [State.ACTIVE, State.UNKNOWN, State.FOREIGN])
def test_other_groups_are_left_alone(world, state):
    world.point("g", T0, 9)
    world.groups.commit("g", {T0: 5}).state = state
    assert world.run() == 0
    assert world.groups.offsets("g") == {T0: 5}


def test_nothing_goes_back(world):
    world.point("g", T0, 9)
    world.groups.commit("g", {T0: 10})
    assert world.run() == 0
    assert world.groups.offsets("g") == {T0: 10}


def test_a_group_that_went_on_between_the_looks_is_not_thrown_back(world):
    """KAFKA-19794: it was active, committed, and is idle when it is written."""
    world.point("g", T0, 9)
    world.groups.commit("g", {T0: 5})

    class Meanwhile(FakeAdmin):
        def describe_topics(self, names, timeout_s):
            world.groups.commit("g", {T0: 12})
            return super().describe_topics(names, timeout_s)

    sync = GroupOffsetWriter(
        FakeGroups(world.groups),
        Meanwhile(world.topics),
        FakeLogs({}),
        timeout_s=1.0,
    )
    sync.write_changed_offsets(world.table)
    assert world.groups.offsets("g") == {T0: 12}
    assert world.groups.writes in ([], [{}])


def test_a_group_that_gets_members_at_the_last_moment_is_refused_by_the_broker(world, caplog):
    caplog.set_level(logging.INFO)
    world.point("g", T0, 9)
    group = world.groups.commit("g", {T0: 5})

    def join() -> None:
        group.state = State.ACTIVE

    world.groups.on_write = join
    assert world.run() == 0
    assert world.groups.offsets("g") == {T0: 5}
    assert [each.levelname for each in caplog.records] == ["INFO"]


def test_what_is_not_on_the_target_does_not_stand_in_the_others_way_and_is_told_once(world, caplog):
    world.point("g", T0, 9)
    world.point("g", U0, 9)
    for _ in range(3):
        world.run()
        world.point("g", T0, world.groups.offsets("g")[T0] + 1)
    assert world.groups.offsets("g") == {T0: 11}
    assert caplog.text.count("u-0 does not exist") == 1


def test_a_checkpoint_beyond_the_end_waits_for_it_is_of_a_topic_that_is_no_more(world, caplog):
    world.ends = {T0: FakeLog(times_ms=[1] * 8, pending=2)}
    world.sync = world.syncing()
    for offset in (9, 8):
        world.point("g", T0, offset)
        world.groups.commit("g", {T0: 5})
        world.run()
        assert world.groups.offsets("g") == {T0: 5 if offset == 9 else 8}
    assert caplog.text.count("t-0 ends before the group's checkpoint") == 1


def test_ends_that_may_not_be_seen_stop_nobody(world):
    world.point("g", T0, 9)
    assert world.ends == {}
    assert world.run() == 1


def test_a_group_that_came_between_the_looks_or_is_of_a_kind_of_its_own_is_left_alone(world):
    """Groups of streams are told by neither of the two questions about states."""
    world.point("g", T0, 9)
    world.groups.commit("g", {T0: 5}).state = State.ABSENT
    assert world.run() == 0
    assert world.groups.offsets("g") == {T0: 5}


def test_an_offset_in_an_open_transaction_is_waited_for(world):
    world.point("g", T0, 9)
    group = world.groups.commit("g", {T0: 5})
    group.unstable = True
    assert world.run() == 0
    world.groups.commit("g", {T0: 12})
    group.unstable = False
    assert world.run() == 0
    assert world.groups.offsets("g") == {T0: 12}


def test_who_was_set_back_by_somebody_else_goes_forward_again(world):
    """Another writer, who knew less; also one that was told of nothing new."""
    world.point("g", T0, 9)
    assert world.run() == 1
    assert world.run() == 0
    world.groups.commit("g", {T0: 4})
    assert world.run() == 1
    assert world.groups.offsets("g") == {T0: 9}


def test_who_stands_where_he_should_is_asked_about_no_further(world):
    for number in range(20):
        world.point(f"g{number}", T0, 9)
    world.run()
    world.run()
    world.asked.calls.clear()
    world.point("g3", T0, 10)
    assert world.run() == 1
    assert world.asked.calls == ["positions", "states", "positions", "write"]
    world.run()
    world.asked.calls.clear()
    assert world.run() == 0
    assert world.asked.calls == ["positions"]


def test_topics_that_may_not_be_seen_are_written_all_the_same(world):
    world.point("g", T0, 9)
    world.topics.failures["describe_topics", "t"] = FORBIDDEN
    assert world.run() == 1


def test_a_place_that_says_nowhere_is_written_and_told(world, caplog):
    world.point("g", T0, 9)
    world.groups.commit("g", {T0: None})
    assert world.run() == 1
    assert world.groups.offsets("g") == {T0: 9}
    assert "offset for t-0 is negative" in caplog.text


@pytest.mark.parametrize("operation", ["states", "positions", "write"])
def test_a_refusal_is_counted_as_long_as_it_lasts_and_told_again_where_it_comes_again(
    world, caplog, operation
):
    for group in ("a", "b"):
        world.point(group, T0, 9)
        world.groups.commit(group, {T0: 1})
    for _ in range(2):
        world.groups.failures[operation, "a"] = FORBIDDEN
        for _ in range(3):
            assert world.sync.write_changed_offsets(world.table).failed == 1
        world.groups.failures.clear()
        assert world.sync.write_changed_offsets(world.table) == (1, 0)
        world.groups.commit("a", {T0: 1})
    assert caplog.text.count("group a on the target: not allowed") == 2


def test_who_is_in_use_or_of_another_kind_or_waits_for_its_mirror_is_not_refused(world):
    for group, state in (("used", State.ACTIVE), ("streams", State.FOREIGN)):
        world.point(group, T0, 9)
        world.groups.commit(group, {T0: 5}).state = state
    world.point("waits", U0, 9)
    assert world.sync.write_changed_offsets(world.table) == (0, 0)
    world.point("joins", T0, 9)
    joins = world.groups.commit("joins", {T0: 5})

    def join() -> None:
        joins.state = State.ACTIVE

    world.groups.on_write = join
    assert world.sync.write_changed_offsets(world.table) == (0, 0)


@pytest.mark.parametrize("operation", ["states", "positions", "write"])
def test_one_group_that_is_refused_does_not_stand_in_the_others_way(world, caplog, operation):
    for group in ("a", "b"):
        world.point(group, T0, 9)
        world.groups.commit(group, {T0: 1})
    world.groups.failures[operation, "a"] = FORBIDDEN
    for _ in range(2):
        world.run()
    assert world.groups.offsets("a") == {T0: 1}
    assert world.groups.offsets("b") == {T0: 9}
    assert caplog.text.count("group a on the target: not allowed") == 1


def test_partitions_that_are_refused_are_told(world, caplog):
    world.topics.failures["describe_topics", "u"] = FORBIDDEN
    world.groups.partitions = frozenset({T0})
    world.point("g", T0, 9)
    world.point("g", U0, 9)
    assert world.sync.write_changed_offsets(world.table) == (1, 1)
    assert "group g on the target: u-0: " in caplog.text


def test_many_groups_are_written_a_part_at_a_time(world):
    count = group_offset_sync_writer.MAX_GROUPS_PER_WRITE + 1
    for number in range(count):
        world.point(f"g{number:03}", T0, number)
    assert world.run() == count
    assert [len(each) for each in world.groups.writes] == [
        group_offset_sync_writer.MAX_GROUPS_PER_WRITE,
        1,
    ]


def test_a_target_that_is_away_is_the_callers_matter(world):
    world.point("g", T0, 9)
    world.groups.failure = RetriableError("away")
    with pytest.raises(RetriableError, match="away"):
        world.run()
