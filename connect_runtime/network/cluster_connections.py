"""All connections of a client to one cluster: routes each request to its broker and keeps the
metadata fresh.

Owned by one thread. Requests are submitted with `call` and `call_raw`. Their `done` callbacks
receive the responses inside `tick`, `close` or the poller's `poll`, never inside `call`. The owner
calls `tick` once per loop iteration. `tick` sends submitted requests and returns the time within
which the owner must call `tick` again.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from connect_runtime.base.backoff import Backoff
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.network import (
    broker_connections,
    client_requests,
    connection_settings,
    shared_connection_resources,
)
from connect_runtime.network.broker_connections import BrokerConnection, ClusterBrokers
from connect_runtime.network.client_requests import (
    CallDeadlines,
    ClientCall,
    EncodedCall,
    VersionedCall,
)
from connect_runtime.network.metadata_and_coordinator_lookup import ClusterDiscovery
from connect_runtime.network.tcp_and_tls_transport import BufferPool, Poller, SendChunk
from connect_runtime.protocol import request_errors
from connect_runtime.protocol.cluster_metadata import ClusterMetadata, CoordinatorCache
from connect_runtime.protocol.request_builders import (
    AnyNodeTarget,
    ControllerTarget,
    CoordinatorKey,
    LeaderTarget,
    NodeTarget,
    RequestBuilder,
    RequestTarget,
)
from connect_runtime.protocol.request_errors import CallQueueFull, ConnectionFailed, RequestTimedOut

ConnectionSettings: TypeAlias = connection_settings.ConnectionSettings
ClientResponse: TypeAlias = client_requests.ClientResponse
RawClientResponse: TypeAlias = client_requests.RawClientResponse

_IDLE_CHECK_INTERVAL_S = 5.0
_MAX_TICK_INTERVAL_S = 3600.0


class ClusterConnections:
    """The connections of one client. `view` is the cluster's metadata.

    The constructor raises UnusableCertificate, or ValueError for an invalid bootstrap address.
    Invariant: a call is either in the send queue of one connection, waiting until its target is
    known, or passed to a connection.
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
            random, retry=self._create_retry_backoff(), max_age_s=options.metadata_max_age_s
        )
        self._coordinators = CoordinatorCache(rng=random, retry=self._create_retry_backoff())
        shared = shared_connection_resources.create_network_context(
            options, poller=poller, clock=clock, rng=random, pool=pool
        )
        self._tokens = shared.tokens
        self._names = shared.names
        self._brokers = ClusterBrokers(
            options,
            environment=shared,
            view=self.view,
            ready=self._on_connection_ready,
            failed=self._on_connection_failed,
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

    # requests

    def set_metadata_topics(self, names: Iterable[str]) -> None:
        """Keep the metadata of exactly these topics up to date in `view`."""
        self.view.set_metadata_topics(names)

    def refresh_metadata(self) -> None:
        """Request a metadata refresh as soon as the backoff allows."""
        self.view.request_refresh()

    def call(
        self,
        to: RequestTarget,
        message: RequestBuilder,
        *,
        done: Callable[[client_requests.ClientResponse], None],
        timeout_s: float | None = None,
        lane: str = broker_connections.CONTROL_PURPOSE,
        max_version: int | None = None,
    ) -> None:
        """Send a request to its target `to`, waiting until the target is known and reachable.

        If the broker is unreachable, the call is retried until its deadline, or sent to another
        broker if `to` accepts any of several. Once the first byte has been sent, only the caller
        can decide whether to retry. `lane` is the purpose of the request: each purpose has its own
        connection per broker.
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
        if not self._closed and self._register_deadline(request):
            self._route_call(request)

    def call_with_encoded_body(
        self,
        node_id: int,
        *,
        lane: str,
        api_key: int,
        version: int,
        chunks: Sequence[SendChunk],
        done: Callable[[client_requests.RawClientResponse], None],
        timeout_s: float | None = None,
    ) -> None:
        """Send a request whose body is already encoded, adding the header. The call fails if the
        broker is unreachable."""
        now_s = self._clock.now_s()
        place = self._brokers.get_broker_connection(node_id, lane)
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
        if (
            not self._closed
            and not place.try_send_call(request)
            and self._register_deadline(request)
        ):
            place.submit_call(request)

    def choose_version(self, node_id: int, api_key: int, low: int, high: int) -> int | None:
        """Return the API version to use with a broker. Without a connection to the broker, start
        connecting and return None.

        Raises UnsupportedVersion.
        """
        known = self._brokers.versions.get(node_id)
        if known is None:
            self._brokers.get_broker_connection(
                node_id, broker_connections.CONTROL_PURPOSE
            ).request_connection()
            return None
        return known.choose_version(api_key, low=low, high=high)

    def apply_throttle_time(self, node_id: int, lane: str, throttle_ms: int) -> None:
        """Delay further requests by the throttle time in a response to `call_raw`. `call` applies
        throttle times automatically."""
        link = self._brokers.get_broker_connection(node_id, lane).connection
        if link is not None:
            link.throttle(throttle_ms)

    def forget_coordinator(self, kind: int, key: str) -> None:
        """Drop a coordinator that returned COORDINATOR_NOT_AVAILABLE or NOT_COORDINATOR, so that
        the coordinator is looked up again."""
        self._coordinators.forget_coordinator(CoordinatorKey(kind, key))

    # state

    def get_connection_error(self, node_id: int) -> ConnectError | None:
        """Return why a broker is unreachable; None if it is reachable or no recent attempt
        failed."""
        return self._brokers.get_connection_error(node_id)

    def get_connection_errors(self) -> dict[str, ConnectError]:
        """Return the connection error of each unreachable broker, or of bootstrap addresses if no
        metadata is available yet."""
        return self._brokers.get_connection_errors()

    def metadata_error(self) -> ConnectError | None:
        """Why the last metadata response was malformed; None if it was valid."""
        return self._discovery.rejected_metadata

    def get_last_response_time_s(self, node_id: int) -> float:
        """Return the time of the broker's last response to any request; -inf before its first
        response."""
        return self._brokers.get_last_response_time_s(node_id)

    def get_min_rtt_s(self, node_id: int) -> float | None:
        """Return the shortest response time of a small request to this broker: about one network
        round trip."""
        return self._brokers.rtt_s.get(node_id)

    @property
    def lent_buffer_bytes(self) -> int:
        """Size in bytes of the pooled buffers that responses still reference."""
        return 0 if self._pool is None else self._pool.lent_bytes

    # time

    def tick(self, now_s: float) -> float:
        """Process all due work of the connections. Return the number of seconds within which `tick`
        must be called again."""
        if self._closed:
            return _MAX_TICK_INTERVAL_S
        self._run_deferred_calls()
        if self._route_again:
            self._route_waiting_calls()
        self._discovery.tick(now_s)
        if self._deadlines.earliest_deadline_s <= now_s:
            self._fail_expired_calls(now_s)
        if now_s >= self._idle_check_at_s:
            self._idle_check_at_s = now_s + _IDLE_CHECK_INTERVAL_S
            self._brokers.close_idle_connections(now_s)
        due_s = self._brokers.tick(now_s)
        if self._tokens is not None:  # after the brokers, which may request a token
            due_s = min(due_s, self._tokens.tick(now_s))
        if self._deferred or self._brokers.needs_tick or self._route_again:
            return 0.0
        due_s = min(
            due_s,
            self._idle_check_at_s,
            self._discovery.get_next_tick_time_s(),
            self._deadlines.earliest_deadline_s,
        )
        return min(max(0.0, due_s - now_s), _MAX_TICK_INTERVAL_S)

    def close(self) -> None:
        """Close all connections and end all calls. Calls submitted later never receive a
        response."""
        self._closed = True
        self._brokers.close()
        if self._tokens is not None:
            self._tokens.close()
        self._names.close()
        gone = ConnectionFailed("the cluster", "closed by this client")
        parked, self._parked = self._parked, {}
        for call in itertools.chain.from_iterable(parked.values()):
            if call.waiting:
                call.fail(gone)
        self._run_deferred_calls()

    def _run_deferred_calls(self) -> None:
        deferred, self._deferred = self._deferred, []
        for run in deferred:
            run()

    # waiting calls

    def _register_deadline(self, call: ClientCall) -> bool:
        if self._deadlines.add_call(call):
            return True
        full = CallQueueFull(
            f"{call.api} for {call.to}: {len(self._deadlines)} calls are waiting already"
        )
        self._deferred.append(lambda: call.fail(full))
        return False

    def _fail_expired_calls(self, now_s: float) -> None:
        for call in self._deadlines.pop_expired_calls(now_s):
            failure = RequestTimedOut(
                call.api,
                waiting_for=self._describe_waiting_call(call),
                after_s=round(now_s - call.queued_s, 3),
            )
            call.fail(failure)
        self._brokers.remove_expired_calls()
        self._parked = {
            target: waiting
            for target, parked in self._parked.items()
            if (waiting := [call for call in parked if call.waiting])
        }

    def _describe_waiting_call(self, call: ClientCall) -> str:
        node_id = self._find_target_node(call)
        if node_id is not None:
            return self._brokers.get_broker_connection(node_id, call.lane).describe_queued_call()
        what = str(call.to)
        if isinstance(call.to, LeaderTarget):
            topic = self.view.get_topic(call.to.topic)
            if topic is not None and topic.error_code:
                what += f" ({call.to.topic}: {request_errors.format_error_code(topic.error_code)})"
        troubles = "; ".join(
            f"{where}: {why}" for where, why in self._brokers.get_connection_errors().items()
        )
        return f"{what} ({troubles})" if troubles else what

    # routing

    def _find_target_node(self, call: ClientCall) -> int | None:
        """Return the id of the broker that is the call's target; None while it is unknown."""
        match call.to:
            case NodeTarget(node_id):
                return node_id if self._brokers.get_address(node_id) is not None else None
            case AnyNodeTarget():
                return self._brokers.pick_broker(self.view.brokers, call.lane)
            case ControllerTarget():
                known = self.view.controller_id in self.view.brokers
                return self.view.controller_id if known else None
            case LeaderTarget(topic, partition):
                leader = self.view.get_leader(topic, partition)
                return None if leader is None else leader.node_id
            case CoordinatorKey() as coordinator:
                node = self._coordinators.get_coordinator_node_id(coordinator)
                return node if node in self.view.brokers else None

    def _route_call(self, call: ClientCall) -> None:
        node_id = self._find_target_node(call)
        if node_id is not None:
            self._brokers.get_broker_connection(node_id, call.lane).submit_call(call)
            return
        self._parked.setdefault(call.to, []).append(call)
        match call.to:
            case CoordinatorKey() as coordinator:
                self._look_up_coordinator(coordinator)
            case AnyNodeTarget() if self.view.brokers:
                pass  # all are connecting or backing off: the next available one gets the call
            case _:
                self.view.request_refresh()

    def _look_up_coordinator(self, coordinator: CoordinatorKey) -> None:
        if self._coordinators.get_coordinator_node_id(coordinator) is None:
            self._coordinators.request_lookup(coordinator)
        else:  # the coordinator is not in the metadata: refresh both
            self._coordinators.forget_coordinator(coordinator)
            self._coordinators.retry_lookups((coordinator,), self._clock.now_s())
            self.view.request_refresh()

    def _route_waiting_calls(self) -> None:
        self._route_again = False
        parked, self._parked = self._parked, {}
        for call in itertools.chain.from_iterable(parked.values()):
            if call.waiting:
                self._route_call(call)

    def get_broker_connection(self, node_id: int, name: str) -> BrokerConnection:
        """Return the lane (connection for one purpose) to a broker, and create it if necessary.
        `name` is the purpose."""
        return self._brokers.get_broker_connection(node_id, name)

    def _create_retry_backoff(self) -> Backoff:
        return Backoff(
            initial_s=self._options.retry_backoff_s, max_s=self._options.retry_backoff_max_s
        )

    # callbacks of lanes

    def _on_connection_ready(self) -> None:
        self._route_again = True
        self._discovery.retry_discovery_immediately()

    def _on_connection_failed(
        self, lane: BrokerConnection, failure: ConnectError, returned: list[ClientCall]
    ) -> None:
        if lane.node_id >= 0:
            self._coordinators.forget_node(lane.node_id)
            self.view.request_refresh()
        self._discovery.retry_discovery_immediately()
        self._route_again = True
        fatal = isinstance(failure, FatalError)
        for call in returned:
            if fatal or not call.can_reroute:
                call.fail(failure, node_id=lane.node_id)
            else:
                self._parked.setdefault(call.to, []).append(call)
        if fatal and not self._brokers.has_ready_connection:
            self.fail_calls(None, failure)

    # callbacks of discovery

    def schedule_call_routing(self) -> None:
        """Schedule another attempt, at the next `tick`, to route calls whose broker was unknown."""
        self._route_again = True

    def fail_calls(self, target: RequestTarget | None, failure: ConnectError) -> None:
        """Fail the calls that are waiting for this target. If the target is None, fail all waiting
        calls."""
        if target is None:
            parked, self._parked = self._parked, {}
        else:
            parked = {target: self._parked.pop(target, [])}
        for call in itertools.chain.from_iterable(parked.values()):
            if call.waiting:
                call.fail(failure)
