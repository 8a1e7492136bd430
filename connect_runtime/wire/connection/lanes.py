"""A lane: the connections to one broker for one purpose, one after the other.

It connects when somebody has something to send, again after a growing wait, and hands queued calls
to the connection in their order. What cannot be sent because the broker cannot be reached goes back
to the owner, who may know another broker.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from connect_runtime.base import backoff, errors
from connect_runtime.wire.codec import cluster_view, failures, targets
from connect_runtime.wire.connection import calls, connection, environment

log = logging.getLogger(__name__)

_NEWS_S = 30.0
"""A failure that nobody cared to repeat says nothing about the present after that long."""
IN_FLIGHT_MAX = 64
"""More would only wait in the broker's socket buffer: it handles one request after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """What a lane tells: connected, failed (with the calls it cannot keep), needs `pump` soon."""

    ready: Callable[[Lane], None]
    failed: Callable[[Lane, errors.ConnectError, list[calls.Call]], None]
    wake: Callable[[Lane], None]


class Lane:
    """Invariant: calls in `_queue` are waiting, or were answered by their deadline meanwhile."""

    def __init__(
        self,
        node_id: int,
        name: str,
        *,
        address: Callable[[], tuple[str, int] | None],
        environment: environment.Environment,
        reconnect: backoff.Backoff,
        owner: Owner,
    ) -> None:
        self.node_id = node_id
        self.node = targets.Node(node_id)
        self.name = name
        self.connection: connection.Connection | None = None
        self.retry_at_s = -math.inf
        self.tried_s = -math.inf
        self.ready_s = -math.inf
        self._answered_s = -math.inf
        self._trouble: errors.ConnectError | None = None
        self._trouble_s = -math.inf
        self._address = address
        self._env = environment
        self._reconnect = reconnect
        self._owner = owner
        self._queue: deque[calls.Call] = deque()
        self._wanted = False
        self._complained = False

    # asking

    def submit(self, call: calls.Call) -> None:
        """Queue a call; it is sent, or the connection begun, at the next `pump`."""
        self._queue.append(call)
        self._owner.wake(self)

    def send_now(self, call: calls.Call) -> bool:
        """Hand it over if nothing stands in its way; False: it has to be submitted."""
        link = self.connection
        if link is None or self._queue or link.in_flight >= IN_FLIGHT_MAX:
            return False
        if not link.can_send(self._env.clock.now_s()) or not call.fits(link.versions):
            return False
        self._hand_over(call, link)
        self._owner.wake(self)
        return True

    def want(self) -> None:
        """Be connected, though nobody has anything to send yet."""
        if self.connection is None and not self._wanted:
            self._wanted = True
            self._owner.wake(self)

    @property
    def queued(self) -> int:
        return len(self._queue)

    def trouble(self, now_s: float, *, broker_ready_s: float) -> errors.ConnectError | None:
        """Why it cannot connect: somebody waits for it, or the last try is not long ago.

        One from before `broker_ready_s`, when a lane to this broker last got through, is over.
        """
        fresh = self._queue or self._wanted or now_s - self._trouble_s < _NEWS_S
        return self._trouble if fresh and self._trouble_s >= broker_ready_s else None

    @property
    def answered_s(self) -> float:
        """When the broker last answered a request on this lane; -inf before the first answer."""
        link = self.connection
        return self._answered_s if link is None else max(self._answered_s, link.answered_s)

    def node_state(self) -> cluster_view.NodeState:
        link = self.connection
        ready = link is not None and link.state is connection.State.READY
        return cluster_view.NodeState(
            node_id=self.node_id,
            connected=ready,
            connecting_since_s=None if link is None or ready else self.tried_s,
            in_flight=len(self._queue) + (link.in_flight if link is not None else 0),
            retry_at_s=self.retry_at_s,
            tried_s=self.tried_s,
        )

    def describe(self) -> str:
        """What a call in its queue waits for."""
        found = self._address()
        where = cluster_view.format_address(*found) if found is not None else str(self.node_id)
        if self._trouble is not None:
            return f"a connection to {where} (last try: {self._trouble})"
        return f"its turn on the connection to {where}"

    # time

    def pump(self, now_s: float) -> None:
        """Connect if that is due, hand over what can be sent, and send it."""
        link = self.connection
        if link is None:
            if (self._queue or self._wanted) and now_s >= self.retry_at_s:
                self._connect(now_s)
            return
        if self._complained and link.answered_any:
            self._recovered()
        while self._queue and link.in_flight < IN_FLIGHT_MAX and link.can_send(now_s):
            call = self._queue.popleft()
            if call.waiting:
                self._hand_over(call, link)
        link.flush()

    def due_s(self) -> float:
        """When `pump` or `tick` is due at the latest."""
        link = self.connection
        if link is None:
            awaits_token = self._env.tokens is not None and self._env.tokens.is_asking
            idle = awaits_token or not (self._queue or self._wanted)
            return math.inf if idle else self.retry_at_s
        if self._queue and link.throttled_until_s > self._env.clock.now_s():
            return min(link.next_due_s, link.throttled_until_s)
        return link.next_due_s

    def tick(self, now_s: float) -> None:
        if self.connection is not None and now_s >= self.connection.next_due_s:
            self.connection.tick(now_s)
        self.pump(now_s)

    def close_if_idle(self, now_s: float, idle_s: float) -> None:
        """Before the broker does it: a request that meets a closing connection is a lost one."""
        link = self.connection
        if link is None or self._queue or link.in_flight or now_s - link.used_s < idle_s:
            return
        link.close()

    def purge(self) -> None:
        """Drop calls that do not wait any more."""
        self._queue = deque(call for call in self._queue if call.waiting)

    def close(self) -> None:
        """End the connection and every call, sent or not."""
        if self.connection is not None:
            self.connection.close()
        queue, self._queue = self._queue, deque()
        for call in queue:
            if call.waiting:
                call.fail(failures.ConnectionFailed("the cluster", "closed by this side"))

    # connecting

    def _connect(self, now_s: float) -> None:
        if self._env.tokens is not None:
            token = self._env.tokens.want()
            if token is None:
                return  # this comes back when it is there
            if isinstance(token, errors.ConnectError):
                self._wanted = False
                self._failed(token, now_s)
                return
        found = self._address()
        self._wanted = False
        if found is None:
            self._failed(failures.NodeUnknown(self.node_id), now_s)
            return
        self.tried_s = now_s
        link = connection.Connection(
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
        self.ready_s = self._env.clock.now_s()
        self._owner.ready(self)
        self._owner.wake(self)

    def _recovered(self) -> None:
        """It answers: only that tells a good listener from one of another kind."""
        self._complained = False
        self._reconnect.reset()
        level = logging.DEBUG if self._env.quiet else logging.INFO
        log.log(level, "broker %s is reachable again", self._name())

    def _on_closed(self, link: connection.Connection, failure: errors.ConnectError | None) -> None:
        if self.connection is not link:
            return
        self.connection = None
        self._answered_s = max(self._answered_s, link.answered_s)
        self._owner.wake(self)
        if failure is None:
            return
        if link.idle_when_closed and isinstance(failure, errors.RetriableError):
            # Nobody lost anything: connect again when somebody asks. Leaders may be moving, though.
            self._owner.failed(self, failure, [])
            return
        if link.answered_any:
            self._complained = False
            self._reconnect.reset()
        self._failed(failure, self._env.clock.now_s())

    def _failed(self, failure: errors.ConnectError, now_s: float) -> None:
        if not isinstance(
            failure, failures.NodeUnknown
        ):  # before the first metadata nobody is known
            if not self._complained:
                level = logging.DEBUG if self._env.quiet else logging.WARNING
                log.log(level, "broker %s: %s", self._name(), failure)
            self._complained = True
        self._trouble, self._trouble_s = failure, now_s
        self.retry_at_s = now_s + self._reconnect.next_delay_s(self._env.rng)
        fatal = isinstance(failure, errors.FatalError)
        kept: deque[calls.Call] = deque()
        returned: list[calls.Call] = []
        for call in self._queue:
            if call.waiting:
                stays = not fatal and not call.follows and isinstance(call, calls.MessageCall)
                (kept if stays else returned).append(call)
        self._queue = kept
        self._owner.failed(self, failure, returned)

    def _name(self) -> str:
        found = self._address()
        where = cluster_view.format_address(*found) if found is not None else "address unknown"
        return f"{self.node_id} ({where})" if self.node_id >= 0 else where

    def _hand_over(self, call: calls.Call, link: connection.Connection) -> None:
        assert link.versions is not None
        try:
            request = call.request(link.versions, node_id=self.node_id, on_throttle=link.throttle)
        except failures.UnsupportedVersion as failure:
            call.fail(failure, node_id=self.node_id)
            return
        call.waiting = False
        link.send(request)
