"""Offsets of consumer groups from outside, over connections of its own.

The Kafka library has no request that takes single offsets from a group; so none of these goes
through it.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import KafkaError

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors, ids
from connect_runtime.kafka_client import group_calls, translate_errors
from connect_runtime.ports import clients
from connect_runtime.wire.codec import group_requests, messages, targets
from connect_runtime.wire.connection import cluster

_ADVICE: Mapping[int, translate_errors.Advice] = {
    **dict.fromkeys(
        (
            KafkaError.GROUP_SUBSCRIBED_TO_TOPIC,
            KafkaError.NON_EMPTY_GROUP,
            KafkaError.UNKNOWN_MEMBER_ID,
        ),
        (clients.GroupInUseError, "stop the group's consumers first"),
    ),
    KafkaError.GROUP_ID_NOT_FOUND: (errors.FatalError, "there is nothing to take away"),
}


class KafkaGroupOffsets:
    """Implements `ports.clients.GroupOffsets`. Connects when it is asked first."""

    def __init__(
        self,
        settings: cluster.ConnectionSettings,
        *,
        clock: base_clock.Clock,
        rng: random.Random,
    ) -> None:
        self._calls = group_calls.GroupCalls(settings, clock=clock, rng=rng, advice=_ADVICE)

    def fetch(self, group: str, timeout_s: float) -> Mapping[ids.TopicPartition, int]:
        """See `ports.clients.GroupOffsets`; so for all below."""
        doing = f"reading the offsets of group {group}"
        body = self._ask(group, group_requests.fetch(group), timeout_s, doing=doing)
        found = group_requests.fetched(body)
        return {place: each.offset for place, each in found.items() if each.offset >= 0}

    def commit(
        self, group: str, offsets: Mapping[ids.TopicPartition, int], timeout_s: float
    ) -> None:
        doing = f"changing offsets of group {group}"
        given = {place: group_requests.Committed(offset) for place, offset in offsets.items()}
        self._ask(group, group_requests.commit(group, given), timeout_s, doing=doing)

    def forget(
        self, group: str, partitions: Collection[ids.TopicPartition], timeout_s: float
    ) -> None:
        doing = f"removing offsets of group {group}"
        self._ask(group, group_requests.forget(group, partitions), timeout_s, doing=doing)

    def delete(self, group: str, timeout_s: float) -> None:
        self._ask(
            group,
            group_requests.delete(group),
            timeout_s,
            doing=f"deleting group {group}",
            fine=frozenset({group_requests.GROUP_ID_NOT_FOUND}),
        )

    def close(self) -> None:
        self._calls.close()

    def _ask(
        self,
        group: str,
        message: messages.Message,
        timeout_s: float,
        *,
        doing: str,
        fine: frozenset[int] = frozenset(),
    ) -> Any:
        """Each request may come twice, and does no more then."""
        question = group_calls.Question(
            to=targets.Coordinator(targets.GROUP, group), message=message, doing=doing, fine=fine
        )
        return self._calls.ask(question, timeout_s)
