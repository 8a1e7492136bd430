"""Definitions of the keys that all connectors have: `CONNECTOR`, `SOURCE` and `SINK`."""

from __future__ import annotations

import inspect
from typing import Any

from connect_runtime.api import config_def, config_types
from connect_runtime.api.config_def import ConfigDef
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
from connect_runtime.base import bounded_regex
from connect_runtime.base.bounded_regex import PatternError

Type = config_def.Type
Importance = config_def.Importance
Width = config_def.Width
_COMMON, _TRANSFORMS, _ERRORS = "Common", "Transforms", "Error Handling"
_TOPIC_KEY_COUNT = 4
"""The place among the common keys that Java gives both, whoever stands there too."""
_CONVERTER_BASES = {
    "key": Converter,
    "value": Converter,
    "header": HeaderConverter,
}


def _check_aliases(name: str, value: Any) -> None:
    if value is not None and len(set(value)) != len(value):
        raise config_types.invalid(name, value, "Duplicate alias provided.")


_ALIASES_VALIDATOR = Composite(
    NonNull(),
    Lambda(_check_aliases, "unique aliases"),
)


def _build_class_validator(base: type, word: str) -> Validator:
    def check(name: str, value: Any) -> None:
        if value is None:
            return
        if not issubclass(value, base):
            raise ConfigError(
                f"Class {config_types.format_for_message(value)} does not implement the {word} "
                "interface"
            )
        if inspect.isabstract(value):
            raise ConfigError("This class is abstract and cannot be created.")

    return Lambda(check, f"A concrete subclass of {word}")


def _check_pattern(name: str, value: Any) -> None:
    try:
        bounded_regex.compile_pattern(value or "")
    except PatternError as error:
        raise config_types.invalid(name, value, f"Invalid regex: {error.reason}") from None


_one_of = ValidString
_one_in_any_case = CaseInsensitiveValidString
_SHARED_NUMBERING = {
    _TRANSFORMS: _COMMON,
    "Predicates": _COMMON,
    "Exactly Once Support": "Topic Creation",
}


class _KeyBuilder:
    """Numbers the keys of each group as they come; some groups share numbers, as in Java."""

    def __init__(self, base: ConfigDef | None = None) -> None:
        self.keys = ConfigDef(base)
        self._orders: dict[str, int] = {}
        for key in self.keys.keys.values():
            self._next(str(key.group))

    def add(self, name: str, of: Type, text: str, *, group: str, **options: Any) -> None:
        options.setdefault("order_in_group", self._next(group))
        self.keys.define(name, of, text, group=group, **options)

    def _next(self, group: str) -> int:
        counter = _SHARED_NUMBERING.get(group, group)
        self._orders[counter] = self._orders.get(counter, 0) + 1
        return self._orders[counter]


def explain_invalid_name(name: str) -> str:
    """Why no connector can have this name, "" where one can. Java takes these, and then no URL
    leads to the connector, or its records cannot be written."""
    if name in (".", ".."):
        return f"is {name!r}, which no URL can hold"
    if any("\ud800" <= each <= "\udfff" for each in name):
        return f"is {name!a}, which has half of a character (a lone surrogate)"
    return ""


def _check_name(name: str, value: Any) -> None:
    NonEmptyStringWithoutControlChars().ensure_valid(name, value)
    refused = explain_invalid_name(value or "")
    if refused:
        raise config_types.invalid(name, ascii(value), f"The name of a connector {refused}")


def _define_connector_keys() -> ConfigDef:
    made = _KeyBuilder()
    made.add(
        "name",
        Type.STRING,
        "Unique among connectors.",
        group=_COMMON,
        validator=Lambda(_check_name, str(NonEmptyStringWithoutControlChars())),
        display_name="Connector name",
        width=Width.MEDIUM,
    )
    made.add(
        "connector.class",
        Type.STRING,
        "The connector's class: in full, or its short name where only one has that.",
        group=_COMMON,
        display_name="Connector class",
        width=Width.LONG,
    )
    _add_version_key(made, "connector")
    made.add(
        "tasks.max",
        Type.INT,
        "How many tasks at most.",
        group=_COMMON,
        default=1,
        validator=Range(at_least=1),
        display_name="Tasks max",
        width=Width.SHORT,
    )
    made.add(
        "tasks.max.enforce",
        Type.BOOLEAN,
        "Whether a connector that wants more tasks fails. Deprecated.",
        group=_COMMON,
        default=True,
        importance=Importance.LOW,
        display_name="Enforce tasks max",
        width=Width.SHORT,
    )
    for part in ("key", "value", "header"):
        _add_converter_keys(made, part)
    _add_transform_keys(made)
    made.add(
        "config.action.reload",
        Type.STRING,
        "What follows when a provider's value changes.",
        group=_COMMON,
        default="restart",
        validator=_one_of("none", "restart"),
        importance=Importance.LOW,
        display_name="Reload Action",
        width=Width.MEDIUM,
    )
    _add_error_keys(made)
    return made.keys


def _add_transform_keys(made: _KeyBuilder) -> None:
    for name in ("transforms", "predicates"):
        made.add(
            name,
            Type.LIST,
            f"Aliases of the {name} of records.",
            group=_TRANSFORMS if name == "transforms" else "Predicates",
            default=[],
            validator=_ALIASES_VALIDATOR,
            importance=Importance.LOW,
            display_name=name.capitalize(),
            width=Width.LONG,
        )


def _add_converter_keys(made: _KeyBuilder, part: str) -> None:
    made.add(
        f"{part}.converter",
        Type.CLASS,
        "The class that converts; without one it is the worker's.",
        group=_COMMON,
        default=None,
        validator=_build_class_validator(_CONVERTER_BASES[part], _CONVERTER_BASES[part].__name__),
        importance=Importance.LOW,
        display_name=f"{part.capitalize()} converter class",
        width=Width.SHORT,
    )
    _add_version_key(made, f"{part}.converter")


def _add_version_key(made: _KeyBuilder, of: str) -> None:
    made.add(
        f"{of}.plugin.version",
        Type.STRING,
        "Which version of it; without one the newest.",
        group=_COMMON,
        default=None,
        importance=Importance.MEDIUM if of == "connector" else Importance.LOW,
        display_name=f"{of.replace('.', ' ').capitalize()} version",
        width=Width.MEDIUM if of == "connector" else Width.SHORT,
    )


def _add_error_keys(made: _KeyBuilder) -> None:
    made.add(
        "errors.retry.timeout",
        Type.LONG,
        "For how long a failed operation is tried again, in milliseconds; -1: for ever.",
        group=_ERRORS,
        default=0,
        importance=Importance.MEDIUM,
        display_name="Retry Timeout for Errors",
        width=Width.MEDIUM,
    )
    made.add(
        "errors.retry.delay.max.ms",
        Type.LONG,
        "The longest wait between two tries.",
        group=_ERRORS,
        default=60_000,
        importance=Importance.MEDIUM,
        display_name="Maximum Delay Between Retries for Errors",
        width=Width.MEDIUM,
    )
    made.add(
        "errors.tolerance",
        Type.STRING,
        "none: any error fails the task; all: records with errors are skipped.",
        group=_ERRORS,
        default="none",
        validator=_one_of("none", "all"),
        importance=Importance.MEDIUM,
        display_name="Error Tolerance",
        width=Width.SHORT,
    )
    for name, text in (
        ("errors.log.enable", "Log Errors"),
        ("errors.log.include.messages", "Log Error Details"),
    ):
        made.add(
            name,
            Type.BOOLEAN,
            "Whether errors are logged, and with the record.",
            group=_ERRORS,
            default=False,
            importance=Importance.MEDIUM,
            display_name=text,
            width=Width.SHORT,
        )


def _define_source_keys(base: ConfigDef) -> ConfigDef:
    made = _KeyBuilder(base)
    made.add(
        "topic.creation.groups",
        Type.LIST,
        "Groups of topics that are made differently.",
        group="Topic Creation",
        default=[],
        validator=_ALIASES_VALIDATOR,
        importance=Importance.LOW,
        display_name="Topic Creation Groups",
        width=Width.LONG,
    )
    once = "Exactly Once Support"
    made.add(
        "exactly.once.support",
        Type.STRING,
        "required: the connector is refused unless it writes exactly once.",
        group=once,
        default="requested",
        validator=_one_in_any_case("required", "requested"),
        importance=Importance.MEDIUM,
        display_name="Exactly once support",
        width=Width.SHORT,
    )
    made.add(
        "transaction.boundary",
        Type.STRING,
        "What one transaction holds.",
        group=once,
        default="poll",
        validator=_one_in_any_case("interval", "poll", "connector"),
        importance=Importance.MEDIUM,
        display_name="Transaction Boundary",
        width=Width.SHORT,
    )
    made.add(
        "transaction.boundary.interval.ms",
        Type.LONG,
        "How long it lasts, under interval; without it the worker's flush interval.",
        group=once,
        default=None,
        validator=Lambda(_check_interval, "null or [0,...]"),
        importance=Importance.LOW,
        display_name="Transaction boundary interval",
        width=Width.SHORT,
    )
    made.add(
        "offsets.storage.topic",
        Type.STRING,
        "A topic of its own for the connector's offsets.",
        group="offsets.topic",
        default=None,
        validator=NonEmptyString(),
        importance=Importance.LOW,
        display_name="Offsets topic",
        width=Width.LONG,
    )
    return made.keys


def _check_interval(name: str, value: Any) -> None:
    if value is not None:
        Range(at_least=0).ensure_valid(name, value)


def _define_sink_keys(base: ConfigDef) -> ConfigDef:
    made = _KeyBuilder(base)
    made.add(
        "topics",
        Type.LIST,
        "What to consume.",
        group=_COMMON,
        default=[],
        validator=ValidList(),
        display_name="Topics",
        width=Width.LONG,
        order_in_group=_TOPIC_KEY_COUNT,
    )
    made.add(
        "topics.regex",
        Type.STRING,
        "What to consume: topics whose whole name matches.",
        group=_COMMON,
        default="",
        validator=Lambda(_check_pattern, "valid regex"),
        display_name="Topics regex",
        width=Width.LONG,
        order_in_group=_TOPIC_KEY_COUNT,
    )
    dead = "errors.deadletterqueue."
    made.add(
        f"{dead}topic.name",
        Type.STRING,
        "Where records with errors go.",
        group=_ERRORS,
        default="",
        importance=Importance.MEDIUM,
        display_name="Dead Letter Queue Topic Name",
        width=Width.MEDIUM,
    )
    made.add(
        f"{dead}topic.replication.factor",
        Type.SHORT,
        "Its replicas, where it is made.",
        group=_ERRORS,
        default=3,
        importance=Importance.MEDIUM,
        display_name="Dead Letter Queue Topic Replication Factor",
        width=Width.MEDIUM,
    )
    made.add(
        f"{dead}context.headers.enable",
        Type.BOOLEAN,
        "Whether headers tell of the error.",
        group=_ERRORS,
        default=False,
        importance=Importance.MEDIUM,
        display_name="Enable Error Context Headers",
        width=Width.MEDIUM,
    )
    return made.keys


CONNECTOR = _define_connector_keys()
SOURCE = _define_source_keys(CONNECTOR)
SINK = _define_sink_keys(CONNECTOR)
