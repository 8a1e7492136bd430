"""What was seen of one cluster's topics at one moment. Adapters fill it, planners read it."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Mapping
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Topics of one cluster, by name.

    `splits_timestamp_bounds`: the brokers know `message.timestamp.before.max.ms` and `.after.`
    (Kafka 3.6, KIP-937) instead of `message.timestamp.difference.max.ms` alone.
    """

    topics: Mapping[str, Topic]
    splits_timestamp_bounds: bool = True
