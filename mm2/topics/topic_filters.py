"""Filters for topics and consumer groups, as lists of regular expressions.

The filters behave like MirrorMaker 2's `DefaultTopicFilter` and `DefaultGroupFilter` with the
defaults of Kafka 4.3: an expression must match the whole name, an empty list matches nothing, and
exclusion takes precedence. Expressions have Java's syntax
and are matched in bounded time (`connect_runtime.base.bounded_regex`). An inline flag such as
`(?i)` applies only to its own list item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from connect_runtime.base import bounded_regex
from connect_runtime.base.bounded_regex import BoundedPattern, PatternError

PATTERNS_MAX = 4_000
"""Maximum number of expressions in a list. Compiling a list of this length takes about 2 s."""
DEFAULT_TOPICS = (".*",)
DEFAULT_TOPICS_EXCLUDE = (r"mm2.*\.internal", r".*\.replica", "__.*")
DEFAULT_GROUPS = (".*",)
DEFAULT_GROUPS_EXCLUDE = ("console-consumer-.*", "connect-.*", "__.*")


@dataclass(frozen=True, slots=True)
class NamePatterns:
    """A list of regular expressions. A name matches if any expression matches the whole name."""

    items: tuple[str, ...]
    compiled: tuple[BoundedPattern, ...]
    key: str = field(default="", compare=False)
    """Configuration key that error messages mention. Ignored in comparisons."""

    def matches(self, name: str) -> bool:
        """Return whether any expression matches. Raises `MatchLimitError`."""
        return any(pattern.fullmatch(name, key=self.key) for pattern in self.compiled)

    def find_first_match(self, name: str) -> str | None:
        """Return the first matching expression, as configured; None if no expression matches.
        Raises `MatchLimitError`."""
        pairs = zip(self.items, self.compiled, strict=True)
        return next(
            (item for item, pattern in pairs if pattern.fullmatch(name, key=self.key)), None
        )


def build_literal_pattern(name: str) -> NamePatterns:
    """Build a pattern list that matches only the given name."""
    return NamePatterns(items=(name,), compiled=(bounded_regex.compile_literal(name),))


class TopicOrGroupFilter(Protocol):
    """Selects topics or consumer groups by name."""

    @property
    def patterns(self) -> tuple[str, ...]:
        """The configured regular expressions; `.*` if the filter is a user-provided class."""
        ...

    def matches(self, name: str) -> bool:
        """Return whether the topic or group is selected."""
        ...

    def explain_match(self, name: str, *, key: str) -> str:
        """Explain which rule selects a name; `key` is the configuration key (`topics` or
        `groups`)."""
        ...

    def explain_mismatch(self, name: str, *, key: str) -> str:
        """Explain why a name is not selected; `key` is the configuration key (`topics` or
        `groups`)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NameFilter:
    """Selects topics or groups that are included and not excluded."""

    include: NamePatterns
    exclude: NamePatterns

    @property
    def patterns(self) -> tuple[str, ...]:
        return self.include.items

    def matches(self, name: str) -> bool:
        return self.include.matches(name) and not self.exclude.matches(name)

    def explain_match(self, name: str, *, key: str) -> str:
        return f"{key} includes {self.include.find_first_match(name)}"

    def explain_mismatch(self, name: str, *, key: str) -> str:
        if not self.include.matches(name):
            return f"not matched by {key}: {', '.join(self.include.items) or 'nothing'}"
        return f"{key}.exclude includes {self.exclude.find_first_match(name)}"


@dataclass(frozen=True, slots=True)
class CustomNameFilter:
    """Selects names with a user-provided filter class, `class_name`."""

    class_name: str
    predicate: Callable[[str], bool] = field(repr=False, compare=False)

    @property
    def patterns(self) -> tuple[str, ...]:
        return (".*",)

    def matches(self, name: str) -> bool:
        return bool(self.predicate(name))

    def explain_match(self, name: str, *, key: str) -> str:
        return f"the filter class {self.class_name} for {key} accepts {name}"

    def explain_mismatch(self, name: str, *, key: str) -> str:
        return f"the filter class {self.class_name} for {key} rejects {name}"


def compile_patterns(items: Iterable[str], *, key: str = "") -> NamePatterns:
    """Compile Java regular expressions. Raises `PatternError` for the first expression that cannot
    be matched as in Java, and for more than `PATTERNS_MAX` expressions."""
    stripped = tuple(item.strip() for item in items)
    if len(stripped) > PATTERNS_MAX:
        raise PatternError(
            f"{stripped[0]}, …",
            f"the list has {len(stripped):,} expressions; allowed: at most {PATTERNS_MAX:,}; join "
            "several with |",
        )
    return NamePatterns(
        stripped, tuple(bounded_regex.compile_pattern(item) for item in stripped), key=key
    )


def compile_topic_filter(
    include: Sequence[str] = DEFAULT_TOPICS, exclude: Sequence[str] = DEFAULT_TOPICS_EXCLUDE
) -> NameFilter:
    """Compile `topics` and `topics.exclude`. Raises `PatternError`."""
    return NameFilter(
        include=compile_patterns(include, key="topics"),
        exclude=compile_patterns(exclude, key="topics.exclude"),
    )


def compile_group_filter(
    include: Sequence[str] = DEFAULT_GROUPS, exclude: Sequence[str] = DEFAULT_GROUPS_EXCLUDE
) -> NameFilter:
    """Compile `groups` and `groups.exclude`. Raises `PatternError`."""
    return NameFilter(
        include=compile_patterns(include, key="groups"),
        exclude=compile_patterns(exclude, key="groups.exclude"),
    )
