"""What may change of a flow while it runs, and what a later look at its clusters changes.

Who copies goes on copying: what a look does not find is no reason to end a copy, which learns by
itself when its topic is gone. Only a setting of the mirror that would spoil what is copied is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from connect_runtime.base import ids
from mm2.connectors import source_connector
from mm2.core import flows
from mm2.core.copy import messages, setup, start_positions
from mm2.core.offsets import offset_map
from mm2.core.topics import recreated


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebudget:
    """From now on the flow has these byte budgets."""

    budgets: flows.Budgets


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt:
    """From now on the flow mirrors what `plan` says; it was made by `connector`, which is the
    flow's from here on."""

    flow: flows.Flow
    connector: source_connector.SourceConnector
    plan: source_connector.SourcePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """`plan` is what a later look at both clusters found; of no use to another flow than `flow`."""

    flow: flows.Flow
    plan: source_connector.SourcePlan


Change = Rebudget | Adopt | Refreshed


def is_same(one: flows.Flow, other: flows.Flow) -> bool:
    """Is the same mirrored? Budgets may differ: they are followed as the flow runs."""
    return replace(one, budgets=other.budgets) == other


def same_share(one: messages.Configure, other: messages.Configure) -> bool:
    """May a copy that has the settings `one` go on under `other`?

    Brokers that remember producers longer than it believes are no reason to end it.
    """
    ours, theirs = _share(one), _share(other)
    return ours.keys() == theirs.keys() and all(
        mine.target_codec == later.target_codec
        and mine.old_after_ms <= later.old_after_ms
        and mine.renew_after_s <= later.renew_after_s
        for mine, later in ((ours[name], theirs[name]) for name in ours)
    )


def _share(task: messages.Configure) -> dict[str, setup.PartitionSetup]:
    return {each.name: each for each in task.partitions}


def as_known(
    plan: source_connector.SourcePlan, known: offset_map.OffsetMap
) -> source_connector.SourcePlan:
    """With what the flow's map says: where partitions start, and which of them belong to a topic
    that was created again."""
    kept, stopped = recreated.set_apart(plan.partitions, known)
    findings = (
        source_connector.Finding(
            partition=_name(where), cause=stop.cause.value, message=stop.message
        )
        for where, stop in stopped
    )
    return replace(
        plan,
        partitions=start_positions.settled(kept, known),
        findings=(*plan.findings, *findings),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """What is to be copied from now on, what cannot be, and lines for the log."""

    partitions: tuple[setup.PartitionSetup, ...]
    findings: tuple[source_connector.Finding, ...]
    news: tuple[str, ...]
    warnings: tuple[str, ...]


def merged(
    running: Sequence[setup.PartitionSetup],
    plan: source_connector.SourcePlan,
    *,
    known: Iterable[str],
) -> Later:
    """A later `plan` of the flow whose copies have `running`.

    Topics that are not among the `known` (copied, or found and told of before) came into being
    since, and so did further partitions of those that are copied: they begin at the earliest
    record, whatever the flow's start says.
    """
    before = {_name(each) for each in running}
    seen = set(known).difference(each.topic for each in before)
    found = {_name(each): each for each in plan.partitions}
    ended = {each.partition.topic for each in plan.findings if each.spoils}
    copied = {_name(each): each for each in running if each.topic not in ended}
    partitions = [
        each if each.topic in seen or name in before else replace(each, start="earliest")
        for name, each in found.items()
    ]
    partitions += [each for name, each in copied.items() if name not in found]
    return Later(
        partitions=tuple(sorted(partitions, key=_name)),
        findings=tuple(each for each in plan.findings if each.partition not in copied),
        news=tuple(_news(running, plan.partitions)),
        warnings=(*plan.warnings, *_troubles(copied, plan)),
    )


def adopted(running: Sequence[setup.PartitionSetup], plan: source_connector.SourcePlan) -> Later:
    """The `plan` of another configuration: what it does not want ends, and all that is new begins
    where the flow says. A topic that it wants is copied on, even if the look at it failed."""
    troubled = {each.partition.topic for each in plan.findings}
    wanted = [each for each in running if each.topic in troubled]
    later = merged(wanted, plan, known={each.topic for each in plan.partitions})
    return replace(later, news=tuple(_news(running, plan.partitions)))


def _news(
    running: Sequence[setup.PartitionSetup], found: Sequence[setup.PartitionSetup]
) -> Iterable[str]:
    before = Counter(each.topic for each in running)
    names = {_name(each) for each in running}
    more = Counter(each.topic for each in found if _name(each) not in names)
    for topic, count in sorted(more.items()):
        if topic in before:
            told = f"partitions: {count} more are mirrored, from their first records on"
        else:
            told = f"is mirrored from now on (partitions: {count})"
        yield f"topic {topic} {told}"


def _troubles(
    copied: Iterable[ids.TopicPartition], plan: source_connector.SourcePlan
) -> Iterable[str]:
    """Of topics that are copied all the same."""
    names = {each.topic for each in copied}
    told = {each.partition.topic: each.message for each in reversed(plan.findings)}
    yield from (told[topic] for topic in sorted(names & told.keys()))
    gone = names.difference(told, (each.topic for each in plan.partitions))
    for topic in sorted(gone):
        yield (
            f"topic {topic} is no longer listed by the source (deleted, or DESCRIBE is no longer "
            f"allowed): its mirror keeps what was copied"
        )


def _name(where: setup.PartitionSetup) -> ids.TopicPartition:
    return ids.TopicPartition(where.topic, where.partition)
