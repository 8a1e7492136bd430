"""Definitions of the keys that all connectors share: `CONNECTOR`, `SOURCE` and `SINK`."""

from __future__ import annotations

import inspect
from typing import Any

from connect_runtime.api import config_types
from connect_runtime.api.config_def import ConfigDef, Importance, Type, Width
from connect_runtime.api.config_validators import (
    CaseInsensitiveValidString,
    Composite,
    Lambda,
    NonEmptyString,
    NonEmptyStringWithoutControlChars,
    NonNull,
    Range,
    Validator,
    ValidList,
    ValidString,
)
from connect_runtime.api.converter import Converter, HeaderConverter
from connect_runtime.api.errors import ConfigError
from connect_runtime.base import bounded_regex, ids
from connect_runtime.base.bounded_regex import PatternError

_COMMON, _TRANSFORMS, _ERRORS = "Common", "Transforms", "Error Handling"
_TOPIC_KEY_COUNT = 4
"""Order number of `topics` and `topics.regex` in the common group. As in Java, other keys have the
same number."""
TASKS_MAX_LIMIT = 10_000
"""Largest value of `tasks.max`, and maximum number of tasks of a connector even if
`tasks.max.enforce` is false. Java has no limit."""
_SHOWN_NAME_CHARS = 255
"""Maximum number of characters of an invalid connector name in an error message."""
_CONVERTER_BASES = {
    "key": Converter,
    "value": Converter,
    "header": HeaderConverter,
}


def _check_alias_list(name: str, value: Any) -> None:
    if value is not None and len(set(value)) != len(value):
        raise config_types.build_invalid_value_error(name, value, "Duplicate alias provided.")


_ALIASES_VALIDATOR = Composite(
    NonNull(),
    Lambda(_check_alias_list, "unique aliases"),
)


def _build_class_validator(base: type, word: str) -> Validator:
    def check_class_value(name: str, value: Any) -> None:
        if value is None:
            return
        if not issubclass(value, base):
            raise ConfigError(
                f"Class {config_types.format_value_for_message(value)} does not implement "
                f"the {word} interface"
            )
        if inspect.isabstract(value):
            raise ConfigError("This class is abstract and cannot be created.")

    return Lambda(check_class_value, f"A concrete subclass of {word}")


def _check_regex_value(name: str, value: Any) -> None:
    try:
        bounded_regex.compile_pattern(value or "")
    except PatternError as error:
        raise config_types.build_invalid_value_error(
            name, value, f"Invalid regex: {error.reason}"
        ) from None


_ValidString = ValidString
_CaseInsensitiveValidString = CaseInsensitiveValidString
_SHARED_NUMBERING = {
    _TRANSFORMS: _COMMON,
    "Predicates": _COMMON,
    "Exactly Once Support": "Topic Creation",
}


class _KeyBuilder:
    """Assigns order numbers to the configuration keys of each group. As in Java, some groups share
    a counter."""

    def __init__(self, base: ConfigDef | None = None) -> None:
        self.keys = ConfigDef(base)
        self._orders: dict[str, int] = {}
        for key in self.keys.keys.values():
            self._get_next_order_in_group(str(key.group))

    def add_key(self, name: str, of: Type, text: str, *, group: str, **options: Any) -> None:
        options.setdefault("order_in_group", self._get_next_order_in_group(group))
        self.keys.define(name, of, text, group=group, **options)

    def _get_next_order_in_group(self, group: str) -> int:
        counter = _SHARED_NUMBERING.get(group, group)
        self._orders[counter] = self._orders.get(counter, 0) + 1
        return self._orders[counter]


def explain_invalid_name(name: str) -> str:
    """Return why a connector name is invalid, or "" if it is valid.

    Invalid names cannot be part of a URL (`.` and `..`), cannot be encoded as UTF-8 for the config
    topic (lone surrogates), or are too long for the group's assignments. Java accepts these names.
    """
    if ids.is_connector_name_too_long(name):
        return (
            f"starts with {name[:_SHOWN_NAME_CHARS]!a} and is too long: use at most "
            f"{ids.MAX_CONNECTOR_NAME_BYTES} bytes in UTF-8"
        )
    if name in (".", ".."):
        return f"is {name!r}, which cannot be part of a URL"
    if any("\ud800" <= each <= "\udfff" for each in name):
        return f"is {name!a}, which contains a lone surrogate"
    return ""


def _check_connector_name(name: str, value: Any) -> None:
    NonEmptyStringWithoutControlChars().ensure_valid(name, value)
    refused = explain_invalid_name(value or "")
    if refused:
        raise config_types.build_invalid_value_error(
            name, ascii(value[:_SHOWN_NAME_CHARS]), f"The name of a connector {refused}"
        )


def _define_connector_keys() -> ConfigDef:
    builder = _KeyBuilder()
    builder.add_key(
        "name",
        Type.STRING,
        f"Unique name of the connector, at most {ids.MAX_CONNECTOR_NAME_BYTES} bytes in UTF-8.",
        group=_COMMON,
        validator=Lambda(_check_connector_name, str(NonEmptyStringWithoutControlChars())),
        display_name="Connector name",
        width=Width.MEDIUM,
    )
    builder.add_key(
        "connector.class",
        Type.STRING,
        "Class of the connector: the full name, or the short name if it is unique.",
        group=_COMMON,
        display_name="Connector class",
        width=Width.LONG,
    )
    _add_version_key(builder, "connector")
    builder.add_key(
        "tasks.max",
        Type.INT,
        f"Maximum number of tasks, at most {TASKS_MAX_LIMIT:,}.",
        group=_COMMON,
        default=1,
        validator=Range(at_least=1, at_most=TASKS_MAX_LIMIT),
        display_name="Tasks max",
        width=Width.SHORT,
    )
    builder.add_key(
        "tasks.max.enforce",
        Type.BOOLEAN,
        "Whether a connector fails if it generates more than tasks.max tasks. Deprecated.",
        group=_COMMON,
        default=True,
        importance=Importance.LOW,
        display_name="Enforce tasks max",
        width=Width.SHORT,
    )
    for part in ("key", "value", "header"):
        _add_converter_keys(builder, part)
    _add_transform_keys(builder)
    builder.add_key(
        "config.action.reload",
        Type.STRING,
        "Action when a value from a config provider changes: none or restart.",
        group=_COMMON,
        default="restart",
        validator=_ValidString("none", "restart"),
        importance=Importance.LOW,
        display_name="Reload Action",
        width=Width.MEDIUM,
    )
    _add_error_keys(builder)
    return builder.keys


def _add_transform_keys(builder: _KeyBuilder) -> None:
    for name in ("transforms", "predicates"):
        builder.add_key(
            name,
            Type.LIST,
            f"Aliases of the {name} to apply to records.",
            group=_TRANSFORMS if name == "transforms" else "Predicates",
            default=[],
            validator=_ALIASES_VALIDATOR,
            importance=Importance.LOW,
            display_name=name.capitalize(),
            width=Width.LONG,
        )


def _add_converter_keys(builder: _KeyBuilder, part: str) -> None:
    builder.add_key(
        f"{part}.converter",
        Type.CLASS,
        f"Converter class for the {part}; the worker's converter by default.",
        group=_COMMON,
        default=None,
        validator=_build_class_validator(_CONVERTER_BASES[part], _CONVERTER_BASES[part].__name__),
        importance=Importance.LOW,
        display_name=f"{part.capitalize()} converter class",
        width=Width.SHORT,
    )
    _add_version_key(builder, f"{part}.converter")


def _add_version_key(builder: _KeyBuilder, of: str) -> None:
    builder.add_key(
        f"{of}.plugin.version",
        Type.STRING,
        f"Plugin version of the {of.replace('.', ' ')}; the newest by default.",
        group=_COMMON,
        default=None,
        importance=Importance.MEDIUM if of == "connector" else Importance.LOW,
        display_name=f"{of.replace('.', ' ').capitalize()} version",
        width=Width.MEDIUM if of == "connector" else Width.SHORT,
    )


def _add_error_keys(builder: _KeyBuilder) -> None:
    builder.add_key(
        "errors.retry.timeout",
        Type.LONG,
        "Maximum time for retrying a failed operation, in milliseconds; -1 retries without limit.",
        group=_ERRORS,
        default=0,
        importance=Importance.MEDIUM,
        display_name="Retry Timeout for Errors",
        width=Width.MEDIUM,
    )
    builder.add_key(
        "errors.retry.delay.max.ms",
        Type.LONG,
        "Maximum delay between two retries, in milliseconds.",
        group=_ERRORS,
        default=60_000,
        importance=Importance.MEDIUM,
        display_name="Maximum Delay Between Retries for Errors",
        width=Width.MEDIUM,
    )
    builder.add_key(
        "errors.tolerance",
        Type.STRING,
        "Error tolerance: none fails the task on every error; all skips records with errors.",
        group=_ERRORS,
        default="none",
        validator=_ValidString("none", "all"),
        importance=Importance.MEDIUM,
        display_name="Error Tolerance",
        width=Width.SHORT,
    )
    for name, display_name, text in (
        ("errors.log.enable", "Log Errors", "Whether to log the error of each failed operation."),
        (
            "errors.log.include.messages",
            "Log Error Details",
            "Whether to include the record that caused the error when an error is logged.",
        ),
    ):
        builder.add_key(
            name,
            Type.BOOLEAN,
            text,
            group=_ERRORS,
            default=False,
            importance=Importance.MEDIUM,
            display_name=display_name,
            width=Width.SHORT,
        )


def _define_source_keys(base: ConfigDef) -> ConfigDef:
    builder = _KeyBuilder(base)
    builder.add_key(
        "topic.creation.groups",
        Type.LIST,
        "Aliases of topic groups with their own creation settings.",
        group="Topic Creation",
        default=[],
        validator=_ALIASES_VALIDATOR,
        importance=Importance.LOW,
        display_name="Topic Creation Groups",
        width=Width.LONG,
    )
    once = "Exactly Once Support"
    builder.add_key(
        "exactly.once.support",
        Type.STRING,
        "Exactly-once support: required rejects the connector unless it supports exactly-once "
        "delivery.",
        group=once,
        default="requested",
        validator=_CaseInsensitiveValidString("required", "requested"),
        importance=Importance.MEDIUM,
        display_name="Exactly once support",
        width=Width.SHORT,
    )
    builder.add_key(
        "transaction.boundary",
        Type.STRING,
        "Transaction boundaries: after each poll, at an interval, or defined by the connector.",
        group=once,
        default="poll",
        validator=_CaseInsensitiveValidString("interval", "poll", "connector"),
        importance=Importance.MEDIUM,
        display_name="Transaction Boundary",
        width=Width.SHORT,
    )
    builder.add_key(
        "transaction.boundary.interval.ms",
        Type.LONG,
        "Transaction interval in milliseconds; the worker's flush interval by default.",
        group=once,
        default=None,
        validator=Lambda(_check_transaction_interval, "null or [0,...]"),
        importance=Importance.LOW,
        display_name="Transaction boundary interval",
        width=Width.SHORT,
    )
    builder.add_key(
        "offsets.storage.topic",
        Type.STRING,
        "Separate topic for the connector's offsets.",
        group="offsets.topic",
        default=None,
        validator=NonEmptyString(),
        importance=Importance.LOW,
        display_name="Offsets topic",
        width=Width.LONG,
    )
    return builder.keys


def _check_transaction_interval(name: str, value: Any) -> None:
    if value is not None:
        Range(at_least=0).ensure_valid(name, value)


def _define_sink_keys(base: ConfigDef) -> ConfigDef:
    builder = _KeyBuilder(base)
    builder.add_key(
        "topics",
        Type.LIST,
        "Topics to consume.",
        group=_COMMON,
        default=[],
        validator=ValidList(),
        display_name="Topics",
        width=Width.LONG,
        order_in_group=_TOPIC_KEY_COUNT,
    )
    builder.add_key(
        "topics.regex",
        Type.STRING,
        "Regular expression that must match the whole name of the topics to consume.",
        group=_COMMON,
        default="",
        validator=Lambda(_check_regex_value, "valid regex"),
        display_name="Topics regex",
        width=Width.LONG,
        order_in_group=_TOPIC_KEY_COUNT,
    )
    dead = "errors.deadletterqueue."
    builder.add_key(
        f"{dead}topic.name",
        Type.STRING,
        "Dead letter queue topic for records with errors.",
        group=_ERRORS,
        default="",
        importance=Importance.MEDIUM,
        display_name="Dead Letter Queue Topic Name",
        width=Width.MEDIUM,
    )
    builder.add_key(
        f"{dead}topic.replication.factor",
        Type.SHORT,
        "Replication factor for creating the dead letter queue topic.",
        group=_ERRORS,
        default=3,
        importance=Importance.MEDIUM,
        display_name="Dead Letter Queue Topic Replication Factor",
        width=Width.MEDIUM,
    )
    builder.add_key(
        f"{dead}context.headers.enable",
        Type.BOOLEAN,
        "Whether to add headers that describe the error to dead letter queue records.",
        group=_ERRORS,
        default=False,
        importance=Importance.MEDIUM,
        display_name="Enable Error Context Headers",
        width=Width.MEDIUM,
    )
    return builder.keys


CONNECTOR = _define_connector_keys()
SOURCE = _define_source_keys(CONNECTOR)
SINK = _define_sink_keys(CONNECTOR)
