"""Finds, instantiates and calls the worker's plugins, and returns their names and versions.

The functions raise `ConnectError` if a plugin raises an exception, and `ConfigError` if a plugin
returns an invalid value. Both messages contain the name of the plugin.
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


def find_java_class_name(of: type, installed: PluginRegistry, *kinds: Kind) -> str | None:
    """Return the name of the Java class that this plugin class replaces; None if it replaces
    none."""
    names = {
        each.class_name
        for each in installed.list_installed_plugins()
        if each.kind in kinds and installed.find_plugin_class(each.class_name, each.kind) is of
    }
    return next((each for each in sorted(names) if not each.startswith(of.__module__)), None)


def get_plugin_name(of: type, installed: PluginRegistry, *kinds: Kind) -> str:
    """Return the plugin's Java class name if it has one, otherwise its full Python class name."""
    return find_java_class_name(of, installed, *kinds) or f"{of.__module__}.{of.__qualname__}"


def get_task_class_name(plugin: Connector, installed: PluginRegistry) -> str:
    """Return the class name of the connector's tasks: the Java name if the connector has one."""
    of = plugin.task_class()
    java = find_java_class_name(type(plugin), installed, *CONNECTOR_KINDS)
    if java is None:
        return f"{of.__module__}.{of.__qualname__}"
    return f"{java.removesuffix('Connector')}Task"


def get_default_converter(plugin: Connector) -> str | None:
    """Return the connector's own default converter for keys and values; None to use the worker's
    converter."""
    return plugin.default_converter if isinstance(plugin, SourceConnector) else None


def collect_connector_attributes(plugin: Connector, installed: PluginRegistry) -> dict[str, str]:
    """Return the connector's type, class and version as attributes of its metrics."""
    is_sink = isinstance(plugin, SinkConnector)
    return {
        "connector-type": "sink" if is_sink else "source",
        "connector-class": get_plugin_name(type(plugin), installed, *CONNECTOR_KINDS),
        "connector-version": get_plugin_version(plugin) or "",
    }


def get_plugin_version(plugin: object) -> str | None:
    """Return the plugin's version; None if reading it fails or the version is not a string."""
    try:
        found = plugin.version()  # type: ignore[attr-defined]  # all kinds have it
    except BaseException as error:  # noqa: BLE001 - of a plugin
        _LOG.warning("version() of plugin %s failed: %s", type(plugin).__name__, error)
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
    """Create an instance of the plugin. Raises `ConfigError` if this fails."""
    try:
        return of()
    except BaseException as error:  # a plugin may raise SystemExit or KeyboardInterrupt too
        raise ConfigError(f"Failed to create {name}: {get_error_message(error)}") from error


def call_plugin(plugin: object, method: str, call: Callable[[], _Answer]) -> _Answer:
    """Call a plugin method and return its result. Raises `ConnectError` if the plugin raises any
    exception."""
    try:
        return call()
    except BaseException as error:  # a plugin may raise SystemExit or KeyboardInterrupt too
        raise ConnectError(
            f"{_describe_method(plugin, method)} failed: {get_error_message(error)}"
        ) from error


def get_config_def(plugin: Any) -> ConfigDef:
    """Return the plugin's config keys. Raises `ConfigError` if the plugin does not define any."""
    found = get_optional_config_def(plugin)
    if found is None:
        raise ConfigError(
            f"{_describe_method(plugin, 'config')} must return a ConfigDef that is not null."
        )
    return found


def get_optional_config_def(plugin: Any) -> ConfigDef | None:
    """Return the plugin's config keys; None if its `config()` returns None, which converters may
    do."""
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
                f"{_describe_method(plugin, 'config')} must define the name, documentation and"
                f" display name of each key as strings, but key {key.name!r} does not."
            )
    return found


def list_plugin_versions(plugin: Any) -> tuple[str, ...]:
    """Return the plugin's version as a one-element tuple, or an empty tuple if it has no
    version."""
    found = get_plugin_version(plugin)
    return () if found in (None, api_plugin.UNDEFINED_VERSION) else (found,)


def check_plugin_version(plugin: Any, name: str, wanted: str | None) -> None:
    """Raise `ConfigError` unless the version of the plugin matches the requested version or
    range."""
    refused = plugin_versions.explain_version_mismatch(name, wanted, list_plugin_versions(plugin))
    if refused is not None:
        raise ConfigError(refused)


def validate_connector_config(plugin: Connector, props: Mapping[str, str]) -> list[ConfigValue]:
    """Call the connector's `validate` and return its result. Raises `ConfigError` if the result is
    invalid."""
    found: object = call_plugin(plugin, "validate", lambda: plugin.validate(dict(props)))
    if found is None:
        raise ConfigError(
            f"{_describe_method(plugin, 'validate')} must return a Config that is not null."
        )
    if not isinstance(found, Sequence) or not all(_is_config_value(each) for each in found):
        raise ConfigError(
            f"{_describe_method(plugin, 'validate')} must return a list of ConfigValue whose error"
            f" messages are strings, not {type(found).__name__}."
        )
    return list(found)


def get_error_message(error: BaseException) -> str:
    """Return the error's message, or its type name if the message is empty."""
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
"""Plugin kind (converter or header converter) of each converter key, in the order of validation."""
_CONVERTER_CLASSES = (Converter, HeaderConverter)


class InstalledPlugins:
    """Looks up installed plugin classes and their names, for the validation of configurations.
    Thread-safe."""

    def __init__(self, installed: PluginRegistry, *, worker: WorkerConfig) -> None:
        self._installed = installed
        self._worker = worker

    def find_plugin_class(self, name: str, *kinds: Kind) -> type[Any]:
        """Return the plugin class with this name. Without `kinds`, search plugins of all kinds.

        Raises `ConfigError` if no such plugin is installed.
        """
        return self._installed.find_plugin_class(name, *(kinds or tuple(Kind)))

    def load_class(self, name: str) -> type[Any]:
        """Load the class named by a config key of type CLASS (`ClassLoader`). The class may be a
        plugin of any kind, even if the key requires a particular kind."""
        for kinds in (tuple(CONVERTER_KIND_BY_KEY.values()), tuple(Kind)):
            try:
                return self.find_plugin_class(name, *kinds)
            except ConfigError:
                continue
        found = config_types.find_imported_class(name)
        if issubclass(found, _CONVERTER_CLASSES) and not inspect.isabstract(found):
            raise LookupError(f"plugin {name} is not installed")
        return found

    def map_displayed_class_names(self) -> Mapping[str, str]:
        """Map each plugin's full Python class name to the class name shown to users."""
        return {
            config_types.get_class_name(
                self._installed.find_plugin_class(each.class_name, each.kind)
            ): (each.class_name)
            for each in self._installed.list_installed_plugins()
        }

    def get_displayed_class_name(self, of: type) -> str:
        """Return the class name shown to users: the plugin's Java name if it has one, otherwise its
        Python name."""
        return get_plugin_name(of, self._installed, *Kind)

    def get_converter_choices(
        self, config: Mapping[str, str | None] | None = None, *, default: str | None = None
    ) -> dict[str, ConverterChoice]:
        """Return the available converters and the default converter for each converter key.

        If `config` is None, no defaults are set. `default` is the connector's `default_converter`.
        """
        return {
            name: self._build_converter_choice(name, config, default)
            for name in CONVERTER_KIND_BY_KEY
        }

    def _build_converter_choice(
        self, name: str, config: Mapping[str, str | None] | None, own_default: str | None
    ) -> ConverterChoice:
        kind = CONVERTER_KIND_BY_KEY[name]
        versions = self._list_installed_versions(kind)
        if config is None:
            return ConverterChoice(available=versions)
        connector_default = own_default if kind is Kind.CONVERTER else None
        default = self._find_class_or_none(
            self._get_worker_converter_class(name)
            if connector_default is None
            else connector_default,
            kind,
        )
        own = config.get(name)
        if own is None and connector_default is None:
            stated = self._worker.raw.get(plugin_recommenders.build_version_config_key(name))
            version = stated or (None if default is None else versions.get(default))
        else:
            chosen = default if own is None else self._find_class_or_none(own, kind)
            version = None if chosen is None else versions.get(chosen)
        return ConverterChoice(default=default, default_version=version, available=versions)

    def _get_worker_converter_class(self, name: str) -> str:
        """Return the class name of the worker's converter for this converter key."""
        match name:
            case plugin_recommenders.KEY_CONVERTER:
                return self._worker.key_converter
            case plugin_recommenders.VALUE_CONVERTER:
                return self._worker.value_converter
            case _:
                return self._worker.header_converter

    def _find_class_or_none(self, name: str, kind: Kind) -> type[Any] | None:
        try:
            return self._installed.find_plugin_class(name, kind)
        except ConfigError:
            return None

    def _list_installed_versions(self, kind: Kind) -> PluginVersions:
        return {
            self._installed.find_plugin_class(each.class_name, kind): each.version
            for each in self._installed.list_installed_plugins()
            if each.kind is kind
        }
