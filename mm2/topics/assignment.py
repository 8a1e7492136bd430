"""Assigns partitions and consumer groups to tasks, and reads and writes those task configurations.

The first plan is round-robin, as in Java; later plans are sticky, so only tasks whose
assignment changes are restarted. The last plan is read from the task configurations in the
group's config topic, so any worker can compute the next one without other state.

Task configurations use the format of `MirrorSourceConfig.taskConfigForTopicPartitions` and
`MirrorCheckpointConfig.taskConfigForConsumerGroups`, so a task can move between Java workers
and mm2. Java ignores the additional keys: `mm2.task.added.partitions` lists partitions that
appeared after the flow had started, and `mm2.task.throttle` is the task's share of the flow's
throttle.

A flow's configured start position applies to topics that exist when the flow starts. A topic or
partition that appears later starts at its earliest record, or records between its creation and
its first copy would be lost. If it is unknown which case applies, the earliest record is used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from connect_runtime.api import config_types
from connect_runtime.api.config_def import Type
from connect_runtime.api.errors import ConfigError
from connect_runtime.base.ids import TopicPartition
from mm2.topics.flow_config import FlowThrottles

AssignedItem = TypeVar("AssignedItem", bound="SortableItem")


class SortableItem(Hashable, Protocol):
    """Partitions, or ids of groups."""

    def __lt__(self, other: Any, /) -> bool: ...


def assign_round_robin(
    partitions: Iterable[AssignedItem], tasks_max: int
) -> list[list[AssignedItem]]:
    """The first plan: partition i, in order of name and number, goes to task i modulo n.

    n is `tasks_max` or the number of partitions, whichever is less; no partitions, no tasks
    (`MirrorSourceConnector.taskConfigs`). Unlike Java's, the order does not depend on hashing, so
    that two workers that see the same topics make the same plan.
    """
    assert tasks_max >= 1, tasks_max
    ordered = sorted(partitions)
    count = min(tasks_max, len(ordered))
    return [ordered[task::count] for task in range(count)]


def assign_sticky(
    partitions: Iterable[AssignedItem], before: Sequence[Iterable[AssignedItem]], tasks_max: int
) -> list[list[AssignedItem]]:
    """A later plan: whoever copied a partition goes on; new ones go where there are fewest.

    Task i of `before` is task i of the result, which may be empty; new tasks come behind, as long
    as there are fewer than `tasks_max`. So only tasks whose share changes have to be told.
    Of more tasks than `tasks_max` the last ones lose theirs; of what two tasks hold, both written
    by other planners, the first keeps it.
    """
    assert tasks_max >= 1, tasks_max
    wanted = set(partitions)
    held = _drop_duplicates(before[:tasks_max])
    shares = [sorted(wanted & share) for share in held]
    for partition in sorted(wanted.difference(*shares)):
        smallest = min(
            range(len(shares)),
            key=lambda at: (len(shares[at]), _is_unchanged(shares, held, at)),
            default=-1,
        )
        if len(shares) < tasks_max and (smallest < 0 or shares[smallest]):
            shares.append([partition])
        else:
            assert smallest >= 0, tasks_max
            shares[smallest].append(partition)
    ended: list[list[AssignedItem]] = [[] for _ in before[tasks_max:]]
    return [sorted(share) for share in shares] + ended


def fill_empty_assignments(shares: Iterable[Sequence[AssignedItem]]) -> list[list[AssignedItem]]:
    """No share is empty: the last ones take the places of those that are.

    Java's workers fail a task whose configuration names no partition.
    """
    found = [list(share) for share in shares]
    while found and not found[-1]:
        found.pop()
    for at, share in enumerate(found):
        if not share and at < len(found) - 1:
            found[at] = found.pop()
            while found and not found[-1]:
                found.pop()
    return found


def _drop_duplicates(before: Sequence[Iterable[AssignedItem]]) -> list[set[AssignedItem]]:
    seen: set[AssignedItem] = set()
    found = []
    for share in before:
        found.append(set(share) - seen)
        seen |= found[-1]
    return found


def _is_unchanged(
    shares: Sequence[Iterable[AssignedItem]], held: Sequence[set[AssignedItem]], at: int
) -> bool:
    """Would this task notice nothing so far? Of equal ones, one that changes anyway is taken."""
    return at < len(held) and set(shares[at]) == held[at]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskThrottle:
    """One task's share of the flow's budgets, in bytes per second; `flow` 0: no limit."""

    flow: int
    topics: dict[str, int]


def split_throttles(
    whole: FlowThrottles, shares: Sequence[Iterable[TopicPartition]]
) -> list[TaskThrottle]:
    """The flow's budget goes to its tasks in equal parts, a topic's by its partitions.

    So the sum never exceeds the whole, whichever tasks are busy; a share is 1 byte at least, since
    0 would mean no limit.
    """
    plain = [Counter(each.topic for each in share) for share in shares]
    total = sum(plain, Counter())
    limits = {topic: whole.of_topic(topic) for topic in total}
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


def build_partition_task_configs(
    props: Mapping[str, str],
    shares: Sequence[Sequence[TopicPartition]],
    *,
    added: Collection[TopicPartition] = (),
    budgets: FlowThrottles = NO_THROTTLES,
) -> list[dict[str, str]]:
    """A configuration for each task: the connector's, with its share of partitions in that order.

    An empty share has no configuration in Java, which cannot read one: callers leave none empty.
    """
    found = _build_task_configs(props, PARTITIONS_KEY, (map(str, share) for share in shares))
    parts = split_throttles(budgets, shares)
    for config, share, part in zip(found, shares, parts, strict=True):
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
    props: Mapping[str, str], shares: Iterable[Sequence[str]]
) -> list[dict[str, str]]:
    """The same for groups; `is_unwritable_group` names those whose ids do not survive it."""
    return _build_task_configs(props, GROUPS_KEY, shares)


def parse_partitions(props: Mapping[str, str]) -> list[TopicPartition]:
    """Raises `ConfigError`: there are none, or one that is not `<topic>-<number>`."""
    return [_parse_partition(each, PARTITIONS_KEY) for each in _parse_list(props, PARTITIONS_KEY)]


def parse_added_partitions(props: Mapping[str, str]) -> frozenset[TopicPartition]:
    """Those that start at their first record, whatever the flow's start is, unless there is
    progress of them. Raises `ConfigError`."""
    given = _parse_list(props, ADDED_PARTITIONS_KEY) if ADDED_PARTITIONS_KEY in props else []
    return frozenset(_parse_partition(each, ADDED_PARTITIONS_KEY) for each in given)


def parse_throttle(props: Mapping[str, str]) -> TaskThrottle:
    """Raises `ConfigError`."""
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
    """Raises `ConfigError`: the key is missing. (No groups at all are none.)"""
    return frozenset(_parse_list(props, GROUPS_KEY))


def parse_task_index(props: Mapping[str, str]) -> int | None:
    """The task's number; None where it was never written. Raises `ConfigError`."""
    given = props.get(TASK_INDEX_KEY)
    if given is None:
        return None
    number = config_types.parse_value(TASK_INDEX_KEY, given, Type.INT)
    return int(number)


def is_unwritable_group(group: str) -> bool:
    """Would the id of a group come back as another one, or as several?

    Java writes it all the same, and follows groups that do not exist; ours leaves it out.
    """
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
    """At the last dash, since topics may have dashes, too."""
    topic, dash, number = text.rpartition("-")
    if not dash or not number.isascii() or not number.isdecimal():
        raise config_types.invalid(key, text, "it has to be <topic>-<number>")
    return TopicPartition(topic, int(number))


def _parse_byte_rate(key: str, text: str) -> int:
    """Bytes per second."""
    if not text.isascii() or not text.isdecimal() or not int(text):
        raise config_types.invalid(key, text, "it has to be bytes per second, 1 at least")
    return int(text)


NO_TOPICS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAssignment:
    """What one task has; `added` start at their first record."""

    partitions: tuple[TopicPartition, ...]
    added: frozenset[TopicPartition] = frozenset()

    def is_as(self, other: PartitionAssignment) -> bool:
        """The same in any order."""
        return set(self.partitions) == set(other.partitions) and self.added == other.added


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignableTopics:
    """What a look found. `list_assigned_topics` are all that the flow mirrors; `copyable` can be
    handed out; of `unsure` topics some cannot for the time being, which is no reason to take them
    from a task."""

    topics: frozenset[str]
    copyable: frozenset[TopicPartition]
    unsure: frozenset[str] = NO_TOPICS


def parse_published_assignments(configs: Iterable[Mapping[str, str]]) -> list[PartitionAssignment]:
    """What task configurations say; one that cannot be read is an empty share."""
    return [_parse_assignment(each) for each in configs]


def list_assigned_topics(shares: Iterable[PartitionAssignment]) -> frozenset[str]:
    return frozenset(each.topic for share in shares for each in share.partitions)


def find_initial_topics(
    looked: AssignableTopics,
    before: Sequence[PartitionAssignment],
    wanted_before: Callable[[str], bool],
) -> frozenset[str]:
    """Topics that the flow's start is for, as the first look of a connector shows them.

    `wanted_before`: were they mirrored under the configuration that `before` was made with?
    """
    if not any(share.partitions for share in before):
        return looked.topics
    return frozenset(topic for topic in looked.topics if not wanted_before(topic))


def plan_assignments(
    looked: AssignableTopics,
    before: Sequence[PartitionAssignment],
    *,
    beginning: frozenset[str] | None,
    tasks_max: int,
) -> list[PartitionAssignment]:
    """What each task has now; none of them nothing.

    `beginning` as `find_initial_topics` says; None: all start at their first record anyway.
    """
    held = {each for share in before for each in share.partitions}
    handed = looked.copyable | {each for each in held if each.topic in looked.unsure}
    late: set[TopicPartition] = set()
    if beginning is not None:
        late = {each for share in before for each in share.added}
        known = list_assigned_topics(before)
        new = handed - held
        late |= {each for each in new if each.topic in known or each.topic not in beginning}
    if held:
        plan = assign_sticky(handed, [share.partitions for share in before], tasks_max)
    else:
        plan = assign_round_robin(handed, tasks_max)
    ordered = [
        _keep_published_order(share, before, at)
        for at, share in enumerate(fill_empty_assignments(plan))
    ]
    return [
        PartitionAssignment(partitions=share, added=frozenset(late.intersection(share)))
        for share in ordered
    ]


def find_mirror_name_conflicts(
    names: Iterable[str], remote: Callable[[str], str]
) -> dict[str, frozenset[str]]:
    """Topics that would have one mirror between them, by its name. No policy of Java's does that,
    only one of the user's own can; their records could not be told apart any more."""
    found: dict[str, set[str]] = {}
    for name in names:
        found.setdefault(remote(name), set()).add(name)
    return {mirror: frozenset(each) for mirror, each in found.items() if len(each) > 1}


def rearrange_assignments(
    before: Sequence[PartitionAssignment], plan: Iterable[Sequence[TopicPartition]]
) -> list[PartitionAssignment]:
    """The same partitions in other shares; what came later still did."""
    late = {each for share in before for each in share.added}
    return [
        PartitionAssignment(partitions=tuple(share), added=frozenset(late.intersection(share)))
        for share in plan
    ]


def do_assignments_differ(
    one: Sequence[PartitionAssignment], other: Sequence[PartitionAssignment]
) -> bool:
    """Would any task notice?"""
    return len(one) != len(other) or not all(
        mine.is_as(theirs) for mine, theirs in zip(one, other, strict=True)
    )


def _keep_published_order(
    share: Sequence[TopicPartition], before: Sequence[PartitionAssignment], at: int
) -> tuple[TopicPartition, ...]:
    """As it was written, if it is the same: Java's leaders write them in no order."""
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
