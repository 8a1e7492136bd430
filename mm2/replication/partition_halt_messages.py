"""Builds the halt messages of a partition: what failed, why, and the remedy.

Error codes are Kafka's (`org.apache.kafka.common.protocol.Errors`). A halted partition is retried
automatically, so it resumes after the remedy. If the flow must be restarted too, the remedy says
so.
"""

from __future__ import annotations

import base64
import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mm2 import suggested_commands
from mm2.formats import offset_map_records
from mm2.replication import transactional_ids
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.read_committed_batch_filter import UnreadableBatch
from mm2.replication.recovery_instructions import OpenTransaction, UnreadableStateRecord
from mm2.replication.target_log_tail import ForeignBatch
from mm2.suggested_commands import OperatorCommands
from mm2.topics import replication_policy

TIMESTAMP_DIFFERENCE_MAX_MS = str(2**63 - 1)
SEGMENT_BYTES_DEFAULT = str(2**30)
"""Kafka's default for `segment.bytes` (1 GiB). Kafka accepts at most 2^31 - 1."""

TOPIC_AUTHORIZATION_FAILED = 29
"""Kafka's error code for a missing ACL on a topic."""
MIRROR_TOPIC_OPERATIONS = ("Describe", "Read", "Write")
"""Operations that a flow must be allowed on a mirror topic: it writes records, and it reads them to
acquire a partition."""

Remedy = Callable[[PartitionSetup, int], str]
"""Builds a remedy from the partition and the size in bytes of the rejected batch (-1 if
unknown)."""


def build_target_error_remedy(setup: PartitionSetup, code: int, *, size: int = -1) -> str:
    """Return the remedy for error `code` of the target cluster."""
    return _TARGET_REMEDIES.get(code, _build_mirror_check_remedy)(setup, size)


def build_source_error_remedy(setup: PartitionSetup, code: int) -> str:
    """Return the remedy for error `code` of the source cluster."""
    return _SOURCE_REMEDIES.get(code, _build_source_check_remedy)(setup, -1)


def build_describe_producers_remedy(setup: PartitionSetup, code: int) -> str:
    """Return the remedy if DescribeProducers on the target fails with error `code`, so that open
    transactions cannot be listed."""
    if code == TOPIC_AUTHORIZATION_FAILED:
        line = setup.operator.target.build_allow_topic_command(
            setup.remote_topic, "Describe", "Read"
        )
        return (
            "DescribeProducers needs READ on the mirror topic: grant it to the flow's principal. "
            "The halt message then names the transaction's producer. "
            f"{suggested_commands.format_remedy(line)}"
        )
    line = setup.operator.target.build_show_versions_command()
    return (
        "Brokers since 2.8 support DescribeProducers: allow the request in any proxy in front of "
        "the brokers. The halt message then names the transaction's producer. The remedy lists the "
        "supported APIs. "
        f"{suggested_commands.format_remedy(line)}"
    )


def format_fencing_acl_command(flow: str, operator: OperatorCommands) -> str:
    """Format the command that grants a flow the ACLs for fencing its partitions."""
    return operator.target.build_allow_transactional_ids_command(
        transactional_ids.format_transactional_id_prefix(flow)
    )


def format_fencing_commands(flow: str, operator: OperatorCommands) -> str:
    """Format the commands that grant the fencing ACLs to a running flow and restart it. The restart
    is needed because tasks check the ACLs only at startup."""
    return f"{format_fencing_acl_command(flow, operator)} && {operator.build_restart_command(flow)}"


def _build_record_size_remedy(setup: PartitionSetup, size: int) -> str:
    wanted = {"max.message.bytes": str(size)}
    line = setup.operator.target.build_set_topic_configs_command(setup.remote_topic, wanted)
    return (
        "raise max.message.bytes of the mirror topic to the source topic's value, at least to "
        f"{size}. {suggested_commands.format_remedy(line)}"
    )


def _build_batch_size_remedy(setup: PartitionSetup, size: int) -> str:
    wanted = {"max.message.bytes": str(size), "segment.bytes": SEGMENT_BYTES_DEFAULT}
    line = setup.operator.target.build_set_topic_configs_command(setup.remote_topic, wanted)
    return (
        f"raise segment.bytes of the mirror topic above the batch's {size} bytes. "
        f"{suggested_commands.format_remedy(line)}"
    )


def _build_timestamp_remedy(setup: PartitionSetup, size: int) -> str:
    target, mirror = setup.operator.target, setup.remote_topic
    before_3_6 = target.build_set_topic_configs_command(
        mirror, {"message.timestamp.difference.max.ms": TIMESTAMP_DIFFERENCE_MAX_MS}
    )
    wanted = {
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": TIMESTAMP_DIFFERENCE_MAX_MS,
        "message.timestamp.after.max.ms": TIMESTAMP_DIFFERENCE_MAX_MS,
    }
    command = target.build_set_topic_configs_command(mirror, wanted)
    return (
        f"allow all timestamps on the mirror topic (brokers before 3.6: {before_3_6}). "
        f"{suggested_commands.format_remedy(command)}"
    )


def _build_topic_acl_remedy(setup: PartitionSetup, size: int) -> str:
    line = setup.operator.target.build_allow_topic_command(
        setup.remote_topic, *MIRROR_TOPIC_OPERATIONS
    )
    remedy = suggested_commands.format_remedy(line)
    return f"grant the flow's principal WRITE on the mirror topic. {remedy}"


def _build_cluster_acl_remedy(setup: PartitionSetup, size: int) -> str:
    line = setup.operator.target.build_allow_cluster_command("IdempotentWrite")
    return f"grant the flow's principal IDEMPOTENT_WRITE. {suggested_commands.format_remedy(line)}"


def _build_transactional_id_acl_remedy(setup: PartitionSetup, size: int) -> str:
    command = format_fencing_acl_command(setup.flow, setup.operator)
    return (
        "grant the flow's principal WRITE and DESCRIBE on transactional ids with its prefix. "
        f"{suggested_commands.format_remedy(command)}"
    )


def _build_invalid_record_remedy(setup: PartitionSetup, size: int) -> str:
    line = setup.operator.target.build_show_topic_configs_command(setup.remote_topic)
    return (
        "check the broker's log for the cause. For example, a compacted mirror topic rejects "
        "records without a key. The remedy shows the topic's settings. "
        f"{suggested_commands.format_remedy(line)}"
    )


def _build_codec_remedy(setup: PartitionSetup, size: int) -> str:
    line = setup.operator.target.build_set_topic_configs_command(
        setup.remote_topic, {"compression.type": "gzip"}
    )
    return (
        "set compression.type of the mirror topic to a codec that all its brokers accept. "
        f"{suggested_commands.format_remedy(line)}"
    )


def _build_mirror_check_remedy(setup: PartitionSetup, size: int) -> str:
    line = setup.operator.target.build_show_topic_command(setup.remote_topic)
    remedy = suggested_commands.format_remedy(line)
    return f"check the mirror topic's replicas and the broker's log. {remedy}"


def _build_read_acl_remedy(setup: PartitionSetup, size: int) -> str:
    line = setup.operator.source.build_allow_topic_command(setup.topic, "Describe", "Read")
    return f"grant the flow's principal READ. {suggested_commands.format_remedy(line)}"


def _build_missing_topic_remedy(setup: PartitionSetup, size: int) -> str:
    return (
        "recreate the topic, or stop its replication with topics.exclude. "
        f"{suggested_commands.format_remedy(setup.operator.build_reload_command())}"
    )


def _build_source_check_remedy(setup: PartitionSetup, size: int) -> str:
    line = setup.operator.source.build_show_topic_command(setup.topic)
    remedy = suggested_commands.format_remedy(line)
    return f"check the source topic's replicas and the broker's log. {remedy}"


_TARGET_REMEDIES: Mapping[int, Remedy] = {
    10: _build_record_size_remedy,
    18: _build_batch_size_remedy,
    TOPIC_AUTHORIZATION_FAILED: _build_topic_acl_remedy,
    31: _build_cluster_acl_remedy,
    32: _build_timestamp_remedy,
    53: _build_transactional_id_acl_remedy,
    76: _build_codec_remedy,
    87: _build_invalid_record_remedy,
}
_SOURCE_REMEDIES: Mapping[int, Remedy] = {
    3: _build_missing_topic_remedy,
    TOPIC_AUTHORIZATION_FAILED: _build_read_acl_remedy,
}


DAMAGED_RETRY_DELAY_S = 30.0
REVERSE_FLOW_RETRY_DELAY_S = 15.0
MAP_RETRY_DELAY_S = 15.0
FENCED_RETRY_DELAY_S = 30.0


class HaltCause(enum.Enum):
    """Cause of a halted partition, and value of the metric label `reason`.
    `docs/guides/halt-reasons.md` explains each cause."""

    CORRUPT_BATCH = "corrupt-batch"
    BATCH_TOO_LARGE = "batch-too-large"
    TRANSFORM_FAILED = "transform-failed"
    FOREIGN_WRITES = "foreign-writes"
    TARGET_NOT_EMPTY = "target-not-empty"
    RECREATED = "recreated"
    SOURCE_TRUNCATED = "source-truncated"
    SOURCE_GAP = "source-gap"
    TAIL_MISMATCH = "tail-mismatch"
    HANGING_TRANSACTION = "hanging-transaction"
    TIMESTAMPS_REWRITTEN = "timestamps-rewritten"
    REFUSED_BY_TARGET = "refused-by-target"
    REFUSED_BY_SOURCE = "refused-by-source"
    FENCED = "fenced-by-another-owner"
    REVERSE_FLOW_UNREADABLE = "reverse-flow-unreadable"
    MAP_UNREADABLE = "offset-map-unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHalt:
    """Reason why a partition is halted until an operator acts or `retry_after_s` has passed.

    `message` does not contain the time of the next attempt, because the caller adds it.
    """

    cause: HaltCause
    message: str
    retry_after_s: float | None = None

    @property
    def coded_message(self) -> str:
        """The message prefixed with its code, as in `[recreated] …`."""
        return format_halt_message(self.cause.value, self.message)


def format_halt_message(code: str, message: str) -> str:
    """Prefix a halt message with its code."""
    return f"[{code}] {message}"


def format_reset_remedy(
    setup: PartitionSetup, *, position: str, whole_topic: bool = False, before: str = ""
) -> str:
    """Format the remedy that resets the partition to `position`, or to another position that the
    operator prefers.

    With `whole_topic`, the command resets all partitions of the topic, for halts that concern the
    whole topic. `before` is a command that the operator must run before the reset.
    """
    partition = None if whole_topic else setup.partition
    line = setup.operator.build_reset_topic_command(
        setup.flow, setup.topic, position=position, partition=partition
    )
    remedy = suggested_commands.format_remedy(*filter(None, (before, line)))
    return f"{setup.operator.describe_other_reset_positions(position)} {remedy}"


def format_skip_remedy(setup: PartitionSetup, *, next_offset: int) -> str:
    """Format the remedy that resumes replication at source offset `next_offset`. Unlike
    `format_reset_remedy`, it does not suggest other positions."""
    line = setup.operator.build_reset_topic_command(
        setup.flow, setup.topic, position=format_position(next_offset), partition=setup.partition
    )
    return suggested_commands.format_remedy(line)


def format_position(source: int) -> str:
    """Format a source offset as the argument of `mm2 topic reset --from`."""
    return f"{offset_map_records.OFFSET_POSITION_PREFIX}{source}"


def build_fenced_halt(setup: PartitionSetup) -> PartitionHalt:
    """Build the halt of a partition that another owner acquired.

    If the flow runs in a worker group, acquisition is retried. Without the retries, partitions
    would remain halted after a new worker group has replaced the old one.
    """
    return PartitionHalt(
        cause=HaltCause.FENCED,
        message=(
            f"{setup.mirror_name}: another mm2 process acquired this partition of flow "
            f"{setup.flow}, or "
            "of a flow between clusters with the same aliases. A flow may run in one group of "
            "nodes only. Stop the other process first; the remedy then reacquires the partition "
            "here. "
            + suggested_commands.format_remedy(
                setup.operator.build_restart_command(setup.flow, setup.topic)
            )
        ),
        retry_after_s=FENCED_RETRY_DELAY_S if setup.in_group else None,
    )


def build_access_denied_halt(
    setup: PartitionSetup, reason: str, *, code: int, retry_after_s: float
) -> PartitionHalt:
    """Build the halt of a partition whose target denies an operation that replication needs."""
    return PartitionHalt(
        cause=HaltCause.REFUSED_BY_TARGET,
        message=f"{setup.mirror_name}: {reason}: {build_target_error_remedy(setup, code)}",
        retry_after_s=retry_after_s,
    )


def build_reverse_flow_unknown_halt(
    setup: PartitionSetup, reason: str, *, denied: bool
) -> PartitionHalt:
    """Build the halt for an unreadable offset map of the reverse flow (from target to source).
    Without the map, records that the reverse flow wrote cannot be recognized.

    If `denied` is True, an ACL is missing. If it is False, the remedy is a command that shows
    whether the topic of the map has leaders.
    """
    source = setup.operator.source
    if denied:
        line = source.build_allow_topic_command(setup.opposite_map, "Describe", "Read")
    else:
        line = source.build_show_topic_command(setup.opposite_map)
    return PartitionHalt(
        cause=HaltCause.REVERSE_FLOW_UNREADABLE,
        message=(
            f"{setup.source_name}: the reverse flow's offset map {setup.opposite_map} cannot be "
            "read on "
            f"the source: {reason}. Without it, records that the reverse flow wrote would be "
            f"replicated back. {suggested_commands.format_remedy(line)}"
        ),
        retry_after_s=REVERSE_FLOW_RETRY_DELAY_S,
    )


def build_map_unreadable_halt(setup: PartitionSetup, found: UnreadableStateRecord) -> PartitionHalt:
    """Build the halt for an unreadable record in the flow's offset map, which hides the partition's
    progress."""
    topic = replication_policy.format_offset_map_topic(setup.flow.partition("->")[0])
    position = "earliest" if found.is_era else None
    line = setup.operator.build_skip_map_record_command(setup.flow, found.offset, position=position)
    again = (
        " The unreadable record begins an era (generation of the mirror). Without the record, the "
        "partition must be reset; with position earliest, all records are replicated again."
        if found.is_era
        else ""
    )
    return PartitionHalt(
        cause=HaltCause.MAP_UNREADABLE,
        message=(
            f"{setup.source_name}: the record at offset {found.offset} of the flow's offset map "
            f"({topic} "
            f"on the target) cannot be read: {found.why}. If a newer release of mm2 wrote the "
            "record, run that release. If another program wrote the record, revoke the program's "
            "write access first; the remedy "
            f"then skips the record and creates an incident.{again} "
            f"{suggested_commands.format_remedy(line)}"
        ),
        retry_after_s=MAP_RETRY_DELAY_S,
    )


def build_era_missing_halt(setup: PartitionSetup, number: int) -> PartitionHalt:
    """Build the halt for an offset map that contains progress of an era (generation of the mirror)
    but not the record that begins the era.

    Starting from scratch would silently repeat or skip records.
    """
    topic = replication_policy.format_offset_map_topic(setup.flow.partition("->")[0])
    return PartitionHalt(
        cause=HaltCause.MAP_UNREADABLE,
        message=(
            f"{setup.source_name}: the flow's offset map ({topic} on the target) contains "
            f"progress of the partition in era (mirror generation) {number}, but not the record of "
            "that era, which was deleted. The remedy begins a new era and creates an incident. "
            f"{format_reset_remedy(setup, position='earliest')}"
        ),
    )


def build_timestamps_rewritten_halt(setup: PartitionSetup, *, offset: int) -> PartitionHalt:
    """Build the halt for a target that replaced record timestamps
    (`message.timestamp.type=LogAppendTime`)."""
    target = setup.operator.target
    create_time = target.build_set_topic_configs_command(
        setup.remote_topic, {"message.timestamp.type": "CreateTime"}
    )
    remedy = format_reset_remedy(setup, position=format_position(offset), before=create_time)
    return PartitionHalt(
        cause=HaltCause.TIMESTAMPS_REWRITTEN,
        message=(
            f"{setup.mirror_name}: the target broker replaced the timestamps of source offset "
            f"{offset} "
            "and later, because the topic has message.timestamp.type=LogAppendTime. The remedy "
            "replicates them again with CreateTime; the wrong records stay, unless you delete the "
            f"mirror topic first ({target.build_delete_topic_command(setup.remote_topic)}) and "
            f"reset from earliest. {remedy}"
        ),
    )


def halt_if_topic_recreated(
    setup: PartitionSetup, *, on_target: bool, was: bytes, now: bytes
) -> PartitionHalt | None:
    """Return a halt if a topic's id differs from the replicated topic's id; None if both are equal
    or one is unknown."""
    if offset_map_records.NO_TOPIC_ID in (was, now) or was == now:
        return None
    side = f"mirror topic {setup.remote_topic}" if on_target else f"source topic {setup.topic}"
    kept = (
        "The new mirror topic lacks all records replicated before"
        if on_target
        else "Replication is halted so that records of the old and the new topic do not mix"
    )
    return PartitionHalt(
        cause=HaltCause.RECREATED,
        message=(
            f"{side} was deleted and created again (topic id {format_topic_id(was)}, now "
            f"{format_topic_id(now)}). {kept}. "
            f"{format_reset_remedy(setup, position='earliest', whole_topic=True)}"
        ),
    )


def format_topic_id(found: bytes) -> str:
    """Format a topic id as Kafka's tools do (`org.apache.kafka.common.Uuid`)."""
    return base64.urlsafe_b64encode(found).decode().rstrip("=")


def build_mirror_unknown_halt(
    setup: PartitionSetup,
    *,
    copied: int,
    leader_epoch: int,
    retry_after_s: float | None = None,
) -> PartitionHalt:
    """Build the halt for a target log that does not contain the leader epoch of the resume point.
    Before Kafka 2.8, this means that the mirror topic was recreated.

    If the partition cannot be fenced, a former leader that still responds may cause the same
    symptom: pass `retry_after_s` in this case.
    """
    return PartitionHalt(
        cause=HaltCause.RECREATED,
        message=(
            f"{setup.mirror_name}: the mirror topic was deleted and created again, or restored "
            "from a "
            f"backup: its log lacks leader epoch {leader_epoch}, in which this flow wrote up to "
            f"offset {copied}. "
            f"{format_reset_remedy(setup, position='earliest', whole_topic=True)}"
        ),
        retry_after_s=retry_after_s,
    )


def build_source_diverged_halt(setup: PartitionSetup, *, end: int, copied: int) -> PartitionHalt:
    """Build the halt for a source log that was truncated and rewritten below the replicated
    offset."""
    return PartitionHalt(
        cause=HaltCause.SOURCE_TRUNCATED,
        message=(
            f"{setup.source_name}: the source's log was truncated to offset {end} and written "
            "again "
            f"(unclean leader election?), but was replicated up to offset {copied}. The mirror "
            "topic keeps the records that the source lost. "
            f"{format_skip_remedy(setup, next_offset=end)}"
        ),
    )


def build_source_truncated_halt(
    setup: PartitionSetup, *, position: int, start: int, retry_after_s: float
) -> PartitionHalt:
    """Build the halt for a source log that ends before `position`, although records up to
    `position` were replicated."""
    return PartitionHalt(
        cause=HaltCause.SOURCE_TRUNCATED,
        message=(
            f"{setup.source_name}: records below offset {position} were replicated, but the "
            "source's log "
            f"(from offset {start}) ends before that offset: the log was truncated or recreated. "
            f"{format_reset_remedy(setup, position='earliest')}"
        ),
        retry_after_s=retry_after_s if setup.has_source_topic_id else None,
    )


def build_source_missing_halt(setup: PartitionSetup, reason: str) -> PartitionHalt:
    """Build the halt for a missing source topic on a cluster without topic ids, where a new topic
    of the same name would not be noticed."""
    return PartitionHalt(
        cause=HaltCause.REFUSED_BY_SOURCE,
        message=(
            f"{reason}. Brokers before 2.8 do not assign topic ids, so mm2 cannot detect whether a "
            "topic of this name is the original one. Create the topic first; the remedy then "
            f"replicates it from its start. {format_reset_remedy(setup, position='earliest')}"
        ),
    )


def build_source_gap_halt(setup: PartitionSetup, *, position: int, start: int) -> PartitionHalt:
    """Build the halt for deleted source offsets [`position`, `start`) if `on.source.gap` is
    `fail`."""
    return PartitionHalt(
        cause=HaltCause.SOURCE_GAP,
        message=(
            f"{setup.source_name}: the source deleted offsets {position} to {start - 1} before "
            "they were "
            f"replicated (the source's log starts at {start}), and on.source.gap is fail. The "
            "remedy skips these offsets: their records are lost. "
            f"{format_skip_remedy(setup, next_offset=start)}"
        ),
    )


def build_foreign_records_halt(
    setup: PartitionSetup, batch: ForeignBatch, *, copied: int, mismatch: str = ""
) -> PartitionHalt:
    """Build the halt for a batch on the mirror topic that this flow did not write.

    `mismatch` describes the difference from a batch of MirrorMaker 2. Source offsets below `copied`
    have been replicated to the mirror topic.
    """
    producers = setup.operator.target.build_show_producers_command(
        setup.remote_topic, partition=setup.partition
    )
    not_java = f" MirrorMaker 2 did not write the batch: {mismatch}." if mismatch else ""
    return PartitionHalt(
        cause=HaltCause.FOREIGN_WRITES,
        message=(
            f"{setup.mirror_name}: foreign records at offset {batch.offset}. Their producer id "
            f"{batch.producer_id} does not belong to this flow.{not_java} Find that producer "
            f"({producers}) and stop it first, or set target.topics: shared. The remedy resumes "
            f"replication at source offset {copied}. "
            f"{format_skip_remedy(setup, next_offset=copied)}"
        ),
    )


def build_ahead_of_source_halt(
    setup: PartitionSetup, reason: str, *, copied: int, retry_after_s: float
) -> PartitionHalt:
    """Build the halt for a mirror topic whose last records were written by MirrorMaker 2 and have
    no match on the source. Records of an open transaction may appear on the source later.

    By default, MirrorMaker 2 also copies uncommitted records.
    """
    return PartitionHalt(
        cause=HaltCause.TAIL_MISMATCH,
        message=(
            f"{setup.mirror_name}: the last records of MirrorMaker 2 do not match "
            f"{setup.source_name}: {reason}. "
            "Look for an open transaction on the source, for other producers on the mirror topic, "
            "and for a truncated source. The remedy may write duplicates. "
            f"{format_skip_remedy(setup, next_offset=copied)}"
        ),
        retry_after_s=retry_after_s,
    )


def build_own_open_transaction_halt(
    setup: PartitionSetup, found: OpenTransaction, *, retry_after_s: float
) -> PartitionHalt:
    """Build the halt for a hanging transaction of this flow that only an operator can abort."""
    return PartitionHalt(
        cause=HaltCause.HANGING_TRANSACTION,
        message=(
            f"{setup.mirror_name}: this flow's transaction at offset {found.start}, of producer id "
            f"{found.producer_id}, is hanging: its marker was lost, or a batch arrived late, and "
            "the producer id has expired. read_committed consumers are blocked at that offset. "
            "Aborting the transaction loses nothing: its records are replicated again. "
            f"{_build_abort_remedy(setup, found)}"
        ),
        retry_after_s=retry_after_s,
    )


def build_foreign_open_transaction_halt(
    setup: PartitionSetup, found: OpenTransaction, *, retry_after_s: float
) -> PartitionHalt:
    """Build the halt for another producer's open transaction on a mirror topic to which only this
    flow may write. The producer may still commit or abort the transaction."""
    producers = setup.operator.target.build_show_producers_command(
        setup.remote_topic, partition=setup.partition
    )
    return PartitionHalt(
        cause=HaltCause.HANGING_TRANSACTION,
        message=(
            f"{setup.mirror_name}: a transaction is open at offset {found.start}. Its producer id "
            f"{found.producer_id} does not belong to this flow. read_committed consumers are "
            f"blocked at that offset. Find that producer ({producers}) and stop it; its "
            "transaction is then aborted at the timeout. If the producer has already stopped, "
            "abort the transaction now. "
            f"{_build_abort_remedy(setup, found)}"
        ),
        retry_after_s=retry_after_s,
    )


def build_hidden_open_transaction_halt(
    setup: PartitionSetup, reason: str, *, code: int, stable: int, retry_after_s: float
) -> PartitionHalt:
    """Build the halt for an open transaction on the mirror topic whose producer is unknown, because
    DescribeProducers fails with error `code`."""
    return PartitionHalt(
        cause=HaltCause.HANGING_TRANSACTION,
        message=(
            f"{setup.mirror_name}: a transaction is open at offset {stable}, where read_committed "
            f"consumers block; the target does not list open transactions: {reason}. "
            f"{build_describe_producers_remedy(setup, code)}"
        ),
        retry_after_s=retry_after_s,
    )


def _build_abort_remedy(setup: PartitionSetup, found: OpenTransaction) -> str:
    line = setup.operator.target.build_abort_transaction_command(
        setup.remote_topic, partition=setup.partition, start=found.start
    )
    return suggested_commands.format_remedy(line)


def build_mirror_unreadable_halt(
    setup: PartitionSetup, *, offset: int, reason: str
) -> PartitionHalt:
    """Build the halt for a mirror topic that cannot be read and therefore cannot be compared with
    the source."""
    return PartitionHalt(
        cause=HaltCause.TAIL_MISMATCH,
        message=(
            f"{setup.mirror_name}: the mirror topic cannot be read at offset {offset}: "
            f"{reason}. It "
            "cannot be compared with the source. The remedy appends all source records again. "
            f"{format_reset_remedy(setup, position='earliest')}"
        ),
    )


def build_unreadable_batch_halt(setup: PartitionSetup, obstacle: UnreadableBatch) -> PartitionHalt:
    """Build the halt for a source batch that can be neither replicated nor skipped.

    A damaged batch is retried, because another read or another broker may return intact bytes.
    """
    at = f"{describe_unreadable_batch(setup, obstacle)}. "
    # The end of a damaged batch is unknown, and a position inside it reads the same batch again.
    past = (
        format_skip_remedy(setup, next_offset=obstacle.next_offset)
        if obstacle.next_offset >= 0
        else (
            "The batch's end is unknown. Resuming at the log end (latest) loses all records in "
            "between; a timestamp shortly after the batch loses fewer. "
        )
        + format_reset_remedy(setup, position="latest")
    )
    if obstacle.by_transform:
        return PartitionHalt(
            cause=HaltCause.TRANSFORM_FAILED,
            message=(
                f"{at}Correct the transform and restart the mm2 process, or skip the record. {past}"
            ),
        )
    if obstacle.too_large:
        return PartitionHalt(
            cause=HaltCause.BATCH_TOO_LARGE,
            message=(
                f"{at}Raise buffer.memory of the flow and restart the mm2 process, or skip the "
                f"batch. {past}"
            ),
        )
    if obstacle.has_valid_checksum:
        return PartitionHalt(
            cause=HaltCause.CORRUPT_BATCH,
            message=(
                f"{at}Its checksum is valid, so the producer wrote it that way and all replicas "
                f"have the same bytes: skip it. {past}"
            ),
        )
    return PartitionHalt(
        cause=HaltCause.CORRUPT_BATCH,
        message=(
            f"{at}The source broker's disk or the network damaged it. Move leadership to an intact "
            f"replica (see {setup.operator.source.build_show_topic_command(setup.topic)}), or skip "
            f"it. {past}"
        ),
        retry_after_s=DAMAGED_RETRY_DELAY_S,
    )


def describe_unreadable_batch(setup: PartitionSetup, obstacle: UnreadableBatch) -> str:
    """Describe an unreadable batch with its source offset and the reason."""
    return f"{setup.source_name} at source offset {obstacle.offset}: {obstacle.reason}"
