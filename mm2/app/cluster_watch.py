"""Watches, while `mm2 run` runs, whether the clusters of its flows answer.

Over connections of its own, so that the answer depends neither on the copies, which may wait, nor
on the Connect worker, which stops its tasks when its group is gone. Every broker is asked now and
then. A cluster is unreachable once none of its brokers has answered for the flow's
`unreachable.after.seconds` (the least of the flows that share the connections), or at once where
none ever did and connecting fails.
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

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors
from connect_runtime.wire.connection import cluster, poller
from mm2.app import cluster_reach, connections
from mm2.app.settings import settings as app_settings
from mm2.core import flows, reachability
from mm2.pipeline import leader_watch

CLIENT_ID = "mm2-cluster-watch"
CHECK_S = 0.5
AGAIN_S = 5.0
DRIFT_MS = 1_000
POLL_MAX_S = 0.2
"""How late `run` may notice that it is to stop, or that a check is due."""

_NO_ANSWER = "no answer"

_log = logging.getLogger(__name__)


class Running(Protocol):
    """Whose clusters are watched: `mm2.app.node.Node`."""

    @property
    def settings(self) -> app_settings.Settings: ...


_Key = tuple[str, str]
"""The cluster's alias and, "" for none, the flow whose own client properties reach it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lost:
    """As in `reachability.Unreachable`, whatever part the cluster plays in a flow."""

    reason: str
    since_ms: int
    broker: str = ""


@dataclass(slots=True, kw_only=True)
class _Watched:
    """One cluster and what it answered."""

    alias: str
    settings: app_settings.ClusterSettings
    bootstrap: Sequence[str]
    connections: cluster.ClusterConnections
    watch: leader_watch.LeaderWatch
    began_s: float
    began_ms: int
    last_answer_s: float = -inf
    lost: tuple[_Lost, ...] = ()

    def check(self, now_s: float, wall_ms: int) -> None:
        """Update `lost` from what has been answered until now."""
        brokers = self.connections.view.brokers
        silent = self.watch.check(brokers.keys(), now_s)
        answers = [self.connections.answered_s(node_id) for node_id in brokers]
        self.last_answer_s = max([self.last_answer_s, *answers])
        before, self.lost = self.lost, ()
        if self.last_answer_s == -inf:
            self.lost = self._never_answered(now_s)
        elif silent.keys() == set(brokers):
            since_ms = wall_ms - round((now_s - self.last_answer_s) * 1000)
            reason = self._trouble() or _NO_ANSWER
            self.lost = (_Lost(reason=reason, since_ms=_same(before, "", since_ms)),)
        else:
            for node_id, last_s in sorted(silent.items()):
                name = self._name(node_id)
                since_ms = _same(before, name, wall_ms - round((now_s - last_s) * 1000))
                reason = self._trouble(node_id) or _NO_ANSWER
                self.lost = (*self.lost, _Lost(reason=reason, since_ms=since_ms, broker=name))

    def broker_names(self) -> set[str]:
        """Of the brokers in the cluster's metadata."""
        return {self._name(node_id) for node_id in self.connections.view.brokers}

    def _name(self, node_id: int) -> str:
        broker = self.connections.view.brokers[node_id]
        return f"{node_id} ({broker.host}:{broker.port})"

    def _never_answered(self, now_s: float) -> tuple[_Lost, ...]:
        troubles = self.connections.troubles()
        found = cluster_reach.first_trouble(troubles, self.bootstrap)
        if found is None and now_s - self.began_s <= cluster_reach.WITHIN_S:
            return ()
        found = found or next(iter(troubles.values()), None)
        if found is None:
            reason = cluster_reach.no_answer(self.bootstrap)
        else:
            reason = cluster_reach.cause(found, self.bootstrap)
        reason = f"{reason}; {cluster_reach.REMEDY}"
        return (_Lost(reason=reason, since_ms=self.began_ms),)

    def _trouble(self, node_id: int | None = None) -> str:
        """Why the broker cannot be reached, None: why any cannot."""
        if node_id is not None:
            found = self.connections.trouble(node_id)
        else:
            found = next(iter(self.connections.troubles().values()), None)
        return "" if found is None else cluster_reach.cause(found, self.bootstrap)


def _same(before: tuple[_Lost, ...], broker: str, since_ms: int) -> int:
    """The moment that was known already, while a silence lasts: the two clocks drift apart."""
    known = next((each.since_ms for each in before if each.broker == broker), since_ms)
    return known if abs(known - since_ms) < DRIFT_MS else since_ms


class ClusterWatch:
    """`run` is its thread's body; `unreachable` may be asked by any thread."""

    def __init__(self, running: Running, *, clock: base_clock.Clock) -> None:
        self._running = running
        self._clock = clock
        self._random = random.Random()  # noqa: S311 - jitter, not secrets
        self._watched: dict[_Key, _Watched] = {}
        self._unusable: dict[_Key, tuple[app_settings.ClusterSettings, _Lost]] = {}
        """Clusters to which no connection can be made with these settings."""
        self._unreachable: Mapping[str, tuple[reachability.Unreachable, ...]] = {}

    def unreachable(self, flow: flows.Flow) -> tuple[reachability.Unreachable, ...]:
        """What of the flow's source and target does not answer; the source first."""
        return self._unreachable.get(flow.name, ())

    def reason(self, flow: str) -> str:
        """Why a whole cluster of the flow of that name does not answer; "" while both do."""
        found = [each for each in self._running.settings.flows if each.name == flow]
        lost = (each for of in found for each in self.unreachable(of) if not each.broker)
        return "; ".join(each.describe() for each in lost)

    def run(self, stop: threading.Event) -> None:
        """An error of ours is logged, and what was known stays, until the watch begins again."""
        while True:
            try:
                self._watch(stop)
            except Exception:  # noqa: BLE001 - blind, it would report dead clusters as reachable
                _log.exception("watching the clusters failed; trying again in %.0f s", AGAIN_S)
                if not stop.wait(AGAIN_S):
                    continue
            self._unreachable = {}
            return

    def _watch(self, stop: threading.Event) -> None:
        selector = poller.Poller()
        next_check_s = 0.0
        try:
            while not stop.is_set():
                now_s = self._clock.now_s()
                if now_s >= next_check_s:
                    next_check_s = now_s + CHECK_S
                    settings = self._running.settings
                    self._follow_settings(settings, selector)
                    self._check(settings)
                waits = [each.connections.tick(now_s) for each in self._watched.values()]
                selector.poll(max(0.0, min([POLL_MAX_S, *waits])))
        finally:
            for each in self._watched.values():
                each.connections.close()
            self._watched.clear()
            selector.close()

    def _check(self, settings: app_settings.Settings) -> None:
        now_s, wall_ms = self._clock.now_s(), self._clock.wall_ms()
        for each in self._watched.values():
            before = each.lost
            each.check(now_s, wall_ms)
            _log_change(each, before)
        lost = {
            **{key: each.lost for key, each in self._watched.items()},
            **{key: (lost,) for key, (_, lost) in self._unusable.items()},
        }
        self._unreachable = {
            flow.name: tuple(
                reachability.Unreachable(
                    side=side,
                    cluster=_alias(flow, side),
                    reason=each.reason,
                    since_ms=each.since_ms,
                    broker=each.broker,
                )
                for side in reachability.Side
                for each in lost.get(_key(settings, flow, side), ())
            )
            for flow in settings.flows
        }

    def _follow_settings(self, settings: app_settings.Settings, selector: poller.Poller) -> None:
        """Connect to clusters that are new in the settings, or reached otherwise; leave others."""
        wanted, after_s = {}, dict[_Key, int]()
        for flow in settings.flows:
            for side in reachability.Side:
                key = _key(settings, flow, side)
                wanted[key] = _alias(flow, side), _settings(settings, flow, side)
                after_s[key] = min(flow.unreachable_after_s, after_s.get(key, reachability.MOST_S))
        for key, each in list(self._watched.items()):
            if key not in wanted or wanted[key][1] != each.settings:
                each.connections.close()
                del self._watched[key]
        self._unusable = {
            key: known
            for key, known in self._unusable.items()
            if key in wanted and wanted[key][1] == known[0]
        }
        for key, (alias, reached) in wanted.items():
            if key in self._watched:
                self._watched[key].watch.unreachable_after_s = after_s[key]
            if key in self._watched or key in self._unusable:
                continue
            try:
                self._watched[key] = self._connect(alias, reached, selector, after_s[key])
            except errors.ConnectError as error:
                cause = cluster_reach.cause(error, reached.bootstrap_servers)
                lost = _Lost(reason=cause, since_ms=self._clock.wall_ms())
                self._unusable[key] = reached, lost
                _log.warning("%s cannot be reached: %s", alias, cause)

    def _connect(
        self,
        alias: str,
        reached: app_settings.ClusterSettings,
        selector: poller.Poller,
        unreachable_after_s: int,
    ) -> _Watched:
        options = connections.wire_settings(reached, alias, client_id=CLIENT_ID)
        made = cluster.ClusterConnections(
            dataclasses.replace(options, quiet=True),
            poller=selector,
            clock=self._clock,
            random=self._random,
        )
        made.refresh_metadata()
        return _Watched(
            alias=alias,
            settings=reached,
            bootstrap=options.bootstrap,
            connections=made,
            watch=leader_watch.LeaderWatch(made, unreachable_after_s=unreachable_after_s),
            began_s=self._clock.now_s(),
            began_ms=self._clock.wall_ms(),
        )


def _alias(flow: flows.Flow, side: reachability.Side) -> str:
    return flow.source if side is reachability.Side.SOURCE else flow.target


def _settings(
    settings: app_settings.Settings, flow: flows.Flow, side: reachability.Side
) -> app_settings.ClusterSettings:
    """As the copies reach it."""
    clients = settings.clients_of(flow)
    return clients.consumer if side is reachability.Side.SOURCE else clients.producer


def _key(settings: app_settings.Settings, flow: flows.Flow, side: reachability.Side) -> _Key:
    """Flows share the connections to what they reach alike."""
    alias = _alias(flow, side)
    own = _settings(settings, flow, side) != settings.clusters[alias]
    return alias, f"{flow.name} {side.value}" if own else ""


def _log_change(each: _Watched, before: tuple[_Lost, ...]) -> None:
    """One line for each cluster or broker that is lost, and for each that is back, or gone."""
    known, now = ({lost.broker for lost in found} for found in (before, each.lost))
    over = known - now if "" not in now else set[str]()
    for lost in each.lost:
        if lost.broker not in known:
            what = f"{each.alias} broker {lost.broker}" if lost.broker else each.alias
            since = reachability.clock_time(lost.since_ms)
            reason = f": {lost.reason}" if lost.reason else ""
            _log.warning("%s unreachable since %s%s", what, since, reason)
    for broker in sorted(over):
        if not broker:
            _log.info("%s answers again", each.alias)
        elif broker in each.broker_names():
            _log.info("%s broker %s answers again", each.alias, broker)
        else:
            _log.info("%s broker %s is no longer in the cluster's metadata", each.alias, broker)
