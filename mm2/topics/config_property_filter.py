"""Filter for the topic configs that are synced from the source (`config.properties.exclude`).

The filter behaves like MirrorMaker 2's `DefaultConfigPropertyFilter`, and uses the same regular
expressions as `topic_filters`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mm2.topics import topic_filters
from mm2.topics.topic_filters import NamePatterns

DEFAULT_CONFIG_PROPERTIES_EXCLUDE = (
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "message.timestamp.difference.max.ms",
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.after.max.ms",
    "message.timestamp.type",
    "unclean.leader.election.enable",
    "min.insync.replicas",
)


class ConfigPropertyFilter(Protocol):
    """Selects the topic configs that are synced from the source."""

    def should_replicate_config_property(self, name: str) -> bool:
        """Return whether the config is synced."""
        ...

    def should_replicate_source_default(self, name: str) -> bool:
        """Return whether the source's default value is written to the target, instead of keeping
        the target's default."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultConfigPropertyFilter:
    """Syncs all topic configs that are not excluded."""

    exclude: NamePatterns
    source_defaults: bool = False
    """True if the source's default values are written to the target
    (`use.defaults.from=source`)."""

    def should_replicate_config_property(self, name: str) -> bool:
        return not self.exclude.matches(name)

    def should_replicate_source_default(self, name: str) -> bool:
        return self.source_defaults


@dataclass(frozen=True, slots=True)
class CustomConfigPropertyFilter:
    """Selects the topic configs that are synced, by means of a user-provided filter class with the
    name `class_name`."""

    class_name: str
    predicate: Callable[[str], bool] = field(repr=False, compare=False)
    default_predicate: Callable[[str], bool] = field(repr=False, compare=False)

    def should_replicate_config_property(self, name: str) -> bool:
        return bool(self.predicate(name))

    def should_replicate_source_default(self, name: str) -> bool:
        return bool(self.default_predicate(name))


def compile_config_property_filter(
    exclude: Sequence[str] = DEFAULT_CONFIG_PROPERTIES_EXCLUDE, *, source_defaults: bool = False
) -> DefaultConfigPropertyFilter:
    """Compile `config.properties.exclude`. Raises `PatternError`."""
    patterns = topic_filters.compile_patterns(exclude, key="config.properties.exclude")
    return DefaultConfigPropertyFilter(exclude=patterns, source_defaults=source_defaults)
