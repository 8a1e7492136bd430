"""Maps Kafka error codes of Produce and Fetch, and unreadable batches, to a reaction.

The reaction is to reacquire the partition, to retry after a backoff, to check for a newer owner, or
to halt. Codes are Kafka's (`org.apache.kafka.common.protocol.Errors`).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mm2.replication import partition_halt_messages
from mm2.replication.partition_halt_messages import HaltCause, PartitionHalt
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.read_committed_batch_filter import UnreadableBatch

OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
_TRANSIENT_CODES = frozenset({UNKNOWN_TOPIC_OR_PARTITION, 56, 100, 103})
"""Errors that brokers also return briefly while topics or leaders move, or after a disk failure. If
the topic was really deleted or recreated, the next metadata refresh reports the change, and the
partition is halted with another code (`Recovery.on_topic_id_received`)."""

HALT_RETRY_DELAY_S = 30.0


class ErrorAction(enum.Enum):
    """Action to take on a partition after an error, once no batch is in flight."""

    REACQUIRE = "acquire"
    """The outcome of a batch is unknown or the leader moved: acquire the partition again. This
    fences older writers and compares the last batches on the target with the source (tail
    matching)."""
    BACK_OFF = "back off, then acquire"
    """The error is transient: acquire the partition again after a backoff."""
    CHECK_FENCE = "check the fence"
    """The producer is fenced: check whether another owner acquired the partition."""
    HALT = "halt"
    """Halt the partition until an operator acts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReaction:
    """Action to take on a partition after an error, and the reason for it."""

    action: ErrorAction
    reason: str
    halt: PartitionHalt | None = None
    """Halt of the partition. If the action is `BACK_OFF`, the partition is halted only if the error
    persists."""


_TOO_FEW_REPLICAS = "(fewer in-sync replicas than min.insync.replicas)"
_REACQUIRE_CODES = {
    7: "REQUEST_TIMED_OUT (replicas did not acknowledge the batch in time)",
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
"""Errors after which the batch is not sent again, because the target has stored it or a newer owner
replicates it."""

TOO_LARGE_CODES = frozenset({10, 18})
INVALID_RECORD_CODES = frozenset({32, 87})
"""Produce error codes that a single invalid record can cause for its whole batch."""

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
"""Errors that may be transient: the partition is halted only if they persist. Codes without an
entry in any table of this module are treated in the same way."""
_SKIPPABLE_CODES = TOO_LARGE_CODES | INVALID_RECORD_CODES | {-1, 2}
"""Produce error codes that concern only the rejected batch, so that replication can continue if the
batch is skipped."""


def react_to_produce_error(
    setup: PartitionSetup,
    *,
    code: int,
    message: str,
    offset: int,
    next_offset: int = -1,
    size: int = -1,
    is_split: bool = False,
) -> ErrorReaction:
    """Choose the reaction to a Produce error for the batch of source offsets [`offset`,
    `next_offset`).

    `size` is the batch's size in bytes. With `is_split`, the rejected batch will be split and sent
    again.
    """
    if code in _REACQUIRE_CODES:
        return ErrorReaction(
            action=ErrorAction.BACK_OFF, reason=f"{setup.mirror_name}: {_REACQUIRE_CODES[code]}"
        )
    if code in _FENCED_CODES:
        return ErrorReaction(action=ErrorAction.CHECK_FENCE, reason=_FENCED_CODES[code])
    if code in _RETRY_CODES:
        return ErrorReaction(
            action=ErrorAction.BACK_OFF,
            reason=f"{setup.mirror_name}: {message or _RETRY_CODES[code]}",
        )
    name = _HALT_CODES.get(code) or _AMBIGUOUS_CODES.get(code, f"error {code}")
    if is_split:
        reason = f"{setup.mirror_name} refused a batch with {name}: it is split and sent again"
        return ErrorReaction(action=ErrorAction.REACQUIRE, reason=reason)
    detail = f" ({message})" if message else ""
    text = (
        f"{setup.mirror_name} refused the batch of {setup.source_name} offset {offset} with "
        f"{name}{detail}: "
    )
    if code in _SKIPPABLE_CODES and next_offset > offset:
        text += _format_skip_command(setup, behind=next_offset)
    text += partition_halt_messages.build_target_error_remedy(setup, code, size=size)
    stop = PartitionHalt(
        cause=HaltCause.REFUSED_BY_TARGET, message=text, retry_after_s=HALT_RETRY_DELAY_S
    )
    if code in _HALT_CODES:
        return ErrorReaction(action=ErrorAction.HALT, reason=name, halt=stop)
    return ErrorReaction(
        action=ErrorAction.BACK_OFF, reason=f"{setup.mirror_name}: {message or name}", halt=stop
    )


def _format_skip_command(setup: PartitionSetup, *, behind: int) -> str:
    line = setup.operator.build_reset_topic_command(
        setup.flow,
        setup.topic,
        partition=setup.partition,
        position=partition_halt_messages.format_position(behind),
    )
    return f"skip it ({line}), or "


def react_to_fetch_error(setup: PartitionSetup, *, code: int, offset: int) -> ErrorReaction | None:
    """Choose the reaction to a Fetch error for a source partition. Return None if only the leader
    moved."""
    if code in (5, 6, 9, 74, 75, 78):
        return None
    if code == OFFSET_OUT_OF_RANGE:
        return ErrorReaction(
            action=ErrorAction.REACQUIRE,
            reason=f"{setup.source_name} no longer has offset {offset}",
        )
    text = {
        2: "the source broker reports a corrupt log (CORRUPT_MESSAGE)",
        3: "the source topic is missing (deleted?)",
        29: "not authorized to read the topic (TOPIC_AUTHORIZATION_FAILED)",
        56: "the source broker cannot read its disk (KAFKA_STORAGE_ERROR)",
        76: "the source broker cannot send a batch with this codec (UNSUPPORTED_COMPRESSION_TYPE)",
        100: "the source topic was deleted or recreated (UNKNOWN_TOPIC_ID)",
        103: "the source topic was recreated (INCONSISTENT_TOPIC_ID)",
    }.get(code, f"the source broker returned error {code}")
    reason = f"{setup.source_name} at offset {offset}: {text}"
    message = f"{reason}: {partition_halt_messages.build_source_error_remedy(setup, code)}"
    if code == UNKNOWN_TOPIC_OR_PARTITION and not setup.has_source_topic_id:
        stop = partition_halt_messages.build_source_missing_halt(setup, reason)
    else:
        stop = PartitionHalt(
            cause=HaltCause.REFUSED_BY_SOURCE, message=message, retry_after_s=HALT_RETRY_DELAY_S
        )
    then = ErrorAction.BACK_OFF if code in _TRANSIENT_CODES else ErrorAction.HALT
    return ErrorReaction(action=then, reason=reason, halt=stop)


def react_to_unreadable_batch(setup: PartitionSetup, found: UnreadableBatch) -> ErrorReaction:
    """Choose the reaction to a source batch that can be neither replicated nor skipped: read it
    again if that may help, otherwise halt."""
    stop = partition_halt_messages.build_unreadable_batch_halt(setup, found)
    then = ErrorAction.HALT if stop.retry_after_s is None else ErrorAction.BACK_OFF
    return ErrorReaction(
        action=then,
        reason=partition_halt_messages.describe_unreadable_batch(setup, found),
        halt=stop,
    )
