"""All connections to one cluster: finds the broker for each request and keeps the metadata fresh.

One thread owns it. Requests go in by `call` and `call_raw`; replies come out through their `done`,
inside `tick`, `close` or the poller's `poll`, and never inside `call`. Whoever owns the loop calls
`tick` once per round: it sends what was asked for, and says when to come back.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from connect_runtime.base import backoff, clock, errors
from connect_runtime.wire.codec import (
    cluster_view,
    coordinators,
    failures,
    messages,
    targets,
    versions,
)
from connect_runtime.wire.connection import (
    buffers,
    calls,
    connection,
    discovery,
    lanes,
    poller,
    security,
    settings,
    transport,
)

ConnectionSettings: TypeAlias = settings.ConnectionSettings
Reply: TypeAlias = calls.Reply
RawReply: TypeAlias = calls.RawReply

CONTROL = "control"
_FIRST_BOOTSTRAP = -2
_IDLE_CHECK_S = 5.0
_TICK_MAX_S = 3600.0


class ClusterConnections:
    """Raises UnusableCertificate or ValueError (a bootstrap address) when it is made.

    Invariant: a call is in one lane's queue, or parked under its target, or with a connection.
    """

    def __init__(
        self,
        options: settings.ConnectionSettings,
        *,
        poller: poller.Poller,
        clock: clock.Clock,
        random: random.Random,
        pool: buffers.BufferPool | None = None,
    ) -> None:
        self._options = options
        self._clock = clock
        self._rng = random
        self.view = cluster_view.ClusterView(
            random, retry=self._retry_backoff(), max_age_s=options.metadata_max_age_s
        )
        self._coordinators = coordinators.Coordinators(rng=random, retry=self._retry_backoff())
        self._env = connection.Environment(
            poller=poller,
            clock=clock,
            rng=random,
            security=options.security,
            tls=security.tls_context(options.security),
            client_id=options.client_id.encode(),
            limits=connection.Limits(
                connect_timeout_s=options.connect_timeout_s,
                max_response_bytes=options.max_response_bytes,
                socket_buffer_bytes=options.socket_buffer_bytes,
            ),
            pool=pool,
        )
        addresses = [cluster_view.parse_address(entry) for entry in options.bootstrap]
        random.shuffle(addresses)
        self._bootstrap = {_FIRST_BOOTSTRAP - i: found for i, found in enumerate(addresses)}
        self._owner = lanes.Owner(ready=self._ready, failed=self._failed, wake=self._wake)
        self._lanes: dict[tuple[int, str], lanes.Lane] = {}
        self._dirty: dict[lanes.Lane, None] = {}
        self._parked: dict[targets.Target, list[calls.Call]] = {}
        self._deferred: list[Callable[[], None]] = []
        self._deadlines: list[tuple[float, int, calls.Call]] = []
        self._order = itertools.count()
        self._versions: dict[int, versions.BrokerVersions] = {}
        self._rtt_s: dict[int, float] = {}
        self._discovery = discovery.Discovery(
            self,
            view=self.view,
            known=self._coordinators,
            bootstrap=self._bootstrap,
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
        to: targets.Target,
        message: messages.Message,
        *,
        done: Callable[[calls.Reply], None],
        timeout_s: float | None = None,
        lane: str = CONTROL,
        max_version: int | None = None,
    ) -> None:
        """Send a message to whoever plays that part, waiting for it to be known and reachable.

        An unreachable broker is asked again until the deadline; another one if `to` allows. After
        the first byte left nothing is repeated: that is the caller's decision.
        """
        now_s = self._clock.now_s()
        request = calls.MessageCall(
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
        chunks: Sequence[transport.Chunk],
        done: Callable[[calls.RawReply], None],
        timeout_s: float | None = None,
    ) -> None:
        """Send an encoded body (the header is added); if the broker cannot be reached, it fails."""
        now_s = self._clock.now_s()
        place = self.lane(node_id, lane)
        request = calls.RawCall(
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

    def version_for(  # noqa: PLR0917 - a range reads best in order
        self, node_id: int, api_key: int, low: int, high: int
    ) -> int | None:
        """The version to speak, None until connected; begins that. Raises UnsupportedVersion."""
        known = self._versions.get(node_id)
        if known is None:
            self.lane(node_id, CONTROL).want()
            return None
        return known.choose(api_key, low=low, high=high)

    def throttle(self, node_id: int, lane: str, throttle_ms: int) -> None:
        """A raw response asked for a pause; replies to `call` are looked at here."""
        link = self.lane(node_id, lane).connection
        if link is not None:
            link.throttle(throttle_ms)

    def forget_coordinator(self, kind: int, key: str) -> None:
        """It said that it is not the one (16, 15): look it up again when it is needed next."""
        self._coordinators.forget(targets.Coordinator(kind, key))

    # asking how it stands

    def trouble(self, node_id: int) -> errors.ConnectError | None:
        """Why a broker cannot be reached at present, as far as anybody tried lately."""
        now_s = self._clock.now_s()
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
            elif not self.view.brokers:
                found[cluster_view.format_address(*self._bootstrap[node_id])] = trouble
        return found

    def rtt_s(self, node_id: int) -> float | None:
        """The shortest time a small request to this broker took: about one round trip."""
        return self._rtt_s.get(node_id)

    @property
    def lent_bytes(self) -> int:
        """Of buffers from the pool: those that responses stand in which somebody still looks at."""
        return 0 if self._env.pool is None else self._env.pool.lent_bytes

    # time

    def tick(self, now_s: float) -> float:
        """Do all that is due; returns how many seconds until it must be called again."""
        if self._closed:
            return _TICK_MAX_S
        self._run_deferred()
        if self._route_again:
            self._route_parked()
        self._discovery.tick(now_s)
        if self._deadlines and self._deadlines[0][0] <= now_s:
            self._expire(now_s)
        if now_s >= self._idle_check_at_s:
            self._close_idle(now_s)
        due_s = self._tick_lanes(now_s)
        if self._deferred or self._dirty or self._route_again:
            return 0.0
        due_s = min(due_s, self._idle_check_at_s, self._discovery.due_s())
        if self._deadlines:
            due_s = min(due_s, self._deadlines[0][0])
        return min(max(0.0, due_s - now_s), _TICK_MAX_S)

    def close(self) -> None:
        """End every connection and every call; calls made from now on are not even answered."""
        self._closed = True
        for lane in list(self._lanes.values()):
            lane.close()
        gone = failures.ConnectionFailed("the cluster", "closed by this side")
        parked, self._parked = self._parked, {}
        for call in itertools.chain.from_iterable(parked.values()):
            if call.waiting:
                call.fail(gone)
        self._run_deferred()

    def _tick_lanes(self, now_s: float) -> float:
        dirty, self._dirty = self._dirty, {}
        due_s = math.inf
        for lane in list(self._lanes.values()):
            if lane in dirty or lane.queued or lane.due_s() <= now_s:
                lane.tick(now_s)
            due_s = min(due_s, lane.due_s())
        return due_s

    def _run_deferred(self) -> None:
        deferred, self._deferred = self._deferred, []
        for run in deferred:
            run()

    def _close_idle(self, now_s: float) -> None:
        self._idle_check_at_s = now_s + _IDLE_CHECK_S
        for (node_id, _), lane in self._lanes.items():
            bootstrap = node_id < 0 and self.view.brokers
            lane.close_if_idle(
                now_s, _IDLE_CHECK_S if bootstrap else self._options.connections_max_idle_s
            )

    # calls that wait

    def _admit(self, call: calls.Call) -> bool:
        if len(self._deadlines) >= self._options.waiting_calls_max:
            self._deadlines = [entry for entry in self._deadlines if entry[2].waiting]
            heapq.heapify(self._deadlines)
        if len(self._deadlines) >= self._options.waiting_calls_max:
            full = failures.TooManyCalls(
                f"{call.api} for {call.to}: {len(self._deadlines)} calls wait already"
            )
            self._deferred.append(lambda: call.fail(full))
            return False
        heapq.heappush(self._deadlines, (call.deadline_s, next(self._order), call))
        return True

    def _expire(self, now_s: float) -> None:
        while self._deadlines and (
            self._deadlines[0][0] <= now_s or not self._deadlines[0][2].waiting
        ):
            _, _, call = heapq.heappop(self._deadlines)
            if call.waiting:
                failure = failures.RequestTimedOut(
                    call.api,
                    waiting_for=self._waits_for(call),
                    after_s=round(now_s - call.queued_s, 3),
                )
                call.fail(failure)
        for lane in self._lanes.values():
            lane.purge()
        self._parked = {
            target: waiting
            for target, parked in self._parked.items()
            if (waiting := [call for call in parked if call.waiting])
        }

    def _waits_for(self, call: calls.Call) -> str:
        node_id = self._node_of(call)
        if node_id is not None:
            return self.lane(node_id, call.lane).describe()
        what = str(call.to)
        if isinstance(call.to, targets.Leader):
            topic = self.view.topic(call.to.topic)
            if topic is not None and topic.error_code:
                what += f" ({call.to.topic}: {failures.error_name(topic.error_code)})"
        troubles = "; ".join(f"{where}: {why}" for where, why in self.troubles().items())
        return f"{what} ({troubles})" if troubles else what

    # which broker

    def _node_of(self, call: calls.Call) -> int | None:
        """The broker that plays the part, None while that is not known."""
        match call.to:
            case targets.Node(node_id):
                return node_id if self._address(node_id) is not None else None
            case targets.AnyNode():
                states = [self.lane(node, call.lane).node_state() for node in self.view.brokers]
                return cluster_view.pick_node(states, self._clock.now_s())[0]
            case targets.Controller():
                known = self.view.controller_id in self.view.brokers
                return self.view.controller_id if known else None
            case targets.Leader(topic, partition):
                leader = self.view.leader(topic, partition)
                return None if leader is None else leader.node_id
            case targets.Coordinator() as coordinator:
                node = self._coordinators.node(coordinator)
                return node if node in self.view.brokers else None

    def _route(self, call: calls.Call) -> None:
        node_id = self._node_of(call)
        if node_id is not None:
            self.lane(node_id, call.lane).submit(call)
            return
        self._parked.setdefault(call.to, []).append(call)
        match call.to:
            case targets.Coordinator() as coordinator:
                self._find(coordinator)
            case targets.AnyNode() if self.view.brokers:
                pass  # all are connecting or backing off: the next of them takes it
            case _:
                self.view.request_refresh()

    def _find(self, coordinator: targets.Coordinator) -> None:
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

    def lane(self, node_id: int, name: str) -> lanes.Lane:
        lane = self._lanes.get((node_id, name))
        if lane is None:
            lane = self._lanes[(node_id, name)] = lanes.Lane(
                node_id,
                name,
                address=lambda: self._address(node_id),
                environment=self._env,
                reconnect=backoff.Backoff(
                    initial_s=self._options.reconnect_backoff_s,
                    max_s=self._options.reconnect_backoff_max_s,
                ),
                owner=self._owner,
            )
        return lane

    def _address(self, node_id: int) -> tuple[str, int] | None:
        broker = self.view.brokers.get(node_id)
        return self._bootstrap.get(node_id) if broker is None else (broker.host, broker.port)

    def _retry_backoff(self) -> backoff.Backoff:
        return backoff.Backoff(
            initial_s=self._options.retry_backoff_s, max_s=self._options.retry_backoff_max_s
        )

    # what lanes tell

    def _wake(self, lane: lanes.Lane) -> None:
        self._dirty[lane] = None

    def _ready(self, lane: lanes.Lane) -> None:
        assert lane.connection is not None
        assert lane.connection.versions is not None
        if lane.node_id >= 0:
            self._versions[lane.node_id] = lane.connection.versions
            rtt_s = lane.connection.rtt_s
            self._rtt_s[lane.node_id] = min(rtt_s, self._rtt_s.get(lane.node_id, math.inf))
        self._route_again = True
        self._discovery.wake()

    def _failed(
        self, lane: lanes.Lane, failure: errors.ConnectError, returned: list[calls.Call]
    ) -> None:
        if lane.node_id >= 0:
            self._coordinators.forget_node(lane.node_id)
            self.view.request_refresh()
        self._discovery.wake()
        self._route_again = True
        fatal = isinstance(failure, errors.FatalError)
        for call in returned:
            if fatal or not call.follows:
                call.fail(failure, node_id=lane.node_id)
            else:
                self._parked.setdefault(call.to, []).append(call)
        if fatal and not any(each.node_state().connected for each in self._lanes.values()):
            self.refuse(None, failure)

    # what discovery tells

    def route_again(self) -> None:
        self._route_again = True

    def refuse(self, target: targets.Target | None, failure: errors.ConnectError) -> None:
        """Fail the calls that wait for this target; None: all that wait for anything."""
        if target is None:
            parked, self._parked = self._parked, {}
        else:
            parked = {target: self._parked.pop(target, [])}
        for call in itertools.chain.from_iterable(parked.values()):
            if call.waiting:
                call.fail(failure)
