"""One open question of a partition's script, and the cluster that it is put to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.wire.codec import failures
from connect_runtime.wire.connection import cluster
from mm2.core.copy import instructions, partition

CALL_TIMEOUT_S = 30.0
UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE = 3, 5


@dataclass(frozen=True, slots=True)
class Asked:
    """One partition's open question; `token` tells whether its script still waits."""

    copy: partition.PartitionCopy
    token: int
    instruction: Any

    @property
    def awaited(self) -> bool:
        """Does its script still wait?"""
        return self.token == self.copy.script.token


Reply = Callable[[Asked, instructions.Answer], None]


@dataclass(slots=True)
class Side:
    """One cluster, with how partitions are called there."""

    cluster: cluster.ClusterConnections
    is_target: bool

    def topic(self, copy: partition.PartitionCopy) -> str:
        return copy.where.remote_topic if self.is_target else copy.where.topic

    def topic_id(self, copy: partition.PartitionCopy) -> bytes:
        where = copy.where
        return where.target_topic_id if self.is_target else where.source_topic_id

    def name(self, copy: partition.PartitionCopy) -> str:
        return f"{self.topic(copy)}-{copy.where.partition}"

    def knows(self, copy: partition.PartitionCopy) -> bool:
        """Was anything heard of its topic, be it that it is not there?"""
        return self.cluster.view.topic(self.topic(copy)) is not None

    def by_leader(self, asked: Sequence[Asked], *, reply: Reply) -> dict[int, list[Asked]]:
        """By the leaders' node ids; whose partition has no leader gets that for an answer."""
        groups: dict[int, list[Asked]] = defaultdict(list)
        for each in asked:
            leader = self.cluster.view.leader(self.topic(each.copy), each.copy.where.partition)
            if leader is None:
                reply(each, self._no_leader(each.copy))
            else:
                groups[leader.node_id].append(each)
        return groups

    def _no_leader(self, copy: partition.PartitionCopy) -> instructions.Refused:
        self.cluster.refresh_metadata()
        known = self.cluster.view.topic(self.topic(copy))
        if known is not None and known.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            text = f"{self.name(copy)}: the topic does not exist (deleted?)"
            return instructions.Refused(code=UNKNOWN_TOPIC_OR_PARTITION, message=text)
        text = f"{self.name(copy)} has no leader at present"
        return instructions.Refused(code=LEADER_NOT_AVAILABLE, message=text)

    def refused(self, asked: Asked, code: int) -> instructions.Refused:
        """The partition's leader answered with an error: it may not be the leader any more."""
        self.cluster.refresh_metadata()
        message = f"{self.name(asked.copy)}: {failures.error_name(code)}"
        return instructions.Refused(code=code, message=message)


def failed(failure: Exception) -> instructions.Unanswered:
    """No answer came, or the question could not be sent."""
    return instructions.Unanswered(reason=str(failure))


def not_named() -> instructions.Unanswered:
    """An answer came that does not speak of the partition."""
    return instructions.Unanswered(reason="the response does not name it")
