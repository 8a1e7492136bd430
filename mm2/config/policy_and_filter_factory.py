"""Creates the replication policy and filters of a configuration from built-in or custom Python
classes.

A custom class is instantiated without arguments. If it has a method `configure(props)`, the method
is called with the connector's whole configuration. Derive a policy from `DefaultReplicationPolicy`.
A filter must implement `should_replicate_topic(topic)`, `should_replicate_group(group)`, or
`should_replicate_config_property(name)` and `should_replicate_source_default(name)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect_runtime.api import config_types
from connect_runtime.api.errors import ConfigError
from connect_runtime.base.bounded_regex import PatternError
from mm2.config import java_class_placeholders, mirror_connector_config_keys
from mm2.topics import topic_filters
from mm2.topics.config_property_filter import (
    ConfigPropertyFilter,
    CustomConfigPropertyFilter,
    DefaultConfigPropertyFilter,
)
from mm2.topics.replication_policy import (
    CustomReplicationPolicy,
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
)
from mm2.topics.topic_filters import CustomNameFilter, NameFilter, NamePatterns, TopicOrGroupFilter

_POLICY_METHODS = (
    *("format_remote_topic", "topic_source", "upstream_topic", "offset_syncs_topic"),
    *("checkpoints_topic", "is_checkpoints_topic", "is_mm2_internal_topic", "renames_topics"),
)
ParsedConfig = Mapping[str, Any]
"""Parsed configuration values by key, as returned by `ConfigDef.parse`."""


def build_replication_policy(props: Mapping[str, str], found: ParsedConfig) -> ReplicationPolicy:
    """Create the replication policy. Raises `ConfigError` if its class or configuration is
    invalid."""
    of = found[mirror_connector_config_keys.POLICY]
    name = java_class_placeholders.get_java_class_name(of)
    if name is None:
        made = _instantiate_custom_class(
            mirror_connector_config_keys.POLICY, of, parts=_POLICY_METHODS, props=props
        )
        return CustomReplicationPolicy(config_types.get_class_name(of), made)
    given = found[mirror_connector_config_keys.SEPARATOR]
    same = found[mirror_connector_config_keys.INTERNAL_SEPARATOR]
    renaming = DefaultReplicationPolicy(separator=given, internal_separator=given if same else ".")
    if name == java_class_placeholders.DEFAULT_POLICY:
        return renaming
    if name == java_class_placeholders.IDENTITY_POLICY:
        return IdentityReplicationPolicy(
            source_alias=props.get(mirror_connector_config_keys.SOURCE_ALIAS), defaults=renaming
        )
    raise _build_unknown_class_error(
        mirror_connector_config_keys.POLICY,
        name,
        (java_class_placeholders.DEFAULT_POLICY, java_class_placeholders.IDENTITY_POLICY),
    )


def build_topic_filter(props: Mapping[str, str], found: ParsedConfig) -> TopicOrGroupFilter:
    """Create the topic filter. Raises `ConfigError` if its class or an expression is invalid.

    As in Java, the checkpoint connector also uses the keys `topics` and `topics.exclude`, although
    its `ConfigDef` does not define these keys.
    """
    of = found[mirror_connector_config_keys.TOPIC_FILTER]
    if java_class_placeholders.get_java_class_name(of) is None:
        made = _instantiate_custom_class(
            mirror_connector_config_keys.TOPIC_FILTER,
            of,
            parts=("should_replicate_topic",),
            props=props,
        )
        return CustomNameFilter(config_types.get_class_name(of), made.should_replicate_topic)
    _require_built_in_class(
        mirror_connector_config_keys.TOPIC_FILTER, of, java_class_placeholders.TOPIC_FILTER
    )
    return NameFilter(
        include=compile_patterns(
            mirror_connector_config_keys.TOPICS,
            parse_config_list(mirror_connector_config_keys.TOPICS, props),
        ),
        exclude=compile_patterns(
            mirror_connector_config_keys.TOPICS_EXCLUDE,
            parse_config_list(mirror_connector_config_keys.TOPICS_EXCLUDE, props),
        ),
    )


def build_group_filter(props: Mapping[str, str], found: ParsedConfig) -> TopicOrGroupFilter:
    """Create the consumer group filter. Raises `ConfigError` if its class or an expression is
    invalid."""
    of = found[mirror_connector_config_keys.GROUP_FILTER]
    if java_class_placeholders.get_java_class_name(of) is None:
        made = _instantiate_custom_class(
            mirror_connector_config_keys.GROUP_FILTER,
            of,
            parts=("should_replicate_group",),
            props=props,
        )
        return CustomNameFilter(config_types.get_class_name(of), made.should_replicate_group)
    _require_built_in_class(
        mirror_connector_config_keys.GROUP_FILTER, of, java_class_placeholders.GROUP_FILTER
    )
    return NameFilter(
        include=compile_patterns(
            mirror_connector_config_keys.GROUPS, found[mirror_connector_config_keys.GROUPS]
        ),
        exclude=compile_patterns(
            mirror_connector_config_keys.GROUPS_EXCLUDE,
            found[mirror_connector_config_keys.GROUPS_EXCLUDE],
        ),
    )


def build_property_filter(props: Mapping[str, str], found: ParsedConfig) -> ConfigPropertyFilter:
    """Create the filter of topic configs. Raises `ConfigError` if its class or an expression is
    invalid.

    Any value of `use.defaults.from` other than `source` means the target, as in Java.
    """
    of = found[mirror_connector_config_keys.PROPERTY_FILTER]
    if java_class_placeholders.get_java_class_name(of) is None:
        parts = ("should_replicate_config_property", "should_replicate_source_default")
        made = _instantiate_custom_class(
            mirror_connector_config_keys.PROPERTY_FILTER, of, parts=parts, props=props
        )
        return CustomConfigPropertyFilter(
            config_types.get_class_name(of),
            made.should_replicate_config_property,
            made.should_replicate_source_default,
        )
    _require_built_in_class(
        mirror_connector_config_keys.PROPERTY_FILTER, of, java_class_placeholders.PROPERTY_FILTER
    )
    return DefaultConfigPropertyFilter(
        exclude=compile_patterns(
            mirror_connector_config_keys.PROPERTIES_EXCLUDE,
            found[mirror_connector_config_keys.PROPERTIES_EXCLUDE],
        ),
        source_defaults=(props.get(mirror_connector_config_keys.USE_DEFAULTS_FROM) or "").strip()
        == "source",
    )


def parse_config_list(key: str, props: Mapping[str, str]) -> list[str]:
    """Parse the value of a list key as the source connector's `ConfigDef` does. Raises
    `ConfigError` if the value is invalid."""
    definition = mirror_connector_config_keys.SOURCE_KEYS.keys[key]
    value = config_types.parse_value(key, props[key], definition.type) if key in props else None
    definition.ensure_valid(value if key in props else definition.default)
    return list(definition.default if value is None else value)


def compile_patterns(key: str, items: Sequence[str]) -> NamePatterns:
    """Compile regular expressions. Raises `ConfigError` if an expression is invalid or if Python
    cannot match it in the same way as Java."""
    try:
        return topic_filters.compile_patterns(items, key=key)
    except PatternError as error:
        raise config_types.build_invalid_value_error(key, error.pattern, error.reason) from None


def _instantiate_custom_class(
    key: str, of: type, *, parts: Sequence[str], props: Mapping[str, str]
) -> Any:
    missing = [part for part in parts if not hasattr(of, part)]
    if missing:
        raise config_types.build_invalid_value_error(
            key, config_types.get_class_name(of), f"the class has no method {missing[0]}"
        )
    try:
        made = of()
        if hasattr(made, "configure"):
            made.configure(props)
    except ConfigError:
        raise
    except Exception as error:  # custom code may raise anything
        raise config_types.build_invalid_value_error(
            key,
            config_types.get_class_name(of),
            f"creating an instance failed: {type(error).__name__}: {error}",
        ) from error
    return made


def _require_built_in_class(key: str, of: type, name: str) -> None:
    found = java_class_placeholders.get_java_class_name(of)
    if found != name:
        raise _build_unknown_class_error(key, found, (name,))


def _build_unknown_class_error(key: str, name: object, allowed: Sequence[str]) -> ConfigError:
    names = ", ".join(allowed)
    return config_types.build_invalid_value_error(
        key, name, f"it must be {names}, or a Python class"
    )
