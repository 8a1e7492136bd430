"""Selects the consumer groups for which checkpoints are written, and assigns them to checkpoint
tasks.

As in `MirrorCheckpointConnector.findConsumerGroups`, these are the groups that pass the group
filter and have committed offsets of a topic that passes the topic filter. Unlike in Java, the topic
must also be replicated (not an internal topic or a topic that came from the target), and a group
that mm2 is not authorized to read does not block the other groups.
"""

from __future__ import annotations

import functools
import heapq
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from connect_runtime.api import connector
from connect_runtime.base.bounded_regex import MatchLimitError
from mm2.topics import task_assignment, topic_selection
from mm2.topics.flow_config import Flow
from mm2.topics.topic_filters import TopicOrGroupFilter

CONSUMER_TYPES = ("classic", "consumer")
CONSUMER_PROTOCOLS = ("", "consumer")
STREAMS_ASSIGNOR = "stream"
"""Protocol name of Kafka Streams applications in classic groups. Such groups are listed as consumer
groups."""
UNSUPPORTED_GROUP_TYPES = ("share", "streams")
"""Group types of KIP-932 (share groups) and KIP-1071 (streams groups). Like MirrorMaker 2, mm2
writes checkpoints for consumer groups only."""
GROUPS_MAX = 100_000
"""Maximum number of groups of a flow. Any client of the source can create groups, and each group
costs CPU time whenever the groups are assigned to tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group as listed by the cluster.

    `type` is "" on brokers before 3.7, which only have classic groups. `protocol` is "" for a group
    without members that only commits offsets and does not use group management, for example a
    consumer with manually assigned partitions.
    """

    group: str
    type: str = ""
    protocol: str = "consumer"

    @property
    def is_consumer(self) -> bool:
        """True if the group commits consumer offsets, unlike Connect, streams and share groups."""
        kind = self.type.lower() or CONSUMER_TYPES[0]
        return kind in CONSUMER_TYPES and self.protocol in CONSUMER_PROTOCOLS

    @property
    def unsupported_type(self) -> str:
        """The group's type if it is one of `UNSUPPORTED_GROUP_TYPES`, else ""."""
        kind = self.type.lower()
        return kind if kind in UNSUPPORTED_GROUP_TYPES else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredGroups:
    """Result of applying the group filter: the sorted names of the groups that pass it, and the
    groups whose names could not be matched in bounded time."""

    accepted: tuple[str, ...]
    """Groups that pass the filter."""
    unmatched: Mapping[str, str]
    """Groups whose names cannot be matched in bounded time, with the reason. No checkpoints are
    written for these groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedGroups:
    """Groups for which checkpoints are written, selected from one snapshot of the source
    cluster."""

    groups: frozenset[str]
    unread: frozenset[str] = frozenset()
    """Groups whose committed offsets could not be read. Those that were selected before remain in
    `groups`."""
    unwritable: frozenset[str] = frozenset()
    """Groups whose ids cannot be represented in a task configuration."""
    beyond_limit: frozenset[str] = frozenset()
    """Groups that were left out because the flow has the maximum number of groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSelectionChange:
    """Difference between two group selections. Evaluates to False if nothing changed."""

    new: frozenset[str]
    gone: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.new or self.gone)


def filter_listed_groups(flow: Flow, listed: Iterable[ListedGroup]) -> FilteredGroups:
    """Select the listed groups that are consumer groups and pass the group filter. The caller then
    reads their committed offsets and calls `select_groups`."""
    return filter_groups(flow.groups, (each.group for each in listed if each.is_consumer))


def filter_groups(groups: TopicOrGroupFilter, names: Iterable[str]) -> FilteredGroups:
    """Apply the group filter to each name."""
    taken: list[str] = []
    unmatched: dict[str, str] = {}
    for name in sorted(names):
        try:
            if groups.matches(name):
                taken.append(name)
        except MatchLimitError as error:
            unmatched[name] = str(error)
    return FilteredGroups(accepted=tuple(taken), unmatched=unmatched)


def select_groups(
    flow: Flow,
    topics: Mapping[str, Collection[str] | None],
    *,
    followed: Collection[str] = (),
    groups_max: int = GROUPS_MAX,
) -> SelectedGroups:
    """Select at most `groups_max` groups for which checkpoints are written: first those in
    `followed`, for which checkpoints are currently written, then those with the shortest ids.
    `topics` maps each candidate group to the topics for which it has committed offsets, or to None
    if its offsets cannot be read."""
    unread = frozenset(group for group, found in topics.items() if found is None)
    has_checkpoints = functools.cache(
        functools.partial(topic_selection.should_checkpoint_topic, flow)
    )
    wanted = {
        group
        for group, found in topics.items()
        if found is not None and any(map(has_checkpoints, found))
    }
    wanted |= unread.intersection(followed)
    unwritable = frozenset(filter(task_assignment.is_group_unsafe_for_task_config, wanted))
    wanted -= unwritable
    selected = wanted.intersection(followed)
    selected.update(
        heapq.nsmallest(
            max(0, groups_max - len(selected)),
            wanted - selected,
            key=lambda group: (len(group), group),
        )
    )
    return SelectedGroups(
        groups=frozenset(selected),
        unread=unread,
        unwritable=unwritable,
        beyond_limit=frozenset(wanted - selected),
    )


def compute_selection_change(
    followed: Collection[str], selected: SelectedGroups
) -> GroupSelectionChange:
    """Return which groups are new in the selection and which are gone, compared with the groups for
    which checkpoints are currently written."""
    return GroupSelectionChange(
        new=selected.groups - set(followed), gone=frozenset(followed) - selected.groups
    )


def assign_groups(groups: Iterable[str], tasks_max: int) -> list[list[str]]:
    """Assign groups to tasks for the first time, in consecutive blocks of similar size. No task is
    empty (Java: `taskConfigs`)."""
    ordered = sorted(groups)
    return connector.group_partitions(ordered, min(tasks_max, len(ordered))) if ordered else []


def reassign_groups(
    groups: Iterable[str], before: Sequence[Iterable[str]], tasks_max: int
) -> list[list[str]]:
    """Assign groups to tasks again. Each group remains with its task, so that only tasks with
    changes restart."""
    return task_assignment.fill_empty_assignments(
        task_assignment.assign_sticky(groups, before, tasks_max)
    )


def limit_group_assignments(
    assignments: Sequence[Sequence[str]], before: Sequence[Iterable[str]], bytes_max: int
) -> tuple[list[list[str]], frozenset[str]]:
    """Leave out new groups for whose ids the task configurations have no room, those with the
    longest ids first. Returns the remaining assignments and the groups that were left out."""
    limited, left_out = task_assignment.limit_assignment_bytes(
        assignments,
        before,
        get_unit=str,
        compute_bytes=lambda group: len(json.dumps(group)),
        bytes_max=bytes_max,
    )
    return task_assignment.fill_empty_assignments(limited), left_out
