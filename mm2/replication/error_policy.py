"""Maps Kafka error codes of produce and fetch, and unreadable batches, to a reaction.

A partition acquires itself again, retries after a backoff, checks whether it was fenced, or
halts. Codes are Kafka's (`org.apache.kafka.common.protocol.Errors`).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mm2.replication import halts
from mm2.replication.halts import HaltCause, PartitionHalt
from mm2.replication.read_committed import UnreadableBatch
from mm2.replication.setup import PartitionSetup

OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
_TRANSIENT_CODES = frozenset({UNKNOWN_TOPIC_OR_PARTITION, 56, 100, 103})
"""Brokers answer so for a moment too while topics or their leaders move, from a dead disk too.

Of a topic that was deleted, or recreated, the cluster's metadata tell soon: then its partitions
are halted with another code, or its topic id is another one (`way_in.WayIn.topic_seen`)."""

HALT_RETRY_DELAY_S = 30.0


class ErrorAction(enum.Enum):
    """What follows once nothing is in flight any more."""

    TAKE = "take"
    """The outcome is unknown or the place moved: fence and pair again."""
    BACK_OFF = "back off, then take"
    CHECK_FENCE = "who fenced us?"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReaction:
    """`stop`: where to stand still; with BACK_OFF only once it lasts."""

    then: ErrorAction
    reason: str
    stop: PartitionHalt | None = None


_TOO_FEW_REPLICAS = "(fewer replicas are in sync than its min.insync.replicas asks for)"
_REACQUIRE_CODES = {
    7: "REQUEST_TIMED_OUT (its replicas did not confirm the batch in time)",
    20: f"NOT_ENOUGH_REPLICAS_AFTER_APPEND {_TOO_FEW_REPLICAS}",
    45: "OUT_OF_ORDER_SEQUENCE_NUMBER",
    46: "DUPLICATE_SEQUENCE_NUMBER",
    59: "UNKNOWN_PRODUCER_ID",
    120: "TRANSACTION_ABORTABLE",
}
_RETRY_CODES = {
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    5: "LEADER_NOT_AVAILABLE",
    6: "NOT_LEADER_OR_FOLLOWER",
    19: f"NOT_ENOUGH_REPLICAS {_TOO_FEW_REPLICAS}",
    56: "KAFKA_STORAGE_ERROR (is the broker's disk full?)",
    74: "FENCED_LEADER_EPOCH",
    75: "UNKNOWN_LEADER_EPOCH",
    89: "THROTTLING_QUOTA_EXCEEDED",
    100: "UNKNOWN_TOPIC_ID",
    103: "INCONSISTENT_TOPIC_ID",
}
_FENCED_CODES = {
    47: "INVALID_PRODUCER_EPOCH",
    48: "INVALID_TXN_STATE",
    49: "INVALID_PRODUCER_ID_MAPPING",
}
_FENCED_CODES[90] = "PRODUCER_FENCED"
ALREADY_STORED_CODES = frozenset({46, 47, 90})
"""The batch is there, or a newer owner of the partition copies it: it would have stood there twice.
"""

TOO_LARGE_CODES = frozenset({10, 18})
INVALID_RECORD_CODES = frozenset({32, 87})
"""One record of a batch may be what the target does not take."""

_HALT_CODES = {
    10: "RECORD_TOO_LARGE",
    18: "RECORD_LIST_TOO_LARGE",
    29: "TOPIC_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED",
    32: "INVALID_TIMESTAMP",
    53: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    87: "INVALID_RECORD",
}
_AMBIGUOUS_CODES = {
    -1: "UNKNOWN_SERVER_ERROR",
    2: "CORRUPT_MESSAGE",
    76: "UNSUPPORTED_COMPRESSION_TYPE",
}
"""Like codes that stand nowhere here: it may pass, and is a stop once it comes again and again."""
_SKIPPABLE_CODES = TOO_LARGE_CODES | INVALID_RECORD_CODES | {-1, 2}
"""Without the batch the partition may go on."""


def react_to_produce_error(
    where: PartitionSetup,
    *,
    code: int,
    message: str,
    offset: int,
    behind: int = -1,
    size: int = -1,
    divided: bool = False,
) -> ErrorReaction:
    """To an error that a Produce response names for the batch of source [`offset`, `behind`).

    `size` is the batch's in bytes. `divided`: what was refused will be sent in smaller batches.
    """
    if code in _REACQUIRE_CODES:
        return ErrorReaction(
            then=ErrorAction.BACK_OFF, reason=f"{where.mirror}: {_REACQUIRE_CODES[code]}"
        )
    if code in _FENCED_CODES:
        return ErrorReaction(then=ErrorAction.CHECK_FENCE, reason=_FENCED_CODES[code])
    if code in _RETRY_CODES:
        return ErrorReaction(
            then=ErrorAction.BACK_OFF, reason=f"{where.mirror}: {message or _RETRY_CODES[code]}"
        )
    name = _HALT_CODES.get(code) or _AMBIGUOUS_CODES.get(code, f"error {code}")
    if divided:
        reason = f"{where.mirror} refused a batch with {name}: it is divided"
        return ErrorReaction(then=ErrorAction.TAKE, reason=reason)
    said = f" ({message})" if message else ""
    text = f"{where.mirror} refused the batch of {where.name} offset {offset} with {name}{said}: "
    if code in _SKIPPABLE_CODES and behind > offset:
        text += _format_skip(where, behind=behind)
    text += halts.explain_target_remedy(where, code, size=size)
    stop = PartitionHalt(cause=HaltCause.REFUSED, message=text, retry_after_s=HALT_RETRY_DELAY_S)
    if code in _HALT_CODES:
        return ErrorReaction(then=ErrorAction.STOP, reason=name, stop=stop)
    return ErrorReaction(
        then=ErrorAction.BACK_OFF, reason=f"{where.mirror}: {message or name}", stop=stop
    )


def _format_skip(where: PartitionSetup, *, behind: int) -> str:
    line = where.operator.reset_topic(
        where.flow, where.topic, partition=where.partition, position=halts.format_position(behind)
    )
    return f"skip it ({line}), or "


def react_to_fetch_error(where: PartitionSetup, *, code: int, offset: int) -> ErrorReaction | None:
    """To an error that a Fetch response names for the source partition; None: only leaders
    moved."""
    if code in (5, 6, 9, 74, 75, 78):
        return None
    if code == OFFSET_OUT_OF_RANGE:
        return ErrorReaction(
            then=ErrorAction.TAKE, reason=f"{where.name} no longer has offset {offset}"
        )
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
    told = f"{reason}: {halts.explain_source_remedy(where, code)}"
    if code == UNKNOWN_TOPIC_OR_PARTITION and not where.source_is_known:
        stop = halts.halt_source_missing(where, reason)
    else:
        stop = PartitionHalt(
            cause=HaltCause.SOURCE_REFUSED, message=told, retry_after_s=HALT_RETRY_DELAY_S
        )
    then = ErrorAction.BACK_OFF if code in _TRANSIENT_CODES else ErrorAction.STOP
    return ErrorReaction(then=then, reason=reason, stop=stop)


def react_to_unreadable_batch(where: PartitionSetup, found: UnreadableBatch) -> ErrorReaction:
    """To a batch of the source that can be neither copied nor skipped: what may be better when it
    is read again is read again, before that is a stop."""
    stop = halts.halt_unreadable_batch(where, found)
    then = ErrorAction.STOP if stop.retry_after_s is None else ErrorAction.BACK_OFF
    return ErrorReaction(then=then, reason=halts.describe_unreadable_batch(where, found), stop=stop)
