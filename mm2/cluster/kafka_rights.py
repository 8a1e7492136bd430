"""What a login may do on a cluster, as its brokers tell: asked, never tried."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.kafka_client import errors as kafka_errors
from connect_runtime.kafka_client import group_calls
from connect_runtime.wire.codec import failures, rights_requests, targets
from mm2.core.preflight import rights

_TOPICS_AT_ONCE = 500
_UNSEEN = frozenset({3, 29})
"""UNKNOWN_TOPIC_OR_PARTITION; who may not DESCRIBE does not learn whether it exists."""
_REFUSED = frozenset({29, 30, 31})
"""TOPIC_, GROUP_, CLUSTER_AUTHORIZATION_FAILED: not even DESCRIBE is allowed."""


class KafkaRights:
    """Of one login. Who may not even DESCRIBE a thing is told of no other right on it.

    Connects when it is asked first; one thread at a time.
    """

    def __init__(
        self, access: kafka_access.Access, *, client_id: str, clock: base_clock.Clock
    ) -> None:
        self._where = access.where
        self._calls = group_calls.GroupCalls(
            access.connection(client_id),
            clock=clock,
            rng=random.Random(),  # noqa: S311  # spreads waits, no secret
            where=access.where,
        )

    def of_topics(self, names: Sequence[str], timeout_s: float) -> dict[str, rights.Held]:
        """Whether they exist or not. Raises `RetriableError` without an answer in time, and
        `FatalError`."""
        chunks = [names[at : at + _TOPICS_AT_ONCE] for at in range(0, len(names), _TOPICS_AT_ONCE)]
        questions = [
            group_calls.Question(
                to=targets.AnyNode(),
                message=rights_requests.topics(chunk),
                doing=f"asking for our rights on topics of {self._where}",
                error=_of_each,
            )
            for chunk in chunks
        ]
        found: dict[str, rights.Held] = {}
        for answer in self._calls.ask_all(questions, timeout_s):
            if isinstance(answer, errors.ConnectError):
                raise answer
            for topic in answer.topics:
                code = int(topic.error_code)
                held = _held(code, int(topic.topic_authorized_operations))
                found[str(topic.name)] = rights.Held(operations=held, exists=code not in _UNSEEN)
        return found

    def of_groups(self, names: Sequence[str], timeout_s: float) -> dict[str, rights.Held]:
        """As `of_topics`."""
        questions = [
            group_calls.Question(
                to=targets.Coordinator(targets.GROUP, name),
                message=rights_requests.group(name),
                doing=f"asking for our rights on group {name} of {self._where}",
                error=_of_each,
            )
            for name in names
        ]
        found: dict[str, rights.Held] = {}
        for name, answer in zip(names, self._calls.ask_all(questions, timeout_s), strict=True):
            if _is_refusal(answer):
                found[name] = rights.Held(operations=frozenset())
                continue
            if isinstance(answer, errors.ConnectError):
                raise answer
            (group,) = answer.groups
            held = _held(int(group.error_code), int(group.authorized_operations))
            found[name] = rights.Held(operations=held)
        return found

    def of_cluster(self, timeout_s: float) -> rights.Held:
        """As `of_topics`; brokers before 2.8 do not tell."""
        question = group_calls.Question(
            to=targets.AnyNode(),
            message=rights_requests.cluster(),
            doing=f"asking for our rights on the cluster {self._where}",
        )
        try:
            answer = self._calls.ask(question, timeout_s)
        except failures.UnsupportedVersion:
            return rights.Held(operations=None)
        return rights.Held(
            operations=rights_requests.operations(int(answer.cluster_authorized_operations))
        )

    def close(self) -> None:
        self._calls.close()


def _of_each(_: Any) -> int:
    """Every name has an answer of its own."""
    return 0


def _held(code: int, bits: int) -> frozenset[str] | None:
    return frozenset() if code in _REFUSED else rights_requests.operations(bits)


def _is_refusal(answer: object) -> bool:
    return isinstance(answer, (failures.CoordinatorRefused, kafka_errors.NotAuthorizedError))
