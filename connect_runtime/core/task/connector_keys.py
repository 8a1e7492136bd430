"""The keys that all connectors have, as definitions: `CONNECTOR`, `SOURCE` and `SINK`."""

from __future__ import annotations

import inspect
from typing import Any

from connect_runtime.api import config_def, config_types, config_validators, converter, errors
from connect_runtime.base import user_pattern

Type = config_def.Type
Importance = config_def.Importance
Width = config_def.Width
_COMMON, _TRANSFORMS, _ERRORS = "Common", "Transforms", "Error Handling"
_TOPICS = 4
"""The place among the common keys that Java gives both, whoever stands there too."""
_BASES = {
    "key": converter.Converter,
    "value": converter.Converter,
    "header": converter.HeaderConverter,
}


def _aliases(name: str, value: Any) -> None:
    if value is not None and len(set(value)) != len(value):
        raise config_types.invalid(name, value, "Duplicate alias provided.")


_ALIASES = config_validators.Composite(
    config_validators.NonNull(),
    config_validators.Lambda(_aliases, "unique aliases"),
)


def _class_of(base: type, word: str) -> config_validators.Validator:
    def check(name: str, value: Any) -> None:
        if value is None:
            return
        if not issubclass(value, base):
            raise errors.ConfigError(
                f"Class {config_types.shown(value)} does not implement the {word} interface"
            )
        if inspect.isabstract(value):
            raise errors.ConfigError("This class is abstract and cannot be created.")

    return config_validators.Lambda(check, f"A concrete subclass of {word}")


def _pattern(name: str, value: Any) -> None:
    try:
        user_pattern.compile_pattern(value or "")
    except user_pattern.PatternError as error:
        raise config_types.invalid(name, value, f"Invalid regex: {error.reason}") from None


_one_of = config_validators.ValidString
_one_in_any_case = config_validators.CaseInsensitiveValidString
_COUNTED_WITH = {
    _TRANSFORMS: _COMMON,
    "Predicates": _COMMON,
    "Exactly Once Support": "Topic Creation",
}


class _Definition:
    """Numbers the keys of each group as they come; some groups share numbers, as in Java."""

    def __init__(self, base: config_def.ConfigDef | None = None) -> None:
        self.keys = config_def.ConfigDef(base)
        self._orders: dict[str, int] = {}
        for key in self.keys.keys.values():
            self._next(str(key.group))

    def add(self, name: str, of: Type, text: str, *, group: str, **options: Any) -> None:
        options.setdefault("order_in_group", self._next(group))
        self.keys.define(name, of, text, group=group, **options)

    def _next(self, group: str) -> int:
        counter = _COUNTED_WITH.get(group, group)
        self._orders[counter] = self._orders.get(counter, 0) + 1
        return self._orders[counter]


def refused_name(name: str) -> str:
    """Why no connector can have this name, "" where one can. Java takes these, and then no URL
    leads to the connector, or its records cannot be written."""
    if name in (".", ".."):
        return f"is {name!r}, which no URL can hold"
    if any("\ud800" <= each <= "\udfff" for each in name):
        return f"is {name!a}, which has half of a character (a lone surrogate)"
    return ""


def _check_name(name: str, value: Any) -> None:
    config_validators.NonEmptyStringWithoutControlChars().ensure_valid(name, value)
    refused = refused_name(value or "")
    if refused:
        raise config_types.invalid(name, ascii(value), f"The name of a connector {refused}")


def _connector() -> config_def.ConfigDef:
    made = _Definition()
    made.add(
        "name",
        Type.STRING,
        "Unique among connectors.",
        group=_COMMON,
        validator=config_validators.Lambda(
            _check_name, str(config_validators.NonEmptyStringWithoutControlChars())
        ),
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
    _version(made, "connector")
    made.add(
        "tasks.max",
        Type.INT,
        "How many tasks at most.",
        group=_COMMON,
        default=1,
        validator=config_validators.Range(at_least=1),
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
        _converter(made, part)
    _chains(made)
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
    _errors(made)
    return made.keys


def _chains(made: _Definition) -> None:
    for name in ("transforms", "predicates"):
        made.add(
            name,
            Type.LIST,
            f"Aliases of the {name} of records.",
            group=_TRANSFORMS if name == "transforms" else "Predicates",
            default=[],
            validator=_ALIASES,
            importance=Importance.LOW,
            display_name=name.capitalize(),
            width=Width.LONG,
        )


def _converter(made: _Definition, part: str) -> None:
    made.add(
        f"{part}.converter",
        Type.CLASS,
        "The class that converts; without one it is the worker's.",
        group=_COMMON,
        default=None,
        validator=_class_of(_BASES[part], _BASES[part].__name__),
        importance=Importance.LOW,
        display_name=f"{part.capitalize()} converter class",
        width=Width.SHORT,
    )
    _version(made, f"{part}.converter")


def _version(made: _Definition, of: str) -> None:
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


def _errors(made: _Definition) -> None:
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


def _source(base: config_def.ConfigDef) -> config_def.ConfigDef:
    made = _Definition(base)
    made.add(
        "topic.creation.groups",
        Type.LIST,
        "Groups of topics that are made differently.",
        group="Topic Creation",
        default=[],
        validator=_ALIASES,
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
        validator=config_validators.Lambda(_interval, "null or [0,...]"),
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
        validator=config_validators.NonEmptyString(),
        importance=Importance.LOW,
        display_name="Offsets topic",
        width=Width.LONG,
    )
    return made.keys


def _interval(name: str, value: Any) -> None:
    if value is not None:
        config_validators.Range(at_least=0).ensure_valid(name, value)


def _sink(base: config_def.ConfigDef) -> config_def.ConfigDef:
    made = _Definition(base)
    made.add(
        "topics",
        Type.LIST,
        "What to consume.",
        group=_COMMON,
        default=[],
        validator=config_validators.ValidList(),
        display_name="Topics",
        width=Width.LONG,
        order_in_group=_TOPICS,
    )
    made.add(
        "topics.regex",
        Type.STRING,
        "What to consume: topics whose whole name matches.",
        group=_COMMON,
        default="",
        validator=config_validators.Lambda(_pattern, "valid regex"),
        display_name="Topics regex",
        width=Width.LONG,
        order_in_group=_TOPICS,
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


CONNECTOR = _connector()
SOURCE = _source(CONNECTOR)
SINK = _sink(CONNECTOR)
