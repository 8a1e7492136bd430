"""Questions about many groups, one request for all that a broker coordinates.

What is left without an answer here is asked group by group: of brokers that know no such requests,
of groups that have moved to another one, and of those that are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline, errors
from connect_runtime.kafka_client import group_calls
from connect_runtime.wire.codec import failures, group_requests, messages, targets

T = TypeVar("T")
AT_ONCE = 100
"""Groups in one request."""
_COORDINATORS_AT_ONCE = 500
_PATIENCE_S = 10.0
"""Then groups are asked one by one: a broker may be gone."""

MessageOf = Callable[[Sequence[str]], messages.Message]


class GroupBatches:
    """One thread at a time. Remembers who coordinates what."""

    def __init__(self, calls: group_calls.GroupCalls, *, clock: base_clock.Clock) -> None:
        self._calls = calls
        self._clock = clock
        self._nodes: dict[str, int] = {}
        self._unknown_apis: set[str] = set()

    def ask(
        self, groups: Collection[str], message: MessageOf, timeout_s: float, *, doing: str
    ) -> list[Any]:
        """The answers' bodies. Raises `RetriableError` once nobody waits for them, and
        `AuthenticationFailed`."""
        end = deadline.Deadline.after(min(timeout_s / 2, _PATIENCE_S), now_s=self._clock.now_s())
        self._find(groups, end)
        chunks = [
            (node, chunk)
            for node, names in self._by_node(groups).items()
            for chunk in chunked(names, AT_ONCE)
        ]
        questions = [
            group_calls.Question(
                to=targets.Node(node),
                message=message(chunk),
                doing=f"{doing}s {chunk[0]} to {chunk[-1]}",
                error=_none,
            )
            for node, chunk in chunks
        ]
        bodies: list[Any] = []
        for (_, chunk), answer in zip(chunks, self._asked(questions, end), strict=True):
            if isinstance(answer, errors.ConnectError):
                self.forget(chunk)
            else:
                bodies.append(answer)
        return bodies

    def forget(self, groups: Iterable[str]) -> None:
        """Their coordinators are looked up again."""
        for each in groups:
            self._nodes.pop(each, None)

    def _by_node(self, groups: Collection[str]) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for group in sorted(set(groups)):
            node = self._nodes.get(group)
            if node is not None:
                found.setdefault(node, []).append(group)
        return found

    def _find(self, groups: Collection[str], end: deadline.Deadline) -> None:
        names = sorted(each for each in set(groups) if each not in self._nodes)
        questions = [
            group_calls.Question(
                to=targets.AnyNode(),
                message=messages.find_coordinators(targets.GROUP, chunk),
                doing="looking for the coordinators of groups",
                error=_none,
            )
            for chunk in chunked(names, _COORDINATORS_AT_ONCE)
        ]
        for answer in self._asked(questions, end):
            if not isinstance(answer, errors.ConnectError):
                for each in answer.coordinators:
                    if not int(each.error_code):
                        self._nodes[str(each.key)] = int(each.node_id)

    def _asked(
        self, questions: Sequence[group_calls.Question], end: deadline.Deadline
    ) -> list[group_calls.Answer]:
        """What brokers have refused to understand once is left to others from then on."""
        known = [each for each in questions if each.message.api not in self._unknown_apis]
        if len(known) < len(questions):
            return [errors.RetriableError("no such requests")] * len(questions)
        answers = self._calls.ask_all(known, end.left_s(self._clock.now_s()))
        for question, answer in zip(known, answers, strict=True):
            if isinstance(answer, failures.UnsupportedVersion):
                self._unknown_apis.add(question.message.api)
            elif isinstance(answer, failures.AuthenticationFailed):
                raise answer
        return answers


def chunked(names: Sequence[T], size: int) -> list[Sequence[T]]:
    return [names[at : at + size] for at in range(0, len(names), size)]


def _none(_: Any) -> int:
    """Errors of single groups stand in their place."""
    return 0


def moved(code: int) -> bool:
    """Does the error code say that another broker coordinates the group?"""
    return code in group_requests.NOT_COORDINATOR
