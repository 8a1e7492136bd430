"""Offsets of consumer groups from outside, over connections of its own.

The Kafka library has no request that takes single offsets from a group; so none of these goes
through it.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import KafkaError

from connect_runtime.base import backoff, errors, ids
from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.core.offsets import group_requests
from connect_runtime.kafka_client import translate_errors
from connect_runtime.ports import clients
from connect_runtime.wire.codec import messages, targets
from connect_runtime.wire.connection import calls, cluster, poller

_LEAST_S = 0.001
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
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._poller = poller.Poller()
        try:
            self._connections = cluster.ClusterConnections(
                settings, poller=self._poller, clock=clock, random=rng
            )
        except ValueError as error:
            self._poller.close()
            raise errors.FatalError(f"connecting to {self._where}: {error}") from error

    def fetch(self, group: str, timeout_s: float) -> Mapping[ids.TopicPartition, int]:
        """See `ports.clients.GroupOffsets`; so for all below."""
        doing = f"reading the offsets of group {group}"
        body = self._ask(group, group_requests.fetch(group), timeout_s, doing=doing)
        return group_requests.fetched(body)

    def commit(
        self, group: str, offsets: Mapping[ids.TopicPartition, int], timeout_s: float
    ) -> None:
        doing = f"changing offsets of group {group}"
        self._ask(group, group_requests.commit(group, offsets), timeout_s, doing=doing)

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
            fine=group_requests.GROUP_ID_NOT_FOUND,
        )

    def close(self) -> None:
        self._connections.close()
        self._poller.close()

    @property
    def _where(self) -> str:
        return ",".join(self._settings.bootstrap)

    def _ask(
        self,
        group: str,
        message: messages.Message,
        timeout_s: float,
        *,
        doing: str,
        fine: int = 0,
    ) -> Any:
        """Until there is an answer: each request may come twice, and does no more then."""
        end = base_deadline.Deadline.after(timeout_s, now_s=self._clock.now_s())
        pauses = backoff.Backoff(
            initial_s=self._settings.retry_backoff_s, max_s=self._settings.retry_backoff_max_s
        )
        while True:
            reply = self._call(group, message, end)
            failure = reply.failure
            if failure is None:
                code = group_requests.error(reply.body)
                if code in (0, fine):
                    return reply.body
                failure = translate_errors.of_code(code, doing, where=self._where, own=_ADVICE)
                if code not in group_requests.PASSING:
                    raise failure
                if code in group_requests.NOT_COORDINATOR:
                    self._connections.forget_coordinator(targets.GROUP, group)
            again_s = self._clock.now_s() + pauses.next_delay_s(self._rng)
            if isinstance(failure, errors.FatalError) or end.passed(again_s):
                raise failure
            while self._clock.now_s() < again_s:
                self._turn(again_s)

    def _call(
        self, group: str, message: messages.Message, end: base_deadline.Deadline
    ) -> calls.Reply:
        replies: list[calls.Reply] = []
        left_s = max(_LEAST_S, end.left_s(self._clock.now_s()))
        self._connections.call(
            targets.Coordinator(targets.GROUP, group),
            message,
            done=replies.append,
            timeout_s=min(left_s, self._settings.request_timeout_s),
        )
        while not replies:
            self._turn(end.at_s)
        return replies[0]

    def _turn(self, due_s: float) -> None:
        """Move what can move; wait for something to, but not beyond `due_s`."""
        wait_s = self._connections.tick(self._clock.now_s())
        self._poller.poll(max(0.0, min(wait_s, due_s - self._clock.now_s())))
