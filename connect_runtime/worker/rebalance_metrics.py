"""Metrics of a worker's rebalances: the group `connect-worker-rebalance-metrics`.

Recorded by the herder's thread, read by any. Java: DistributedHerder.HerderMetrics.
"""

from __future__ import annotations

import math
import threading

from connect_runtime.base.timing import Clock
from connect_runtime.base.windowed_stats import SampleWindows, WindowedStat
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.herder.group_session import GroupSessionEvent
from connect_runtime.herder.herder_events import AssignmentReceived, JoinRequested
from connect_runtime.worker import metrics_registry
from connect_runtime.worker.metrics_registry import MetricReading

_MS = 1000.0


class RebalanceStats:
    """`now_s` never falls. A rebalance begins when the worker is asked to join, however often."""

    def __init__(self, sampling: SampleWindows) -> None:
        self._times_ms = WindowedStat(sampling)
        self._completed = 0
        self._begun_s: float | None = None
        self._ended_s: float | None = None
        self._leader = ""
        self._epoch = -1
        self._speaks: ConnectProtocol | None = None

    def began(self, now_s: float) -> None:
        if self._begun_s is None:
            self._begun_s = now_s

    def completed(
        self, now_s: float, *, leader_url: str, epoch: int, speaks: ConnectProtocol
    ) -> None:
        begun_s = now_s if self._begun_s is None else self._begun_s
        self._times_ms.observe((now_s - begun_s) * _MS, now_s)
        self._completed += 1
        self._begun_s, self._ended_s = None, now_s
        self._leader, self._epoch, self._speaks = leader_url, epoch, speaks

    @property
    def count(self) -> int:
        """How many were completed."""
        return self._completed

    def numbers(self, now_s: float) -> dict[str, float]:
        times = self._times_ms.figures(now_s)
        since_s = math.inf if self._ended_s is None else now_s - self._ended_s
        return {
            "epoch": float(self._epoch),
            "completed-rebalances-total": float(self._completed),
            "rebalancing": 0.0 if self._begun_s is None else 1.0,
            "rebalance-max-time-ms": times.max,
            "rebalance-avg-time-ms": times.avg,
            "time-since-last-rebalance-ms": since_s * _MS,
        }

    def texts(self) -> dict[str, str]:
        """Nothing before the first was completed."""
        if self._speaks is None:
            return {}
        return {"leader-name": self._leader, "connect-protocol": self._speaks.name}


class RebalanceMetrics:
    """Of a member of a group; a worker alone has none. `readings` is for `WorkerMetrics.add`."""

    def __init__(self, *, clock: Clock, sampling: SampleWindows) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._figures = RebalanceStats(sampling)

    def told(self, news: GroupSessionEvent) -> None:
        """Every piece of the group's news, as the herder takes it: a rebalance begins with
        `JoinAsked`, and is complete with a round whose assignment is none of failure, since such
        a round has to be repeated. All else means nothing here."""
        with self._lock:
            now_s = self._clock.now_s()
            match news:
                case JoinRequested():
                    self._figures.began(now_s)
                case AssignmentReceived(assignment=assignment) if not assignment.failed:
                    self._figures.completed(
                        now_s,
                        leader_url=assignment.leader_url,
                        epoch=news.generation,
                        speaks=news.speaks,
                    )
                case _:
                    pass

    @property
    def count(self) -> int:
        """How many were completed."""
        with self._lock:
            return self._figures.count

    def readings(self) -> list[MetricReading]:
        with self._lock:
            return [
                MetricReading(
                    group=metrics_registry.REBALANCES,
                    numbers=self._figures.numbers(self._clock.now_s()),
                    texts=self._figures.texts(),
                )
            ]
