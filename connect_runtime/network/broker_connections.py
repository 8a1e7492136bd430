"""Manages the connections to the brokers of one cluster, by broker and purpose.

`BrokerConnection` connects when there is a request to send, reconnects with exponential backoff
and passes queued calls to the connection in order. Calls for an unreachable broker are returned to
the owner, which may send them to another broker. Each purpose has its own connection per broker (a
lane), so that a request that a broker delays does not delay others. Bootstrap addresses are treated
as brokers with negative ids until the metadata contains the actual ids.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from connect_runtime.base.backoff import Backoff
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.network import broker_selection
from connect_runtime.network.broker_selection import NodeConnectionState
from connect_runtime.network.client_requests import ClientCall, VersionedCall
from connect_runtime.network.connection_settings import ConnectionSettings
from connect_runtime.network.kafka_connection import ConnectionState, KafkaConnection
from connect_runtime.network.shared_connection_resources import NetworkContext
from connect_runtime.protocol import cluster_metadata
from connect_runtime.protocol.api_versions import NodeApiVersions
from connect_runtime.protocol.cluster_metadata import ClusterMetadata
from connect_runtime.protocol.request_builders import NodeTarget
from connect_runtime.protocol.request_errors import (
    ConnectionFailed,
    UnknownBroker,
    UnsupportedVersion,
)

log = logging.getLogger(__name__)

_FAILURE_RELEVANCE_S = 30.0
"""How long, in seconds, the last connection failure is reported as the reason why the broker is
unreachable. Each failed attempt restarts the period."""
MAX_IN_FLIGHT = 64
"""Maximum number of requests in flight per connection. More requests would only wait in the socket
buffer, because brokers process one at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionCallbacks:
    """Callbacks with which `BrokerConnection` notifies the object that owns it."""

    ready: Callable[[BrokerConnection], None]
    """Called when the connection is ready for requests."""
    failed: Callable[[BrokerConnection, ConnectError, list[ClientCall]], None]
    """Called when the connection fails, with the error and the calls that are returned to the
    owner."""
    wake: Callable[[BrokerConnection], None]
    """Called when there is work to do; the owner should then call `send_queued_calls` soon."""


class BrokerConnection:
    """The connection to a broker for one purpose (a lane), with its queue of calls and reconnect
    backoff.

    Invariant: calls in `_queue` are waiting or have expired since they were queued.
    """

    def __init__(
        self,
        node_id: int,
        name: str,
        *,
        address: Callable[[], tuple[str, int] | None],
        environment: NetworkContext,
        reconnect: Backoff,
        owner: ConnectionCallbacks,
    ) -> None:
        self.node_id = node_id
        self.node = NodeTarget(node_id)
        self.name = name
        self.connection: KafkaConnection | None = None
        self.retry_at_s = -math.inf
        self.last_attempt_s = -math.inf
        self.last_ready_s = -math.inf
        self._answered_s = -math.inf
        self._trouble: ConnectError | None = None
        self._trouble_s = -math.inf
        self._address = address
        self._env = environment
        self._reconnect = reconnect
        self._owner = owner
        self._queue: deque[ClientCall] = deque()
        self._wanted = False
        self._failure_logged = False

    # requests

    def submit_call(self, call: ClientCall) -> None:
        """Queue a call for the broker. The next `send_queued_calls` sends the call, connecting
        first if necessary."""
        self._queue.append(call)
        self._owner.wake(self)

    def try_send_call(self, call: ClientCall) -> bool:
        """Pass a call to the connection if no calls are queued. If this returns False, use
        `submit_call` instead."""
        link = self.connection
        if link is None or self._queue or link.in_flight_request_count >= MAX_IN_FLIGHT:
            return False
        if not link.can_send(self._env.clock.now_s()) or not call.can_encode_request(link.versions):
            return False
        self._send_call_on_connection(call, link)
        self._owner.wake(self)
        return True

    def request_connection(self) -> None:
        """Request a connection to the broker even if no call is queued."""
        if self.connection is None and not self._wanted:
            self._wanted = True
            self._owner.wake(self)

    @property
    def queue_length(self) -> int:
        """Number of calls queued for the broker."""
        return len(self._queue)

    def get_connection_error(self, now_s: float, *, broker_ready_s: float) -> ConnectError | None:
        """Return the last connection error as the reason why the broker is unreachable.

        Return None if no attempt failed, or if the last failure is older than
        `_FAILURE_RELEVANCE_S` and the connection is not needed. Failures before `broker_ready_s`,
        the time of the last successful connection to the broker for any purpose, are ignored.
        """
        fresh = self._queue or self._wanted or now_s - self._trouble_s < _FAILURE_RELEVANCE_S
        return self._trouble if fresh and self._trouble_s >= broker_ready_s else None

    @property
    def last_response_s(self) -> float:
        """Time of the broker's last response on this connection; -inf before the first response."""
        link = self.connection
        return self._answered_s if link is None else max(self._answered_s, link.last_response_s)

    def get_connection_state(self) -> NodeConnectionState:
        """Return the connection's state, as input for `broker_selection.pick_broker`."""
        link = self.connection
        ready = link is not None and link.state is ConnectionState.READY
        return NodeConnectionState(
            node_id=self.node_id,
            connected=ready,
            connecting_since_s=None if link is None or ready else self.last_attempt_s,
            in_flight=len(self._queue) + (link.in_flight_request_count if link is not None else 0),
            retry_at_s=self.retry_at_s,
            last_attempt_s=self.last_attempt_s,
        )

    def describe_queued_call(self) -> str:
        """Describe, for error messages, what the queued calls are waiting for."""
        found = self._address()
        where = cluster_metadata.format_address(*found) if found is not None else str(self.node_id)
        if self._trouble is not None:
            return f"a connection to {where} (last attempt: {self._trouble})"
        return f"the connection to {where}"

    # time

    def send_queued_calls(self, now_s: float) -> None:
        """Connect if a connection attempt is due, or pass queued calls to the connection and send
        them."""
        link = self.connection
        if link is None:
            if (self._queue or self._wanted) and now_s >= self.retry_at_s:
                self._connect_to_broker(now_s)
            return
        if self._failure_logged and link.has_responded:
            self._log_recovery()
        while self._queue and link.in_flight_request_count < MAX_IN_FLIGHT and link.can_send(now_s):
            call = self._queue.popleft()
            if call.waiting:
                self._send_call_on_connection(call, link)
        link.flush()

    def get_next_tick_time_s(self) -> float:
        """Return the latest monotonic time at which `send_queued_calls` or `tick` must be
        called."""
        link = self.connection
        if link is None:
            awaits_token = (
                self._env.tokens is not None and self._env.tokens.is_token_request_in_flight
            )
            idle = awaits_token or not (self._queue or self._wanted)
            return math.inf if idle else self.retry_at_s
        if self._queue and link.throttled_until_s > self._env.clock.now_s():
            return min(link.next_due_s, link.throttled_until_s)
        return link.next_due_s

    def tick(self, now_s: float) -> None:
        """Process due work of the connection, such as timeouts, then call `send_queued_calls`."""
        if self.connection is not None and now_s >= self.connection.next_due_s:
            self.connection.tick(now_s)
        self.send_queued_calls(now_s)

    def close_if_idle(self, now_s: float, idle_s: float) -> None:
        """Close the connection if it has been idle for `idle_s`, before the broker closes it.

        Requests sent while the broker is closing the connection would be lost.
        """
        link = self.connection
        if (
            link is None
            or self._queue
            or link.in_flight_request_count
            or now_s - link.last_used_s < idle_s
        ):
            return
        link.close()

    @property
    def is_unused(self) -> bool:
        """True if there is no connection to the broker and nothing to send."""
        return self.connection is None and not self._queue and not self._wanted

    def remove_expired_calls(self) -> None:
        """Remove expired calls from the queue."""
        self._queue = deque(call for call in self._queue if call.waiting)

    def close(self) -> None:
        """Close the connection, and fail all queued and pending calls."""
        if self.connection is not None:
            self.connection.close()
        queue, self._queue = self._queue, deque()
        for call in queue:
            if call.waiting:
                call.fail(ConnectionFailed("the cluster", "closed by this client"))

    # connecting

    def _connect_to_broker(self, now_s: float) -> None:
        if self._env.tokens is not None:
            token = self._env.tokens.get_or_request_token()
            if token is None:
                return  # `send_queued_calls` is called again when there is a token
            if isinstance(token, ConnectError):
                self._wanted = False
                self._on_failure(token, now_s)
                return
        found = self._address()
        self._wanted = False
        if found is None:
            self._on_failure(UnknownBroker(self.node_id), now_s)
            return
        self.last_attempt_s = now_s
        link = KafkaConnection(
            *found,
            environment=self._env,
            on_ready=self._on_ready,
            on_closed=lambda failure: self._on_closed(link, failure),
            canonical=self.node_id < 0 and self._env.canonical_bootstrap,
        )
        self.connection = link
        link.start()

    def _on_ready(self) -> None:
        self._trouble = None
        self.last_ready_s = self._env.clock.now_s()
        self._owner.ready(self)
        self._owner.wake(self)

    def _log_recovery(self) -> None:
        """Log that the broker is responding again.

        An established connection alone does not prove that the peer is a Kafka listener.
        """
        self._failure_logged = False
        self._reconnect.reset()
        level = logging.DEBUG if self._env.quiet else logging.INFO
        log.log(level, "broker %s is reachable again", self._describe_broker())

    def _on_closed(self, link: KafkaConnection, failure: ConnectError | None) -> None:
        if self.connection is not link:
            return
        self.connection = None
        self._answered_s = max(self._answered_s, link.last_response_s)
        self._owner.wake(self)
        if failure is None:
            return
        if link.idle_when_closed and isinstance(failure, RetriableError):
            # No request was lost, so reconnect on demand. Partition leaders may be moving, though.
            self._owner.failed(self, failure, [])
            return
        if link.has_responded:
            self._failure_logged = False
            self._reconnect.reset()
        self._on_failure(failure, self._env.clock.now_s())

    def _on_failure(self, failure: ConnectError, now_s: float) -> None:
        if not isinstance(failure, UnknownBroker):  # expected before the first metadata response
            if not self._failure_logged:
                level = logging.DEBUG if self._env.quiet else logging.WARNING
                log.log(level, "broker %s: %s", self._describe_broker(), failure)
            self._failure_logged = True
        self._trouble, self._trouble_s = failure, now_s
        self.retry_at_s = now_s + self._reconnect.next_delay_s(self._env.rng)
        fatal = isinstance(failure, FatalError)
        kept: deque[ClientCall] = deque()
        returned: list[ClientCall] = []
        for call in self._queue:
            if call.waiting:
                stays = not fatal and not call.can_reroute and isinstance(call, VersionedCall)
                (kept if stays else returned).append(call)
        self._queue = kept
        self._owner.failed(self, failure, returned)

    def _describe_broker(self) -> str:
        found = self._address()
        where = cluster_metadata.format_address(*found) if found is not None else "address unknown"
        return f"{self.node_id} ({where})" if self.node_id >= 0 else where

    def _send_call_on_connection(self, call: ClientCall, link: KafkaConnection) -> None:
        assert link.versions is not None
        try:
            request = call.encode_request(
                link.versions, node_id=self.node_id, on_throttle=link.throttle
            )
        except UnsupportedVersion as failure:
            call.fail(failure, node_id=self.node_id)
            return
        call.waiting = False
        link.send(request)


CONTROL_PURPOSE = "control"
_FIRST_BOOTSTRAP_NODE_ID = -2
_BOOTSTRAP_IDLE_TIMEOUT_S = 5.0


class ClusterBrokers:
    """All connections to the brokers and bootstrap addresses of a cluster, one per broker and
    purpose.

    The constructor raises ValueError for an invalid bootstrap address.
    """

    def __init__(
        self,
        options: ConnectionSettings,
        *,
        environment: NetworkContext,
        view: ClusterMetadata,
        ready: Callable[[], None],
        failed: Callable[[BrokerConnection, ConnectError, list[ClientCall]], None],
    ) -> None:
        self._options = options
        self._env = environment
        self._view = view
        self._on_ready = ready
        addresses = [cluster_metadata.parse_address(entry) for entry in options.bootstrap]
        environment.rng.shuffle(addresses)
        self.bootstrap = {_FIRST_BOOTSTRAP_NODE_ID - i: found for i, found in enumerate(addresses)}
        self.versions: dict[int, NodeApiVersions] = {}
        self.rtt_s: dict[int, float] = {}
        self._owner = ConnectionCallbacks(
            ready=self._on_connection_ready, failed=failed, wake=self._mark_connection_for_tick
        )
        self._lanes: dict[tuple[int, str], BrokerConnection] = {}
        self._dirty: dict[BrokerConnection, None] = {}

    def get_broker_connection(self, node_id: int, name: str) -> BrokerConnection:
        """Return the lane (connection for one purpose) to a broker, and create it if necessary.
        `name` is the purpose."""
        lane = self._lanes.get((node_id, name))
        if lane is None:
            lane = self._lanes[(node_id, name)] = BrokerConnection(
                node_id,
                name,
                address=lambda: self.get_address(node_id),
                environment=self._env,
                reconnect=Backoff(
                    initial_s=self._options.reconnect_backoff_s,
                    max_s=self._options.reconnect_backoff_max_s,
                ),
                owner=self._owner,
            )
        return lane

    def get_address(self, node_id: int) -> tuple[str, int] | None:
        """Return the (host, port) of a broker or bootstrap entry; None if unknown."""
        broker = self._view.brokers.get(node_id)
        return self.bootstrap.get(node_id) if broker is None else (broker.host, broker.port)

    def pick_broker(self, nodes: Iterable[int], lane: str) -> int | None:
        """Return the most suitable of the given brokers for a request; None if no broker is
        available."""
        states = [
            self.get_broker_connection(node_id, lane).get_connection_state() for node_id in nodes
        ]
        return broker_selection.pick_broker(states, self._env.clock.now_s())[0]

    @property
    def has_ready_connection(self) -> bool:
        """True if at least one broker connection is ready."""
        return any(lane.get_connection_state().connected for lane in self._lanes.values())

    def get_last_response_time_s(self, node_id: int) -> float:
        """Return the time of the broker's last response on any connection; -inf before its first
        response."""
        return max(
            (lane.last_response_s for (node, _), lane in self._lanes.items() if node == node_id),
            default=-math.inf,
        )

    # errors

    def get_connection_error(self, node_id: int) -> ConnectError | None:
        """Return why a broker is unreachable; None if it is reachable or no recent attempt
        failed."""
        now_s = self._env.clock.now_s()
        lanes = [lane for (node, _), lane in self._lanes.items() if node == node_id]
        ready_s = max((lane.last_ready_s for lane in lanes), default=-math.inf)
        found = (lane.get_connection_error(now_s, broker_ready_s=ready_s) for lane in lanes)
        return next((trouble for trouble in found if trouble is not None), None)

    def get_connection_errors(self) -> dict[str, ConnectError]:
        """Return the connection error of each unreachable broker, or of bootstrap addresses if no
        metadata is available yet."""
        found: dict[str, ConnectError] = {}
        for node_id in {node_id: None for node_id, _ in self._lanes}:
            trouble = self.get_connection_error(node_id)
            if trouble is None:
                continue
            if node_id >= 0:
                found[f"broker {node_id}"] = trouble
            elif not self._view.brokers:
                found[cluster_metadata.format_address(*self.bootstrap[node_id])] = trouble
        return found

    # time

    @property
    def needs_tick(self) -> bool:
        """True if `tick` must be called immediately."""
        return bool(self._dirty)

    def tick(self, now_s: float) -> float:
        """Connect to brokers and send requests where due. Return the monotonic time by which `tick`
        must be called again."""
        dirty, self._dirty = self._dirty, {}
        due_s = math.inf
        for lane in list(self._lanes.values()):
            if lane in dirty or lane.queue_length or lane.get_next_tick_time_s() <= now_s:
                lane.tick(now_s)
            due_s = min(due_s, lane.get_next_tick_time_s())
        return due_s

    def close_idle_connections(self, now_s: float) -> None:
        """Close connections that have been idle for too long, and forget brokers that left the
        cluster."""
        for (node_id, _), lane in self._lanes.items():
            bootstrap = node_id < 0 and self._view.brokers
            lane.close_if_idle(
                now_s,
                _BOOTSTRAP_IDLE_TIMEOUT_S if bootstrap else self._options.connections_max_idle_s,
            )
        gone = [
            key
            for key, lane in self._lanes.items()
            if lane.is_unused and self.get_address(lane.node_id) is None
        ]
        for key in gone:
            del self._lanes[key]
        for node_id in {node_id for node_id, _ in gone} - {node_id for node_id, _ in self._lanes}:
            self.versions.pop(node_id, None)
            self.rtt_s.pop(node_id, None)

    def remove_expired_calls(self) -> None:
        """Remove expired calls from the queues of all connections."""
        for lane in self._lanes.values():
            lane.remove_expired_calls()

    def close(self) -> None:
        """Close all broker connections and fail all calls."""
        for lane in list(self._lanes.values()):
            lane.close()

    # callbacks of lanes

    def _mark_connection_for_tick(self, lane: BrokerConnection) -> None:
        self._dirty[lane] = None

    def _on_connection_ready(self, lane: BrokerConnection) -> None:
        assert lane.connection is not None
        assert lane.connection.versions is not None
        if lane.node_id >= 0:
            self.versions[lane.node_id] = lane.connection.versions
            rtt_s = lane.connection.rtt_s
            self.rtt_s[lane.node_id] = min(rtt_s, self.rtt_s.get(lane.node_id, math.inf))
        self._on_ready()
