"""Plugins of a worker: find, instantiate and call them, and their names and versions.

A plugin that raises fails with `ConnectError`; one that returns something invalid fails with
`ConfigError`. Both messages name the plugin.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from connect_runtime.api import config_types
from connect_runtime.api import plugin as api_plugin
from connect_runtime.api.config_def import ConfigDef, ConfigValue
from connect_runtime.api.connector import Connector, SinkConnector, SourceConnector
from connect_runtime.api.converter import Converter, HeaderConverter
from connect_runtime.api.errors import ConfigError, ConnectError
from connect_runtime.config.worker_config import WorkerConfig
from connect_runtime.plugins.plugin_aliases import Kind, PluginRegistry
from connect_runtime.worker import plugin_recommenders, plugin_versions
from connect_runtime.worker.plugin_recommenders import ConverterChoice, PluginVersions

_LOG = logging.getLogger(__name__)
CONNECTOR_KINDS = (Kind.SOURCE, Kind.SINK)
CONVERTER_KINDS = (Kind.CONVERTER, Kind.HEADER_CONVERTER)


def find_java_name(of: type, installed: PluginRegistry, *kinds: Kind) -> str | None:
    """The name of the Java class that it stands in for, should it go by one."""
    names = {
        each.class_name
        for each in installed.installed()
        if each.kind in kinds and installed.find(each.class_name, each.kind) is of
    }
    return next((each for each in sorted(names) if not each.startswith(of.__module__)), None)


def get_plugin_name(of: type, installed: PluginRegistry, *kinds: Kind) -> str:
    """As `find_java_name`, else its own with its module."""
    return find_java_name(of, installed, *kinds) or f"{of.__module__}.{of.__qualname__}"


def get_task_class_name(plugin: Connector, installed: PluginRegistry) -> str:
    """Of its tasks' class: Java's name where the connector goes by one."""
    of = plugin.task_class()
    java = find_java_name(type(plugin), installed, *CONNECTOR_KINDS)
    if java is None:
        return f"{of.__module__}.{of.__qualname__}"
    return f"{java.removesuffix('Connector')}Task"


def get_default_converter(plugin: Connector) -> str | None:
    """Its own, for keys and values; None: the worker's."""
    return plugin.default_converter if isinstance(plugin, SourceConnector) else None


def describe_connector(plugin: Connector, installed: PluginRegistry) -> dict[str, str]:
    """As metrics say it, by attribute."""
    is_sink = isinstance(plugin, SinkConnector)
    return {
        "connector-type": "sink" if is_sink else "source",
        "connector-class": get_plugin_name(type(plugin), installed, *CONNECTOR_KINDS),
        "connector-version": get_plugin_version(plugin) or "",
    }


def get_plugin_version(plugin: object) -> str | None:
    """As it says itself; whatever it does, a version is no reason to fail."""
    try:
        found = plugin.version()  # type: ignore[attr-defined]  # all kinds have it
    except BaseException as error:  # noqa: BLE001 - of a plugin
        _LOG.warning("%s does not tell its version: %s", type(plugin).__name__, error)
        return None
    return found if isinstance(found, str) else None


_Answer = TypeVar("_Answer")
_KEY_TEXT_FIELDS = ("name", "documentation", "display_name")
_VALUE_FIELD_TYPES = {
    "name": str,
    "visible": bool,
    "error_messages": list,
    "recommended_values": list,
}


def instantiate_plugin(of: type[Any], name: str) -> Any:
    """An instance of its own. Raises `ConfigError`."""
    try:
        return of()
    except BaseException as error:  # plugins may raise what would end an event loop
        raise ConfigError(f"Failed to create {name}: {describe_error(error)}") from error


def call_plugin(plugin: object, method: str, call: Callable[[], _Answer]) -> _Answer:
    """What the call answers. Raises `ConnectError` for whatever it raises."""
    try:
        return call()
    except BaseException as error:  # plugins may raise what would end an event loop
        raise ConnectError(
            f"{_describe_method(plugin, method)} failed: {describe_error(error)}"
        ) from error


def get_config_def(plugin: Any) -> ConfigDef:
    """Its keys."""
    found = get_optional_config_def(plugin)
    if found is None:
        raise ConfigError(
            f"{_describe_method(plugin, 'config')} must return a ConfigDef that is not null."
        )
    return found


def get_optional_config_def(plugin: Any) -> ConfigDef | None:
    """Its keys; None if it answers that, which converters may."""
    found: object = call_plugin(plugin, "config", plugin.config)
    if found is None:
        return None
    if not isinstance(found, ConfigDef):
        raise ConfigError(
            f"{_describe_method(plugin, 'config')} must return a ConfigDef, not "
            f"{type(found).__name__}."
        )
    for key in found.keys.values():
        if not all(isinstance(getattr(key, each), str) for each in _KEY_TEXT_FIELDS):
            raise ConfigError(
                f"{_describe_method(plugin, 'config')} must have texts for what is text: "
                f"{key.name!r} has not."
            )
    return found


def list_plugin_versions(plugin: Any) -> tuple[str, ...]:
    """The one that it has; none if it tells none, or cannot."""
    found = get_plugin_version(plugin)
    return () if found in (None, api_plugin.UNDEFINED_VERSION) else (found,)


def check_plugin_version(plugin: Any, name: str, wanted: str | None) -> None:
    """Raises `ConfigError` unless the plugin, configured by `name`, is of a version wanted."""
    refused = plugin_versions.explain_version_mismatch(name, wanted, list_plugin_versions(plugin))
    if refused is not None:
        raise ConfigError(refused)


def validate_connector_config(plugin: Connector, props: Mapping[str, str]) -> list[ConfigValue]:
    """What it finds wrong with a configuration."""
    found: object = call_plugin(plugin, "validate", lambda: plugin.validate(dict(props)))
    if found is None:
        raise ConfigError(
            f"{_describe_method(plugin, 'validate')} must return a Config that is not null."
        )
    if not isinstance(found, Sequence) or not all(_is_config_value(each) for each in found):
        raise ConfigError(
            f"{_describe_method(plugin, 'validate')} must return a list of ConfigValue with "
            "texts in it, not"
            f" {type(found).__name__}."
        )
    return list(found)


def describe_error(error: BaseException) -> str:
    """The message, or what it is where there is none."""
    return str(error) or type(error).__name__


def _is_config_value(each: object) -> bool:
    return (
        isinstance(each, ConfigValue)
        and all(isinstance(getattr(each, name), of) for name, of in _VALUE_FIELD_TYPES.items())
        and all(isinstance(message, str) for message in each.error_messages)
    )


def _describe_method(plugin: object, method: str) -> str:
    return f"{config_types.get_class_name(type(plugin))}.{method}()"


CONVERTER_KIND_BY_KEY: Mapping[str, Kind] = {
    plugin_recommenders.HEADER_CONVERTER: Kind.HEADER_CONVERTER,
    plugin_recommenders.KEY_CONVERTER: Kind.CONVERTER,
    plugin_recommenders.VALUE_CONVERTER: Kind.CONVERTER,
}
"""In the order in which they are validated."""
_CONVERTER_CLASSES = (Converter, HeaderConverter)


class InstalledPlugins:
    """Any thread may ask."""

    def __init__(self, installed: PluginRegistry, *, worker: WorkerConfig) -> None:
        self._installed = installed
        self._worker = worker

    def find(self, name: str, *kinds: Kind) -> type[Any]:
        """As `ports.plugins.Plugins.find`; of any kind if none is given."""
        return self._installed.find(name, *(kinds or tuple(Kind)))

    def load(self, name: str) -> type[Any]:
        """As `ClassLoader`: a class of the wrong kind is found too, to be told so."""
        for kinds in (tuple(CONVERTER_KIND_BY_KEY.values()), tuple(Kind)):
            try:
                return self.find(name, *kinds)
            except ConfigError:
                continue
        found = config_types.find_imported_class(name)
        if issubclass(found, _CONVERTER_CLASSES) and not inspect.isabstract(found):
            raise LookupError(f"no plugin of this worker is called {name}")
        return found

    def names(self) -> Mapping[str, str]:
        """As `shown_infos.Names`."""
        return {
            config_types.get_class_name(self._installed.find(each.class_name, each.kind)): (
                each.class_name
            )
            for each in self._installed.installed()
        }

    def name(self, of: type) -> str:
        """What users call a class."""
        return get_plugin_name(of, self._installed, *Kind)

    def choices(
        self, config: Mapping[str, str | None] | None = None, *, default: str | None = None
    ) -> dict[str, ConverterChoice]:
        """What a connector may have for converters; with what it gets in place of what it leaves.

        Without a configuration nothing is got. `default` is the connector's `default_converter`.
        """
        return {name: self._choice(name, config, default) for name in CONVERTER_KIND_BY_KEY}

    def _choice(
        self, name: str, config: Mapping[str, str | None] | None, own_default: str | None
    ) -> ConverterChoice:
        kind = CONVERTER_KIND_BY_KEY[name]
        versions = self._versions(kind)
        if config is None:
            return ConverterChoice(there_are=versions)
        mine = own_default if kind is Kind.CONVERTER else None
        default = self._found(self._default(name) if mine is None else mine, kind)
        own = config.get(name)
        if own is None and mine is None:
            stated = self._worker.raw.get(plugin_recommenders.build_version_key(name))
            version = stated or (None if default is None else versions.get(default))
        else:
            chosen = default if own is None else self._found(own, kind)
            version = None if chosen is None else versions.get(chosen)
        return ConverterChoice(default=default, default_version=version, there_are=versions)

    def _default(self, name: str) -> str:
        """The worker's own."""
        match name:
            case plugin_recommenders.KEY_CONVERTER:
                return self._worker.key_converter
            case plugin_recommenders.VALUE_CONVERTER:
                return self._worker.value_converter
            case _:
                return self._worker.header_converter

    def _found(self, name: str, kind: Kind) -> type[Any] | None:
        try:
            return self._installed.find(name, kind)
        except ConfigError:
            return None

    def _versions(self, kind: Kind) -> PluginVersions:
        return {
            self._installed.find(each.class_name, kind): each.version
            for each in self._installed.installed()
            if each.kind is kind
        }
