"""What a task is assigned, as its configuration says it: partitions, or groups, and its number.

Java's leaders write the same texts (`MirrorSourceConfig.taskConfigForTopicPartitions`,
`MirrorCheckpointConfig.taskConfigForConsumerGroups`), so that a task may move between Java's
workers and ours with the configuration that either wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from connect_runtime.api import config_def, config_types, errors
from connect_runtime.base import ids

PARTITIONS = "task.assigned.partitions"
GROUPS = "task.assigned.groups"
INDEX = "task.index"


def partition_configs(
    props: Mapping[str, str], shares: Iterable[Sequence[ids.TopicPartition]]
) -> list[dict[str, str]]:
    """A configuration for each task: the connector's, with its share of partitions in that order.

    An empty share has no configuration in Java, which cannot read one: callers leave none empty.
    """
    return _configs(props, PARTITIONS, (map(str, share) for share in shares))


def group_configs(
    props: Mapping[str, str], shares: Iterable[Sequence[str]]
) -> list[dict[str, str]]:
    """The same for groups; `unwritable` names those whose ids do not survive it."""
    return _configs(props, GROUPS, shares)


def partitions(props: Mapping[str, str]) -> list[ids.TopicPartition]:
    """Raises `ConfigError`: there are none, or one that is not `<topic>-<number>`."""
    return [_partition(each) for each in _listed(props, PARTITIONS)]


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


def _partition(text: str) -> ids.TopicPartition:
    """At the last dash, since topics may have dashes, too."""
    topic, dash, number = text.rpartition("-")
    if not dash or not number.isascii() or not number.isdecimal():
        raise config_types.invalid(PARTITIONS, text, "it has to be <topic>-<number>")
    return ids.TopicPartition(topic, int(number))
