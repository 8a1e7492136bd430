"""What all connectors are configured with: keys, defaults and checks of Kafka 4.3, and their parse.

`source_keys` and `sink_keys` are for validation, key by key; `source` and `sink` for running.
Java: ConnectorConfig, SourceConnectorConfig, SinkConnectorConfig.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.api import config_types, errors, task
from connect_runtime.core.task import connector_keys


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
    """What both kinds have. `raw`: everything as given, `${…}` resolved; it may hold secrets."""

    raw: Mapping[str, str | None] = field(repr=False)
    name: str
    connector_class: str
    tasks_max: int
    enforce_tasks_max: bool
    reload: ReloadAction
    transforms: tuple[str, ...]
    predicates: tuple[str, ...]
    errors: Errors


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
    topics_regex: re.Pattern[str] | None
    dead_letter_topic: str | None
    dead_letter_replication: int
    dead_letter_headers: bool


def source(
    props: Mapping[str, str | None], *, load: config_types.LoadClass = config_types.load_class
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
    props: Mapping[str, str | None], *, load: config_types.LoadClass = config_types.load_class
) -> SinkConfig:
    """Raises `ConfigError`, also for `topics` and `topics.regex` at odds with each other."""
    found = connector_keys.SINK.parse(props, load=load)
    topics, pattern = tuple(found["topics"]), found["topics.regex"]
    wrong = topics_at_odds(props)
    if wrong is not None:
        raise errors.ConfigError(wrong)
    return SinkConfig(
        **_shared(props, found),
        topics=topics,
        topics_regex=re.compile(pattern) if pattern else None,
        dead_letter_topic=found["errors.deadletterqueue.topic.name"] or None,
        dead_letter_replication=found["errors.deadletterqueue.topic.replication.factor"],
        dead_letter_headers=found["errors.deadletterqueue.context.headers.enable"],
    )


def topics_at_odds(props: Mapping[str, str | None]) -> str | None:
    """What is wrong with a sink's `topics`, `topics.regex` and dead letter topic together."""
    topics = [each.strip() for each in (props.get("topics") or "").split(",") if each.strip()]
    pattern = (props.get("topics.regex") or "").strip()
    dead = (props.get("errors.deadletterqueue.topic.name") or "").strip()
    if topics and pattern:
        return "topics and topics.regex are mutually exclusive: configure one of them"
    if not topics and not pattern:
        return "one of topics and topics.regex must be configured"
    if dead and dead in topics:
        return f"the dead letter topic {dead} is among topics: it would be read again for ever"
    if dead and pattern and _matches(pattern, dead):
        return (
            f"the dead letter topic {dead} matches topics.regex {pattern}: it would be read again"
            " for ever"
        )
    return None


def not_offered(config: ConnectorConfig) -> list[str]:
    """Keys that mean something and are not honoured by this version: refused, not ignored.

    `errors.log.enable` may be anything: an error that fails the task is logged in any case.
    """
    found = []
    if config.transforms:
        found.append("transforms")
    if config.predicates:
        found.append("predicates")
    if config.errors.tolerance is not Tolerance.NONE:
        found.append("errors.tolerance")
    if config.errors.retry_timeout_ms != 0:
        found.append("errors.retry.timeout")
    if isinstance(config, SinkConfig) and config.dead_letter_topic is not None:
        found.append("errors.deadletterqueue.topic.name")
    if isinstance(config, SourceConfig):
        found += _not_offered_to_sources(config)
    return found


def _not_offered_to_sources(config: SourceConfig) -> list[str]:
    found = sorted(each for each in config.raw if each.startswith("topic.creation."))
    if config.exactly_once_required:
        found.append("exactly.once.support")
    if config.offsets_topic is not None:
        found.append("offsets.storage.topic")
    return found


def _shared(props: Mapping[str, str | None], found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "raw": dict(props),
        "name": found["name"],
        "connector_class": found["connector.class"],
        "tasks_max": found["tasks.max"],
        "enforce_tasks_max": found["tasks.max.enforce"],
        "reload": ReloadAction(found["config.action.reload"].lower()),
        "transforms": tuple(found["transforms"]),
        "predicates": tuple(found["predicates"]),
        "errors": Errors(
            retry_timeout_ms=found["errors.retry.timeout"],
            retry_delay_max_ms=found["errors.retry.delay.max.ms"],
            tolerance=Tolerance(found["errors.tolerance"].lower()),
            log=found["errors.log.enable"],
            log_messages=found["errors.log.include.messages"],
        ),
    }


def _matches(pattern: str, topic: str) -> bool:
    try:
        return re.fullmatch(pattern, topic) is not None
    except re.error:
        return False  # the key's own check says so
