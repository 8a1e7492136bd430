"""How far the copies of a share are, which follow one another: gauges, and totals over all."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from mm2.core.copy import messages, setup


class CopyFigures:
    """`gauges` are what was said last of each partition, by its index in `partitions`."""

    def __init__(
        self, partitions: Sequence[setup.PartitionSetup], *, before: CopyFigures | None = None
    ) -> None:
        """`before`: of the share that this one follows; partitions of both are counted on."""
        self.gauges: dict[int, messages.Gauge] = {}
        self._names = [each.name for each in partitions]
        known = before.all_totals() if before is not None else {}
        self._past = {index: known[name] for index, name in enumerate(self._names) if name in known}

    def note(self, gauge: messages.Gauge) -> bool:
        """Does the partition stand elsewhere than before, or for another reason?"""
        before = self.gauges.get(gauge.index)
        self.gauges[gauge.index] = gauge
        return before is None or (before.phase, before.reason) != (gauge.phase, gauge.reason)

    def copy_ended(self, why: str) -> None:
        """Nothing moves until the next copy says so; that one counts from zero."""
        self._past |= {index: self.totals(index) for index in self.gauges}
        self.gauges = {index: _idle(gauge, why) for index, gauge in self.gauges.items()}

    def totals(self, index: int) -> tuple[int, int]:
        """Records and bytes copied of the partition, over all copies until now."""
        records, size = self._past.get(index, (0, 0))
        gauge = self.gauges.get(index)
        return (records + gauge.records, size + gauge.bytes) if gauge else (records, size)

    def all_totals(self) -> dict[str, tuple[int, int]]:
        """`totals` by the partition's name."""
        return {name: self.totals(index) for index, name in enumerate(self._names)}


def _idle(gauge: messages.Gauge, why: str) -> messages.Gauge:
    still = dataclasses.replace(gauge, records=0, bytes=0)
    if gauge.phase in ("stopped", "fenced"):
        return still
    return dataclasses.replace(still, phase="waiting", reason=why)
