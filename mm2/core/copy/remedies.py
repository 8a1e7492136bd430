"""The remedy for what a cluster refuses, by Kafka's error code: words and the command.

Codes are Kafka's (`org.apache.kafka.common.protocol.Errors`). A halted partition is tried again, so
nothing but the remedy is needed; where the flow must be restarted as well, the remedy says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mm2.core import commands
from mm2.core.copy import setup

WIDEST_MS = str(2**63 - 1)
SEGMENT_BYTES = str(2**30)
"""Kafka's own default, which also is nearly the most that a segment may have."""

TOPIC_DENIED = 29
"""TOPIC_AUTHORIZATION_FAILED"""
TOPIC_RIGHTS = ("Describe", "Read", "Write")
"""On a mirror topic: it is written, and read when a partition is taken."""

Remedy = Callable[[setup.PartitionSetup, int], str]
"""Gets the size in bytes of what was refused, -1 where that is not known."""


def of_target(where: setup.PartitionSetup, code: int, *, size: int = -1) -> str:
    """What to do when the target refuses with `code` what the copy must do there."""
    return _OF_TARGET.get(code, _look_at_mirror)(where, size)


def of_source(where: setup.PartitionSetup, code: int) -> str:
    """What to do when the source does not let the copy read."""
    return _OF_SOURCE.get(code, _look_at_source)(where, -1)


def untold(where: setup.PartitionSetup, code: int) -> str:
    """What to do when the target refuses with `code` to tell which transactions are open."""
    if code == TOPIC_DENIED:
        line = where.operator.target.allow_topic(where.remote_topic, "Describe", "Read")
        return (
            "Allow the flow's principal READ on the mirror topic, which DescribeProducers needs; "
            f"then mm2 names the transaction. {commands.to_go_on(line)}"
        )
    line = where.operator.target.show_versions()
    return (
        "Brokers since 2.8 support DescribeProducers: allow it in any proxy in front of the "
        "brokers; mm2 then names the transaction. The remedy lists the supported APIs. "
        f"{commands.to_go_on(line)}"
    )


def fencing(flow: str, operator: commands.Operator) -> str:
    """The command that lets a flow fence its partitions."""
    return operator.target.allow_transactional_ids(f"mm2-{flow}-")


def fencing_from_now_on(flow: str, operator: commands.Operator) -> str:
    """The same of a flow that runs without: its tasks look for the right when they start."""
    return f"{fencing(flow, operator)} && {operator.restart(flow)}"


def _too_large(where: setup.PartitionSetup, size: int) -> str:
    wanted = {"max.message.bytes": str(size)}
    line = where.operator.target.set_topic(where.remote_topic, wanted)
    return (
        f"raise max.message.bytes of the mirror topic to the source's, at least to {size}. "
        f"{commands.to_go_on(line)}"
    )


def _list_too_large(where: setup.PartitionSetup, size: int) -> str:
    wanted = {"max.message.bytes": str(size), "segment.bytes": SEGMENT_BYTES}
    line = where.operator.target.set_topic(where.remote_topic, wanted)
    return (
        f"raise segment.bytes of the mirror topic above the batch's {size} bytes. "
        f"{commands.to_go_on(line)}"
    )


def _timestamp(where: setup.PartitionSetup, size: int) -> str:
    target, mirror = where.operator.target, where.remote_topic
    before_3_6 = target.set_topic(mirror, {"message.timestamp.difference.max.ms": WIDEST_MS})
    wanted = {
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": WIDEST_MS,
        "message.timestamp.after.max.ms": WIDEST_MS,
    }
    return (
        f"allow every timestamp on the mirror topic (brokers before 3.6: {before_3_6}). "
        f"{commands.to_go_on(target.set_topic(mirror, wanted))}"
    )


def _topic_right(where: setup.PartitionSetup, size: int) -> str:
    line = where.operator.target.allow_topic(where.remote_topic, *TOPIC_RIGHTS)
    return f"allow the flow's principal WRITE on the mirror topic. {commands.to_go_on(line)}"


def _cluster_right(where: setup.PartitionSetup, size: int) -> str:
    line = where.operator.target.allow_cluster("IdempotentWrite")
    return f"allow the flow's principal IDEMPOTENT_WRITE. {commands.to_go_on(line)}"


def _id_right(where: setup.PartitionSetup, size: int) -> str:
    return (
        "allow the flow's principal WRITE and DESCRIBE on transactional ids with its prefix. "
        f"{commands.to_go_on(fencing(where.flow, where.operator))}"
    )


def _malformed(where: setup.PartitionSetup, size: int) -> str:
    line = where.operator.target.show_settings(where.remote_topic)
    return (
        "see the broker's log for the cause; a compacted mirror topic, for example, rejects "
        f"records without a key. The remedy shows the topic's settings. {commands.to_go_on(line)}"
    )


def _codec(where: setup.PartitionSetup, size: int) -> str:
    line = where.operator.target.set_topic(where.remote_topic, {"compression.type": "gzip"})
    return (
        "set compression.type of the mirror topic to a codec that all its brokers accept. "
        f"{commands.to_go_on(line)}"
    )


def _look_at_mirror(where: setup.PartitionSetup, size: int) -> str:
    line = where.operator.target.show_topic(where.remote_topic)
    return f"see the mirror topic's replicas and the broker's log. {commands.to_go_on(line)}"


def _read_right(where: setup.PartitionSetup, size: int) -> str:
    line = where.operator.source.allow_topic(where.topic, "Describe", "Read")
    return f"allow the flow's principal READ. {commands.to_go_on(line)}"


def _gone(where: setup.PartitionSetup, size: int) -> str:
    return (
        "create it again, or stop its replication with topics.exclude. "
        f"{commands.to_go_on(where.operator.reload())}"
    )


def _look_at_source(where: setup.PartitionSetup, size: int) -> str:
    line = where.operator.source.show_topic(where.topic)
    return f"see the source topic's replicas and the broker's log. {commands.to_go_on(line)}"


_OF_TARGET: Mapping[int, Remedy] = {
    10: _too_large,
    18: _list_too_large,
    TOPIC_DENIED: _topic_right,
    31: _cluster_right,
    32: _timestamp,
    53: _id_right,
    76: _codec,
    87: _malformed,
}
_OF_SOURCE: Mapping[int, Remedy] = {
    3: _gone,
    TOPIC_DENIED: _read_right,
}
