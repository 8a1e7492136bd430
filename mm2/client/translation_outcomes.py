"""Result types of offset translation; each type states how exact the translated offset is."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.base.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """A consumer that resumes at `offset` of `partition` reads no record again and misses none."""

    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """A consumer that resumes at `offset` of `partition` misses no record but may reread some."""

    partition: TopicPartition
    offset: int
    again_max: int | None
    """Maximum number of records that are read again; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotReady:
    """The offset is not yet replicated, or not yet recorded in the offset map: retry later.

    `offset` of `partition` is the last known position of replication. A consumer that resumes there
    misses no replicated record and reads at most `again_max` records again. If the remaining
    records are never replicated, it reads later records for the first time.
    """

    partition: TopicPartition
    offset: int
    again_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TooOld:
    """The offset is before the first known offset of `partition`: before the mirror topic's first
    record, or its map entry was deleted together with the source records."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Nothing is known about `partition` on the other cluster; `reason` is the reason."""

    partition: TopicPartition
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BeyondEnd:
    """The offset is beyond `end`, the log end on the origin cluster: possible only if the topic was
    truncated or recreated. `partition` is that of the other cluster, as in `Exact`."""

    partition: TopicPartition
    end: int


Outcome: TypeAlias = Exact | Earlier | NotReady | TooOld | Unknown | BeyondEnd
"""`partition` and `offset` of all outcomes are those of the destination cluster."""


class Basis(enum.Enum):
    """Which offset a translation is based on."""

    OFFSET = "offset"
    """The offset that the caller passed."""
    COMMITTED = "committed"
    """The group's committed offset, read from its cluster now."""
    CHECKPOINT = "checkpoint"
    """The group's last checkpoint: its cluster was not queried, or did not answer."""
    TIME = "time"
    """The first offset at or after a time in the origin cluster's log."""
    TIME_ON_DESTINATION = "time there"
    """The first offset at or after a time in the destination cluster's log, because the origin
    cluster did not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An offset of the origin cluster and its translation."""

    partition: TopicPartition
    """The partition on the origin cluster."""
    offset: int | None
    """The offset on the origin cluster; None if that cluster did not answer."""
    outcome: Outcome
    basis: Basis
    metadata: str = ""
    """Metadata of the group's commit."""
    written_ms: int | None = None
    """When the checkpoint was written, in UTC milliseconds; None if the basis is another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlaces:
    """The translated offsets of a consumer group."""

    group: str
    basis: Basis
    places: tuple[Place, ...]
    """Sorted by partition; empty if the group has no committed offsets."""
    cluster_error: str = ""
    """Why the group's cluster did not answer; empty if it did or was not configured."""


def offset_there(outcome: Outcome) -> int | None:
    """The offset to resume at, never beyond what was read; None if there is none."""
    match outcome:
        case Exact() | Earlier() | NotReady():
            return outcome.offset
        case TooOld() | Unknown() | BeyondEnd():
            return None
