"""The brokers of one cluster: their addresses, the lanes to them, and what is known of each.

Bootstrap addresses are brokers with negative ids, until the metadata names the real ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from connect_runtime.base import backoff, errors
from connect_runtime.wire.codec import cluster_view, versions
from connect_runtime.wire.connection import calls, environment, lanes, settings

CONTROL = "control"
_FIRST_BOOTSTRAP = -2
_BOOTSTRAP_IDLE_S = 5.0


class Brokers:
    """Raises ValueError (a bootstrap address) when it is made.

    `ready` is told of every lane that got through, `failed` as `lanes.Owner` says.
    """

    def __init__(
        self,
        options: settings.ConnectionSettings,
        *,
        environment: environment.Environment,
        view: cluster_view.ClusterView,
        ready: Callable[[], None],
        failed: Callable[[lanes.Lane, errors.ConnectError, list[calls.Call]], None],
    ) -> None:
        self._options = options
        self._env = environment
        self._view = view
        self._tell_ready = ready
        addresses = [cluster_view.parse_address(entry) for entry in options.bootstrap]
        environment.rng.shuffle(addresses)
        self.bootstrap = {_FIRST_BOOTSTRAP - i: found for i, found in enumerate(addresses)}
        self.versions: dict[int, versions.BrokerVersions] = {}
        self.rtt_s: dict[int, float] = {}
        self._owner = lanes.Owner(ready=self._ready, failed=failed, wake=self._wake)
        self._lanes: dict[tuple[int, str], lanes.Lane] = {}
        self._dirty: dict[lanes.Lane, None] = {}

    def lane(self, node_id: int, name: str) -> lanes.Lane:
        lane = self._lanes.get((node_id, name))
        if lane is None:
            lane = self._lanes[(node_id, name)] = lanes.Lane(
                node_id,
                name,
                address=lambda: self.address(node_id),
                environment=self._env,
                reconnect=backoff.Backoff(
                    initial_s=self._options.reconnect_backoff_s,
                    max_s=self._options.reconnect_backoff_max_s,
                ),
                owner=self._owner,
            )
        return lane

    def address(self, node_id: int) -> tuple[str, int] | None:
        broker = self._view.brokers.get(node_id)
        return self.bootstrap.get(node_id) if broker is None else (broker.host, broker.port)

    def pick(self, nodes: Iterable[int], lane: str) -> int | None:
        """The broker to ask if any of these will do, None while none can be asked."""
        states = [self.lane(node_id, lane).node_state() for node_id in nodes]
        return cluster_view.pick_node(states, self._env.clock.now_s())[0]

    @property
    def any_connected(self) -> bool:
        return any(lane.node_state().connected for lane in self._lanes.values())

    def answered_s(self, node_id: int) -> float:
        """When the broker last answered on any lane; -inf before its first answer."""
        return max(
            (lane.answered_s for (node, _), lane in self._lanes.items() if node == node_id),
            default=-math.inf,
        )

    # trouble

    def trouble(self, node_id: int) -> errors.ConnectError | None:
        """Why a broker cannot be reached at present, as far as anybody tried lately."""
        now_s = self._env.clock.now_s()
        lanes = [lane for (node, _), lane in self._lanes.items() if node == node_id]
        ready_s = max((lane.ready_s for lane in lanes), default=-math.inf)
        found = (lane.trouble(now_s, broker_ready_s=ready_s) for lane in lanes)
        return next((trouble for trouble in found if trouble is not None), None)

    def troubles(self) -> dict[str, errors.ConnectError]:
        """All that cannot be reached at present: brokers, and bootstrap addresses while needed."""
        found: dict[str, errors.ConnectError] = {}
        for node_id in {node_id: None for node_id, _ in self._lanes}:
            trouble = self.trouble(node_id)
            if trouble is None:
                continue
            if node_id >= 0:
                found[f"broker {node_id}"] = trouble
            elif not self._view.brokers:
                found[cluster_view.format_address(*self.bootstrap[node_id])] = trouble
        return found

    # time

    @property
    def restless(self) -> bool:
        """Does a lane need `tick` at once?"""
        return bool(self._dirty)

    def tick(self, now_s: float) -> float:
        """Connect and send where that is due; returns when to come back at the latest."""
        dirty, self._dirty = self._dirty, {}
        due_s = math.inf
        for lane in list(self._lanes.values()):
            if lane in dirty or lane.queued or lane.due_s() <= now_s:
                lane.tick(now_s)
            due_s = min(due_s, lane.due_s())
        return due_s

    def close_idle(self, now_s: float) -> None:
        for (node_id, _), lane in self._lanes.items():
            bootstrap = node_id < 0 and self._view.brokers
            lane.close_if_idle(
                now_s, _BOOTSTRAP_IDLE_S if bootstrap else self._options.connections_max_idle_s
            )

    def purge(self) -> None:
        """Drop calls that do not wait any more."""
        for lane in self._lanes.values():
            lane.purge()

    def close(self) -> None:
        """End every connection, and every call of its lane."""
        for lane in list(self._lanes.values()):
            lane.close()

    # what lanes tell

    def _wake(self, lane: lanes.Lane) -> None:
        self._dirty[lane] = None

    def _ready(self, lane: lanes.Lane) -> None:
        assert lane.connection is not None
        assert lane.connection.versions is not None
        if lane.node_id >= 0:
            self.versions[lane.node_id] = lane.connection.versions
            rtt_s = lane.connection.rtt_s
            self.rtt_s[lane.node_id] = min(rtt_s, self.rtt_s.get(lane.node_id, math.inf))
        self._tell_ready()
