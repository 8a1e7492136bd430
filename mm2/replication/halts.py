"""Why a partition is halted, in words for the operator, with the remedy.

Codes are Kafka's (`org.apache.kafka.common.protocol.Errors`). A halted partition is tried again,
so the remedy is enough; if the flow must be restarted as well, the remedy says so.
"""

from __future__ import annotations

import base64
import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mm2 import operator_commands
from mm2.formats import offset_map_records
from mm2.operator_commands import OperatorCommands
from mm2.replication.read_committed import UnreadableBatch
from mm2.replication.recovery_instructions import OpenTransaction, UnreadableStateRecord
from mm2.replication.setup import PartitionSetup
from mm2.replication.target_tail import ForeignBatch
from mm2.topics import naming

TIMESTAMP_DIFFERENCE_MAX_MS = str(2**63 - 1)
SEGMENT_BYTES_DEFAULT = str(2**30)
"""Kafka's own default, which also is nearly the most that a segment may have."""

TOPIC_AUTHORIZATION_FAILED = 29
"""TOPIC_AUTHORIZATION_FAILED"""
MIRROR_TOPIC_OPERATIONS = ("Describe", "Read", "Write")
"""On a mirror topic: it is written, and read when a partition is taken."""

Remedy = Callable[[PartitionSetup, int], str]
"""Gets the size in bytes of what was refused, -1 where that is not known."""


def explain_target_remedy(where: PartitionSetup, code: int, *, size: int = -1) -> str:
    """What to do when the target refuses with `code` what the copy must do there."""
    return _TARGET_REMEDIES.get(code, _describe_mirror_remedy)(where, size)


def explain_source_remedy(where: PartitionSetup, code: int) -> str:
    """What to do when the source does not let the copy read."""
    return _SOURCE_REMEDIES.get(code, _describe_source_remedy)(where, -1)


def explain_hidden_transactions_remedy(where: PartitionSetup, code: int) -> str:
    """What to do when the target refuses with `code` to tell which transactions are open."""
    if code == TOPIC_AUTHORIZATION_FAILED:
        line = where.operator.target.allow_topic(where.remote_topic, "Describe", "Read")
        return (
            "Allow the flow's principal READ on the mirror topic, which DescribeProducers needs; "
            f"then mm2 names the transaction. {operator_commands.format_remedy(line)}"
        )
    line = where.operator.target.show_versions()
    return (
        "Brokers since 2.8 support DescribeProducers: allow it in any proxy in front of the "
        "brokers; mm2 then names the transaction. The remedy lists the supported APIs. "
        f"{operator_commands.format_remedy(line)}"
    )


def format_fencing_acl_command(flow: str, operator: OperatorCommands) -> str:
    """The command that lets a flow fence its partitions."""
    return operator.target.allow_transactional_ids(f"mm2-{flow}-")


def format_fencing_commands(flow: str, operator: OperatorCommands) -> str:
    """The same of a flow that runs without: its tasks look for the right when they start."""
    return f"{format_fencing_acl_command(flow, operator)} && {operator.restart(flow)}"


def _record_size_remedy(where: PartitionSetup, size: int) -> str:
    wanted = {"max.message.bytes": str(size)}
    line = where.operator.target.set_topic(where.remote_topic, wanted)
    return (
        f"raise max.message.bytes of the mirror topic to the source's, at least to {size}. "
        f"{operator_commands.format_remedy(line)}"
    )


def _batch_size_remedy(where: PartitionSetup, size: int) -> str:
    wanted = {"max.message.bytes": str(size), "segment.bytes": SEGMENT_BYTES_DEFAULT}
    line = where.operator.target.set_topic(where.remote_topic, wanted)
    return (
        f"raise segment.bytes of the mirror topic above the batch's {size} bytes. "
        f"{operator_commands.format_remedy(line)}"
    )


def _timestamp_remedy(where: PartitionSetup, size: int) -> str:
    target, mirror = where.operator.target, where.remote_topic
    before_3_6 = target.set_topic(
        mirror, {"message.timestamp.difference.max.ms": TIMESTAMP_DIFFERENCE_MAX_MS}
    )
    wanted = {
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": TIMESTAMP_DIFFERENCE_MAX_MS,
        "message.timestamp.after.max.ms": TIMESTAMP_DIFFERENCE_MAX_MS,
    }
    return (
        f"allow every timestamp on the mirror topic (brokers before 3.6: {before_3_6}). "
        f"{operator_commands.format_remedy(target.set_topic(mirror, wanted))}"
    )


def _topic_acl_remedy(where: PartitionSetup, size: int) -> str:
    line = where.operator.target.allow_topic(where.remote_topic, *MIRROR_TOPIC_OPERATIONS)
    return f"allow the flow's principal WRITE on the mirror topic. {operator_commands.format_remedy(line)}"


def _cluster_acl_remedy(where: PartitionSetup, size: int) -> str:
    line = where.operator.target.allow_cluster("IdempotentWrite")
    return f"allow the flow's principal IDEMPOTENT_WRITE. {operator_commands.format_remedy(line)}"


def _transactional_id_acl_remedy(where: PartitionSetup, size: int) -> str:
    return (
        "allow the flow's principal WRITE and DESCRIBE on transactional ids with its prefix. "
        f"{operator_commands.format_remedy(format_fencing_acl_command(where.flow, where.operator))}"
    )


def _invalid_record_remedy(where: PartitionSetup, size: int) -> str:
    line = where.operator.target.show_settings(where.remote_topic)
    return (
        "see the broker's log for the cause; a compacted mirror topic, for example, rejects "
        "records without a key. The remedy shows the topic's settings. "
        f"{operator_commands.format_remedy(line)}"
    )


def _codec_remedy(where: PartitionSetup, size: int) -> str:
    line = where.operator.target.set_topic(where.remote_topic, {"compression.type": "gzip"})
    return (
        "set compression.type of the mirror topic to a codec that all its brokers accept. "
        f"{operator_commands.format_remedy(line)}"
    )


def _describe_mirror_remedy(where: PartitionSetup, size: int) -> str:
    line = where.operator.target.show_topic(where.remote_topic)
    return f"see the mirror topic's replicas and the broker's log. {operator_commands.format_remedy(line)}"


def _read_acl_remedy(where: PartitionSetup, size: int) -> str:
    line = where.operator.source.allow_topic(where.topic, "Describe", "Read")
    return f"allow the flow's principal READ. {operator_commands.format_remedy(line)}"


def _missing_topic_remedy(where: PartitionSetup, size: int) -> str:
    return (
        "create it again, or stop its replication with topics.exclude. "
        f"{operator_commands.format_remedy(where.operator.reload())}"
    )


def _describe_source_remedy(where: PartitionSetup, size: int) -> str:
    line = where.operator.source.show_topic(where.topic)
    return f"see the source topic's replicas and the broker's log. {operator_commands.format_remedy(line)}"


_TARGET_REMEDIES: Mapping[int, Remedy] = {
    10: _record_size_remedy,
    18: _batch_size_remedy,
    TOPIC_AUTHORIZATION_FAILED: _topic_acl_remedy,
    31: _cluster_acl_remedy,
    32: _timestamp_remedy,
    53: _transactional_id_acl_remedy,
    76: _codec_remedy,
    87: _invalid_record_remedy,
}
_SOURCE_REMEDIES: Mapping[int, Remedy] = {
    3: _missing_topic_remedy,
    TOPIC_AUTHORIZATION_FAILED: _read_acl_remedy,
}


DAMAGED_RETRY_DELAY_S = 30.0
REVERSE_FLOW_RETRY_DELAY_S = 15.0
MAP_RETRY_DELAY_S = 15.0
FENCED_RETRY_DELAY_S = 30.0


class HaltCause(enum.Enum):
    """The kind of halt, as in the metric label `reason`; `deploy/guides/halt-reasons.md` explains
    each. The message says exactly what was found."""

    CORRUPT = "corrupt-batch"
    BATCH_TOO_LARGE = "batch-too-large"
    TRANSFORM_FAILED = "transform-failed"
    FOREIGN_WRITES = "foreign-writes"
    NOT_EMPTY = "target-not-empty"
    RECREATED = "recreated"
    SOURCE_TRUNCATED = "source-truncated"
    SOURCE_GAP = "source-gap"
    NOT_PAIRED = "tail-does-not-pair"
    HANGING = "hanging-transaction"
    TIMESTAMPS_REWRITTEN = "timestamps-rewritten"
    REFUSED = "refused-by-target"
    SOURCE_REFUSED = "refused-by-source"
    FENCED = "fenced-by-another-owner"
    OPPOSITE_UNKNOWN = "opposite-flow-unreadable"
    MAP_UNREADABLE = "offset-map-unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHalt:
    """A partition is halted: until an operator acts, or, with `retry_after_s`, until it is tried
    again. When that is, `message` leaves to whoever knows."""

    cause: HaltCause
    message: str
    retry_after_s: float | None = None

    @property
    def text(self) -> str:
        """The message with its code: `[recreated] …`."""
        return format_with_code(self.cause.value, self.message)


def format_with_code(code: str, message: str) -> str:
    """A halt's message as it is printed everywhere."""
    return f"[{code}] {message}"


def format_reset_remedy(
    where: PartitionSetup, *, position: str, whole_topic: bool = False, before: str = ""
) -> str:
    """The end of a message: the partition begins again, at `position` unless the operator prefers
    another one.

    `whole_topic`: what halted it halts its topic's other partitions, too. `before`: a command that
    must be given first.
    """
    partition = None if whole_topic else where.partition
    line = where.operator.reset_topic(
        where.flow, where.topic, position=position, partition=partition
    )
    remedy = operator_commands.format_remedy(*filter(None, (before, line)))
    return f"{where.operator.other_positions(position)} {remedy}"


def format_skip_remedy(where: PartitionSetup, *, behind: int) -> str:
    """The same, beginning again at source offset `behind`, and nowhere else."""
    line = where.operator.reset_topic(
        where.flow, where.topic, position=format_position(behind), partition=where.partition
    )
    return operator_commands.format_remedy(line)


def format_position(source: int) -> str:
    """A position (`mm2 topic reset --from`) at this source offset."""
    return f"{offset_map_records.OFFSET_POSITION_PREFIX}{source}"


def halt_fenced(where: PartitionSetup) -> PartitionHalt:
    """Another owner acquired the partition. In a group it is tried again: a group that took the
    place of another one would otherwise leave partitions halted."""
    return PartitionHalt(
        cause=HaltCause.FENCED,
        message=(
            f"{where.mirror}: another mm2 process acquired this partition of flow {where.flow}, or "
            "of a flow between clusters of the same aliases. A flow may run in one group of nodes "
            "only. Stop the other process first; the remedy then reacquires the partition here. "
            f"{operator_commands.format_remedy(where.operator.restart(where.flow, where.topic))}"
        ),
        retry_after_s=FENCED_RETRY_DELAY_S if where.in_group else None,
    )


def halt_denied(
    where: PartitionSetup, why: str, *, code: int, retry_after_s: float
) -> PartitionHalt:
    """The target does not allow what the copy must do; an operator must change that."""
    return PartitionHalt(
        cause=HaltCause.REFUSED,
        message=f"{where.mirror}: {why}: {explain_target_remedy(where, code)}",
        retry_after_s=retry_after_s,
    )


def halt_reverse_flow_unknown(where: PartitionSetup, why: str, *, denied: bool) -> PartitionHalt:
    """Whether a record of the source came from the reverse flow cannot be told; `denied`: for want
    of a right. If not, the remedy shows whether the map's partitions have leaders."""
    source = where.operator.source
    if denied:
        line = source.allow_topic(where.opposite_map, "Describe", "Read")
    else:
        line = source.show_topic(where.opposite_map)
    return PartitionHalt(
        cause=HaltCause.OPPOSITE_UNKNOWN,
        message=(
            f"{where.name}: the reverse flow's offset map {where.opposite_map} cannot be read on "
            f"the source: {why}. Without it, records that the reverse flow wrote would be "
            f"replicated back. {operator_commands.format_remedy(line)}"
        ),
        retry_after_s=REVERSE_FLOW_RETRY_DELAY_S,
    )


def halt_map_unreadable(where: PartitionSetup, found: UnreadableStateRecord) -> PartitionHalt:
    """What the flow's offset map says of the partition is not known."""
    topic = naming.offset_map_topic(where.flow.partition("->")[0])
    position = "earliest" if found.is_era else None
    line = where.operator.skip_map_record(where.flow, found.offset, position=position)
    again = (
        " The record is that of an era, without which its partition can only begin again: at "
        "earliest, all records are replicated again."
        if found.is_era
        else ""
    )
    return PartitionHalt(
        cause=HaltCause.MAP_UNREADABLE,
        message=(
            f"{where.name}: the record at offset {found.offset} of the flow's offset map ({topic} "
            f"on the target) cannot be read: {found.why}. If a newer release of mm2 wrote it, run "
            "that release. If another program wrote it, revoke its write access first; the remedy "
            f"then skips the record and leaves an incident.{again} "
            f"{operator_commands.format_remedy(line)}"
        ),
        retry_after_s=MAP_RETRY_DELAY_S,
    )


def halt_era_missing(where: PartitionSetup, number: int) -> PartitionHalt:
    """Records were replicated in an era of which the map has no record: a first start would
    replicate them again, or leave out others, without an incident."""
    topic = naming.offset_map_topic(where.flow.partition("->")[0])
    return PartitionHalt(
        cause=HaltCause.MAP_UNREADABLE,
        message=(
            f"{where.name}: the flow's offset map ({topic} on the target) says how far the "
            f"partition was replicated in era {number}, but the record of that era was deleted. "
            "The remedy begins a new era and leaves an incident. "
            f"{format_reset_remedy(where, position='earliest')}"
        ),
    )


def halt_timestamps_rewritten(where: PartitionSetup, *, offset: int) -> PartitionHalt:
    target = where.operator.target
    create_time = target.set_topic(where.remote_topic, {"message.timestamp.type": "CreateTime"})
    return PartitionHalt(
        cause=HaltCause.TIMESTAMPS_REWRITTEN,
        message=(
            f"{where.mirror}: the target broker replaced the timestamps of source offset {offset} "
            "and later, because the topic has message.timestamp.type=LogAppendTime. The remedy "
            "replicates them again with CreateTime; the wrong records stay, unless you delete the "
            f"mirror topic first ({target.delete_topic(where.remote_topic)}) and reset from "
            f"earliest. {format_reset_remedy(where, position=format_position(offset), before=create_time)}"
        ),
    )


def halt_if_recreated(
    where: PartitionSetup, *, on_target: bool, was: bytes, now: bytes
) -> PartitionHalt | None:
    """The topic of one side has another id than the one that was copied; None: as far as we know,
    it has not."""
    if offset_map_records.NO_TOPIC_ID in (was, now) or was == now:
        return None
    side = f"mirror topic {where.remote_topic}" if on_target else f"source topic {where.topic}"
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
            f"{format_reset_remedy(where, position='earliest', whole_topic=True)}"
        ),
    )


def format_topic_id(found: bytes) -> str:
    """As Kafka's tools print it (`org.apache.kafka.common.Uuid`)."""
    return base64.urlsafe_b64encode(found).decode().rstrip("=")


def halt_mirror_unknown(
    where: PartitionSetup,
    *,
    copied: int,
    leader_epoch: int,
    retry_after_s: float | None = None,
) -> PartitionHalt:
    """Where topics have no ids, this is how a mirror that was made again shows; so is a broker that
    was deposed and does not know it, if no fence excludes that: `retry_after_s`."""
    return PartitionHalt(
        cause=HaltCause.RECREATED,
        message=(
            f"{where.mirror}: the mirror topic was deleted and created again, or restored from a "
            f"backup: its log lacks leader epoch {leader_epoch}, in which this flow wrote up to "
            f"offset {copied}. "
            f"{format_reset_remedy(where, position='earliest', whole_topic=True)}"
        ),
        retry_after_s=retry_after_s,
    )


def halt_source_diverged(where: PartitionSetup, *, end: int, copied: int) -> PartitionHalt:
    return PartitionHalt(
        cause=HaltCause.SOURCE_TRUNCATED,
        message=(
            f"{where.name}: the source's log was truncated to offset {end} and written again "
            f"(unclean leader election?), but was replicated up to offset {copied}. The mirror "
            f"topic keeps the records that the source lost. {format_skip_remedy(where, behind=end)}"
        ),
    )


def halt_source_truncated(
    where: PartitionSetup, *, position: int, start: int, retry_after_s: float
) -> PartitionHalt:
    """The source's log ends before `position`, which was copied."""
    return PartitionHalt(
        cause=HaltCause.SOURCE_TRUNCATED,
        message=(
            f"{where.name}: records below offset {position} were replicated, but the source's log "
            f"(from offset {start}) ends before it: the log was truncated or recreated. "
            f"{format_reset_remedy(where, position='earliest')}"
        ),
        retry_after_s=retry_after_s if where.source_is_known else None,
    )


def halt_source_missing(where: PartitionSetup, why: str) -> PartitionHalt:
    """Where topics have no ids: what comes back under the name may be another topic."""
    return PartitionHalt(
        cause=HaltCause.SOURCE_REFUSED,
        message=(
            f"{why}. Brokers before 2.8 give topics no ids, so when the topic is there again, mm2 "
            "cannot tell whether it is the same one. Create the topic first; the remedy then "
            f"replicates it from its start. {format_reset_remedy(where, position='earliest')}"
        ),
    )


def halt_source_gap(where: PartitionSetup, *, position: int, start: int) -> PartitionHalt:
    """`on.source.gap: fail`: source offsets [`position`, `start`) are gone."""
    return PartitionHalt(
        cause=HaltCause.SOURCE_GAP,
        message=(
            f"{where.name}: the source deleted offsets {position} to {start - 1} before they were "
            f"replicated (its log starts at {start}), and on.source.gap is fail. The remedy "
            f"skips them: these records are lost. {format_skip_remedy(where, behind=start)}"
        ),
    )


def halt_foreign_records(
    where: PartitionSetup, found: ForeignBatch, *, copied: int, unlike: str = ""
) -> PartitionHalt:
    """The mirror has a batch of another producer; `unlike` says what tells it from one that Java
    copied. Everything before source offset `copied` is on the mirror."""
    producers = where.operator.target.show_producers(where.remote_topic, partition=where.partition)
    not_java = f" MirrorMaker 2 did not write it: {unlike}." if unlike else ""
    return PartitionHalt(
        cause=HaltCause.FOREIGN_WRITES,
        message=(
            f"{where.mirror}: foreign records at offset {found.offset}, of producer id "
            f"{found.producer_id}, which is not this flow's.{not_java} Find that producer "
            f"({producers}) and stop it first, or set target.topics: shared. The remedy resumes "
            f"replication at source offset {copied}. {format_skip_remedy(where, behind=copied)}"
        ),
    )


def halt_ahead_of_source(
    where: PartitionSetup, why: str, *, copied: int, retry_after_s: float
) -> PartitionHalt:
    """Behind what MirrorMaker 2 copied stands something that the source does not have, or not
    yet: it may have copied what is not committed."""
    return PartitionHalt(
        cause=HaltCause.NOT_PAIRED,
        message=(
            f"{where.mirror}: what MirrorMaker 2 wrote last does not match {where.name}: {why}. "
            "Look for an open transaction on the source, for other producers on the mirror topic, "
            "and for a truncated source. The remedy may write duplicates. "
            f"{format_skip_remedy(where, behind=copied)}"
        ),
        retry_after_s=retry_after_s,
    )


def halt_own_open_transaction(
    where: PartitionSetup, found: OpenTransaction, *, retry_after_s: float
) -> PartitionHalt:
    """A transaction of ours that only a person can end."""
    return PartitionHalt(
        cause=HaltCause.HANGING,
        message=(
            f"{where.mirror}: this flow's transaction at offset {found.start}, of producer id "
            f"{found.producer_id}, is hanging: its marker was lost, or a batch came late, and its "
            "producer id has expired. read_committed consumers block there. Aborting it loses "
            f"nothing: its records are replicated again. {_abort_command(where, found)}"
        ),
        retry_after_s=retry_after_s,
    )


def halt_foreign_open_transaction(
    where: PartitionSetup, found: OpenTransaction, *, retry_after_s: float
) -> PartitionHalt:
    """A transaction of another producer on a mirror that is ours alone; it may end yet."""
    producers = where.operator.target.show_producers(where.remote_topic, partition=where.partition)
    return PartitionHalt(
        cause=HaltCause.HANGING,
        message=(
            f"{where.mirror}: a transaction at offset {found.start} is open, of producer id "
            f"{found.producer_id}, which is not this flow's. read_committed consumers wait there. "
            f"Find that producer ({producers}) and stop it; its transaction is then aborted at the "
            "timeout. If the producer is already gone, abort it now. "
            f"{_abort_command(where, found)}"
        ),
        retry_after_s=retry_after_s,
    )


def halt_hidden_open_transaction(
    where: PartitionSetup, why: str, *, code: int, stable: int, retry_after_s: float
) -> PartitionHalt:
    """A transaction is open on the mirror, and the target refuses with `code` to tell which."""
    return PartitionHalt(
        cause=HaltCause.HANGING,
        message=(
            f"{where.mirror}: a transaction is open at offset {stable}, where read_committed "
            f"consumers block; the target does not list open transactions: {why}. "
            f"{explain_hidden_transactions_remedy(where, code)}"
        ),
        retry_after_s=retry_after_s,
    )


def _abort_command(where: PartitionSetup, found: OpenTransaction) -> str:
    line = where.operator.target.abort_transaction(
        where.remote_topic, partition=where.partition, start=found.start
    )
    return operator_commands.format_remedy(line)


def halt_mirror_unreadable(where: PartitionSetup, *, offset: int, why: str) -> PartitionHalt:
    """What stands on the mirror must be compared with the source, and cannot be read."""
    return PartitionHalt(
        cause=HaltCause.NOT_PAIRED,
        message=(
            f"{where.mirror}: the mirror topic cannot be read at offset {offset}: {why}. It "
            "cannot be compared with the source. The remedy appends all source records again. "
            f"{format_reset_remedy(where, position='earliest')}"
        ),
    )


def halt_unreadable_batch(where: PartitionSetup, obstacle: UnreadableBatch) -> PartitionHalt:
    """The next batch of the source can be neither copied nor skipped.

    Of what is damaged another read, or another broker, may bring better bytes.
    """
    at = f"{describe_unreadable_batch(where, obstacle)}. "
    # Where a damaged batch ends cannot be known, and a position inside it leads to it again.
    past = (
        format_skip_remedy(where, behind=obstacle.behind)
        if obstacle.behind >= 0
        else "The batch's end is unknown. Resuming at the log end (latest) loses all records in "
        "between; a time soon after it loses fewer. "
        + format_reset_remedy(where, position="latest")
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
    if obstacle.sound:
        return PartitionHalt(
            cause=HaltCause.CORRUPT,
            message=f"{at}Its checksum is valid: the producer wrote it like this. Skip it. {past}",
        )
    return PartitionHalt(
        cause=HaltCause.CORRUPT,
        message=(
            f"{at}The source broker's disk or the network damaged it. Move leadership to an intact "
            f"replica (see {where.operator.source.show_topic(where.topic)}), or skip it. {past}"
        ),
        retry_after_s=DAMAGED_RETRY_DELAY_S,
    )


def describe_unreadable_batch(where: PartitionSetup, obstacle: UnreadableBatch) -> str:
    return f"{where.name} at source offset {obstacle.offset}: {obstacle.why}"
