"""What a task is assigned, as its configuration says it: partitions, or groups, and its number.

Java's leaders write the same texts (`MirrorSourceConfig.taskConfigForTopicPartitions`,
`MirrorCheckpointConfig.taskConfigForConsumerGroups`), so that a task may move between Java's
workers and ours with the configuration that either wrote.

Keys of ours are beside them where they say something; Java ignores them. `ADDED` names partitions
that came into being after their flow had begun, and so start at their first record (of a Java
leader's tasks none are named: they start as configured). `THROTTLE` is the task's share of what the
flow may use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from connect_runtime.api import config_def, config_types, errors
from connect_runtime.base import ids
from mm2.core import flows
from mm2.core.topics import split

PARTITIONS = "task.assigned.partitions"
GROUPS = "task.assigned.groups"
INDEX = "task.index"
ADDED = "mm2.task.added.partitions"
THROTTLE = "mm2.task.throttle"
TOPIC_THROTTLES = "mm2.task.throttle.topics"
NO_BUDGETS = flows.Budgets()


def partition_configs(
    props: Mapping[str, str],
    shares: Sequence[Sequence[ids.TopicPartition]],
    *,
    added: Collection[ids.TopicPartition] = (),
    budgets: flows.Budgets = NO_BUDGETS,
) -> list[dict[str, str]]:
    """A configuration for each task: the connector's, with its share of partitions in that order.

    An empty share has no configuration in Java, which cannot read one: callers leave none empty.
    """
    found = _configs(props, PARTITIONS, (map(str, share) for share in shares))
    parts = split.budgets(budgets, shares)
    for config, share, part in zip(found, shares, parts, strict=True):
        late = [str(each) for each in share if each in added]
        limits = [f"{topic}={limit}" for topic, limit in part.topics.items()]
        own = {
            ADDED: ",".join(late),
            THROTTLE: str(part.flow or ""),
            TOPIC_THROTTLES: ",".join(limits),
        }
        config.update({key: text for key, text in own.items() if text})
    return found


def group_configs(
    props: Mapping[str, str], shares: Iterable[Sequence[str]]
) -> list[dict[str, str]]:
    """The same for groups; `unwritable` names those whose ids do not survive it."""
    return _configs(props, GROUPS, shares)


def partitions(props: Mapping[str, str]) -> list[ids.TopicPartition]:
    """Raises `ConfigError`: there are none, or one that is not `<topic>-<number>`."""
    return [_partition(each, PARTITIONS) for each in _listed(props, PARTITIONS)]


def added(props: Mapping[str, str]) -> frozenset[ids.TopicPartition]:
    """Those that start at their first record, whatever the flow's start is, unless there is
    progress of them. Raises `ConfigError`."""
    given = _listed(props, ADDED) if ADDED in props else []
    return frozenset(_partition(each, ADDED) for each in given)


def budget(props: Mapping[str, str]) -> split.TaskBudget:
    """Raises `ConfigError`."""
    given = _listed(props, TOPIC_THROTTLES) if TOPIC_THROTTLES in props else []
    topics = {}
    for each in given:
        topic, _, limit = each.rpartition("=")
        topics[topic] = _rate(TOPIC_THROTTLES, limit)
    flow = props.get(THROTTLE)
    return split.TaskBudget(flow=0 if flow is None else _rate(THROTTLE, flow), topics=topics)


def groups(props: Mapping[str, str]) -> frozenset[str]:
    """Raises `ConfigError`: the key is missing. (No groups at all are none.)"""
    return frozenset(_listed(props, GROUPS))


def index(props: Mapping[str, str]) -> int | None:
    """The task's number; None where it was never written. Raises `ConfigError`."""
    given = props.get(INDEX)
    if given is None:
        return None
    number = config_types.parse(INDEX, given, config_def.Type.INT)
    return int(number)


def unwritable(group: str) -> bool:
    """Would the id of a group come back as another one, or as several?

    Java writes it all the same, and follows groups that do not exist; ours leaves it out.
    """
    found: list[str] = config_types.parse(GROUPS, group, config_def.Type.LIST)
    return found != [group]


def _configs(
    props: Mapping[str, str], key: str, shares: Iterable[Iterable[str]]
) -> list[dict[str, str]]:
    return [
        {**props, key: ",".join(share), INDEX: str(number)} for number, share in enumerate(shares)
    ]


def _listed(props: Mapping[str, str], key: str) -> list[str]:
    if key not in props:
        raise errors.ConfigError(
            f'Missing required configuration "{key}" which has no default value.'
        )
    found = config_types.parse(key, props[key], config_def.Type.LIST)
    return list(found)


def _partition(text: str, key: str) -> ids.TopicPartition:
    """At the last dash, since topics may have dashes, too."""
    topic, dash, number = text.rpartition("-")
    if not dash or not number.isascii() or not number.isdecimal():
        raise config_types.invalid(key, text, "it has to be <topic>-<number>")
    return ids.TopicPartition(topic, int(number))


def _rate(key: str, text: str) -> int:
    """Bytes per second."""
    if not text.isascii() or not text.isdecimal() or not int(text):
        raise config_types.invalid(key, text, "it has to be bytes per second, 1 at least")
    return int(text)
