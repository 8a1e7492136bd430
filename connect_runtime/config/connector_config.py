"""Parsed connector configuration, and checks that involve more than one key.

The `parse_…` functions raise `ConfigError` for the first invalid value. The `check_…` functions
find all problems and add them as errors to the `ConfigValue` of each key, for
`PUT /connector-plugins/.../config/validate`. Java: SourceConnectorConfig, SinkConnectorConfig and
AbstractHerder.validateConnectorConfig of Kafka 4.3.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.api import config_types
from connect_runtime.api.config_def import ConfigValue
from connect_runtime.api.config_infos import ConfigInfo, ConfigValueInfo
from connect_runtime.api.config_types import ClassLoader
from connect_runtime.api.errors import ConfigError
from connect_runtime.api.task import TransactionBoundary
from connect_runtime.base import bounded_regex
from connect_runtime.base.bounded_regex import BoundedPattern, MatchLimitError, PatternError
from connect_runtime.config import config_errors, connector_client_settings, connector_config_keys
from connect_runtime.config.connector_client_settings import ClientKind
from connect_runtime.config.worker_config import WorkerConfig

TOPICS, TOPICS_REGEX = "topics", "topics.regex"
DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"
TOPIC_CREATION = "topic.creation."
TOPIC_CREATION_GROUPS = f"{TOPIC_CREATION}groups"
_TOPIC_CREATION_UNSUPPORTED = (
    "This version does not support topic creation rules of connectors: remove topic.creation.* and"
    " create the topics beforehand."
)


class ReloadAction(enum.Enum):
    """Value of `config.action.reload`: the action when a config provider's value changes."""

    NONE = "none"
    RESTART = "restart"


class ErrorTolerance(enum.Enum):
    """Value of `errors.tolerance`: whether records with errors are skipped."""

    NONE = "none"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorHandlingConfig:
    """Parsed `errors.*` settings of a connector."""

    retry_timeout_ms: int = 0
    """Maximum time for retrying a failed operation; -1 retries without a time limit."""
    retry_delay_max_ms: int = 60_000
    tolerance: ErrorTolerance = ErrorTolerance.NONE
    log: bool = False
    log_messages: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorConfig:
    """Settings common to source and sink connectors."""

    raw: Mapping[str, str | None] = field(repr=False)
    """The complete configuration with `${…}` references resolved; may contain secrets."""
    name: str
    connector_class: str
    tasks_max: int
    enforce_tasks_max: bool
    reload: ReloadAction
    transforms: tuple[str, ...]
    predicates: tuple[str, ...]
    errors: ErrorHandlingConfig
    unsupported_settings: Mapping[str, str]
    """Unsupported settings by name, each with the reason why the connector cannot run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConnectorConfig(ConnectorConfig):
    """Settings of source connectors."""

    topic_creation_groups: tuple[str, ...]
    exactly_once_required: bool
    boundary: TransactionBoundary
    boundary_interval_ms: int | None
    """Transaction boundary interval; None selects the worker's flush interval."""
    offsets_topic: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkConnectorConfig(ConnectorConfig):
    """Settings of sink connectors. Exactly one of `topics` and `topics_regex` is set."""

    topics: tuple[str, ...]
    topics_regex: BoundedPattern | None
    dead_letter_topic: str | None
    dead_letter_replication: int
    dead_letter_headers: bool


def parse_source_config(
    props: Mapping[str, str | None], *, load: ClassLoader = config_types.find_imported_class
) -> SourceConnectorConfig:
    """Parse a source connector's configuration.

    Raises `ConfigError` for the first invalid value.
    """
    found = connector_config_keys.SOURCE.parse(props, load=load)
    return SourceConnectorConfig(
        **_parse_common_config(props, found),
        topic_creation_groups=tuple(found["topic.creation.groups"]),
        exactly_once_required=found["exactly.once.support"].lower() == "required",
        boundary=TransactionBoundary.parse(found["transaction.boundary"]),
        boundary_interval_ms=found["transaction.boundary.interval.ms"],
        offsets_topic=found["offsets.storage.topic"],
    )


def parse_sink_config(
    props: Mapping[str, str | None], *, load: ClassLoader = config_types.find_imported_class
) -> SinkConnectorConfig:
    """Parse a sink connector's configuration.

    Raises `ConfigError` for the first invalid value, or if its topic settings conflict.
    """
    found = connector_config_keys.SINK.parse(props, load=load)
    topics, pattern = tuple(found["topics"]), found["topics.regex"]
    problems = find_sink_topic_problems(props)
    if problems:
        raise ConfigError(" ".join(dict.fromkeys(problems.values())))
    return SinkConnectorConfig(
        **_parse_common_config(props, found),
        topics=topics,
        topics_regex=bounded_regex.compile_pattern(pattern) if pattern else None,
        dead_letter_topic=found[DEAD_LETTER_TOPIC] or None,
        dead_letter_replication=found["errors.deadletterqueue.topic.replication.factor"],
        dead_letter_headers=found["errors.deadletterqueue.context.headers.enable"],
    )


def find_sink_topic_problems(props: Mapping[str, str | None]) -> dict[str, str]:
    """Find conflicts between a sink connector's `topics`, `topics.regex` and dead letter queue
    topic. Return an error message for each key with a conflict.

    The messages are those of Java's SinkConnectorConfig.validate.
    """
    topics = [each.strip() for each in (props.get(TOPICS) or "").split(",") if each.strip()]
    pattern = (props.get(TOPICS_REGEX) or "").strip()
    dead_letter_topic = (props.get(DEAD_LETTER_TOPIC) or "").strip()
    if topics and pattern:
        return dict.fromkeys(
            (TOPICS, TOPICS_REGEX),
            f"{TOPICS} and {TOPICS_REGEX} are mutually exclusive options, but both are set.",
        )
    if not topics and not pattern:
        return dict.fromkeys(
            (TOPICS, TOPICS_REGEX), f"Must configure one of {TOPICS} or {TOPICS_REGEX}"
        )
    if dead_letter_topic and dead_letter_topic in topics:
        listed = config_types.format_value_for_message(list(dict.fromkeys(topics)))
        return {
            TOPICS: f"The DLQ topic '{dead_letter_topic}' may not be included in the list of topics"
            f" ('{TOPICS}={listed}') consumed by the connector"
        }
    if dead_letter_topic and pattern and _matches_topics_regex(pattern, dead_letter_topic):
        return {
            TOPICS_REGEX: f"The DLQ topic '{dead_letter_topic}' may not be matched by the regex for"
            f" the topics ('{TOPICS_REGEX}={pattern}') consumed by the connector"
        }
    return {}


def find_unsupported_settings(parsed: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    """Return the settings that this version does not support, with the reason and remedy.

    `parsed` contains the valid parsed values; `names` contains the names of all settings, including
    unknown ones. `errors.log.enable` is always accepted, because an error that fails the task is
    logged anyway.
    """
    messages = {
        name: text for name, wanted, text in _UNSUPPORTED_SETTINGS if wanted(parsed.get(name))
    }
    if TOPIC_CREATION_GROUPS in parsed:
        for name in sorted(each for each in names if each.startswith(TOPIC_CREATION)):
            messages[name] = _TOPIC_CREATION_UNSUPPORTED
    return messages


def _tolerates_all_errors(value: Any) -> bool:
    return isinstance(value, str) and value != ErrorTolerance.NONE.value


def _is_exactly_once_required(value: Any) -> bool:
    return isinstance(value, str) and value.lower() == "required"


_UNSUPPORTED_SETTINGS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    (
        "transforms",
        bool,
        "This version does not support transforms: remove the setting transforms.",
    ),
    (
        "predicates",
        bool,
        "This version does not support predicates: remove the setting predicates.",
    ),
    (
        "errors.tolerance",
        _tolerates_all_errors,
        "This version does not support error tolerance: set errors.tolerance to none.",
    ),
    (
        "errors.retry.timeout",
        bool,
        "This version does not retry failed operations: set errors.retry.timeout to 0.",
    ),
    (
        DEAD_LETTER_TOPIC,
        bool,
        f"This version does not support dead letter queues: remove {DEAD_LETTER_TOPIC}.",
    ),
    (
        "exactly.once.support",
        _is_exactly_once_required,
        "This worker does not have exactly-once source support enabled."
        " Set exactly.once.support to requested.",
    ),
    (
        "offsets.storage.topic",
        bool,
        "This version does not support separate offsets topics for connectors: remove"
        " offsets.storage.topic.",
    ),
)


def _parse_common_config(
    props: Mapping[str, str | None], found: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "raw": dict(props),
        "name": found["name"],
        "connector_class": found["connector.class"],
        "tasks_max": found["tasks.max"],
        "enforce_tasks_max": found["tasks.max.enforce"],
        "reload": ReloadAction(found["config.action.reload"]),
        "transforms": tuple(found["transforms"]),
        "predicates": tuple(found["predicates"]),
        "errors": ErrorHandlingConfig(
            retry_timeout_ms=found["errors.retry.timeout"],
            retry_delay_max_ms=found["errors.retry.delay.max.ms"],
            tolerance=ErrorTolerance(found["errors.tolerance"]),
            log=found["errors.log.enable"],
            log_messages=found["errors.log.include.messages"],
        ),
        "unsupported_settings": find_unsupported_settings(found, props),
    }


def _matches_topics_regex(pattern: str, topic: str) -> bool:
    try:
        return bounded_regex.compile_pattern(pattern).fullmatch(topic, key=TOPICS_REGEX)
    except PatternError:
        return False  # the key's own validator reports the invalid pattern
    except MatchLimitError as error:
        raise ConfigError(str(error)) from None


ConnectorProps = Mapping[str, str | None]
ConfigValues = dict[str, ConfigValue]
_ClientKind = ClientKind
_GROUP_ID_OVERRIDE = f"{_ClientKind.CONSUMER.override_prefix}group.id"


def add_config_error(
    values: ConfigValues, name: str, message: str, *, value: str | None = None
) -> None:
    """Add an error message to a key's validation result, even if the key has no definition."""
    found = values.setdefault(name, ConfigValue(name=name, value=value))
    found.error_messages.append(message)


def check_null_values(values: ConfigValues, config: ConnectorProps) -> None:
    for name, value in config.items():
        if value is None:
            add_config_error(
                values, name, "Null value can not be supplied as the configuration value."
            )


def check_sink_topic_settings(values: ConfigValues, config: ConnectorProps) -> None:
    """Add errors for conflicting topic settings of a sink connector."""
    for name, message in find_sink_topic_problems(config).items():
        add_config_error(values, name, message)


def check_consumer_group(
    values: ConfigValues, config: ConnectorProps, *, worker_group: str
) -> None:
    """Add an error if a sink connector's consumer group is `worker_group`, the group of the
    Connect workers."""
    if _GROUP_ID_OVERRIDE in config:
        group = config[_GROUP_ID_OVERRIDE]
        if group == worker_group:
            message = f"Consumer group {group} conflicts with Connect worker group {worker_group}"
            add_config_error(values, _GROUP_ID_OVERRIDE, message, value=group)
    elif f"connect-{values['name'].value}" == worker_group:
        name = values["name"].value
        message = (
            f"Consumer group for sink connector named {name} conflicts with Connect worker group"
            f" {worker_group}"
        )
        add_config_error(values, "name", message)


def check_unsupported_settings(
    values: ConfigValues, config: ConnectorProps, *, self_applied_keys: Collection[str] = ()
) -> None:
    """Add errors for unsupported settings, except for keys that already have an error.

    `self_applied_keys` are settings that the connector applies itself, so that the worker need not
    support them.
    """
    found = {name: each.value for name, each in values.items() if not each.error_messages}
    for name, message in find_unsupported_settings(found, config).items():
        if name not in self_applied_keys:
            add_config_error(values, name, message, value=config.get(name))


def check_token_endpoints(
    values: ConfigValues, config: ConnectorProps, worker: WorkerConfig
) -> None:
    """Add errors for token endpoints that the worker does not allow.

    Endpoints in client overrides are checked by `check_client_overrides`.
    """
    for name, message in connector_client_settings.find_refused_token_endpoints(
        worker, config
    ).items():
        if not any(
            name in connector_client_settings.find_client_overrides([name], kind)
            for kind in _ClientKind
        ):
            add_config_error(values, name, message, value=config.get(name))


def check_client_overrides(
    worker: WorkerConfig, config: ConnectorProps, *, sink: bool
) -> list[ConfigInfo]:
    """Return the validation result of every client override of the connector, with an error for
    each override that the worker does not allow."""
    found = []
    for kind in _list_client_kinds(config, sink=sink):
        refused = {
            **connector_client_settings.find_refused_token_endpoints(worker, config),
            **connector_client_settings.find_refused_overrides(worker, config, kind),
        }
        for name, key in connector_client_settings.find_client_overrides(config, kind).items():
            value = ConfigValueInfo(
                name=name,
                value=(
                    config_types.HIDDEN_PASSWORD
                    if config_errors.is_sensitive_key(key)
                    else config[name]
                ),
                recommended_values=(),
                errors=(refused[name],) if name in refused else (),
                visible=True,
            )
            found.append(ConfigInfo(definition=None, value=value))
    return found


def _list_client_kinds(config: ConnectorProps, *, sink: bool) -> list[ClientKind]:
    """Return the kinds of clients that a connector with this configuration uses."""
    if sink:
        dead_letters = (config.get(DEAD_LETTER_TOPIC) or "").strip()
        return (
            [_ClientKind.PRODUCER, _ClientKind.ADMIN, _ClientKind.CONSUMER]
            if dead_letters
            else [_ClientKind.CONSUMER]
        )
    found = [_ClientKind.PRODUCER]
    own_offsets = bool((config.get("offsets.storage.topic") or "").strip())
    if own_offsets or any(each.startswith(TOPIC_CREATION) for each in config):
        found.append(_ClientKind.ADMIN)
    return [*found, _ClientKind.CONSUMER] if own_offsets else found
