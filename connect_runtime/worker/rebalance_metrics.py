"""Metrics of a worker's rebalances: the group `connect-worker-rebalance-metrics`.

Written by the herder's thread, read by any thread. Java: DistributedHerder.HerderMetrics.
"""

from __future__ import annotations

import math
import threading

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.windowed_stats import SampleWindows, WindowedStat
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.herder.group_session import GroupSessionEvent
from connect_runtime.herder.herder_events import AssignmentReceived, JoinRequested
from connect_runtime.worker import connect_metrics_registry
from connect_runtime.worker.connect_metrics_registry import MetricReading

_MS = 1000.0


class RebalanceStats:
    """Rebalance statistics. `now_s` must not decrease between calls.

    A rebalance starts with its first join request; repeated join requests belong to the same
    rebalance.
    """

    def __init__(self, sampling: SampleWindows) -> None:
        self._times_ms = WindowedStat(sampling)
        self._completed = 0
        self._begun_s: float | None = None
        self._ended_s: float | None = None
        self._leader = ""
        self._epoch = -1
        self._speaks: ConnectProtocol | None = None

    def record_start(self, now_s: float) -> None:
        """Record the start of a rebalance, unless one is in progress."""
        if self._begun_s is None:
            self._begun_s = now_s

    def record_completion(
        self, now_s: float, *, leader_url: str, epoch: int, protocol: ConnectProtocol
    ) -> None:
        """Record the completion of a rebalance with the group's new state."""
        begun_s = now_s if self._begun_s is None else self._begun_s
        self._times_ms.observe((now_s - begun_s) * _MS, now_s)
        self._completed += 1
        self._begun_s, self._ended_s = None, now_s
        self._leader, self._epoch, self._speaks = leader_url, epoch, protocol

    @property
    def completed_rebalances(self) -> int:
        """Number of completed rebalances."""
        return self._completed

    def compute_attributes(self, now_s: float) -> dict[str, float]:
        times = self._times_ms.compute_statistics(now_s)
        since_s = math.inf if self._ended_s is None else now_s - self._ended_s
        return {
            "epoch": float(self._epoch),
            "completed-rebalances-total": float(self._completed),
            "rebalancing": 0.0 if self._begun_s is None else 1.0,
            "rebalance-max-time-ms": times.max,
            "rebalance-avg-time-ms": times.avg,
            "time-since-last-rebalance-ms": since_s * _MS,
        }

    def get_text_attributes(self) -> dict[str, str]:
        """Return the leader's URL and the group protocol as text attributes; empty before the first
        completed rebalance."""
        if self._speaks is None:
            return {}
        return {"leader-name": self._leader, "connect-protocol": self._speaks.name}


class RebalanceMetrics:
    """Thread-safe rebalance metrics of a group member, to be registered with
    `WorkerMetrics.add_metric_readings`."""

    def __init__(self, *, clock: Clock, sampling: SampleWindows) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._stats = RebalanceStats(sampling)

    def record_event(self, event: GroupSessionEvent) -> None:
        """Update the metrics from an event in the herder's queue. Events unrelated to rebalances
        are ignored.

        A rebalance starts with `JoinRequested` and ends with a successful assignment. A failed
        rebalance is repeated, so the measurement continues.
        """
        with self._lock:
            now_s = self._clock.now_s()
            match event:
                case JoinRequested():
                    self._stats.record_start(now_s)
                case AssignmentReceived(assignment=assignment) if not assignment.failed:
                    self._stats.record_completion(
                        now_s,
                        leader_url=assignment.leader_url,
                        epoch=event.generation,
                        protocol=event.protocol,
                    )
                case _:
                    pass

    @property
    def completed_rebalances(self) -> int:
        """Number of completed rebalances."""
        with self._lock:
            return self._stats.completed_rebalances

    def get_metric_readings(self) -> list[MetricReading]:
        with self._lock:
            return [
                MetricReading(
                    group=connect_metrics_registry.REBALANCES,
                    numbers=self._stats.compute_attributes(self._clock.now_s()),
                    texts=self._stats.get_text_attributes(),
                )
            ]
