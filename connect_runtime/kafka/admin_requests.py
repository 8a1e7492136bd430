"""Sends admin requests over connections of `connect_runtime.network`, with retries.

A call blocks the calling thread, but can send many requests, which are in flight at the same time.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from connect_runtime.base.backoff import Backoff
from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.kafka import client_errors
from connect_runtime.kafka.client_errors import ErrorAdvice
from connect_runtime.network.client_requests import ClientResponse
from connect_runtime.network.cluster_connections import ClusterConnections, ConnectionSettings
from connect_runtime.network.tcp_and_tls_transport import Poller
from connect_runtime.protocol import consumer_group_requests
from connect_runtime.protocol.request_builders import (
    ControllerTarget,
    CoordinatorKey,
    RequestBuilder,
    RequestTarget,
)

AdminResponse: TypeAlias = Any | ConnectError
"""Response body, or the error if the request failed."""

NOT_CONTROLLER = 41
"""Error code NOT_CONTROLLER, after which the controller must be looked up again."""

_RETRIABLE_ERRORS = frozenset({*consumer_group_requests.RETRIABLE_GROUP_ERRORS, NOT_CONTROLLER})
_MIN_WAIT_S = 0.001
_POLL_INTERVAL_S = 0.25
_MAX_IN_FLIGHT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminRequest:
    """An admin request and its retry rules."""

    to: RequestTarget
    message: RequestBuilder
    doing: str
    """Prefix of error messages, such as "reading the offsets of group g"."""
    get_error_code: Callable[[Any], int] = consumer_group_requests.find_error_code
    """Returns the error code of a response body."""
    accepted_errors: frozenset[int] = frozenset()
    """Error codes that count as success."""
    retry: bool = True
    """True to retry after a network failure, although a broker may have executed the request."""


@dataclass(slots=True, kw_only=True)
class _PendingAdminRequest:
    """State of a pending request. `send_at_s` is the time of the next attempt, or None while in
    flight."""

    request: AdminRequest
    backoff: Backoff
    send_at_s: float | None
    answer: AdminResponse = None
    done: bool = False


class AdminRequestClient:
    """Sends admin requests to one cluster. Connects on first use.

    Raises `FatalError` for an invalid address.
    """

    def __init__(
        self,
        settings: ConnectionSettings,
        *,
        clock: Clock,
        rng: random.Random,
        where: str = "",
        advice: Mapping[int, ErrorAdvice] | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Create the client. `where` names the cluster in messages. `advice` maps error
        codes to the remedies that error messages suggest. `send_requests` is aborted when
        `is_cancelled` returns True."""
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._where = where or ",".join(settings.bootstrap)
        self._advice = advice
        self._gone = is_cancelled
        self._poller = Poller()
        try:
            self._connections = ClusterConnections(
                settings, poller=self._poller, clock=clock, random=rng
            )
        except BaseException as error:
            self._poller.close()
            if isinstance(error, ValueError):
                raise FatalError(f"connecting to {self._where}: {error}") from error
            raise

    def send_request(self, request: AdminRequest, timeout_s: float) -> Any:
        """Send a request and return the response body.

        Raises `RetriableError` after a timeout, and a `ConnectError` if the request fails.
        """
        (answer,) = self.send_requests([request], timeout_s)
        if isinstance(answer, ConnectError):
            raise answer
        return answer

    def send_requests(
        self, requests: Sequence[AdminRequest], timeout_s: float
    ) -> list[AdminResponse]:
        """Send requests, and return a response or error for each request, in the order of the
        requests.

        Raises `RetriableError` if the call is aborted.
        """
        now_s = self._clock.now_s()
        end = Deadline.after(timeout_s, now_s=now_s)
        all_pending = [
            _PendingAdminRequest(request=each, backoff=self._create_backoff(), send_at_s=now_s)
            for each in requests
        ]
        replies: deque[tuple[_PendingAdminRequest, ClientResponse]] = deque()
        left = list(all_pending)
        while left:
            if self._gone():
                raise RetriableError(f"{left[0].request.doing} was aborted")
            self._send_due_requests(left[:_MAX_IN_FLIGHT], replies, end)
            self._poll_connections_once(left[:_MAX_IN_FLIGHT], replies)
            while replies:
                self._handle_response(*replies.popleft(), end)
            left = [each for each in left if not each.done]
        return [each.answer for each in all_pending]

    def translate_error_code(self, code: int, doing: str) -> ConnectError:
        """Translate a broker's error code to a `ConnectError`."""
        return client_errors.translate_error_code(
            code, doing, where=self._where, advice_overrides=self._advice
        )

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()
        self._poller.close()

    def _create_backoff(self) -> Backoff:
        return Backoff(
            initial_s=self._settings.retry_backoff_s, max_s=self._settings.retry_backoff_max_s
        )

    def _send_due_requests(
        self,
        pending: Sequence[_PendingAdminRequest],
        replies: deque[tuple[_PendingAdminRequest, ClientResponse]],
        end: Deadline,
    ) -> None:
        now_s = self._clock.now_s()
        timeout_s = min(max(_MIN_WAIT_S, end.remaining_s(now_s)), self._settings.request_timeout_s)
        for each in pending:
            if each.send_at_s is not None and each.send_at_s <= now_s:
                each.send_at_s = None
                self._connections.call(
                    each.request.to,
                    each.request.message,
                    done=_create_response_collector(replies, each),
                    timeout_s=timeout_s,
                )

    def _poll_connections_once(
        self,
        pending: Sequence[_PendingAdminRequest],
        replies: deque[tuple[_PendingAdminRequest, ClientResponse]],
    ) -> None:
        """Process due work of the connections, such as expired requests. If no response has
        arrived, wait for network events, at most until the next attempt of a request is due."""
        wait_s = self._connections.tick(self._clock.now_s())
        if replies:
            return
        now_s = self._clock.now_s()
        due_s = min(
            (each.send_at_s - now_s for each in pending if each.send_at_s is not None),
            default=_POLL_INTERVAL_S,
        )
        self._poller.poll(max(0.0, min(wait_s, due_s, _POLL_INTERVAL_S)))

    def _handle_response(
        self, each: _PendingAdminRequest, reply: ClientResponse, end: Deadline
    ) -> None:
        request, failure = each.request, reply.failure
        repeats = request.retry
        if failure is None:
            code = request.get_error_code(reply.body)
            if code == 0 or code in request.accepted_errors:
                each.answer, each.done = reply.body, True
                return
            failure = self.translate_error_code(code, request.doing)
            repeats = code in _RETRIABLE_ERRORS
            if code in consumer_group_requests.COORDINATOR_MOVED_ERRORS and isinstance(
                request.to, CoordinatorKey
            ):
                self._connections.forget_coordinator(request.to.kind, request.to.key)
            if code == NOT_CONTROLLER and isinstance(request.to, ControllerTarget):
                self._connections.refresh_metadata()
        again_s = self._clock.now_s() + each.backoff.next_delay_s(self._rng)
        if isinstance(failure, FatalError) or not repeats or end.is_expired(again_s):
            each.answer, each.done = failure, True
        else:
            each.send_at_s = again_s


def _create_response_collector(
    replies: deque[tuple[_PendingAdminRequest, ClientResponse]], each: _PendingAdminRequest
) -> Callable[[ClientResponse], None]:
    return lambda reply: replies.append((each, reply))
