"""Why a partition is halted, in words for the operator, and the remedy."""

from __future__ import annotations

import base64
import enum
from dataclasses import dataclass

from mm2.core import commands, naming
from mm2.core.copy import facts, instructions, remedies, setup, source_batches, tail
from mm2.formats import map_record

DAMAGED_RETRY_S = 30.0
OPPOSITE_RETRY_S = 15.0
MAP_RETRY_S = 15.0
FENCED_RETRY_S = 30.0


class Cause(enum.Enum):
    """The kind of halt, as in the metric label `cause`; `deploy/guides/halt-reasons.md` explains
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
class Stop:
    """A partition is halted: until an operator acts, or, with `retry_after_s`, until it is tried
    again. When that is, `message` leaves to whoever knows."""

    cause: Cause
    message: str
    retry_after_s: float | None = None

    @property
    def text(self) -> str:
        """The message with its code: `[recreated] …`."""
        return with_code(self.cause.value, self.message)


def with_code(code: str, message: str) -> str:
    """A halt's message as it is printed everywhere."""
    return f"[{code}] {message}"


def reset_remedy(
    where: setup.PartitionSetup, *, position: str, whole_topic: bool = False, before: str = ""
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
    remedy = commands.to_go_on(*filter(None, (before, line)))
    return f"{where.operator.other_positions(position)} {remedy}"


def skip_remedy(where: setup.PartitionSetup, *, behind: int) -> str:
    """The same, beginning again at source offset `behind`, and nowhere else."""
    line = where.operator.reset_topic(
        where.flow, where.topic, position=at_offset(behind), partition=where.partition
    )
    return commands.to_go_on(line)


def at_offset(source: int) -> str:
    """A position (`mm2 topic reset --from`) at this source offset."""
    return f"{map_record.AT_OFFSET}{source}"


def fenced(where: setup.PartitionSetup) -> Stop:
    """Another owner acquired the partition. In a group it is tried again: a group that took the
    place of another one would otherwise leave partitions halted."""
    return Stop(
        cause=Cause.FENCED,
        message=(
            f"{where.mirror}: another mm2 process acquired this partition of flow {where.flow}, or "
            "of a flow between clusters of the same aliases. A flow may run in one group of nodes "
            "only. Stop the other process first; the remedy then reacquires the partition here. "
            f"{commands.to_go_on(where.operator.restart(where.flow, where.topic))}"
        ),
        retry_after_s=FENCED_RETRY_S if where.in_group else None,
    )


def refused(where: setup.PartitionSetup, why: str, *, code: int, retry_after_s: float) -> Stop:
    """The target does not allow what the copy must do; an operator must change that."""
    return Stop(
        cause=Cause.REFUSED,
        message=f"{where.mirror}: {why}: {remedies.of_target(where, code)}",
        retry_after_s=retry_after_s,
    )


def opposite_unknown(where: setup.PartitionSetup, why: str, *, denied: bool) -> Stop:
    """Whether a record of the source came from the reverse flow cannot be told; `denied`: for want
    of a right. If not, the remedy shows whether the map's partitions have leaders."""
    source = where.operator.source
    if denied:
        line = source.allow_topic(where.opposite_map, "Describe", "Read")
    else:
        line = source.show_topic(where.opposite_map)
    return Stop(
        cause=Cause.OPPOSITE_UNKNOWN,
        message=(
            f"{where.name}: the reverse flow's offset map {where.opposite_map} cannot be read on "
            f"the source: {why}. Without it, records that the reverse flow wrote would be "
            f"replicated back. {commands.to_go_on(line)}"
        ),
        retry_after_s=OPPOSITE_RETRY_S,
    )


def map_unreadable(where: setup.PartitionSetup, found: facts.UnreadableRecord) -> Stop:
    """What the flow's offset map says of the partition is not known."""
    topic = naming.map_topic(where.flow.partition("->")[0])
    position = "earliest" if found.is_era else None
    line = where.operator.skip_map_record(where.flow, found.offset, position=position)
    again = (
        " The record is that of an era, without which its partition can only begin again: at "
        "earliest, all records are replicated again."
        if found.is_era
        else ""
    )
    return Stop(
        cause=Cause.MAP_UNREADABLE,
        message=(
            f"{where.name}: the record at offset {found.offset} of the flow's offset map ({topic} "
            f"on the target) cannot be read: {found.why}. If a newer release of mm2 wrote it, run "
            "that release. If another program wrote it, revoke its write access first; the remedy "
            f"then skips the record and leaves a receipt.{again} {commands.to_go_on(line)}"
        ),
        retry_after_s=MAP_RETRY_S,
    )


def era_missing(where: setup.PartitionSetup, number: int) -> Stop:
    """Records were replicated in an era of which the map has no record: a first start would
    replicate them again, or leave out others, without a receipt."""
    topic = naming.map_topic(where.flow.partition("->")[0])
    return Stop(
        cause=Cause.MAP_UNREADABLE,
        message=(
            f"{where.name}: the flow's offset map ({topic} on the target) says how far the "
            f"partition was replicated in era {number}, but the record of that era was deleted. "
            "The remedy begins a new era and leaves a receipt. "
            f"{reset_remedy(where, position='earliest')}"
        ),
    )


def timestamps_rewritten(where: setup.PartitionSetup, *, offset: int) -> Stop:
    target = where.operator.target
    create_time = target.set_topic(where.remote_topic, {"message.timestamp.type": "CreateTime"})
    return Stop(
        cause=Cause.TIMESTAMPS_REWRITTEN,
        message=(
            f"{where.mirror}: the target broker replaced the timestamps of source offset {offset} "
            "and later, because the topic has message.timestamp.type=LogAppendTime. The remedy "
            "replicates them again with CreateTime; the wrong records stay, unless you delete the "
            f"mirror topic first ({target.delete_topic(where.remote_topic)}) and reset from "
            f"earliest. {reset_remedy(where, position=at_offset(offset), before=create_time)}"
        ),
    )


def recreated(
    where: setup.PartitionSetup, *, on_target: bool, was: bytes, now: bytes
) -> Stop | None:
    """The topic of one side has another id than the one that was copied; None: as far as we know,
    it has not."""
    if map_record.NO_TOPIC_ID in (was, now) or was == now:
        return None
    side = f"mirror topic {where.remote_topic}" if on_target else f"source topic {where.topic}"
    kept = (
        "The new mirror topic lacks all records replicated before"
        if on_target
        else "Replication is halted so that records of the old and the new topic do not mix"
    )
    return Stop(
        cause=Cause.RECREATED,
        message=(
            f"{side} was deleted and created again (topic id {topic_id(was)}, now "
            f"{topic_id(now)}). {kept}. "
            f"{reset_remedy(where, position='earliest', whole_topic=True)}"
        ),
    )


def topic_id(found: bytes) -> str:
    """As Kafka's tools print it (`org.apache.kafka.common.Uuid`)."""
    return base64.urlsafe_b64encode(found).decode().rstrip("=")


def mirror_unknown(
    where: setup.PartitionSetup,
    *,
    copied: int,
    leader_epoch: int,
    retry_after_s: float | None = None,
) -> Stop:
    """Where topics have no ids, this is how a mirror that was made again shows; so is a broker that
    was deposed and does not know it, if no fence excludes that: `retry_after_s`."""
    return Stop(
        cause=Cause.RECREATED,
        message=(
            f"{where.mirror}: the mirror topic was deleted and created again, or restored from a "
            f"backup: its log lacks leader epoch {leader_epoch}, in which this flow wrote up to "
            f"offset {copied}. "
            f"{reset_remedy(where, position='earliest', whole_topic=True)}"
        ),
        retry_after_s=retry_after_s,
    )


def source_diverged(where: setup.PartitionSetup, *, end: int, copied: int) -> Stop:
    return Stop(
        cause=Cause.SOURCE_TRUNCATED,
        message=(
            f"{where.name}: the source's log was truncated to offset {end} and written again "
            f"(unclean leader election?), but was replicated up to offset {copied}. The mirror "
            f"topic keeps the records that the source lost. {skip_remedy(where, behind=end)}"
        ),
    )


def source_truncated(
    where: setup.PartitionSetup, *, position: int, start: int, retry_after_s: float
) -> Stop:
    """The source's log ends before `position`, which was copied."""
    return Stop(
        cause=Cause.SOURCE_TRUNCATED,
        message=(
            f"{where.name}: records below offset {position} were replicated, but the source's log "
            f"(from offset {start}) ends before it: the log was truncated or recreated. "
            f"{reset_remedy(where, position='earliest')}"
        ),
        retry_after_s=retry_after_s if where.source_is_known else None,
    )


def source_missing(where: setup.PartitionSetup, why: str) -> Stop:
    """Where topics have no ids: what comes back under the name may be another topic."""
    return Stop(
        cause=Cause.SOURCE_REFUSED,
        message=(
            f"{why}. Brokers before 2.8 give topics no ids, so when the topic is there again, mm2 "
            "cannot tell whether it is the same one. Create the topic first; the remedy then "
            f"replicates it from its start. {reset_remedy(where, position='earliest')}"
        ),
    )


def source_gap(where: setup.PartitionSetup, *, position: int, start: int) -> Stop:
    """`on.source.gap: fail`: source offsets [`position`, `start`) are gone."""
    return Stop(
        cause=Cause.SOURCE_GAP,
        message=(
            f"{where.name}: the source deleted offsets {position} to {start - 1} before they were "
            f"replicated (its log starts at {start}), and on.source.gap is fail. The remedy "
            f"skips them: these records are lost. {skip_remedy(where, behind=start)}"
        ),
    )


def foreign_writes(
    where: setup.PartitionSetup, found: tail.Foreign, *, copied: int, unlike: str = ""
) -> Stop:
    """The mirror has a batch of another producer; `unlike` says what tells it from one that Java
    copied. Everything before source offset `copied` is on the mirror."""
    producers = where.operator.target.show_producers(where.remote_topic, partition=where.partition)
    not_java = f" MirrorMaker 2 did not write it: {unlike}." if unlike else ""
    return Stop(
        cause=Cause.FOREIGN_WRITES,
        message=(
            f"{where.mirror}: foreign records at offset {found.offset}, of producer id "
            f"{found.producer_id}, which is not this flow's.{not_java} Find that producer "
            f"({producers}) and stop it first, or set target.topics: shared. The remedy resumes "
            f"replication at source offset {copied}. {skip_remedy(where, behind=copied)}"
        ),
    )


def ahead_of_source(
    where: setup.PartitionSetup, why: str, *, copied: int, retry_after_s: float
) -> Stop:
    """Behind what MirrorMaker 2 copied stands something that the source does not have, or not
    yet: it may have copied what is not committed."""
    return Stop(
        cause=Cause.NOT_PAIRED,
        message=(
            f"{where.mirror}: what MirrorMaker 2 wrote last does not match {where.name}: {why}. "
            "Look for an open transaction on the source, for other producers on the mirror topic, "
            "and for a truncated source. The remedy may write duplicates. "
            f"{skip_remedy(where, behind=copied)}"
        ),
        retry_after_s=retry_after_s,
    )


def hanging(
    where: setup.PartitionSetup, found: instructions.OpenTransaction, *, retry_after_s: float
) -> Stop:
    """A transaction of ours that only a person can end."""
    return Stop(
        cause=Cause.HANGING,
        message=(
            f"{where.mirror}: this flow's transaction at offset {found.start}, of producer id "
            f"{found.producer_id}, is hanging: its marker was lost, or a batch came late, and its "
            "producer id has expired. read_committed consumers block there. Aborting it loses "
            f"nothing: its records are replicated again. {_abort(where, found)}"
        ),
        retry_after_s=retry_after_s,
    )


def others_open(
    where: setup.PartitionSetup, found: instructions.OpenTransaction, *, retry_after_s: float
) -> Stop:
    """A transaction of another producer on a mirror that is ours alone; it may end yet."""
    producers = where.operator.target.show_producers(where.remote_topic, partition=where.partition)
    return Stop(
        cause=Cause.HANGING,
        message=(
            f"{where.mirror}: a transaction at offset {found.start} is open, of producer id "
            f"{found.producer_id}, which is not this flow's. read_committed consumers wait there. "
            f"Find that producer ({producers}) and stop it; its transaction is then aborted at the "
            f"timeout. If the producer is already gone, abort it now. {_abort(where, found)}"
        ),
        retry_after_s=retry_after_s,
    )


def standing_still(
    where: setup.PartitionSetup, why: str, *, code: int, stable: int, retry_after_s: float
) -> Stop:
    """A transaction is open on the mirror, and the target refuses with `code` to tell which."""
    return Stop(
        cause=Cause.HANGING,
        message=(
            f"{where.mirror}: a transaction is open at offset {stable}, where read_committed "
            f"consumers block; the target does not list open transactions: {why}. "
            f"{remedies.untold(where, code)}"
        ),
        retry_after_s=retry_after_s,
    )


def _abort(where: setup.PartitionSetup, found: instructions.OpenTransaction) -> str:
    line = where.operator.target.abort_transaction(
        where.remote_topic, partition=where.partition, start=found.start
    )
    return commands.to_go_on(line)


def mirror_unreadable(where: setup.PartitionSetup, *, offset: int, why: str) -> Stop:
    """What stands on the mirror must be compared with the source, and cannot be read."""
    return Stop(
        cause=Cause.NOT_PAIRED,
        message=(
            f"{where.mirror}: the mirror topic cannot be read at offset {offset}: {why}. It "
            "cannot be compared with the source. The remedy appends all source records again. "
            f"{reset_remedy(where, position='earliest')}"
        ),
    )


def blocked(where: setup.PartitionSetup, obstacle: source_batches.Obstacle) -> Stop:
    """The next batch of the source can be neither copied nor skipped.

    Of what is damaged another read, or another broker, may bring better bytes.
    """
    at = f"{blocked_at(where, obstacle)}. "
    # Where a damaged batch ends cannot be known, and a position inside it leads to it again.
    past = (
        skip_remedy(where, behind=obstacle.behind)
        if obstacle.behind >= 0
        else "The batch's end is unknown. Resuming at the log end (latest) loses all records in "
        "between; a time soon after it loses fewer. " + reset_remedy(where, position="latest")
    )
    if obstacle.by_transform:
        return Stop(
            cause=Cause.TRANSFORM_FAILED,
            message=(
                f"{at}Correct the transform and restart the mm2 process, or skip the record. {past}"
            ),
        )
    if obstacle.too_large:
        return Stop(
            cause=Cause.BATCH_TOO_LARGE,
            message=(
                f"{at}Raise buffer.memory of the flow and restart the mm2 process, or skip the "
                f"batch. {past}"
            ),
        )
    if obstacle.sound:
        return Stop(
            cause=Cause.CORRUPT,
            message=f"{at}Its checksum is valid: the producer wrote it like this. Skip it. {past}",
        )
    return Stop(
        cause=Cause.CORRUPT,
        message=(
            f"{at}The source broker's disk or the network damaged it. Move leadership to an intact "
            f"replica (see {where.operator.source.show_topic(where.topic)}), or skip it. {past}"
        ),
        retry_after_s=DAMAGED_RETRY_S,
    )


def blocked_at(where: setup.PartitionSetup, obstacle: source_batches.Obstacle) -> str:
    return f"{where.name} at source offset {obstacle.offset}: {obstacle.why}"
