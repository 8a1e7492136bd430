"""Which of the brokers that lead a task's partitions have stopped answering.

A fetch that waits for news is answered every half second, but nothing is asked of the leader of a
paused partition, or of a target to which nothing is written: those are sent ApiVersions requests.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from typing import Protocol

from connect_runtime.wire.codec import messages as wire_messages
from connect_runtime.wire.codec import targets
from connect_runtime.wire.connection import cluster
from mm2.core import reachability

SOFTWARE_VERSION = "1"


class Connections(Protocol):
    """The part of `ClusterConnections` that is used here."""

    def answered_s(self, node_id: int) -> float: ...

    def call(
        self,
        to: targets.Target,
        message: wire_messages.Message,
        *,
        done: cluster.OnReply,
        timeout_s: float | None = None,
    ) -> None: ...


class LeaderWatch:
    """Of one cluster; call `check` about once a second."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._led_since_s: dict[int, float] = {}
        self._probed: set[int] = set()

    def check(self, leaders: Collection[int], now_s: float) -> dict[int, float]:
        """Silent brokers among `leaders`, with the time of their last answer (or, without one, of
        the first check that named them)."""
        self._led_since_s = {each: self._led_since_s.get(each, now_s) for each in leaders}
        silent = {}
        for node_id, since_s in self._led_since_s.items():
            answered_s = self._connections.answered_s(node_id)
            last_s = since_s if answered_s == -inf else answered_s
            if now_s - last_s > reachability.LIMIT_S:
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
            timeout_s=reachability.LIMIT_S,
        )
