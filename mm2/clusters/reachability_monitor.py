"""Monitors whether the clusters of all flows respond while `mm2 run` is running.

The monitor uses its own connections, so that the result does not depend on copy processes or on the
Connect worker, which stops its tasks when its group is lost. Every broker is polled. A cluster is
unreachable if none of its brokers has responded for `unreachable.after.seconds` (the smallest value
of the flows that share the connections). It is unreachable immediately if no broker ever responded
and connecting fails.
"""

from __future__ import annotations

import dataclasses
import logging
import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError
from connect_runtime.network.cluster_connections import ClusterConnections
from connect_runtime.network.tcp_and_tls_transport import Poller
from mm2 import unreachable_cluster
from mm2.clusters import flow_kafka_clients, reachability_probe
from mm2.config.mm2_settings import ClusterSettings, Mm2Settings
from mm2.copier.partition_leader_availability import LeaderMonitor
from mm2.topics.flow_config import Flow
from mm2.unreachable_cluster import ClusterSide, UnreachableCluster

CLIENT_ID = "mm2-cluster-watch"
CHECK_INTERVAL_S = 0.5
RETRY_DELAY_S = 5.0
MAX_CLOCK_DRIFT_MS = 1_000
MAX_POLL_S = 0.2
"""Maximum time in seconds until `run` notices a stop request or a due check."""

_NO_ANSWER = "no response"

_log = logging.getLogger(__name__)


class MonitoredNode(Protocol):
    """Node whose clusters are monitored, implemented by `mm2.node.mm2_node.Mm2Node`."""

    @property
    def settings(self) -> Mm2Settings: ...


_ConnectionKey = tuple[str, str]
"""Cluster alias, and the flow name if the flow has its own client properties for the cluster,
otherwise ""."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _UnreachableEntry:
    """An unreachable cluster or broker. See `UnreachableCluster`."""

    reason: str
    since_ms: int
    broker: str = ""


@dataclass(slots=True, kw_only=True)
class _MonitoredCluster:
    """A monitored cluster with its connections and last known state."""

    alias: str
    settings: ClusterSettings
    bootstrap: Sequence[str]
    connections: ClusterConnections
    watch: LeaderMonitor
    began_s: float
    began_ms: int
    last_answer_s: float = -inf
    lost: tuple[_UnreachableEntry, ...] = ()

    def check_reachability(self, now_s: float, wall_ms: int) -> None:
        """Update `lost` (the unreachable cluster or brokers) from the responses received so far."""
        brokers = self.connections.view.brokers
        silent = self.watch.find_silent_leaders(brokers.keys(), now_s)
        answers = [self.connections.get_last_response_time_s(node_id) for node_id in brokers]
        self.last_answer_s = max([self.last_answer_s, *answers])
        before, self.lost = self.lost, ()
        if self.last_answer_s == -inf:
            self.lost = self._list_brokers_without_response(now_s)
        elif silent.keys() == set(brokers):
            since_ms = wall_ms - round((now_s - self.last_answer_s) * 1000)
            reason = self._describe_failure() or _NO_ANSWER
            self.lost = (
                _UnreachableEntry(
                    reason=reason, since_ms=_choose_outage_start_ms(before, "", since_ms)
                ),
            )
        else:
            for node_id, last_s in sorted(silent.items()):
                name = self._format_broker_name(node_id)
                since_ms = _choose_outage_start_ms(
                    before, name, wall_ms - round((now_s - last_s) * 1000)
                )
                reason = self._describe_failure(node_id) or _NO_ANSWER
                self.lost = (
                    *self.lost,
                    _UnreachableEntry(reason=reason, since_ms=since_ms, broker=name),
                )

    def list_broker_names(self) -> set[str]:
        """Return the names of the brokers in the cluster's metadata."""
        return {self._format_broker_name(node_id) for node_id in self.connections.view.brokers}

    def _format_broker_name(self, node_id: int) -> str:
        broker = self.connections.view.brokers[node_id]
        return f"{node_id} ({broker.host}:{broker.port})"

    def _list_brokers_without_response(self, now_s: float) -> tuple[_UnreachableEntry, ...]:
        troubles = self.connections.get_connection_errors()
        found = reachability_probe.find_first_failure(troubles, self.bootstrap)
        if found is None and now_s - self.began_s <= reachability_probe.ANSWER_TIMEOUT_S:
            return ()
        found = found or next(iter(troubles.values()), None)
        if found is None:
            reason = reachability_probe.describe_missing_response(self.bootstrap)
        else:
            reason = reachability_probe.describe_connect_failure(found, self.bootstrap)
        reason = f"{reason}; {reachability_probe.DIAGNOSE_COMMAND}"
        return (_UnreachableEntry(reason=reason, since_ms=self.began_ms),)

    def _describe_failure(self, node_id: int | None = None) -> str:
        """Return the reason why the broker (if None: every broker) cannot be reached; "" if
        unknown."""
        if node_id is not None:
            found = self.connections.get_connection_error(node_id)
        else:
            found = next(iter(self.connections.get_connection_errors().values()), None)
        return (
            ""
            if found is None
            else reachability_probe.describe_connect_failure(found, self.bootstrap)
        )


def _choose_outage_start_ms(
    before: tuple[_UnreachableEntry, ...], broker: str, since_ms: int
) -> int:
    """Keep the recorded start time of an ongoing outage, because a newly computed start would
    differ when the wall clock and the monotonic clock drift apart."""
    known = next((each.since_ms for each in before if each.broker == broker), since_ms)
    return known if abs(known - since_ms) < MAX_CLOCK_DRIFT_MS else since_ms


class ReachabilityMonitor:
    """Monitors all clusters. `run` is the body of the monitor thread. `unreachable` is
    thread-safe."""

    def __init__(self, running: MonitoredNode, *, clock: Clock) -> None:
        self._running = running
        self._clock = clock
        self._random = random.Random()  # noqa: S311 - jitter, not secrets
        self._monitored: dict[_ConnectionKey, _MonitoredCluster] = {}
        self._unusable: dict[_ConnectionKey, tuple[ClusterSettings, _UnreachableEntry]] = {}
        """Clusters that cannot be monitored, because no client can be created with their
        settings."""
        self._unreachable: Mapping[str, tuple[UnreachableCluster, ...]] = {}

    def list_unreachable_clusters(self, flow: Flow) -> tuple[UnreachableCluster, ...]:
        """Return the unreachable clusters and brokers of the flow, those of the source first."""
        return self._unreachable.get(flow.name, ())

    def get_unreachable_reason(self, flow: str) -> str:
        """Return the reason why a whole cluster of the named flow does not respond; "" if both
        clusters respond."""
        found = [each for each in self._running.settings.flows if each.name == flow]
        lost = (
            each for of in found for each in self.list_unreachable_clusters(of) if not each.broker
        )
        return "; ".join(each.format_description() for each in lost)

    def run(self, stop: threading.Event) -> None:
        """Monitor the clusters until stopped. After an unexpected error, keep the last state and
        restart monitoring."""
        while True:
            try:
                self._monitor_clusters(stop)
            except Exception:  # noqa: BLE001 - it would keep reporting old states
                _log.exception("monitoring the clusters failed; retrying in %.0f s", RETRY_DELAY_S)
                if not stop.wait(RETRY_DELAY_S):
                    continue
            self._unreachable = {}
            return

    def _monitor_clusters(self, stop: threading.Event) -> None:
        selector = Poller()
        next_check_s = 0.0
        try:
            while not stop.is_set():
                now_s = self._clock.now_s()
                if now_s >= next_check_s:
                    next_check_s = now_s + CHECK_INTERVAL_S
                    settings = self._running.settings
                    self._apply_settings(settings, selector)
                    self._check_cluster_reachability(settings)
                waits = [each.connections.tick(now_s) for each in self._monitored.values()]
                selector.poll(max(0.0, min([MAX_POLL_S, *waits])))
        finally:
            for each in self._monitored.values():
                each.connections.close()
            self._monitored.clear()
            selector.close()

    def _check_cluster_reachability(self, settings: Mm2Settings) -> None:
        now_s, wall_ms = self._clock.now_s(), self._clock.wall_ms()
        for each in self._monitored.values():
            before = each.lost
            each.check_reachability(now_s, wall_ms)
            _log_reachability_changes(each, before)
        lost = {
            **{key: each.lost for key, each in self._monitored.items()},
            **{key: (lost,) for key, (_, lost) in self._unusable.items()},
        }
        self._unreachable = {
            flow.name: tuple(
                UnreachableCluster(
                    side=side,
                    cluster=_get_cluster_alias(flow, side),
                    reason=each.reason,
                    since_ms=each.since_ms,
                    broker=each.broker,
                )
                for side in ClusterSide
                for each in lost.get(_build_connection_key(settings, flow, side), ())
            )
            for flow in settings.flows
        }

    def _apply_settings(self, settings: Mm2Settings, selector: Poller) -> None:
        """Connect to clusters that are new or have changed settings. Keep the connections to all
        other clusters."""
        wanted, after_s = {}, dict[_ConnectionKey, int]()
        for flow in settings.flows:
            for side in ClusterSide:
                key = _build_connection_key(settings, flow, side)
                wanted[key] = (
                    _get_cluster_alias(flow, side),
                    _get_cluster_settings(settings, flow, side),
                )
                after_s[key] = min(
                    flow.unreachable_after_s,
                    after_s.get(key, unreachable_cluster.MAX_UNREACHABLE_AFTER_S),
                )
        for key, each in list(self._monitored.items()):
            if key not in wanted or wanted[key][1] != each.settings:
                each.connections.close()
                del self._monitored[key]
        self._unusable = {
            key: known
            for key, known in self._unusable.items()
            if key in wanted and wanted[key][1] == known[0]
        }
        for key, (alias, reached) in wanted.items():
            if key in self._monitored:
                self._monitored[key].watch.unreachable_after_s = after_s[key]
            if key in self._monitored or key in self._unusable:
                continue
            try:
                self._monitored[key] = self._connect_to_cluster(
                    alias, reached, selector, after_s[key]
                )
            except ConnectError as error:
                cause = reachability_probe.describe_connect_failure(
                    error, reached.bootstrap_servers
                )
                lost = _UnreachableEntry(reason=cause, since_ms=self._clock.wall_ms())
                self._unusable[key] = reached, lost
                _log.warning("%s cannot be reached: %s", alias, cause)

    def _connect_to_cluster(
        self,
        alias: str,
        reached: ClusterSettings,
        selector: Poller,
        unreachable_after_s: int,
    ) -> _MonitoredCluster:
        options = flow_kafka_clients.build_protocol_client_connection_settings(
            reached, alias, client_id=CLIENT_ID
        )
        made = ClusterConnections(
            dataclasses.replace(options, quiet=True),
            poller=selector,
            clock=self._clock,
            random=self._random,
        )
        made.refresh_metadata()
        return _MonitoredCluster(
            alias=alias,
            settings=reached,
            bootstrap=options.bootstrap,
            connections=made,
            watch=LeaderMonitor(made, unreachable_after_s=unreachable_after_s),
            began_s=self._clock.now_s(),
            began_ms=self._clock.wall_ms(),
        )


def _get_cluster_alias(flow: Flow, side: ClusterSide) -> str:
    return flow.source if side is ClusterSide.SOURCE else flow.target


def _get_cluster_settings(settings: Mm2Settings, flow: Flow, side: ClusterSide) -> ClusterSettings:
    """Return the settings with which copy processes connect to the cluster."""
    clients = settings.get_clients(flow)
    return clients.consumer if side is ClusterSide.SOURCE else clients.producer


def _build_connection_key(settings: Mm2Settings, flow: Flow, side: ClusterSide) -> _ConnectionKey:
    """Return the key by which flows with equal client properties share connections."""
    alias = _get_cluster_alias(flow, side)
    own = _get_cluster_settings(settings, flow, side) != settings.clusters[alias]
    return alias, f"{flow.name} {side.value}" if own else ""


def _log_reachability_changes(
    each: _MonitoredCluster, before: tuple[_UnreachableEntry, ...]
) -> None:
    """Log one line for each cluster or broker that became unreachable, recovered or was removed."""
    known, now = ({lost.broker for lost in found} for found in (before, each.lost))
    over = known - now if "" not in now else set[str]()
    for lost in each.lost:
        if lost.broker not in known:
            what = f"{each.alias} broker {lost.broker}" if lost.broker else each.alias
            since = unreachable_cluster.format_utc_time(lost.since_ms)
            reason = f": {lost.reason}" if lost.reason else ""
            _log.warning("%s unreachable since %s%s", what, since, reason)
    for broker in sorted(over):
        if not broker:
            _log.info("%s responds again", each.alias)
        elif broker in each.list_broker_names():
            _log.info("%s broker %s responds again", each.alias, broker)
        else:
            _log.info("%s broker %s is no longer in the cluster's metadata", each.alias, broker)
