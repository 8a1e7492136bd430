"""Operator overrides: pauses and throttles that operators set while a flow is running.

Overrides are stored as keys of the flow's source connector that are not set in configuration files.
When the group's leader updates the connector's configuration from its file, the leader keeps the
overrides that are stored in the config topic. A Java leader drops the overrides. All functions
return a new configuration and do not modify their arguments.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.api.errors import ConfigError
from mm2.config import config_value_types, mirror_connector_config_keys, mm2_only_keys
from mm2.topics import topic_filters
from mm2.topics.flow_config import FlowThrottles, TopicThrottle


class OverrideKind(enum.Enum):
    """Type of operator override on a flow or connector: paused (`mm2 pause`), or stopped without
    tasks (`mm2 failover` or REST)."""

    PAUSED = "paused"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorOverrides:
    """Operator overrides of a flow that are currently in effect."""

    paused: bool = False
    """True if the whole flow is paused or stopped."""
    stopped: bool = False
    paused_topics: frozenset[str] = frozenset()
    """Source topics that are individually paused."""
    budgets: FlowThrottles = field(default_factory=FlowThrottles)
    """Effective rate limits, each of which applies to all nodes together."""
    other_connectors: Mapping[str, OverrideKind] = field(default_factory=dict)
    """Paused or stopped connectors of the flow, by name, except the source connector."""

    @property
    def kind(self) -> OverrideKind | None:
        """Return whether the whole flow is paused or stopped; None if it is neither."""
        if self.stopped:
            return OverrideKind.STOPPED
        return OverrideKind.PAUSED if self.paused else None

    def is_topic_paused(self, topic: str) -> bool:
        """Return True if the topic or the whole flow is paused."""
        return self.paused or topic in self.paused_topics


NO_OVERRIDES = OperatorOverrides()


Props = Mapping[str, str]
_TRUE = "true"


def is_override_key(key: str) -> bool:
    """Return True if only operators set this key, while a flow is running."""
    return key.startswith(mirror_connector_config_keys.OVERRIDE_PREFIXES)


def merge_overrides(derived: Props, stored: Props | None) -> dict[str, str]:
    """Return the configuration derived from the file, with the overrides of the stored
    configuration."""
    return {**derived, **extract_overrides(stored or {})}


def extract_overrides(config: Props) -> dict[str, str]:
    """Return only the keys that operators have set."""
    return {key: value for key, value in config.items() if is_override_key(key)}


def strip_overrides(config: Props) -> dict[str, str]:
    """Return the configuration without the keys that operators have set."""
    return {key: value for key, value in config.items() if not is_override_key(key)}


def list_paused_topics(config: Props) -> tuple[str, ...]:
    """Return the names of the paused source topics."""
    found = _collect_values_by_topic(
        config, mirror_connector_config_keys.OVERRIDE_PAUSED_TOPIC
    ).items()
    return tuple(topic for topic, value in found if value.strip().lower() == _TRUE)


def pause_topic(config: Props, topic: str) -> dict[str, str]:
    """Return the configuration with the topic paused."""
    return {**config, mirror_connector_config_keys.OVERRIDE_PAUSED_TOPIC + topic: _TRUE}


def resume_topic(config: Props, topic: str) -> dict[str, str]:
    """Return the configuration with the topic's pause removed."""
    return _set_config_key(config, mirror_connector_config_keys.OVERRIDE_PAUSED_TOPIC + topic, None)


def set_throttle(config: Props, limit: str | None, *, topic: str | None = None) -> dict[str, str]:
    """Return the configuration with a rate limit of the flow or of one topic.

    `limit` is text for `config_value_types.parse_throttle`; None removes the override.
    """
    key = (
        mirror_connector_config_keys.OVERRIDE_THROTTLE
        if topic is None
        else mirror_connector_config_keys.OVERRIDE_TOPIC_THROTTLE + topic
    )
    return _set_config_key(config, key, limit)


def find_override_problems(config: Props) -> dict[str, str]:
    """Return problems in the overrides of individual topics, by key."""
    found: dict[str, str] = {}
    for topic, value in _collect_values_by_topic(
        config, mirror_connector_config_keys.OVERRIDE_TOPIC_THROTTLE
    ).items():
        try:
            config_value_types.parse_throttle(value)
        except ValueError:
            key = mirror_connector_config_keys.OVERRIDE_TOPIC_THROTTLE + topic
            found[key] = f"{key} is {value}; allowed: {config_value_types.LIMIT_ALLOWED}"
    return found


def resolve_throttles(values: Mapping[str, Any], config: Props) -> FlowThrottles:
    """Resolve the effective rate limits. Overrides take precedence over the file, and the first
    matching limit applies.

    `values` are the parsed values of `config`. Call only if `find_override_problems` finds no
    problems in `config`.
    """
    given, live = (
        values[mm2_only_keys.THROTTLE.name],
        values[mirror_connector_config_keys.OVERRIDE_THROTTLE],
    )
    whole = config_value_types.parse_byte_rate(given) if given else 0
    limits = _collect_values_by_topic(
        config, mirror_connector_config_keys.OVERRIDE_TOPIC_THROTTLE
    ).items()
    return FlowThrottles(
        flow=whole if live is None else config_value_types.parse_throttle(live),
        topics=(
            *(
                TopicThrottle(
                    topic_filters.build_literal_pattern(topic),
                    config_value_types.parse_throttle(rate),
                )
                for topic, rate in limits
            ),
            *map(
                config_value_types.parse_topic_throttle, values[mm2_only_keys.TOPIC_THROTTLES.name]
            ),
        ),
    )


def parse_overrides(config: Props, *, is_paused: bool) -> OperatorOverrides:
    """Parse the operator overrides in a connector's configuration. Raises `ConfigError` if an
    override is invalid."""
    wrong = find_override_problems(config)
    if wrong:
        raise ConfigError("; ".join(wrong.values()))
    values = mirror_connector_config_keys.EXTENSION_KEYS.parse(
        {
            key: config[key]
            for key in mirror_connector_config_keys.EXTENSION_KEYS.keys
            if key in config
        }
    )
    return OperatorOverrides(
        paused=is_paused,
        paused_topics=frozenset(list_paused_topics(config)),
        budgets=resolve_throttles(values, config),
    )


def _collect_values_by_topic(config: Props, prefix: str) -> dict[str, str]:
    return {
        key.removeprefix(prefix): config[key] for key in sorted(config) if key.startswith(prefix)
    }


def _set_config_key(config: Props, key: str, value: str | None) -> dict[str, str]:
    """Return the configuration with the key set to `value`, or without the key if `value` is
    None."""
    found = {name: each for name, each in config.items() if name != key}
    return found if value is None else {**found, key: value}
