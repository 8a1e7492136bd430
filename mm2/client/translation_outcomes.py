"""Result types of offset translation; each type states how exact the translated offset is."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.base.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """Exact translation: a consumer that resumes at `offset` of `partition` neither rereads nor
    misses a record."""

    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """Conservative translation: a consumer that resumes at `offset` of `partition` misses no record
    but may reread some."""

    partition: TopicPartition
    offset: int
    again_max: int | None
    """Maximum number of records that the consumer reads again; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotReady:
    """The offset is not yet replicated, or not yet recorded in the offset map: retry later.

    If the source is lost, do not wait: resume at `offset` of `partition`, the last known replicated
    position. A consumer that resumes there receives all replicated records and rereads at most
    `again_max` records. It does not receive records that were never replicated.
    """

    partition: TopicPartition
    offset: int
    again_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TooOld:
    """The offset is too old to be translated.

    It is before the mirror topic's first record, or its offset map entry was deleted together with
    the source records. `partition` is the partition on the other cluster.
    """

    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The offset cannot be translated because nothing is known about `partition` on the other
    cluster; `reason` says why."""

    partition: TopicPartition
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BeyondEnd:
    """The offset is beyond `end`, the log end offset on the origin cluster.

    This is possible only if the topic was truncated or recreated. `partition` is the partition on
    the other cluster, as in `Exact`.
    """

    partition: TopicPartition
    end: int


Outcome: TypeAlias = Exact | Earlier | NotReady | TooOld | Unknown | BeyondEnd
"""Outcome of an offset translation. `partition` and `offset` always refer to the destination
cluster."""


class Basis(enum.Enum):
    """How the offset to translate was determined."""

    OFFSET = "offset"
    """The caller passed the offset."""
    COMMITTED = "committed"
    """The group's committed offset, read from its cluster during the translation."""
    CHECKPOINT = "checkpoint"
    """The group's last checkpoint. Used if the group's cluster was not queried or did not
    respond."""
    TIME = "time"
    """The offset of the first record with a timestamp at or after a given time, in the log of the
    origin cluster."""
    TIME_ON_DESTINATION = "time on destination"
    """The offset of the first record with a timestamp at or after a given time, in the destination
    cluster's log. Used if the origin cluster did not respond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Position on the origin cluster (partition and offset), and the outcome of its translation to
    the destination cluster."""

    partition: TopicPartition
    """Partition on the origin cluster."""
    offset: int | None
    """Offset on the origin cluster; None if that cluster did not respond."""
    outcome: Outcome
    basis: Basis
    metadata: str = ""
    """Metadata of the group's offset commit."""
    written_ms: int | None = None
    """Time when the checkpoint was written, in UTC milliseconds; None if the translation is not
    based on a checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlaces:
    """Positions of a consumer group on the origin cluster, each with the outcome of its translation
    to the destination cluster."""

    group: str
    basis: Basis
    places: tuple[Place, ...]
    """Translated offsets, sorted by partition; empty if the group has no committed offsets."""
    cluster_error: str = ""
    """Reason why the group's cluster did not respond; empty if it responded or is not
    configured."""


def get_destination_offset(outcome: Outcome) -> int | None:
    """Return the destination offset at which a consumer can resume without missing records, or None
    if no such offset is known."""
    match outcome:
        case Exact() | Earlier() | NotReady():
            return outcome.offset
        case TooOld() | Unknown() | BeyondEnd():
            return None
