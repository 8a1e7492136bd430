"""ConfigInfos: the result of a configuration validation in the form that Connect's REST API
returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from connect_runtime.api import config_types
from connect_runtime.api.config_def import ConfigKey, ConfigValue
from connect_runtime.api.config_types import Type


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKeyInfo:
    """Definition of a configuration key, as returned by the REST API."""

    name: str
    type: str
    required: bool
    default_value: str | None
    """Default value as a string; None if the default is null, or if the key is `required` and has
    no default."""
    importance: str
    documentation: str
    group: str | None
    order_in_group: int
    width: str
    display_name: str
    dependents: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigValueInfo:
    """Value and errors of a configuration key. Passwords are already masked."""

    name: str
    value: str | None
    recommended_values: tuple[str | None, ...]
    errors: tuple[str, ...]
    visible: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigInfo:
    """Definition and validated value of one configuration key."""

    definition: ConfigKeyInfo | None
    """Definition of the key; None if the plugin reported a value for a key that it does not
    define."""
    value: ConfigValueInfo | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigInfos:
    """Validation result of a plugin's configuration."""

    name: str
    """Class name of the validated plugin."""
    error_count: int
    """Total number of errors of all keys."""
    groups: tuple[str, ...]
    configs: tuple[ConfigInfo, ...]

    @property
    def error_messages(self) -> tuple[str, ...]:
        values = (each.value for each in self.configs if each.value is not None)
        return tuple(message for value in values for message in value.errors)


def build_config_infos(
    name: str,
    keys: Mapping[str, ConfigKey],
    *,
    values: Sequence[ConfigValue],
    groups: Sequence[str],
) -> ConfigInfos:
    """Build a validation result. Entries for keys without a definition come first; the defined keys
    follow in the order of their definition.

    The order is the same as in Java's `generateResult`. If the plugin reported a key more than
    once, the last value is used.
    """
    by_name = {value.name: value for value in values}
    unknown = [
        ConfigInfo(definition=None, value=build_value_info(value, None))
        for value in by_name.values()
        if value.name not in keys
    ]
    known = [
        ConfigInfo(
            definition=build_key_info(key),
            value=build_value_info(by_name[name], key.type) if name in by_name else None,
        )
        for name, key in keys.items()
    ]
    return merge_config_infos(name, [*unknown, *known], groups=groups)


def merge_config_infos(
    name: str, configs: Sequence[ConfigInfo], *, groups: Sequence[str]
) -> ConfigInfos:
    """Merge the validation results of several definitions into one. Duplicate groups are
    removed."""
    result = [each.value for each in configs if each.value is not None]
    return ConfigInfos(
        name=name,
        error_count=sum(len(value.errors) for value in result),
        groups=tuple(dict.fromkeys(groups)),
        configs=tuple(configs),
    )


def build_key_info(key: ConfigKey, *, prefix: str = "") -> ConfigKeyInfo:
    return ConfigKeyInfo(
        name=prefix + key.name,
        type=key.type.value,
        required=not key.has_default,
        default_value=config_types.format_config_value(key.default, key.type)
        if key.has_default
        else None,
        importance=key.importance.value,
        documentation=key.documentation,
        group=key.group,
        order_in_group=key.order_in_group,
        width=key.width.value,
        display_name=key.display_name,
        dependents=tuple(key.dependents),
    )


def build_value_info(
    result: ConfigValue, value_type: Type | None, *, prefix: str = ""
) -> ConfigValueInfo:
    item = Type.STRING if value_type is Type.LIST else value_type
    return ConfigValueInfo(
        name=prefix + result.name,
        value=config_types.format_config_value(result.value, value_type),
        recommended_values=tuple(
            config_types.format_config_value(each, item) for each in result.recommended_values
        ),
        errors=tuple(result.error_messages),
        visible=result.visible,
    )
