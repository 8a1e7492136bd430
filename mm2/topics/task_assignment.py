"""Assigns partitions and consumer groups to tasks, and reads and writes the task configurations.

The first plan is round-robin, as in Java. Later plans are sticky, so only tasks whose assignment
changes are restarted. The last plan is read from the task configurations in the group's config
topic, so any worker can compute the next plan without other state.

Task configurations use the format of `MirrorSourceConfig.taskConfigForTopicPartitions` and
`MirrorCheckpointConfig.taskConfigForConsumerGroups`, so a task can move between Java workers and
mm2. Java ignores the additional keys: `mm2.task.added.partitions` lists partitions that appeared
after the flow had started, and `mm2.task.throttle` is the task's part of the flow's throttle.

A flow's configured start position applies to topics that exist when the flow starts. A topic or
partition that appears later starts at its earliest record. Otherwise records between its creation
and its first replication would be lost. If it is unknown which case applies, the earliest record is
used.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from connect_runtime.api import config_types
from connect_runtime.api.config_def import Type
from connect_runtime.api.errors import ConfigError
from connect_runtime.base.ids import TopicPartition
from mm2.topics.flow_config import FlowThrottles

AssignedItem = TypeVar("AssignedItem", bound="SortableItem")

TASK_CONFIG_BYTES_MAX = 1_000_000
"""Maximum size of a task configuration as JSON. The config topic's brokers accept records of up to
1,048,588 bytes by default (`max.message.bytes`). A larger configuration could never be published,
and neither could the new configurations of the connector's other tasks."""
GROUP_ID_BYTES_MAX = 1_000
"""Maximum size in UTF-8 of the id of a group that is assigned to a task. Kafka accepts ids of up to
32,767 bytes, so a few of them would fill a task configuration."""


class SortableItem(Hashable, Protocol):
    """An item to assign: a partition or a consumer group id."""

    def __lt__(self, other: Any, /) -> bool: ...


def assign_round_robin(
    partitions: Iterable[AssignedItem], tasks_max: int
) -> list[list[AssignedItem]]:
    """Create the first plan: partition i, in order of name and number, is assigned to task i modulo
    n.

    n is `tasks_max` or the number of partitions, whichever is less
    (`MirrorSourceConnector.taskConfigs`). Unlike in Java, the order does not depend on hashing, so
    two workers with the same topics create the same plan.
    """
    assert tasks_max >= 1, tasks_max
    ordered = sorted(partitions)
    count = min(tasks_max, len(ordered))
    return [ordered[task::count] for task in range(count)]


def assign_sticky(
    partitions: Iterable[AssignedItem], before: Sequence[Iterable[AssignedItem]], tasks_max: int
) -> list[list[AssignedItem]]:
    """Create a later plan: partitions remain with their tasks, and new ones are assigned to the
    tasks with the fewest partitions.

    `before` is the previous plan. Tasks keep their index even if they become empty, and new tasks
    are appended up to `tasks_max`, so that only tasks with changes restart. Tasks beyond
    `tasks_max` lose their partitions. A partition that `before` assigns to two tasks remains with
    the first one.
    """
    assert tasks_max >= 1, tasks_max
    wanted = set(partitions)
    held = _drop_duplicate_items(before[:tasks_max])
    shares = [sorted(wanted & share) for share in held]
    # Among tasks with equally many partitions, one that must restart anyway comes first.
    by_size = [(len(share), len(share) == len(held[at]), at) for at, share in enumerate(shares)]
    heapq.heapify(by_size)
    for partition in sorted(wanted.difference(*shares)):
        if len(shares) < tasks_max and (not by_size or by_size[0][0]):
            heapq.heappush(by_size, (1, False, len(shares)))
            shares.append([partition])
        else:
            size, _, smallest = by_size[0]
            shares[smallest].append(partition)
            heapq.heapreplace(by_size, (size + 1, False, smallest))
    ended: list[list[AssignedItem]] = [[] for _ in before[tasks_max:]]
    return [sorted(share) for share in shares] + ended


def fill_empty_assignments(
    assignments: Iterable[Sequence[AssignedItem]],
) -> list[list[AssignedItem]]:
    """Replace each empty task assignment with the last assignment in the list, and remove empty
    assignments at the end.

    Java's workers fail a task whose configuration contains no partition.
    """
    found = [list(share) for share in assignments]
    while found and not found[-1]:
        found.pop()
    for at, share in enumerate(found):
        if not share and at < len(found) - 1:
            found[at] = found.pop()
            while found and not found[-1]:
                found.pop()
    return found


def compute_assignment_bytes_max(props: Mapping[str, str]) -> int:
    """Compute the bytes that remain for assigned items in a task configuration that also contains
    the connector's configuration `props`."""
    return TASK_CONFIG_BYTES_MAX - len(json.dumps(dict(props)))


def limit_assignment_bytes(
    plan: Sequence[Sequence[AssignedItem]],
    before: Sequence[Iterable[AssignedItem]],
    *,
    get_unit: Callable[[AssignedItem], str],
    compute_bytes: Callable[[AssignedItem], int],
    bytes_max: int,
) -> tuple[list[list[AssignedItem]], frozenset[str]]:
    """Leave out new items of a plan so that each task's items have at most `bytes_max` bytes.

    Returns the remaining assignments, and the units that were left out. A unit is the topic of a
    partition, or a group id. Items that `before` assigns to the same task remain. New items of one
    unit are added together or not at all, and units with few bytes first. Thus a topic with
    very many partitions does not prevent the assignment of other topics.
    """
    kept = [set(before[task]) if task < len(before) else set() for task in range(len(plan))]
    used = [
        sum(compute_bytes(item) for item in share if item in kept[task])
        for task, share in enumerate(plan)
    ]
    new: dict[str, Counter[int]] = defaultdict(Counter)
    for task, share in enumerate(plan):
        for item in share:
            if item not in kept[task]:
                new[get_unit(item)][task] += compute_bytes(item)
    left_out = set()
    for unit in sorted(new, key=lambda unit: (new[unit].total(), unit)):
        if all(used[task] + size <= bytes_max for task, size in new[unit].items()):
            for task, size in new[unit].items():
                used[task] += size
        else:
            left_out.add(unit)
    return [
        [item for item in share if item in kept[task] or get_unit(item) not in left_out]
        for task, share in enumerate(plan)
    ], frozenset(left_out)


def _drop_duplicate_items(before: Sequence[Iterable[AssignedItem]]) -> list[set[AssignedItem]]:
    seen: set[AssignedItem] = set()
    found = []
    for share in before:
        found.append(set(share) - seen)
        seen |= found[-1]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskThrottle:
    """One task's part of the flow's throttles in bytes per second. A value of 0 for `flow` means no
    limit."""

    flow: int
    topics: dict[str, int]


def split_throttles(
    whole: FlowThrottles, assignments: Sequence[Iterable[TopicPartition]]
) -> list[TaskThrottle]:
    """Split the flow's throttle equally among busy tasks, and a topic's throttle in proportion to
    its partitions.

    The sum never exceeds the total, whichever tasks are busy. Each part is at least 1 byte, because
    0 would mean no limit.
    """
    plain = [Counter(each.topic for each in share) for share in assignments]
    total = sum(plain, Counter())
    limits = {topic: whole.get_topic_throttle(topic) for topic in total}
    busy = sum(bool(topics) for topics in plain)
    return [
        TaskThrottle(
            flow=max(1, whole.flow // max(1, busy)) if whole.flow else 0,
            topics={
                topic: max(1, limit * count // total[topic])
                for topic, count in sorted(topics.items())
                if (limit := limits[topic]) is not None
            },
        )
        for topics in plain
    ]


PARTITIONS_KEY = "task.assigned.partitions"
GROUPS_KEY = "task.assigned.groups"
TASK_INDEX_KEY = "task.index"
ADDED_PARTITIONS_KEY = "mm2.task.added.partitions"
THROTTLE_KEY = "mm2.task.throttle"
TOPIC_THROTTLES_KEY = "mm2.task.throttle.topics"
NO_THROTTLES = FlowThrottles()
_THROTTLE_BYTES_MAX = len(f"={2**63},")


def build_partition_task_configs(
    props: Mapping[str, str],
    assignments: Sequence[Sequence[TopicPartition]],
    *,
    added: Collection[TopicPartition] = (),
    throttles: FlowThrottles = NO_THROTTLES,
) -> list[dict[str, str]]:
    """Create one configuration per task: the connector's configuration, with the task's partitions
    in the given order.

    No assignment may be empty, because Java cannot read such a configuration.
    """
    found = _build_task_configs(props, PARTITIONS_KEY, (map(str, share) for share in assignments))
    parts = split_throttles(throttles, assignments)
    for config, share, part in zip(found, assignments, parts, strict=True):
        late = [str(each) for each in share if each in added]
        limits = [f"{topic}={limit}" for topic, limit in part.topics.items()]
        own = {
            ADDED_PARTITIONS_KEY: ",".join(late),
            THROTTLE_KEY: str(part.flow or ""),
            TOPIC_THROTTLES_KEY: ",".join(limits),
        }
        config.update({key: text for key, text in own.items() if text})
    return found


def build_group_task_configs(
    props: Mapping[str, str], assignments: Iterable[Sequence[str]]
) -> list[dict[str, str]]:
    """Create one configuration per task with its groups. The caller must exclude group ids for
    which `is_group_unsafe_for_task_config` returns True."""
    return _build_task_configs(props, GROUPS_KEY, assignments)


def parse_partitions(props: Mapping[str, str]) -> list[TopicPartition]:
    """Parse the task's partitions. Raises `ConfigError` if the key is missing or an item is not
    `<topic>-<number>`."""
    return [_parse_partition(each, PARTITIONS_KEY) for each in _parse_list(props, PARTITIONS_KEY)]


def parse_added_partitions(props: Mapping[str, str]) -> frozenset[TopicPartition]:
    """Parse the list of partitions that start at the earliest record if they were never replicated.
    Raises `ConfigError`."""
    given = _parse_list(props, ADDED_PARTITIONS_KEY) if ADDED_PARTITIONS_KEY in props else []
    return frozenset(_parse_partition(each, ADDED_PARTITIONS_KEY) for each in given)


def parse_throttle(props: Mapping[str, str]) -> TaskThrottle:
    """Parse the task's throttles. Raises `ConfigError`."""
    given = _parse_list(props, TOPIC_THROTTLES_KEY) if TOPIC_THROTTLES_KEY in props else []
    topics = {}
    for each in given:
        topic, _, limit = each.rpartition("=")
        topics[topic] = _parse_byte_rate(TOPIC_THROTTLES_KEY, limit)
    flow = props.get(THROTTLE_KEY)
    return TaskThrottle(
        flow=0 if flow is None else _parse_byte_rate(THROTTLE_KEY, flow), topics=topics
    )


def parse_groups(props: Mapping[str, str]) -> frozenset[str]:
    """Parse the task's groups, which may be empty. Raises `ConfigError` if the key is missing."""
    return frozenset(_parse_list(props, GROUPS_KEY))


def parse_task_index(props: Mapping[str, str]) -> int | None:
    """Parse the task's index. Returns None if the configuration has no index. Raises
    `ConfigError`."""
    given = props.get(TASK_INDEX_KEY)
    if given is None:
        return None
    number = config_types.parse_value(TASK_INDEX_KEY, given, Type.INT)
    return int(number)


def is_group_unsafe_for_task_config(group: str) -> bool:
    """Return whether a group id would be read back differently or as several ids.

    Java nevertheless writes such an id to the task configuration, and its task then reads groups
    that do not exist. mm2 excludes the group. An id with `${` is also unwritable: a Connect worker
    resolves placeholders in task configurations, so an id such as `${file:/path:key}` would let any
    client of the source have the worker read a file. Ids of more than `GROUP_ID_BYTES_MAX` bytes
    are excluded too.
    """
    if "${" in group or len(group.encode(errors="replace")) > GROUP_ID_BYTES_MAX:
        return True
    found: list[str] = config_types.parse_value(GROUPS_KEY, group, Type.LIST)
    return found != [group]


def _build_task_configs(
    props: Mapping[str, str], key: str, shares: Iterable[Iterable[str]]
) -> list[dict[str, str]]:
    return [
        {**props, key: ",".join(share), TASK_INDEX_KEY: str(number)}
        for number, share in enumerate(shares)
    ]


def _parse_list(props: Mapping[str, str], key: str) -> list[str]:
    if key not in props:
        raise ConfigError(f'Missing required configuration "{key}" which has no default value.')
    found = config_types.parse_value(key, props[key], Type.LIST)
    return list(found)


def _parse_partition(text: str, key: str) -> TopicPartition:
    """Parse `<topic>-<number>`. Splits at the last dash, because topic names may contain dashes."""
    topic, dash, number = text.rpartition("-")
    if not dash or not number.isascii() or not number.isdecimal():
        raise config_types.build_invalid_value_error(key, text, "must be <topic>-<number>")
    return TopicPartition(topic, int(number))


def _parse_byte_rate(key: str, text: str) -> int:
    """Parse a rate in bytes per second."""
    if not text.isascii() or not text.isdecimal() or not int(text):
        raise config_types.build_invalid_value_error(
            key, text, "must be a number of bytes per second, at least 1"
        )
    return int(text)


NO_TOPICS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAssignment:
    """Partitions of one task. Those in `added` start at their earliest record."""

    partitions: tuple[TopicPartition, ...]
    added: frozenset[TopicPartition] = frozenset()

    def equals_unordered(self, other: PartitionAssignment) -> bool:
        """Return whether both assignments have the same partitions, in any order."""
        return set(self.partitions) == set(other.partitions) and self.added == other.added


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentPlan:
    """Planned assignment of each task. No assignment is empty."""

    assignments: list[PartitionAssignment]
    beyond_capacity: frozenset[TopicPartition] = frozenset()
    """Partitions that are assigned to no task, because the task configurations would become too
    large to be published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignableTopics:
    """Snapshot of the topics that a flow mirrors."""

    topics: frozenset[str]
    """All topics that the flow mirrors."""
    assignable: frozenset[TopicPartition]
    """Partitions that can be assigned."""
    uncertain: frozenset[str] = NO_TOPICS
    """Topics that have partitions which cannot be assigned at present but remain with their
    tasks."""


def parse_published_assignments(configs: Iterable[Mapping[str, str]]) -> list[PartitionAssignment]:
    """Parse the partition assignments in task configurations. An unreadable assignment is treated
    as empty."""
    return [_parse_assignment(each) for each in configs]


def list_assigned_topics(shares: Iterable[PartitionAssignment]) -> frozenset[str]:
    """Return the topics of all assigned partitions."""
    return frozenset(each.topic for share in shares for each in share.partitions)


def find_initial_topics(
    snapshot: AssignableTopics,
    before: Sequence[PartitionAssignment],
    was_mirrored: Callable[[str], bool],
) -> frozenset[str]:
    """Find the topics to which the flow's start position applies when the connector takes its first
    snapshot of the topics.

    `before` contains the previous assignments. `was_mirrored` returns whether a topic was mirrored
    under the configuration that produced these assignments.
    """
    if not any(share.partitions for share in before):
        return snapshot.topics
    return frozenset(topic for topic in snapshot.topics if not was_mirrored(topic))


def plan_assignments(
    snapshot: AssignableTopics,
    before: Sequence[PartitionAssignment],
    *,
    initial_topics: frozenset[str] | None,
    tasks_max: int,
    throttles: FlowThrottles = NO_THROTTLES,
    bytes_max: int = TASK_CONFIG_BYTES_MAX,
) -> AssignmentPlan:
    """Plan the assignment of each task, with at most `bytes_max` bytes in its task configuration.

    `initial_topics` contains the topics to which the flow's start position applies (from
    `find_initial_topics`); None means that all partitions start at their earliest record.
    """
    held = {each for share in before for each in share.partitions}
    handed = snapshot.assignable | {each for each in held if each.topic in snapshot.uncertain}
    added: set[TopicPartition] = set()
    if initial_topics is not None:
        added = {each for share in before for each in share.added}
        known = list_assigned_topics(before)
        new = handed - held
        added |= {each for each in new if each.topic in known or each.topic not in initial_topics}
    if held:
        plan = assign_sticky(handed, [share.partitions for share in before], tasks_max)
    else:
        plan = assign_round_robin(handed, tasks_max)
    throttled = {
        topic
        for topic in {each.topic for each in handed}
        if throttles.get_topic_throttle(topic) is not None
    }
    plan, topics_beyond_capacity = limit_assignment_bytes(
        plan,
        [share.partitions for share in before],
        get_unit=lambda partition: partition.topic,
        compute_bytes=lambda partition: _compute_partition_bytes(
            partition,
            is_added=partition in added,
            is_throttled=partition.topic in throttled,
        ),
        bytes_max=bytes_max,
    )
    ordered = [
        _keep_published_order(share, before, at)
        for at, share in enumerate(fill_empty_assignments(plan))
    ]
    unassigned = handed.difference(*ordered)
    return AssignmentPlan(
        assignments=[
            PartitionAssignment(partitions=share, added=frozenset(added.intersection(share)))
            for share in ordered
        ],
        beyond_capacity=frozenset(
            each for each in unassigned if each.topic in topics_beyond_capacity
        ),
    )


def does_plan_fit_task_configs(
    plan: Iterable[Iterable[TopicPartition]], *, throttles: FlowThrottles, bytes_max: int
) -> bool:
    """Return whether each task's partitions have at most `bytes_max` bytes in its task
    configuration, even if all of them are marked as added."""
    return all(
        sum(
            _compute_partition_bytes(each, is_added=True, is_throttled=bool(throttles.topics))
            for each in share
        )
        <= bytes_max
        for share in plan
    )


def _compute_partition_bytes(
    partition: TopicPartition, *, is_added: bool, is_throttled: bool
) -> int:
    """Compute the size of a partition's entries in a task configuration. The entry of the topic's
    throttle, which partitions share, is counted for each of them."""
    size = len(f"{partition},") * (2 if is_added else 1)
    return size + (len(partition.topic) + _THROTTLE_BYTES_MAX if is_throttled else 0)


def find_mirror_name_conflicts(
    names: Iterable[str], remote: Callable[[str], str]
) -> dict[str, frozenset[str]]:
    """Find topics that have the same mirror topic. The result is keyed by the mirror topic's name.

    Only a custom replication policy can cause such a conflict. The topics' records could no longer
    be distinguished.
    """
    found: dict[str, set[str]] = {}
    for name in names:
        found.setdefault(remote(name), set()).add(name)
    return {mirror: frozenset(each) for mirror, each in found.items() if len(each) > 1}


def redistribute_partitions(
    before: Sequence[PartitionAssignment], plan: Iterable[Sequence[TopicPartition]]
) -> list[PartitionAssignment]:
    """Assign the same partitions according to a new plan. Partitions marked as `added` keep that
    mark."""
    added = {each for share in before for each in share.added}
    return [
        PartitionAssignment(partitions=tuple(share), added=frozenset(added.intersection(share)))
        for share in plan
    ]


def do_assignments_differ(
    before: Sequence[PartitionAssignment], after: Sequence[PartitionAssignment]
) -> bool:
    """Return whether any task's assignment differs."""
    return len(before) != len(after) or not all(
        mine.equals_unordered(theirs) for mine, theirs in zip(before, after, strict=True)
    )


def _keep_published_order(
    share: Sequence[TopicPartition], before: Sequence[PartitionAssignment], at: int
) -> tuple[TopicPartition, ...]:
    """Keep the published partition order of an unchanged assignment, because Java's leaders write
    partitions in any order."""
    if at < len(before) and set(before[at].partitions) == set(share):
        return before[at].partitions
    return tuple(share)


def _parse_assignment(config: Mapping[str, str]) -> PartitionAssignment:
    try:
        return PartitionAssignment(
            partitions=tuple(parse_partitions(config)), added=parse_added_partitions(config)
        )
    except ConfigError:
        return PartitionAssignment(partitions=())
