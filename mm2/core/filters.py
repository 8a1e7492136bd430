"""Which topics, groups and topic settings a flow takes: lists of regular expressions.

Semantics are MirrorMaker 2's `DefaultTopicFilter`, `DefaultGroupFilter` and
`DefaultConfigPropertyFilter`, defaults those of Kafka 4.3: full match, an empty list matches
nothing, exclusion wins. The expressions are Java's; where Python's `re` has no equal,
`compile_patterns` refuses by name rather than match something else. Inline flags such as `(?i)`
hold for their own item only.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

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

# What Java's dialect has and Python's has not, or means otherwise.
_JAVA_ESCAPES = {
    "p": r"\p{…} classes: write the characters, such as [a-zA-Z] for \p{Alpha}",
    "P": r"\P{…} classes: write the characters, such as [^a-zA-Z] for \P{Alpha}",
    "Q": r"\Q…\E quoting: escape each special character with a backslash",
    "E": r"\Q…\E quoting: escape each special character with a backslash",
    "h": r"\h: topic and group names rarely hold blanks; write [ \t]",
    "H": r"\H: write [^ \t]",
    "R": r"\R: write [\r\n]",
    "X": r"\X: write . for one character",
    "G": r"\G: a name is always matched whole, leave it out",
    "z": r"\z: a name is always matched whole, leave it out",
    "k": r"\k<name>: write (?P=name)",
    "e": r"\e: write \x1b",
    "c": r"\cX: write \xhh",
}


class PatternError(ValueError):
    """A regular expression that cannot be used. Says which one and why."""

    def __init__(self, pattern: str, reason: str) -> None:
        super().__init__(f"{pattern!r}: {reason}")
        self.pattern = pattern
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Patterns:
    """A list of expressions, any of which has to match the whole name."""

    items: tuple[str, ...]
    compiled: tuple[re.Pattern[str], ...]

    def matches(self, name: str) -> bool:
        return any(pattern.fullmatch(name) for pattern in self.compiled)

    def first(self, name: str) -> str | None:
        """The first item that matches, as it was written."""
        pairs = zip(self.items, self.compiled, strict=True)
        return next((item for item, pattern in pairs if pattern.fullmatch(name)), None)


def literally(name: str) -> Patterns:
    """What matches this name alone."""
    return Patterns(items=(name,), compiled=(re.compile(re.escape(name)),))


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


def compile_patterns(items: Iterable[str]) -> Patterns:
    """Raises `PatternError` for the first item that Python cannot match as Java would."""
    stripped = tuple(item.strip() for item in items)
    return Patterns(stripped, tuple(compile_pattern(item) for item in stripped))


@functools.lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Raises `PatternError`."""
    _refuse_java_only(pattern)
    try:
        # ASCII: Java's \\d, \\w, \\s and (?i) know ASCII alone unless told otherwise.
        return re.compile(pattern, re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(pattern, f"not a regular expression: {error}") from None


def topic_filter(
    include: Sequence[str] = DEFAULT_TOPICS, exclude: Sequence[str] = DEFAULT_TOPICS_EXCLUDE
) -> NameFilter:
    """Raises `PatternError`."""
    return NameFilter(include=compile_patterns(include), exclude=compile_patterns(exclude))


def group_filter(
    include: Sequence[str] = DEFAULT_GROUPS, exclude: Sequence[str] = DEFAULT_GROUPS_EXCLUDE
) -> NameFilter:
    """Raises `PatternError`."""
    return NameFilter(include=compile_patterns(include), exclude=compile_patterns(exclude))


def property_filter(
    exclude: Sequence[str] = DEFAULT_CONFIG_PROPERTIES_EXCLUDE, *, source_defaults: bool = False
) -> PropertyFilter:
    """Raises `PatternError`."""
    return PropertyFilter(exclude=compile_patterns(exclude), source_defaults=source_defaults)


def _refuse_java_only(pattern: str) -> None:
    in_class = False
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            _refuse_java_escape(pattern, pattern[at + 1 : at + 2])
            at += 2
            continue
        if in_class:
            if char == "[" or pattern.startswith("&&", at):
                raise PatternError(
                    pattern, "a class inside [...] and && are Java's alone: write one plain [...]"
                )
            in_class = char != "]"
        elif char == "[":
            in_class = True
            at += 1 + pattern.startswith("^", at + 1)
            if pattern.startswith("]", at):
                raise PatternError(
                    pattern, r"a ] that opens a class means different things: write \]"
                )
            continue
        elif re.match(r"\(\?<[a-zA-Z]", pattern[at:]):
            raise PatternError(pattern, "a Java group name: write (?P<name>...) or (?:...)")
        at += 1


def _refuse_java_escape(pattern: str, escaped: str) -> None:
    if escaped in _JAVA_ESCAPES:
        raise PatternError(pattern, f"Python has no {_JAVA_ESCAPES[escaped]}")
