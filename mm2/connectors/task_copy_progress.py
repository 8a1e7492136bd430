"""Tracks the progress of a task over successive copy processes: each partition's newest progress
report (`PartitionProgressReport`), totals, latencies and incidents."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.windowed_stats import SampleWindows, WindowedStat
from mm2.copier.progress_reports import PartitionProgressReport
from mm2.formats import incident_records
from mm2.formats.incident_records import IncidentKind
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.replication_latency import LatencySnapshot


class CopyTotals(NamedTuple):
    """Counters of a partition, summed over all copy processes. `PartitionProgressReport` defines
    each counter."""

    records: int = 0
    bytes: int = 0
    batches: int = 0
    reencoded_batches: int = 0
    already_stored_records: int = 0


NO_TOTALS = CopyTotals()
_LIFE_NUMBERS = itertools.count(1)


class TaskCopyProgress:
    """Progress reports (`PartitionProgressReport`), totals and latencies of a task's partitions.

    `counter_generation` identifies the period over which counters accumulate, as in `TaskStatus`.
    `reports` contains the newest report of each partition, by index in `partitions`. `latency`
    contains the latencies over all copy processes; it is None before the first report.
    `latency.ahead_ms`, the time by which record timestamps are ahead of this clock, is the maximum
    over approximately the last minute.
    """

    def __init__(
        self, partitions: Sequence[PartitionSetup], *, previous: TaskCopyProgress | None = None
    ) -> None:
        """Create the progress of a new assignment. `previous` is the progress of the previous
        assignment; partitions that are in both keep their counters."""
        self.counter_generation: int = (
            next(_LIFE_NUMBERS) if previous is None else previous.counter_generation
        )
        self.reports: dict[int, PartitionProgressReport] = {}
        self._names = [each.source_name for each in partitions]
        known = previous.get_all_totals() if previous is not None else {}
        self._previous_totals = {
            index: known[name] for index, name in enumerate(self._names) if name in known
        }
        self.latency: LatencySnapshot | None = None if previous is None else previous.latency
        self._clock_ahead = WindowedStat(SampleWindows())
        self._previous_latency = LatencySnapshot() if self.latency is None else self.latency

    def record_progress_report(self, report: PartitionProgressReport) -> bool:
        """Store a partition's progress report. Returns True if the partition's phase or reason has
        changed."""
        before = self.reports.get(report.index)
        self.reports[report.index] = report
        return before is None or (before.phase, before.reason) != (report.phase, report.reason)

    def record_latency(self, latency: LatencySnapshot, now_s: float) -> None:
        """Store the latencies that the current copy process has reported. Each copy process counts
        from zero."""
        self._clock_ahead.observe(latency.ahead_ms, now_s)
        ahead_ms = round(self._clock_ahead.compute_statistics(now_s).max)
        self.latency = self._previous_latency.add_counts_of_later_snapshot(
            latency._replace(ahead_ms=ahead_ms, incarnation=self.counter_generation)
        )

    def record_copy_end(self, reason: str) -> None:
        """Add the counters of a copy process that has ended to the totals, because the next copy
        process counts from zero."""
        self._previous_totals |= {index: self.get_totals(index) for index in self.reports}
        self.reports = {
            index: _build_idle_report(report, reason) for index, report in self.reports.items()
        }
        if self.latency is not None:
            self._previous_latency = self.latency

    def get_totals(self, index: int) -> CopyTotals:
        """Return the totals of one partition over all copy processes."""
        previous, report = self._previous_totals.get(index, NO_TOTALS), self.reports.get(index)
        if report is None:
            return previous
        return CopyTotals(
            previous.records + report.records,
            previous.bytes + report.bytes,
            previous.batches + report.batches,
            previous.reencoded_batches + report.reencoded_batches,
            previous.already_stored_records + report.already_stored_records,
        )

    def get_all_totals(self) -> dict[str, CopyTotals]:
        """Return the totals of all partitions, by partition name."""
        return {name: self.get_totals(index) for index, name in enumerate(self._names)}


def _build_idle_report(report: PartitionProgressReport, reason: str) -> PartitionProgressReport:
    idle = dataclasses.replace(
        report, records=0, bytes=0, batches=0, reencoded_batches=0, already_stored_records=0
    )
    if report.phase in ("halted", "fenced"):
        return idle
    return dataclasses.replace(idle, phase="waiting", reason=reason)


@dataclass(slots=True)
class IncidentCounts:
    """Counts stored incidents in `counts`, which is keyed by (topic, incident kind).

    Invariant: an incident that is recorded twice, for example after a crash, is counted and logged
    only once.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    _newest_ids: dict[tuple[TopicPartition, IncidentKind], str] = field(default_factory=dict)

    def record_stored_incident(self, key: bytes, value: bytes) -> str | None:
        """Count an incident that is stored in the incident topic. Returns the line to log, or None
        if the incident was already counted. Raises the same errors as
        `incident_records.decode_incident`."""
        incident = incident_records.decode_incident(key, value)
        partition = TopicPartition(incident.topic, incident.partition)
        if self._newest_ids.get((partition, incident.kind)) == incident.id:
            return None
        self._newest_ids[partition, incident.kind] = incident.id
        self.counts[incident.topic, incident.kind.value] += 1
        ranges = [
            f"{side} offsets [{found[0]}, {found[1]})"
            for side, found in (("source", incident.source), ("mirror", incident.target))
            if found is not None
        ]
        where = ", ".join([str(partition), *ranges])
        return f"incident {incident.kind.value}: {where}: {incident.detail}"
