"""What mirror tasks measure, told by the task and shown by its worker: MM2's metrics.

The task's thread tells, any thread reads: `core.mirror_figures` under a lock that is held for
microseconds. Hand `families` to `context.add_metrics`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from connect_runtime.base import clock as base_clock
from connect_runtime.base import ids, metrics
from mm2.core import mirror_figures, mirror_metrics
from mm2.core.configs import connector_configs
from mm2.core.copy import ages, messages, setup
from mm2.formats import checkpoint


def owner(task: ids.ConnectorTaskId, config: connector_configs.Common) -> mirror_metrics.Owner:
    """Whose metrics they are, as their labels say."""
    return mirror_metrics.Owner(
        task=task, source=config.source, target=config.target, formats=config.metric_formats
    )


class SourceMetrics:
    """Of a source task, by mirror partition: shown from the start, and as long as it is the
    task's."""

    def __init__(
        self,
        about: mirror_metrics.Owner,
        partitions: Iterable[setup.PartitionSetup] = (),
        *,
        clock: base_clock.Clock,
    ) -> None:
        self._about = about
        self._clock = clock
        self._lock = threading.Lock()
        self._figures: dict[tuple[str, ...], mirror_figures.PartitionFigures] = {}
        self.assigned(partitions)

    def assigned(self, partitions: Iterable[setup.PartitionSetup]) -> None:
        """These and no others are the task's; those that were go on as they are."""
        with self._lock:
            known = self._figures
            self._figures = {
                label: known.get(label) or mirror_figures.PartitionFigures()
                for label in map(_label, partitions)
            }

    def observe(self, where: setup.PartitionSetup, gauge: messages.Gauge) -> None:
        """Every gauge that a copy sends, once, in their order; of others nothing is kept."""
        with self._lock:
            figures = self._figures.get(_label(where))
            if figures is not None:
                figures.observe(gauge, self._clock.now_s())

    def families(self) -> list[metrics.Family]:
        """As of now; any thread."""
        with self._lock:
            now_s, wall_ms = self._clock.now_s(), self._clock.wall_ms()
            every = self._figures.items()
            rows = {label: each.numbers(now_s) for label, each in every}
            records = {label: each.lag_records for label, each in every}
            seconds = {label: each.lag_s(wall_ms) for label, each in every}
            stopped = {(*label, each.stopped_by): 1.0 for label, each in every if each.stopped_by}
        return [
            *mirror_metrics.families(mirror_metrics.SOURCE, self._about, rows),
            mirror_metrics.of_ours(mirror_metrics.LAG_RECORDS, self._about, _known(records)),
            mirror_metrics.of_ours(mirror_metrics.LAG_SECONDS, self._about, _known(seconds)),
            mirror_metrics.of_ours(mirror_metrics.STOPPED, self._about, stopped),
        ]


class CheckpointMetrics:
    """Of a checkpoint task, by group and mirror partition: shown from its first checkpoint on."""

    def __init__(self, about: mirror_metrics.Owner, *, clock: base_clock.Clock) -> None:
        self._about = about
        self._clock = clock
        self._lock = threading.Lock()
        self._latencies: dict[tuple[str, ...], mirror_figures.Times] = {}

    def acknowledged(self, what: checkpoint.Key, latency_ms: int) -> None:
        """The target has a checkpoint, so long after it was made; any thread."""
        label = (what.group, what.partition.topic, str(what.partition.partition))
        one = ages.Ages(1, latency_ms, latency_ms, latency_ms)
        with self._lock:
            found = self._latencies.setdefault(label, mirror_figures.Times())
            found.observe(one, self._clock.now_s())

    def families(self) -> list[metrics.Family]:
        """As of now; any thread."""
        with self._lock:
            now_s = self._clock.now_s()
            rows = {
                label: mirror_figures.checkpoint_numbers(each, now_s)
                for label, each in self._latencies.items()
            }
        return mirror_metrics.families(mirror_metrics.CHECKPOINT, self._about, rows)


def _label(where: setup.PartitionSetup) -> tuple[str, ...]:
    return (where.remote_topic, str(where.partition))


def _known(
    found: Mapping[tuple[str, ...], float | None],
) -> dict[tuple[str, ...], float]:
    return {label: value for label, value in found.items() if value is not None}
