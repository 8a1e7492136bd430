"""Keeps OAUTHBEARER access tokens fresh.

Tokens are requested from an OIDC issuer with non-blocking HTTP requests, with the same poller as
the broker connections. At most one request is in flight at a time, and each uses a new connection.
`TokenRefresher` decides when to send a request.
"""

from __future__ import annotations

import logging
import math
import random
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError
from connect_runtime.network import tcp_and_tls_transport
from connect_runtime.network.dns_resolver import ConnectAttempts, HostResolver
from connect_runtime.network.tcp_and_tls_transport import Poller, Transport
from connect_runtime.network.tls_contexts import create_tls_context
from connect_runtime.protocol import cluster_metadata, oauthbearer
from connect_runtime.protocol.oauth_token_refresh import TokenRefresher
from connect_runtime.protocol.oauthbearer import AccessToken, OAuthSettings, TokenResponseReader
from connect_runtime.protocol.request_errors import AuthenticationFailed, ConnectionFailed
from connect_runtime.protocol.security_settings import SecuritySettings

_HTTP_READ_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequestLimits:
    """Limits of an HTTP request: seconds to connect, seconds to respond, and response size."""

    connect_timeout_s: float
    read_timeout_s: float
    max_response_bytes: int


class HttpRequest:
    """One HTTP request. Each object can be used only once.

    `on_answer` receives each piece of the response, and whether it is the last piece. `on_failure`
    is called at most once, and not after `close`. Both may be called from `start`, `tick` and the
    poller. `due_s` is the latest time to call `tick`.
    """

    def __init__(
        self,
        to: ConnectAttempts,
        *,
        request: bytes,
        limits: HttpRequestLimits,
        poller: Poller,
        clock: Clock,
        on_answer: Callable[[bytes, bool], None],
        on_failure: Callable[[ConnectError], None],
    ) -> None:
        self._dialling = to
        self._unsent = memoryview(request)
        self._limits = limits
        self._poller = poller
        self._clock = clock
        self._on_answer, self._on_failure = on_answer, on_failure
        self._transport: Transport | None = None
        self._open = False
        self._answer_bytes = 0
        self._ends_s = math.inf

    @property
    def next_tick_time_s(self) -> float:
        return min(self._ends_s, self._dialling.attempt_ends_s)

    def start(self, now_s: float) -> None:
        """Resolve the host name and start connecting."""
        self._ends_s = now_s + self._limits.connect_timeout_s
        self._dialling.resolve_addresses(
            now_s, ends_s=self._ends_s, resolved=self._on_host_resolved
        )

    def tick(self, now_s: float) -> None:
        """Enforce the time limits of the HTTP request."""
        if now_s >= self._dialling.attempt_ends_s:
            self._try_next_address(now_s, TimeoutError("connection timed out"))
        elif now_s >= self._ends_s:
            self._fail_request(TimeoutError("no response in time"))
        elif self._transport is not None and self._transport.has_buffered_bytes():
            self._read_response()

    def close(self) -> None:
        """Close the HTTP connection in any state."""
        self._dialling.close()
        self._close_transport()
        self._ends_s = math.inf

    def _close_transport(self) -> None:
        if self._transport is not None:
            self._poller.unregister(self._transport.socket)
            self._transport.close()
            self._transport = None

    def _on_host_resolved(self) -> None:
        self._try_next_address(self._clock.now_s(), OSError("no address"))

    def _try_next_address(self, now_s: float, error: Exception) -> None:
        self._close_transport()
        found = self._dialling.connect_to_next_address(now_s, error)
        if isinstance(found, Exception):
            self._fail_request(found)
            return
        self._transport = found
        self._poller.register(found.socket, found.interest, handler=self._on_socket_event)

    def _on_socket_event(self, mask: int) -> None:
        if not self._open:
            self._continue_connecting()
            return
        if self._unsent and mask & tcp_and_tls_transport.WRITABLE:
            self._send_request_bytes()
        if mask & tcp_and_tls_transport.READABLE and self._transport is not None:
            self._read_response()

    def _continue_connecting(self) -> None:
        assert self._transport is not None
        try:
            self._open = self._transport.continue_connecting()
        except (OSError, ValueError) as error:  # ValueError: TLS does not accept the host name
            if self._transport.connected:
                self._fail_request(error)
            else:
                self._try_next_address(self._clock.now_s(), error)
            return
        # TLS wraps the socket, and the poller needs the wrapped one.
        self._poller.modify(self._transport.socket, self._transport.interest)
        if self._open:
            self._dialling.on_connected()
            self._ends_s = self._clock.now_s() + self._limits.read_timeout_s
            self._send_request_bytes()

    def _send_request_bytes(self) -> None:
        assert self._transport is not None
        try:
            while self._unsent:
                sent = self._transport.send((self._unsent,))
                if sent == 0:
                    break
                self._unsent = self._unsent[sent:]
        except OSError as error:
            self._fail_request(error)
            return
        waiting = (
            tcp_and_tls_transport.READABLE | tcp_and_tls_transport.WRITABLE
            if self._unsent
            else tcp_and_tls_transport.READABLE
        )
        self._poller.modify(self._transport.socket, waiting)

    def _read_response(self) -> None:
        room = memoryview(bytearray(_HTTP_READ_BYTES))
        ended = False
        while self._transport is not None and not ended:
            try:
                received = self._transport.receive_into(room)
            except EOFError:
                ended, received = True, 0
            except OSError as error:
                self._fail_request(error)
                return
            if received == 0 and not ended:
                return
            self._answer_bytes += received
            if self._answer_bytes > self._limits.max_response_bytes:
                self._fail_request(OSError("the response is too large"))
                return
            self._on_answer(bytes(room[:received]), ended)

    def _fail_request(self, error: Exception) -> None:
        self.close()
        if isinstance(error, ConnectError):
            self._on_failure(error)
            return
        if isinstance(error, ssl.SSLCertVerificationError):
            problem = (
                f"TLS: the token endpoint's certificate was rejected: {error.verify_message}; set "
                "its certificate authority in sasl.jaas.config: ssl.truststore.type=PEM "
                "ssl.truststore.location=…"
            )
            self._on_failure(AuthenticationFailed(self._dialling.address, problem))
            return
        said = (error.strerror if isinstance(error, OSError) else None) or str(error)
        self._on_failure(ConnectionFailed(self._dialling.address, said))


log = logging.getLogger(__name__)


class OAuthTokenSource:
    """Provides OAUTHBEARER tokens for the connections of one cluster.

    The constructor raises UnusableCertificate if the trust store for the token endpoint is invalid.
    """

    def __init__(
        self,
        oauth: OAuthSettings,
        *,
        poller: Poller,
        names: HostResolver,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._oauth = oauth
        self._poller = poller
        self._names = names
        self._clock = clock
        self._refresher = TokenRefresher(oauth, rng)
        self._host, self._port, tls = oauthbearer.parse_token_endpoint(oauth.endpoint)
        trust = SecuritySettings(protocol="SSL", ca_pem=oauth.ca_pem)
        self._tls = create_tls_context(trust) if tls else None
        self._request: HttpRequest | None = None
        self._answer = TokenResponseReader(oauth)
        self._failure_logged = False

    # used by connections

    def get_current_token(self) -> str | None:
        """Return the current access token; None if it is missing or about to expire."""
        return self._refresher.get_current_token(self._clock.now_s())

    def get_or_request_token(self) -> str | ConnectError | None:
        """Return the current access token, or the error of the last token request if there is no
        token. Returns None while a token request is due or in flight."""
        return self._refresher.get_or_request_token(self._clock.now_s())

    def is_token_valid_beyond(self, ends_s: float) -> bool:
        """Return whether the token is valid beyond `ends_s`, the end of the SASL session. If not,
        request another token.

        Re-authenticating with the same token would not extend the session, and brokers reject
        another re-authentication within a second.
        """
        return self._refresher.is_token_valid_beyond(ends_s, self._clock.now_s())

    @property
    def last_failure(self) -> ConnectError:
        """Why `get_current_token` returned None: the error of the last token request."""
        address = cluster_metadata.format_address(self._host, self._port)
        return self._refresher.last_failure or ConnectionFailed(
            address, "no token has been received yet"
        )

    @property
    def is_token_request_in_flight(self) -> bool:
        """True while an access token is being requested. Attempts to connect must wait for the
        token."""
        return self._refresher.is_in_flight

    def on_token_refused(self, text: str, failure: ConnectError) -> None:
        """Record that a broker rejected this access token."""
        self._refresher.on_token_refused(text, failure, self._clock.now_s())

    def on_token_accepted(self) -> None:
        """Record that a broker accepted the current access token."""
        self._refresher.on_token_accepted()

    # time

    def tick(self, now_s: float) -> float:
        """Process all due work. Return the monotonic time by which `tick` must be called again."""
        if self._request is not None:
            self._request.tick(now_s)
        if now_s >= self._refresher.get_next_request_time_s():
            self._request_token(now_s)
        request_s = math.inf if self._request is None else self._request.next_tick_time_s
        return min(request_s, self._refresher.get_next_request_time_s())

    def close(self) -> None:
        """Cancel the token request in flight, if any."""
        if self._request is not None:
            self._request.close()
            self._request = None

    def _request_token(self, now_s: float) -> None:
        self._refresher.on_request_sent()
        self._answer = TokenResponseReader(self._oauth)
        self._request = HttpRequest(
            ConnectAttempts(
                self._host, self._port, names=self._names, tls=self._tls, buffer_bytes=None
            ),
            request=oauthbearer.encode_token_request(self._oauth),
            limits=HttpRequestLimits(
                connect_timeout_s=self._oauth.connect_timeout_s,
                read_timeout_s=self._oauth.read_timeout_s,
                max_response_bytes=oauthbearer.MAX_TOKEN_RESPONSE_BYTES,
            ),
            poller=self._poller,
            clock=self._clock,
            on_answer=self._on_response_data,
            on_failure=self._on_request_done,
        )
        self._request.start(now_s)

    def _on_response_data(self, piece: bytes, ended: bool) -> None:
        try:
            token = self._answer.feed(piece, ended=ended, wall_ms=self._clock.wall_ms())
        except ConnectError as failure:
            self._on_request_done(failure)
            return
        if token is not None:
            self._on_request_done(token)

    def _on_request_done(self, outcome: AccessToken | ConnectError) -> None:
        now_s = self._clock.now_s()
        self.close()
        if isinstance(outcome, AccessToken):
            self._refresher.on_token_received(outcome, now_s)
            if self._failure_logged:
                log.info("token requests for client %r succeed again", self._oauth.client_id)
            self._failure_logged = False
            return
        self._refresher.on_request_failed(outcome, now_s)
        if not self._failure_logged:
            log.warning(
                "requesting a token for client %r failed: %s", self._oauth.client_id, outcome
            )
        self._failure_logged = True
