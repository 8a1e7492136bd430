"""What plugins say of their configuration, looked at before anybody relies on it.

A plugin that throws fails with `ConnectError`, one that answers what is no answer with
`ConfigError`; both name it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from connect_runtime.api import config_def, config_types, connector, errors
from connect_runtime.api import plugin as plugin_api
from connect_runtime.core.task import plugin_versions
from connect_runtime.runtime import plugin_facts

_Answer = TypeVar("_Answer")
_KEY_TEXTS = ("name", "documentation", "display_name")
_VALUE_PARTS = {"name": str, "visible": bool, "error_messages": list, "recommended_values": list}


def made(of: type[Any], name: str) -> Any:
    """An instance of its own. Raises `ConfigError`."""
    try:
        return of()
    except BaseException as error:  # plugins may raise what would end an event loop
        raise errors.ConfigError(f"Failed to create {name}: {told(error)}") from error


def asked(plugin: object, method: str, call: Callable[[], _Answer]) -> _Answer:
    """What the call answers. Raises `ConnectError` for whatever it raises."""
    try:
        return call()
    except BaseException as error:  # plugins may raise what would end an event loop
        raise errors.ConnectError(f"{_of(plugin, method)} failed: {told(error)}") from error


def definition(plugin: Any) -> config_def.ConfigDef:
    """Its keys."""
    found = definition_if_any(plugin)
    if found is None:
        raise errors.ConfigError(
            f"{_of(plugin, 'config')} must return a ConfigDef that is not null."
        )
    return found


def definition_if_any(plugin: Any) -> config_def.ConfigDef | None:
    """Its keys; None if it answers that, which converters may."""
    found: object = asked(plugin, "config", plugin.config)
    if found is None:
        return None
    if not isinstance(found, config_def.ConfigDef):
        raise errors.ConfigError(
            f"{_of(plugin, 'config')} must return a ConfigDef, not {type(found).__name__}."
        )
    for key in found.keys.values():
        if not all(isinstance(getattr(key, each), str) for each in _KEY_TEXTS):
            raise errors.ConfigError(
                f"{_of(plugin, 'config')} must have texts for what is text: {key.name!r} has not."
            )
    return found


def versions(plugin: Any) -> tuple[str, ...]:
    """The one that it has; none if it tells none, or cannot."""
    found = plugin_facts.version(plugin)
    return () if found in (None, plugin_api.NO_VERSION) else (found,)


def check_version(plugin: Any, name: str, wanted: str | None) -> None:
    """Raises `ConfigError` unless the plugin, configured by `name`, is of a version wanted."""
    refused = plugin_versions.refusal(name, wanted, versions(plugin))
    if refused is not None:
        raise errors.ConfigError(refused)


def values(plugin: connector.Connector, props: Mapping[str, str]) -> list[config_def.ConfigValue]:
    """What it finds wrong with a configuration."""
    found: object = asked(plugin, "validate", lambda: plugin.validate(dict(props)))
    if found is None:
        raise errors.ConfigError(
            f"{_of(plugin, 'validate')} must return a Config that is not null."
        )
    if not isinstance(found, Sequence) or not all(_is_value(each) for each in found):
        raise errors.ConfigError(
            f"{_of(plugin, 'validate')} must return a list of ConfigValue with texts in it, not"
            f" {type(found).__name__}."
        )
    return list(found)


def told(error: BaseException) -> str:
    """The message, or what it is where there is none."""
    return str(error) or type(error).__name__


def _is_value(each: object) -> bool:
    return (
        isinstance(each, config_def.ConfigValue)
        and all(isinstance(getattr(each, name), of) for name, of in _VALUE_PARTS.items())
        and all(isinstance(message, str) for message in each.error_messages)
    )


def _of(plugin: object, method: str) -> str:
    return f"{config_types.class_name(type(plugin))}.{method}()"
