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
from mm2.core.copy import messages, setup


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
    """May a copy that has the settings `one` go on under `other`?"""
    return _share(one) == _share(other)


def _share(task: messages.Configure) -> dict[str, int | None]:
    return {each.name: each.target_codec for each in task.partitions}


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
    since: all their partitions begin at the earliest record, whatever the flow's start says.
    """
    seen = set(known)
    found = {_name(each): each for each in plan.partitions}
    ended = {each.partition.topic for each in plan.findings if each.spoils}
    copied = {_name(each): each for each in running if each.topic not in ended}
    partitions = [
        each if each.topic in seen else replace(each, start="earliest") for each in found.values()
    ]
    partitions += [each for name, each in copied.items() if name not in found]
    return Later(
        partitions=tuple(sorted(partitions, key=_name)),
        findings=tuple(each for each in plan.findings if each.partition not in copied),
        news=tuple(_news(running, plan.partitions)),
        warnings=(*plan.warnings, *_troubles(copied, plan)),
    )


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
