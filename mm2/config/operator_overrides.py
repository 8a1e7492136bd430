"""Operator overrides: pauses and throttles that are set while a flow runs.

They are keys of the flow's source connector that no file has. The group's leader writes the
connector's configuration from its file and keeps these keys as the group's config topic has
them; a Java worker that leads drops them. All functions are pure: they return the next
configuration.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.api.errors import ConfigError
from mm2.config import keys, value_types
from mm2.topics import filters
from mm2.topics.flow_config import FlowThrottles, TopicThrottle


class OverrideKind(enum.Enum):
    """How an operator holds a whole flow: with `mm2 pause`; or with `mm2 failover`, or over REST,
    and then it has no tasks meanwhile. So a connector of it, over REST."""

    PAUSED = "paused"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorOverrides:
    """`paused`: the whole flow, which is also so while it is `stopped`; `paused_topics` are names
    on the source. `budgets` are those in force, of all nodes together. `beside`: of the flow's
    connectors other than its source connector those that are held, by name."""

    paused: bool = False
    stopped: bool = False
    paused_topics: frozenset[str] = frozenset()
    budgets: FlowThrottles = field(default_factory=FlowThrottles)
    beside: Mapping[str, OverrideKind] = field(default_factory=dict)

    @property
    def by(self) -> OverrideKind | None:
        """How the whole flow is held; None where it is not."""
        if self.stopped:
            return OverrideKind.STOPPED
        return OverrideKind.PAUSED if self.paused else None

    def pauses(self, topic: str) -> bool:
        return self.paused or topic in self.paused_topics


NO_OVERRIDES = OperatorOverrides()


Props = Mapping[str, str]
_TRUE = "true"


def is_override_key(key: str) -> bool:
    return key.startswith(keys.OVERRIDE_PREFIXES)


def merge_overrides(ours: Props, stored: Props | None) -> dict[str, str]:
    """What the file makes of the connector, with what operators have set."""
    return {**ours, **extract_overrides(stored or {})}


def extract_overrides(config: Props) -> dict[str, str]:
    """What operators have set, and nothing else."""
    return {key: value for key, value in config.items() if is_override_key(key)}


def strip_overrides(config: Props) -> dict[str, str]:
    """What the file alone makes of it."""
    return {key: value for key, value in config.items() if not is_override_key(key)}


def list_paused_topics(config: Props) -> tuple[str, ...]:
    """Topics of the source that are paused, by name."""
    found = _collect_by_topic(config, keys.OVERRIDE_PAUSED_TOPIC).items()
    return tuple(topic for topic, value in found if value.strip().lower() == _TRUE)


def pause_topic(config: Props, topic: str) -> dict[str, str]:
    return {**config, keys.OVERRIDE_PAUSED_TOPIC + topic: _TRUE}


def resume_topic(config: Props, topic: str) -> dict[str, str]:
    return _set_key(config, keys.OVERRIDE_PAUSED_TOPIC + topic, None)


def set_throttle(config: Props, limit: str | None, *, topic: str | None = None) -> dict[str, str]:
    """The whole flow, or one topic, gets this limit (`value_types.parse_throttle`); None: the
    file's."""
    key = keys.OVERRIDE_THROTTLE if topic is None else keys.OVERRIDE_TOPIC_THROTTLE + topic
    return _set_key(config, key, limit)


def find_problems(config: Props) -> dict[str, str]:
    """What is wrong with keys of single topics, by key."""
    found: dict[str, str] = {}
    for topic, value in _collect_by_topic(config, keys.OVERRIDE_TOPIC_THROTTLE).items():
        try:
            value_types.parse_throttle(value)
        except ValueError:
            key = keys.OVERRIDE_TOPIC_THROTTLE + topic
            found[key] = f"{key} is {value}: allowed: {value_types.LIMIT_ALLOWED}"
    return found


def resolve_budgets(values: Mapping[str, Any], config: Props) -> FlowThrottles:
    """In force, of parsed values and the configuration without `find_problems`: the first that
    matches a topic counts, so an operator's stand before the file's."""
    given, live = values[keys.THROTTLE], values[keys.OVERRIDE_THROTTLE]
    whole = value_types.parse_byte_rate(given) if given else 0
    limits = _collect_by_topic(config, keys.OVERRIDE_TOPIC_THROTTLE).items()
    return FlowThrottles(
        flow=whole if live is None else value_types.parse_throttle(live),
        topics=(
            *(
                TopicThrottle(filters.literal_pattern(topic), value_types.parse_throttle(rate))
                for topic, rate in limits
            ),
            *map(value_types.parse_topic_throttle, values[keys.TOPIC_THROTTLES]),
        ),
    )


def parse_overrides(config: Props, *, is_paused: bool) -> OperatorOverrides:
    """What holds a flow with this configuration back. Raises `ConfigError`."""
    wrong = find_problems(config)
    if wrong:
        raise ConfigError("; ".join(wrong.values()))
    values = keys.EXTENSION_KEYS.parse(
        {key: config[key] for key in keys.EXTENSION_KEYS.keys if key in config}
    )
    return OperatorOverrides(
        paused=is_paused,
        paused_topics=frozenset(list_paused_topics(config)),
        budgets=resolve_budgets(values, config),
    )


def _collect_by_topic(config: Props, prefix: str) -> dict[str, str]:
    return {
        key.removeprefix(prefix): config[key] for key in sorted(config) if key.startswith(prefix)
    }


def _set_key(config: Props, key: str, value: str | None) -> dict[str, str]:
    """None: without it, then the file's counts."""
    found = {name: each for name, each in config.items() if name != key}
    return found if value is None else {**found, key: value}
