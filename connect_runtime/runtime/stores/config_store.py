"""The cluster's configuration: the config topic, folded, and the writes to it.

What was written counts when it was read back: `put_…` returns then, so that what comes next here is
decided by what everybody else reads. Java: KafkaConfigBackingStore.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.core.state import cluster_config, config_log, config_records, skipped
from connect_runtime.ports import shared_log
from connect_runtime.runtime.stores import acknowledged

_LOG = logging.getLogger(__name__)
WRITE_S = 30.0
"""The time that a write may take, with reading it back."""

OnChange = Callable[[config_log.Change], None]
"""Hears what changed since the start, on the log's thread, when `snapshot` says so too."""


class ConfigStore:
    """Any thread may ask and write, but not `on_change`. Writers do not wait for each other: there
    is one leader, and it has one herder."""

    def __init__(
        self, log: shared_log.SharedLog, *, clock: base_clock.Clock, on_change: OnChange
    ) -> None:
        self._log = log
        self._clock = clock
        self._on_change = on_change
        self._lock = threading.Lock()
        self._fold = config_log.ConfigLog()

    def start(self, timeout_s: float) -> None:
        """Read all that is configured. Raises as `SharedLog.start`."""
        self._log.start(self, timeout_s)

    def stop(self, timeout_s: float) -> None:
        self._log.stop(timeout_s)

    def snapshot(self) -> cluster_config.ClusterConfig:
        """What is configured, as far as it was read."""
        with self._lock:
            return self._fold.snapshot()

    def refresh(self, timeout_s: float) -> None:
        """Read to the end as of now. Raises as `SharedLog.read_to_end`."""
        self._log.read_to_end(timeout_s)

    def put_connector(
        self,
        name: str,
        config: cluster_config.RawConfig,
        *,
        target_state: cluster_config.TargetState | None = None,
    ) -> None:
        """Raises `RetriableError` when time is up, what `SharedLog` raises; so for all below."""
        self._write(config_records.creation(name, config, target_state))

    def _write(self, records: Sequence[config_records.Record]) -> None:
        end = base_deadline.Deadline.after(WRITE_S, now_s=self._clock.now_s())
        acknowledged.write(self._log, records, timeout_s=WRITE_S)
        self._log.read_to_end(end.left_s(self._clock.now_s()))

    def on_record(self, record: shared_log.LogRecord) -> None:
        """See `shared_log.Listener`; so for all below."""
        with self._lock:
            change = self._fold.apply(record.key, record.value, offset=record.offset)
        if isinstance(change, skipped.Skipped):
            _LOG.warning(
                "skipping the record of %s-%d at offset %d: %s",
                record.topic,
                record.partition,
                record.offset,
                change.reason,
            )
        elif change is not None:
            self._on_change(change)

    def on_replayed(self) -> None:
        with self._lock:
            self._fold.finish_replay()

    def on_start_over(self) -> None:
        with self._lock:
            self._fold = config_log.ConfigLog()
