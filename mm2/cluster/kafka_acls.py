"""Adapter of `acls.Acls`, over connections of our own."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from typing import Any

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.kafka_client import group_calls, translate_errors
from connect_runtime.wire.codec import acl_requests, targets
from mm2.cluster import errors as cluster_errors
from mm2.core.topics import acls

_SECURITY_DISABLED = 54
_ADVICE: Mapping[int, translate_errors.Advice] = {
    _SECURITY_DISABLED: (
        cluster_errors.NoAuthorizerError,
        "brokers without an authorizer keep no ACLs",
    ),
}
_AT_ONCE_MAX = 500


class KafkaAcls:
    """Implements `acls.Acls`. Connects when it is asked first."""

    def __init__(
        self,
        access: kafka_access.Access,
        *,
        client_id: str,
        clock: base_clock.Clock,
        gone: Callable[[], bool] = lambda: False,
    ) -> None:
        """Once `gone`, every call ends soon. Raises `FatalError` for settings that cannot be
        honoured."""
        self._where = access.where
        self._calls = group_calls.GroupCalls(
            access.connection(client_id),
            clock=clock,
            rng=random.Random(),  # noqa: S311  # spreads waits, no secret
            where=access.where,
            advice=_ADVICE,
            gone=gone,
        )

    def of_topics(self, timeout_s: float) -> list[acls.Acl]:
        """See `acls.Acls`; so for all below."""
        asked = group_calls.Question(
            to=targets.AnyNode(),
            message=acl_requests.describe_topics(),
            doing="reading the ACLs of topics",
        )
        answer = self._calls.ask(asked, timeout_s)
        return sorted(map(_acl, acl_requests.described(answer)))

    def create(
        self, wanted: Collection[acls.Acl], timeout_s: float
    ) -> Mapping[acls.Acl, errors.ConnectError]:
        given = list(wanted)
        chunks = [given[at : at + _AT_ONCE_MAX] for at in range(0, len(given), _AT_ONCE_MAX)]
        answers = self._calls.ask_all([self._creation(chunk) for chunk in chunks], timeout_s)
        refused: dict[acls.Acl, errors.ConnectError] = {}
        for chunk, answer in zip(chunks, answers, strict=True):
            if isinstance(answer, errors.ConnectError):
                raise answer
            for each, code in zip(chunk, acl_requests.created(answer), strict=True):
                if code:
                    refused[each] = self._calls.refusal(code, f"creating the ACL: {each}")
        return refused

    def close(self) -> None:
        self._calls.close()

    def _creation(self, chunk: Collection[acls.Acl]) -> group_calls.Question:
        return group_calls.Question(
            to=targets.Controller(),
            message=acl_requests.create(map(_binding, chunk)),
            doing=f"creating {len(chunk)} ACLs",
            error=_of_each,
        )


def _of_each(_: Any) -> int:
    """Every ACL has an answer of its own."""
    return 0


def _acl(found: acl_requests.Binding) -> acls.Acl:
    return acls.Acl(
        resource=found.resource,
        name=found.name,
        pattern=found.pattern,
        principal=found.principal,
        host=found.host,
        operation=found.operation,
        permission=found.permission,
    )


def _binding(wanted: acls.Acl) -> acl_requests.Binding:
    return acl_requests.Binding(
        resource=wanted.resource,
        name=wanted.name,
        pattern=wanted.pattern,
        principal=wanted.principal,
        host=wanted.host,
        operation=wanted.operation,
        permission=wanted.permission,
    )
