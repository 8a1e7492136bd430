"""How fast topics are copied, as a fold over snapshots of what was copied in all."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mm2.connectors import flow_status

WINDOW_S = 5.0
"""Rates are means over about this long: less jumps, more hides."""

TopicKey = tuple[str, str]
"""Flow and source topic."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Per second; of records, and of bytes as they are in the logs (compressed)."""

    records_s: float
    bytes_s: float


NOTHING = Rate(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class _Sample:
    at_s: float
    totals: Mapping[TopicKey, tuple[int, int]]


@dataclass(slots=True)
class Rates:
    """Invariant: samples are in order of time, and all but the newest two lie within the window."""

    _samples: deque[_Sample] = field(default_factory=deque)

    def observe(self, statuses: Sequence[flow_status.FlowStatus], now_s: float) -> None:
        if self._samples and now_s <= self._samples[-1].at_s:
            return
        totals: dict[TopicKey, tuple[int, int]] = {}
        for status in statuses:
            for each in status.partitions:
                key = (status.flow, each.partition.topic)
                records, size = totals.get(key, (0, 0))
                totals[key] = (records + each.records, size + each.bytes)
        self._samples.append(_Sample(now_s, totals))
        while len(self._samples) > 2 and now_s - self._samples[0].at_s > WINDOW_S:
            self._samples.popleft()

    def of(self, flow: str, topic: str) -> Rate:
        """Zero until there are two samples."""
        if len(self._samples) < 2:
            return NOTHING
        first, last = self._samples[0], self._samples[-1]
        passed_s = last.at_s - first.at_s
        records, size = last.totals.get((flow, topic), (0, 0))
        records_before, size_before = first.totals.get((flow, topic), (0, 0))
        return Rate(
            max(0, records - records_before) / passed_s, max(0, size - size_before) / passed_s
        )

    def check_invariants(self) -> None:
        times = [sample.at_s for sample in self._samples]
        assert times == sorted(set(times)), times
        assert all(times[-1] - each <= WINDOW_S for each in times[1:-1]), times
