"""How far the copies of a share are, which follow one another: gauges, and totals over all."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import NamedTuple

from connect_runtime.base import sampled
from mm2.core.copy import crossing, messages, setup


class Totals(NamedTuple):
    """What was copied of a partition, over all copies until now, as in `messages.Gauge`."""

    records: int = 0
    bytes: int = 0
    batches: int = 0
    made: int = 0
    spared: int = 0


NOTHING = Totals()
_LIVES = itertools.count(1)


class CopyFigures:
    """`gauges` are what was said last of each partition, by its index in `partitions`; `pulse` is
    that of all copies together, as of now, None before the first has told. Its `ahead_ms` is the
    largest of about the last minute. `life` as in `flow_status.TaskStatus`."""

    def __init__(
        self, partitions: Sequence[setup.PartitionSetup], *, before: CopyFigures | None = None
    ) -> None:
        """`before`: of the share that this one follows; partitions of both are counted on."""
        self.life: int = next(_LIVES) if before is None else before.life
        self.gauges: dict[int, messages.Gauge] = {}
        self._names = [each.name for each in partitions]
        known = before.all_totals() if before is not None else {}
        self._past = {index: known[name] for index, name in enumerate(self._names) if name in known}
        self.pulse: crossing.Pulse | None = None if before is None else before.pulse
        self._ahead = sampled.Sampled(sampled.Sampling())
        self._pulse_past = crossing.Pulse() if self.pulse is None else self.pulse

    def note(self, gauge: messages.Gauge) -> bool:
        """Does the partition stand elsewhere than before, or for another reason?"""
        before = self.gauges.get(gauge.index)
        self.gauges[gauge.index] = gauge
        return before is None or (before.phase, before.reason) != (gauge.phase, gauge.reason)

    def note_pulse(self, pulse: crossing.Pulse, now_s: float) -> None:
        """The copy's own, which begins at nothing."""
        self._ahead.observe(pulse.ahead_ms, now_s)
        ahead_ms = round(self._ahead.figures(now_s).max)
        self.pulse = self._pulse_past.followed_by(pulse._replace(ahead_ms=ahead_ms, life=self.life))

    def copy_ended(self, why: str) -> None:
        """Nothing moves until the next copy says so; that one counts from zero."""
        self._past |= {index: self.totals(index) for index in self.gauges}
        self.gauges = {index: _idle(gauge, why) for index, gauge in self.gauges.items()}
        if self.pulse is not None:
            self._pulse_past = self.pulse

    def totals(self, index: int) -> Totals:
        past, gauge = self._past.get(index, NOTHING), self.gauges.get(index)
        if gauge is None:
            return past
        return Totals(
            past.records + gauge.records,
            past.bytes + gauge.bytes,
            past.batches + gauge.batches,
            past.made + gauge.made,
            past.spared + gauge.spared,
        )

    def all_totals(self) -> dict[str, Totals]:
        """`totals` by the partition's name."""
        return {name: self.totals(index) for index, name in enumerate(self._names)}


def _idle(gauge: messages.Gauge, why: str) -> messages.Gauge:
    still = dataclasses.replace(gauge, records=0, bytes=0, batches=0, made=0, spared=0)
    if gauge.phase in ("stopped", "fenced"):
        return still
    return dataclasses.replace(still, phase="waiting", reason=why)
