"""Why a partition does not move, in words for the person who must do something about it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mm2.core import commands
from mm2.core.copy import instructions, remedies, setup, source_batches, tail
from mm2.formats import map_record

DAMAGED_RETRY_S = 30.0
OPPOSITE_RETRY_S = 15.0


class Cause(enum.Enum):
    """What kind of thing is wrong; the message says exactly what."""

    CORRUPT = "corrupt-batch"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A partition stands still: until somebody acts, or, with `retry_after_s`, until it is tried
    again, which the message leaves to say to whoever knows after how long."""

    cause: Cause
    message: str
    retry_after_s: float | None = None


def way_on(
    where: setup.PartitionSetup, *, position: str, whole_topic: bool = False, before: str = ""
) -> str:
    """The end of a message: how a stopped partition begins anew, at `position` unless somebody
    wants another one.

    `whole_topic`: what stopped it stops its topic's other partitions, too. `before`: a command that
    must have been given first.
    """
    partition = None if whole_topic else where.partition
    line = where.operator.resume(where.flow, where.topic, position=position, partition=partition)
    return (
        f"{where.operator.stopping(where.flow)} {where.operator.other_positions(position)} "
        f"{commands.to_go_on(*filter(None, (before, line)))}"
    )


def way_past(where: setup.PartitionSetup, *, behind: int) -> str:
    """The same, leaving out what stands before source offset `behind`, and nothing else."""
    return way_on(where, position=at_offset(behind))


def at_offset(source: int) -> str:
    """A position (`mm2 resume --from`) at this source offset."""
    return f"{map_record.AT_OFFSET}{source}"


def fenced(where: setup.PartitionSetup) -> Stop:
    return Stop(
        cause=Cause.FENCED,
        message=(
            f"{where.mirror} was taken over by another owner of flow {where.flow}. Another mm2 "
            f"process runs flow {where.flow} (or one between clusters of the same aliases): run "
            "each flow once. To have it here, stop the other one. "
            f"{commands.to_go_on(where.operator.run())}"
        ),
    )


def refused(where: setup.PartitionSetup, why: str, *, code: int, retry_after_s: float) -> Stop:
    """The target does not allow what the copy must do; somebody must change that."""
    return Stop(
        cause=Cause.REFUSED,
        message=f"{where.mirror}: {why}: {remedies.of_target(where, code)}",
        retry_after_s=retry_after_s,
    )


def opposite_unknown(where: setup.PartitionSetup, why: str) -> Stop:
    """Nobody can tell whether a record of the source is one that the opposite flow brought."""
    line = where.operator.source.allow_topic(where.opposite_map, "Describe", "Read")
    return Stop(
        cause=Cause.OPPOSITE_UNKNOWN,
        message=(
            f"{where.name}: what a flow that leads back wrote here must not be copied again, and "
            f"whether that is so cannot be told: {why}. Both rights are needed where mirrors have "
            f"their topics' names. {commands.to_go_on(line)}"
        ),
        retry_after_s=OPPOSITE_RETRY_S,
    )


def timestamps_rewritten(where: setup.PartitionSetup, *, offset: int) -> Stop:
    target = where.operator.target
    create_time = target.set_topic(where.remote_topic, {"message.timestamp.type": "CreateTime"})
    return Stop(
        cause=Cause.TIMESTAMPS_REWRITTEN,
        message=(
            f"{where.mirror}: the broker replaced the timestamps of source offset {offset} by its "
            "own; from there on everything is copied again with message.timestamp.type=CreateTime. "
            "To be rid of what was written wrongly, delete the mirror topic instead "
            f"({target.delete_topic(where.remote_topic)}) and begin at the earliest. "
            f"{way_on(where, position=at_offset(offset), before=create_time)}"
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
    return Stop(
        cause=Cause.RECREATED,
        message=(
            f"{side} was deleted and created again since this flow copied it (topic id "
            f"{was.hex()}, now {now.hex()}): what it holds now is something else. "
            f"{way_on(where, position='earliest', whole_topic=True)}"
        ),
    )


def mirror_unknown(where: setup.PartitionSetup, *, copied: int, leader_epoch: int) -> Stop:
    """Where topics have no ids, this is how a mirror that was made again shows."""
    return Stop(
        cause=Cause.RECREATED,
        message=(
            f"{where.mirror}: this flow wrote it up to offset {copied}, in leader epoch "
            f"{leader_epoch}, and its log neither reaches there nor knows that epoch: it was "
            "deleted and created again, or restored from elsewhere. "
            f"{way_on(where, position='earliest', whole_topic=True)}"
        ),
    )


def source_diverged(where: setup.PartitionSetup, *, end: int, copied: int) -> Stop:
    return Stop(
        cause=Cause.SOURCE_TRUNCATED,
        message=(
            f"{where.name}: the source's log was cut back to offset {end} and written anew, but "
            f"was copied up to {copied} (unclean leader election?). The mirror keeps what the "
            f"source lost. {way_past(where, behind=end)}"
        ),
    )


def source_truncated(
    where: setup.PartitionSetup, *, position: int, start: int, retry_after_s: float
) -> Stop:
    """The source's log ends before `position`, which was copied."""
    return Stop(
        cause=Cause.SOURCE_TRUNCATED,
        message=(
            f"{where.name}: the copy stands at source offset {position}, which the source no "
            f"longer has although its log starts at {start}: it was truncated or recreated. "
            f"{way_on(where, position='earliest')}"
        ),
        retry_after_s=retry_after_s if where.source_is_known else None,
    )


def source_missing(where: setup.PartitionSetup, why: str) -> Stop:
    """Where topics have no ids: what comes back under the name may be another topic."""
    return Stop(
        cause=Cause.SOURCE_REFUSED,
        message=(
            f"{why}. Its brokers give topics no ids, so that nobody could tell whether it is the "
            f"same one when it is there again. {way_on(where, position='earliest')}"
        ),
    )


def source_gap(where: setup.PartitionSetup, *, position: int, start: int) -> Stop:
    """`on.source.gap: fail`: source offsets [`position`, `start`) are gone."""
    return Stop(
        cause=Cause.SOURCE_GAP,
        message=(
            f"{where.name}: the source deleted offsets {position} to {start - 1} before they were "
            f"copied or compared (its log starts at {start}), and on.source.gap is fail. "
            f"{way_past(where, behind=start)}"
        ),
    )


def foreign_writes(
    where: setup.PartitionSetup, found: tail.Foreign, *, copied: int, unlike: str = ""
) -> Stop:
    """A stranger's batch stands on the mirror; `unlike` says what tells it from one that Java
    copied. Everything before source offset `copied` is on the mirror."""
    producers = where.operator.target.show_producers(where.remote_topic, partition=where.partition)
    not_java = f" MirrorMaker 2 did not copy it there: {unlike}." if unlike else ""
    return Stop(
        cause=Cause.FOREIGN_WRITES,
        message=(
            f"{where.mirror}: producer id {found.producer_id}, which is not this flow's, wrote at "
            f"offset {found.offset} of a mirror topic that only this flow may write to.{not_java} "
            f"Find that producer ({producers}) and stop it, or set target.topics: shared. Copied "
            f"again is what followed source offset {copied}. {way_past(where, behind=copied)}"
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
            f"{where.mirror}: what MirrorMaker 2 wrote last cannot be matched with {where.name}: "
            f"{why}. Is a transaction still open there, did others write to the mirror, or was the "
            "source truncated? Records may be doubled when it is begun anew. "
            f"{way_past(where, behind=copied)}"
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
            f"{where.mirror}: a transaction of this flow that begins at offset {found.start}, of "
            f"producer id {found.producer_id}, has no marker (an unclean leader election lost it, "
            "or, on brokers before 3.6, a batch came late, from a writer that was fenced and "
            "forgotten) and that producer id has expired, or may not be used any more, so nothing "
            "ends it, and read_committed readers stand still there, or where the log starts since. "
            "Aborting it loses nothing: what it holds is copied again where it is missing. "
            f"{_abort(where, found)}"
        ),
        retry_after_s=retry_after_s,
    )


def others_open(
    where: setup.PartitionSetup, found: instructions.OpenTransaction, *, retry_after_s: float
) -> Stop:
    """A transaction of somebody else's on a mirror that is ours alone; it may end yet."""
    producers = where.operator.target.show_producers(where.remote_topic, partition=where.partition)
    return Stop(
        cause=Cause.HANGING,
        message=(
            f"{where.mirror}: producer id {found.producer_id}, which is not this flow's, began a "
            f"transaction at offset {found.start} and has not ended it, so read_committed readers "
            f"stand still there. Find that producer ({producers}) and end it: its coordinator "
            "aborts the transaction when its timeout has passed. If nobody is there any more, "
            f"abort it yourself. {_abort(where, found)}"
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
            f"{where.mirror}: read_committed readers stand still at offset {stable}: a transaction "
            f"has not ended, and which one could not be found out: {why}. "
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
            f"{where.mirror} at offset {offset}: {why}, which cannot be compared with the source. "
            f"Whatever is copied from now on stands behind it. "
            f"{way_on(where, position='earliest')}"
        ),
    )


def blocked(where: setup.PartitionSetup, obstacle: source_batches.Obstacle) -> Stop:
    """The next batch of the source can be neither copied nor skipped.

    Of what is damaged another read, or another broker, may bring better bytes.
    """
    at = f"{blocked_at(where, obstacle)}. "
    # Where a damaged batch ends cannot be known, and a position inside it leads to it again.
    position = at_offset(obstacle.behind) if obstacle.behind >= 0 else "latest"
    past = way_on(where, position=position)
    if obstacle.by_transform:
        return Stop(
            cause=Cause.TRANSFORM_FAILED,
            message=(
                f"{at}Mend the transform, then start the flow again ({where.operator.run()}), or "
                f"leave it out. {past}"
            ),
        )
    if obstacle.sound:
        return Stop(
            cause=Cause.CORRUPT,
            message=f"{at}Its checksum is right, so it was written like that: leave it out. {past}",
        )
    return Stop(
        cause=Cause.CORRUPT,
        message=(
            f"{at}The source broker's log segment or the network damaged it: see which brokers "
            f"hold it ({where.operator.source.show_topic(where.topic)}) and let one with a sound "
            f"log lead, or leave it out. {past}"
        ),
        retry_after_s=DAMAGED_RETRY_S,
    )


def blocked_at(where: setup.PartitionSetup, obstacle: source_batches.Obstacle) -> str:
    return f"{where.name} at source offset {obstacle.offset}: {obstacle.why}"
