"""ConfigInfos: the result of a validation, as Connect's REST API reports it, before any JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from connect_runtime.api import config_types
from connect_runtime.api.config_def import ConfigKey, ConfigValue
from connect_runtime.api.config_types import Type


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKeyInfo:
    """A key's definition; `default_value` None also for one that has no default (`required`)."""

    name: str
    type: str
    required: bool
    default_value: str | None
    importance: str
    documentation: str
    group: str | None
    order_in_group: int
    width: str
    display_name: str
    dependents: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigValueInfo:
    """A key's value and what is wrong with it; passwords are hidden already."""

    name: str
    value: str | None
    recommended_values: tuple[str | None, ...]
    errors: tuple[str, ...]
    visible: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigInfo:
    """No definition: a value that the plugin reported for a key it does not define."""

    definition: ConfigKeyInfo | None
    value: ConfigValueInfo | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigInfos:
    """`name` is the class that was validated, `error_count` the sum over all values."""

    name: str
    error_count: int
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
    """Values without a definition first, then every definition in order (Java's generateResult).

    Of a key that was reported twice the last value counts.
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
    """One result of several definitions'; a group is named once."""
    found = [each.value for each in configs if each.value is not None]
    return ConfigInfos(
        name=name,
        error_count=sum(len(value.errors) for value in found),
        groups=tuple(dict.fromkeys(groups)),
        configs=tuple(configs),
    )


def build_key_info(key: ConfigKey, *, prefix: str = "") -> ConfigKeyInfo:
    return ConfigKeyInfo(
        name=prefix + key.name,
        type=key.type.value,
        required=not key.has_default,
        default_value=config_types.convert_to_text(key.default, key.type)
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


def build_value_info(found: ConfigValue, of: Type | None, *, prefix: str = "") -> ConfigValueInfo:
    item = Type.STRING if of is Type.LIST else of
    return ConfigValueInfo(
        name=prefix + found.name,
        value=config_types.convert_to_text(found.value, of),
        recommended_values=tuple(
            config_types.convert_to_text(each, item) for each in found.recommended_values
        ),
        errors=tuple(found.error_messages),
        visible=found.visible,
    )
