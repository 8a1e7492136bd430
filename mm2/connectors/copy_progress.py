"""Progress of a task over successive copy processes: gauges, totals, latencies, incidents."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.windowed_stats import SampleWindows, WindowedStat
from mm2.copier.control_messages import PartitionGauge
from mm2.formats import incident_records
from mm2.formats.incident_records import IncidentKind
from mm2.replication.latency import LatencySnapshot
from mm2.replication.setup import PartitionSetup


class CopyTotals(NamedTuple):
    """Counters of a partition, summed over all copy processes; as in `PartitionGauge`."""

    records: int = 0
    bytes: int = 0
    batches: int = 0
    made: int = 0
    spared: int = 0


NO_TOTALS = CopyTotals()
_LIFE_NUMBERS = itertools.count(1)


class TaskCopyProgress:
    """Gauges, totals and latencies of a task's partitions.

    `life` identifies the period over which counters accumulate, as in `TaskStatus`. `gauges` are
    the newest ones, by index in `partitions`. `pulse` are the latencies over all copy processes,
    None before the first report; its `ahead_ms` is the maximum of about the last minute.
    """

    def __init__(
        self, partitions: Sequence[PartitionSetup], *, before: TaskCopyProgress | None = None
    ) -> None:
        """`before` is the progress of the previous assignment; counters of common partitions
        continue.
        """
        self.life: int = next(_LIFE_NUMBERS) if before is None else before.life
        self.gauges: dict[int, PartitionGauge] = {}
        self._names = [each.name for each in partitions]
        known = before.all_totals() if before is not None else {}
        self._previous_totals = {
            index: known[name] for index, name in enumerate(self._names) if name in known
        }
        self.pulse: LatencySnapshot | None = None if before is None else before.pulse
        self._clock_ahead = WindowedStat(SampleWindows())
        self._previous_latency = LatencySnapshot() if self.pulse is None else self.pulse

    def note(self, gauge: PartitionGauge) -> bool:
        """Store a gauge; return True if the phase or reason of the partition has changed."""
        before = self.gauges.get(gauge.index)
        self.gauges[gauge.index] = gauge
        return before is None or (before.phase, before.reason) != (gauge.phase, gauge.reason)

    def note_pulse(self, pulse: LatencySnapshot, now_s: float) -> None:
        """Store the latencies reported by the current copy process, whose counters
        started at zero.
        """
        self._clock_ahead.observe(pulse.ahead_ms, now_s)
        ahead_ms = round(self._clock_ahead.figures(now_s).max)
        self.pulse = self._previous_latency.followed_by(
            pulse._replace(ahead_ms=ahead_ms, life=self.life)
        )

    def copy_ended(self, reason: str) -> None:
        """Keep the totals of the ended copy process; the next one counts from zero."""
        self._previous_totals |= {index: self.totals(index) for index in self.gauges}
        self.gauges = {index: _to_idle_gauge(gauge, reason) for index, gauge in self.gauges.items()}
        if self.pulse is not None:
            self._previous_latency = self.pulse

    def totals(self, index: int) -> CopyTotals:
        """Totals of one partition, over all copy processes."""
        previous, gauge = self._previous_totals.get(index, NO_TOTALS), self.gauges.get(index)
        if gauge is None:
            return previous
        return CopyTotals(
            previous.records + gauge.records,
            previous.bytes + gauge.bytes,
            previous.batches + gauge.batches,
            previous.made + gauge.made,
            previous.spared + gauge.spared,
        )

    def all_totals(self) -> dict[str, CopyTotals]:
        """Totals of all partitions, by partition name."""
        return {name: self.totals(index) for index, name in enumerate(self._names)}


def _to_idle_gauge(gauge: PartitionGauge, reason: str) -> PartitionGauge:
    idle = dataclasses.replace(gauge, records=0, bytes=0, batches=0, made=0, spared=0)
    if gauge.phase in ("stopped", "fenced"):
        return idle
    return dataclasses.replace(idle, phase="waiting", reason=reason)


@dataclass(slots=True)
class IncidentCounts:
    """Counts stored incidents; `counts` is keyed by (topic, kind).

    Invariant: an incident that is recorded again, for example after a crash, is neither counted nor
    logged again.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    _newest_ids: dict[tuple[TopicPartition, IncidentKind], str] = field(default_factory=dict)

    def stored(self, key: bytes, value: bytes) -> str | None:
        """Count an incident; return the line to log, None for a repetition. Raises as
        `incident_records.decode`.
        """
        incident = incident_records.decode(key, value)
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
