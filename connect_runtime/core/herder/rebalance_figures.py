"""What is measured of a worker's rebalances; read as `connect-worker-rebalance-metrics`.

Java: DistributedHerder.HerderMetrics.
"""

from __future__ import annotations

import math

from connect_runtime.base import sampled
from connect_runtime.core.assignment import protocol

_MS = 1000.0


class RebalanceFigures:
    """`now_s` never falls. A rebalance begins when the worker is asked to join, however often."""

    def __init__(self, sampling: sampled.Sampling) -> None:
        self._times_ms = sampled.Sampled(sampling)
        self._completed = 0
        self._begun_s: float | None = None
        self._ended_s: float | None = None
        self._leader = ""
        self._epoch = -1
        self._speaks: protocol.Protocol | None = None

    def began(self, now_s: float) -> None:
        if self._begun_s is None:
            self._begun_s = now_s

    def completed(
        self, now_s: float, *, leader_url: str, epoch: int, speaks: protocol.Protocol
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
