"""MirrorHeartbeatTask. Java: MirrorHeartbeatTaskTest."""

from __future__ import annotations

import pytest

from connect_runtime.api import schema
from connect_runtime.api.errors import ConfigError
from connect_runtime.api.records import SourceRecord
from mm2.connectors.heartbeat_connector import MirrorHeartbeatTask
from tests.fakes import plugin_contexts

PROPS = {
    "name": "beats",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "task.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatTask",
}


class Context(plugin_contexts.Context):
    """Waiting takes its time."""

    def wait(self, timeout_s: float) -> bool:
        self.clock.now += 0 if self.stopping else timeout_s
        return super().wait(timeout_s)


def started(**more):
    task = MirrorHeartbeatTask()
    context = Context()
    task.initialize(context)
    task.start({**PROPS, **{name.replace("_", "."): value for name, value in more.items()}})
    return task, context


def times(task, context, polls):
    """When records came, in seconds since the start."""
    return [context.clock.now for _ in range(polls) if task.poll()]


def test_a_record_is_javas():
    task, context = started()
    (record,) = task.poll()
    assert record == SourceRecord(
        topic="heartbeats",
        kafka_partition=0,
        key_schema=schema.BYTES_SCHEMA,
        key=bytes.fromhex("000141000142"),
        value_schema=schema.BYTES_SCHEMA,
        value=bytes.fromhex("00000000018bcfe56800"),
        timestamp=1_700_000_000_000,
        source_partition={"sourceClusterAlias": "A", "targetClusterAlias": "B"},
        source_offset={"offset": 0},
    )
    assert context.clock.wall == record.timestamp


@pytest.mark.parametrize(("interval", "polls"), [("1", 3), ("3", 9)])
def test_one_comes_per_interval_the_first_after_one(interval, polls):
    task, context = started(emit_heartbeats_interval_seconds=interval)
    assert times(task, context, polls) == [int(interval) * each for each in (1, 2, 3)]


def test_after_a_gap_one_comes_at_once_and_none_is_made_up_for():
    task, context = started(emit_heartbeats_interval_seconds="2")
    context.clock.now = 100.0
    assert times(task, context, 5) == [100.0, 102.0, 104.0]


def test_a_stop_ends_the_waiting_without_a_record():
    task, context = started()
    context.stopping = True
    assert task.poll() is None
    task.stop()


def test_a_configuration_that_writes_none_is_no_tasks():
    with pytest.raises(ConfigError, match="emits no heartbeats"):
        started(emit_heartbeats_enabled="false")
