"""What a MirrorSourceTask's configuration gives it to copy, and which changes it takes up live."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect_runtime.api import errors
from connect_runtime.base import ids
from mm2.core.configs import connector_configs, live, own_keys
from mm2.core.configs import connector_keys as keys
from mm2.core.copy import record_transforms
from mm2.core.topics import assigned, split

_LIVE = frozenset(
    {
        own_keys.THROTTLE,
        own_keys.TOPIC_THROTTLES,
        own_keys.JAVA_STOPPED,
        assigned.THROTTLE,
        assigned.TOPIC_THROTTLES,
        assigned.ADDED,
    }
)
"""What a task can take up as it copies, beside what operators set; `ADDED` and `JAVA_STOPPED`
matter before it began only."""
_OF_OTHERS = frozenset(
    {
        *(keys.TOPICS, keys.TOPICS_EXCLUDE, keys.TOPIC_FILTER),
        *(keys.PROPERTIES_EXCLUDE, keys.PROPERTY_FILTER, keys.USE_DEFAULTS_FROM),
        *(keys.REFRESH_TOPICS, keys.REFRESH_TOPICS_S, keys.TASKS_MAX),
        *(keys.SYNC_CONFIGS, keys.SYNC_CONFIGS_S, keys.SYNC_ACLS, keys.SYNC_ACLS_S),
        *(keys.REPLICATION_FACTOR, keys.SYNCS_TOPIC_FACTOR),
        *(
            keys.EVERY
            - frozenset(connector_configs.SOURCE.keys)
            - {keys.NAME, *record_transforms.LISTS}
        ),
    }
)
"""What the connector alone acts on, and other connectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskShare:
    """`partitions` of the source, of which `added` came to the flow later; `budget` is the task's
    part of the flow's. `number` is None where whoever wrote the configuration gave none."""

    config: connector_configs.SourceConfig
    partitions: tuple[ids.TopicPartition, ...]
    added: frozenset[ids.TopicPartition]
    budget: split.TaskBudget
    number: int | None


def read(props: Mapping[str, str]) -> TaskShare:
    """Raises `ConfigError`."""
    config = connector_configs.source(props)
    partitions = tuple(assigned.partitions(props))
    if not partitions:
        raise errors.ConfigError(f"{assigned.PARTITIONS} names no partition")
    told = assigned.THROTTLE in props or assigned.TOPIC_THROTTLES in props
    budget = assigned.budget(props) if told else split.budgets(config.flow.budgets, [partitions])[0]
    return TaskShare(
        config=config,
        partitions=partitions,
        added=assigned.added(props),
        budget=budget,
        number=assigned.index(props),
    )


def goes_on(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """May a task that runs with `before` go on with `after`?"""
    return all(
        before.get(key) == after.get(key)
        for key in before.keys() | after.keys()
        if key not in _LIVE and key not in _OF_OTHERS and not live.is_live(key)
    )
