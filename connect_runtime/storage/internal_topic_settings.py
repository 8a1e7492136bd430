"""Defines the required settings of the three internal topics, and rejects existing topics with
unsuitable settings.

The topics must be compacted. Otherwise, retention deletes the configurations, offsets and statuses
of connectors, which users may notice only months later. A worker therefore refuses to start with an
unsuitable topic.
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from connect_runtime.base import ids
from connect_runtime.base.errors import FatalError

BROKER_DEFAULT = -1
CLEANUP_POLICY = "cleanup.policy"
COMPACT = "compact"

_TOPIC_KEY = "topic"
_PARTITIONS_KEY = "partitions"
_REPLICATION_KEY = "replication.factor"
_INTEGER_PATTERN = re.compile(r"[+-]?[0-9]{1,9}")


class InternalTopicKind(enum.Enum):
    """Kind of internal topic. The enum value is the prefix of the topic's worker properties."""

    CONFIG = "config.storage."
    OFFSET = "offset.storage."
    STATUS = "status.storage."

    @property
    def topic_key(self) -> str:
        """Name of the worker property that sets the topic's name."""
        return f"{self.value}{_TOPIC_KEY}"

    @property
    def content_description(self) -> str:
        """Description of the topic's content, for error messages."""
        return _CONTENT_BY_KIND[self]


_CONTENT_BY_KIND = {
    InternalTopicKind.CONFIG: "connector configurations",
    InternalTopicKind.OFFSET: "source connector offsets",
    InternalTopicKind.STATUS: "connector and task statuses",
}
_DEFAULT_PARTITIONS = {
    InternalTopicKind.CONFIG: 1,
    InternalTopicKind.OFFSET: 25,
    InternalTopicKind.STATUS: 5,
}
_DEFAULT_REPLICATION = 3


class InvalidTopicSettings(FatalError):
    """Raised if worker properties of internal topics are invalid.

    `problems` contains pairs (property name, text). The text continues a sentence that begins with
    the property name.
    """

    def __init__(self, problems: Iterable[tuple[str, str]]) -> None:
        self.problems = tuple(problems)
        messages = "; ".join(f"{key} {text}" for key, text in self.problems)
        super().__init__(f"the internal topics: {messages}")


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """An internal topic and the settings with which it is created."""

    kind: InternalTopicKind
    name: str
    partitions: int
    """Number of partitions, or `BROKER_DEFAULT`."""
    replication_factor: int
    """Replication factor, or `BROKER_DEFAULT`."""
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Topic configuration, including compaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredTopics:
    """The internal topics, in the order config, offsets, status, and the warnings about their
    settings that the caller should log."""

    topics: tuple[InternalTopic, ...]
    warnings: tuple[str, ...]


def read_required_topics(properties: Mapping[str, str]) -> RequiredTopics:
    """Read the settings of the internal topics from worker properties. Raises
    `InvalidTopicSettings`."""
    topics: list[InternalTopic] = []
    problems: list[tuple[str, str]] = []
    warnings: list[str] = []
    for purpose in InternalTopicKind:
        own = {
            key.removeprefix(purpose.value): value.strip()
            for key, value in properties.items()
            if key.startswith(purpose.value)
        }
        warnings += _warn_of_ignored_settings(purpose, own)
        topic = InternalTopic(
            kind=purpose,
            name=own.get(_TOPIC_KEY, ""),
            partitions=_read_partition_count(purpose, own, problems),
            replication_factor=_read_count_setting(
                purpose, own, _REPLICATION_KEY, problems=problems, default=_DEFAULT_REPLICATION
            ),
            settings=_read_topic_settings(own),
        )
        if not ids.is_valid_topic_name(topic.name):
            problems.append(_describe_illegal_topic_name(topic))
        topics.append(topic)
    problems += _find_duplicate_names(topics)
    if problems:
        raise InvalidTopicSettings(problems)
    return RequiredTopics(topics=tuple(topics), warnings=tuple(warnings))


def _warn_of_ignored_settings(purpose: InternalTopicKind, own: Mapping[str, str]) -> list[str]:
    messages = []
    if purpose is InternalTopicKind.CONFIG and _PARTITIONS_KEY in own:
        messages.append(
            f"{purpose.value}{_PARTITIONS_KEY} is ignored: the config topic has one partition"
        )
    if CLEANUP_POLICY in own:
        messages.append(
            f"{purpose.value}{CLEANUP_POLICY} is ignored: internal topics are compacted"
        )
    return messages


def _read_topic_settings(own: Mapping[str, str]) -> Mapping[str, str]:
    others = (_TOPIC_KEY, _PARTITIONS_KEY, _REPLICATION_KEY, CLEANUP_POLICY)
    kept = {key: value for key, value in own.items() if key not in others}
    return MappingProxyType(kept | {CLEANUP_POLICY: COMPACT})


def _read_partition_count(
    purpose: InternalTopicKind, own: Mapping[str, str], problems: list[tuple[str, str]]
) -> int:
    if purpose is InternalTopicKind.CONFIG:
        return 1
    default = _DEFAULT_PARTITIONS[purpose]
    return _read_count_setting(purpose, own, _PARTITIONS_KEY, problems=problems, default=default)


def _read_count_setting(
    purpose: InternalTopicKind,
    own: Mapping[str, str],
    name: str,
    *,
    problems: list[tuple[str, str]],
    default: int,
) -> int:
    given = own.get(name, str(default))
    if _INTEGER_PATTERN.fullmatch(given) and (int(given) >= 1 or int(given) == BROKER_DEFAULT):
        return int(given)
    text = f"is '{given}'; it must be 1 or more, or -1 for the brokers' default"
    problems.append((f"{purpose.value}{name}", text))
    return default


def _describe_illegal_topic_name(topic: InternalTopic) -> tuple[str, str]:
    key = topic.kind.topic_key
    if not topic.name:
        return key, f"is missing: set the name of the topic for {topic.kind.content_description}"
    return key, f"is '{topic.name}', which is not a valid topic name"


def _find_duplicate_names(topics: list[InternalTopic]) -> list[tuple[str, str]]:
    messages = []
    for name, times in Counter(each.name for each in topics if each.name).items():
        if times > 1:
            first, *others = (each.kind.topic_key for each in topics if each.name == name)
            text = f"and {' and '.join(others)} are both '{name}'; each needs its own topic"
            messages.append((first, text))
    return messages


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingTopic:
    """Settings of an existing internal topic. The cleanup policy is None if it could not be
    read."""

    partitions: int
    cleanup_policy: str | None


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Result of `decide_internal_topic_action`: the topic is missing and must be created. Ignore
    the error if another process creates it concurrently."""

    topic: InternalTopic


@dataclass(frozen=True, slots=True)
class TopicAccepted:
    """Result of `decide_internal_topic_action`: the topic can be used. `warnings` should be
    logged."""

    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicRefused:
    """Result of `decide_internal_topic_action`: the topic must not be used. The reason includes
    the remedy."""

    reason: str


TopicDecision: TypeAlias = CreateTopic | TopicAccepted | TopicRefused


def decide_internal_topic_action(
    topic: InternalTopic, existing: ExistingTopic | None, *, may_create: bool = True
) -> TopicDecision:
    """Decide whether an existing internal topic can be used, or a missing topic (`existing` is
    None) must be created.

    Check again after creating the topic, because another process may have created it first, with
    other settings.
    """
    key, name = topic.kind.topic_key, topic.name
    if existing is None:
        if may_create:
            return CreateTopic(topic)
        return TopicRefused(
            f"the topic '{name}' of {key} is missing, and"
            " internal.topics.automatic.creation.enable=false prevents its creation; create it"
            f" with {CLEANUP_POLICY}={COMPACT}"
        )
    if topic.kind is InternalTopicKind.CONFIG and existing.partitions != 1:
        return TopicRefused(
            f"the topic '{name}' of {key} has {existing.partitions} partitions; it must have"
            " exactly one partition, because configurations must stay in order: use another topic,"
            " or delete this topic so that it is recreated"
        )
    if existing.cleanup_policy is None:
        return TopicAccepted(
            (
                f"cannot read {CLEANUP_POLICY} of the topic '{name}' of {key}; make sure that it is"
                f" {COMPACT}",
            )
        )
    if _parse_cleanup_policies(existing.cleanup_policy) != {COMPACT}:
        return TopicRefused(
            f"the topic '{name}' of {key} has {CLEANUP_POLICY}={existing.cleanup_policy} and "
            f"would lose {topic.kind.content_description} over time; set "
            f"{CLEANUP_POLICY}={COMPACT} on it (and check for data that is already lost), or use "
            "another topic"
        )
    return TopicAccepted()


def _parse_cleanup_policies(value: str) -> set[str]:
    return {each.strip().lower() for each in value.split(",") if each.strip()}
