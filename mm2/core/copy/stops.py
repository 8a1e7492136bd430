"""Why a partition does not move, in words for the person who must do something about it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mm2.core.copy import setup, source_batches
from mm2.formats import map_record


class Cause(enum.Enum):
    """What kind of thing is wrong; the message says exactly what."""

    CORRUPT = "corrupt-batch"
    TRANSFORM_FAILED = "transform-failed"
    FOREIGN_WRITES = "foreign-writes"
    NOT_EMPTY = "target-not-empty"
    RECREATED = "recreated"
    SOURCE_TRUNCATED = "source-truncated"
    NOT_PAIRED = "tail-does-not-pair"
    HANGING = "hanging-transaction"
    TIMESTAMPS_REWRITTEN = "timestamps-rewritten"
    REFUSED = "refused-by-target"
    SOURCE_REFUSED = "refused-by-source"
    FENCED = "fenced-by-another-owner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A partition stands still: until somebody acts, or, with `retry_after_s`, until it is tried
    again, which the message leaves to say to whoever knows after how long."""

    cause: Cause
    message: str
    retry_after_s: float | None = None


def way_on(where: setup.PartitionSetup) -> str:
    """The command that starts a stopped partition anew."""
    return (
        f"stop the flow, then: mm2 resume '{where.flow}' --topic {where.topic} "
        f"--partition {where.partition} --new-era --from earliest|latest|TIMESTAMP"
    )


def way_past(where: setup.PartitionSetup, *, behind: int) -> str:
    """The command that leaves out what stands before source offset `behind`, and nothing else."""
    return (
        f"stop the flow, then: mm2 resume '{where.flow}' --topic {where.topic} "
        f"--partition {where.partition} --new-era --from offset:{behind}"
    )


def refused(where: setup.PartitionSetup, why: str, *, retry_after_s: float) -> Stop:
    """The target does not allow what the copy must do; somebody must change that."""
    return Stop(
        cause=Cause.REFUSED,
        message=f"{where.mirror}: {why}",
        retry_after_s=retry_after_s,
    )


def timestamps_rewritten(where: setup.PartitionSetup, *, offset: int) -> Stop:
    return Stop(
        cause=Cause.TIMESTAMPS_REWRITTEN,
        message=(
            f"{where.mirror}: the broker replaced the timestamps of source offset {offset} by its "
            f"own. Set message.timestamp.type=CreateTime on {where.remote_topic} (kafka-configs "
            f"--alter), delete what was written wrongly, then: {way_on(where)}"
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
            f"{was.hex()}, now {now.hex()}): what it holds now is something else. To go on: "
            f"{way_on(where)}"
        ),
    )


def source_diverged(where: setup.PartitionSetup, *, end: int, copied: int) -> Stop:
    return Stop(
        cause=Cause.SOURCE_TRUNCATED,
        message=(
            f"{where.name}: the source's log was cut back to offset {end} and written anew, but "
            f"was copied up to {copied} (unclean leader election?). The mirror keeps what the "
            f"source lost. To go on: {way_on(where)}"
        ),
    )


def hanging(where: setup.PartitionSetup, *, offset: int, retry_after_s: float) -> Stop:
    return Stop(
        cause=Cause.HANGING,
        message=(
            f"{where.mirror}: a transaction of this flow that begins at offset {offset} lost its "
            f"marker (unclean leader election?) and its producer id has expired, so nothing ends "
            f"it, and read_committed readers stand still there. End it with kafka-transactions "
            f"abort --topic {where.remote_topic} --partition {where.partition} --start-offset "
            f"{offset}"
        ),
        retry_after_s=retry_after_s,
    )


def mirror_unreadable(where: setup.PartitionSetup, *, offset: int, why: str) -> Stop:
    """What stands on the mirror must be compared with the source, and cannot be read."""
    return Stop(
        cause=Cause.NOT_PAIRED,
        message=(
            f"{where.mirror} at offset {offset}: {why}, which cannot be compared with the source. "
            f"To begin behind it: {way_on(where)}"
        ),
    )


def blocked(where: setup.PartitionSetup, obstacle: source_batches.Obstacle) -> Stop:
    """The next batch of the source can be neither copied nor skipped."""
    at = f"{where.name} at source offset {obstacle.offset}: {obstacle.why}. "
    past = way_past(where, behind=obstacle.behind) if obstacle.behind >= 0 else way_on(where)
    if obstacle.by_transform:
        return Stop(
            cause=Cause.TRANSFORM_FAILED,
            message=f"{at}Mend the transform, then restart the flow. To leave it out: {past}",
        )
    return Stop(
        cause=Cause.CORRUPT,
        message=(
            f"{at}The source broker's log segment or the network damaged it: check the source's "
            f"replicas, then restart the flow. To leave it out: {past}"
        ),
    )
