"""MirrorHeartbeatConnector and its task: emit one heartbeat per interval, byte for byte as in Java.

As in Java, the connector creates the heartbeats topic on the cluster of `target.cluster.*`, but the
worker's producer writes the heartbeats. If that producer writes to another cluster by default,
redirect it with `producer.override.*`.

Heartbeats are serialized as in MirrorMaker 2's dedicated mode, regardless of the worker's
converters. Java's connector uses the converters when it runs on a Connect worker, and then writes
heartbeats that no MirrorMaker client can read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from connect_runtime.api import schema
from connect_runtime.api.config_def import ConfigDef, ConfigValue
from connect_runtime.api.connector import SourceConnector
from connect_runtime.api.errors import ConfigError
from connect_runtime.api.records import SourceOffset, SourceRecord
from connect_runtime.api.task import SourceTask, Task
from mm2.config import (
    connector_checks,
    java_class_placeholders,
    mirror_connector_client_properties,
    mirror_connector_config,
    mirror_connector_config_keys,
)
from mm2.connectors import (
    connect_offsets,
    connector_kafka_clients,
    heartbeat_schedule,
    mirrormaker2_internal_topics,
)
from mm2.connectors.connector_kafka_clients import AdminFactory
from mm2.connectors.heartbeat_schedule import HeartbeatSchedule
from mm2.connectors.mirrormaker2_internal_topics import Mm2InternalTopic
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import Heartbeat
from mm2.kafka.kafka_client_interfaces import Admin
from mm2.topics import replication_policy

POLL_INTERVAL_S = 1.0
"""Maximum duration of a poll in seconds. It is short because a worker can pause the task only
between polls."""


class MirrorHeartbeatTask(SourceTask):
    """MirrorMaker 2's heartbeat task. It reads no Connect offsets, and all its records have the
    same source offset."""

    def __init__(self) -> None:
        self._schedule: HeartbeatSchedule | None = None
        self._due_s = 0.0

    def version(self) -> str:
        return java_class_placeholders.KAFKA_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        """Parse the configuration and schedule the first heartbeat. Raises `ConfigError` if it is
        invalid."""
        config = mirror_connector_config.parse_heartbeat_config(props)
        if config.interval_s is None:
            raise ConfigError("this connector emits no heartbeats, so it cannot have tasks")
        self._schedule = HeartbeatSchedule(
            source=config.common.source,
            target=config.common.target,
            interval_s=config.interval_s,
        )
        self._due_s = self._schedule.compute_next_heartbeat_s(None, self.context.clock.now_s())

    def stop(self) -> None:
        """Do nothing, because the task has no resources to release."""

    def poll(self) -> Sequence[SourceRecord] | None:
        assert self._schedule is not None, "call start first"
        clock = self.context.clock
        left_s = self._due_s - clock.now_s()
        if left_s > 0 and self.context.wait(min(left_s, POLL_INTERVAL_S)):
            return None
        now_s = clock.now_s()
        if now_s < self._due_s:
            return None
        self._due_s = self._schedule.compute_next_heartbeat_s(now_s, now_s)
        return [_build_heartbeat_record(self._schedule, clock.wall_ms())]


def _build_heartbeat_record(plan: HeartbeatSchedule, at_ms: int) -> SourceRecord:
    beat = Heartbeat(source=plan.source, target=plan.target, at_ms=at_ms)
    key, value = mirrormaker2_records.encode_heartbeat(beat)
    return SourceRecord(
        topic=plan.topic,
        kafka_partition=heartbeat_schedule.HEARTBEATS_PARTITION,
        key_schema=schema.BYTES_SCHEMA,
        key=key,
        value_schema=schema.BYTES_SCHEMA,
        value=value,
        timestamp=at_ms,
        source_partition=plan.source_partition,
        source_offset=heartbeat_schedule.HEARTBEAT_OFFSET,
    )


_ADMIN_CLIENT_ID_SUFFIX = "heartbeats-target-admin"


class MirrorHeartbeatConnector(SourceConnector):
    """MirrorMaker 2's heartbeat connector."""

    default_converter = connector_checks.BYTE_ARRAY_CONVERTER

    def __init__(self, create_admin: AdminFactory = connector_kafka_clients.create_admin) -> None:
        self._make_admin = create_admin
        self._admin: Admin | None = None
        self._interval_s: float | None = None

    def version(self) -> str:
        return java_class_placeholders.KAFKA_VERSION

    def config(self) -> ConfigDef:
        return mirror_connector_config.HEARTBEAT_CONFIG_DEF

    def validate(self, props: Mapping[str, str]) -> list[ConfigValue]:
        return mirror_connector_config.validate_heartbeat_config(props)

    def start(self, props: Mapping[str, str]) -> None:
        """Create the heartbeats topic.

        Raises `ConfigError` if the configuration is invalid, and `FatalError` if the target rejects
        the topic or denies access.
        """
        super().start(props)
        config = mirror_connector_config.parse_heartbeat_config(props)
        self._interval_s = config.interval_s
        self._admin = self._make_admin(
            config.common,
            mirror_connector_client_properties.TARGET_ADMIN,
            use=_ADMIN_CLIENT_ID_SUFFIX,
            clock=self.context.clock,
        )
        mirrormaker2_internal_topics.create_topic(
            Mm2InternalTopic(
                name=replication_policy.HEARTBEATS_TOPIC,
                replication_factor=config.topic_factor,
                factor_key=mirror_connector_config_keys.HEARTBEATS_FACTOR,
            ),
            self._admin,
            timeout_s=config.common.admin_timeout_s,
            wait=self.context.wait,
        )

    def stop(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def task_class(self) -> type[Task]:
        return MirrorHeartbeatTask

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return heartbeat_schedule.build_task_configs(self.props, self._interval_s)

    def alter_offsets(self, props: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Validate altered Connect source offsets. The heartbeat task never reads them."""
        connect_offsets.check_heartbeat_offsets(offsets)
        return True
