"""MirrorHeartbeatTask: one record per interval, byte for byte Java's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from connect_runtime.api import errors, records, schema, task
from mm2.core import heartbeats
from mm2.core.configs import connector_configs, java_classes
from mm2.formats import heartbeat

TURN_S = 1.0
"""No poll waits longer, whatever the interval: only between polls can the task be paused."""


class MirrorHeartbeatTask(task.SourceTask):
    """Java's of the same name. It reads no offsets, and those of its records never change."""

    def __init__(self) -> None:
        self._plan: heartbeats.Plan | None = None
        self._due_s = 0.0

    def version(self) -> str:
        return java_classes.VERSION

    def start(self, props: Mapping[str, str]) -> None:
        """Raises `ConfigError`."""
        config = connector_configs.heartbeat(props)
        if config.interval_s is None:
            raise errors.ConfigError("the task of a connector that writes no heartbeats")
        self._plan = heartbeats.Plan(
            source=config.common.source,
            target=config.common.target,
            interval_s=config.interval_s,
        )
        self._due_s = self._plan.next_s(None, self.context.clock.now_s())

    def stop(self) -> None:
        """There is nothing to release."""

    def poll(self) -> Sequence[records.SourceRecord] | None:
        assert self._plan is not None, "it was not started"
        clock = self.context.clock
        left_s = self._due_s - clock.now_s()
        if left_s > 0 and self.context.wait(min(left_s, TURN_S)):
            return None
        now_s = clock.now_s()
        if now_s < self._due_s:
            return None
        self._due_s = self._plan.next_s(now_s, now_s)
        return [_record(self._plan, clock.wall_ms())]


def _record(plan: heartbeats.Plan, at_ms: int) -> records.SourceRecord:
    beat = heartbeat.Heartbeat(source=plan.source, target=plan.target, at_ms=at_ms)
    key, value = heartbeat.encode(beat)
    return records.SourceRecord(
        topic=plan.topic,
        kafka_partition=heartbeats.PARTITION,
        key_schema=schema.BYTES_SCHEMA,
        key=key,
        value_schema=schema.BYTES_SCHEMA,
        value=value,
        timestamp=at_ms,
        source_partition=plan.source_partition,
        source_offset=heartbeats.OFFSET,
    )
