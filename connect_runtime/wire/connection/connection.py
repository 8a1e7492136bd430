"""One connection to one broker: connect, TLS, versions, SASL; then requests, pipelined, in order.

Everything happens in `on_event` (from the poller) and `tick`; `send` only queues. Answers come in
the order of requests, so a lost one ends the connection. Every request ends exactly once. States:

    CONNECTING -> OPENING (handshake) -> READY <-> renewing its SASL session -> CLOSED
"""

from __future__ import annotations

import enum
import logging
import math
from collections import deque
from collections.abc import Callable

from connect_runtime.base import errors
from connect_runtime.wire.codec import (
    cluster_view,
    failures,
    frames,
    handshake,
    session_life,
    versions,
)
from connect_runtime.wire.connection import (
    diagnosis,
    dialling,
    environment,
    framing,
    poller,
    transport,
)

log = logging.getLogger(__name__)

_OPENING_FRAME_MAX = 1 << 20
"""Before the handshake is over nothing legitimate is larger; a stranger's bytes easily claim so."""
_READ_AT_ONCE = 8 << 20
"""After that many bytes other connections get their turn."""
_PATIENCE = 4.0
"""A request whose bytes keep flowing may take this many times its timeout."""


class State(enum.Enum):
    CONNECTING = enum.auto()
    OPENING = enum.auto()
    READY = enum.auto()
    CLOSED = enum.auto()


class Connection:
    """Invariants: correlation ids count up; `_pending` holds what was queued and not answered."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        environment: environment.Environment,
        on_ready: Callable[[], None],
        on_closed: Callable[[errors.ConnectError | None], None],
        canonical: bool = False,
    ) -> None:
        self.address = cluster_view.format_address(host, port)
        self.state = State.CONNECTING
        self.versions: versions.BrokerVersions | None = None
        self.throttled_until_s = -math.inf
        self.rtt_s = math.inf
        self.idle_when_closed = False
        self.used_s = environment.clock.now_s()
        self.next_due_s = -math.inf
        self._env = environment
        self._on_ready, self._on_closed = on_ready, on_closed
        self._transport: transport.Transport | None = None
        self._polled_for = 0
        self._dialling = dialling.Dialling(
            host,
            port,
            names=environment.names,
            tls=environment.tls,
            buffer_bytes=environment.limits.socket_buffer_bytes,
            canonical=canonical,
        )
        self._opening_ends_s = math.inf
        self._reader = framing.FrameReader(environment.pool, _OPENING_FRAME_MAX)
        self._queue = framing.SendQueue()
        self._pending: deque[framing.Request] = deque()
        self._conversation: handshake.Conversation | None = None
        self._token: str | None = None
        self._session = session_life.SessionLife()
        self._correlation_id = 0
        self._progress_s = self.used_s
        self.answered_any = False
        self.answered_s = -math.inf
        """When a response, or a part of one, last arrived on the ready connection."""

    # using it

    @property
    def in_flight(self) -> int:
        return len(self._pending)

    def can_send(self, now_s: float) -> bool:
        """Not while it opens, renews its session, or is throttled by the broker."""
        ready = self.state is State.READY and self._conversation is None
        return ready and now_s >= self.throttled_until_s

    def send(self, request: framing.Request) -> None:
        """Queue it; the bytes leave at the next `flush`."""
        assert self.state in {State.READY, State.OPENING}, self.state
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        request.correlation_id = self._correlation_id
        header = frames.request_header(
            request.api_key,
            request.version,
            request.correlation_id,
            client_id=self._env.client_id,
            body_size=sum(map(len, request.chunks)),
        )
        request.chunks = [header, *request.chunks]
        self._queue.push(request)
        self._pending.append(request)
        self.next_due_s = min(self.next_due_s, request.deadline_s)

    def throttle(self, throttle_ms: int) -> None:
        """The broker asked for a pause (KIP-219): nothing more is handed over until it passed."""
        until_s = self._env.clock.now_s() + throttle_ms / 1000
        self.throttled_until_s = max(self.throttled_until_s, until_s)

    def flush(self) -> None:
        """Hand queued bytes to the system, as many as it takes now."""
        if self._transport is None or not self._queue or self.state is State.CONNECTING:
            return
        now_s = self._env.clock.now_s()
        try:
            done = self._queue.flush(self._transport, now_s)
        except OSError as error:
            self._lost(error)
            return
        self.used_s = self._progress_s = now_s
        self._poll_for(poller.READ if done else poller.READ | poller.WRITE)

    def start(self) -> None:
        """Begin to connect; call it once. Failures come through `on_closed`, at once or later."""
        now_s = self._env.clock.now_s()
        self._opening_ends_s = now_s + self._env.limits.connect_timeout_s
        self._dialling.resolve(now_s, ends_s=self._opening_ends_s, resolved=self._on_resolved)
        self.next_due_s = self._due_s()

    def close(self, failure: errors.ConnectError | None = None) -> None:
        """End it, and every request on it; `failure` None: nobody's fault (idle, shutting down)."""
        if self.state is State.CLOSED:
            return
        self.idle_when_closed = self.state is State.READY and not self._pending
        self.state = State.CLOSED
        self._dialling.close()
        self._drop_transport()
        reason = failure or failures.ConnectionFailed(self.address, "closed by this side")
        pending, self._pending = self._pending, deque()
        now_s = self._env.clock.now_s()
        for request in pending:
            self._fail(request, reason, now_s)
        self._on_closed(failure)

    # time

    def tick(self, now_s: float) -> None:
        """Do what is due; afterwards `next_due_s` says when to come back at the latest."""
        if self.state is State.CLOSED:
            return
        if self.state is State.CONNECTING and now_s >= self._dialling.attempt_ends_s:
            self._try_next_address(now_s, TimeoutError("no connection in time"))
        elif self.state is not State.READY and now_s >= self._opening_ends_s:
            self._lost(TimeoutError("no answer in time"))
        elif self.state is State.READY and now_s >= self._session.renew_at_s:
            self._renew(now_s)
        if self._transport is not None and self._transport.holds_bytes():
            self._read()
        self._expire(now_s)
        self.next_due_s = self._due_s()

    def _due_s(self) -> float:
        if self.state is State.CLOSED:
            return math.inf
        if self._transport is not None and self._transport.holds_bytes():
            return -math.inf
        first = min(map(self._deadline_s, self._pending), default=math.inf)
        opening_s = min(self._dialling.attempt_ends_s, self._opening_ends_s)
        return min(first, opening_s, self._session.renew_at_s)

    def _deadline_s(self, request: framing.Request) -> float:
        """Later while its bytes keep coming or going: a slow line is not a dead one."""
        if request.left == 0 and not self._reader.midway():
            return request.deadline_s
        timeout_s = request.deadline_s - request.queued_s
        flowing_s = max(request.deadline_s, self._progress_s + timeout_s)
        return min(flowing_s, request.queued_s + _PATIENCE * timeout_s)

    def _expire(self, now_s: float) -> None:
        late = [request for request in self._pending if self._deadline_s(request) <= now_s]
        if late:
            api = versions.API_NAMES[late[0].api_key]
            self.close(failures.ConnectionFailed(self.address, f"{api} was not answered in time"))

    def _fail(self, request: framing.Request, reason: errors.ConnectError, now_s: float) -> None:
        failure = reason
        if self._deadline_s(request) <= now_s:
            failure = failures.RequestTimedOut(
                versions.API_NAMES[request.api_key],
                waiting_for=f"the answer of {self.address}",
                after_s=round(now_s - request.queued_s, 3),
            )
        sent = request.sent_s is not None
        elapsed_s = now_s - request.sent_s if request.sent_s is not None else 0.0
        request.done(framing.Outcome(None, failure, sent, elapsed_s))

    # connecting

    def _on_resolved(self) -> None:
        self._try_next_address(self._env.clock.now_s(), OSError("no address"))

    def _try_next_address(self, now_s: float, error: Exception) -> None:
        self._drop_transport()
        found = self._dialling.next_transport(now_s, error)
        if isinstance(found, Exception):
            self._lost(found)
            return
        self._transport = found
        self.next_due_s = self._dialling.attempt_ends_s
        self._polled_for = found.interest
        self._env.poller.register(found.socket, found.interest, handler=self._on_event)

    def _drop_transport(self) -> None:
        if self._transport is not None:
            self._env.poller.unregister(self._transport.socket)
            self._transport.close()
            self._transport = None

    def _poll_for(self, interest: int) -> None:
        if self._transport is not None and interest != self._polled_for:
            self._polled_for = interest
            self._env.poller.modify(self._transport.socket, interest)

    def _advance(self) -> None:
        assert self._transport is not None
        now_s = self._env.clock.now_s()
        try:
            connected = self._transport.advance()
        except (OSError, ValueError) as error:  # ValueError: a host name that TLS cannot take
            if self._transport.connected:
                self._lost(error)  # TLS: another address of this host would say the same
            else:
                self._try_next_address(now_s, error)
            return
        self._poll_for(self._transport.interest)
        if connected:
            self.state = State.OPENING
            self._dialling.connected()
            self._authenticate(None)

    # talking before, and between, requests

    def _authenticate(self, known: versions.BrokerVersions | None) -> None:
        """Begin the handshake; with `known` versions only its part that says who we are."""
        tokens = self._env.tokens
        if tokens is not None:
            self._token = tokens.current()
            if self._token is None:  # it expired while this connected, or since it was renewed
                self.close(tokens.trouble)
                return
        security, address, token = self._env.security, self.address, self._token
        if known is None:
            self._conversation = handshake.opening(security, address=address, token=token)
        else:
            self._conversation = handshake.authenticating(
                security, address=address, known=known, token=token
            )
        self._converse(None)

    def _converse(self, body: memoryview | None) -> None:
        """Go on with the handshake, or with the renewal of the session."""
        assert self._conversation is not None
        try:
            talk = self._conversation
            entity = next(talk) if body is None else talk.send(body)
        except StopIteration as end:
            self._agreed(end.value)
            return
        except errors.ConnectError as failure:
            if self._token is not None and isinstance(failure, failures.AuthenticationFailed):
                assert self._env.tokens is not None
                self._env.tokens.refused(self._token, failure)
            self.close(failure)
            return
        now_s = self._env.clock.now_s()
        timeout_s = self._env.limits.connect_timeout_s
        self.send(
            framing.Request(
                api_key=entity.__api_key__,
                version=entity.__version__,
                chunks=[frames.encode_body(entity)],
                deadline_s=now_s + timeout_s,
                queued_s=now_s,
                done=self._on_conversation,
            )
        )
        self.flush()

    def _on_conversation(self, outcome: framing.Outcome) -> None:
        if outcome.body is not None:
            self._converse(outcome.body)

    def _agreed(self, opened: handshake.Opened) -> None:
        now_s = self._env.clock.now_s()
        self._conversation = None
        self.versions = opened.versions
        self._opening_ends_s = math.inf
        self._session.begun(opened.session_s, now_s, self._env.rng)
        if self._env.tokens is not None:
            self._env.tokens.accepted()
        self._reader.max_bytes = self._env.limits.max_response_bytes
        self.state = State.READY
        self.next_due_s = min(self.next_due_s, self._session.renew_at_s)
        log.debug("connected to %s", self.address)
        self._on_ready()

    def _renew(self, now_s: float) -> None:
        """Authenticate again, after what is in flight and before anything else is sent."""
        tokens = self._env.tokens
        if tokens is not None and not tokens.outlives(self._session.ends_s):
            if not self._session.postpone(now_s):
                self.close(tokens.trouble)
            return
        assert self.versions is not None
        self._session.renewing()
        self._authenticate(self.versions)

    # events

    def _on_event(self, mask: int) -> None:
        if self.state is State.CONNECTING:
            self._advance()
            return
        if mask & poller.WRITE:
            self.flush()
        if mask & poller.READ and self._transport is not None:
            self._read()

    def _read(self) -> None:
        self.used_s = self._env.clock.now_s()
        budget = _READ_AT_ONCE
        while self._transport is not None and budget > 0:
            try:
                frame = self._reader.next_frame(self._transport)
            except (OSError, EOFError, framing.BadSize) as error:
                self._lost(error)
                return
            if frame is None:
                break
            budget -= len(frame)
            self._take(frame)
        if self._reader.midway():
            self._progress_s = self.used_s
            self._note_answer()
        if self._transport is not None and self._transport.holds_bytes():
            self.next_due_s = -math.inf

    def _take(self, frame: memoryview) -> None:
        answered = frames.correlation_id(frame)
        if not self._pending or answered != self._pending[0].correlation_id:
            problem = f"an answer (correlation id {answered}) to no question of ours"
            self.close(failures.ConnectionFailed(self.address, problem))
            return
        request = self._pending[0]
        try:
            body = frames.response_body(frame, request.api_key, request.version)
        except failures.TruncatedResponse as failure:
            self.close(failure)
            return
        self._pending.popleft()
        self.answered_any = self.answered_any or self.state is State.READY
        self._note_answer()
        elapsed_s = self.used_s - (request.sent_s or self.used_s)
        if self._conversation is not None:
            self.rtt_s = min(self.rtt_s, elapsed_s)
        request.done(framing.Outcome(body, None, True, elapsed_s))

    def _note_answer(self) -> None:
        if self.state is State.READY:
            self.answered_s = self.used_s

    def _lost(self, error: Exception) -> None:
        stage = diagnosis.stage(
            connected=self._transport is not None and self._transport.connected,
            ready=self.state is State.READY,
            pending=len(self._pending),
        )
        self.close(
            diagnosis.explain(
                error,
                address=self.address,
                stage=stage,
                security=self._env.security,
                answered=self.answered_any,
            )
        )
