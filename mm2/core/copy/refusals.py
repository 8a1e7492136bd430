"""What a partition does about Kafka's error codes, in one table each for produce and fetch, and
about batches that it cannot read.

Codes are Kafka's (`org.apache.kafka.common.protocol.Errors`).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mm2.core.copy import remedies, setup, source_batches, stops

OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC = 3
_PASSING = frozenset({UNKNOWN_TOPIC, 56, 100, 103})
"""Brokers answer so for a moment too while topics or their leaders move, from a dead disk too.

Of a topic that was deleted, or recreated, the cluster's metadata tell soon: then its partitions
are halted with another code, or its topic id is another one (`way_in.WayIn.topic_seen`)."""

RETRY_S = 30.0


class Then(enum.Enum):
    """What follows once nothing is in flight any more."""

    TAKE = "take"
    """The outcome is unknown or the place moved: fence and pair again."""
    BACK_OFF = "back off, then take"
    CHECK_FENCE = "who fenced us?"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """`stop`: where to stand still; with BACK_OFF only once it lasts."""

    then: Then
    reason: str
    stop: stops.Stop | None = None


_FEW = "(fewer replicas are in sync than its min.insync.replicas asks for)"
_MOVED = {
    7: "REQUEST_TIMED_OUT (its replicas did not confirm the batch in time)",
    20: f"NOT_ENOUGH_REPLICAS_AFTER_APPEND {_FEW}",
    45: "OUT_OF_ORDER_SEQUENCE_NUMBER",
    46: "DUPLICATE_SEQUENCE_NUMBER",
    59: "UNKNOWN_PRODUCER_ID",
    120: "TRANSACTION_ABORTABLE",
}
_WAIT = {
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    5: "LEADER_NOT_AVAILABLE",
    6: "NOT_LEADER_OR_FOLLOWER",
    19: f"NOT_ENOUGH_REPLICAS {_FEW}",
    56: "KAFKA_STORAGE_ERROR (is the broker's disk full?)",
    74: "FENCED_LEADER_EPOCH",
    75: "UNKNOWN_LEADER_EPOCH",
    89: "THROTTLING_QUOTA_EXCEEDED",
    100: "UNKNOWN_TOPIC_ID",
    103: "INCONSISTENT_TOPIC_ID",
}
_FENCED = {47: "INVALID_PRODUCER_EPOCH", 48: "INVALID_TXN_STATE", 49: "INVALID_PRODUCER_ID_MAPPING"}
_FENCED[90] = "PRODUCER_FENCED"
STANDS_ALREADY = frozenset({46, 47, 90})
"""The batch is there, or a newer owner of the partition copies it: it would have stood there twice.
"""

TOO_LARGE = frozenset({10, 18})
BAD_RECORD = frozenset({32, 87})
"""One record of a batch may be what the target does not take."""

_POLICY = {
    10: "RECORD_TOO_LARGE",
    18: "RECORD_LIST_TOO_LARGE",
    29: "TOPIC_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED",
    32: "INVALID_TIMESTAMP",
    53: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    87: "INVALID_RECORD",
}
_UNCLEAR = {
    -1: "UNKNOWN_SERVER_ERROR",
    2: "CORRUPT_MESSAGE",
    76: "UNSUPPORTED_COMPRESSION_TYPE",
}
"""Like codes that stand nowhere here: it may pass, and is a stop once it comes again and again."""
_SKIPPABLE = TOO_LARGE | BAD_RECORD | {-1, 2}
"""Without the batch the partition may go on."""


def produce(
    where: setup.PartitionSetup,
    *,
    code: int,
    message: str,
    offset: int,
    behind: int = -1,
    size: int = -1,
    divided: bool = False,
) -> Reaction:
    """To an error that a Produce response names for the batch of source [`offset`, `behind`).

    `size` is the batch's in bytes. `divided`: what was refused will be sent in smaller batches.
    """
    if code in _MOVED:
        return Reaction(then=Then.BACK_OFF, reason=f"{where.mirror}: {_MOVED[code]}")
    if code in _FENCED:
        return Reaction(then=Then.CHECK_FENCE, reason=_FENCED[code])
    if code in _WAIT:
        return Reaction(then=Then.BACK_OFF, reason=f"{where.mirror}: {message or _WAIT[code]}")
    name = _POLICY.get(code) or _UNCLEAR.get(code, f"error {code}")
    if divided:
        reason = f"{where.mirror} refused a batch with {name}: it is divided"
        return Reaction(then=Then.TAKE, reason=reason)
    said = f" ({message})" if message else ""
    text = f"{where.mirror} refused the batch of {where.name} offset {offset} with {name}{said}: "
    if code in _SKIPPABLE and behind > offset:
        text += _skip(where, behind=behind)
    text += remedies.of_target(where, code, size=size)
    stop = stops.Stop(cause=stops.Cause.REFUSED, message=text, retry_after_s=RETRY_S)
    if code in _POLICY:
        return Reaction(then=Then.STOP, reason=name, stop=stop)
    return Reaction(then=Then.BACK_OFF, reason=f"{where.mirror}: {message or name}", stop=stop)


def _skip(where: setup.PartitionSetup, *, behind: int) -> str:
    line = where.operator.reset_topic(
        where.flow, where.topic, partition=where.partition, position=stops.at_offset(behind)
    )
    return f"skip it ({line}), or "


def fetch(where: setup.PartitionSetup, *, code: int, offset: int) -> Reaction | None:
    """To an error that a Fetch response names for the source partition; None: only leaders
    moved."""
    if code in (5, 6, 9, 74, 75, 78):
        return None
    if code == OFFSET_OUT_OF_RANGE:
        return Reaction(then=Then.TAKE, reason=f"{where.name} no longer has offset {offset}")
    text = {
        2: "the source broker says that its log is corrupt there (CORRUPT_MESSAGE)",
        3: "the source topic is missing (deleted?)",
        29: "reading is not allowed (TOPIC_AUTHORIZATION_FAILED)",
        56: "the source broker cannot read its disk (KAFKA_STORAGE_ERROR)",
        76: "the source broker does not send that codec (UNSUPPORTED_COMPRESSION_TYPE)",
        100: "the source topic was deleted or recreated (UNKNOWN_TOPIC_ID)",
        103: "the source topic was recreated (INCONSISTENT_TOPIC_ID)",
    }.get(code, f"the source broker answered with error {code}")
    reason = f"{where.name} at offset {offset}: {text}"
    told = f"{reason}: {remedies.of_source(where, code)}"
    if code == UNKNOWN_TOPIC and not where.source_is_known:
        stop = stops.source_missing(where, reason)
    else:
        stop = stops.Stop(cause=stops.Cause.SOURCE_REFUSED, message=told, retry_after_s=RETRY_S)
    then = Then.BACK_OFF if code in _PASSING else Then.STOP
    return Reaction(then=then, reason=reason, stop=stop)


def blocked(where: setup.PartitionSetup, found: source_batches.Obstacle) -> Reaction:
    """To a batch of the source that can be neither copied nor skipped: what may be better when it
    is read again is read again, before that is a stop."""
    stop = stops.blocked(where, found)
    then = Then.STOP if stop.retry_after_s is None else Then.BACK_OFF
    return Reaction(then=then, reason=stops.blocked_at(where, found), stop=stop)
