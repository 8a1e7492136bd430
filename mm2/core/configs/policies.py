"""What the policy and filter classes of a configuration are here: shipped ones, or Python classes.

A class of the user's is made without arguments; its `configure(props)`, if it has one, is given the
connector's whole configuration. A policy best derives from `naming.DefaultReplicationPolicy`. A
filter has `should_replicate_topic(topic)`, or `should_replicate_group(group)`, or for settings
`should_replicate_config_property(name)` and `should_replicate_source_default(name)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect_runtime.api import config_types, errors
from connect_runtime.base import user_pattern
from mm2.core import filters, naming
from mm2.core.configs import connector_keys as keys
from mm2.core.configs import java_classes

_POLICY_PARTS = (
    *("format_remote_topic", "topic_source", "upstream_topic", "offset_syncs_topic"),
    *("checkpoints_topic", "is_checkpoints_topic", "is_mm2_internal_topic", "renames_topics"),
)
Parsed = Mapping[str, Any]
"""Values of defined keys, as `ConfigDef.parse` gives them."""


def policy(props: Mapping[str, str], found: Parsed) -> naming.ReplicationPolicy:
    """Raises `ConfigError`."""
    of = found[keys.POLICY]
    name = java_classes.java_name(of)
    if name is None:
        made = _made(keys.POLICY, of, parts=_POLICY_PARTS, props=props)
        return naming.CustomReplicationPolicy(config_types.class_name(of), made)
    given = found[keys.SEPARATOR]
    same = found[keys.INTERNAL_SEPARATOR]
    renaming = naming.DefaultReplicationPolicy(
        separator=given, internal_separator=given if same else "."
    )
    if name == java_classes.DEFAULT_POLICY:
        return renaming
    if name == java_classes.IDENTITY_POLICY:
        return naming.IdentityReplicationPolicy(
            source_alias=props.get(keys.SOURCE_ALIAS), defaults=renaming
        )
    raise _no_such(keys.POLICY, name, (java_classes.DEFAULT_POLICY, java_classes.IDENTITY_POLICY))


def topics(props: Mapping[str, str], found: Parsed) -> filters.Names:
    """Raises `ConfigError`. Of a connector that does not know `topics` its text counts all the
    same, as in Java (checkpoints)."""
    of = found[keys.TOPIC_FILTER]
    if java_classes.java_name(of) is None:
        made = _made(keys.TOPIC_FILTER, of, parts=("should_replicate_topic",), props=props)
        return filters.CustomNames(config_types.class_name(of), made.should_replicate_topic)
    _expect(keys.TOPIC_FILTER, of, java_classes.TOPIC_FILTER)
    return filters.NameFilter(
        include=patterns(keys.TOPICS, listed(keys.TOPICS, props)),
        exclude=patterns(keys.TOPICS_EXCLUDE, listed(keys.TOPICS_EXCLUDE, props)),
    )


def groups(props: Mapping[str, str], found: Parsed) -> filters.Names:
    """Raises `ConfigError`."""
    of = found[keys.GROUP_FILTER]
    if java_classes.java_name(of) is None:
        made = _made(keys.GROUP_FILTER, of, parts=("should_replicate_group",), props=props)
        return filters.CustomNames(config_types.class_name(of), made.should_replicate_group)
    _expect(keys.GROUP_FILTER, of, java_classes.GROUP_FILTER)
    return filters.NameFilter(
        include=patterns(keys.GROUPS, found[keys.GROUPS]),
        exclude=patterns(keys.GROUPS_EXCLUDE, found[keys.GROUPS_EXCLUDE]),
    )


def properties(props: Mapping[str, str], found: Parsed) -> filters.Properties:
    """Raises `ConfigError`. `use.defaults.from` is `source` or anything else, as in Java."""
    of = found[keys.PROPERTY_FILTER]
    if java_classes.java_name(of) is None:
        parts = ("should_replicate_config_property", "should_replicate_source_default")
        made = _made(keys.PROPERTY_FILTER, of, parts=parts, props=props)
        return filters.CustomProperties(
            config_types.class_name(of),
            made.should_replicate_config_property,
            made.should_replicate_source_default,
        )
    _expect(keys.PROPERTY_FILTER, of, java_classes.PROPERTY_FILTER)
    return filters.PropertyFilter(
        exclude=patterns(keys.PROPERTIES_EXCLUDE, found[keys.PROPERTIES_EXCLUDE]),
        source_defaults=(props.get(keys.USE_DEFAULTS_FROM) or "").strip() == "source",
    )


def listed(key: str, props: Mapping[str, str]) -> list[str]:
    """Raises `ConfigError`. A key of the source connector, whichever connector asks."""
    definition = keys.SOURCE.keys[key]
    value = config_types.parse(key, props[key], definition.type) if key in props else None
    definition.ensure_valid(value if key in props else definition.default)
    return list(definition.default if value is None else value)


def patterns(key: str, items: Sequence[str]) -> filters.Patterns:
    """Raises `ConfigError`: an expression that Python cannot match as Java would."""
    try:
        return filters.compile_patterns(items, key=key)
    except user_pattern.PatternError as error:
        raise config_types.invalid(key, error.pattern, error.reason) from None


def _made(key: str, of: type, *, parts: Sequence[str], props: Mapping[str, str]) -> Any:
    missing = [part for part in parts if not hasattr(of, part)]
    if missing:
        raise config_types.invalid(key, config_types.class_name(of), f"it has no {missing[0]}")
    try:
        made = of()
        if hasattr(made, "configure"):
            made.configure(props)
    except errors.ConfigError:
        raise
    except Exception as error:  # the user's code may raise anything
        raise config_types.invalid(
            key, config_types.class_name(of), f"it cannot be made: {type(error).__name__}: {error}"
        ) from error
    return made


def _expect(key: str, of: type, name: str) -> None:
    found = java_classes.java_name(of)
    if found != name:
        raise _no_such(key, found, (name,))


def _no_such(key: str, name: object, allowed: Sequence[str]) -> errors.ConfigError:
    told = ", ".join(allowed)
    return config_types.invalid(key, name, f"it has to be {told}, or a Python class")
