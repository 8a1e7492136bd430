"""All connections to one cluster: routes each request to its broker and keeps the metadata fresh.

One thread owns it. Requests are submitted with `call` and `call_raw`; responses arrive through
their `done` callback, inside `tick`, `close` or the poller's `poll`, never inside `call`. The owner
of the loop calls `tick` once per round: it sends what was submitted and returns when to call again.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from connect_runtime.base.backoff import Backoff
from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.base.timing import Clock
from connect_runtime.network import broker_connections, calls, connection_settings, network_context
from connect_runtime.network.broker_connections import BrokerConnections, ClusterBrokers
from connect_runtime.network.calls import CallDeadlines, ClientCall, EncodedCall, VersionedCall
from connect_runtime.network.cluster_discovery import ClusterDiscovery
from connect_runtime.network.transport import BufferPool, Poller, SendChunk
from connect_runtime.protocol import request_errors
from connect_runtime.protocol.cluster_metadata import ClusterMetadata, CoordinatorCache
from connect_runtime.protocol.request_builders import (
    AnyNodeTarget,
    ControllerTarget,
    CoordinatorTarget,
    LeaderTarget,
    NodeTarget,
    RequestBuilder,
    RequestTarget,
)
from connect_runtime.protocol.request_errors import CallQueueFull, ConnectionFailed, RequestTimedOut

ConnectionSettings: TypeAlias = connection_settings.ConnectionSettings
ClientResponse: TypeAlias = calls.ClientResponse
RawClientResponse: TypeAlias = calls.RawClientResponse

_IDLE_CHECK_INTERVAL_S = 5.0
_MAX_TICK_INTERVAL_S = 3600.0


class ClusterConnections:
    """Raises UnusableCertificate or ValueError (a bootstrap address) when it is made.

    Invariant: a call is in one lane's queue, or parked under its target, or with a connection.
    """

    def __init__(
        self,
        options: connection_settings.ConnectionSettings,
        *,
        poller: Poller,
        clock: Clock,
        random: random.Random,
        pool: BufferPool | None = None,
    ) -> None:
        self._options = options
        self._clock = clock
        self._pool = pool
        self.view = ClusterMetadata(
            random, retry=self._retry_backoff(), max_age_s=options.metadata_max_age_s
        )
        self._coordinators = CoordinatorCache(rng=random, retry=self._retry_backoff())
        shared = network_context.create_network_context(
            options, poller=poller, clock=clock, rng=random, pool=pool
        )
        self._tokens = shared.tokens
        self._names = shared.names
        self._brokers = ClusterBrokers(
            options, environment=shared, view=self.view, ready=self._ready, failed=self._failed
        )
        self._parked: dict[RequestTarget, list[ClientCall]] = {}
        self._deferred: list[Callable[[], None]] = []
        self._deadlines = CallDeadlines(options.waiting_calls_max)
        self._discovery = ClusterDiscovery(
            self,
            view=self.view,
            known=self._coordinators,
            bootstrap=self._brokers.bootstrap,
            rebootstrap=options.rebootstrap,
            clock=clock,
        )
        self._route_again = False
        self._idle_check_at_s = -math.inf
        self._closed = False

    # asking

    def want_topics(self, names: Iterable[str]) -> None:
        """Keep the metadata of these topics, and only these, fresh in `view`."""
        self.view.want_topics(names)

    def refresh_metadata(self) -> None:
        """Something did not fit: ask again as soon as the backoff allows."""
        self.view.request_refresh()

    def call(
        self,
        to: RequestTarget,
        message: RequestBuilder,
        *,
        done: Callable[[calls.ClientResponse], None],
        timeout_s: float | None = None,
        lane: str = broker_connections.CONTROL_PURPOSE,
        max_version: int | None = None,
    ) -> None:
        """Send a message to whoever plays that part, waiting for it to be known and reachable.

        An unreachable broker is asked again until the deadline; another one if `to` allows. After
        the first byte left nothing is repeated: that is the caller's decision.
        """
        now_s = self._clock.now_s()
        request = VersionedCall(
            api_key=message.api_key,
            to=to,
            lane=lane,
            queued_s=now_s,
            deadline_s=now_s + (timeout_s or self._options.request_timeout_s),
            message=message,
            max_version=max_version,
            done=done,
        )
        if not self._closed and self._admit(request):
            self._route(request)

    def call_raw(
        self,
        node_id: int,
        *,
        lane: str,
        api_key: int,
        version: int,
        chunks: Sequence[SendChunk],
        done: Callable[[calls.RawClientResponse], None],
        timeout_s: float | None = None,
    ) -> None:
        """Send an encoded body (the header is added); if the broker cannot be reached, it fails."""
        now_s = self._clock.now_s()
        place = self._brokers.lane(node_id, lane)
        request = EncodedCall(
            api_key=api_key,
            to=place.node,
            lane=lane,
            queued_s=now_s,
            deadline_s=now_s + (timeout_s or self._options.request_timeout_s),
            version=version,
            chunks=chunks,
            done=done,
        )
        if not self._closed and not place.send_now(request) and self._admit(request):
            place.submit(request)

    def version_for(self, node_id: int, api_key: int, low: int, high: int) -> int | None:
        """The version to speak, None until connected; begins that. Raises UnsupportedVersion."""
        known = self._brokers.versions.get(node_id)
        if known is None:
            self._brokers.lane(node_id, broker_connections.CONTROL_PURPOSE).want()
            return None
        return known.choose(api_key, low=low, high=high)

    def throttle(self, node_id: int, lane: str, throttle_ms: int) -> None:
        """A raw response asked for a pause; replies to `call` are looked at here."""
        link = self._brokers.lane(node_id, lane).connection
        if link is not None:
            link.throttle(throttle_ms)

    def forget_coordinator(self, kind: int, key: str) -> None:
        """It said that it is not the one (16, 15): look it up again when it is needed next."""
        self._coordinators.forget(CoordinatorTarget(kind, key))

    # asking how it stands

    def trouble(self, node_id: int) -> ConnectError | None:
        """Why a broker cannot be reached at present, as far as anybody tried lately."""
        return self._brokers.trouble(node_id)

    def troubles(self) -> dict[str, ConnectError]:
        """All that cannot be reached at present: brokers, and bootstrap addresses while needed."""
        return self._brokers.troubles()

    def answered_s(self, node_id: int) -> float:
        """When the broker last answered any request, by the clock; -inf before its first answer."""
        return self._brokers.answered_s(node_id)

    def rtt_s(self, node_id: int) -> float | None:
        """The shortest time a small request to this broker took: about one round trip."""
        return self._brokers.rtt_s.get(node_id)

    @property
    def lent_bytes(self) -> int:
        """Of buffers from the pool: those that responses stand in which somebody still looks at."""
        return 0 if self._pool is None else self._pool.lent_bytes

    # time

    def tick(self, now_s: float) -> float:
        """Do all that is due; returns how many seconds until it must be called again."""
        if self._closed:
            return _MAX_TICK_INTERVAL_S
        self._run_deferred()
        if self._route_again:
            self._route_parked()
        self._discovery.tick(now_s)
        if self._deadlines.due_s <= now_s:
            self._expire(now_s)
        if now_s >= self._idle_check_at_s:
            self._idle_check_at_s = now_s + _IDLE_CHECK_INTERVAL_S
            self._brokers.close_idle(now_s)
        due_s = self._brokers.tick(now_s)
        if self._tokens is not None:  # after the brokers, which say that they want a token
            due_s = min(due_s, self._tokens.tick(now_s))
        if self._deferred or self._brokers.restless or self._route_again:
            return 0.0
        due_s = min(due_s, self._idle_check_at_s, self._discovery.due_s(), self._deadlines.due_s)
        return min(max(0.0, due_s - now_s), _MAX_TICK_INTERVAL_S)

    def close(self) -> None:
        """End every connection and every call; calls made from now on are not even answered."""
        self._closed = True
        self._brokers.close()
        if self._tokens is not None:
            self._tokens.close()
        self._names.close()
        gone = ConnectionFailed("the cluster", "closed by this side")
        parked, self._parked = self._parked, {}
        for call in itertools.chain.from_iterable(parked.values()):
            if call.waiting:
                call.fail(gone)
        self._run_deferred()

    def _run_deferred(self) -> None:
        deferred, self._deferred = self._deferred, []
        for run in deferred:
            run()

    # calls that wait

    def _admit(self, call: ClientCall) -> bool:
        if self._deadlines.add(call):
            return True
        full = CallQueueFull(f"{call.api} for {call.to}: {len(self._deadlines)} calls wait already")
        self._deferred.append(lambda: call.fail(full))
        return False

    def _expire(self, now_s: float) -> None:
        for call in self._deadlines.late(now_s):
            failure = RequestTimedOut(
                call.api,
                waiting_for=self._waits_for(call),
                after_s=round(now_s - call.queued_s, 3),
            )
            call.fail(failure)
        self._brokers.purge()
        self._parked = {
            target: waiting
            for target, parked in self._parked.items()
            if (waiting := [call for call in parked if call.waiting])
        }

    def _waits_for(self, call: ClientCall) -> str:
        node_id = self._node_of(call)
        if node_id is not None:
            return self._brokers.lane(node_id, call.lane).describe()
        what = str(call.to)
        if isinstance(call.to, LeaderTarget):
            topic = self.view.topic(call.to.topic)
            if topic is not None and topic.error_code:
                what += f" ({call.to.topic}: {request_errors.format_error_code(topic.error_code)})"
        troubles = "; ".join(f"{where}: {why}" for where, why in self._brokers.troubles().items())
        return f"{what} ({troubles})" if troubles else what

    # which broker

    def _node_of(self, call: ClientCall) -> int | None:
        """The broker that plays the part, None while that is not known."""
        match call.to:
            case NodeTarget(node_id):
                return node_id if self._brokers.address(node_id) is not None else None
            case AnyNodeTarget():
                return self._brokers.pick(self.view.brokers, call.lane)
            case ControllerTarget():
                known = self.view.controller_id in self.view.brokers
                return self.view.controller_id if known else None
            case LeaderTarget(topic, partition):
                leader = self.view.leader(topic, partition)
                return None if leader is None else leader.node_id
            case CoordinatorTarget() as coordinator:
                node = self._coordinators.node(coordinator)
                return node if node in self.view.brokers else None

    def _route(self, call: ClientCall) -> None:
        node_id = self._node_of(call)
        if node_id is not None:
            self._brokers.lane(node_id, call.lane).submit(call)
            return
        self._parked.setdefault(call.to, []).append(call)
        match call.to:
            case CoordinatorTarget() as coordinator:
                self._find(coordinator)
            case AnyNodeTarget() if self.view.brokers:
                pass  # all are connecting or backing off: the next of them takes it
            case _:
                self.view.request_refresh()

    def _find(self, coordinator: CoordinatorTarget) -> None:
        if self._coordinators.node(coordinator) is None:
            self._coordinators.look_up(coordinator)
        else:  # a broker that the metadata does not have: both are asked again
            self._coordinators.forget(coordinator)
            self._coordinators.failed((coordinator,), self._clock.now_s())
            self.view.request_refresh()

    def _route_parked(self) -> None:
        self._route_again = False
        parked, self._parked = self._parked, {}
        for call in itertools.chain.from_iterable(parked.values()):
            if call.waiting:
                self._route(call)

    def lane(self, node_id: int, name: str) -> BrokerConnections:
        return self._brokers.lane(node_id, name)

    def _retry_backoff(self) -> Backoff:
        return Backoff(
            initial_s=self._options.retry_backoff_s, max_s=self._options.retry_backoff_max_s
        )

    # what lanes tell

    def _ready(self) -> None:
        self._route_again = True
        self._discovery.wake()

    def _failed(
        self, lane: BrokerConnections, failure: ConnectError, returned: list[ClientCall]
    ) -> None:
        if lane.node_id >= 0:
            self._coordinators.forget_node(lane.node_id)
            self.view.request_refresh()
        self._discovery.wake()
        self._route_again = True
        fatal = isinstance(failure, FatalError)
        for call in returned:
            if fatal or not call.follows:
                call.fail(failure, node_id=lane.node_id)
            else:
                self._parked.setdefault(call.to, []).append(call)
        if fatal and not self._brokers.any_connected:
            self.refuse(None, failure)

    # what discovery tells

    def route_again(self) -> None:
        self._route_again = True

    def refuse(self, target: RequestTarget | None, failure: ConnectError) -> None:
        """Fail the calls that wait for this target; None: all that wait for anything."""
        if target is None:
            parked, self._parked = self._parked, {}
        else:
            parked = {target: self._parked.pop(target, [])}
        for call in itertools.chain.from_iterable(parked.values()):
            if call.waiting:
                call.fail(failure)
