"""What is copied of a task's share: as both clusters look, and as the flow's map has it.

Who copies goes on copying: what a later look does not find is no reason to end a copy, which learns
by itself when its topic is gone. Only a setting of the mirror that would spoil what is copied is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from connect_runtime.base import ids
from mm2.connectors.topics import partition_setups
from mm2.core.copy import facts, setup, start_positions, stops
from mm2.core.offsets import offset_map
from mm2.core.topics import recreated

Setups = tuple[setup.PartitionSetup, ...]


def settled(
    plan: partition_setups.SourcePlan,
    known: offset_map.OffsetMap,
    *,
    added: Collection[ids.TopicPartition],
) -> partition_setups.SourcePlan:
    """With what the flow's map says: where partitions start, and which of them belong to a topic
    that was created again. `added` came to the flow later: they start at their earliest record.

    Both follow from the eras of a topic's other partitions, so a partition without progress is not
    copied while a record is unreadable that may be one of those: see `waits_for_map`.
    """
    unreadable = [(each, _unreadable(each, known)) for each in plan.partitions]
    readable = [each for each, stop in unreadable if stop is None]
    kept, stopped = recreated.set_apart(readable, known)
    held_back = [(each, stop) for each, stop in unreadable if stop is not None]
    findings = (
        partition_setups.Finding(partition=name(where), cause=stop.cause.value, message=stop.text)
        for where, stop in (*held_back, *stopped)
    )
    later = frozenset(added)
    kept = [replace(each, start="earliest") if name(each) in later else each for each in kept]
    return replace(
        plan,
        partitions=start_positions.settled(kept, known),
        findings=(*plan.findings, *findings),
    )


def waits_for_map(plan: partition_setups.SourcePlan, known: offset_map.OffsetMap) -> bool:
    """Must `plan` be settled again once the map is readable?"""
    return any(_unreadable(each, known) is not None for each in plan.partitions)


def _unreadable(where: setup.PartitionSetup, known: offset_map.OffsetMap) -> stops.Stop | None:
    """Of a partition without progress; any other one does not need its siblings, and its take
    itself sees what is unreadable."""
    mine = known.partition(name(where))
    if mine.newest_era or mine.open_request is not None:
        return None
    return next(
        (
            stops.map_unreadable(where, facts.unreadable(each))
            for each in known.unreadable(name(where))
        ),
        None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """What is to be copied from now on and what cannot be; `troubles` are lines about what is
    copied all the same."""

    partitions: Setups
    findings: tuple[partition_setups.Finding, ...]
    troubles: tuple[str, ...]


def merged(running: Sequence[setup.PartitionSetup], plan: partition_setups.SourcePlan) -> Later:
    """A later `plan` of the share of which `running` are copied."""
    spoilt = {each.partition for each in plan.findings if each.spoils}
    copied = {name(each): each for each in running if name(each) not in spoilt}
    found = {name(each): each for each in plan.partitions}
    partitions = {**copied, **found}
    told = {each.partition: each.message for each in plan.findings}
    return Later(
        partitions=tuple(partitions[each] for each in sorted(partitions)),
        findings=tuple(each for each in plan.findings if each.partition not in copied),
        troubles=tuple(dict.fromkeys(told[each] for each in sorted(copied.keys() & told.keys()))),
    )


def same(one: Iterable[setup.PartitionSetup], other: Iterable[setup.PartitionSetup]) -> bool:
    """May a copy of `one` go on where `other` was found?

    Brokers that remember producers longer than it believes are no reason to end it.
    """
    ours = {each.name: each for each in one}
    theirs = {each.name: each for each in other}
    return ours.keys() == theirs.keys() and all(
        mine.target_codec == later.target_codec
        and mine.old_after_ms <= later.old_after_ms
        and mine.renew_after_s <= later.renew_after_s
        for mine, later in ((ours[each], theirs[each]) for each in ours)
    )


def name(where: setup.PartitionSetup) -> ids.TopicPartition:
    """The source partition that a setup is of."""
    return ids.TopicPartition(where.topic, where.partition)
