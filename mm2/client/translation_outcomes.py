"""Result types of an offset translation. Each type says how exact the translated offset is."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.base.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """Who goes on at `offset` of `partition` reads nothing again and misses nothing."""

    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """Who goes on at `offset` of `partition` misses nothing, and reads up to `again_max` records
    again; None: nobody knows how many."""

    partition: TopicPartition
    offset: int
    again_max: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotReady:
    """That was not copied yet, or was a moment ago and is not written down: ask again later.

    Copying has got to `offset` of `partition`. Who goes on there all the same misses nothing that
    is copied, and reads up to `again_max` records again, or for the first time where the rest never
    comes.
    """

    partition: TopicPartition
    offset: int
    again_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TooOld:
    """It lies before everything that is known of `partition`: before the mirror's first record, or
    the map of it was deleted because the source's records were."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Nothing is known of what would be `partition` there; `why` says so in words."""

    partition: TopicPartition
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BeyondEnd:
    """The offset is beyond `end`, the log end of its partition on the cluster that is left: no
    consumer can be there, unless the topic was cut or made anew. `partition` as in `Exact`."""

    partition: TopicPartition
    end: int


Outcome: TypeAlias = Exact | Earlier | NotReady | TooOld | Unknown | BeyondEnd
"""`partition` goes by its name on the cluster gone to, `offset` is one of its log there."""


class Basis(enum.Enum):
    """What an answer rests on."""

    OFFSET = "offset"
    """The offset that was asked about."""
    COMMITTED = "committed"
    """What the group has committed, read from its cluster now."""
    CHECKPOINT = "checkpoint"
    """The group's last checkpoints: its cluster was not asked, or did not answer."""
    TIME = "time"
    """Where that time begins in the log of the cluster asked about."""
    TIME_THERE = "time there"
    """Where that time begins in the log of the cluster gone to: the other did not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One position and what it is there. `partition` and `offset` are those of the cluster that is
    left; `offset` None: it was not asked. `metadata` is the group's own note. `written_ms`: when
    the checkpoint that it is from was written, in UTC milliseconds; None for any other basis."""

    partition: TopicPartition
    offset: int | None
    outcome: Outcome
    basis: Basis
    metadata: str = ""
    written_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlaces:
    """Where a group goes on, in order of partitions; empty where it has no positions.

    `silent` says why its cluster did not answer, "" where it did or nobody knows how to reach it.
    """

    group: str
    basis: Basis
    places: tuple[Place, ...]
    silent: str = ""


def offset_there(outcome: Outcome) -> int | None:
    """Where to go on, as far as there is such a place; it is never ahead of what was read."""
    match outcome:
        case Exact() | Earlier() | NotReady():
            return outcome.offset
        case TooOld() | Unknown() | BeyondEnd():
            return None
