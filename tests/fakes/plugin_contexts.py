"""Contexts for plugins, in memory: what they asked for is kept, time is what the test says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.api.plugin_context import (
    ErrantRecordReporter,
    LastTaskRuns,
    PipelineProgress,
    ReadMetrics,
    TransactionContext,
)
from connect_runtime.api.records import SourceRecord
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.base.metrics import MetricFamily


@dataclass
class Clock:
    now: float = 0.0
    wall: int = 1_700_000_000_000

    def now_s(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return self.wall


@dataclass
class Offsets:
    """An offset reader; `stored` are pairs of partition and offset."""

    stored: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = field(default_factory=list)

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        found = [offset for each, offset in self.stored if each == partition]
        return found[-1] if found else None

    def offsets(
        self, partitions: Sequence[Mapping[str, Any]]
    ) -> Sequence[Mapping[str, Any] | None]:
        return [self.offset(each) for each in partitions]


@dataclass
class Context:
    """Of a connector or task of any kind; waits take no time and are counted."""

    clock: Clock = field(default_factory=Clock)
    offset_reader: Offsets = field(default_factory=Offsets)
    task_id: ConnectorTaskId = field(default_factory=lambda: ConnectorTaskId("c", 0))
    props: Mapping[str, str] = field(default_factory=dict)
    transaction_context: TransactionContext | None = None
    errant_record_reporter: ErrantRecordReporter | None = None
    stop_timeout_s: float = 5.0
    session_timeout_s: float = 10.0
    worker: Mapping[str, str] = field(default_factory=dict)
    confirmed_s: float | None = None
    """When the group last confirmed the task; None: it always does, as it does a worker alone."""
    confirmations_wanted: int = 0
    runs: LastTaskRuns = field(default_factory=LastTaskRuns)
    published: list[Mapping[str, str]] = field(default_factory=list)
    added: list[ReadMetrics] = field(default_factory=list)
    stopping: bool = False
    waited_s: float = 0.0
    reconfigurations: int = 0
    errors: list[Exception] = field(default_factory=list)
    reports: list[PipelineProgress] = field(default_factory=list)

    def wait(self, timeout_s: float) -> bool:
        self.waited_s += timeout_s
        return self.stopping

    def configs(self) -> Mapping[str, str]:
        return self.props

    def task_configs(self) -> Sequence[Mapping[str, str]]:
        return self.published

    def add_metrics(self, read: ReadMetrics) -> None:
        self.added.append(read)

    def metrics(self) -> list[MetricFamily]:
        """What all that was added says now."""
        return [family for read in self.added for family in read()]

    def get_worker_properties(self, prefix: str) -> Mapping[str, str]:
        return {key: text for key, text in self.worker.items() if key.startswith(prefix)}

    def get_last_heartbeat_s(self) -> float:
        return self.clock.now_s() if self.confirmed_s is None else self.confirmed_s

    def request_heartbeat(self) -> None:
        self.confirmations_wanted += 1

    def get_last_task_runs(self) -> LastTaskRuns:
        return self.runs

    def request_task_reconfiguration(self) -> None:
        self.reconfigurations += 1

    def raise_error(self, error: Exception) -> None:
        self.errors.append(error)

    def report(self, progress: PipelineProgress) -> None:
        self.reports.append(progress)


def stored_by(given: Sequence[SourceRecord]) -> Offsets:
    """A reader that sees the offsets of these records as committed."""
    return Offsets(
        [
            (each.source_partition, each.source_offset)
            for each in given
            if each.source_partition is not None and each.source_offset is not None
        ]
    )
