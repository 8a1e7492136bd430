"""Keeps a cluster's metadata fresh and looks coordinators up: asks, and feeds the machines.

It has lanes of its own: a broker that hangs takes no other request down when it is given up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from connect_runtime.base import clock, errors
from connect_runtime.wire.codec import (
    cluster_view,
    coordinators,
    failures,
    messages,
    targets,
)
from connect_runtime.wire.connection import calls, lanes

LANE = "metadata"
TIMEOUT_S = 5.0
"""After that another broker is asked: short, since every leader change waits for it."""


class Cluster(Protocol):
    """What discovery needs of the connections it serves."""

    def call(
        self,
        to: targets.Target,
        message: messages.Message,
        *,
        done: Callable[[calls.Reply], None],
        timeout_s: float | None = None,
        lane: str = LANE,
    ) -> None: ...

    def lane(self, node_id: int, name: str) -> lanes.Lane: ...

    def route_again(self) -> None:
        """What is known has changed: calls without a broker may have one now."""

    def refuse(self, target: targets.Target | None, failure: errors.ConnectError) -> None:
        """Fail the calls that wait for this target; None: all that wait for anything."""


class Discovery:
    """Driven by `tick`; told by `wake` when a connection came or went."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        view: cluster_view.ClusterView,
        known: coordinators.Coordinators,
        bootstrap: Mapping[int, tuple[str, int]],
        rebootstrap: bool,
        clock: clock.Clock,
    ) -> None:
        self._cluster = cluster
        self._view = view
        self._coordinators = known
        self._bootstrap = bootstrap
        self._rebootstrap = rebootstrap
        self._clock = clock
        self._not_before_s = -math.inf
        self._one_by_one = False

    def wake(self) -> None:
        self._not_before_s = -math.inf

    def tick(self, now_s: float) -> None:
        if now_s >= self._refresh_due_s():
            self._refresh(now_s)
        batch = self._coordinators.next_batch(now_s)
        if batch:
            self._look_up(batch)

    def due_s(self) -> float:
        return min(self._refresh_due_s(), self._coordinators.due_s())

    # metadata

    def _refresh_due_s(self) -> float:
        return max(self._view.refresh_due_s(), self._not_before_s)

    def _refresh(self, now_s: float) -> None:
        nodes = [*self._view.brokers]
        if self._rebootstrap or not nodes:
            nodes += self._bootstrap
        states = [self._cluster.lane(node, LANE).node_state() for node in nodes]
        node_id, self._not_before_s = cluster_view.pick_node(states, now_s)
        if node_id is None:
            return
        lane = self._cluster.lane(node_id, LANE)
        if lane.connection is None:
            lane.want()
            return
        topics = self._view.refresh_started()
        self._cluster.call(
            targets.Node(node_id),
            messages.metadata(topics),
            done=self._refreshed,
            timeout_s=TIMEOUT_S,
            lane=LANE,
        )

    def _refreshed(self, reply: calls.Reply) -> None:
        now_s = self._clock.now_s()
        if reply.failure is not None or int(getattr(reply.body, "error_code", 0)):
            self._view.refresh_failed(now_s)
            if isinstance(reply.failure, errors.FatalError):
                self._cluster.refuse(None, reply.failure)
            return
        before = self._view.generation
        self._view.refreshed(reply.body, now_s)
        if self._view.generation != before:
            self._cluster.route_again()

    # coordinators

    def _look_up(self, batch: Sequence[targets.Coordinator]) -> None:
        if not self._one_by_one:
            keys = [coordinator.key for coordinator in batch]
            self._ask(messages.find_coordinators(batch[0].kind, keys), batch)
            return
        for coordinator in batch:
            message = messages.find_coordinator(coordinator.kind, coordinator.key)
            self._ask(message, (coordinator,))

    def _ask(self, message: messages.Message, batch: Sequence[targets.Coordinator]) -> None:
        self._cluster.call(
            targets.AnyNode(),
            message,
            done=lambda reply: self._looked_up(batch, reply),
            timeout_s=TIMEOUT_S,
            lane=LANE,
        )

    def _looked_up(self, batch: Sequence[targets.Coordinator], reply: calls.Reply) -> None:
        if isinstance(reply.failure, failures.UnsupportedVersion):
            self._one_by_one = True  # a broker before 3.0 (KIP-699)
        if reply.failure is not None:
            self._coordinators.failed(batch, self._clock.now_s())
            return
        found: Sequence[Any] = getattr(reply.body, "coordinators", (reply.body,))
        by_key = {getattr(each, "key", batch[0].key): each for each in found}
        again: list[targets.Coordinator] = []
        for coordinator in batch:
            each = by_key.get(coordinator.key)
            code = -1 if each is None else int(each.error_code)
            if each is not None and code == 0:
                self._coordinators.found(coordinator, int(each.node_id))
            elif code in coordinators.RETRIABLE:
                again.append(coordinator)
            else:
                self._coordinators.refused(coordinator)
                refused = failures.CoordinatorRefused(coordinator.describe(), error_code=code)
                self._cluster.refuse(coordinator, refused)
        if again:
            self._coordinators.failed(again, self._clock.now_s())
        self._cluster.route_again()
