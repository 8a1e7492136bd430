"""What all connectors are configured with: keys, defaults and checks of Kafka 4.3, and their parse.

`source_keys` and `sink_keys` are for validation, key by key; `source` and `sink` for running.
Java: ConnectorConfig, SourceConnectorConfig, SinkConnectorConfig.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.api import config_types, errors, task
from connect_runtime.base import user_pattern
from connect_runtime.core.task import connector_keys

TOPICS, TOPICS_REGEX = "topics", "topics.regex"
DEAD_LETTERS = "errors.deadletterqueue.topic.name"
TOPIC_CREATION = "topic.creation."
TOPIC_CREATION_GROUPS = f"{TOPIC_CREATION}groups"
_NO_TOPIC_CREATION = (
    "Topics are not made by rules of a connector in this version: remove topic.creation.*, and"
    " make them beforehand."
)


class ReloadAction(enum.Enum):
    """`config.action.reload`: what follows when a provider's value changes."""

    NONE = "none"
    RESTART = "restart"


class Tolerance(enum.Enum):
    """`errors.tolerance`: of which errors records are skipped."""

    NONE = "none"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """`errors.*`; `retry_timeout_ms` -1: for ever."""

    retry_timeout_ms: int = 0
    retry_delay_max_ms: int = 60_000
    tolerance: Tolerance = Tolerance.NONE
    log: bool = False
    log_messages: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorConfig:
    """What both kinds have. `raw`: everything as given, `${…}` resolved; it may hold secrets.

    `not_offered`: why it must not be run, by key.
    """

    raw: Mapping[str, str | None] = field(repr=False)
    name: str
    connector_class: str
    tasks_max: int
    enforce_tasks_max: bool
    reload: ReloadAction
    transforms: tuple[str, ...]
    predicates: tuple[str, ...]
    errors: Errors
    not_offered: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfig(ConnectorConfig):
    """What sources have besides. `boundary_interval_ms` None: the worker's flush interval."""

    topic_creation_groups: tuple[str, ...]
    exactly_once_required: bool
    boundary: task.TransactionBoundary
    boundary_interval_ms: int | None
    offsets_topic: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkConfig(ConnectorConfig):
    """What sinks have besides: exactly one of `topics` and `topics_regex`."""

    topics: tuple[str, ...]
    topics_regex: user_pattern.Pattern | None
    dead_letter_topic: str | None
    dead_letter_replication: int
    dead_letter_headers: bool


def source(
    props: Mapping[str, str | None], *, load: config_types.LoadClass = config_types.imported_class
) -> SourceConfig:
    """Raises `ConfigError` for the first value that cannot be meant."""
    found = connector_keys.SOURCE.parse(props, load=load)
    return SourceConfig(
        **_shared(props, found),
        topic_creation_groups=tuple(found["topic.creation.groups"]),
        exactly_once_required=found["exactly.once.support"].lower() == "required",
        boundary=task.TransactionBoundary.parse(found["transaction.boundary"]),
        boundary_interval_ms=found["transaction.boundary.interval.ms"],
        offsets_topic=found["offsets.storage.topic"],
    )


def sink(
    props: Mapping[str, str | None], *, load: config_types.LoadClass = config_types.imported_class
) -> SinkConfig:
    """Raises `ConfigError`, also for `topics` and `topics.regex` at odds with each other."""
    found = connector_keys.SINK.parse(props, load=load)
    topics, pattern = tuple(found["topics"]), found["topics.regex"]
    wrong = topics_at_odds(props)
    if wrong:
        raise errors.ConfigError(" ".join(dict.fromkeys(wrong.values())))
    return SinkConfig(
        **_shared(props, found),
        topics=topics,
        topics_regex=user_pattern.compile_pattern(pattern) if pattern else None,
        dead_letter_topic=found[DEAD_LETTERS] or None,
        dead_letter_replication=found["errors.deadletterqueue.topic.replication.factor"],
        dead_letter_headers=found["errors.deadletterqueue.context.headers.enable"],
    )


def topics_at_odds(props: Mapping[str, str | None]) -> dict[str, str]:
    """What is wrong with a sink's `topics`, `topics.regex` and dead letter topic together, by key.

    In the words of Java's SinkConnectorConfig.validate.
    """
    topics = [each.strip() for each in (props.get(TOPICS) or "").split(",") if each.strip()]
    pattern = (props.get(TOPICS_REGEX) or "").strip()
    dead = (props.get(DEAD_LETTERS) or "").strip()
    if topics and pattern:
        return dict.fromkeys(
            (TOPICS, TOPICS_REGEX),
            f"{TOPICS} and {TOPICS_REGEX} are mutually exclusive options, but both are set.",
        )
    if not topics and not pattern:
        return dict.fromkeys(
            (TOPICS, TOPICS_REGEX), f"Must configure one of {TOPICS} or {TOPICS_REGEX}"
        )
    if dead and dead in topics:
        listed = config_types.shown(list(dict.fromkeys(topics)))
        return {
            TOPICS: f"The DLQ topic '{dead}' may not be included in the list of topics"
            f" ('{TOPICS}={listed}') consumed by the connector"
        }
    if dead and pattern and _matches(pattern, dead):
        return {
            TOPICS_REGEX: f"The DLQ topic '{dead}' may not be matched by the regex for the topics"
            f" ('{TOPICS_REGEX}={pattern}') consumed by the connector"
        }
    return {}


def not_offered(found: Mapping[str, Any], given: Iterable[str]) -> dict[str, str]:
    """Why what is configured is refused, by key: what this version does not honour, with a remedy.

    `found`: parsed values; what was not understood may be missing. `given`: all names, of which
    some mean something that no definition has. `errors.log.enable` may be anything: an error that
    fails the task is logged in any case.
    """
    told = {name: text for name, wanted, text in _NOT_OFFERED if wanted(found.get(name))}
    if TOPIC_CREATION_GROUPS in found:
        for name in sorted(each for each in given if each.startswith(TOPIC_CREATION)):
            told[name] = _NO_TOPIC_CREATION
    return told


def _tolerant(value: Any) -> bool:
    return isinstance(value, str) and value != Tolerance.NONE.value


def _required(value: Any) -> bool:
    return isinstance(value, str) and value.lower() == "required"


_NOT_OFFERED: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("transforms", bool, "Transforms are not offered by this version: remove transforms."),
    ("predicates", bool, "Predicates are not offered by this version: remove predicates."),
    (
        "errors.tolerance",
        _tolerant,
        "Errors cannot be tolerated by this version: set errors.tolerance to none.",
    ),
    (
        "errors.retry.timeout",
        bool,
        "What failed is not tried again by this version: set errors.retry.timeout to 0.",
    ),
    (
        DEAD_LETTERS,
        bool,
        f"Dead letters are not written by this version: remove {DEAD_LETTERS}.",
    ),
    (
        "exactly.once.support",
        _required,
        "This worker does not have exactly-once source support enabled."
        " Set exactly.once.support to requested.",
    ),
    (
        "offsets.storage.topic",
        bool,
        "A connector's own offsets topic is not offered by this version: remove"
        " offsets.storage.topic.",
    ),
)


def _shared(props: Mapping[str, str | None], found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "raw": dict(props),
        "name": found["name"],
        "connector_class": found["connector.class"],
        "tasks_max": found["tasks.max"],
        "enforce_tasks_max": found["tasks.max.enforce"],
        "reload": ReloadAction(found["config.action.reload"]),
        "transforms": tuple(found["transforms"]),
        "predicates": tuple(found["predicates"]),
        "errors": Errors(
            retry_timeout_ms=found["errors.retry.timeout"],
            retry_delay_max_ms=found["errors.retry.delay.max.ms"],
            tolerance=Tolerance(found["errors.tolerance"]),
            log=found["errors.log.enable"],
            log_messages=found["errors.log.include.messages"],
        ),
        "not_offered": not_offered(found, props),
    }


def _matches(pattern: str, topic: str) -> bool:
    try:
        return user_pattern.compile_pattern(pattern).fullmatch(topic, key=TOPICS_REGEX)
    except user_pattern.PatternError:
        return False  # the key's own check says so
    except user_pattern.MatchLimitError as error:
        raise errors.ConfigError(str(error)) from None
