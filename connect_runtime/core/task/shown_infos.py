"""What a user is shown of a validation: classes by their own names, and no provider's secret."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from connect_runtime.api import config_infos, config_types

_CLASS = config_types.Type.CLASS.value
Names = Mapping[str, str]
"""By the full name of a class here: the name that users have for it, Java's where there is one."""


def keys(
    infos: Sequence[config_infos.ConfigKeyInfo], names: Names
) -> tuple[config_infos.ConfigKeyInfo, ...]:
    return tuple(_key(each, names) for each in infos)


def shown(
    infos: config_infos.ConfigInfos,
    *,
    given: Mapping[str, str | None],
    resolved: Mapping[str, str | None],
    names: Names,
) -> config_infos.ConfigInfos:
    """`given` has `${…}` where `resolved` has what it stands for; only the former is shown."""
    hidden = {name for name, value in given.items() if value != resolved.get(name)}

    def present(info: config_infos.ConfigInfo) -> config_infos.ConfigInfo:
        definition, value = info.definition, info.value
        if definition is not None and definition.type == _CLASS:
            definition = _key(definition, names)
            value = None if value is None else _class_value(value, names)
        if value is not None and value.name in hidden:
            value = _hidden(value, given[value.name])
        return config_infos.ConfigInfo(definition=definition, value=value)

    return dataclasses.replace(infos, configs=tuple(present(each) for each in infos.configs))


def _class_value(value: config_infos.ConfigValueInfo, names: Names) -> config_infos.ConfigValueInfo:
    name = _named(value.value, names)
    told = value.errors
    if value.value is not None and name is not None:
        told = tuple(each.replace(f"class {value.value} ", f"class {name} ") for each in told)
    return dataclasses.replace(
        value,
        value=name,
        recommended_values=tuple(
            sorted(str(_named(each, names)) for each in value.recommended_values)
        ),
        errors=told,
    )


def _hidden(
    value: config_infos.ConfigValueInfo, reference: str | None
) -> config_infos.ConfigValueInfo:
    message = f"Invalid value {reference} for configuration {value.name}: what it stands for is not"
    return dataclasses.replace(
        value,
        value=reference if value.value != config_types.HIDDEN else value.value,
        errors=tuple(f"{message} valid" for _ in value.errors),
    )


def _key(info: config_infos.ConfigKeyInfo, names: Names) -> config_infos.ConfigKeyInfo:
    if info.type != _CLASS:
        return info
    return dataclasses.replace(info, default_value=_named(info.default_value, names))


def _named(name: str | None, names: Names) -> str | None:
    return None if name is None else names.get(name, name)
