"""A task's share of what its flow may use, as its configuration says it.

The connector knows all tasks, a task only itself. Java ignores these keys.
"""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.api import config_def, config_types, errors
from mm2.core.topics import split

THROTTLE = "mm2.task.throttle"
TOPIC_THROTTLES = "mm2.task.throttle.topics"


def write(budget: split.TaskBudget) -> dict[str, str]:
    """What to add to the task's configuration; nothing for no limits."""
    found = {THROTTLE: str(budget.flow)} if budget.flow else {}
    if budget.topics:
        limits = (f"{topic}={limit}" for topic, limit in sorted(budget.topics.items()))
        found[TOPIC_THROTTLES] = ",".join(limits)
    return found


def read(props: Mapping[str, str]) -> split.TaskBudget:
    """Raises `ConfigError` for what `write` does not write."""
    flow = props.get(THROTTLE)
    given = props.get(TOPIC_THROTTLES, "")
    listed: list[str] = config_types.parse(TOPIC_THROTTLES, given, config_def.Type.LIST)
    topics: dict[str, int] = {}
    for each in listed:
        topic, equals, limit = each.rpartition("=")
        if not equals or not topic:
            raise config_types.invalid(TOPIC_THROTTLES, each, "it has to be <topic>=<bytes/s>")
        topics[topic] = _rate(TOPIC_THROTTLES, limit)
    return split.TaskBudget(flow=_rate(THROTTLE, flow) if flow else 0, topics=topics)


def _rate(key: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise errors.ConfigError(f"{key} has {text!r}: it has to be bytes per second from 1")
    return int(text)
