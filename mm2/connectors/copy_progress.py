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
    """What was copied of a partition, over all copies until now, as in `PartitionGauge`."""

    records: int = 0
    bytes: int = 0
    batches: int = 0
    made: int = 0
    spared: int = 0


NO_TOTALS = CopyTotals()
_LIFE_NUMBERS = itertools.count(1)


class TaskCopyProgress:
    """`gauges` are what was said last of each partition, by its index in `partitions`; `pulse` is
    that of all copies together, as of now, None before the first has told. Its `ahead_ms` is the
    largest of about the last minute. `life` as in `flow_status.TaskStatus`."""

    def __init__(
        self, partitions: Sequence[PartitionSetup], *, before: TaskCopyProgress | None = None
    ) -> None:
        """`before`: of the share that this one follows; partitions of both are counted on."""
        self.life: int = next(_LIFE_NUMBERS) if before is None else before.life
        self.gauges: dict[int, PartitionGauge] = {}
        self._names = [each.name for each in partitions]
        known = before.all_totals() if before is not None else {}
        self._past = {index: known[name] for index, name in enumerate(self._names) if name in known}
        self.pulse: LatencySnapshot | None = None if before is None else before.pulse
        self._ahead = WindowedStat(SampleWindows())
        self._pulse_past = LatencySnapshot() if self.pulse is None else self.pulse

    def note(self, gauge: PartitionGauge) -> bool:
        """Does the partition stand elsewhere than before, or for another reason?"""
        before = self.gauges.get(gauge.index)
        self.gauges[gauge.index] = gauge
        return before is None or (before.phase, before.reason) != (gauge.phase, gauge.reason)

    def note_pulse(self, pulse: LatencySnapshot, now_s: float) -> None:
        """The copy's own, which begins at nothing."""
        self._ahead.observe(pulse.ahead_ms, now_s)
        ahead_ms = round(self._ahead.figures(now_s).max)
        self.pulse = self._pulse_past.followed_by(pulse._replace(ahead_ms=ahead_ms, life=self.life))

    def copy_ended(self, why: str) -> None:
        """Nothing moves until the next copy says so; that one counts from zero."""
        self._past |= {index: self.totals(index) for index in self.gauges}
        self.gauges = {index: _to_idle_gauge(gauge, why) for index, gauge in self.gauges.items()}
        if self.pulse is not None:
            self._pulse_past = self.pulse

    def totals(self, index: int) -> CopyTotals:
        past, gauge = self._past.get(index, NO_TOTALS), self.gauges.get(index)
        if gauge is None:
            return past
        return CopyTotals(
            past.records + gauge.records,
            past.bytes + gauge.bytes,
            past.batches + gauge.batches,
            past.made + gauge.made,
            past.spared + gauge.spared,
        )

    def all_totals(self) -> dict[str, CopyTotals]:
        """`totals` by the partition's name."""
        return {name: self.totals(index) for index, name in enumerate(self._names)}


def _to_idle_gauge(gauge: PartitionGauge, why: str) -> PartitionGauge:
    still = dataclasses.replace(gauge, records=0, bytes=0, batches=0, made=0, spared=0)
    if gauge.phase in ("stopped", "fenced"):
        return still
    return dataclasses.replace(still, phase="waiting", reason=why)


@dataclass(slots=True)
class IncidentCounts:
    """A fold over the incidents that are stored; `counts` is by (topic, kind's name).

    Invariant: a statement that is made again, as after a crash, is neither counted nor told again.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    _newest: dict[tuple[TopicPartition, IncidentKind], str] = field(default_factory=dict)

    def stored(self, key: bytes, value: bytes) -> str | None:
        """The line to log, None for one that replaces itself. Raises as `incident_records.decode`."""
        stated = incident_records.decode(key, value)
        place = TopicPartition(stated.topic, stated.partition)
        if self._newest.get((place, stated.kind)) == stated.id:
            return None
        self._newest[place, stated.kind] = stated.id
        self.counts[stated.topic, stated.kind.value] += 1
        ranges = [
            f"{side} offsets [{found[0]}, {found[1]})"
            for side, found in (("source", stated.source), ("mirror", stated.target))
            if found is not None
        ]
        where = ", ".join([str(place), *ranges])
        return f"incident {stated.kind.value}: {where}: {stated.detail}"
