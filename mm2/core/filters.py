"""Which topics, groups and topic settings a flow takes: lists of regular expressions.

Semantics are MirrorMaker 2's `DefaultTopicFilter`, `DefaultGroupFilter` and
`DefaultConfigPropertyFilter`, defaults those of Kafka 4.3: full match, an empty list matches
nothing, exclusion wins. The expressions are Java's, matched in bounded time:
`connect_runtime/base/user_pattern`. Inline flags such as `(?i)` hold for their own item only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from connect_runtime.base import user_pattern

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
class Patterns:
    """A list of expressions, any of which has to match the whole name.

    `key` is the configuration key that errors name; it does not count when two are compared.
    """

    items: tuple[str, ...]
    compiled: tuple[user_pattern.Pattern, ...]
    key: str = field(default="", compare=False)

    def matches(self, name: str) -> bool:
        """Raises `user_pattern.MatchLimitError`."""
        return any(pattern.fullmatch(name, key=self.key) for pattern in self.compiled)

    def first(self, name: str) -> str | None:
        """The first item that matches, as it was written. Raises as `matches`."""
        pairs = zip(self.items, self.compiled, strict=True)
        return next(
            (item for item, pattern in pairs if pattern.fullmatch(name, key=self.key)), None
        )


def literally(name: str) -> Patterns:
    """What matches this name alone."""
    return Patterns(items=(name,), compiled=(user_pattern.literal(name),))


class Names(Protocol):
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


class Properties(Protocol):
    """Which settings of a topic follow the source's."""

    def takes(self, name: str) -> bool: ...

    def takes_default(self, name: str) -> bool:
        """Is the source's default value written to the target, instead of leaving it its own?"""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NameFilter:
    """Topics or groups: included and not excluded."""

    include: Patterns
    exclude: Patterns

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
class PropertyFilter:
    """Topic settings that follow the source's.

    `source_defaults`: the source's default values are written to the target
    (`use.defaults.from=source`), instead of leaving the target its own.
    """

    exclude: Patterns
    source_defaults: bool = False

    def takes(self, name: str) -> bool:
        return not self.exclude.matches(name)

    def takes_default(self, name: str) -> bool:
        return self.source_defaults


@dataclass(frozen=True, slots=True)
class CustomNames:
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
class CustomProperties:
    """As `CustomNames`, for settings of topics."""

    class_name: str
    ask: Callable[[str], bool] = field(repr=False, compare=False)
    ask_default: Callable[[str], bool] = field(repr=False, compare=False)

    def takes(self, name: str) -> bool:
        return bool(self.ask(name))

    def takes_default(self, name: str) -> bool:
        return bool(self.ask_default(name))


def compile_patterns(items: Iterable[str], *, key: str = "") -> Patterns:
    """Raises `PatternError` for the first item that Python cannot match as Java would."""
    stripped = tuple(item.strip() for item in items)
    return Patterns(
        stripped, tuple(user_pattern.compile_pattern(item) for item in stripped), key=key
    )


def topic_filter(
    include: Sequence[str] = DEFAULT_TOPICS, exclude: Sequence[str] = DEFAULT_TOPICS_EXCLUDE
) -> NameFilter:
    """Raises `PatternError`."""
    return NameFilter(
        include=compile_patterns(include, key="topics"),
        exclude=compile_patterns(exclude, key="topics.exclude"),
    )


def group_filter(
    include: Sequence[str] = DEFAULT_GROUPS, exclude: Sequence[str] = DEFAULT_GROUPS_EXCLUDE
) -> NameFilter:
    """Raises `PatternError`."""
    return NameFilter(
        include=compile_patterns(include, key="groups"),
        exclude=compile_patterns(exclude, key="groups.exclude"),
    )


def property_filter(
    exclude: Sequence[str] = DEFAULT_CONFIG_PROPERTIES_EXCLUDE, *, source_defaults: bool = False
) -> PropertyFilter:
    """Raises `PatternError`."""
    patterns = compile_patterns(exclude, key="config.properties.exclude")
    return PropertyFilter(exclude=patterns, source_defaults=source_defaults)
