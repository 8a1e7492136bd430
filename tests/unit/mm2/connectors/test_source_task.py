"""MirrorSourceTask against two clusters in memory and a copy that is the test."""

from __future__ import annotations

import math
from typing import Any

import pytest

from connect_runtime.api.errors import ConfigError, FatalError, RetriableError
from connect_runtime.api.plugin_context import (
    JavaWorkerTaskRun,
    LastTaskRuns,
    PipelineState,
    PublishedTaskConfig,
)
from connect_runtime.base.ids import TopicPartition
from mm2.config.copy_engine_config import EngineSettings
from mm2.connectors import mirror_topic_writer, source_task, status_registry
from mm2.connectors.source_task import MirrorSourceTask
from mm2.copier import control_channel_messages, control_channel_server
from mm2.copier.copy_engine import CopyState
from mm2.formats import mirrormaker2_records, offset_map_records
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.formats.offset_map_records import MapSegment, MapSegmentKey, OffsetRun
from mm2.replication import partition_halt_messages
from mm2.replication.recovery_instructions import (
    FlowStateRecord,
    JavaMirrorProgress,
    RecoveredState,
)
from mm2.replication.replication_latency import LatencySnapshot
from mm2.topics import replication_policy
from tests.fakes import mirror_task, taking
from tests.fakes.copy_plane import FakePlane
from tests.fakes.mirror_task import MirrorTask
from tests.fakes.plugin_contexts import Context
from tests.support import eventually

State = PipelineState
Running = MirrorTask
PROPS, WAIT_S = mirror_task.PROPS, mirror_task.WAIT_S


@pytest.fixture
def running():
    made: list[Running] = []

    def start(**more: Any) -> Running:
        made.append(Running(**more))
        return made[-1]

    yield start
    for each in made:
        each.task.stop()


def test_it_runs_once_its_copy_has_reported(running):
    found = running()
    found.turn()
    assert found.told.state is State.STARTING
    found.begins()
    assert found.told.state is State.STARTING
    found.plane.gauges()
    found.turn(0.1)
    assert (found.told.state, found.told.reason) == (State.RUNNING, "")
    wanted = found.plane.configured()
    assert [each.source_name for each in wanted.partitions] == ["orders-0", "orders-1"]
    assert all(each.in_group for each in wanted.partitions)
    assert (wanted.flow, wanted.task, wanted.owner) == ("A->B", 3, source_task._OWNER_ID)
    assert found.clusters.task == 3


def test_a_worker_alone_is_in_no_group(running):
    found = running()
    found.context.session_timeout_s = math.inf
    found.task.stop()
    found.task.start(found.props)
    found.begins()
    assert not any(each.in_group for each in found.plane.configured().partitions)


def test_where_it_copies_is_read_from_the_workers_properties(running):
    found = running()
    assert not found.plane.settings
    found.context.worker = {"mm2.engine": "inline", "mm2.spark.master": "local[3]", "key": "x"}
    found.task.stop()
    found.task.start(found.props)
    assert found.plane.settings == EngineSettings(engine="inline", master="local[3]")
    found.task.stop()
    with pytest.raises(ConfigError, match=r"mm2\.spark\.python cannot be set"):
        found.task.start({**found.props, "mm2.spark.python": "/tmp/x"})


def test_what_is_wrong_with_its_configuration_fails_it_at_once():
    task = MirrorSourceTask(acquire=FakePlane().acquire)
    task.initialize(Context())
    props = {name: value for name, value in PROPS.items() if name != "task.assigned.partitions"}
    with pytest.raises(ConfigError, match=r"task\.assigned\.partitions"):
        task.start(props)
    task.stop()


def test_why_nothing_is_copied_yet_is_its_reason(running):
    found = running(there=False)

    def told() -> bool:
        found.turn()
        return "orders" in found.told.reason

    eventually.eventually(told, WAIT_S, lambda: str(found.told))
    assert found.told.state is State.STARTING
    assert not any(each.told("configure") for each in found.plane.channels)
    found.turn(1.0)
    (stopped, _) = status_registry.REGISTRY.get_snapshot().tasks["A->B"][3].partitions
    assert stopped.is_halted


def left_open(began_ms, number=0):
    """A worker of Java ran it, and never said that it had ended it."""
    run = JavaWorkerTaskRun(worker_id="java:1", started_ms=began_ms)
    config = {"task.assigned.partitions": "orders-0"}
    given = {number: [PublishedTaskConfig(config=config, published_ms=0)]}
    return LastTaskRuns(foreign={number: run}, configs=given)


def waits_for_java(found: Running) -> Running:
    def told() -> bool:
        found.turn()
        return "java:1" in found.told.reason

    eventually.eventually(told, WAIT_S)
    assert found.told.state is State.STARTING
    found.turn(1.0)
    assert found.plane.channels == []
    return found


def test_what_java_may_still_send_is_waited_for(running):
    found = running()
    found.context.runs = left_open(1)
    waits_for_java(found)
    shown = status_registry.REGISTRY.get_snapshot().tasks["A->B"][3].status.reason
    assert shown == f"{found.told.reason} (119 s left)"
    found.turn(118.0)
    assert found.plane.channels == []
    found.confirm()
    found.turn(1.0)
    found.begins()


def test_who_knows_that_java_has_ended_need_not_wait(running):
    found = running()
    found.context.runs = left_open(2)
    waits_for_java(found)
    assert found.task.reconfigure({**found.props, "java.stopped.cleanly": "true"})
    found.turn(1.0)
    found.begins()


def test_a_copy_that_runs_does_not_wait_and_says_that_java_is_there_too(running):
    found = running().runs()
    found.context.runs = left_open(3, number=1)
    for _ in range(3):
        found.turn(1.0)
    assert found.told.state is State.RUNNING
    assert "at-least-once guarantee" in found.told.reason
    assert (
        status_registry.REGISTRY.get_snapshot().tasks["A->B"][3].java_warning == found.told.reason
    )
    found.context.runs = LastTaskRuns(own_start_ms={0: 1, 1: 1})
    found.turn(1.0)
    found.turn(1.0)
    assert found.told.reason == ""


def test_source_offsets_are_javas_and_told_when_they_move(running):
    found = running().runs()
    found.turn(1.5)
    assert found.offsets == [(0, 4), (1, 4)]
    found.turn(1.5)
    assert len(found.offsets) == 2
    found.plane.gauges(copied_to=9)
    found.turn(1.5)
    assert found.offsets[2:] == [(0, 8), (1, 8)]
    (last,) = found.told.offsets[:1]
    assert last.partition == {"cluster": "A", "partition": 0, "topic": "orders"}


def test_what_was_never_copied_has_no_offset(running):
    found = running().begins()
    found.plane.gauges(copied_to=-1)
    found.turn(1.5)
    found.plane.gauges(copied_to=0)
    found.turn(1.5)
    assert found.offsets == []


def test_a_copy_may_take_once_the_group_has_confirmed_later(running):
    found = running().runs()
    found.plane.copy.says(type="acquisition_request", id=7)
    found.turn(1.0)
    found.turn(0.1)
    assert found.plane.copy.told("acquisition_granted") == []
    assert found.context.confirmations_wanted > 0
    found.confirm()
    found.turn(0.1)
    assert found.plane.copy.told("acquisition_granted") == [
        {"type": "acquisition_granted", "id": 7}
    ]


def test_what_was_confirmed_while_clusters_were_asked_answers_first_questions(running):
    found = running()
    assert not found.begins().plane.configured().granted
    assert found.context.confirmations_wanted > 0, "one was wanted meanwhile"
    found = running()
    found.context.clock.now += 1.0
    found.confirm()
    assert found.begins().plane.configured().granted


def test_a_copy_ends_while_the_group_is_silent_for_too_long(running):
    found = running().runs()
    found.turn(9.0)
    found.plane.gauges()
    found.turn(9.0)
    assert [each.cancelled for each in found.plane.handles] == [False]
    found.turn(2.0)
    assert [each.cancelled for each in found.plane.handles] == [True]
    assert (found.told.state, len(found.plane.channels)) == (State.RESTARTING, 1)
    assert "group" in found.told.reason
    for _ in range(5):
        found.turn(20.0)
    assert len(found.plane.channels) == 1, "it begins once the group has confirmed"
    found.confirm()
    found.turn(0.1)
    assert len(found.plane.channels) == 2


def test_pausing_reaches_the_copy_and_those_that_follow(running):
    found = running().runs()
    found.task.pause()
    found.turn()
    assert len(found.plane.copy.told("pause")) == 1
    found.plane.copy.says(type=control_channel_server.CLOSED_MESSAGE_TYPE, reason="gone")
    found.plane.handles[0].state = CopyState.ENDED
    found.confirm()
    found.turn(0.1)
    assert found.told.state is State.RESTARTING
    found.turn(3.0)
    assert len(found.plane.channels) == 2
    assert len(found.plane.copy.told("pause")) == 1
    found.task.resume()
    assert len(found.plane.copy.told("resume")) == 1


def test_live_settings_are_taken_up_and_nothing_else(running):
    found = running().runs()
    live = {
        **found.props,
        "live.paused.topic.orders": "true",
        "mm2.task.throttle": "1000",
        "topics": "orders,more",
    }
    assert found.task.reconfigure(live)
    assert found.plane.copy.told("pause_topics")[0]["topics"] == ["orders"]
    assert found.plane.copy.told("throttle")[0]["bytes_per_s"] == 1000
    for change in (
        {"task.assigned.partitions": "orders-0"},
        {"source.consumer.client.rack": "x"},
        {"delivery": "transactional"},
        {"offset.lag.max": "5"},
    ):
        assert not found.task.reconfigure({**live, **change}), change


def test_what_can_be_copied_later_is_copied_by_a_copy_that_counts_on(running, monkeypatch):
    monkeypatch.setattr(mirror_topic_writer, "METADATA_PROPAGATION_TIMEOUT_S", 0.0)
    found = running(**{"refresh.topics.interval.seconds": "1"}, mirrored=1)
    found.begins()
    assert [each.source_name for each in found.plane.configured().partitions] == ["orders-0"]
    found.plane.gauges()
    found.turn(0.6)
    shown = {
        each.partition.partition: each
        for each in found.task._runner.status_builder.snapshot.partitions
    }
    assert (shown[0].is_halted, shown[1].is_halted) == (False, True)
    found.clusters.target_cluster.topics["A.orders"].partitions = 2

    def asked() -> bool:
        found.turn()
        return bool(found.plane.copy.told("stop"))

    eventually.eventually(asked, WAIT_S)
    found.plane.copy.says(type=control_channel_server.CLOSED_MESSAGE_TYPE, reason="it left")
    found.plane.handles[0].state = CopyState.ENDED
    found.turn(0.1)
    found.turn(0.1)
    assert [each.source_name for each in found.plane.configured().partitions] == [
        "orders-0",
        "orders-1",
    ]
    found.plane.gauges()
    found.turn(1.5)
    assert found.told.records_total == 15, "5 of the first copy are not forgotten"


def test_a_copy_that_does_not_stop_in_time_is_cut_off(running, monkeypatch):
    monkeypatch.setattr(mirror_topic_writer, "METADATA_PROPAGATION_TIMEOUT_S", 0.0)
    found = running(**{"refresh.topics.interval.seconds": "1"}, mirrored=1).runs()
    found.clusters.target_cluster.topics["A.orders"].partitions = 2

    def asked() -> bool:
        found.turn()
        return bool(found.plane.copy.told("stop"))

    eventually.eventually(asked, WAIT_S)
    found.turn(1.0)
    assert not found.plane.handles[0].cancelled
    found.turn(1.0)
    assert found.plane.handles[0].cancelled
    found.turn(0.1)
    assert len(found.plane.configured().partitions) == 2


def test_a_map_that_cannot_be_written_ends_the_copy_until_it_can(running):
    found = running().runs()
    name = replication_policy.format_offset_map_topic("A")
    found.clusters.ledgers[0]._log._broken = RetriableError("the log is cut")
    anchored(found, 0, 1)
    found.turn(0.1)
    assert found.told.state is State.RESTARTING
    assert "the flow's internal topics" in found.told.reason
    found.confirm()
    for _ in range(4):
        found.turn(5.0)
        found.confirm()
    assert len(found.plane.channels) == 2
    assert name in found.clusters.target_cluster.topics


def test_what_starts_is_held_back_until_the_map_is_readable(running):
    """Long before the next look at topics, which is after 600 s here."""
    found = running()
    log = found.clusters.target_cluster.create(
        replication_policy.format_offset_map_topic("A"), cleanup_policy="compact"
    ).log
    log.append((b"\x09garbage", b"x"))

    def held_back() -> bool:
        found.turn()
        return "the record at offset 0 of the flow's offset map" in found.told.reason

    eventually.eventually(held_back, WAIT_S)
    found.turn(partition_halt_messages.MAP_RETRY_DELAY_S)
    assert not found.plane.channels or not found.plane.copy.told("configure")
    log.append((b"\x09garbage", None))
    found.turn(partition_halt_messages.MAP_RETRY_DELAY_S)
    found.confirm()
    found.begins()
    assert len(found.plane.configured().partitions) == 2


def test_a_data_plane_that_fails_fails_the_task(running):
    found = running().runs()
    found.plane.failure = "the JVM is gone"
    with pytest.raises(FatalError, match="the JVM is gone"):
        found.turn()


def test_a_fenced_task_of_no_group_fails(running):
    found = running().runs()
    found.plane.gauges(phase="fenced", reason="another flow")
    with pytest.raises(FatalError, match="another flow"):
        found.turn(0.1)


def test_a_copy_without_a_slot_waits_and_is_shown(running):
    found = running().begins()
    found.plane.handles[0].state = CopyState.WAITING_FOR_SLOT
    found.turn(1.0)
    assert found.told.state is State.WAITING
    assert found.told.reason == "waiting for a slot; 1 more needed to run all tasks"
    found.turn(1.0)
    assert status_registry.REGISTRY.get_snapshot().tasks["A->B"][3].slots_missing == 1


def test_facts_carry_what_java_stored(running):
    found = running().runs()
    place = {"cluster": "A", "partition": 0, "topic": "orders"}
    found.context.offset_reader.stored.append((place, {"offset": 41}))
    sync = OffsetSync(partition=TopicPartition("orders", 0), upstream=40, downstream=30)
    found.clusters.syncs_log.append(mirrormaker2_records.encode_offset_sync(sync))
    for number, partition in enumerate((0, 1)):
        found.plane.copy.says(
            type="recovered_state_request",
            id=number,
            topic="orders",
            partition=partition,
            target=None,
        )
    found.turn(0.1)
    found.turn(0.1)
    answers = {
        each["id"]: each["state"]["java"] for each in found.plane.copy.told("recovered_state")
    }
    assert answers[1] is None
    read = control_channel_messages.decode_recovered_state(
        found.plane.copy.told("recovered_state")[0]
    )
    assert isinstance(read, RecoveredState)
    assert read.java == JavaMirrorProgress(next_offset=42, sync=(40, 30))


def anchored(found: Running, through: int, target: int, *runs: tuple[int, int]) -> None:
    key = MapSegmentKey(topic="orders", partition=0, era=1, ordinal=1, epoch=0, first_source=0)
    value = MapSegment(
        leader_epoch=0,
        source_epoch=0,
        owner=taking.ME,
        acquired_from=0,
        through=through,
        target_next=target,
        last_crc=None,
        runs=tuple(OffsetRun(*each) for each in runs),
    )
    item = FlowStateRecord(
        key=offset_map_records.encode_map_key(key), value=offset_map_records.encode_map_value(value)
    )
    found.streamed += 1
    found.plane.copy.says(
        **control_channel_messages.encode_flow_state_records(found.streamed, [item])
    )


def test_anchors_become_offset_syncs(running):
    found = running().runs()
    anchored(found, 0, 1)
    found.turn(0.1)
    anchored(found, 5, 6, (0, 1))
    found.turn(0.1)
    found.turn(0.1)
    assert [(each.upstream, each.downstream) for each in found.clusters.writer.written] == [(0, 1)]
    found.turn(1.5)
    found.turn(0.1)
    assert [each.upstream for each in found.clusters.writer.written] == [0, 4]
    found.task.stop()
    assert found.clusters.writer.closed


def test_a_flow_without_syncs_writes_none(running):
    found = running(**{"emit.offset-syncs.enabled": "false"}).runs()
    anchored(found, 0, 1)
    anchored(found, 5, 6, (0, 1))
    found.turn(2.0)
    assert found.clusters.writer.written == []


def test_it_is_on_the_board_until_it_stops(running):
    found = running().runs()
    found.turn(1.0)
    shown = status_registry.REGISTRY.get_snapshot().tasks["A->B"][3]
    assert [each.partition.partition for each in shown.partitions] == [0, 1]
    found.turn(1.0)
    assert status_registry.REGISTRY.get_snapshot().tasks["A->B"][3] is shown
    found.task.stop()
    assert 3 not in status_registry.REGISTRY.get_snapshot().tasks.get("A->B", {})
    assert found.plane.released == 1


def test_stopping_settles_the_copy_and_tells_its_last_offsets(running):
    found = running().runs()
    found.context.stop_timeout_s = 5.0
    copy = found.plane.copy
    found.plane.gauges(copied_to=50)
    copy.says(type="ended", reason="stopped", fatal="")
    found.plane.handles[0].state = CopyState.ENDED
    copy.says(type=control_channel_server.CLOSED_MESSAGE_TYPE, reason="it left")
    found.task.stop()
    assert copy.told("stop")
    assert found.offsets[-2:] == [(0, 49), (1, 49)]
    assert found.plane.handles[0].cancelled


def test_abandoning_ends_the_copy_at_once(running):
    found = running().runs()
    found.task.abandon()
    assert found.plane.handles[0].cancelled
    assert found.plane.copy.closed


def test_metrics_are_shown_by_partition(running):
    found = running().runs()
    names = {family.metric.name for family in found.context.metrics()}
    assert any("record_count" in name for name in names), names


def test_its_copys_pulse_is_on_the_board_until_it_stops(running):
    found = running()
    found.turn(1.0)
    assert 3 not in status_registry.REGISTRY.get_snapshot().latencies.get("A->B", {})
    found.runs()
    found.turn(1.0)
    pulse = status_registry.REGISTRY.get_snapshot().latencies["A->B"][3]
    assert pulse == LatencySnapshot(incarnation=pulse.incarnation)
    assert (
        pulse.incarnation
        == status_registry.REGISTRY.get_snapshot().tasks["A->B"][3].status.counter_generation
        > 0
    )
    found.task.stop()
    assert 3 not in status_registry.REGISTRY.get_snapshot().latencies.get("A->B", {})
