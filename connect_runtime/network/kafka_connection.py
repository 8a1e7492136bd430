"""One connection to one broker: connect, TLS, ApiVersions, SASL, then pipelined requests.

All work happens in the poller's callback and in `tick`; `send` only queues. A broker sends
responses in request order, so the connection is closed if a response is missing. Every request ends
exactly once. The messages of socket, TLS and framing errors name the setting to check.

    CONNECTING -> OPENING (handshake) -> READY <-> renewing its SASL session -> CLOSED
"""

from __future__ import annotations

import enum
import logging
import math
import ssl
from collections import deque
from collections.abc import Callable

from connect_runtime.base.errors import ConnectError
from connect_runtime.network import tcp_and_tls_transport
from connect_runtime.network.dns_resolver import ConnectAttempts
from connect_runtime.network.shared_connection_resources import NetworkContext
from connect_runtime.network.tcp_and_tls_transport import (
    FrameReader,
    InvalidFrameSize,
    OutgoingRequest,
    RequestOutcome,
    RequestSendQueue,
    Transport,
)
from connect_runtime.protocol import (
    api_versions,
    cluster_metadata,
    connection_handshake,
    request_framing,
)
from connect_runtime.protocol.api_versions import NodeApiVersions
from connect_runtime.protocol.connection_handshake import (
    HandshakeConversation,
    HandshakeResult,
    SaslSessionLifetime,
)
from connect_runtime.protocol.request_errors import (
    AuthenticationFailed,
    ConnectionFailed,
    MalformedResponseError,
    RequestFailureLayer,
    RequestTimedOut,
)
from connect_runtime.protocol.security_settings import SecuritySettings

_MAX_THROTTLE_S = 60.0
"""Maximum time for which requests are delayed. Kafka's quotas throttle for tens of seconds at
most."""
_TLS_RECORD_TYPES = {20, 21, 22, 23}
_TLS_MAJOR_VERSION = 3
_CLOSED_ERRORS = (EOFError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""Errors that indicate a closed connection: without TLS, or with TLS before or after its shutdown
alert."""


def describe_connection_stage(*, connected: bool, ready: bool, pending: int) -> str:
    """Describe what a connection is doing, for error messages. `pending` is its number of
    unanswered requests."""
    if not connected:
        return "connecting"
    if not ready:
        return "opening"
    return f"waiting for {pending} responses" if pending else "idle"


def explain_connection_failure(
    error: Exception,
    *,
    address: str,
    stage: str,
    security: SecuritySettings,
    has_responded: bool,
) -> ConnectError:
    """Convert a socket, TLS or framing error to a `ConnectError` with advice. ConnectErrors are
    returned unchanged.

    `stage` is the result of `describe_connection_stage`. `has_responded` is True if the broker has
    responded after the handshake. If it is False, a closed connection often indicates wrong
    settings.
    """
    if isinstance(error, ConnectError):
        return error
    if isinstance(error, InvalidFrameSize):
        return _explain_invalid_frame_size(error, address)
    if isinstance(error, ssl.SSLCertVerificationError):
        problem = f"TLS: the broker's certificate was rejected: {error.verify_message}"
        return AuthenticationFailed(address, problem, layer=RequestFailureLayer.TLS)
    if isinstance(error, ssl.SSLError) and not isinstance(error, _CLOSED_ERRORS):
        return _explain_tls_error(error, address)
    if isinstance(error, (ConnectionError, *_CLOSED_ERRORS)):
        told = isinstance(error, ConnectionError) and error.strerror
        seen = told or "closed by the broker"
        hint = "" if has_responded else _suggest_cause(stage, security)
        layer = RequestFailureLayer.LISTENER if hint else RequestFailureLayer.NETWORK
        return ConnectionFailed(address, f"{seen} while {stage}{hint}", layer=layer)
    seen = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return ConnectionFailed(address, f"{seen} while {stage}")


def _suggest_cause(stage: str, security: SecuritySettings) -> str:
    if stage == "connecting":
        return ""
    if stage == "opening" and not security.uses_tls:
        return (
            f" (security.protocol is {security.protocol}; check whether the listener requires TLS)"
        )
    if stage == "opening":
        return (
            f" (security.protocol is {security.protocol}; check whether the listener supports TLS)"
        )
    if not security.uses_sasl:
        return (
            f" (security.protocol is {security.protocol}; check whether the listener requires SASL)"
        )
    return ""


def _explain_tls_error(error: ssl.SSLError, address: str) -> ConnectError:
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if "wrong version number" in reason or "record layer failure" in reason:
        problem = (
            f"TLS: {reason}: the listener does not use TLS; check security.protocol and the port"
        )
        return AuthenticationFailed(address, problem, layer=RequestFailureLayer.LISTENER)
    if "alert" in reason:
        problem = (
            f"TLS: rejected by the broker: {reason}; check whether it requires a client certificate"
        )
        return AuthenticationFailed(address, problem, layer=RequestFailureLayer.TLS)
    return ConnectionFailed(address, f"TLS: {reason}", layer=RequestFailureLayer.TLS)


def _explain_invalid_frame_size(error: InvalidFrameSize, address: str) -> ConnectError:
    raw = error.raw
    if raw[0] in _TLS_RECORD_TYPES and raw[1] == _TLS_MAJOR_VERSION:
        problem = "the listener uses TLS; set security.protocol to SSL or SASL_SSL"
        return AuthenticationFailed(address, problem, layer=RequestFailureLayer.LISTENER)
    if raw.isascii() and raw.decode("ascii").isprintable():
        problem = (
            f"the server responds {raw.decode('ascii')!r}…; this is not Kafka's protocol: check "
            "the port"
        )
    else:
        problem = f"the response size of {error.size} bytes is invalid; check the port"
    return ConnectionFailed(address, problem, layer=RequestFailureLayer.LISTENER)


log = logging.getLogger(__name__)

_MAX_HANDSHAKE_FRAME_BYTES = 1 << 20
"""Maximum frame size during the handshake. Legitimate frames are smaller, but data of another
protocol may look like a larger size."""
_MAX_READ_PER_EVENT_BYTES = 8 << 20
"""Maximum number of bytes to read from a connection before other connections are served."""
_STREAMING_TIMEOUT_FACTOR = 4.0
"""Multiple of a request's timeout, counted from when the request was queued. After this time, the
request fails even if its bytes are still being transferred."""


class ConnectionState(enum.Enum):
    """State of a broker connection; see the diagram in the module docstring."""

    CONNECTING = enum.auto()
    OPENING = enum.auto()
    READY = enum.auto()
    CLOSED = enum.auto()


class KafkaConnection:
    """A network connection to one broker.

    Invariants: correlation ids increase; `_pending` contains the requests that are queued or sent
    and not yet answered.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        environment: NetworkContext,
        on_ready: Callable[[], None],
        on_closed: Callable[[ConnectError | None], None],
        canonical: bool = False,
    ) -> None:
        self.address = cluster_metadata.format_address(host, port)
        self.state = ConnectionState.CONNECTING
        self.versions: NodeApiVersions | None = None
        self.throttled_until_s = -math.inf
        self.rtt_s = math.inf
        self.idle_when_closed = False
        self.last_used_s = environment.clock.now_s()
        self.next_due_s = -math.inf
        self._env = environment
        self._on_ready, self._on_closed = on_ready, on_closed
        self._transport: Transport | None = None
        self._polled_for = 0
        self._dialling = ConnectAttempts(
            host,
            port,
            names=environment.names,
            tls=environment.tls,
            buffer_bytes=environment.limits.socket_buffer_bytes,
            canonical=canonical,
        )
        self._opening_ends_s = math.inf
        self._reader = FrameReader(environment.pool, _MAX_HANDSHAKE_FRAME_BYTES)
        self._queue = RequestSendQueue()
        self._pending: deque[OutgoingRequest] = deque()
        self._conversation: HandshakeConversation | None = None
        self._token: str | None = None
        self._session = SaslSessionLifetime()
        self._correlation_id = 0
        self._progress_s = self.last_used_s
        self.has_responded = False
        self.last_response_s = -math.inf
        """Monotonic time at which the last bytes of a response arrived after the handshake."""

    # requests

    @property
    def in_flight_request_count(self) -> int:
        """Number of requests that are queued or sent and not yet answered."""
        return len(self._pending)

    def can_send(self, now_s: float) -> bool:
        """Return True if requests may be sent: the connection is ready, not re-authenticating, and
        not throttled by the broker."""
        ready = self.state is ConnectionState.READY and self._conversation is None
        return ready and now_s >= self.throttled_until_s

    def send(self, request: OutgoingRequest) -> None:
        """Queue a request. Its bytes are sent at the next `flush`."""
        assert self.state in {ConnectionState.READY, ConnectionState.OPENING}, self.state
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        request.correlation_id = self._correlation_id
        header = request_framing.encode_request_header(
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
        """Delay further requests by the throttle time in a response (KIP-219), but at most by
        `_MAX_THROTTLE_S`."""
        until_s = self._env.clock.now_s() + min(throttle_ms / 1000, _MAX_THROTTLE_S)
        self.throttled_until_s = max(self.throttled_until_s, until_s)

    def flush(self) -> None:
        """Send as many queued bytes as the socket accepts."""
        if self._transport is None or not self._queue or self.state is ConnectionState.CONNECTING:
            return
        now_s = self._env.clock.now_s()
        try:
            done = self._queue.flush(self._transport, now_s)
        except OSError as error:
            self._close_after_error(error)
            return
        self.last_used_s = self._progress_s = now_s
        self._set_poll_interest(
            tcp_and_tls_transport.READABLE
            if done
            else tcp_and_tls_transport.READABLE | tcp_and_tls_transport.WRITABLE
        )

    def start(self) -> None:
        """Start connecting to the broker. Call once.

        Failures are passed to `on_closed`, possibly before this method returns.
        """
        now_s = self._env.clock.now_s()
        self._opening_ends_s = now_s + self._env.limits.connect_timeout_s
        self._dialling.resolve_addresses(
            now_s, ends_s=self._opening_ends_s, resolved=self._on_host_resolved
        )
        self.next_due_s = self._compute_next_tick_time_s()

    def close(self, failure: ConnectError | None = None) -> None:
        """Close the connection and end all its requests.

        `failure` is None for a regular close (idle, shutdown).
        """
        if self.state is ConnectionState.CLOSED:
            return
        self.idle_when_closed = self.state is ConnectionState.READY and not self._pending
        self.state = ConnectionState.CLOSED
        self._dialling.close()
        self._drop_transport()
        reason = failure or ConnectionFailed(self.address, "closed by this client")
        pending, self._pending = self._pending, deque()
        now_s = self._env.clock.now_s()
        for request in pending:
            self._fail_request(request, reason, now_s)
        self._reader.close()  # references in a cycle keep this object alive for a while
        self._on_closed(failure)

    # time

    def tick(self, now_s: float) -> None:
        """Process all due work of the connection, and set `next_due_s`, the time by which `tick`
        must be called again."""
        if self.state is ConnectionState.CLOSED:
            return
        if self.state is ConnectionState.CONNECTING and now_s >= self._dialling.attempt_ends_s:
            self._try_next_address(now_s, TimeoutError("connection timed out"))
        elif self.state is not ConnectionState.READY and now_s >= self._opening_ends_s:
            self._close_after_error(TimeoutError("no response in time"))
        elif self.state is ConnectionState.READY and now_s >= self._session.renew_at_s:
            self._renew_session(now_s)
        if self._transport is not None and self._transport.has_buffered_bytes():
            self._read_frames()
        self._close_if_expired(now_s)
        self.next_due_s = self._compute_next_tick_time_s()

    def _compute_next_tick_time_s(self) -> float:
        if self.state is ConnectionState.CLOSED:
            return math.inf
        if self._transport is not None and self._transport.has_buffered_bytes():
            return -math.inf
        first = min(map(self._get_deadline_s, self._pending), default=math.inf)
        opening_s = min(self._dialling.attempt_ends_s, self._opening_ends_s)
        return min(first, opening_s, self._session.renew_at_s)

    def _get_deadline_s(self, request: OutgoingRequest) -> float:
        """Return a request's deadline, extended while its bytes are still being transferred over a
        slow network."""
        if request.unsent_bytes == 0 and not self._reader.has_partial_frame():
            return request.deadline_s
        timeout_s = request.deadline_s - request.queued_s
        flowing_s = max(request.deadline_s, self._progress_s + timeout_s)
        return min(flowing_s, request.queued_s + _STREAMING_TIMEOUT_FACTOR * timeout_s)

    def _close_if_expired(self, now_s: float) -> None:
        late = [request for request in self._pending if self._get_deadline_s(request) <= now_s]
        if late:
            api = api_versions.API_NAMES[late[0].api_key]
            self.close(ConnectionFailed(self.address, f"{api} was not answered in time"))

    def _fail_request(self, request: OutgoingRequest, reason: ConnectError, now_s: float) -> None:
        failure = reason
        if self._get_deadline_s(request) <= now_s:
            failure = RequestTimedOut(
                api_versions.API_NAMES[request.api_key],
                waiting_for=f"the response of {self.address}",
                after_s=round(now_s - request.queued_s, 3),
            )
        sent = request.sent_s is not None
        elapsed_s = now_s - request.sent_s if request.sent_s is not None else 0.0
        request.done(RequestOutcome(None, failure, sent, elapsed_s))

    # connecting

    def _on_host_resolved(self) -> None:
        self._try_next_address(self._env.clock.now_s(), OSError("no address"))

    def _try_next_address(self, now_s: float, error: Exception) -> None:
        self._drop_transport()
        found = self._dialling.connect_to_next_address(now_s, error)
        if isinstance(found, Exception):
            self._close_after_error(found)
            return
        self._transport = found
        self.next_due_s = self._dialling.attempt_ends_s
        self._polled_for = found.interest
        self._env.poller.register(found.socket, found.interest, handler=self._on_socket_event)

    def _drop_transport(self) -> None:
        if self._transport is not None:
            self._env.poller.unregister(self._transport.socket)
            self._transport.close()
            self._transport = None

    def _set_poll_interest(self, interest: int) -> None:
        if self._transport is not None and interest != self._polled_for:
            self._polled_for = interest
            self._env.poller.modify(self._transport.socket, interest)

    def _continue_connecting(self) -> None:
        assert self._transport is not None
        now_s = self._env.clock.now_s()
        try:
            connected = self._transport.continue_connecting()
        except (OSError, ValueError) as error:  # ValueError: TLS does not accept the host name
            if self._transport.connected:
                self._close_after_error(
                    error
                )  # TLS: other addresses of this host would fail in the same way
            else:
                self._try_next_address(now_s, error)
            return
        self._set_poll_interest(self._transport.interest)
        if connected:
            self.state = ConnectionState.OPENING
            self._dialling.on_connected()
            self._start_authentication(None)

    # handshake and session renewal

    def _start_authentication(self, known: NodeApiVersions | None) -> None:
        """Start the handshake. `known` are the broker's API versions if they have already been
        negotiated; then only authentication is performed."""
        tokens = self._env.tokens
        if tokens is not None:
            self._token = tokens.get_current_token()
            if self._token is None:  # it expired in the meantime
                self.close(tokens.last_failure)
                return
        security, address, token = self._env.security, self.address, self._token
        if known is None:
            self._conversation = connection_handshake.perform_handshake(
                security, address=address, token=token
            )
        else:
            self._conversation = connection_handshake.authenticate_connection(
                security, address=address, known=known, token=token
            )
        self._continue_authentication(None)

    def _continue_authentication(self, body: memoryview | None) -> None:
        """Process the next response of the handshake or re-authentication."""
        assert self._conversation is not None
        try:
            talk = self._conversation
            entity = next(talk) if body is None else talk.send(body)
        except StopIteration as end:
            self._on_handshake_done(end.value)
            return
        except ConnectError as failure:
            if self._token is not None and isinstance(failure, AuthenticationFailed):
                assert self._env.tokens is not None
                self._env.tokens.on_token_refused(self._token, failure)
            self.close(failure)
            return
        now_s = self._env.clock.now_s()
        timeout_s = self._env.limits.connect_timeout_s
        self.send(
            OutgoingRequest(
                api_key=entity.__api_key__,
                version=entity.__version__,
                chunks=[request_framing.encode_request_body(entity)],
                deadline_s=now_s + timeout_s,
                queued_s=now_s,
                done=self._on_authentication_response,
            )
        )
        self.flush()

    def _on_authentication_response(self, outcome: RequestOutcome) -> None:
        if outcome.body is not None:
            self._continue_authentication(outcome.body)

    def _on_handshake_done(self, opened: HandshakeResult) -> None:
        now_s = self._env.clock.now_s()
        self._conversation = None
        self.versions = opened.versions
        self._opening_ends_s = math.inf
        self._session.start_session(opened.session_lifetime_s, now_s, self._env.rng)
        if self._env.tokens is not None:
            self._env.tokens.on_token_accepted()
        self._reader.max_bytes = self._env.limits.max_response_bytes
        self.state = ConnectionState.READY
        self.next_due_s = min(self.next_due_s, self._session.renew_at_s)
        log.debug("connected to %s", self.address)
        self._on_ready()

    def _renew_session(self, now_s: float) -> None:
        """Re-authenticate after the responses to the requests in flight have arrived. Requests that
        are not sent yet wait until re-authentication is complete."""
        tokens = self._env.tokens
        if tokens is not None and not tokens.is_token_valid_beyond(self._session.ends_s):
            if not self._session.postpone_reauthentication(now_s):
                self.close(tokens.last_failure)
            return
        assert self.versions is not None
        self._session.start_reauthentication()
        self._start_authentication(self.versions)

    # events

    def _on_socket_event(self, mask: int) -> None:
        if self.state is ConnectionState.CONNECTING:
            self._continue_connecting()
            return
        if mask & tcp_and_tls_transport.WRITABLE:
            self.flush()
        if mask & tcp_and_tls_transport.READABLE and self._transport is not None:
            self._read_frames()

    def _read_frames(self) -> None:
        self.last_used_s = self._env.clock.now_s()
        budget = _MAX_READ_PER_EVENT_BYTES
        while self._transport is not None and budget > 0:
            try:
                frame = self._reader.read_next_frame(self._transport)
            except (OSError, EOFError, InvalidFrameSize) as error:
                self._close_after_error(error)
                return
            if frame is None:
                break
            budget -= len(frame)
            self._handle_frame(frame)
        if self._reader.has_partial_frame():
            self._progress_s = self.last_used_s
            self._record_response_time()
        if self._transport is not None and self._transport.has_buffered_bytes():
            self.next_due_s = -math.inf

    def _handle_frame(self, frame: memoryview) -> None:
        answered = request_framing.read_correlation_id(frame)
        if not self._pending or answered != self._pending[0].correlation_id:
            problem = f"the response has the unexpected correlation id {answered}"
            self.close(ConnectionFailed(self.address, problem))
            return
        request = self._pending[0]
        try:
            body = request_framing.strip_response_header(frame, request.api_key, request.version)
        except MalformedResponseError as failure:
            self.close(failure)
            return
        self._pending.popleft()
        self.has_responded = self.has_responded or self.state is ConnectionState.READY
        self._record_response_time()
        elapsed_s = self.last_used_s - (request.sent_s or self.last_used_s)
        if self._conversation is not None:
            self.rtt_s = min(self.rtt_s, elapsed_s)
        request.done(RequestOutcome(body, None, True, elapsed_s))

    def _record_response_time(self) -> None:
        if self.state is ConnectionState.READY:
            self.last_response_s = self.last_used_s

    def _close_after_error(self, error: Exception) -> None:
        stage = describe_connection_stage(
            connected=self._transport is not None and self._transport.connected,
            ready=self.state is ConnectionState.READY,
            pending=len(self._pending),
        )
        self.close(
            explain_connection_failure(
                error,
                address=self.address,
                stage=stage,
                security=self._env.security,
                has_responded=self.has_responded,
            )
        )
