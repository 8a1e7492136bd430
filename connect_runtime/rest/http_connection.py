"""An HTTP connection of the REST API: enforces deadlines and limits for clients, and logs client
errors.

uvicorn only limits how long a connection may be idle. This module also limits how long a client may
take to send a request head, to receive a response, and to finish sending a body that the
application did not read completely before it responded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import h11
from starlette import requests
from uvicorn.protocols.http import h11_impl

from connect_runtime.base.connection_limits import ClientConnectionLimits, OpenConnections
from connect_runtime.system.server_event_loop import AcceptedConnection

CONNECTION_LIMITS = ClientConnectionLimits(total=512, per_address=128, loopback=128)
_READ_BYTES = 64 * 1024
"""Number of request bytes that the server buffers before the application reads them."""
MAX_HEAD_BYTES = 16 * 1024
"""Maximum size of a request head: request line and headers."""
MAX_BODY_CHUNKS = 2_000
"""Maximum number of chunks per `_READ_BYTES` of a request body, because processing each chunk adds
overhead."""
_BODY_LENGTHS = {b"content-length", b"transfer-encoding"}
"""Headers that state the length of a body. To prevent request smuggling, a request with both
headers is rejected. If a proxy used one header and this server the other, this server could take a
part of the body for another client's request (RFC 9112, section 6.1)."""
_CLIENT_ERROR_LOG_INTERVAL_S = 60.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientDeadlines:
    """Time limits for clients: for idle connections, for sending a request, and for receiving a
    response."""

    head_s: float = 10.0
    """Time limit for receiving a request's head, from its first byte. For the first request, the
    time starts with the connection."""
    idle_s: float = 90.0
    """Maximum time that a connection may be idle between two requests."""
    unread_body_s: float = 10.0
    """Time limit for receiving the rest of a body that the application did not read before it
    responded."""
    response_s: float = 60.0
    """Time limit for the client to receive a response."""


class ClientErrorLog:
    """Replaces uvicorn's logger: logs each client error in one line, and each kind of error at most
    once a minute.

    The line contains the number of suppressed errors. Other messages are logged unchanged. Must be
    used only on the server's event loop.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._logged_s: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    level = logging.WARNING
    """Log level that this logger reports to uvicorn, which reads it to decide whether to log trace
    messages."""

    def warning(self, message: str, *_: object) -> None:
        self.log_client_error(message.rstrip("."))

    def error(self, message: str, *args: object, exc_info: BaseException | None = None) -> None:
        if isinstance(exc_info, (h11.ProtocolError, requests.ClientDisconnect, OSError)):
            self.log_client_error(
                f"a client disconnected during a request ({type(exc_info).__name__})"
            )
        else:
            _log.error(message.rstrip(), *args, exc_info=exc_info)

    def log_client_error(self, kind: str, client: str = "") -> None:
        """Log a client error of the given kind, unless it is suppressed. `client` is the client's
        address, or "" if it is unknown."""
        now_s, logged_s = self._now_s(), self._logged_s.get(kind)
        if logged_s is not None and now_s - logged_s < _CLIENT_ERROR_LOG_INTERVAL_S:
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return
        self._logged_s[kind] = now_s
        left_out = self._left_out.pop(kind, 0)
        more = f" ({left_out} more since the last log line)" if left_out else ""
        _log.warning("REST: %s%s%s", kind, f": {client}" if client else "", more)


@dataclass(slots=True, kw_only=True)
class ServerConnections:
    """State shared by all connections of an HTTP server. Implements `ConnectionAdmission`."""

    open_connections: OpenConnections[AcceptedConnection]
    deadlines: ClientDeadlines
    client_errors: ClientErrorLog
    _accepted: dict[int, AcceptedConnection] = field(default_factory=dict)

    def admit_connection(self, connection: AcceptedConnection) -> bool:
        closed = self.open_connections.admit_connection(connection, connection.host)
        if closed is not None:
            kind = "too many connections: closed the connection that has been idle the longest"
            self.client_errors.log_client_error(kind, closed.host)
            if closed is connection:
                return False
            closed.force_close()
        self._accepted[connection.descriptor] = connection
        return True

    def on_connection_closed(self, connection: AcceptedConnection) -> None:
        self.open_connections.remove_connection(connection)
        if self._accepted.get(connection.descriptor) is connection:
            del self._accepted[connection.descriptor]

    def find_accepted_connection(self, transport: asyncio.Transport) -> AcceptedConnection:
        """Return the `AcceptedConnection` to which a plain or TLS transport belongs."""
        return self._accepted[transport.get_extra_info("socket").fileno()]


class _LimitedHttpParser(h11.Connection):
    """HTTP parser that rejects oversized request heads, requests with both Content-Length and
    Transfer-Encoding, and bodies with too many small chunks."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, MAX_HEAD_BYTES)
        self._chunks_left = MAX_BODY_CHUNKS

    def receive_data(self, data: bytes) -> None:
        super().receive_data(data)
        self._chunks_left = MAX_BODY_CHUNKS * (1 + len(data) // _READ_BYTES)

    def next_event(self) -> Any:
        """Return the next parser event. Raises `h11.RemoteProtocolError` if a limit is exceeded."""
        size = len(self.trailing_data[0]) if self.their_state is h11.IDLE else 0
        event = super().next_event()
        if isinstance(event, h11.Request):
            if size - len(self.trailing_data[0]) > MAX_HEAD_BYTES:
                raise h11.RemoteProtocolError("the request head is too long", error_status_hint=431)
            if {name for name, _ in event.headers} >= _BODY_LENGTHS:
                raise h11.RemoteProtocolError(
                    "the request has both Content-Length and Transfer-Encoding"
                )
        elif isinstance(event, h11.Data):
            self._chunks_left -= 1
            if self._chunks_left < 0:
                raise h11.RemoteProtocolError("the request body has too many small chunks")
        return event


class HttpConnection(h11_impl.H11Protocol):
    """HTTP protocol of one client connection. Its methods are called by the transport and by
    uvicorn's request cycles."""

    def __init__(self, *args: Any, shared: ServerConnections, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn = _LimitedHttpParser()
        self.logger = cast("logging.Logger", shared.client_errors)
        self._shared = shared
        self._accepted: AcceptedConnection
        self._deadline: asyncio.TimerHandle | None = None
        self._deadline_kind = ""
        """Step that the client must finish before `_deadline`: "head" (send a request head), "rest"
        (send the rest of a body), "taken" (receive the response) or "idle" (start the next
        request); "" if there is no deadline."""
        self._asked = False

    # Called by the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if hasattr(transport, "max_size"):
            transport.max_size = _READ_BYTES
        super().connection_made(transport)
        self._accepted = self._shared.find_accepted_connection(transport)
        self._accepted.abort = transport.abort
        self._update_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._shared.open_connections.mark_connection_idle(
            self._accepted
        )  # until it is closed: a TLS shutdown takes time
        self._start_client_deadline("", 0.0)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._update_deadline()

    # Called by uvicorn

    def _unsupported_upgrade_warning(self) -> None:
        self.logger.warning(
            "a client requested an upgrade to another protocol, which is not supported"
        )

    def send_400_response(self, msg: str) -> None:
        """Close the connection after sending a 400 response, unless a response has already been
        started."""
        if self._is_serving_request():
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        self.transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update_deadline()

    def timeout_keep_alive_handler(self) -> None:
        """Do nothing. uvicorn calls this method when its keep-alive timeout expires, but this
        timeout ignores responses that the client has not received yet. `_update_deadline` sets
        other deadlines instead."""

    # Deadlines

    def close(self) -> None:
        """Close the connection. If the client has not received all data, abort the connection."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def _is_serving_request(self) -> bool:
        """Return True if a request on this connection has been received but not completely
        answered."""
        cycle = cast("h11_impl.RequestResponseCycle | None", self.cycle)
        return cycle is not None and not cycle.response_complete

    def _update_deadline(self) -> None:
        """Set the deadline for the client's next step: sending a request, sending a body or
        receiving a response."""
        deadlines = self._shared.deadlines
        self._asked = self._asked or self._is_serving_request()
        if self._is_serving_request() and not self.cycle.more_body:
            self._shared.open_connections.mark_connection_busy(self._accepted)
        else:
            self._shared.open_connections.mark_connection_idle(self._accepted)
        if self.transport.is_closing() or self.transport.get_write_buffer_size():
            self._start_client_deadline("taken", deadlines.response_s)
        elif self._is_serving_request():
            self._start_client_deadline(
                "", 0.0
            )  # reading the body and serving have their own deadlines
        elif self.conn.their_state is h11.SEND_BODY:
            self._start_client_deadline("rest", deadlines.unread_body_s)
        elif not self._asked or self.conn.trailing_data[0]:
            self._start_client_deadline("head", deadlines.head_s)
        else:
            self._start_client_deadline("idle", deadlines.idle_s)

    def _start_client_deadline(self, of: str, after_s: float) -> None:
        """Start a deadline for the client. If a deadline of the same kind is already running, keep
        it. Otherwise, a client could extend its deadline by sending single bytes."""
        if of == self._deadline_kind:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline_kind = of
        self._deadline = (
            self.loop.call_later(after_s, self._close_overdue_connection) if of else None
        )

    def _close_overdue_connection(self) -> None:
        if self._deadline_kind == "taken" and not self.transport.get_write_buffer_size():
            self._deadline, self._deadline_kind = None, ""  # received in the meantime
            if not self.transport.is_closing():
                self._update_deadline()
            return
        if self._deadline_kind == "idle":
            self.transport.close()
            return
        kind = {
            "head": "a client did not send the request head in time",
            "rest": "a client did not send the rest of the request body in time",
            "taken": "a client did not receive its response in time",
        }[self._deadline_kind]
        self._shared.client_errors.log_client_error(kind, self.client[0] if self.client else "")
        if self._deadline_kind == "head":
            self.close()
        else:
            self.transport.abort()
