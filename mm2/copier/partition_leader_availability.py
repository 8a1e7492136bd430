"""Detects partitions that cannot be replicated because a leader is missing or does not respond.

Brokers that records are fetched from respond at least every half second. Other leaders may receive
no requests: the leaders of paused partitions, and the leaders of target partitions without writes.
These leaders are probed with ApiVersions requests.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import inf
from typing import Protocol

from connect_runtime.network.cluster_connections import ClientResponse
from connect_runtime.protocol import request_builders, request_errors
from connect_runtime.protocol.cluster_metadata import ClusterMetadata
from connect_runtime.protocol.request_builders import NodeTarget, RequestBuilder, RequestTarget
from mm2 import unreachable_cluster
from mm2.copier.progress_reports import PartitionProgressReport
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.partition_state import PartitionPhase
from mm2.unreachable_cluster import ClusterSide

PROBE_SOFTWARE_VERSION = "1"


class LeaderConnections(Protocol):
    """Connections that `LeaderMonitor` uses to probe leaders. Implemented by
    `ClusterConnections`."""

    def get_last_response_time_s(self, node_id: int) -> float: ...

    def call(
        self,
        to: RequestTarget,
        message: RequestBuilder,
        *,
        done: Callable[[ClientResponse], None],
        timeout_s: float | None = None,
    ) -> None: ...


class LeaderMonitor:
    """Finds brokers of one cluster that have stopped responding. Call `find_silent_leaders` once
    per second."""

    def __init__(self, connections: LeaderConnections, *, unreachable_after_s: float) -> None:
        self._connections = connections
        self.unreachable_after_s = unreachable_after_s
        self._led_since_s: dict[int, float] = {}
        self._probed: set[int] = set()
        self._checked_s = -inf
        self._awake_since_s = -inf

    def find_silent_leaders(self, leaders: Collection[int], now_s: float) -> dict[int, float]:
        """Return the brokers among `leaders` that have not responded for `unreachable_after_s`,
        with the time of their last response.

        Times are monotonic seconds. For a broker that never responded, the time is that of the
        first check that included the broker. Time during which this process was suspended does not
        count, because responses may be waiting to be read.
        """
        if now_s - self._checked_s > unreachable_cluster.PROBE_INTERVAL_S:
            self._awake_since_s = now_s
        self._checked_s = now_s
        self._led_since_s = {each: self._led_since_s.get(each, now_s) for each in leaders}
        silent = {}
        for node_id, since_s in self._led_since_s.items():
            answered_s = self._connections.get_last_response_time_s(node_id)
            last_s = since_s if answered_s == -inf else answered_s
            if now_s - max(last_s, self._awake_since_s) > self.unreachable_after_s:
                silent[node_id] = last_s
            if (
                now_s - last_s >= unreachable_cluster.PROBE_INTERVAL_S
                and node_id not in self._probed
            ):
                self._probe_leader(node_id)
        return silent

    def _probe_leader(self, node_id: int) -> None:
        self._probed.add(node_id)
        self._connections.call(
            NodeTarget(node_id),
            request_builders.build_api_versions_request(software_version=PROBE_SOFTWARE_VERSION),
            done=lambda _: self._probed.discard(node_id),
            timeout_s=self.unreachable_after_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnavailableLeader:
    """Reason why a partition is not replicated: its leader on cluster `side` is missing or does not
    respond."""

    side: ClusterSide
    reason: str
    silent: bool = False
    """True if the leader does not respond, False if it is missing."""


def find_missing_leader(
    where: PartitionSetup,
    *,
    source: ClusterMetadata,
    target: ClusterMetadata,
) -> UnavailableLeader | None:
    """Find the cluster on which the partition has no leader. Return None if it has a leader on both
    clusters."""
    sides = (
        (ClusterSide.SOURCE, "source", source, where.topic),
        (ClusterSide.TARGET, "mirror", target, where.remote_topic),
    )
    for side, name, view, topic in sides:
        reason = _describe_missing_leader(view, name, topic=topic, partition=where.partition)
        if reason:
            return UnavailableLeader(side=side, reason=reason)
    return None


def _describe_missing_leader(
    view: ClusterMetadata, side: str, *, topic: str, partition: int
) -> str:
    if view.get_leader(topic, partition) is not None:
        return ""
    metadata = view.get_topic(topic)
    code = metadata.error_code if metadata is not None else 0
    error = f": {request_errors.format_error_code(code)}" if code else ""
    return f"{side} partition {topic}-{partition} has no leader{error}"


def mark_report_waiting_for_leader(
    report: PartitionProgressReport, obstacle: UnavailableLeader | None
) -> PartitionProgressReport:
    """Set the phase in a partition's progress report to waiting if only a missing or unresponsive
    leader prevents replication.

    While the leader on the source is unavailable, the end of the source log, and therefore the lag,
    is reported as unknown.
    """
    if obstacle is None:
        return report
    if obstacle.side is ClusterSide.SOURCE:
        report = dataclasses.replace(report, source_end=-1, oldest_uncopied_ms=-1)
    waiting = PartitionPhase.WAITING.value
    if report.phase in _COPYING_PHASES:
        return dataclasses.replace(report, phase=waiting, reason=report.reason or obstacle.reason)
    if report.phase in _STARTING_PHASES and obstacle.silent:
        return dataclasses.replace(report, phase=waiting, reason=obstacle.reason)
    return report


_COPYING_PHASES = (PartitionPhase.COPYING.value, PartitionPhase.BOUNDARY.value)
_STARTING_PHASES = (PartitionPhase.WAITING.value, PartitionPhase.ACQUIRING.value)
