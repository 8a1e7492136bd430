"""Validates connector configurations and lists plugins and their keys, for the REST API.

Runs on the caller's thread and blocks while plugin code runs. An exception that a converter raises
is reported as an error of the configuration key that names the converter. Results contain the class
names shown to users, and `${…}` references instead of secrets. Java:
AbstractHerder.validateConnectorConfig, validateConverterConfig, connectorPluginConfig.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from connect_runtime.api import config_def, config_infos, config_types, converter
from connect_runtime.api.config_def import ConfigDef, ConfigKey, ConfigValue
from connect_runtime.api.config_infos import ConfigInfo, ConfigInfos, ConfigKeyInfo, ConfigValueInfo
from connect_runtime.api.config_types import Type
from connect_runtime.api.connector import (
    Connector,
    SinkConnector,
    SourceConnector,
    TransactionBoundaries,
)
from connect_runtime.api.converter import ConverterType
from connect_runtime.api.errors import ConfigError, ConnectError, NotFoundError
from connect_runtime.api.task import TransactionBoundary
from connect_runtime.config import connector_config, connector_config_keys
from connect_runtime.config.connector_config import ConfigValues, ConnectorProps
from connect_runtime.config.worker_config import DistributedConfig, WorkerConfig
from connect_runtime.herder.herder_interface import (
    ConnectorType,
    ConnectRestError,
    PluginInfo,
    PluginType,
)
from connect_runtime.plugins.plugin_aliases import PluginRegistry
from connect_runtime.storage.cluster_config_state import RawConfig
from connect_runtime.worker import plugin_instantiation, plugin_recommenders, plugin_versions
from connect_runtime.worker.config_provider_secret_masking import (
    HideValues,
    ProvidedValues,
    ResolveConfig,
)
from connect_runtime.worker.plugin_instantiation import InstalledPlugins
from connect_runtime.worker.plugin_recommenders import ConverterChoice

_CLASS_TYPE = Type.CLASS.value
_ALIAS_PREFIXES = ("transforms.", "predicates.")
"""Prefixes of configuration keys that continue with the alias of a transformation or predicate,
such as `transforms.ALIAS.type`."""
ClassNames = Mapping[str, str]
"""Maps each plugin's full Python class name to the class name shown to users (the Java class name
if the plugin has one)."""


def replace_class_names_in_defaults(
    infos: Sequence[ConfigKeyInfo], names: ClassNames
) -> tuple[ConfigKeyInfo, ...]:
    """Replace Python class names in the default values of config keys with the class names shown to
    users."""
    return tuple(_replace_class_name_in_default(each, names) for each in infos)


def redact_config_infos(
    infos: ConfigInfos,
    *,
    given: Mapping[str, str | None],
    resolved: Mapping[str, str | None],
    names: ClassNames,
    hide: HideValues,
) -> ConfigInfos:
    """Replace config provider values in validation results with their `${…}` references, and Python
    class names with the class names shown to users.

    `given` is the configuration with `${…}` references. `resolved` is the same configuration with
    each reference replaced by its value. `hide` replaces such values in a string with their
    references. It is applied to error messages and to key names that contain an alias.
    """
    hidden = {name for name, value in given.items() if value != resolved.get(name)}

    def redact_config_info(info: ConfigInfo) -> ConfigInfo:
        definition, value = info.definition, info.value
        if definition is not None and definition.type == _CLASS_TYPE:
            definition = _replace_class_name_in_default(definition, names)
            value = None if value is None else _replace_class_name_in_value(value, names)
        if value is not None and value.name in hidden:
            value = _redact_config_value(value, given[value.name])
        return _hide_provided_values(ConfigInfo(definition=definition, value=value), hide)

    return dataclasses.replace(
        infos,
        name=hide(infos.name) if CONNECTOR_CLASS_KEY in hidden else infos.name,
        configs=tuple(redact_config_info(each) for each in infos.configs),
    )


def _hide_provided_values(info: ConfigInfo, hide: HideValues) -> ConfigInfo:
    definition, value = info.definition, info.value
    if definition is not None:
        name = _hide_provided_values_in_alias(definition.name, hide)
        definition = dataclasses.replace(definition, name=name)
    if value is not None:
        errors = tuple(map(hide, value.errors))
        value = dataclasses.replace(
            value, name=_hide_provided_values_in_alias(value.name, hide), errors=errors
        )
    return ConfigInfo(definition=definition, value=value)


def _hide_provided_values_in_alias(name: str, hide: HideValues) -> str:
    """Hide config provider values in a key name that contains an alias of a transformation or
    predicate."""
    prefix = next((each for each in _ALIAS_PREFIXES if name.startswith(each)), None)
    return name if prefix is None else prefix + hide(name.removeprefix(prefix))


def _replace_class_name_in_value(value: ConfigValueInfo, names: ClassNames) -> ConfigValueInfo:
    name = _get_displayed_class_name(value.value, names)
    errors = value.errors
    if value.value is not None and name is not None:
        errors = tuple(each.replace(f"class {value.value} ", f"class {name} ") for each in errors)
    return dataclasses.replace(
        value,
        value=name,
        recommended_values=tuple(
            sorted(str(_get_displayed_class_name(each, names)) for each in value.recommended_values)
        ),
        errors=errors,
    )


def _redact_config_value(value: ConfigValueInfo, reference: str | None) -> ConfigValueInfo:
    message = (
        f"Invalid value {reference} for configuration {value.name}: the resolved value is not valid"
    )
    return dataclasses.replace(
        value,
        value=reference if value.value != config_types.HIDDEN_PASSWORD else value.value,
        errors=(message,) * len(value.errors),
    )


def _replace_class_name_in_default(info: ConfigKeyInfo, names: ClassNames) -> ConfigKeyInfo:
    if info.type != _CLASS_TYPE:
        return info
    return dataclasses.replace(
        info, default_value=_get_displayed_class_name(info.default_value, names)
    )


def _get_displayed_class_name(name: str | None, names: ClassNames) -> str | None:
    return None if name is None else names.get(name, name)


_LOG = logging.getLogger(__name__)
_CONVERTER_TYPES = {
    plugin_recommenders.HEADER_CONVERTER: ConverterType.HEADER,
    plugin_recommenders.KEY_CONVERTER: ConverterType.KEY,
    plugin_recommenders.VALUE_CONVERTER: ConverterType.VALUE,
}


def validate_converters(
    config: ConnectorProps,
    values: ConfigValues,
    *,
    plugins: InstalledPlugins,
) -> ConfigInfos:
    """Validate the converter keys, such as `key.converter`, and the settings of each converter,
    such as `key.converter.schemas.enable`. Errors of the converter keys themselves are added to
    `values`."""
    found = [
        _validate_converter(key, config, values=values, plugins=plugins)
        for key in plugin_instantiation.CONVERTER_KIND_BY_KEY
    ]
    return config_infos.merge_config_infos(
        "",
        [info for infos in found for info in infos.configs],
        groups=[group for infos in found for group in infos.groups],
    )


_NO_INFOS = config_infos.merge_config_infos("", [], groups=[])


def _validate_converter(
    key: str,
    config: ConnectorProps,
    *,
    values: ConfigValues,
    plugins: InstalledPlugins,
) -> ConfigInfos:
    version_key = plugin_recommenders.build_version_config_key(key)
    of = values[key].value
    wrong = values[key].error_messages or values[version_key].error_messages
    if config.get(key) is None or wrong or not isinstance(of, type):
        return _NO_INFOS
    name = plugins.get_displayed_class_name(of)
    try:
        instance = plugin_instantiation.instantiate_plugin(of, name)
    except ConnectError as error:
        connector_config.add_config_error(values, key, f"Failed to load class {name}: {error}")
        return _NO_INFOS
    try:
        if not _check_converter_version(instance, name, config=config, key=key, values=values):
            return _NO_INFOS
        return _get_converter_config_def(instance, key, config=config, values=values)
    finally:
        _close_converter(instance, name)


def _check_converter_version(
    instance: Any,
    name: str,
    *,
    config: ConnectorProps,
    key: str,
    values: ConfigValues,
) -> bool:
    version_key = plugin_recommenders.build_version_config_key(key)
    requested = config.get(version_key)
    try:
        mismatch = plugin_versions.explain_version_mismatch(
            name, requested, plugin_instantiation.list_plugin_versions(instance)
        )
    except ConfigError as error:
        connector_config.add_config_error(values, version_key, str(error))
        return False
    if mismatch is not None:
        connector_config.add_config_error(values, key, mismatch)
        connector_config.add_config_error(values, version_key, mismatch)
    return mismatch is None


def _get_converter_config_def(
    instance: Any, key: str, *, config: ConnectorProps, values: ConfigValues
) -> ConfigInfos:
    word = key.replace(".", " ")
    try:
        definition = plugin_instantiation.get_optional_config_def(instance)
    except ConnectError as error:
        connector_config.add_config_error(
            values, key, f"Failed to load ConfigDef from {word}: {error}"
        )
        return _NO_INFOS
    if definition is None:
        _LOG.warning("%s does not define its keys, so they are not validated", word)
        return _NO_INFOS
    try:
        return plugin_instantiation.call_plugin(
            instance, "config", lambda: _validate_converter_config(definition, key, config)
        )
    except ConnectError as error:
        message = f"Failed to perform config validation for {word}: {error}"
        connector_config.add_config_error(values, key, message)
        return _NO_INFOS


def _validate_converter_config(
    definition: ConfigDef, key: str, config: Mapping[str, str | None]
) -> ConfigInfos:
    prefix = f"{key}."
    own = {
        converter.TYPE_CONFIG: _CONVERTER_TYPES[key].value,
        **config_def.with_prefix(config, prefix),
    }
    infos = [
        _build_prefixed_config_info(definition.keys.get(value.name), value, prefix)
        for value in definition.validate(own)
    ]
    return config_infos.merge_config_infos("", infos, groups=definition.groups)


def _build_prefixed_config_info(
    key: ConfigKey | None, value: ConfigValue, prefix: str
) -> ConfigInfo:
    of: Type | None = None if key is None else key.type
    return ConfigInfo(
        definition=None if key is None else config_infos.build_key_info(key, prefix=prefix),
        value=config_infos.build_value_info(value, of, prefix=prefix),
    )


def _close_converter(instance: Any, name: str) -> None:
    try:
        instance.close()
    except BaseException as error:  # noqa: BLE001 - of a plugin that is no longer needed
        _LOG.warning(
            "failed to close %s after its validation: %s",
            name,
            plugin_instantiation.get_error_message(error),
        )


CONNECTOR_CLASS_KEY = "connector.class"
_TRANSACTION_BOUNDARY_KEY = "transaction.boundary"
_BAD_REQUEST_STATUS = 400

_Result = TypeVar("_Result")


class ConnectorValidator:
    """Validates connector configurations of a worker. Thread-safe."""

    def __init__(
        self,
        *,
        installed: PluginRegistry,
        worker: WorkerConfig,
        resolve: ResolveConfig,
    ) -> None:
        self._installed = installed
        self._plugins = InstalledPlugins(installed, worker=worker)
        self._worker = worker
        self._resolve = resolve

    def plugins(self) -> tuple[PluginInfo, ...]:
        """Return the installed plugins.

        The first call instantiates plugins to read their versions.
        """
        return tuple(
            PluginInfo(
                class_name=each.class_name,
                type=PluginType(each.kind.value),
                version=each.version,
            )
            for each in self._installed.list_installed_plugins()
        )

    def connector_type(self, config: RawConfig | None) -> ConnectorType:
        """Return whether the configuration's `connector.class` is a source or sink connector, or
        UNKNOWN. Never raises."""
        name = None if config is None else config.get(CONNECTOR_CLASS_KEY)
        if name is None:
            return ConnectorType.UNKNOWN
        try:
            of = self._plugins.find_plugin_class(name, *plugin_instantiation.CONNECTOR_KINDS)
        except ConfigError:
            return ConnectorType.UNKNOWN
        sink = issubclass(of, SinkConnector)
        return ConnectorType.SINK if sink else ConnectorType.SOURCE

    def connector_plugin_config(
        self, plugin: str, version: str | None
    ) -> tuple[ConfigKeyInfo, ...]:
        """Return the plugin's config keys: its own first, then the keys that all connectors
        share."""
        try:
            of = self._plugins.find_plugin_class(plugin)
        except ConfigError:
            raise NotFoundError(f"Unknown plugin {plugin}.") from None
        return _raise_as_rest_error(lambda: self._get_plugin_config_keys(of, version))

    def _get_plugin_config_keys(
        self, of: type[Any], version: str | None
    ) -> tuple[ConfigKeyInfo, ...]:
        name = self._plugins.get_displayed_class_name(of)
        instance = plugin_instantiation.instantiate_plugin(of, name)
        plugin_instantiation.check_plugin_version(instance, name, version)
        definition = plugin_instantiation.get_config_def(instance)
        keys = dict(definition.keys)
        if isinstance(instance, Connector):
            base = plugin_recommenders.enrich_config_def(
                _get_base_config_def(instance),
                connector_version=next(
                    iter(plugin_instantiation.list_plugin_versions(instance)), None
                ),
                choices=self._plugins.get_converter_choices(),
            )
            keys = {**keys, **{name: key for name, key in base.keys.items() if name not in keys}}
        infos = plugin_instantiation.call_plugin(
            instance, "config", lambda: [config_infos.build_key_info(key) for key in keys.values()]
        )
        return replace_class_names_in_defaults(infos, self._plugins.map_displayed_class_names())

    def validate_connector_config(self, config: RawConfig) -> ConfigInfos:
        """Validate a connector configuration.

        Raises `ConnectRestError` 400 if the connector class cannot be used.
        """
        provided = ProvidedValues(self._resolve)
        try:
            return _raise_as_rest_error(
                lambda: self._resolve_and_validate_config(config, provided),
                hide=provided.hide_provided_values,
            )
        except ConnectError as error:
            shown = provided.hide_provided_values_in_error(error)
            raise shown from shown.__cause__

    def _resolve_and_validate_config(
        self, config: RawConfig, provided: ProvidedValues
    ) -> ConfigInfos:
        resolved = dict(provided.resolve_config(config))
        name = resolved.get(CONNECTOR_CLASS_KEY)
        if name is None:
            raise ConfigError(
                f"Connector config {{{', '.join(config)}}} contains no connector type"
            )
        made = plugin_instantiation.instantiate_plugin(
            self._plugins.find_plugin_class(name, *plugin_instantiation.CONNECTOR_KINDS),
            f"connector {name}",
        )
        one = _ConnectorConfigValidator(made, resolved, plugins=self._plugins, worker=self._worker)
        return redact_config_infos(
            one.validate_config(name),
            given=config,
            resolved=resolved,
            names=self._plugins.map_displayed_class_names(),
            hide=provided.hide_provided_values,
        )


class _ConnectorConfigValidator:
    """Validates one connector configuration."""

    def __init__(
        self,
        made: Connector,
        config: ConnectorProps,
        *,
        plugins: InstalledPlugins,
        worker: WorkerConfig,
    ) -> None:
        self._made = made
        self._config = config
        self._plugins = plugins
        self._worker = worker
        self._sink = isinstance(made, SinkConnector)
        self._versions = plugin_instantiation.list_plugin_versions(made)

    def validate_config(self, name: str) -> ConfigInfos:
        mismatch = plugin_versions.explain_version_mismatch(
            self._plugins.get_displayed_class_name(type(self._made)),
            self._config.get(plugin_recommenders.CONNECTOR_VERSION),
            self._versions,
        )
        if mismatch is not None:
            return self._validate_common_keys(name, mismatch)
        default = plugin_instantiation.get_default_converter(self._made)
        choices = self._plugins.get_converter_choices(self._config, default=default)
        definition = self._enrich_config_def(_get_base_config_def(self._made), choices)
        values = definition.validate_all(self._config, load=self._plugins.load_class)
        self._check_cross_key_rules(values)
        converters = validate_converters(self._config, values, plugins=self._plugins)
        overrides = connector_config.check_client_overrides(
            self._worker, self._config, sink=self._sink
        )
        own = self._validate_with_connector(name, definition, values)
        return config_infos.merge_config_infos(
            name,
            [*own.configs, *overrides, *converters.configs],
            groups=[*own.groups, *converters.groups],
        )

    def _validate_common_keys(self, name: str, mismatch: str) -> ConfigInfos:
        """Validate only the keys that all connectors share, because the installed connector version
        does not match the requested one (`mismatch` is the error message)."""
        definition = self._enrich_config_def(
            connector_config_keys.CONNECTOR, self._plugins.get_converter_choices()
        )
        values = definition.validate_all(self._config, load=self._plugins.load_class)
        for key in (CONNECTOR_CLASS_KEY, plugin_recommenders.CONNECTOR_VERSION):
            connector_config.add_config_error(values, key, mismatch)
        connector_config.check_null_values(values, self._config)
        return config_infos.build_config_infos(
            name, definition.keys, values=list(values.values()), groups=definition.groups
        )

    def _enrich_config_def(
        self, base: ConfigDef, choices: Mapping[str, ConverterChoice]
    ) -> ConfigDef:
        version = next(iter(self._versions), None)
        return plugin_recommenders.enrich_config_def(
            base, connector_version=version, choices=choices
        )

    def _check_cross_key_rules(self, values: ConfigValues) -> None:
        """Run the checks that involve more than one configuration key."""
        worker, config = self._worker, self._config
        if self._sink:
            connector_config.check_sink_topic_settings(values, config)
        if isinstance(worker, DistributedConfig):
            if self._sink:
                connector_config.check_consumer_group(values, config, worker_group=worker.group_id)
            else:
                self._check_transaction_boundary(values)
        connector_config.check_unsupported_settings(
            values, config, self_applied_keys=self._made.self_applied_keys
        )
        connector_config.check_token_endpoints(values, config, worker)
        connector_config.check_null_values(values, config)

    def _check_transaction_boundary(self, values: ConfigValues) -> None:
        found = values[_TRANSACTION_BOUNDARY_KEY]
        by_connector = TransactionBoundary.CONNECTOR.value
        if found.error_messages or str(found.value).lower() != by_connector.lower():
            return
        made = self._made
        assert isinstance(made, SourceConnector), made
        try:
            can = plugin_instantiation.call_plugin(
                made,
                "can_define_transaction_boundaries",
                lambda: made.can_define_transaction_boundaries(self._get_plugin_props()),
            )
        except ConnectError as error:
            message = f"An unexpected error occurred during validation: {error}"
            connector_config.add_config_error(values, _TRANSACTION_BOUNDARY_KEY, message)
            return
        if can is not TransactionBoundaries.SUPPORTED:
            connector_config.add_config_error(
                values,
                _TRANSACTION_BOUNDARY_KEY,
                "The connector does not support connector-defined transaction boundaries with the"
                " given configuration. Please reconfigure it to use a different transaction"
                " boundary definition.",
            )

    def _validate_with_connector(
        self, name: str, definition: ConfigDef, values: ConfigValues
    ) -> ConfigInfos:
        """Call the connector's own `validate` method and return its results combined with
        `values`."""
        own = plugin_instantiation.get_config_def(self._made)
        found = plugin_instantiation.validate_connector_config(self._made, self._get_plugin_props())
        collect = functools.partial(
            config_infos.build_config_infos,
            name,
            {**definition.keys, **own.keys},
            values=[*values.values(), *found],
            groups=[*definition.groups, *own.groups],
        )
        return plugin_instantiation.call_plugin(self._made, "validate", collect)

    def _get_plugin_props(self) -> dict[str, str]:
        """Return the configuration that is passed to the plugin, without null values."""
        return {name: value for name, value in self._config.items() if value is not None}


def _get_base_config_def(of: Connector) -> ConfigDef:
    sink = isinstance(of, SinkConnector)
    return connector_config_keys.SINK if sink else connector_config_keys.SOURCE


def _raise_as_rest_error(work: Callable[[], _Result], *, hide: HideValues = str) -> _Result:
    """Call `work` and return its result. If it raises a `ConfigError`, raise a `ConnectRestError`
    with status 400 instead. `hide` replaces config provider values in the error message."""
    try:
        return work()
    except ConfigError as error:
        raise ConnectRestError(_BAD_REQUEST_STATUS, hide(str(error))) from None
