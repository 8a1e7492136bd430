"""What is wrong with the converters that a connector has of its own.

Java: AbstractHerder.validateConverterConfig. A converter that fails is an error on its own key.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from connect_runtime.api import config_def, config_infos, config_types, converter, errors
from connect_runtime.core.task import connector_checks, plugin_keys, plugin_versions
from connect_runtime.runtime import installed_plugins, plugin_answers

_LOG = logging.getLogger(__name__)
_TYPES = {
    plugin_keys.HEADER_CONVERTER: converter.ConverterType.HEADER,
    plugin_keys.KEY_CONVERTER: converter.ConverterType.KEY,
    plugin_keys.VALUE_CONVERTER: converter.ConverterType.VALUE,
}


def validate(
    config: connector_checks.Config,
    values: connector_checks.Values,
    *,
    plugins: installed_plugins.InstalledPlugins,
) -> config_infos.ConfigInfos:
    """Their keys, each with the converter's prefix; what else is wrong is added to `values`."""
    found = [
        _one(key, config, values=values, plugins=plugins) for key in installed_plugins.CONVERTERS
    ]
    return config_infos.merge(
        "",
        [info for infos in found for info in infos.configs],
        groups=[group for infos in found for group in infos.groups],
    )


_NOTHING = config_infos.merge("", [], groups=[])


def _one(
    key: str,
    config: connector_checks.Config,
    *,
    values: connector_checks.Values,
    plugins: installed_plugins.InstalledPlugins,
) -> config_infos.ConfigInfos:
    version_key = plugin_keys.version_key(key)
    of = values[key].value
    wrong = values[key].error_messages or values[version_key].error_messages
    if config.get(key) is None or wrong or not isinstance(of, type):
        return _NOTHING
    name = plugins.name(of)
    try:
        instance = plugin_answers.made(of, name)
    except errors.ConnectError as error:
        connector_checks.add(values, key, f"Failed to load class {name}: {error}")
        return _NOTHING
    try:
        if not _version_fits(instance, name, config=config, key=key, values=values):
            return _NOTHING
        return _keys_of(instance, key, config=config, values=values)
    finally:
        _close(instance, name)


def _version_fits(
    instance: Any,
    name: str,
    *,
    config: connector_checks.Config,
    key: str,
    values: connector_checks.Values,
) -> bool:
    version_key = plugin_keys.version_key(key)
    wanted = config.get(version_key)
    try:
        refused = plugin_versions.refusal(name, wanted, plugin_answers.versions(instance))
    except errors.ConfigError as error:
        connector_checks.add(values, version_key, str(error))
        return False
    if refused is not None:
        connector_checks.add(values, key, refused)
        connector_checks.add(values, version_key, refused)
    return refused is None


def _keys_of(
    instance: Any, key: str, *, config: connector_checks.Config, values: connector_checks.Values
) -> config_infos.ConfigInfos:
    word = key.replace(".", " ")
    try:
        definition = plugin_answers.definition_if_any(instance)
    except errors.ConnectError as error:
        connector_checks.add(values, key, f"Failed to load ConfigDef from {word}: {error}")
        return _NOTHING
    if definition is None:
        _LOG.warning("%s has no definition of its keys: they are not looked at", word)
        return _NOTHING
    try:
        return plugin_answers.asked(instance, "config", lambda: _validated(definition, key, config))
    except errors.ConnectError as error:
        message = f"Failed to perform config validation for {word}: {error}"
        connector_checks.add(values, key, message)
        return _NOTHING


def _validated(
    definition: config_def.ConfigDef, key: str, config: Mapping[str, str | None]
) -> config_infos.ConfigInfos:
    prefix = f"{key}."
    own = {converter.TYPE_CONFIG: _TYPES[key].value, **config_def.with_prefix(config, prefix)}
    infos = [
        _info(definition.keys.get(value.name), value, prefix) for value in definition.validate(own)
    ]
    return config_infos.merge("", infos, groups=definition.groups)


def _info(
    key: config_def.ConfigKey | None, value: config_def.ConfigValue, prefix: str
) -> config_infos.ConfigInfo:
    of: config_types.Type | None = None if key is None else key.type
    return config_infos.ConfigInfo(
        definition=None if key is None else config_infos.key_info(key, prefix=prefix),
        value=config_infos.value_info(value, of, prefix=prefix),
    )


def _close(instance: Any, name: str) -> None:
    try:
        instance.close()
    except BaseException as error:  # noqa: BLE001 - of others' code: it is done with
        _LOG.warning("closing %s after its validation: %s", name, plugin_answers.told(error))
