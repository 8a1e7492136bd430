"""Sends admin requests over our own connections and retries them until they are answered.

For requests about groups, offsets and ACLs that librdkafka does not have or sends one by one. The
calling thread waits; many requests are in flight at once.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from connect_runtime.base.backoff import Backoff
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.kafka import client_errors
from connect_runtime.kafka.client_errors import ErrorAdvice
from connect_runtime.network.calls import ClientResponse
from connect_runtime.network.cluster_connections import ClusterConnections, ConnectionSettings
from connect_runtime.network.transport import Poller
from connect_runtime.protocol import group_requests
from connect_runtime.protocol.request_builders import (
    CoordinatorTarget,
    RequestBuilder,
    RequestTarget,
)

AdminResponse: TypeAlias = Any | ConnectError
"""A response's body, or why there is none."""

_MIN_WAIT_S = 0.001
_POLL_INTERVAL_S = 0.25
_MAX_IN_FLIGHT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminRequest:
    """One request. `doing` begins messages about it: "reading the offsets of group g".

    `error` finds the error code in an answer; codes in `fine` are answers, too. `repeats`: to be
    asked again when it may not have been heard.
    """

    to: RequestTarget
    message: RequestBuilder
    doing: str
    error: Callable[[Any], int] = group_requests.find_error_code
    fine: frozenset[int] = frozenset()
    repeats: bool = True


@dataclass(slots=True, kw_only=True)
class _PendingAdminRequest:
    """A question on its way; `at_s`: when it is sent (again), None while it is out."""

    question: AdminRequest
    pauses: Backoff
    at_s: float | None
    answer: AdminResponse = None
    done: bool = False


class AdminRequestClient:
    """Connects when it is asked first. Raises `FatalError` for a wrong address."""

    def __init__(
        self,
        settings: ConnectionSettings,
        *,
        clock: Clock,
        rng: random.Random,
        where: str = "",
        advice: Mapping[int, ErrorAdvice] | None = None,
        gone: Callable[[], bool] = lambda: False,
    ) -> None:
        """`where` names the cluster, `advice` says what codes mean here; once `gone` nobody waits
        for answers any more."""
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._where = where or ",".join(settings.bootstrap)
        self._advice = advice
        self._gone = gone
        self._poller = Poller()
        try:
            self._connections = ClusterConnections(
                settings, poller=self._poller, clock=clock, random=rng
            )
        except ValueError as error:
            self._poller.close()
            raise FatalError(f"connecting to {self._where}: {error}") from error

    def ask(self, question: AdminRequest, timeout_s: float) -> Any:
        """The answer's body. Raises `ConnectError`: `RetriableError` when time is up."""
        (answer,) = self.ask_all([question], timeout_s)
        if isinstance(answer, ConnectError):
            raise answer
        return answer

    def ask_all(self, questions: Sequence[AdminRequest], timeout_s: float) -> list[AdminResponse]:
        """An answer to each, in their order. Raises `RetriableError` once nobody waits."""
        now_s = self._clock.now_s()
        end = Deadline.after(timeout_s, now_s=now_s)
        every = [
            _PendingAdminRequest(question=each, pauses=self._backoff(), at_s=now_s)
            for each in questions
        ]
        replies: deque[tuple[_PendingAdminRequest, ClientResponse]] = deque()
        left = list(every)
        while left:
            if self._gone():
                raise RetriableError(f"{left[0].question.doing} was given up")
            self._send_due(left[:_MAX_IN_FLIGHT], replies, end)
            self._turn(left[:_MAX_IN_FLIGHT], replies)
            while replies:
                self._settle(*replies.popleft(), end)
            left = [each for each in left if not each.done]
        return [each.answer for each in every]

    def refusal(self, code: int, doing: str) -> ConnectError:
        """What an error code in an answer means."""
        return client_errors.translate_error_code(code, doing, where=self._where, own=self._advice)

    def close(self) -> None:
        self._connections.close()
        self._poller.close()

    def _backoff(self) -> Backoff:
        return Backoff(
            initial_s=self._settings.retry_backoff_s, max_s=self._settings.retry_backoff_max_s
        )

    def _send_due(
        self,
        asked: Sequence[_PendingAdminRequest],
        replies: deque[tuple[_PendingAdminRequest, ClientResponse]],
        end: Deadline,
    ) -> None:
        now_s = self._clock.now_s()
        timeout_s = min(max(_MIN_WAIT_S, end.left_s(now_s)), self._settings.request_timeout_s)
        for each in asked:
            if each.at_s is not None and each.at_s <= now_s:
                each.at_s = None
                self._connections.call(
                    each.question.to,
                    each.question.message,
                    done=_append_response_to(replies, each),
                    timeout_s=timeout_s,
                )

    def _turn(
        self,
        asked: Sequence[_PendingAdminRequest],
        replies: deque[tuple[_PendingAdminRequest, ClientResponse]],
    ) -> None:
        """Move what can move; wait for something to, but not for long."""
        wait_s = self._connections.tick(self._clock.now_s())
        if replies:
            return
        now_s = self._clock.now_s()
        due_s = min(
            (each.at_s - now_s for each in asked if each.at_s is not None), default=_POLL_INTERVAL_S
        )
        self._poller.poll(max(0.0, min(wait_s, due_s, _POLL_INTERVAL_S)))

    def _settle(self, each: _PendingAdminRequest, reply: ClientResponse, end: Deadline) -> None:
        question, failure = each.question, reply.failure
        repeats = question.repeats
        if failure is None:
            code = question.error(reply.body)
            if code == 0 or code in question.fine:
                each.answer, each.done = reply.body, True
                return
            failure = self.refusal(code, question.doing)
            repeats = code in group_requests.RETRIABLE_GROUP_ERRORS
            if code in group_requests.COORDINATOR_MOVED_ERRORS and isinstance(
                question.to, CoordinatorTarget
            ):
                self._connections.forget_coordinator(question.to.kind, question.to.key)
        again_s = self._clock.now_s() + each.pauses.next_delay_s(self._rng)
        if isinstance(failure, FatalError) or not repeats or end.passed(again_s):
            each.answer, each.done = failure, True
        else:
            each.at_s = again_s


def _append_response_to(
    replies: deque[tuple[_PendingAdminRequest, ClientResponse]], each: _PendingAdminRequest
) -> Callable[[ClientResponse], None]:
    return lambda reply: replies.append((each, reply))
