"""Questions about consumer groups, over connections of our own: asked until they are answered.

The Kafka library has not all of them, and asks one by one. One thread asks, and waits.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from connect_runtime.base import backoff, errors
from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.kafka_client import translate_errors
from connect_runtime.wire.codec import group_requests, messages, targets
from connect_runtime.wire.connection import calls, cluster, poller

Answer: TypeAlias = Any | errors.ConnectError
"""A response's body, or why there is none."""

_LEAST_S = 0.001
_SLICE_S = 0.25
_AT_ONCE_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One request. `doing` begins messages about it: "reading the offsets of group g".

    `error` finds the error code in an answer; codes in `fine` are answers, too. `repeats`: to be
    asked again when it may not have been heard.
    """

    to: targets.Target
    message: messages.Message
    doing: str
    error: Callable[[Any], int] = group_requests.error
    fine: frozenset[int] = frozenset()
    repeats: bool = True


@dataclass(slots=True, kw_only=True)
class _Asking:
    """A question on its way; `at_s`: when it is sent (again), None while it is out."""

    question: Question
    pauses: backoff.Backoff
    at_s: float | None
    answer: Answer = None
    done: bool = False


class GroupCalls:
    """Connects when it is asked first. Raises `FatalError` for a wrong address."""

    def __init__(
        self,
        settings: cluster.ConnectionSettings,
        *,
        clock: base_clock.Clock,
        rng: random.Random,
        where: str = "",
        advice: Mapping[int, translate_errors.Advice] | None = None,
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
        self._poller = poller.Poller()
        try:
            self._connections = cluster.ClusterConnections(
                settings, poller=self._poller, clock=clock, random=rng
            )
        except ValueError as error:
            self._poller.close()
            raise errors.FatalError(f"connecting to {self._where}: {error}") from error

    def ask(self, question: Question, timeout_s: float) -> Any:
        """The answer's body. Raises `ConnectError`: `RetriableError` when time is up."""
        (answer,) = self.ask_all([question], timeout_s)
        if isinstance(answer, errors.ConnectError):
            raise answer
        return answer

    def ask_all(self, questions: Sequence[Question], timeout_s: float) -> list[Answer]:
        """An answer to each, in their order. Raises `RetriableError` once nobody waits."""
        now_s = self._clock.now_s()
        end = base_deadline.Deadline.after(timeout_s, now_s=now_s)
        every = [_Asking(question=each, pauses=self._backoff(), at_s=now_s) for each in questions]
        replies: deque[tuple[_Asking, calls.Reply]] = deque()
        left = list(every)
        while left:
            if self._gone():
                raise errors.RetriableError(f"{left[0].question.doing} was given up")
            self._send_due(left[:_AT_ONCE_MAX], replies, end)
            self._turn(left[:_AT_ONCE_MAX], replies)
            while replies:
                self._settle(*replies.popleft(), end)
            left = [each for each in left if not each.done]
        return [each.answer for each in every]

    def refusal(self, code: int, doing: str) -> errors.ConnectError:
        """What an error code in an answer means."""
        return translate_errors.of_code(code, doing, where=self._where, own=self._advice)

    def close(self) -> None:
        self._connections.close()
        self._poller.close()

    def _backoff(self) -> backoff.Backoff:
        return backoff.Backoff(
            initial_s=self._settings.retry_backoff_s, max_s=self._settings.retry_backoff_max_s
        )

    def _send_due(
        self,
        asked: Sequence[_Asking],
        replies: deque[tuple[_Asking, calls.Reply]],
        end: base_deadline.Deadline,
    ) -> None:
        now_s = self._clock.now_s()
        timeout_s = min(max(_LEAST_S, end.left_s(now_s)), self._settings.request_timeout_s)
        for each in asked:
            if each.at_s is not None and each.at_s <= now_s:
                each.at_s = None
                self._connections.call(
                    each.question.to,
                    each.question.message,
                    done=_into(replies, each),
                    timeout_s=timeout_s,
                )

    def _turn(self, asked: Sequence[_Asking], replies: deque[tuple[_Asking, calls.Reply]]) -> None:
        """Move what can move; wait for something to, but not for long."""
        wait_s = self._connections.tick(self._clock.now_s())
        if replies:
            return
        now_s = self._clock.now_s()
        due_s = min(
            (each.at_s - now_s for each in asked if each.at_s is not None), default=_SLICE_S
        )
        self._poller.poll(max(0.0, min(wait_s, due_s, _SLICE_S)))

    def _settle(self, each: _Asking, reply: calls.Reply, end: base_deadline.Deadline) -> None:
        question, failure = each.question, reply.failure
        repeats = question.repeats
        if failure is None:
            code = question.error(reply.body)
            if code == 0 or code in question.fine:
                each.answer, each.done = reply.body, True
                return
            failure = self.refusal(code, question.doing)
            repeats = code in group_requests.PASSING
            if code in group_requests.NOT_COORDINATOR and isinstance(
                question.to, targets.Coordinator
            ):
                self._connections.forget_coordinator(question.to.kind, question.to.key)
        again_s = self._clock.now_s() + each.pauses.next_delay_s(self._rng)
        if isinstance(failure, errors.FatalError) or not repeats or end.passed(again_s):
            each.answer, each.done = failure, True
        else:
            each.at_s = again_s


def _into(
    replies: deque[tuple[_Asking, calls.Reply]], each: _Asking
) -> Callable[[calls.Reply], None]:
    return lambda reply: replies.append((each, reply))
