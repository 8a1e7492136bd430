"""What was seen of one cluster's topics at one moment. Adapters fill it, planners read it."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


class ConfigSource(enum.Enum):
    """Where a setting's value comes from (DescribeConfigs, `ConfigEntry.ConfigSource`)."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One setting of one topic as DescribeConfigs answers it; `value` is None when it is hidden."""

    value: str | None = field(repr=False)
    source: ConfigSource = ConfigSource.TOPIC
    read_only: bool = False
    sensitive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic; `topic_id` is None before Kafka 2.8, `configs` is None when they may not be read."""

    name: str
    partitions: int
    topic_id: uuid.UUID | None = None
    configs: Mapping[str, ConfigEntry] | None = field(default_factory=dict)

    def config(self, name: str) -> str | None:
        """The value in force, wherever it comes from; None: not known here."""
        entry = None if self.configs is None else self.configs.get(name)
        return None if entry is None else entry.value

    def is_overridden(self, name: str) -> bool:
        """Is the setting set on the topic itself?"""
        entry = None if self.configs is None else self.configs.get(name)
        return entry is not None and entry.source is ConfigSource.TOPIC


TIMESTAMP_BOUNDS = (
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.difference.max.ms",
)
"""How far record timestamps may be off: two since Kafka 3.6 (KIP-937), the last until 3.9."""

NOT_FOLLOWED = (*TIMESTAMP_BOUNDS, "message.format.version")
"""What a mirror never takes from its source: the bounds are its own, and in message formats before
v2 there are no transaction markers."""

BROKER_NAMES: Mapping[str, str] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.type": "compression.type",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.type": "log.message.timestamp.type",
    **{name: f"log.{name}" for name in TIMESTAMP_BOUNDS},
}
"""Settings of topics that planning asks about, and what brokers call their defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Topics of one cluster, by name.

    `new_topic` has the settings that a topic without overrides gets, by their topic names (those
    of `BROKER_NAMES` that the brokers know); None: we may not read them. `settings` are the names
    of all settings that topics have here, which differ from release to release; None: nothing
    shows them.
    """

    topics: Mapping[str, Topic]
    new_topic: Mapping[str, str] | None = None
    settings: Collection[str] | None = None

    def knows(self, name: str) -> bool:
        """May a topic here have this setting, as far as anything shows?"""
        return self.settings is None or name in self.settings

    def timestamp_bounds(self) -> tuple[str, ...]:
        """Those of `TIMESTAMP_BOUNDS` that the brokers know, as far as anything here shows."""
        known: Collection[str] = self.new_topic or self.settings or ()
        for name in sorted(self.topics):
            configs = self.topics[name].configs
            if known:
                break
            known = configs or ()
        bounds = tuple(name for name in TIMESTAMP_BOUNDS if name in known)
        return bounds or TIMESTAMP_BOUNDS[:2]


def new_topic_settings(broker_configs: Mapping[str, str | None] | None) -> dict[str, str] | None:
    """A broker's settings as those of a topic without overrides; None stays None."""
    if broker_configs is None:
        return None
    found = {topic: broker_configs.get(broker) for topic, broker in BROKER_NAMES.items()}
    return {name: value for name, value in found.items() if value is not None}
