"""The cluster's configuration: the config topic, folded, and the writes to it.

What was written counts when it was read back: a write returns then, so that what comes next here is
decided by what everybody else reads. Java: KafkaConfigBackingStore.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from connect_runtime.api import context
from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.core.state import (
    cluster_config,
    config_differences,
    config_log,
    config_records,
    skipped,
)
from connect_runtime.ports import fenced_writer, shared_log
from connect_runtime.runtime.stores import acknowledged, folded_log

WRITE_S = 30.0
"""The time that a write may take in all, with reading it back."""

OnChange = Callable[[config_log.Change], None]
"""Hears what changed since the start, on the log's thread, when `snapshot` says so too."""


class ConfigStore:
    """Any thread may ask and write; `on_change` may ask, and must not wait.

    With `fenced` all writes are made by it that only the leader may make. Every write raises
    `RetriableError` when time is up (it may have been made), `PrivilegeLost` if it was not the
    leader's to make, and what `SharedLog.send` and `SharedLog.read_to_end` raise.
    """

    def __init__(
        self,
        log: shared_log.SharedLog,
        *,
        clock: base_clock.Clock,
        on_change: OnChange,
        fenced: fenced_writer.FencedWriter | None = None,
    ) -> None:
        self._log = log
        self._clock = clock
        self._on_change = on_change
        self._fenced = fenced
        self._found_key: cluster_config.SessionKey | None = None
        self._found_ms = 0
        self._view: folded_log.FoldedLog[config_log.ConfigLog, config_log.Change] = (
            folded_log.FoldedLog(
                make=config_log.ConfigLog,
                on_change=on_change,
                on_replayed=self._replayed,
                take=_take,
            )
        )

    def start(self, timeout_s: float) -> None:
        """Read all that is configured. Raises as `SharedLog.start`."""
        self._log.start(self._view, timeout_s)

    def stop(self, timeout_s: float) -> None:
        if self._fenced is not None:
            self._fenced.stop()
        self._log.stop(timeout_s)

    def snapshot(self) -> cluster_config.ClusterConfig:
        """What is configured, as far as it was read."""
        with self._view.lock:
            return self._view.fold.snapshot()

    def refresh(self, timeout_s: float) -> None:
        """Read to the end as of now. Raises as `SharedLog.read_to_end`."""
        self._log.read_to_end(timeout_s)

    def claim_writes(self, timeout_s: float = WRITE_S) -> None:
        """Fence whoever wrote as leader before, where that is wanted. Raises `ConnectError`."""
        if self._fenced is not None:
            self._fenced.claim(timeout_s)

    def put_connector(
        self,
        name: str,
        config: cluster_config.RawConfig,
        *,
        target_state: cluster_config.TargetState | None = None,
    ) -> None:
        """Configure it; a target state, where one is wanted, is there before it."""
        self._write_as_leader(config_records.creation(name, config, target_state))

    def remove_connector(self, name: str) -> None:
        self._write_as_leader(config_records.removal(name))

    def put_task_configs(self, name: str, configs: Sequence[cluster_config.RawConfig]) -> None:
        """All of a connector's tasks; they count together, at the end.

        The commit record is written only when everybody who reads it has read what it commits.
        """
        end = self._deadline()
        self._log.read_to_end(self._left_s(end))
        if configs:
            self._write_as_leader(config_records.task_configs(name, configs), end)
        self._write_as_leader((config_records.commit(name, len(configs)),), end)

    def put_restart(self, request: config_records.RestartRequest) -> None:
        self._write_as_leader((config_records.restart(request),))

    def put_session_key(self, key: cluster_config.SessionKey) -> None:
        self._write_as_leader((config_records.session_key(key),))

    def put_fencing_count(self, name: str, tasks: int) -> None:
        self._write_as_leader((config_records.fencing_count(name, tasks),))

    def put_target_state(self, name: str, state: cluster_config.TargetState) -> None:
        """Any worker may; returns when it is acknowledged, read or not."""
        acknowledged.write(self._log, (config_records.target_state(name, state),), WRITE_S)

    def put_logger_level(self, namespace: str, level: str) -> None:
        """Any worker may; returns when it is acknowledged, read or not."""
        acknowledged.write(self._log, (config_records.logger_level(namespace, level),), WRITE_S)

    def _deadline(self) -> base_deadline.Deadline:
        return base_deadline.Deadline.after(WRITE_S, now_s=self._clock.now_s())

    def _left_s(self, end: base_deadline.Deadline) -> float:
        return end.left_s(self._clock.now_s())

    def _write_as_leader(
        self,
        records: Sequence[config_records.Record],
        end: base_deadline.Deadline | None = None,
    ) -> None:
        end = end or self._deadline()
        if self._fenced is None:
            acknowledged.write(self._log, records, self._left_s(end))
        else:
            self._fenced.write(records, self._left_s(end))
        self._log.read_to_end(self._left_s(end))

    def given(self, connector: str) -> Mapping[int, Sequence[context.TaskGiven]]:
        """As in `LastRuns`."""
        with self._view.lock:
            return self._view.fold.given.of(connector)

    def quiet(self, key_ttl_ms: int) -> context.Quiet | None:
        """Until this worker started the group had no leader, unless its session key was younger
        than that: leaders renew it. None too where it had none."""
        key = self._found_key
        if key is None:
            return None
        from_ms = key.created_ms + key_ttl_ms
        if from_ms >= self._found_ms:
            return None
        return context.Quiet(from_ms=from_ms, to_ms=self._found_ms)

    def _replayed(self, before: config_log.ConfigLog | None, now: config_log.ConfigLog) -> None:
        now.finish_replay()
        if before is None:
            self._found_key, self._found_ms = now.snapshot().session_key, self._clock.wall_ms()
        if before is not None:
            for change in config_differences.differences(before.snapshot(), now.snapshot()):
                self._on_change(change)


def _take(
    fold: config_log.ConfigLog, record: shared_log.LogRecord
) -> config_log.Change | skipped.Skipped | None:
    return fold.apply(record.key, record.value, offset=record.offset, wall_ms=record.wall_ms)
