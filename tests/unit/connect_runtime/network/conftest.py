"""Connections against scripted brokers, in time that passes only when nothing else happens."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from connect_runtime.network.cluster_connections import ClusterConnections, ConnectionSettings
from connect_runtime.network.tcp_and_tls_transport import BufferPool, Poller
from tests.support.scripted_broker import ScriptedBroker


class FakeClock:
    def __init__(self) -> None:
        self.time_s = 1000.0

    def now_s(self) -> float:
        return self.time_s

    def wall_ms(self) -> int:
        return int(self.time_s * 1000)


class World:
    """Brokers, connections and the loop. A turn without an event lets time jump to what is due."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.poller = Poller()
        self.brokers: list[ScriptedBroker] = []
        self.clusters: list[ClusterConnections] = []

    def broker(self, node_id: int = 1) -> ScriptedBroker:
        self.brokers.append(ScriptedBroker(self.poller, node_id=node_id))
        return self.brokers[-1]

    def connect(self, *addresses: str, **options: Any) -> ClusterConnections:
        made = ClusterConnections(
            ConnectionSettings(bootstrap=addresses, **options),
            poller=self.poller,
            clock=self.clock,
            random=random.Random(3),
            pool=BufferPool(32 << 20),
        )
        self.clusters.append(made)
        return made

    def turn(self, step_s: float = 0.5) -> None:
        due_s = min(each.tick(self.clock.time_s) for each in self.clusters)
        if self.poller.poll(0.0 if due_s == 0 else 0.002) == 0:
            self.clock.time_s += min(due_s, step_s)

    def until(self, condition: Callable[[], object], *, limit_s: float = 120.0) -> float:
        """Turn until it holds; returns how much time passed."""
        start_s = self.clock.time_s
        turns = 0
        while not condition():
            turns += 1
            assert self.clock.time_s < start_s + limit_s, "it never held"
            assert turns < 50_000, "turns without end: something spins"
            self.turn()
        return self.clock.time_s - start_s

    def settle(self, seconds: float) -> int:
        """Let so much time pass; returns how many turns that took."""
        end_s = self.clock.time_s + seconds
        turns = 0
        while self.clock.time_s < end_s:
            turns += 1
            self.turn(step_s=max(0.0, end_s - self.clock.time_s))
        return turns

    def close(self) -> None:
        for each in self.clusters:
            each.close()
        for broker in self.brokers:
            broker.close()
        self.poller.close()


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()
