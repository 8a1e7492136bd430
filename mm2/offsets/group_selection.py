"""Selects the consumer groups to follow and assigns them to checkpoint tasks.

As `MirrorCheckpointConnector.findConsumerGroups`: groups that pass the group filter and have
committed offsets of a topic that passes the topic filter. Heartbeats, internal topics and cycles
make no difference here. Unlike in Java, a group that may not be read does not block the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from connect_runtime.api import connector
from connect_runtime.base.bounded_regex import MatchLimitError
from mm2.topics import assignment
from mm2.topics.filters import TopicOrGroupFilter
from mm2.topics.flow_config import Flow

CONSUMER_TYPES = ("classic", "consumer")
CONSUMER_PROTOCOLS = ("", "consumer")
STREAMS_ASSIGNOR = "stream"
"""Of Kafka Streams applications in classic groups, which are listed as consumer groups."""
UNSUPPORTED_GROUP_TYPES = ("share", "streams")
"""Groups of KIP-932 and KIP-1071: MirrorMaker 2 and mm2 follow consumer groups alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group as the cluster lists it; `type` "" on brokers before 3.7: they have classic ones.

    `protocol` "" is a group without members that others manage by hand: offsets, and no more.
    """

    group: str
    type: str = ""
    protocol: str = "consumer"

    @property
    def is_consumer(self) -> bool:
        """Groups of Connect workers and of streams, and share groups, commit no such offsets."""
        kind = self.type.lower() or CONSUMER_TYPES[0]
        return kind in CONSUMER_TYPES and self.protocol in CONSUMER_PROTOCOLS

    @property
    def unmoved_type(self) -> str:
        """One of `UNSUPPORTED_GROUP_TYPES`, "" for any other group."""
        kind = self.type.lower()
        return kind if kind in UNSUPPORTED_GROUP_TYPES else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredGroups:
    """Names of groups after the group filter, in order.

    `unmatched` are those that its expressions cannot be matched against in bounded time, with the
    reason: they are not followed, and do not stop the others.
    """

    taken: tuple[str, ...]
    unmatched: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedGroups:
    """One look at the source: `groups` are to be followed.

    `unread` are groups whose offsets could not be read: those known before are followed on.
    `unwritable` have ids that no task's configuration can hold.
    """

    groups: frozenset[str]
    unread: frozenset[str] = frozenset()
    unwritable: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSelectionChange:
    """What a look has brought; nothing in either means that tasks go on as they are."""

    new: frozenset[str]
    gone: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.new or self.gone)


def filter_candidates(flow: Flow, listed: Iterable[ListedGroup]) -> FilteredGroups:
    """The groups whose offsets are to be read."""
    return filter_groups(flow.groups, (each.group for each in listed if each.is_consumer))


def filter_groups(groups: TopicOrGroupFilter, names: Iterable[str]) -> FilteredGroups:
    """Apply the group filter to each name."""
    taken: list[str] = []
    unmatched: dict[str, str] = {}
    for name in sorted(names):
        try:
            if groups.takes(name):
                taken.append(name)
        except MatchLimitError as error:
            unmatched[name] = str(error)
    return FilteredGroups(taken=tuple(taken), unmatched=unmatched)


def select_groups(
    flow: Flow,
    topics: Mapping[str, Collection[str] | None],
    *,
    known: Collection[str] = (),
) -> SelectedGroups:
    """`topics`: of each candidate the topics that it has committed offsets of, None: unread."""
    unread = frozenset(group for group, found in topics.items() if found is None)
    wanted = {
        group
        for group, found in topics.items()
        if found is not None and any(map(flow.topics.takes, found))
    }
    wanted |= unread.intersection(known)
    unwritable = frozenset(filter(assignment.is_unwritable_group, wanted))
    return SelectedGroups(
        groups=frozenset(wanted) - unwritable, unread=unread, unwritable=unwritable
    )


def compare_selection(known: Collection[str], found: SelectedGroups) -> GroupSelectionChange:
    """Against the groups that are followed now."""
    return GroupSelectionChange(new=found.groups - set(known), gone=frozenset(known) - found.groups)


def assign_groups(groups: Iterable[str], tasks_max: int) -> list[list[str]]:
    """The first plan: runs of neighbours of about one size, none empty (Java's taskConfigs)."""
    ordered = sorted(groups)
    return connector.group_partitions(ordered, min(tasks_max, len(ordered))) if ordered else []


def reassign_groups(
    groups: Iterable[str], before: Sequence[Iterable[str]], tasks_max: int
) -> list[list[str]]:
    """A later plan: a group stays with its task, so that only tasks whose share changes restart."""
    return assignment.fill_empty_assignments(assignment.assign_sticky(groups, before, tasks_max))
