"""What keeps a partition from being replicated although its copy could go on: one of its leaders.

A leader is missing, or its broker has stopped answering. A fetch that waits for news is answered
every half second, but nothing is asked of the leader of a paused partition, or of a target to which
nothing is written: those brokers are sent ApiVersions requests.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import inf
from typing import Protocol

from connect_runtime.wire.codec import cluster_view, failures, targets
from connect_runtime.wire.codec import messages as wire_messages
from connect_runtime.wire.connection import cluster
from mm2.core import reachability
from mm2.core.copy import messages, setup, standing

SOFTWARE_VERSION = "1"


class Connections(Protocol):
    """The part of `ClusterConnections` that is used here."""

    def answered_s(self, node_id: int) -> float: ...

    def call(
        self,
        to: targets.Target,
        message: wire_messages.Message,
        *,
        done: Callable[[cluster.Reply], None],
        timeout_s: float | None = None,
    ) -> None: ...


class LeaderWatch:
    """Finds the brokers of one cluster that stopped answering; call `check` about once a second.

    `unreachable_after_s`: for how long a silent broker has not answered at least.
    """

    def __init__(self, connections: Connections, *, unreachable_after_s: float) -> None:
        self._connections = connections
        self.unreachable_after_s = unreachable_after_s
        self._led_since_s: dict[int, float] = {}
        self._probed: set[int] = set()
        self._checked_s = -inf
        self._awake_since_s = -inf

    def check(self, leaders: Collection[int], now_s: float) -> dict[int, float]:
        """Return the silent brokers among `leaders` with the time of their last answer (monotonic
        seconds; of a broker that never answered: of the first check that named it).

        Time in which this process stood still does not count: answers may be waiting unread.
        """
        if now_s - self._checked_s > reachability.PROBE_S:
            self._awake_since_s = now_s
        self._checked_s = now_s
        self._led_since_s = {each: self._led_since_s.get(each, now_s) for each in leaders}
        silent = {}
        for node_id, since_s in self._led_since_s.items():
            answered_s = self._connections.answered_s(node_id)
            last_s = since_s if answered_s == -inf else answered_s
            if now_s - max(last_s, self._awake_since_s) > self.unreachable_after_s:
                silent[node_id] = last_s
            if now_s - last_s >= reachability.PROBE_S and node_id not in self._probed:
                self._probe(node_id)
        return silent

    def _probe(self, node_id: int) -> None:
        self._probed.add(node_id)
        self._connections.call(
            targets.Node(node_id),
            wire_messages.api_versions(software_version=SOFTWARE_VERSION),
            done=lambda _: self._probed.discard(node_id),
            timeout_s=self.unreachable_after_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Why nothing of a partition is replicated: its leader on `side` is missing, or (`silent`) does
    not answer."""

    side: reachability.Side
    reason: str
    silent: bool = False


def missing_leader(
    where: setup.PartitionSetup,
    *,
    source: cluster_view.ClusterView,
    target: cluster_view.ClusterView,
) -> Obstacle | None:
    """The side whose metadata names no leader for the partition; None when both have one."""
    asked = (
        (reachability.Side.SOURCE, "source", source, where.topic),
        (reachability.Side.TARGET, "mirror", target, where.remote_topic),
    )
    for side, name, view, topic in asked:
        reason = _missing(view, name, topic=topic, partition=where.partition)
        if reason:
            return Obstacle(side=side, reason=reason)
    return None


def _missing(view: cluster_view.ClusterView, side: str, *, topic: str, partition: int) -> str:
    if view.leader(topic, partition) is not None:
        return ""
    seen = view.topic(topic)
    code = seen.error_code if seen is not None else 0
    why = f": {failures.error_name(code)}" if code else ""
    return f"{side} partition {topic}-{partition} has no leader{why}"


def with_obstacle(gauge: messages.Gauge, obstacle: Obstacle | None) -> messages.Gauge:
    """The gauge of a copy that could go on but for the obstacle, as one that waits for its end.

    While the source's leader is away the end of its log, and with it the lag, is unknown.
    """
    if obstacle is None:
        return gauge
    if obstacle.side is reachability.Side.SOURCE:
        gauge = dataclasses.replace(gauge, source_end=-1, oldest_ms=-1)
    waiting = standing.Phase.WAITING.value
    if gauge.phase in _COPIES:
        return dataclasses.replace(gauge, phase=waiting, reason=gauge.reason or obstacle.reason)
    if gauge.phase in _BEGINS and obstacle.silent:
        return dataclasses.replace(gauge, phase=waiting, reason=obstacle.reason)
    return gauge


_COPIES = (standing.Phase.COPYING.value, standing.Phase.BOUNDARY.value)
_BEGINS = (standing.Phase.WAITING.value, standing.Phase.TAKING.value)
