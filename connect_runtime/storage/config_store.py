"""Backing store of connector configurations: applies the records of the config topic in order, and
writes to the topic.

Most writes return only after the written records were read back. The caller therefore bases its
next decision on the same records that all other workers read. Java: KafkaConfigBackingStore.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from connect_runtime.api.plugin_context import LeaderlessPeriod, PublishedTaskConfig
from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.storage import backing_store_base, config_records, config_topic
from connect_runtime.storage.backing_store_base import TopicStateListener
from connect_runtime.storage.cluster_config_state import (
    ClusterConfigState,
    RawConfig,
    SessionKey,
    TargetState,
)
from connect_runtime.storage.config_records import KeyedRecord, RestartRequest
from connect_runtime.storage.config_topic import ConfigChange, ConfigTopicState
from connect_runtime.storage.internal_topic_log import (
    FencedWriter,
    SharedLog,
    SharedLogRecord,
    SkippedRecord,
)

WRITE_TIMEOUT_S = 30.0
"""Time limit in seconds for writing records and reading them back."""

OnConfigChange = Callable[[ConfigChange], None]
"""Called on the log's thread with each change after the start. `snapshot` already includes the
change."""


class ConfigBackingStore:
    """Reads and writes the connector configurations of the cluster. Thread-safe. `on_change` must
    not block.

    Writes that are reserved for the leader use the fenced writer `fenced` if it is given. Every
    write raises `RetriableError` after the timeout (the record may have been written),
    `WritePrivilegeLost` if another leader has taken over, and all errors that `SharedLog.send` and
    `SharedLog.read_to_end` raise. Connectors that are not among `allowed_connectors` are ignored;
    None allows all connectors.
    """

    def __init__(
        self,
        log: SharedLog,
        *,
        clock: Clock,
        on_change: OnConfigChange,
        fenced: FencedWriter | None = None,
        allowed_connectors: frozenset[str] | None = None,
    ) -> None:
        self._log = log
        self._allowed_connectors = allowed_connectors
        self._clock = clock
        self._on_change = on_change
        self._fenced = fenced
        self._found_key: SessionKey | None = None
        self._found_ms = 0
        self._view: TopicStateListener[ConfigTopicState, ConfigChange] = TopicStateListener(
            create_fold=lambda: ConfigTopicState(allowed_connectors=allowed_connectors),
            on_change=on_change,
            on_replayed=self._on_replay_completed,
            apply_record=_apply_config_record,
        )

    def start(self, timeout_s: float) -> None:
        """Read the whole config topic. Raises the same errors as `SharedLog.start`."""
        self._log.start(self._view, timeout_s)

    def stop(self, timeout_s: float) -> None:
        """Wait for pending writes to the config topic, then close its log."""
        if self._fenced is not None:
            self._fenced.stop()
        self._log.stop(timeout_s)

    def snapshot(self) -> ClusterConfigState:
        """Return the cluster's configuration as read so far."""
        with self._view.lock:
            return self._view.state.snapshot()

    def is_connector_allowed(self, name: str) -> bool:
        """Return False if this worker ignores connectors with this name."""
        return self._allowed_connectors is None or name in self._allowed_connectors

    def refresh(self, timeout_s: float) -> None:
        """Read the config topic to its current end. Raises the same errors as
        `SharedLog.read_to_end`."""
        self._log.read_to_end(timeout_s)

    def claim_write_privileges(self, timeout_s: float = WRITE_TIMEOUT_S) -> None:
        """Become the only writer and fence the previous leader's writes, if a fenced writer is
        configured. Raises `ConnectError`."""
        if self._fenced is not None:
            self._fenced.claim_write_privileges(timeout_s)

    def put_connector(
        self,
        name: str,
        config: RawConfig,
        *,
        target_state: TargetState | None = None,
    ) -> None:
        """Write a connector's configuration. If a target state is given, it is written first."""
        self._write_config_as_leader(
            config_records.encode_connector_creation(name, config, target_state)
        )

    def remove_connector(self, name: str) -> None:
        """Write the deletion of a connector and its target state."""
        self._write_config_as_leader(config_records.encode_connector_deletion(name))

    def put_task_configs(self, name: str, configs: Sequence[RawConfig]) -> None:
        """Write the configurations of all tasks of a connector, which take effect together.

        The commit record is written only after the task configurations were read back. Every reader
        of the commit record has therefore read them.
        """
        end = self._create_deadline()
        self._log.read_to_end(self._get_remaining_s(end))
        if configs:
            self._write_config_as_leader(config_records.encode_task_configs(name, configs), end)
        self._write_config_as_leader(
            (config_records.encode_task_config_commit(name, len(configs)),), end
        )

    def put_restart_request(self, request: RestartRequest) -> None:
        """Write a request to restart a connector."""
        self._write_config_as_leader((config_records.encode_restart_request(request),))

    def put_session_key(self, key: SessionKey) -> None:
        """Write a new session key, which replaces the previous key."""
        self._write_config_as_leader((config_records.encode_session_key(key),))

    def put_fencing_count(self, name: str, tasks: int) -> None:
        """Record that the producers of a connector's previous tasks were fenced. `tasks` is the
        number of its new tasks."""
        self._write_config_as_leader((config_records.encode_fencing_count(name, tasks),))

    def put_target_state(self, name: str, state: TargetState) -> None:
        """Write a connector's target state. Any worker may call this, not only the leader.

        Returns after the write was acknowledged, possibly before it is read back.
        """
        backing_store_base.write_records(
            self._log, (config_records.encode_target_state(name, state),), WRITE_TIMEOUT_S
        )

    def put_logger_level(self, namespace: str, level: str) -> None:
        """Write a logger level. Any worker may call this, not only the leader.

        Returns after the write was acknowledged, possibly before it is read back.
        """
        backing_store_base.write_records(
            self._log, (config_records.encode_logger_level(namespace, level),), WRITE_TIMEOUT_S
        )

    def _create_deadline(self) -> Deadline:
        return Deadline.after(WRITE_TIMEOUT_S, now_s=self._clock.now_s())

    def _get_remaining_s(self, end: Deadline) -> float:
        return end.remaining_s(self._clock.now_s())

    def _write_config_as_leader(
        self,
        records: Sequence[KeyedRecord],
        end: Deadline | None = None,
    ) -> None:
        end = end or self._create_deadline()
        if self._fenced is None:
            backing_store_base.write_records(self._log, records, self._get_remaining_s(end))
        else:
            self._fenced.write_records(records, self._get_remaining_s(end))
        self._log.read_to_end(self._get_remaining_s(end))

    def get_task_config_history(
        self, connector: str
    ) -> Mapping[int, Sequence[PublishedTaskConfig]]:
        """Return the most recent configurations of each task of a connector, oldest first."""
        with self._view.lock:
            return self._view.state.task_config_history.get_task_configs(connector)

    def find_leaderless_period_before_start(self, key_ttl_ms: int) -> LeaderlessPeriod | None:
        """Return the period without a leader before this worker started; None if there was no such
        period, or if the config topic contained no session key.

        A leader replaces the session key when the key's age reaches `key_ttl_ms`. If the newest key
        was older when this worker first read the config topic, the group had no leader to replace
        it. The period begins when the key expired and ends when this worker read the topic.
        """
        key = self._found_key
        if key is None:
            return None
        from_ms = key.created_ms + key_ttl_ms
        if from_ms >= self._found_ms:
            return None
        return LeaderlessPeriod(from_ms=from_ms, to_ms=self._found_ms)

    def _on_replay_completed(self, before: ConfigTopicState | None, now: ConfigTopicState) -> None:
        now.finish_replay()
        if before is None:
            self._found_key, self._found_ms = now.snapshot().session_key, self._clock.wall_ms()
        if before is not None:
            for change in config_topic.diff_config_states(before.snapshot(), now.snapshot()):
                self._on_change(change)


def _apply_config_record(
    fold: ConfigTopicState, record: SharedLogRecord
) -> ConfigChange | SkippedRecord | None:
    return fold.apply_record(record.key, record.value, offset=record.offset, wall_ms=record.wall_ms)
