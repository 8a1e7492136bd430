"""What is copied of a share: by the map, and by later looks.

Looks at a share's topics on a thread of their own.

What a task's copy is replaced with, and how it ends when something else fails."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import NotAuthorizedError
from connect_runtime.system.system_clock import SystemClock
from mm2 import suggested_commands
from mm2.connectors import mirror_topic_writer, source_task_runner
from mm2.connectors.partition_setup_builder import PartitionFinding, PartitionSetupPlan
from mm2.connectors.source_task_runner import TopicPoller
from mm2.copier import control_channel_server
from mm2.copier.copy_engine import CopyState
from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import EraKey, NewEraRequest, NewEraRequestKey
from mm2.offsets.offset_map import OffsetMap
from mm2.replication.partition_setup import PartitionSetup
from mm2.topics.flow_config import Flow
from tests.fakes import mirror_task, taking
from tests.fakes.admin import FakeAdmin, FakeCluster
from tests.fakes.mirror_task import MirrorTask
from tests.support import eventually

OLD, NEW = b"1" * 16, b"2" * 16


def where(partition: int, **changed: object) -> PartitionSetup:
    base = taking.where(topic="orders", partition=partition, start="latest")
    return dataclasses.replace(base, **changed)  # type: ignore[arg-type]  # any of its fields


def plan(
    *partitions: PartitionSetup, findings: tuple[PartitionFinding, ...] = ()
) -> PartitionSetupPlan:
    return PartitionSetupPlan(partitions=partitions, findings=findings)


def finding(partition: int, *, spoils: bool = False) -> PartitionFinding:
    return PartitionFinding(
        partition=TopicPartition("orders", partition),
        cause="x",
        message=f"orders-{partition} is wrong",
        is_harmful=spoils,
    )


def known(*partitions: int, topic_id: bytes = offset_map_records.NO_TOPIC_ID) -> OffsetMap:
    """These have begun."""
    found = OffsetMap()
    for each in partitions:
        key = EraKey(topic="orders", partition=each, era=1, ordinal=1, epoch=0)
        era = taking.era(source_topic_id=topic_id)
        found.apply_record(
            offset_map_records.encode_map_key(key), offset_map_records.encode_map_value(era)
        )
    return found


def starts(found: PartitionSetupPlan) -> list[str]:
    return [each.start for each in found.partitions]


def test_partitions_start_where_the_flow_says_or_at_the_earliest_record():
    all_three = plan(where(0), where(1), where(2))
    assert (
        starts(source_task_runner.complete_plan_with_offset_map(all_three, known(), added=()))
        == ["latest"] * 3
    )
    added = {TopicPartition("orders", 2)}
    assert starts(
        source_task_runner.complete_plan_with_offset_map(all_three, known(), added=added)
    ) == [
        "latest",
        "latest",
        "earliest",
    ]
    # Another one of the topic is in progress: at another task, say.
    assert (
        starts(source_task_runner.complete_plan_with_offset_map(all_three, known(7), added=()))
        == ["earliest"] * 3
    )


def test_a_topic_that_was_made_again_is_found():
    again = plan(where(0, source_topic_id=NEW), where(1, source_topic_id=NEW))
    found = source_task_runner.complete_plan_with_offset_map(
        again, known(0, topic_id=OLD), added=()
    )
    assert [each.partition for each in found.partitions] == [0]
    assert [each.partition.partition for each in found.findings] == [1]


UNREADABLE = {
    "a sibling's era": (
        offset_map_records.encode_map_key(
            EraKey(topic="orders", partition=0, era=1, ordinal=1, epoch=0)
        ),
        True,
    ),
    "a key that names nothing": (b"\x09garbage", True),
    "another topic's era": (
        offset_map_records.encode_map_key(
            EraKey(topic="users", partition=0, era=1, ordinal=1, epoch=0)
        ),
        False,
    ),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_where_siblings_eras_may_be_unreadable_nothing_starts(name):
    """Neither whether the topic is in progress, nor whether it was made again, is known."""
    key, concerned = UNREADABLE[name]
    found = OffsetMap()
    found.apply_record_or_keep_unreadable(key, b"\x09", offset=17)
    added = plan(where(4))
    settled = source_task_runner.complete_plan_with_offset_map(added, found, added=())
    assert source_task_runner.needs_readable_map(added, found) is concerned
    if not concerned:
        assert starts(settled) == ["latest"]
        return
    assert settled.partitions == ()
    (held_back,) = settled.findings
    assert (held_back.partition.partition, held_back.cause) == (4, "offset-map-unreadable")
    assert "offset 17" in held_back.message
    era = offset_map_records.encode_map_value(taking.era())
    found.apply_record_or_keep_unreadable(
        key, None if name == "a key that names nothing" else era, offset=18
    )
    expected = "latest" if name == "a key that names nothing" else "earliest"
    assert starts(source_task_runner.complete_plan_with_offset_map(added, found, added=())) == [
        expected
    ]
    assert not source_task_runner.needs_readable_map(added, found)


def test_what_has_progress_or_is_to_begin_anew_needs_no_siblings():
    """Its take halts by itself while something is unreadable."""
    found = known(0)
    found.apply_record(
        offset_map_records.encode_map_key(NewEraRequestKey(topic="orders", partition=1)),
        offset_map_records.encode_map_value(NewEraRequest(request="r", position="latest")),
    )
    found.apply_record_or_keep_unreadable(b"\x09garbage", b"x", offset=17)
    settled = source_task_runner.complete_plan_with_offset_map(
        plan(where(0), where(1)), found, added=()
    )
    assert ([each.partition for each in settled.partitions], settled.findings) == ([0, 1], ())


def test_what_a_later_look_does_not_find_is_copied_on():
    running = [where(0), where(1)]
    later = source_task_runner.merge_running_partitions(
        running, plan(where(0), findings=(finding(1), finding(2)))
    )
    assert [each.partition for each in later.partitions] == [0, 1]
    assert [each.partition.partition for each in later.findings] == [2]
    assert later.warnings == ("orders-1 is wrong",)


def test_what_would_spoil_the_mirror_ends():
    running = [where(0), where(1)]
    later = source_task_runner.merge_running_partitions(
        running, plan(where(0), findings=(finding(1, spoils=True),))
    )
    assert [each.partition for each in later.partitions] == [0]
    assert [each.partition.partition for each in later.findings] == [1]
    assert later.warnings == ()


def test_what_is_well_again_is_copied():
    later = source_task_runner.merge_running_partitions([where(0)], plan(where(0), where(1)))
    assert [each.partition for each in later.partitions] == [0, 1]
    assert not source_task_runner.can_copy_process_keep_running([where(0)], later.partitions)


def test_a_copy_goes_on_where_nothing_that_it_relies_on_has_changed():
    ours = [where(0), where(1)]
    assert source_task_runner.can_copy_process_keep_running(ours, [where(1), where(0)])
    assert source_task_runner.can_copy_process_keep_running(
        ours, [where(0, renew_after_s=1e9, old_after_ms=10**9), where(1)]
    )
    for changed in ({"target_codec": 2}, {"renew_after_s": 1.0}, {"old_after_ms": 1}):
        assert not source_task_runner.can_copy_process_keep_running(
            ours, [where(0, **changed), where(1)]
        ), changed


SHARE = [TopicPartition("orders", 0)]
FLOW = Flow(source="A", target="B", refresh_topics_interval_s=0.05)
WAIT_S = 10.0


class Clusters:
    def __init__(self) -> None:
        self.source, self.target = FakeCluster(), FakeCluster()
        self.source.create("orders")
        self.target.create("A.orders")
        self.made: list[FakeAdmin] = []

    def create_admin_clients(self) -> tuple[FakeAdmin, FakeAdmin]:
        found = FakeAdmin(self.source), FakeAdmin(self.target)
        self.made.extend(found)
        return found


@pytest.fixture
def clusters():
    return Clusters()


@pytest.fixture
def looking(clusters):
    started: list[TopicPoller] = []

    def start(**changed: Any) -> TopicPoller:
        looks = TopicPoller(
            dataclasses.replace(FLOW, **changed),
            SHARE,
            create_admins=clusters.create_admin_clients,
            operator=suggested_commands.GENERIC_COMMANDS,
            clock=SystemClock(),
            name="mirror-0",
        )
        started.append(looks)
        looks.start()
        return looks

    yield start
    for each in started:
        each.stop()


def found(looks: TopicPoller) -> PartitionSetupPlan:
    taken = eventually.eventually(looks.take_new_plan, WAIT_S, lambda: looks.reason)
    assert taken is not None
    return taken


def test_what_is_found_is_taken_once_and_looked_at_again(clusters, looking):
    looks = looking()
    assert [each.source_name for each in found(looks).partitions] == ["orders-0"]
    assert found(looks).findings == (), "at the next interval"
    eventually.eventually(lambda: all("close" in each.calls for each in clusters.made[:4]), WAIT_S)


def test_without_an_interval_there_is_one_look(clusters, looking):
    looks = looking(refresh_topics_interval_s=None)
    found(looks)
    made = len(clusters.made)
    with pytest.raises(AssertionError):
        eventually.eventually(looks.take_new_plan, 0.5)
    assert len(clusters.made) == made


def test_clusters_that_do_not_answer_are_asked_again(clusters, looking):
    clusters.target.away = True
    looks = looking()
    eventually.eventually(lambda: "reading topic metadata of" not in looks.reason, WAIT_S)
    assert looks.failure is None
    clusters.target.away = False
    assert found(looks).partitions


def test_who_is_refused_at_first_is_told(clusters, looking):
    refusal = NotAuthorizedError("asking A: not authorized")
    clusters.source.failures["cluster_id", ""] = refusal
    clusters.create_admin_clients = lambda: (_ for _ in ()).throw(refusal)
    looks = looking()
    eventually.eventually(lambda: looks.failure is refusal, WAIT_S)
    assert looks.take_new_plan() is None


def test_who_is_refused_later_goes_on(clusters, looking, caplog):
    looks = looking()
    found(looks)
    refusal = NotAuthorizedError("asking A: not authorized")
    clusters.create_admin_clients = None
    looks._admins = lambda: (_ for _ in ()).throw(refusal)
    eventually.eventually(lambda: "replication continues" in caplog.text, WAIT_S)
    assert looks.failure is None


def test_findings_are_looked_at_again_although_nothing_else_is(clusters, looking, monkeypatch):
    monkeypatch.setattr(source_task_runner, "TOPIC_RETRY_DELAY_S", 0.05)
    monkeypatch.setattr(mirror_topic_writer, "METADATA_PROPAGATION_TIMEOUT_S", 0.0)
    del clusters.target.topics["A.orders"]
    looks = looking(refresh_topics_interval_s=None)
    assert found(looks).findings
    clusters.target.create("A.orders")
    eventually.eventually(lambda: found(looks).partitions, WAIT_S)


def test_an_error_of_ours_fails_the_task(clusters, looking):
    looks = TopicPoller(
        FLOW,
        SHARE,
        create_admins=lambda: 1 / 0,  # type: ignore[arg-type, return-value]  # that is the error
        operator=suggested_commands.GENERIC_COMMANDS,
        clock=SystemClock(),
        name="x",
    )
    looks.start()
    eventually.eventually(lambda: looks.failure is not None, WAIT_S)
    assert "ZeroDivisionError" in str(looks.failure)


@pytest.fixture
def replaced(monkeypatch):
    """A copy that is about to be replaced, as it was asked to stop."""
    monkeypatch.setattr(mirror_topic_writer, "METADATA_PROPAGATION_TIMEOUT_S", 0.0)
    found = MirrorTask(mirrored=1, refresh_topics_interval_seconds="1").runs()
    found.clusters.target_cluster.topics["A.orders"].partitions = 2

    def asked() -> bool:
        found.turn()
        return bool(found.plane.copy.told("stop"))

    eventually.eventually(asked, mirror_task.WAIT_S)
    yield found
    found.task.stop()


def leaves(found: MirrorTask) -> None:
    """Its copy has stopped; the next one is begun."""
    found.plane.copy.says(type=control_channel_server.CLOSED_MESSAGE_TYPE, reason="it left")
    found.plane.handles[-1].state = CopyState.ENDED
    found.turn(0.1)
    found.turn(0.1)
    assert len(found.plane.channels) == 2


def test_what_is_set_while_a_copy_is_replaced_holds_for_the_next(replaced):
    live = {
        **replaced.props,
        "mm2.task.throttle": "1000",
        "mm2.task.throttle.topics": "orders=10",
    }
    assert replaced.task.reconfigure(live)
    replaced.task.pause()
    leaves(replaced)
    begun = replaced.plane.configured()
    assert len(begun.partitions) == 2
    assert (begun.throttle_bytes_s, begun.topic_throttles) == (1000, {"orders": 10})
    assert replaced.plane.copy.told("pause")


class Broken(Exception):
    pass


def fails(*_: object, **__: object) -> None:
    raise Broken


@pytest.mark.parametrize("part", ["_topic_poller.stop", "_handle_messages", "_store.run_once"])
def test_whatever_fails_as_it_stops_the_copy_ends_and_all_is_closed(part, monkeypatch):
    found = MirrorTask().runs()
    found.context.stop_timeout_s = 5.0
    share_copy = found.task._runner
    place, _, name = part.rpartition(".")
    monkeypatch.setattr(getattr(share_copy, place) if place else share_copy, name, fails)
    with pytest.raises(Broken):
        found.task.stop()
    assert_all_ended(found)
    found.task.stop()


def test_a_writer_that_cannot_be_closed_leaves_the_rest_closed(monkeypatch):
    found = MirrorTask().runs()
    found.context.stop_timeout_s = 0.0
    monkeypatch.setattr(found.clusters.writer, "poll", fails)
    with pytest.raises(Broken):
        found.task.stop()
    found.clusters.writer.close(0.0)
    assert_all_ended(found)


def assert_all_ended(found: MirrorTask) -> None:
    assert found.plane.handles[0].cancelled
    assert found.plane.copy.closed
    assert found.clusters.writer.closed
    assert found.plane.released == 1
    (store,) = found.clusters.ledgers
    with pytest.raises(AssertionError, match="open the flow log first"):
        store.read_offset_map_to_end(0.0)
