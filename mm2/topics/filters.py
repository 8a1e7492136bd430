"""Filters for topics, consumer groups and topic configs, as lists of regular expressions.

They behave like MirrorMaker 2's `DefaultTopicFilter`, `DefaultGroupFilter` and
`DefaultConfigPropertyFilter` with the defaults of Kafka 4.3: an expression must match the whole
name, an empty list matches nothing, and exclusion wins. Expressions have Java's syntax and are
matched in bounded time (`connect_runtime.base.user_pattern`). An inline flag such as `(?i)`
applies to its own list item only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from connect_runtime.base import bounded_regex
from connect_runtime.base.bounded_regex import BoundedPattern

DEFAULT_TOPICS = (".*",)
DEFAULT_TOPICS_EXCLUDE = (r"mm2.*\.internal", r".*\.replica", "__.*")
DEFAULT_GROUPS = (".*",)
DEFAULT_GROUPS_EXCLUDE = ("console-consumer-.*", "connect-.*", "__.*")
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


@dataclass(frozen=True, slots=True)
class NamePatterns:
    """A list of expressions, any of which has to match the whole name.

    `key` is the configuration key that errors name; it does not count when two are compared.
    """

    items: tuple[str, ...]
    compiled: tuple[BoundedPattern, ...]
    key: str = field(default="", compare=False)

    def matches(self, name: str) -> bool:
        """Raises `MatchLimitError`."""
        return any(pattern.fullmatch(name, key=self.key) for pattern in self.compiled)

    def first(self, name: str) -> str | None:
        """The first item that matches, as it was written. Raises as `matches`."""
        pairs = zip(self.items, self.compiled, strict=True)
        return next(
            (item for item, pattern in pairs if pattern.fullmatch(name, key=self.key)), None
        )


def literal_pattern(name: str) -> NamePatterns:
    """What matches this name alone."""
    return NamePatterns(items=(name,), compiled=(bounded_regex.compile_literal(name),))


class TopicOrGroupFilter(Protocol):
    """Which topics or groups are taken."""

    @property
    def listed(self) -> tuple[str, ...]:
        """The expressions of which one has to match; what is no list has the one for any name."""
        ...

    def takes(self, name: str) -> bool: ...

    def why(self, name: str, *, key: str) -> str:
        """Of a name that is taken, by which rule; `key` as below."""
        ...

    def why_not(self, name: str, *, key: str) -> str:
        """Of a name that is not taken; `key` is what configures it: topics or groups."""
        ...


class ConfigPropertyFilter(Protocol):
    """Which settings of a topic follow the source's."""

    def takes(self, name: str) -> bool: ...

    def takes_default(self, name: str) -> bool:
        """Is the source's default value written to the target, instead of leaving it its own?"""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NameFilter:
    """Topics or groups: included and not excluded."""

    include: NamePatterns
    exclude: NamePatterns

    @property
    def listed(self) -> tuple[str, ...]:
        return self.include.items

    def takes(self, name: str) -> bool:
        return self.include.matches(name) and not self.exclude.matches(name)

    def why(self, name: str, *, key: str) -> str:
        return f"{key} has {self.include.first(name)}"

    def why_not(self, name: str, *, key: str) -> str:
        if not self.include.matches(name):
            return f"{key} does not name it: {', '.join(self.include.items) or 'nothing'}"
        return f"{key}.exclude has {self.exclude.first(name)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultConfigPropertyFilter:
    """Topic settings that follow the source's.

    `source_defaults`: the source's default values are written to the target
    (`use.defaults.from=source`), instead of leaving the target its own.
    """

    exclude: NamePatterns
    source_defaults: bool = False

    def takes(self, name: str) -> bool:
        return not self.exclude.matches(name)

    def takes_default(self, name: str) -> bool:
        return self.source_defaults


@dataclass(frozen=True, slots=True)
class CustomNameFilter:
    """Whatever a class of the user's says; `class_name` is that class."""

    class_name: str
    ask: Callable[[str], bool] = field(repr=False, compare=False)

    @property
    def listed(self) -> tuple[str, ...]:
        return (".*",)

    def takes(self, name: str) -> bool:
        return bool(self.ask(name))

    def why(self, name: str, *, key: str) -> str:
        return f"{self.class_name}, which picks {key}, takes {name}"

    def why_not(self, name: str, *, key: str) -> str:
        return f"{self.class_name}, which picks {key}, does not take {name}"


@dataclass(frozen=True, slots=True)
class CustomConfigPropertyFilter:
    """As `CustomNameFilter`, for settings of topics."""

    class_name: str
    ask: Callable[[str], bool] = field(repr=False, compare=False)
    ask_default: Callable[[str], bool] = field(repr=False, compare=False)

    def takes(self, name: str) -> bool:
        return bool(self.ask(name))

    def takes_default(self, name: str) -> bool:
        return bool(self.ask_default(name))


def compile_patterns(items: Iterable[str], *, key: str = "") -> NamePatterns:
    """Raises `PatternError` for the first item that Python cannot match as Java would."""
    stripped = tuple(item.strip() for item in items)
    return NamePatterns(
        stripped, tuple(bounded_regex.compile_pattern(item) for item in stripped), key=key
    )


def compile_topic_filter(
    include: Sequence[str] = DEFAULT_TOPICS, exclude: Sequence[str] = DEFAULT_TOPICS_EXCLUDE
) -> NameFilter:
    """Raises `PatternError`."""
    return NameFilter(
        include=compile_patterns(include, key="topics"),
        exclude=compile_patterns(exclude, key="topics.exclude"),
    )


def compile_group_filter(
    include: Sequence[str] = DEFAULT_GROUPS, exclude: Sequence[str] = DEFAULT_GROUPS_EXCLUDE
) -> NameFilter:
    """Raises `PatternError`."""
    return NameFilter(
        include=compile_patterns(include, key="groups"),
        exclude=compile_patterns(exclude, key="groups.exclude"),
    )


def compile_config_property_filter(
    exclude: Sequence[str] = DEFAULT_CONFIG_PROPERTIES_EXCLUDE, *, source_defaults: bool = False
) -> DefaultConfigPropertyFilter:
    """Raises `PatternError`."""
    patterns = compile_patterns(exclude, key="config.properties.exclude")
    return DefaultConfigPropertyFilter(exclude=patterns, source_defaults=source_defaults)
