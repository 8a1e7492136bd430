"""What is durably known of one partition when it is taken, as the worker reads it from the map
topic."""

from __future__ import annotations

from dataclasses import dataclass, field

from mm2.core.offsets import offset_map
from mm2.formats import map_record


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaProgress:
    """What the topics that MirrorMaker 2 keeps say of the partition; our own flows write them too.

    `next_offset`: the source offset behind the last record that the target acknowledged (its
    Connect source offset and 1), 0 where none was ever stored. `sync`: of an OffsetSync below it
    the two offsets (source, target), as `java_syncs.JavaSyncs.below` chooses; None without one.
    """

    next_offset: int
    sync: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableRecord:
    """`offset` is that of the map topic. `is_era`: its key is that of an era."""

    offset: int
    why: str
    is_era: bool = False


def unreadable(found: offset_map.Unreadable) -> UnreadableRecord:
    return UnreadableRecord(offset=found.offset, why=found.why, is_era=found.is_era)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The partition's newest era and anchor, every producer id of ours, an unanswered request.

    `untaken`: the era was begun by a newer owner than the anchor's, and holds nothing yet.
    `unreadable`: a record of the map that may concern the partition and cannot be read, so that
    all else may be wrong. `era_ordinal` is the place of the newest owner that began one, 0 for
    none. `producers` maps producer id to its ordinal.

    `source_position` answers the target offset that was asked about: the source offset to go on
    from when the target's log ends there. What is at `target_position` is to be compared from
    there on: mostly that is the same target offset, and an earlier one where the map is thin.
    `java` is None where neither Java nor we ever stored progress as Java does.
    """

    era_number: int = 0
    era: map_record.Era | None = None
    anchor: offset_map.Anchor | None = None
    untaken: bool = False
    era_ordinal: int = 0
    producers: dict[int, int] = field(default_factory=dict)
    request: map_record.Request | None = None
    source_position: int | None = None
    target_position: int | None = None
    java: JavaProgress | None = None
    unreadable: UnreadableRecord | None = None


def from_map(partition: offset_map.PartitionMap, *, target: int | None) -> Facts:
    """The facts that one partition's map holds; `target` as in `ReadFacts`."""
    number = partition.newest_era
    position = partition.source_position(target) if target is not None else None
    return Facts(
        era_number=number,
        era=partition.eras.get(number),
        anchor=partition.anchor,
        untaken=partition.untaken,
        era_ordinal=max((key.ordinal for key in partition.begun), default=0),
        producers={key: value.ordinal for key, value in partition.producers.items()},
        request=partition.open_request,
        source_position=None if position is None else position.source,
        target_position=None if position is None else position.target,
    )
